"""Whether a program takes what ld.so is to preload, and whether the kernel counts inside it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from memlab.probe import Failed

_SCRIPTS = 4  # that name one another as interpreters: execve(2) follows no more
_NO_NEW_PRIVILEGES = b"\nNoNewPrivs:\t1\n"
_EFFECTIVE = 1  # of vfs_cap_data's first word, linux/capability.h


class _Program(NamedTuple):
    """What execve(2) starts of a word: of a script its interpreter, which may be a script too."""

    word: str
    path: str
    status: os.stat_result
    head: bytes  # empty if it may not be read


def check_preloads(word: str, environ: Mapping[str, str], what: str) -> None:
    """ld.so(8): a static program preloads nothing, and neither does one with other rights than its
    user's. `what` is to be preloaded."""
    program = _started(word, environ)
    if program is None:
        return  # the launcher says why it cannot start
    if why := _other_rights(program):
        detail = f"{program.word} {why}, and preloads no {what}"
        raise Failed(detail, errno.EPERM, "unavailable")
    if program.head[:4] == b"\x7fELF" and not _has_interpreter(program.head):
        detail = f"{program.word} is static, and preloads no {what}"
        raise Failed(detail, errno.ENOEXEC, "unavailable")


def uncounted(word: str, environ: Mapping[str, str]) -> str:
    """Why the kernel ends its counters as a program starts; "" if it does not (begin_new_exec,
    fs/exec.c)."""
    program = _started(word, environ)
    if program is None:
        return ""
    return _other_rights(program) or ("" if program.head else "may not be read")


def _started(word: str, environ: Mapping[str, str]) -> _Program | None:
    path = shutil.which(word, path=environ.get("PATH")) or word
    for _ in range(_SCRIPTS + 1):
        head = b""
        try:
            status = os.stat(path)  # noqa: PTH116
            if not stat.S_ISREG(status.st_mode):
                return None
            with suppress(PermissionError), open(path, "rb") as file:
                head = file.read(1 << 16)
        except OSError:
            return None
        interpreter = head[2:].split(b"\n", 1)[0].split()[:1] if head[:2] == b"#!" else []
        if not interpreter:
            break
        path = word = os.fsdecode(interpreter[0])
    return _Program(word, path, status, head)


def _other_rights(program: _Program) -> str:
    """Why the kernel starts it in secure mode (AT_SECURE, getauxval(3)); "" if it does not
    (bprm_fill_uid, fs/exec.c; cap_bprm_creds_from_file, security/commoncap.c)."""
    if os.statvfs(program.path).f_flag & os.ST_NOSUID:
        return ""
    with open("/proc/self/status", "rb") as file:
        sets_ids = _NO_NEW_PRIVILEGES not in file.read()
    status, of_group = program.status, stat.S_ISGID | stat.S_IXGRP
    if sets_ids and status.st_mode & stat.S_ISUID and status.st_uid != os.getuid():
        return "is set-user-ID"
    if sets_ids and status.st_mode & of_group == of_group and status.st_gid != os.getgid():
        return "is set-group-ID"
    return "has file capabilities" if os.getuid() and _has_capabilities(program.path) else ""


def _has_capabilities(path: str) -> bool:
    try:
        data = os.getxattr(path, "security.capability")
    except OSError:
        return False
    words = [int.from_bytes(data[at : at + 4], "little") for at in (0, 4, 12)]
    return bool(words[0] & _EFFECTIVE or any(words[1:]))


def _has_interpreter(head: bytes) -> bool:
    """Whether an ELF file names a dynamic linker (PT_INTERP, elf(5)); 64 bits, little end first."""
    offset, size, number = (
        int.from_bytes(head[at : at + length], "little")
        for at, length in ((32, 8), (54, 2), (56, 2))
    )
    types = (head[offset + i * size : offset + i * size + 4] for i in range(number))
    return any(int.from_bytes(kind, "little") == 3 for kind in types)
