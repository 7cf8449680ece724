"""A live process, read with what the experiments taught, and never stopped.

`look` reads /proc and counts events between two moments, `rules` holds what is worth saying of
what was seen, `finding` ranks it. Nothing is attached that stops the process: no ptrace(2).
"""
