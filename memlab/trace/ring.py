"""The buffer that a recorded command's allocations come by (shim.h): memory that it shares with the
recorder, and may write anything to. Its size is sealed."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from memlab.errors import CannotRun

_HEAD_BYTES, _RECORD_BYTES = 192, 32  # of struct shim_ring, struct shim_record
_CLOSED_AT = 136


@dataclass(frozen=True, slots=True)
class AllocationRing:
    """An open one. `environ` names it to the library that is preloaded."""

    file: int

    @property
    def environ(self) -> Mapping[str, str]:
        return {"MEMLAB_ALLOCATIONS": f"/proc/{os.getpid()}/fd/{self.file}"}

    def close_to_writers(self) -> None:
        """Nobody reads it any more: no program is to wait for room in it."""
        with mmap.mmap(self.file, mmap.PAGESIZE) as head:
            struct.pack_into("=Q", head, _CLOSED_AT, 1)


@contextmanager
def opened(bytes: int) -> Iterator[AllocationRing]:
    """A new one with room for so many bytes of records. CannotRun where there is no room for it."""
    result = os.memfd_create("memlab-allocations", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        try:
            os.ftruncate(result, _HEAD_BYTES + bytes // _RECORD_BYTES * _RECORD_BYTES)
        except OSError as error:
            raise CannotRun(
                f"the buffer for allocations, of {bytes} bytes, cannot be made: {error.strerror}; "
                "name a smaller --buffer, or raise `ulimit -f`"
            ) from None
        fcntl.fcntl(result, fcntl.F_ADD_SEALS,
                    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)  # fmt: skip
        yield AllocationRing(result)
    finally:
        os.close(result)
