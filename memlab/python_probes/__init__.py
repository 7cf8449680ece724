"""The probes that need no nanosecond: one module is one probe, and the folder is the registry.

A module has the same contract as a C probe. `Params` is a frozen dataclass of int, bool and str;
`measure(params)` returns the result as plain data, with what `memlab.probe.Window` measured as
"window". A failure is `memlab.probe.Failed`, or an OSError as it comes. The module runs in the
worker of one trial, and whatever it starts must end with that process.
"""
