"""What a fork commits, and what the kernel allows to be committed.

Sources: mm/util.c (__vm_enough_memory()), kernel/fork.c (dup_mmap()) of Linux 6.18.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from memlab.diagnose.call_facts import Cause, Facts, Reader
from memlab.diagnose.finding import size
from memlab.diagnose.kernel_numbers import sysctl
from memlab.diagnose.room import Room
from memlab.observe import files, proc

_CLONE_VM, _SHARE = 0x100, 32  # of what a process maps, up to the reserve
_NEVER = 2  # OVERCOMMIT_NEVER
_SPAWN = "posix_spawn or vfork to start programs, which commit nothing"
MAPPED = "CommitLimit less its reserves"


def child(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOMEM of fork: each private mapping that may be written is committed again."""
    if call == "vfork" or _flags(facts, call, arguments) & _CLONE_VM:
        return None
    machine = files.known(proc.meminfo) or {}
    mode, more = next(iter(sysctl("vm/overcommit_memory")), None), 0
    for mapping in facts.committed:
        more += mapping.size_bytes
    for room in commit_rooms(machine, facts.status, is_capable=facts.is_capable(21)):
        if mode != _NEVER or room.used + more <= room.limit:
            continue
        reserved_bytes = machine["CommitLimit"] - int(room.limit)
        reserve = f", {size(reserved_bytes)} of it in reserve" if reserved_bytes else ""
        return Cause(
            f"a child commits {size(more)} more, all private memory of its parent that may be "
            f"written, and {size(room.used)} of {size(machine['CommitLimit'])} are committed "
            f"(CommitLimit, vm.overcommit_memory=2{reserve})",
            "CommitLimit", f"{_SPAWN}; vm.overcommit_memory=0, or vm.overcommit_ratio, or swap",
        )  # fmt: skip
    largest = max((one.size_bytes for one in facts.committed), default=0)
    most = machine.get("MemTotal", 0) + machine.get("SwapTotal", 0)
    if mode != 0 or not most or largest <= most:
        return None
    return Cause(
        f"a child commits each private mapping that may be written as one request, the largest has "
        f"{size(largest)}, and one request may have {size(most)} (vm.overcommit_memory=0: memory "
        "and swap)",
        "vm.overcommit_memory=0",
        f"{_SPAWN}; MADV_DONTFORK for memory that no child needs; vm.overcommit_memory=1; swap",
    )  # fmt: skip


def commit_rooms(
    machine: Mapping[str, int], status: Mapping[str, str], *, is_capable: bool
) -> Iterator[Room]:
    """What a process may commit where no more than the limit may be."""
    if sysctl("vm/overcommit_memory") != [_NEVER] or "CommitLimit" not in machine:
        return
    reserved_bytes, reserves = 0, ("admin", "user")
    admin, user = (next(iter(sysctl(f"vm/{one}_reserve_kbytes")), 0) << 10 for one in reserves)
    reserved_bytes += 0 if is_capable else admin
    reserved_bytes += min(user, (proc.status_bytes(status, "VmSize") or 0) // _SHARE)
    limit = max(0, machine["CommitLimit"] - reserved_bytes)
    yield Room(MAPPED, machine.get("Committed_AS", 0), limit, "B", "mmap and brk fail with ENOMEM")


def _flags(facts: Facts, call: str, arguments: Sequence[int]) -> int:
    if call == "clone3":  # struct clone_args
        raw = facts.memory(arguments[0], 8)
        return int.from_bytes(raw, sys.byteorder) if len(raw) == 8 else _CLONE_VM
    return arguments[0] if call == "clone" else 0


READERS: tuple[tuple[str, str, Reader], ...] = (("clone clone3 fork vfork", "ENOMEM", child),)
