"""Which malloc a process has, of which version, and how it was set.

The library is found among the mappings by its name, or inside the executable by the messages that
every build of it holds (allocator_marks.py); the version is read from the file itself.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memlab.diagnose import allocator_marks, malloc_options
from memlab.diagnose.malloc_options import MallocOption, Version
from memlab.observe import elf, files, proc, process
from memlab.text import units

_SEARCHED_BYTES_MAX = 64 << 20  # some 0.1 s
_SYMBOLS_BYTES_MAX = 512 << 20  # of files whose symbols are read; of each the symbols are a part


@dataclass(frozen=True, slots=True)
class MallocKind:
    """How one malloc is recognised."""

    name: str
    library: re.Pattern[str]
    """The file name of its shared library."""
    version: re.Pattern[bytes] | None
    """The version as the file holds it, or what follows it: a pattern that begins with its first
    character is searched for fast."""


@dataclass(frozen=True, slots=True)
class Allocator:
    """The malloc of a process."""

    name: str
    version: str | None
    where: str
    """The library's path, or the executable's where it is linked into that."""
    options: tuple[MallocOption, ...]
    """In force: what was set, then what this version takes where nothing is set."""
    variable: str
    """The environment variable that this build reads."""

    @property
    def label(self) -> str:
        """With its version, if that was read."""
        return f"{self.name} {self.version or ''}".strip()

    @property
    def numbers(self) -> Version:
        return tuple(int(part) for part in re.findall(r"\d+", self.version or ""))[:3]

    def option(self, name: str) -> str | None:
        return next((option.value for option in self.options if option.name == name), None)


_KINDS = (
    MallocKind(
        "jemalloc", re.compile(r"libjemalloc[^/]{0,64}\.so"), re.compile(rb"-\d+-g[0-9a-f]{40}")
    ),
    MallocKind(
        "tcmalloc",
        re.compile(r"libtcmalloc[^/]{0,64}\.so"),
        re.compile(rb"gperftools (\d+\.\d+(?:\.\d+)?)"),
    ),
    MallocKind("mimalloc", re.compile(r"libmimalloc[^/]{0,64}\.so"), None),
    # The C library of musl is its loader, and may have either name; libc.so of glibc is a text for
    # the linker, and never mapped.
    MallocKind("musl", re.compile(r"ld-musl-[^/]{0,64}\.so|libc\.so(?: \(deleted\))?$"), None),
    MallocKind(
        "glibc",
        re.compile(r"libc(?:\.so\.6|-2\.\d{1,3}\.so)"),
        re.compile(rb"GNU C Library [^\n]{0,200}?release version (\d+\.\d+)"),
    ),
)
# A number alone is the ABI's, as in libc.so.6.
_IN_FILE_NAME = re.compile(r"\.so\.(\d+(?:\.\d+)+)|-(\d+\.\d+)\.so")


def read(pid: int, mappings: Sequence[process.Mapping]) -> Allocator | None:
    """The malloc of a process; None where it has none that is known."""
    code = {m.path: m for m in mappings if m.path.startswith("/") and "x" in m.permissions}
    directory = proc.ROOT / f"proc/{pid}"
    environ = files.known(process.environ, pid) or {}
    *preloaded, musl, glibc = _KINDS
    # A malloc of its own comes before the C library's, which is there as well.
    for kinds in (preloaded, (musl, glibc)):
        for kind in kinds:
            for path, mapping in code.items():
                if kind.library.match(Path(path).name):
                    return _made(kind, directory, path, _library(pid, mapping), environ)
        if kinds is preloaded and (found := _inside(preloaded, directory, environ)):
            return found
    return None


def _library(pid: int, mapping: process.Mapping) -> bytes:
    """The data of the file that is mapped; empty where it cannot be read."""
    read = (files.known(partial(_data, path)) for path in process.files_of(pid, mapping))
    return next((data for data in read if data is not None), b"")


def _data(path: Path) -> bytes:
    """Of an ELF file the sections of data, where texts are, else all of it. Raises `OSError`."""
    with files.opened(path) as file:
        fd = file.fileno()
        size = os.fstat(fd).st_size
        if size > _SEARCHED_BYTES_MAX:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        pieces, rest = [], size  # sections may be said to overlap
        for at, length in elf.data_sections(fd) or [(0, size)]:
            pieces.append(os.pread(fd, min(length, rest), at))
            rest -= len(pieces[-1])
        return b"".join(pieces)


def not_searched(pid: int, found: Allocator | None) -> tuple[str, ...]:
    """What is said where an executable was too large to look for a malloc inside it."""
    file = proc.ROOT / f"proc/{pid}/exe"
    size = files.known(lambda: file.stat().st_size) or 0
    if size <= allocator_marks.BYTES_MAX or (found and found.name not in ("glibc", "musl")):
        return ()
    limit = units.format_size(allocator_marks.BYTES_MAX)
    return (f"a malloc linked into the executable: that is over {limit}, and was not searched",)


def _inside(
    kinds: Sequence[MallocKind], directory: Path, environ: Mapping[str, str]
) -> Allocator | None:
    names, _ = files.known(allocator_marks.names, directory / "exe") or ([], 0)
    names = allocator_marks.used(names, environ)
    for kind in kinds:
        if kind.name in names:
            path = files.known(lambda: str((directory / "exe").readlink())) or "the executable"
            data = files.known(_data, directory / "exe") or b""
            return _made(kind, directory, path, data, environ)
    return None


def _made(
    kind: MallocKind, directory: Path, path: str, held: bytes, environ: Mapping[str, str]
) -> Allocator:
    version = None
    if kind.version and (found := kind.version.search(held)):
        version = found[1].decode() if found.re.groups else _word_before(held, found.start())
    variable = _conf_variable(held) if kind.name == "jemalloc" else None
    if version is None and (named := _IN_FILE_NAME.search(Path(path).name)):
        version = named[1] or named[2]
    variable = variable or malloc_options.VARIABLES.get(kind.name, "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version or ""))[:3]
    link = files.known(lambda: str((directory / "root/etc/malloc.conf").readlink()))
    options = malloc_options.in_force(kind.name, numbers, variable, environ, link)
    return Allocator(kind.name, version, path, options, variable)


def _word_before(held: bytes, end: int) -> str:
    return held[held.rfind(b"\0", 0, end) + 1 : end].decode("ascii", "replace")


def _conf_variable(held: bytes) -> str | None:
    """``MALLOC_CONF``, ``JE_MALLOC_CONF`` or ``_RJEM_MALLOC_CONF``: a string of its own."""
    at = held.find(b"MALLOC_CONF\0")
    while at >= 0:
        word = _word_before(held, at + len(b"MALLOC_CONF"))
        if re.fullmatch(r"[A-Z_]+", word):
            return word
        at = held.find(b"MALLOC_CONF\0", at + 1)
    return None


_CODE_BYTES_LEAST = 256 << 10
_SMALL = re.compile(r"libgc(-\d[\w.]*)?\.so")  # of some 110 KiB


def within(pid: int, mappings: Sequence[process.Mapping], own: Allocator | None) -> list[str]:
    """Other allocators that the process has, such as `mimalloc in libarrow.so`, whose heaps are
    not read."""
    result: list[str] = []
    room = allocator_marks.BYTES_MAX
    seen: set[str] = set()
    environ = files.known(process.environ, pid) or {}
    for one in mappings:
        large = one.size_bytes >= _CODE_BYTES_LEAST or _SMALL.match(Path(one.path).name)
        if (
            not large
            or "x" not in one.permissions
            or not one.path.startswith("/")
            or one.path in seen
        ):
            continue
        seen.add(one.path)
        if own is not None and own.where == one.path and own.name == "glibc":
            continue
        names, size = _looked_through(process.files_of(pid, one), room)
        room -= size
        names = allocator_marks.used(names, environ)
        result += [f"{name} in {Path(one.path).name}" for name in names]
    return list(dict.fromkeys(result))


def runtime(pid: int) -> str:
    """Go's, if it is built into its executable, else empty. Others may keep their heap in what they
    take from malloc, as OCaml's does."""
    marks = files.known(allocator_marks.names, proc.ROOT / f"proc/{pid}/exe")
    return allocator_marks.GO if marks and allocator_marks.GO in marks[0] else ""


