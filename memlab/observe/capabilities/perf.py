"""What perf_event_open(2) lets this process count."""

import errno
import os
from pathlib import Path

from memlab.observe import files, perf_event, proc, tracefs

from . import privileges
from .capability import Capability

_SCOPES = {
    perf_event.Scope.USER: "for this process outside the kernel",
    perf_event.Scope.PROCESS: "for this process",
    perf_event.Scope.SYSTEM: "for the whole system",
}


def software_events(root: Path) -> Capability:
    return _perf("perf software events", perf_event.SOFTWARE, perf_event.PAGE_FAULTS, root)


def hardware_counters(root: Path) -> Capability:
    return _perf("perf hardware counters", perf_event.HARDWARE, perf_event.INSTRUCTIONS, root)


def tracepoints(root: Path) -> Capability:
    name = "perf tracepoints"
    event = files.known(lambda: _tlb_flush(root))
    if event is not None:
        return _perf(name, perf_event.TRACEPOINT, event, root)
    if "tracefs" not in (files.text(root / "proc/filesystems") or "").split():
        return Capability(name, False, "not in this kernel", "use one with CONFIG_EVENT_TRACING")
    if "tracefs" in [mount.filesystem for mount in files.known(lambda: proc.mounts(root)) or []]:
        remedy = "as root: mount -o remount,mode=750,gid=YOUR_GID /sys/kernel/tracing"
        return Capability(name, False, "tlb:tlb_flush may not be read in tracefs", remedy)
    remedy = "as root: mount -t tracefs nodev /sys/kernel/tracing"
    if not os.geteuid() and not privileges.effective(root) >> privileges.CAP_SYS_ADMIN & 1:
        remedy = privileges.way_to("CAP_SYS_ADMIN")
    return Capability(name, False, "tracefs is not mounted", remedy)


def _tlb_flush(root: Path) -> int:
    with tracefs.opened(root) as events:  # which needs no mount, where this process may make one
        return events.number("tlb:tlb_flush")


def _perf(name: str, kind: int, config: int, root: Path) -> Capability:
    paranoid = files.number(root / "proc/sys/kernel/perf_event_paranoid")
    try:
        scope = perf_event.widest(kind, config)
    except PermissionError:
        detail = f"refused; kernel.perf_event_paranoid is {paranoid}"
        remedy = f"sysctl kernel.perf_event_paranoid=1, or {privileges.way_to('CAP_PERFMON')}"
        return Capability(name, False, detail, remedy)
    except OSError as refusal:
        detail = f"{errno.errorcode.get(refusal.errno or 0, refusal.errno)}: {refusal.strerror}"
        return Capability(name, False, detail, _perf_remedy(refusal.errno))
    return Capability(name, True, f"open {_SCOPES[scope]}", None)


def _perf_remedy(number: int | None) -> str:
    if number in (errno.ENOENT, errno.EOPNOTSUPP):
        return "none inside this machine: a hypervisor must pass its counters to the guest (vPMU)"
    return (
        "use a kernel with CONFIG_PERF_EVENTS on x86_64 or aarch64, and a container whose seccomp "
        "filter allows it"
    )
