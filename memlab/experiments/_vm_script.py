"""Scripts of memory calls, as probes/support/vm_script.h plays them: steps, and their words."""

import errno
from collections.abc import Sequence
from enum import IntEnum, IntFlag

from memlab.experiment import *


# The values are those of include/uapi/asm-generic/mman-common.h and mman.h.
class Prot(IntFlag):
    READ = 1
    WRITE = 2
    EXEC = 4


class Map(IntFlag):
    SHARED = 1
    PRIVATE = 2
    DROPPABLE = 8
    ANONYMOUS = 0x20
    LOCKED = 0x2000


class Mcl(IntFlag):
    CURRENT = 1
    FUTURE = 2
    ONFAULT = 4


class Madv(IntEnum):
    DONTNEED = 4
    FREE = 8
    COLD = 20
    PAGEOUT = 21
    POPULATE_READ = 22
    POPULATE_WRITE = 23
    DONTNEED_LOCKED = 24
    GUARD_INSTALL = 102
    GUARD_REMOVE = 103


READ_WRITE = Prot.READ | Prot.WRITE
ANONYMOUS = Map.PRIVATE | Map.ANONYMOUS
DROPPABLE = Map.DROPPABLE | Map.ANONYMOUS
_RANGE = ("first", "count")

# Without Map.ANONYMOUS it maps a file of tmpfs, with bytes of its own on each page.
mmap = Call(
    "mmap",
    "mmap({range}, {prot}, {map})",
    (*_RANGE, "prot", "flags"),
    {"prot": READ_WRITE, "flags": ANONYMOUS},
)
mmap_secret = Call("mmap_secret", "mmap({range}, MAP_SHARED) of memfd_secret()", _RANGE)
munmap = Call("munmap", "munmap({range})", _RANGE)
mprotect = Call("mprotect", "mprotect({range}, {prot})", (*_RANGE, "prot"))
madvise = Call("madvise", "madvise({range}, {madv})", (*_RANGE, "flags"))
mseal = Call("mseal", "mseal({range})", _RANGE)
mlock = Call("mlock", "mlock({range})", _RANGE)
mlock_onfault = Call("mlock_onfault", "mlock2({range}, MLOCK_ONFAULT)", _RANGE)
mlock_unaligned = Call("mlock_unaligned", "mlock(1 byte after {range})", _RANGE)
mlock_alternate = Call("mlock_alternate", "mlock() of every other page of ({range})", _RANGE)
munlock = Call("munlock", "munlock({range})", _RANGE)
mlockall = Call("mlockall", "mlockall({mcl})", ("flags",))
munlockall = Call("munlockall", "munlockall()")
store = Call("store", "write to each page of ({range})", _RANGE)
load = Call("load", "read from each page of ({range})", _RANGE)
load_unhandled = Call("load_unhandled", f"{load.words} with no handler of SIGSEGV", _RANGE)
fill = Call("fill", "fill each page of ({range})", _RANGE)
limit = Call("limit", "drop CAP_IPC_LOCK, setrlimit(RLIMIT_MEMLOCK, {count} pages)", ("count",))
use_up_vmas = Call("use_up_vmas", "map vm.max_map_count VMAs, less {count} pairs", ("count",))
fork = Call("fork", "fork(), seen in the parent")
fill_in_child = Call("fill_in_child", f"fork(), {fill.words} in the child", _RANGE)
read_file = Call("read_file", "read({count} pages of the mapped file)", ("count",))
in_child = Call("in_child", "fork(), seen in the child")
mmap_in_child = Call("mmap_in_child", "fork(), mmap({range}) in the child, seen there", _RANGE)
in_thread = Call("in_thread", "pthread_create(), seen in the thread")
thread_stack = Call("thread_stack", "pthread_create(), its stack")

CALLS = {call.name: call for call in globals().values() if isinstance(call, Call)}


def _names(prefix: str, flags: IntFlag) -> str:
    """As strace(1) prints them: MCL_CURRENT | MCL_FUTURE; PROT_NONE where there is none; a bit that
    has no name as a number."""
    named = [flag for flag in type(flags) if flag in flags]
    unknown = int(flags) & ~sum(named)
    parts = [f"{prefix}_{flag.name}" for flag in named] + ([hex(unknown)] if unknown else [])
    return " | ".join(parts) or f"{prefix}_NONE"


def words(step: Step) -> str:
    """A step that a probe returned, as strace(1) would print the call."""
    first, count, prot, flags = (step[name] for name in ("first", "count", "prot", "flags"))
    return CALLS[step["call"]].words.format(
        range=f"start + {first} pages, {count} pages",
        count=count,
        prot=_names("PROT", Prot(prot)),
        map=_names("MAP", Map(flags)),
        mcl=_names("MCL", Mcl(flags)),
        madv="".join(f"MADV_{advice.name}" for advice in Madv if advice == flags),
    )


def steps(raw: Raw) -> list[str]:
    """The steps that were done, a line each; up to memlab 0.1 the probe returned lines."""
    done = raw["steps"]
    if isinstance(done, str):
        return done.splitlines()
    return [words(step) for step in done if step["call"] != "end"]


def smaps(raw: Raw, side: str) -> str:
    return raw[side]["smaps"].rstrip() or "(no mapping with access)"


def call_evidence(raw: Raw, lines: Sequence[str]) -> str:
    """The calls, what the last one returned, and the range's lines of smaps around it."""
    number = raw["call_errno"]
    *lead, checked = lines
    ended = f"-1 {errno.errorcode.get(number, number)}" if number else "0"
    return "\n".join([*lead, smaps(raw, "before"), f"{checked} = {ended}", smaps(raw, "after")])


def pages(field: str, side: str = "after") -> Expression:
    """Pages of a field of smaps, `after` the checked call unless another side is named."""
    return F[side][f"{field}_bytes"] / F.page_bytes
