"""The files that memlab writes for its user: whole or not at all, and nothing else is harmed.

A regular file is written beside its target, under a name that nobody can foresee, and renamed over
it. What is no regular file (a device, a FIFO, a terminal) is written to and never replaced. A link
is followed to what it names.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

_LINKS_MAX = 40  # as the kernel's (path_resolution(7))
_PROC = Path("/proc")  # whose links, such as /dev/stdout, name open files and not paths


Content = bytes | Iterable[bytes]  # or its pieces, none of which is held longer than it takes


def write(contents: Mapping[Path, Content]) -> None:
    """Write these files; none appears before all are on disk beside their targets. The folders
    must be there. OSError, with the file's name, where one cannot be written."""
    with ExitStack() as stack:
        finish = [_begin(path, content, stack) for path, content in contents.items()]
        for step in finish:
            step()


def check_folder(folder: Path) -> None:
    """OSError, with the folder's name, where it could not be made or written to: what takes minutes
    asks this first."""
    import tempfile  # takes longer than all else here

    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    with _named(folder), tempfile.TemporaryFile(dir=there):
        pass


def _begin(path: Path, content: Content, stack: ExitStack) -> Callable[[], None]:
    """Write a new file beside the target; what is returned makes it the target."""
    with _named(path):
        target = _target(path)
        now = _status(target)
        if _PROC in target.parents or not (now is None or stat.S_ISREG(now.st_mode)):
            return partial(_write_through, path, content)
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        _write_new(part, content, now, stack)
    return partial(_rename, path, part, target)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An error names the file that the user named."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _target(path: Path) -> Path:
    """What a link names in the end; the path itself where it is no link."""
    for _ in range(_LINKS_MAX):
        path = path.parent.resolve() / path.name
        if _PROC in path.parents or not path.is_symlink():
            return path
        _check_link(path)
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _check_link(path: Path) -> None:
    """A link of another user, in a folder where anybody may put one, is not followed, as the kernel
    does not where fs.protected_symlinks is set (proc_sys_fs(5))."""
    folder, link = path.parent.stat(), path.lstat()
    anybodys = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if anybodys and link.st_uid not in (os.geteuid(), folder.st_uid):
        raise PermissionError(errno.EACCES, "another user's link, in a folder of everybody's")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _write_new(
    part: Path, content: Content, replaced: os.stat_result | None, stack: ExitStack
) -> None:
    """A file that was not there, with the mode and owner of the one that it will replace."""
    mode = 0o666 if replaced is None else stat.S_IMODE(replaced.st_mode)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(part, flags, mode), "wb") as file:
        stack.callback(part.unlink, missing_ok=True)
        file.writelines(_pieces(content))
        if replaced is not None:
            with suppress(PermissionError):  # another's file, in a folder that this user may write
                os.fchown(file.fileno(), replaced.st_uid, replaced.st_gid)
            os.fchmod(file.fileno(), mode)


def _rename(path: Path, part: Path, target: Path) -> None:
    with _named(path):
        part.replace(target)


def _pieces(content: Content) -> Iterable[bytes]:
    return [content] if isinstance(content, bytes) else content


def _write_through(path: Path, content: Content) -> None:
    """Waits for the reader of a FIFO."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC
    with _named(path), open(os.open(path, flags), "wb", buffering=0) as file:
        for piece in _pieces(content):
            left = memoryview(piece)
            while left:
                left = left[file.write(left) :]
