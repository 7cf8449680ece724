"""The limits of this process behind an error or a signal that names none."""

from __future__ import annotations

import errno
import resource
import signal

from memlab.text import units


def of_file(beyond_bytes: int = 0) -> str:
    """How large a file may be, and what raises that; empty without a limit, and if it is not below
    this length."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY or 0 < beyond_bytes <= limit:
        return ""
    return f"RLIMIT_FSIZE is {units.format_quantity(limit, 'B')}: raise it (ulimit -f, LimitFSIZE=)"


def behind(error: int | None) -> str:
    """The limit behind an errno; empty of any other."""
    if error == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"RLIMIT_NOFILE is {limit:,}: raise it (ulimit -n, LimitNOFILE=)"
    return of_file() if error == errno.EFBIG else ""


def that_sends(number: int) -> str:
    """The limit that sends a signal, if this process has it."""
    if number == signal.SIGXFSZ:
        return of_file()
    limit = resource.getrlimit(resource.RLIMIT_CPU)[0]
    if number != signal.SIGXCPU or limit == resource.RLIM_INFINITY:
        return ""
    return f"RLIMIT_CPU is {limit:,} s: raise it (ulimit -t, LimitCPU=)"
