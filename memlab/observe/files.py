"""Small files under a root that may be missing: None then, never an exception.

What cannot be read or makes no sense is unknown, and unknown is an answer: a virtual machine
without cpufreq, a container without cgroups and another architecture all read through here.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, ParamSpec, TypeVar

from memlab.observe import proc

_PIECE_BYTES = 1 << 20
LARGEST_BYTES = 1 << 30  # that is looked through: the hole in a file may be of any size
P = ParamSpec("P")
T = TypeVar("T")


def known(read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
    """What `read` returns, or None where the file is missing, forbidden or of another format."""
    try:
        return read(*arguments, **named)
    except (OSError, ValueError):
        return None


def text(path: Path | str) -> str | None:
    """The file's text without surrounding space and NULs (device tree); None where unreadable."""
    result = known(lambda: proc.read(path))
    if result is None:
        return None
    # These texts go to JSON and to the terminal, which take no lone surrogates.
    return result.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip(" \t\n\0")


def rows(path: Path | str) -> list[list[str]]:
    """The words of each line; none where it is unreadable."""
    return [line.split() for line in proc.lines(text(path) or "")]


def content(path: Path, most: int) -> bytes | None:
    """What `regular` reads; None where that raises."""
    return known(lambda: regular(path, most))


def regular(path: Path, most: int) -> bytes:
    """A regular file's bytes; OSError for any other, or one of more than `most` bytes."""
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        if (content := file.read(most)) is None:
            raise BlockingIOError(errno.EAGAIN, "it would be waited for", str(path))
        return content


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file, to read; OSError for any other.

    Whoever owns the path may have put anything there: a FIFO or a device is not opened, a file that
    shrinks meanwhile is read as far as it goes, and one like /proc/kmsg is not waited for.
    """
    path_fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        result = os.fstat(path_fd)
        if stat.S_ISDIR(result.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(result.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        reading = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        with open(os.open(f"/proc/self/fd/{path_fd}", reading), "rb") as file:
            yield file
    finally:
        os.close(path_fd)


def pieces(file: BinaryIO, overlap: int) -> Iterator[bytes]:
    """The rest of a file, at most LARGEST_BYTES. Each piece begins with the last `overlap` bytes of
    the one before. If the file is cut short meanwhile, a read ends; a mapping would kill us."""
    last, rest = b"", LARGEST_BYTES
    while piece := file.read(min(_PIECE_BYTES, rest)):
        rest -= len(piece)
        piece = last + piece
        yield piece
        last = piece[-overlap:]


def number(path: Path) -> int | None:
    """A file that holds one whole number."""
    result = text(path)
    return int(result) if result and re.fullmatch(r"-?[0-9]{1,19}", result) else None


def flag(path: Path) -> bool | None:
    """A file that holds 1 or 0, Y or N."""
    return {"1": True, "Y": True, "0": False, "N": False}.get(text(path) or "")


def choice(path: Path) -> str | None:
    """The chosen word of ``always [madvise] never``; a file of one word is that word."""
    result = text(path)
    if not result:
        return None
    chosen = re.search(r"\[([^\[\]]+)\]", result)
    return chosen[1] if chosen else result


def names(directory: Path) -> list[str]:
    """The sorted names in a directory; none where there is no such directory."""
    return sorted(known(lambda: [entry.name for entry in directory.iterdir()]) or [])
