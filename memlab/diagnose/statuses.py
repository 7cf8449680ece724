"""Some numbers of /proc/PID/status, and of namespaces, of each of many processes. statuses.c reads
them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path

from memlab.diagnose import ticks
from memlab.observe.proc import ROOT

UNREAD = -2


def read(
    pids: Sequence[int], names: Sequence[bytes], root: Path = ROOT
) -> Iterator[tuple[int | None, ...] | None]:
    """Of each process the numbers of these lines as they are, None without such a line; None of one
    that has gone or may not be read."""
    for row in zip(*columns(pids, names, root), strict=True):
        yield None if row[0] == UNREAD else tuple(n if n >= 0 else None for n in row)


def columns(pids: Sequence[int], names: Sequence[bytes], root: Path = ROOT) -> list[list[int]]:
    """Of each line the numbers of all processes: below 0 without such a line, `UNREAD` of a process
    that has gone or may not be read."""
    numbers = (ctypes.c_longlong * (len(pids) * len(names)))()
    wanted = (ctypes.c_char_p * len(names))(*(b"\n" + name + b":" for name in names))
    each = (ctypes.c_int * len(pids))(*pids)
    folder = str(root / "proc").encode()
    if ticks.library().statuses(folder, each, len(pids), wanted, len(names), numbers):
        raise MemoryError
    return [numbers[at :: len(names)] for at in range(len(names))]


def namespaces(pids: Sequence[int], name: str, root: Path = ROOT) -> list[int | None]:
    """The number of a namespace of each process, as `ipc`; None of one that may not be read."""
    numbers = (ctypes.c_longlong * len(pids))()
    each = (ctypes.c_int * len(pids))(*pids)
    folder, link = str(root / "proc").encode(), f"ns/{name}".encode()
    if ticks.library().namespaces(folder, each, len(pids), link, numbers):
        return [None] * len(pids)
    return [None if one == UNREAD else one for one in numbers]
