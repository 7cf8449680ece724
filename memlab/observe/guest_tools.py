"""The programs that a guest needs, where they are, and the package that has each."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

QEMU, VIRTME = "qemu-system-x86_64", "virtme-run"
QEMU_REMEDY = "apt install qemu-system-x86"

# Each with what to install. busybox is what virtme-ng's initramfs is made of, modprobe finds the
# modules in it.
_NEEDED = {
    QEMU: QEMU_REMEDY,
    VIRTME: "pip install 'memlab[guest]'",
    "busybox": "apt install busybox-static",
    "modprobe": "apt install kmod",
}


@dataclass(frozen=True, slots=True)
class Missing:
    program: str
    remedy: str


def search_path() -> str:
    """Where they are looked for: beside this Python first, and in the folders that an ordinary
    user's PATH lacks."""
    own = str(Path(sys.executable).parent)
    return os.pathsep.join([own, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def find(program: str) -> str | None:
    return shutil.which(program, path=search_path())


def missing() -> Missing | None:
    """The first program that is not here; None where all are."""
    for program, remedy in _NEEDED.items():
        if find(program) is None:
            return Missing(program, remedy)
    return None