def replacing(pid: int, mappings: Sequence[process.Mapping], names: Sequence[str]) -> str | None:
    """A malloc that takes the place of the C library's: of the executable or a library that
    defines it; None if one of the names is of the same file."""
    try:
        exe = (proc.ROOT / f"proc/{pid}/exe").readlink()
    except OSError:
        return None
    code = {m.path: m for m in mappings if m.path.startswith("/") and "x" in m.permissions}
    room = _SYMBOLS_BYTES_MAX
    for path in sorted(code, key=lambda path: path != str(exe)):
        file = Path(path).name
        if file.startswith("ld-") or any(kind.library.match(file) for kind in _KINDS):
            continue
        for readable in process.files_of(pid, code[path]):
            with suppress(OSError, ValueError, struct.error):
                with files.opened(readable) as opened:
                    room -= min(os.fstat(opened.fileno()).st_size, _SEARCHED_BYTES_MAX)
                    if room < 0:
                        return None
                    if not elf.exports(opened.fileno(), "malloc"):
                        break
                return None if any(file in one for one in names) else f"the malloc of {file}"
    return None


def _looked_through(paths: Iterable[Path], room: int) -> tuple[list[str], int]:
    """The allocators within the first of these paths that can be read, and its size in bytes; none
    if it is larger than `room`."""
    for path in paths:
        with suppress(OSError):
            return allocator_marks.names(path, room)
    return [], 0
