"""The files that memlab writes for its user: whole or not at all, and nothing else is harmed.

A regular file is written beside its target, under a name that nobody can foresee, and renamed over
it. What is not a regular file (a device, a FIFO, a terminal) is written to, never replaced. A link
is followed to what it names, unless another user may have put it there. Also a place that memlab
chose, such as a folder beside another user's store, is reached folder by folder, each held open:
a link that is put in the way meanwhile is not followed.

Whatever fails is CannotWrite, with the name that the user gave.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memlab.errors import CannotWrite
from memlab.files import own_limits, ownership

_LINKS_MAX = 40  # as the kernel's (path_resolution(7))
_PROC = Path("/proc")  # whose links, such as /dev/stdout, name open files and not paths
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


Content = bytes | Iterable[bytes]  # or its pieces, none of which is held longer than it takes


def write(contents: Mapping[Path, Content]) -> None:
    """Write these files; none appears before all are on disk beside their targets. The folders
    must be there."""
    with _named(next(iter(contents), Path())), ExitStack() as stack:
        opener = stack.enter_context(_held())
        finish = [_begin(path, content, opener, stack) for path, content in contents.items()]
        for step in finish:
            step()


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A file without a name, and what it is to be called in a folder that is held open: `part`
    first, which nobody can foresee, and then `name`."""

    file: int
    folder: int
    part: str
    name: str


@contextmanager
def unnamed(path: Path) -> Iterator[Unnamed]:
    """A file that only its user may open, for a long time of writing. It gets its name when the
    writer says so: until then it vanishes with the last process that has it open. OSError, with the
    file's name."""
    with _held() as opener:
        with _named(path):
            place = _reached(path, opener)
            if place.status is not None and not stat.S_ISREG(place.status.st_mode):
                raise OSError(errno.EINVAL, "it is not a file")
            flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
            result = os.open(".", flags, 0o600, dir_fd=place.folder)
        part = _Place(place.folder, path, f".{secrets.token_hex(8)}.part", None, in_proc=False)
        try:
            yield Unnamed(result, place.folder, part.name, place.name)
        finally:
            os.close(result)
            _unlink(part)


