"""Is this a virtual machine or a container, whose, and does it hide TLB shootdowns?"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memlab.observe import cpu, files

# What firmware tables name, against the hypervisor that writes it. Lower case, matched in order.
_FIRMWARE = (
    ("vmware", "VMware"),
    ("virtualbox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("parallels", "Parallels"),
    ("xen", "Xen"),
    ("kvm", "KVM"),
    ("bochs", "QEMU"),
    ("qemu", "QEMU"),
    ("amazon ec2", "KVM"),
    ("google compute engine", "KVM"),
    ("openstack", "KVM"),
    ("alibaba cloud ecs", "KVM"),
    ("virtual machine", "Hyper-V"),
)
# A bare-metal instance of a cloud carries the cloud's name in its firmware too.
_BARE_METAL = re.compile(r"\.metal\b")
_CLOCKS = (("kvm-clock", "KVM"), ("hyperv_clocksource", "Hyper-V"), ("xen", "Xen"))

# What QEMU calls the processor that it emulates; under KVM a guest sees the real one's name.
_TCG = "QEMU TCG CPU"

_CONTAINER_FILES = ((".dockerenv", "docker"), ("run/.containerenv", "podman"))
# Groups of containers, and not of the services that start them, such as docker.service.
_CONTAINER_GROUPS = (
    (re.compile(r"/kubepods"), "kubernetes"),
    (re.compile(r"/docker[-/]"), "docker"),
    (re.compile(r"/libpod-"), "podman"),
    (re.compile(r"/lxc[./]"), "lxc"),
)

# arch/x86/kernel/kvm.c says this while it boots, on the first CPU.
_PV_FLUSH = "KVM setup pv remote TLB flush"
_BOOT_RECORDS = 2000

GUEST_PORT = "memlab"  # the name of the virtio port of a guest that memlab boots


def read(root: Path) -> dict[str, Any]:
    """Everything here about virtualisation, JSON-able, None where unknown."""
    firmware = " ".join(_firmware(root)) or None
    name = _hypervisor(root, firmware)
    flags = cpu.first_block(root).get("flags")
    # The flag is CPUID.1:ECX[31], which every hypervisor sets and no processor does. Other
    # architectures have no such bit: a name is proof there, and its absence proves nothing.
    virtual = "hypervisor" in flags.split() if flags else (True if name else None)
    hidden, reason = _shootdowns_hidden(root, virtual, name)
    return {
        "virtual_machine": virtual,
        "hypervisor": name if virtual else None,
        "emulated_time": emulated(root),
        "firmware": firmware,
        "container": _container(root),
        "shootdowns_hidden": hidden,
        "shootdowns_hidden_reason": reason,
        "clocksource": files.text(
            root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
    }


def memlab_guest(root: Path) -> bool:
    """Whether memlab booted this machine, only for its own trials."""
    ports = (root / "sys/class/virtio-ports").glob("*/name")
    return any(files.text(port) == GUEST_PORT for port in ports)


def emulated(root: Path) -> bool | None:
    """Whether the processor is one that QEMU emulates; None where it has no name."""
    model = cpu.first_block(root).get("model name")
    return model.startswith(_TCG) if model else None


def _firmware(root: Path) -> Iterator[str]:
    paths = (
        "sys/class/dmi/id/sys_vendor",
        "sys/class/dmi/id/product_name",
        "proc/device-tree/model",
        "proc/device-tree/hypervisor/compatible",
    )
    yield from (result for path in paths if (result := files.text(root / path)))


def _hypervisor(root: Path, firmware: str | None) -> str | None:
    if kind := files.text(root / "sys/hypervisor/type"):
        return {"xen": "Xen"}.get(kind, kind)
    clocks = files.text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource")
    for clock, name in _CLOCKS:
        if clock in (clocks or ""):
            return name
    if firmware is None or _BARE_METAL.search(firmware):
        return None
    return next((name for mark, name in _FIRMWARE if mark in firmware.lower()), None)


def _container(root: Path) -> str | None:
    for path, engine in _CONTAINER_FILES:
        if files.known((root / path).exists):
            return engine
    if name := files.text(root / "run/systemd/container"):
        return name
    groups = files.text(root / "proc/self/cgroup") or ""
    return next((name for mark, name in _CONTAINER_GROUPS if mark.search(groups)), None)


def _shootdowns_hidden(
    root: Path, virtual: bool | None, name: str | None
) -> tuple[bool | None, str]:
    """Whether /proc/interrupts misses shootdowns, and how that is known."""
    if "flags" not in cpu.first_block(root):
        return None, "TLB shootdowns are interrupts only on x86; this is another architecture"
    if not virtual:
        return False, "not a virtual machine"
    if name != "KVM":
        return None, "whether this hypervisor flushes for its guest cannot be read"
    records = _boot_records(root / "dev/kmsg")
    if any(_PV_FLUSH in record for record in records):
        return True, f"the kernel log says {_PV_FLUSH!r}"
    if _from_boot(records):
        return False, "the kernel log has this boot's start and no paravirtual TLB flush in it"
    return None, "the kernel log cannot be read, or no longer has this boot's start"


def _boot_records(kmsg: Path) -> list[str]:
    """The oldest records of the kernel log, at most `_BOOT_RECORDS`; none where forbidden.

    One read(2) of /dev/kmsg gives one record (the kernel's ABI/testing/dev-kmsg).
    """
    try:
        fd = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return list(_records(fd))
    finally:
        os.close(fd)


def _records(fd: int) -> Iterator[str]:
    for _ in range(_BOOT_RECORDS):
        try:
            record = os.read(fd, 8192)
        except OSError:  # EAGAIN at the end of the log, EPIPE where it was overwritten meanwhile
            return
        if not record:
            return
        yield from record.decode("utf-8", "replace").splitlines()


def _from_boot(records: list[str]) -> bool:
    """The second field of a record is its number; the first since boot is 0."""
    return bool(records) and records[0].split(",")[1:2] == ["0"]
