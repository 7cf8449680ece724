"""A BPF map of a known size (bpf(2)), by the system call itself."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from memlab.observe import system_calls


@contextmanager
def opened(entries: int) -> Iterator[int]:
    """Its descriptor; of 4 KiB for each entry. OSError if it may not be made."""
    about = struct.pack("=IIIII", 2, 4, 4096, entries, 0).ljust(128, b"\0")  # an array
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(system_calls.NUMBERS["bpf"], 0, about, len(about))  # BPF_MAP_CREATE
    if fd < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    try:
        yield fd
    finally:
        os.close(fd)
