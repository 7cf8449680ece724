"""One measurement at a time on one machine: two would measure each other."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

# An abstract address (unix(7)): the kernel drops it with its holder, however that ends.
_ADDRESS = "\0memlab-measures"


class Busy(Exception):
    """Another memlab measures on this machine."""


@contextmanager
def alone() -> Iterator[None]:
    """Hold the machine for measuring; Busy, with the holder's pid, if another has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(_ADDRESS)
            lock.listen()
        except OSError:
            raise Busy(
                f"another memlab measures on this machine ({_holder()}); wait until it is done"
            ) from None
        yield


def _holder() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(_ADDRESS)
        except OSError:
            return "it is about to end"
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, _, _ = struct.unpack("3i", credentials)
    return f"pid {pid}"
