"""An independent reference for scripts of memory calls: ctypes, and /proc/self/smaps by hand.

A script runs in a forked process of its own, on pages that are reserved first, as a probe's are.
"""

import ctypes
import faulthandler
import os
import pickle
import resource
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from memlab.experiment import Step

PAGE = os.sysconf("SC_PAGE_SIZE")
RESERVED = 32  # pages
PR_SET_THP_DISABLE = 41  # prctl(2)
SYS_MEMFD_SECRET, SYS_MSEAL = 447, 462  # the same numbers on all architectures
SYS_MLOCK2 = {"x86_64": 325, "aarch64": 284}.get(os.uname().machine, 0)
IN_FILE, WRITTEN = 5, 7  # the bytes of a file's pages, and of those that are filled

_libc = ctypes.CDLL(None, use_errno=True)
_LONG, _INT = ctypes.c_long, ctypes.c_int
_libc.mmap.restype = _LONG
_libc.mmap.argtypes = [_LONG, _LONG, _INT, _INT, _INT, _LONG]
_libc.syscall.argtypes = [_LONG, _LONG, _LONG, _LONG]


class View(NamedTuple):
    """The pages: VMAs, those with lo, those with lf, pages present, locked, marked as free."""

    vmas: int
    lo: int
    lf: int
    rss: int
    locked: int
    lazy_free: int


class Pages:
    """RESERVED pages without access, and what is done to them."""

    def __init__(self) -> None:
        _libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
        self.file = -1  # the one that was mapped last
        # The first one stays as it is: what Python maps next may lie right below it, and merge.
        self.start = PAGE + _libc.mmap(0, (1 + RESERVED) * PAGE, 0, 0x4022, -1, 0)  # MAP_NORESERVE

    def play(self, steps: Sequence[Step]) -> int:
        """The errno of the last step, or 0."""
        failed = 0
        for step in steps:
            ctypes.set_errno(0)
            failed = ctypes.get_errno() if self._do(**step) == -1 else 0
        return failed

    def _do(
        self, call: str, first: int = 0, count: int = 0, prot: int = 0, flags: int = 0
    ) -> int | None:
        at, size = self.start + first * PAGE, count * PAGE
        address, length = _LONG(at), _LONG(size)
        if call == "mmap":
            return self._map(at, size, prot, flags)
        if call == "read_file":
            return min(len(os.pread(self.file, PAGE, page * PAGE)) for page in range(count))
        if call in ("munmap", "mlock", "munlock"):
            return getattr(_libc, call)(address, length)
        if call in ("mprotect", "madvise"):
            return getattr(_libc, call)(address, length, prot or flags)
        if call == "mseal":
            return _libc.syscall(SYS_MSEAL, at, size, 0)
        if call == "mmap_secret":
            fd = _libc.syscall(SYS_MEMFD_SECRET, 0, 0, 0)
            os.ftruncate(fd, size)
            return _libc.mmap(at, size, 3, 0x11, fd, 0)  # to read and write, MAP_SHARED | MAP_FIXED
        if call == "mlock_unaligned":
            return _libc.mlock(_LONG(at + 1), length)
        if call == "mlock_onfault":
            return _libc.syscall(SYS_MLOCK2, at, size, 1)
        if call in ("mlockall", "munlockall"):
            return getattr(_libc, call)(flags)
        if call == "fill_in_child":
            child = os.fork()
            if child == 0:
                ctypes.memset(at, WRITTEN, size)
                os._exit(0)
            return os.waitpid(child, 0)[1]
        if call == "fill":
            return ctypes.memset(at, WRITTEN, size) and None
        for page in range(at, at + size, PAGE):
            if call == "store":
                ctypes.memset(page, 1, 1)
            elif call == "load":
                ctypes.string_at(page, 1)
            else:
                raise ValueError(f"no plain call {call!r}")
        return 0

    def _map(self, at: int, size: int, prot: int, flags: int) -> int:
        fd = -1
        if not flags & 0x20:  # MAP_ANONYMOUS
            fd = self.file = os.memfd_create("plain")
            os.write(fd, bytes([IN_FILE]) * size)
        return _libc.mmap(at, size, prot, flags | 0x10, fd, 0)  # MAP_FIXED

    def second_bytes(self, first: int, count: int) -> list[int]:
        """Of each page, the byte behind the one that a touch changes."""
        pages = range(first, first + count)
        return [ctypes.string_at(self.start + page * PAGE + 1, 1)[0] for page in pages]

    def view(self) -> View:
        vmas = []
        with open("/proc/self/smaps") as lines:
            for line in lines:
                if line[0] in "0123456789abcdef":
                    ends, access = line.split()[:2]
                    low, high = (int(end, 16) for end in ends.split("-"))
                    inside = low < self.start + RESERVED * PAGE and high > self.start
                    vma: dict[str, str] = {"LazyFree": "0 kB"}
                    if inside and access != "---p":
                        vmas.append(vma)
                else:
                    name, _, value = line.partition(":")
                    vma[name] = value
        flags = [sum(flag in vma["VmFlags"].split() for vma in vmas) for flag in ("lo", "lf")]
        names = ("Rss", "Locked", "LazyFree")
        kib = [sum(int(vma[name].split()[0]) for vma in vmas) for name in names]
        return View(len(vmas), *flags, *(amount * 1024 // PAGE for amount in kib))


def in_child(do: Callable[[Pages], Any]) -> Any:
    """What `do` returns; or the negative number of the signal that ends its process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # a signal may be the answer, and leaves no core
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # MADV_FREE's marks wait in a batch of their CPU (mm/swap.c, folio_mark_lazyfree), and
        # MADV_PAGEOUT completes that of its own CPU only: on another one it would keep the pages.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        try:
            os.write(writing, pickle.dumps(do(Pages())))
        except BaseException:  # the rest of the tests' own process is not to run twice
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return pickle.loads(text) if text else code


def seen(view: dict[str, Any], page_bytes: int) -> View:
    """The same of a probe's view."""
    counts = [view[f"{kind}vma_count"] for kind in ("", "locked_", "lockonfault_")]
    sizes = [view[f"{kind}_bytes"] // page_bytes for kind in ("rss", "locked", "lazy_free")]
    return View(*counts, *sizes)
