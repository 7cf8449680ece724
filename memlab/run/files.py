"""The file a trial works on, brought into its state. Runs in the worker: standard library only.

A file in the page cache is made once a block and shared by all points of that state, since
making it costs more than measuring it. A state that the window itself uses up (empty, sparse,
preallocated) is made again for each trial, and of trials that take turns each has one.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Mapping
from typing import Any

KIB, MIB = 2**10, 2**20
FRESH = frozenset({"sparse", "preallocated", "empty"})  # used up by one trial
PIECE_BYTES = {"cached_4k": 4 * KIB, "cached_1m": MIB, "dropped": MIB}
PATTERN = bytes(range(1, 252))  # 251 is prime: no page looks like the one before it


def prepare(file: Mapping[str, Any]) -> None:
    """Make `file["path"]` of `file["size_bytes"]` bytes in `file["state"]`. Its trial is timed,
    unless `file["timed"]` is false; if `file["turns"]` is true, it is one of several that take
    turns, for all of which memory was recycled. OSError on failure."""
    path, state, size = file["path"], file["state"], int(file["size_bytes"])
    turns = file.get("turns", False)
    if state in FRESH:
        if file.get("timed", True) and not turns:
            recycle_memory(size)
        _make_fresh(path, state, size)
        return
    if not os.path.exists(path):  # noqa: PTH110 - pathlib is not worth its import here
        _write_out(path, size, PIECE_BYTES[state], to_disk=state == "dropped")
        if turns:
            _read_twice(path)
    if state == "dropped":
        recycle_memory(size)
        _drop(path)


def give_back(file: Mapping[str, Any]) -> None:
    """Return the pages of a used-up file to the kernel, on the CPU that measured.

    They stay in that CPU's own lists, and the next trial there is served them. If another CPU gives
    them back, as the server's unlink does, they are free blocks. A hypervisor that reclaims memory
    takes those away every two seconds, and the next store into a mapping is 3 times slower.
    """
    if file["state"] not in FRESH:
        return
    with contextlib.suppress(FileNotFoundError):  # a probe may have removed it
        fd = os.open(file["path"], os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.ftruncate(fd, 0)
        finally:
            os.close(fd)


def recycle_memory(size: int) -> None:
    """Take and give back memory, so that the trial is served pages that the guest holds.

    A hypervisor that reclaims free pages makes the first touch of idle memory several times
    slower (free page reporting, virtio-balloon); the trial would time the hypervisor.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, size, flags=flags).close()


def _make_fresh(path: str, state: str, size: int) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        if state == "preallocated":
            os.posix_fallocate(fd, 0, size)
        elif state == "sparse":
            os.ftruncate(fd, size)
    finally:
        os.close(fd)


def _write_out(path: str, size: int, piece_bytes: int, *, to_disk: bool) -> None:
    """Write a file in pieces; their size decides the folios of its page cache.

    A cached file is left to the kernel to write back. It lives for one block, mostly less than
    the 30 s after which that begins (vm.dirty_expire_centisecs), so the disk stays out of it.
    """
    part = path + ".part"
    piece = (PATTERN * (piece_bytes // len(PATTERN) + 1))[:piece_bytes]
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        rest = size
        while rest:
            rest -= os.write(fd, piece[:rest] if rest < piece_bytes else piece)
        if to_disk:
            os.fsync(fd)
    except OSError:
        os.unlink(part)  # noqa: PTH108
        raise
    finally:
        os.close(fd)
    os.rename(part, path)  # noqa: PTH104 - whole or not there


def _read_twice(path: str) -> None:
    """Have all pages on the kernel's active list, as those of a file are that others have used:
    the access that moves a page there costs more than a call (folio_mark_accessed; 150 ns)."""
    piece = bytearray(MIB)
    fd = os.open(path, os.O_RDONLY)
    try:
        for _ in range(2):
            os.lseek(fd, 0, os.SEEK_SET)
            while os.readv(fd, [piece]):
                pass
    finally:
        os.close(fd)


def _drop(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
