"""The numbers and layouts of tracepoints, from tracefs, which need not be mounted.

Where it is not, the kernel is asked for an instance that is attached to no place: fsopen(2) and
fsmount(2), Linux 5.2, CAP_SYS_ADMIN. It goes when its descriptor is closed; no other process ever
sees it.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memlab.observe import proc

_PLACES = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
# The same numbers on every architecture: they were given out after the tables were joined.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CMD_CREATE = 6  # FSCONFIG_CMD_CREATE, include/uapi/linux/mount.h
_CLOEXEC = 1
_READ_BYTES = 1 << 16
# field:unsigned long args[6];	offset:16;	size:48;	signed:0;
_FIELD = re.compile(r"field:([^;]{1,256});\s*offset:(\d+);\s*size:(\d+);")


def _name(declaration: str) -> str:
    """`args` of ``unsigned long args[6]``."""
    name = declaration.rpartition("[")[0] if declaration.endswith("]") else declaration
    return name.split()[-1].lstrip("*") if name.split() else declaration


class TraceEvents:
    """The tracepoints of this kernel by name."""

    def __init__(self, directory: int) -> None:
        self._directory = directory

    def number(self, event: str) -> int:
        """The number of ``tlb:tlb_flush``; raises `FileNotFoundError` where there is none."""
        return int(self._text(event, "id"))

    def fields(self, event: str) -> dict[str, tuple[int, int]]:
        """The offset and size of each field of an event, by name, in bytes."""
        result = _FIELD.findall(self._text(event, "format"))
        return {_name(text): (int(offset), int(size)) for text, offset, size in result}

    def _text(self, event: str, file: str) -> str:
        return self._read(f"events/{event.replace(':', '/')}/{file}")

    def _read(self, path: str) -> str:
        """`open` would make eight calls for one: a look reads some 40 files."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)
        try:
            return b"".join(iter(lambda: os.read(fd, _READ_BYTES), b"")).decode()
        finally:
            os.close(fd)


@contextmanager
def opened(root: Path = proc.ROOT) -> Iterator[TraceEvents]:
    """Raises `OSError` where tracefs may not be read."""
    directory = _directory(root)
    try:
        yield TraceEvents(directory)
    finally:
        os.close(directory)


def _directory(root: Path) -> int:
    for place in _PLACES:
        with suppress(FileNotFoundError):
            if (root / place / "events").is_dir():
                return os.open(root / place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return _attached_nowhere()


def _attached_nowhere() -> int:
    context = _call(_FSOPEN, ctypes.c_char_p(b"tracefs"), ctypes.c_long(_CLOEXEC))
    try:
        nothing = ctypes.c_void_p(None)
        _call(_FSCONFIG, ctypes.c_long(context), ctypes.c_long(_CMD_CREATE), nothing, nothing,
              ctypes.c_long(0))  # fmt: skip
        return _call(_FSMOUNT, ctypes.c_long(context), ctypes.c_long(_CLOEXEC), ctypes.c_long(0))
    finally:
        os.close(context)


def _call(number: int, *arguments: ctypes.c_char_p | ctypes.c_void_p | ctypes.c_long) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"tracefs: {os.strerror(error)}")
    return result
