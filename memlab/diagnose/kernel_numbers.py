"""Numbers and links of /proc that readers of limits need."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from memlab.observe import files, namespaces, process
from memlab.observe.proc import ROOT


def sysctl(name: str, of_ipc: int | None = None) -> list[int]:
    """The numbers of a file below /proc/sys; empty without one. Of a process's IPC namespace, which
    each has its own of, with `of_ipc`."""

    def read() -> str:
        return files.text(ROOT / f"proc/sys/{name}") or ""

    text = read()
    if of_ipc is not None:
        text = files.known(namespaces.inside, of_ipc, "ipc", read) or ""
    return [int(word) for word in text.split() if word.lstrip("-").isdigit()]


def larger_buffer(option: str, maximum: str, bytes_now: int) -> str:
    """What to try for the buffer of a socket. The kernel doubles what the option asks for, which is
    at most the sysctl `maximum` (socket(7))."""
    if is_largest_buffer(maximum, bytes_now):
        return f"a larger {maximum}, then {option}"
    return f"a larger {option}"


def is_largest_buffer(maximum: str, bytes_now: int) -> bool:
    """Whether the option gets no more; False where the sysctl is not there to read."""
    return any(bytes_now >= 2 * most for most in sysctl(maximum.replace(".", "/")))


def target_of(path: Path) -> str | None:
    """Where it leads; None if that may not be read."""
    found = files.known(path.readlink)
    return None if found is None else str(found)


_FIRST_USERS = "user:[4026531837]"  # PROC_USER_INIT_INO of include/linux/proc_ns.h


def is_contained(pid: int) -> bool:
    """Whether it is in another user namespace than the first; False where that may not be read."""
    return target_of(ROOT / f"proc/{pid}/ns/user") not in (None, _FIRST_USERS)


def rights(pid: int, status: Mapping[str, str]) -> int:
    """The effective capabilities that count for limits of the machine: those of the first user
    namespace (capable() of kernel/capability.c)."""
    return 0 if is_contained(pid) else int(status.get("CapEff", "0"), 16)


def descriptors(pid: int) -> Mapping[int, str]:
    """Empty of a process that may not be read."""
    return files.known(process.descriptors, pid) or {}


def release() -> tuple[int, int]:
    """Of Linux; (0, 0) if its name has none."""
    numbers = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
