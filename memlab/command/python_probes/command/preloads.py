"""Whether a program takes what ld.so is to preload."""

from __future__ import annotations

import errno
import os
import shutil
import stat

from memlab.probe import Failed

_SCRIPTS = 4  # that name one another as interpreters: execve(2) follows no more


def check_preloads(word: str, environ: dict[str, str]) -> None:
    """ld.so(8): a static program preloads nothing, and neither does a set-user-ID one of another
    user. Of a script that holds for its interpreter, which may be a script too (execve(2))."""
    path = shutil.which(word, path=environ.get("PATH")) or word
    for _ in range(_SCRIPTS + 1):
        try:
            status = os.stat(path)  # noqa: PTH116
            if not stat.S_ISREG(status.st_mode):
                return
            file = open(path, "rb")  # noqa: SIM115
        except OSError:
            return  # the launcher says why it cannot start
        with file:
            head = file.read(1 << 16)
        interpreter = head[2:].split(b"\n", 1)[0].split()[:1] if head[:2] == b"#!" else []
        if not interpreter:
            break
        path = word = os.fsdecode(interpreter[0])
    if status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid():
        raise Failed(f"{word} is set-user-ID, and preloads no lock", errno.EPERM, "unavailable")
    if head[:4] == b"\x7fELF" and not _has_interpreter(head):
        raise Failed(f"{word} is static, and preloads no lock", errno.ENOEXEC, "unavailable")


def _has_interpreter(head: bytes) -> bool:
    """Whether an ELF file names a dynamic linker (PT_INTERP, elf(5)); 64 bits, little end first."""
    offset, size, number = (
        int.from_bytes(head[at : at + length], "little")
        for at, length in ((32, 8), (54, 2), (56, 2))
    )
    types = (head[offset + i * size : offset + i * size + 4] for i in range(number))
    return any(int.from_bytes(kind, "little") == 3 for kind in types)
