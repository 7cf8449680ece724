"""A virtual machine that boots this host's own root, read-only, under another kernel.

The host keeps the plan, the order, the stop rule and the store; the guest runs the trials, with
the same executor and workers as the host would, and answers over a port of its own.
"""
