"""What the kernel's own checks of privilege say: capabilities(7), and how much may be locked."""

import ctypes
import mmap
import os
import resource
from pathlib import Path

from memlab.observe import files, proc
from memlab.text import units

from .capability import Capability

# linux/capability.h
CAP_IPC_LOCK = 14
CAP_SYS_ADMIN = 21
CAP_SYS_RESOURCE = 24

_FULL_USER_NAMESPACE = ["0", "0", "4294967295"]


def effective(root: Path = proc.ROOT) -> int:
    """The effective capability set as a bit mask, as far as it counts on the host.

    Inside a user namespace the bits are set and the kernel's checks for memory locking, swap and
    resource limits fail all the same, since they ask the first namespace.
    """
    ids = (files.text(root / "proc/self/uid_map") or "").split()
    if ids not in ([], _FULL_USER_NAMESPACE):
        return 0
    status = files.known(lambda: proc.status(root=root)) or {}
    return files.known(lambda: int(status.get("CapEff", "0"), 16)) or 0


def lockable_bytes(root: Path = proc.ROOT) -> int | None:
    """How much this process may mlock(2); None where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = effective(root) >> CAP_IPC_LOCK & 1 or soft == resource.RLIM_INFINITY
    return None if unlimited else soft


def way_above(
    limit: int, needed: int, letter: str, name: str, unit: str, root: Path = proc.ROOT
) -> str:
    """What raises a limit to so many bytes."""
    hard = resource.getrlimit(limit)[1]
    if needed <= hard or hard == resource.RLIM_INFINITY or _raises_hard_limits(root):
        return f"ulimit -{letter}, {unit}"
    if not os.geteuid():  # root that may not raise it is in a container
        return f"run in a container with --ulimit {name}=-1"
    return (
        f"ulimit -{letter} cannot, since the hard limit is {units.format_quantity(hard, 'B')}: "
        f"{name} in /etc/security/limits.conf and log in again, {unit} of the unit, or root"
    )


def _raises_hard_limits(root: Path) -> bool:
    """Whether this process may: setrlimit(2)."""
    return bool(effective(root) >> CAP_SYS_RESOURCE & 1)


def exceeds_limits() -> bool:
    """Whether this process need not keep to RLIMIT_NPROC: root, or what fork(2) asks for."""
    capabilities = effective()
    return os.getuid() == 0 or bool(
        (capabilities >> CAP_SYS_RESOURCE | capabilities >> CAP_SYS_ADMIN) & 1
    )


def sys_resource(root: Path) -> Capability:
    return _capability("CAP_SYS_RESOURCE", CAP_SYS_RESOURCE, root)


def ipc_lock(root: Path) -> Capability:
    return _capability("CAP_IPC_LOCK", CAP_IPC_LOCK, root)


def _capability(name: str, bit: int, root: Path) -> Capability:
    if effective(root) >> bit & 1:
        return Capability(name, True, "held", None)
    return Capability(name, False, "not held", way_to(name))


def as_root() -> str:
    """What gives a process the files and calls of root. A container's root lacks some."""
    return "run as root" if os.geteuid() else "run outside of any container"


def way_to(name: str) -> str:
    """What gives a process the capability of that name. Root in a container may lack it."""
    container = f"in a container with --cap-add={name.removeprefix('CAP_')}"
    return f"run as root, or {container}" if os.geteuid() else f"run {container}"


def memlock(root: Path) -> Capability:
    name = "lock any amount"
    limit = lockable_bytes(root)
    if limit is None:
        return Capability(name, True, "no limit", None)
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    remedy = "raise memlock in /etc/security/limits.conf, log in again, ulimit -l unlimited"
    if hard == resource.RLIM_INFINITY or _raises_hard_limits(root):
        remedy = "ulimit -l unlimited"
    elif not os.geteuid():  # root that may not raise it is in a container
        remedy = "run in a container with --ulimit memlock=-1"
    return Capability(name, False, f"RLIMIT_MEMLOCK is {units.format_size(limit)}", remedy)


def locked_page(_root: Path) -> Capability:
    name = "lock a page"
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        refused = libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE))
        number = ctypes.get_errno()
    if refused:
        return Capability(name, False, f"mlock: {os.strerror(number)}", "ulimit -l unlimited")
    return Capability(name, True, "mlock of one page succeeds", None)
