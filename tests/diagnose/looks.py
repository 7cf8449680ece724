"""A look at a process that does nothing; a test changes what it needs."""

from __future__ import annotations

from typing import Any

from memlab.diagnose.allocator import Allocator
from memlab.diagnose.counters import EVENTS
from memlab.diagnose.group import Charge
from memlab.diagnose.heap import Heap
from memlab.diagnose.look import GroupRoom, Look, Shootdowns, Thread
from memlab.diagnose.malloc_options import MallocOption
from memlab.diagnose.memory import Memory
from memlab.diagnose.pages import Pages, Sampled
from memlab.diagnose.started import Started
from memlab.diagnose.subject import Subject

MiB, GiB = 1 << 20, 1 << 30

JEMALLOC = Allocator(
    "jemalloc",
    "5.3.0",
    "/usr/lib/libjemalloc.so.2",
    (MallocOption("dirty_decay_ms", "0", "MALLOC_CONF"),),
    "MALLOC_CONF",
)
GLIBC = Allocator("glibc", "2.36", "/usr/lib/libc.so.6", (), "")


def rates(**per_s: float | None) -> dict[str, float | None]:
    return {**{event.name: 0.0 for event in EVENTS}, "populated": 0.0, **per_s}


def memory(**changes: Any) -> Memory:
    nothing: dict[str, Any] = {
        "virtual_bytes": 64 * MiB,
        "resident_bytes": 32 * MiB,
        "anonymous_bytes": 16 * MiB,
        "shmem_bytes": 0,
        "swapped_bytes": 0,
        "locked_bytes": 0,
        "locked_resident_bytes": 0,
        "locked_share_bytes": 0,
        "locked_stacks_bytes": 0,
        "locked_stacks_count": 0,
        "pinned_bytes": 0,
        "huge_bytes": 0,
        "hugetlb_bytes": 0,
        "thp_machine": "madvise",
        "mappings": 20,
        "walked_s": 0.0,
        "machine_bytes": 16 * GiB,
        "peak_resident_bytes": 40 * MiB,
    }
    return Memory(**nothing | changes)


def charge(**changes: Any) -> Charge:
    """32 MiB, of which 4 MiB are page cache."""
    names = Charge.__dataclass_fields__
    half: dict[str, Any] = dict.fromkeys(names, 0) | {
        "used_bytes": 32 * MiB,
        "peak_bytes": 32 * MiB,
        "anonymous_bytes": 28 * MiB,
        "file_clean_bytes": 4 * MiB,
        "slab_bounds_bytes": (0, 0),
        "stuck": False,
    }
    return Charge(**half | changes)


def group(**changes: Any) -> GroupRoom:
    half: dict[str, Any] = {
        "path": "/sys/fs/cgroup/job",
        "limit_name": "memory.max",
        "limit_bytes": 64 * MiB,
        "charge": charge(),
        "growth_bytes_per_s": 0.0,
        "kernel_growth_bytes_per_s": 0.0,
        "grows_steadily": False,
        "seconds_left": None,
        "reached_per_s": 0.0,
        "kills": 0,
        "lowest_bytes": 32 * MiB,
        "highest_bytes": 32 * MiB,
    }
    return GroupRoom(**half | changes)


def heap(**changes: Any) -> Heap:
    free: dict[str, Any] = {
        "arenas": 4,
        "held_bytes": 40 * MiB,
        "free_bytes": 24 * MiB,
        "retained_bytes": 20 * MiB,
        "ends_bytes": 16 * MiB,
    }
    return Heap(**free | changes)


def look(**changes: Any) -> Look:
    quiet: dict[str, Any] = {
        "subject": Subject(4711, "quiet", "quiet --still", "nobody", 65534, 1),
        "started": Started(("quiet", "--still"), "/srv"),
        "seconds": 10.0,
        "cpu_share": 0.5,
        "system_share": 0.4,
        "thread_count": 2,
        "allocator": GLIBC,
        "per_s": rates(),
        "threads": (),
        "shootdowns": Shootdowns("0-1", 3.0, None),
        "memory": memory(),
        "group": None,
        "available_bytes": 8 * GiB,
        "growth_bytes_per_s": 0.0,
        "grows_steadily": False,
        "heap": None,
        "fault_s": 5e-7,
        "unseen": (),
        "pages": Pages(
            0.0, 16 * MiB, 0, 0, 1.0, 16 * MiB, 0, 0, 0, {}, Sampled(1000, 0), None, None, 0.0
        ),
    }
    return Look(**quiet | changes)


def busy(tid: int, **per_s: float) -> Thread:
    return Thread(tid, f"worker-{tid}", per_s)
