"""What counts up, or fills up, at one moment: two of these make rates."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from memlab.diagnose import group
from memlab.observe import cgroup, files, proc, process

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of the process, its group and the machine."""

    at_s: float
    stat: process.Stat
    status: Mapping[str, str]
    interrupts: Mapping[int, int] | None
    """TLB shootdown interrupts by CPU; None where this architecture has none."""
    group: group.Charge | None
    machine: Mapping[str, int]
    """/proc/meminfo."""
    read_bytes: int | None = None
    """From devices, of the process since it began (/proc/PID/io); None where it may not be read."""

    @property
    def thread_count(self) -> int:
        return int(self.status["Threads"])

    @property
    def cpu_s(self) -> float:
        return self.stat.cpu_ticks * _TICK_S

    @property
    def waited_cpu_s(self) -> float:
        return self.stat.waited_cpu_ticks * _TICK_S

    @property
    def system_s(self) -> float:
        return self.stat.system_ticks * _TICK_S

    def bytes(self, name: str) -> int | None:
        """``VmLck`` and its like; None where the kernel has none."""
        return proc.status_bytes(self.status, name)


def take(pid: int, limit: cgroup.MemoryLimit | None) -> Snapshot:
    """Raises `OSError` where the process has ended."""
    io = group.pairs_of(files.text(proc.ROOT / f"proc/{pid}/io") or "", ":")
    interrupts = files.known(proc.read, proc.ROOT / "proc/interrupts")
    return Snapshot(
        at_s=time.monotonic(),
        stat=process.stat(pid),
        status=proc.status(pid),
        interrupts=process.parse_interrupts_by_cpu(interrupts, "TLB") if interrupts else None,
        group=files.known(group.charge_of, limit) if limit else None,
        machine=files.known(proc.meminfo) or {},
        read_bytes=io.get("read_bytes"),
    )
