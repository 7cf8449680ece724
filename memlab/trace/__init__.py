"""Recorded traces: what a program did with its address space, as a file that can be tried.

In C, beside this: `record.c` writes one, `account.c` reads one, `replay.c` does one again.
"""
