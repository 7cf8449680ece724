"""Which allocators and runtimes are built into a file, by messages and options that it holds.

Of an ELF file the sections of data are read, and not its code: node is 99 MB, a third of it code.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memlab.observe import elf, files

_PYMALLOC, _NO_GIL = "Python's pymalloc", "a Python without a GIL"
ASAN = "AddressSanitizer's malloc (quarantine_size_mb)"
"""Which takes the place of the C library's malloc."""
MARKS = (
    ("mimalloc", b"mimalloc: warning: "), ("jemalloc", b"<jemalloc>: "),
    ("tcmalloc", b"TCMALLOC_AGGRESSIVE_DECOMMIT"), (_PYMALLOC, b"pymalloc_debug"),
    ("V8", b"max_old_space_size"), ("V8", b"max-old-space-size"),
    ("the JVM", b"MaxDirectMemorySize"), ("PHP's allocator", b"zend_mm_heap corrupted"),
    ("LuaJIT", b"LuaJIT 2."), ("Ruby's heap", b"RUBY_GC_HEAP"), ("GHC's heap", b"GHCRTS"),
    ("Erlang's heap", b"ERL_CRASH_DUMP"), ("OCaml's heap", b"OCAMLRUNPARAM"),
    ("Boehm's collector", b"GC_MAXIMUM_HEAP_SIZE"),
    (ASAN, b"quarantine_size_mb"), (_NO_GIL, b"free-threading build"),
)  # fmt: skip
GO, _GO_BUILD = "Go's runtime", b"\xff Go buildinf:"
"""What a section of its own begins with (debug/buildinfo)."""
BYTES_MAX = 256 << 20  # some 0.1 s
_PIECE, _MARK_BYTES_MAX = 256 << 10, 64
_FILES = 64  # whose names are kept for a watch, and because an executable is searched twice
_MEMMEM = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
_known: dict[tuple[int, ...], list[str]] = {}


def names(path: Path, most: int = BYTES_MAX) -> tuple[list[str], int]:
    """The allocators within a file, and its size in bytes; none if it is larger than `most`. Raises
    `OSError` if it may not be read."""
    with files.opened(path) as file:
        fd = file.fileno()
        about = os.fstat(fd)
        if about.st_size > most:
            return [], about.st_size
        key = about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size
        if key not in _known:
            if len(_known) >= _FILES:
                _known.clear()
            _known[key] = _searched(fd, about.st_size)
        return _known[key], about.st_size


def used(names: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Without the mimalloc that each Python has since 3.13: only one without a GIL uses it, or
    PYTHONMALLOC asks for it."""
    is_spare = _PYMALLOC in names and _NO_GIL not in names
    is_spare = is_spare and not environ.get("PYTHONMALLOC", "").startswith("mimalloc")
    return [n for n in names if n != _NO_GIL and not (is_spare and n == "mimalloc")]


def _searched(fd: int, size: int) -> list[str]:
    """One buffer for all pieces: memory that is new for each would take a third of the time.
    memmem(3) takes less than half of the time of `bytearray.find`."""
    result: list[str] = []
    buffer = (ctypes.c_char * _PIECE)()
    find = ctypes.CDLL(None).memmem
    find.restype, find.argtypes = ctypes.c_void_p, _MEMMEM
    for length in _pieces(fd, elf.data_sections(fd) or [(0, size)], memoryview(buffer).cast("B")):
        for name, mark in MARKS:
            if name not in result and find(buffer, length, mark, len(mark)):
                result.append(name)
        if GO not in result and ctypes.string_at(buffer, len(_GO_BUILD)) == _GO_BUILD:
            result.append(GO)
    return result


def _pieces(fd: int, parts: Sequence[tuple[int, int]], into: memoryview) -> Iterator[int]:
    """How much of the buffer is filled. Each piece begins with the end of the one before, in which
    a mark may begin."""
    rest = BYTES_MAX
    for at, size in parts:
        end = at + min(size, rest)
        rest -= end - at
        while at < end and (length := os.preadv(fd, [into[: end - at]], at)):
            yield length
            at += length if length <= _MARK_BYTES_MAX else length - _MARK_BYTES_MAX