def write_unnamed(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that only its user can read. It has no name until it is complete, so that an
    interrupted write leaves nothing behind."""
    with unnamed(path) as output_file, _named(path):
        with open(output_file.file, "wb", closefd=False) as file:
            file.writelines(pieces)
        folder = output_file.folder
        os.link(
            f"/proc/self/fd/{output_file.file}",
            output_file.part,
            dst_dir_fd=folder,
            follow_symlinks=True,
        )
        os.replace(output_file.part, output_file.name, src_dir_fd=folder, dst_dir_fd=folder)


def append(path: Path, content: bytes) -> None:
    """Add to a file, which is made if it is not there."""
    with _named(path), _held() as opener:
        place = _reached(path, opener)
        if place.status is None:
            place = _new_place(place)
        _write_through(path, place, content)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, if they are not there."""
    with _named(folder), _held() as opener:
        _reached(folder, opener, inside=True, make=True)


def file_to_open(path: Path, *, make: bool) -> Path:
    """The path without a link in it, for a library that opens files by their paths; `make` makes
    an empty file where there is none."""
    with _named(path), _held() as opener:
        place = _reached(path, opener)
        if make and place.status is None:
            _new_place(place, 0o644)  # as SQLite makes its files
        return place.path


def check_folder(folder: Path) -> None:
    """CannotWrite if a folder could not be made or written to: what takes minutes asks this
    first."""
    with _named(folder), _held() as opener:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        _try_new_file(_reached(existing, opener, inside=True))


def check_file(path: Path) -> None:
    """The same of a file, whose folder must be there."""
    with _named(path), _held() as opener:
        place = _reached(path, opener)
        if not place.in_proc and (place.status is None or stat.S_ISREG(place.status.st_mode)):
            _try_new_file(place)


def _try_new_file(place: _Place) -> None:
    """OSError if the folder of a place takes no new file."""
    part = _Place(place.folder, place.path, f".{secrets.token_hex(8)}.part", None, in_proc=False)
    os.close(part.open(_NEW, 0o600))
    _unlink(part)


@dataclass(frozen=True, slots=True)
class _Place:
    """A name in a folder that is held open, and what lies there; it is a link only in /proc."""

    folder: int
    path: Path
    name: str
    status: os.stat_result | None
    in_proc: bool

    def open(self, flags: int, mode: int = 0o666) -> int:
        nofollow = 0 if self.in_proc else os.O_NOFOLLOW
        return os.open(self.name, flags | nofollow | os.O_CLOEXEC, mode, dir_fd=self.folder)


Open = Callable[[str, int, int | None], int]


@contextmanager
def _held() -> Iterator[Open]:
    """What opens a name in a folder, and holds it open until the end; each once, as there may be
    thousands of files in one folder."""
    files: dict[tuple[int, int], int] = {}

    def held(name: str, flags: int, folder: int | None) -> int:
        new = os.open(name, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=folder)
        result = os.fstat(new)
        item = files.setdefault((result.st_dev, result.st_ino), new)
        if item != new:
            os.close(new)
        return item

    try:
        yield held
    finally:
        for file in files.values():
            os.close(file)


def _reached(path: Path, opener: Open, *, inside: bool = False, make: bool = False) -> _Place:
    """What `path` names in the end. With `inside` it is a folder, and this the place in it that is
    the folder itself; `make` makes the folders that are not there."""
    remaining = [*reversed(path.absolute().parts[1:])]
    if inside or not remaining:
        remaining.insert(0, ".")
    at, folder, links = Path("/"), opener("/", 0, None), 0
    while True:
        name, in_proc = remaining.pop(), at == _PROC or _PROC in at.parents
        if not remaining:
            now = _status(folder, name)
            if in_proc or now is None or not stat.S_ISLNK(now.st_mode):
                return _Place(folder, at / name, name, now, in_proc)
        try:
            result = opener(name, os.O_NOFOLLOW, folder)
        except FileNotFoundError:
            if not make:
                raise
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(name, dir_fd=folder)
            remaining.append(name)
            continue
        if stat.S_ISLNK(os.fstat(result).st_mode):
            if in_proc:
                result = opener(name, os.O_DIRECTORY, folder)
            else:
                _check_link(os.fstat(folder), os.fstat(result))
                if (links := links + 1) > _LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                named = Path(os.readlink("", dir_fd=result))  # of the link that was checked
                remaining += reversed(named.parts)
                continue
        if name == "/":  # of a link
            at, folder = Path("/"), opener("/", 0, None)
        else:
            at, folder = at.parent if name == ".." else at / name, result


def _check_link(folder: os.stat_result, link: os.stat_result) -> None:
    """A link of another user is not followed, anywhere: fs.protected_symlinks (proc_sys_fs(5)) is
    for sticky folders. Nor is one, by root, that another user may have moved to where it lies."""
    if link.st_uid not in (0, os.geteuid()):
        whose = "another user's link"
    elif ownership.is_host_root() and ownership.renamable(folder):
        whose = "a link that another user may change"
    else:
        return
    raise PermissionError(errno.EACCES, f"{whose} is on the way: name what it leads to")


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _new_place(place: _Place, mode: int = 0o666) -> _Place:
    with suppress(FileExistsError):  # another process was faster
        os.close(place.open(_NEW, mode))
    status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    return _Place(place.folder, place.path, place.name, status, place.in_proc)


def _begin(path: Path, content: Content, opener: Open, stack: ExitStack) -> Callable[[], None]:
    """Write a new file beside the target; what is returned makes it the target."""
    with _named(path):
        target = _reached(path, opener)
        now = target.status
        if target.in_proc or not (now is None or stat.S_ISREG(now.st_mode)):
            return partial(_write_through, path, target, content)
        part = f".{secrets.token_hex(8)}.part"
        _write_new(_Place(target.folder, path, part, None, in_proc=False), content, now, stack)
    return partial(_rename, path, part, target)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An error names the file that the user named."""
    try:
        yield
    except OSError as error:
        limit, why = own_limits.behind(error.errno), error.strerror or str(error)
        raise CannotWrite(path, f"{why}; {limit}" if limit else why) from None


def _write_new(
    part: _Place, content: Content, replaced: os.stat_result | None, stack: ExitStack
) -> None:
    """A file that was not there, with the mode and owner of the one that it will replace."""
    mode = 0o666 if replaced is None else replaced.st_mode & 0o777
    with open(part.open(_NEW, mode), "wb") as file:
        stack.callback(_unlink, part)
        file.writelines(_pieces(content))
        if replaced is not None:
            with suppress(PermissionError):  # another's file, in a folder that this user may write
                os.fchown(file.fileno(), replaced.st_uid, replaced.st_gid)
            os.fchmod(file.fileno(), mode)


def _unlink(part: _Place) -> None:
    with suppress(FileNotFoundError):
        os.unlink(part.name, dir_fd=part.folder)


def _rename(path: Path, part: str, target: _Place) -> None:
    with _named(path):
        os.replace(part, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)


def _pieces(content: Content) -> Iterable[bytes]:
    return [content] if isinstance(content, bytes) else content


def _write_through(path: Path, place: _Place, content: Content) -> None:
    """Waits for the reader of a FIFO: one that another user put there might have none."""
    with _named(path):
        if not place.in_proc and place.status and not stat.S_ISREG(place.status.st_mode):
            ours = place.status.st_uid in (0, os.geteuid())
            if not ours and ownership.renamable(os.fstat(place.folder), sticky=True):
                raise PermissionError(errno.EACCES, "it is not a file, and another user's")
        with open(place.open(os.O_WRONLY | os.O_APPEND | os.O_NOCTTY), "wb", buffering=0) as file:
            now = os.fstat(file.fileno())
            if not place.in_proc and not (place.status and os.path.samestat(now, place.status)):
                raise PermissionError(errno.EACCES, "it was replaced meanwhile")
            for piece in _pieces(content):
                rest = memoryview(piece)
                while rest:
                    rest = rest[file.write(rest) :]
