"""The programs that a guest needs, where they are, and the package that has each."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from memlab.files import ownership

QEMU = "qemu-system-x86_64"
QEMU_REMEDY = "apt install qemu-system-x86"

QEMU_ARM64 = "qemu-system-aarch64"
_QEMUS = {"x86_64": (QEMU, QEMU_REMEDY), "aarch64": (QEMU_ARM64, "apt install qemu-system-arm")}

# Each with what to install. busybox is the guest's first process, modprobe says which modules need
# which.
_NEEDED = {
    "busybox": "apt install busybox-static",
    "modprobe": "apt install kmod",
}


@dataclass(frozen=True, slots=True)
class Missing:
    program: str
    remedy: str


def search_path() -> str:
    """Where programs are looked for: beside this Python first, then in PATH and in the folders that
    an ordinary user's PATH lacks. Never in the current folder, which an empty PATH would mean, and
    as root in no folder that another user may write to."""
    named = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folder = str(Path(sys.executable).parent)
    return os.pathsep.join([folder, *filter(_safe, [*named, "/usr/sbin", "/sbin"])])


def _safe(folder: str) -> bool:
    path = Path(folder)
    try:
        exposed = ownership.is_host_root() and ownership.exposed(path)
    except OSError:
        return False
    return path.is_absolute() and not exposed


def find(program: str) -> str | None:
    return shutil.which(program, path=search_path())


def qemu(machine: str) -> str:
    """The program that runs guests of a machine, as uname says it."""
    program, _ = _QEMUS[machine]
    return find(program) or program


def missing(machine: str = "x86_64") -> Missing | None:
    """The first program that is not here for guests of a machine; None where all are."""
    for program, remedy in (_QEMUS[machine], *_NEEDED.items()):
        if find(program) is None:
            return Missing(program, remedy)
    return None
