"""A virtual machine that boots this host's own root, read-only, under another kernel.

It sweeps as this host would, with the same driver, and its rows come over a port of its own, as
those of another host come by ssh. What takes numpy is asked of the host: which points the claims,
or a precision, still need.
"""
