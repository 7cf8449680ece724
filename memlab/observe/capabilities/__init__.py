"""What this process may do here, and what to do where it may not.

Each check asks the kernel for the very thing, or for the capability that the kernel will ask for
(capabilities(7)), never for uid 0: root in a container lacks many, and a user can be given one.
No check changes the machine: files are opened and closed, one page of ours is locked and let go.
"""

from collections.abc import Callable
from pathlib import Path

from memlab.observe import proc

from . import machine, memory, perf, privileges
from .capability import Capability
from .memory import add_swap, memory_cgroup, way_to_group
from .privileges import (
    CAP_IPC_LOCK,
    as_root,
    effective,
    exceeds_limits,
    lockable_bytes,
    way_above,
    way_to,
)

__all__ = [
    "CAP_IPC_LOCK",
    "Capability",
    "add_swap",
    "as_root",
    "effective",
    "exceeds_limits",
    "lockable_bytes",
    "memory_cgroup",
    "read",
    "way_above",
    "way_to",
    "way_to_group",
]

_CHECKS: tuple[Callable[[Path], Capability], ...] = (
    perf.software_events,
    perf.hardware_counters,
    perf.tracepoints,
    privileges.sys_resource,
    privileges.ipc_lock,
    privileges.memlock,
    privileges.locked_page,
    memory.clear_refs,
    memory.oom_score,
    memory.memory_cgroup,
    memory.add_swap,
    machine.io_uring,
    memory.dev_mem,
    memory.reserved_memory,
    machine.iommu,
    memory.hugetlb,
    memory.thp,
    memory.vma_locks,
    memory.vma_limit,
    machine.command,
    machine.compiler,
    machine.cpus,
    machine.free_memory,
    machine.cpu_time,
    machine.processes,
    machine.fixed_frequency,
)


def read(root: Path = proc.ROOT) -> list[Capability]:
    """Every capability, in a fixed order. `root` is the file tree to ask, for tests."""
    return [check(root) for check in _CHECKS]
