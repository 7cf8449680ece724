"""Which descriptors of a process are POSIX message queues: those of files of an mqueue file system.

A descriptor of mq_open(3) is on a mount that no folder shows, as is a file of any mount that was
detached. So the device of the file is compared with those of mqueue: of the mounts that the process
sees, and of its IPC namespace, whose file system a mount that lies nowhere shows (fsmount(2)). What
may be remote is not waited for: no file of another mount that the process sees is looked at, and of
the rest only what the kernel has at hand (AT_STATX_DONT_SYNC).
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress

from memlab.observe import files, namespaces, process
from memlab.observe.proc import ROOT

_PATH = re.compile(r"/[^/]{1,255}")
_MOUNT = re.compile(r"mnt_id:\s*(\d{1,10})$", re.MULTILINE)
_MQUEUE = "mqueue"
_BYTES = 80  # FILENT_SIZE: what stat says of each queue
_FSOPEN, _FSCONFIG, _FSMOUNT, _CREATE, _CLOEXEC = 430, 431, 432, 6, 1
_AT_FDCWD, _DONT_SYNC, _BASIC, _STATX_BYTES = -100, 0x4000, 0x7FF, 256
_MODE_AT, _SIZE_AT, _DEVICE_AT = 28, 40, 136  # of struct statx (include/uapi/linux/stat.h)


def read(pid: int, links: Mapping[int, str], most: int) -> tuple[list[int], int]:
    """Those that are queues, of at most so many whose names have no folder; and how many may be
    some, because the file system of its IPC namespace could not be mounted: an ordinary user may
    not."""
    names = [n for n, link in links.items() if _PATH.fullmatch(link.removesuffix(process.DELETED))]
    if not names:
        return [], 0
    mounts = files.known(process.mounts, pid, ROOT) or []
    others = {mount.mount_id for mount in mounts if mount.filesystem != _MQUEUE}
    devices = {number: _device(pid, number, others) for number in names[:most]}
    if not any(devices.values()):
        return [], 0
    known = {mount.device for mount in mounts if mount.filesystem == _MQUEUE}
    namespace = files.known(namespaces.inside, pid, "ipc", _of_namespace)
    known.add(namespace or "")
    queues = [number for number, device in devices.items() if device and device in known]
    unknown = [device for device in devices.values() if device and device not in known]
    return queues, 0 if namespace else len(unknown)


def _device(pid: int, number: int, others: set[int]) -> str:
    """Of a regular file of a queue's size on none of the other mounts; else empty."""
    about = _MOUNT.search(files.text(ROOT / f"proc/{pid}/fdinfo/{number}") or "")
    if about is None or int(about[1]) in others:
        return ""
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    path = os.fsencode(ROOT / f"proc/{pid}/fd/{number}")
    with suppress(AttributeError):  # a libc without statx
        if ctypes.CDLL(None).statx(_AT_FDCWD, path, _DONT_SYNC, _BASIC, buffer) == 0:
            (mode,) = struct.unpack_from("=H", buffer, _MODE_AT)
            (size,) = struct.unpack_from("=Q", buffer, _SIZE_AT)
            major, minor = struct.unpack_from("=2I", buffer, _DEVICE_AT)
            return f"{major}:{minor}" if stat.S_ISREG(mode) and size == _BYTES else ""
    return ""


def _of_namespace() -> str:
    """The device of the mqueue file system of this IPC namespace. Raises `OSError`."""
    context = _call(_FSOPEN, _MQUEUE.encode(), _CLOEXEC)
    try:
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        mount = _call(_FSMOUNT, context, _CLOEXEC, 0)
    finally:
        os.close(context)
    try:
        device = os.fstat(mount).st_dev
        return f"{os.major(device)}:{os.minor(device)}"
    finally:
        os.close(mount)


def _call(number: int, *arguments: int | bytes | None) -> int:
    """A system call that the C library may lack."""
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
