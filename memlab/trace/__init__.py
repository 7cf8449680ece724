"""Recorded traces: what a program did with its address space, as a file that can be tried.

The C of it is in trace/: `record.c` writes one, `account.c` reads one, `replay.c` does one again.
"""
