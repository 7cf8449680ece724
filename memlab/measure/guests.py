"""What this machine lacks for a guest, as `memlab doctor` says it."""

from __future__ import annotations

import os
from pathlib import Path

from memlab.observe import guest_tools, kvm
from memlab.observe.capabilities import Capability
from memlab.run import kernel


def read() -> list[Capability]:
    return [_guest(), _installed_kernel(), _kvm()]


def _guest() -> Capability:
    name = "guests"
    if lacks := guest_tools.missing():
        return Capability(name, False, f"{lacks.program} is not here", lacks.remedy)
    return Capability(name, True, "QEMU, busybox and modprobe are here", None)


def _installed_kernel() -> Capability:
    name = "a guest's kernel"
    newest = kernel.default()
    if newest is None:
        detail = f"none with its modules that may be read is in /boot or {kernel.folder()}"
        return Capability(name, False, detail, kernel.TO_INSTALL)
    return Capability(name, True, f"{newest.path}", None)


def _kvm() -> Capability:
    """By a heartbeat: that /dev/kvm opens does not say that it runs anything."""
    name = "guests under KVM"
    if not Path("/dev/kvm").exists():
        remedy = "a machine with virtualisation, or a host that passes it on; else emulated"
        return Capability(name, False, "no /dev/kvm", remedy)
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        remedy = "as root: usermod -aG kvm USER, and log in again; else emulated"
        return Capability(name, False, "/dev/kvm may not be opened", remedy)
    if guest_tools.find(guest_tools.QEMU) is None:
        return Capability(name, False, "not asked: no QEMU", guest_tools.QEMU_REMEDY)
    if kvm.accelerator() == "kvm":
        return Capability(name, True, "a guest's first instruction runs", None)
    remedy = "the host of this machine must pass virtualisation on; else emulated"
    return Capability(name, False, "/dev/kvm opens, and a guest in it does not run", remedy)
