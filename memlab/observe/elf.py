"""The functions and data of an ELF file: elf(5), symbols and sections of 64 bits, little end first.

The file is another's: what it says of itself is bounded before it is read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_SYMBOL = struct.Struct("<IBBHQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMTAB, _DYNSYM, _LOAD, _EXECUTABLE, _WRITABLE = 2, 11, 1, 1, 2
_OBJECT, _FUNCTION = 1, 2  # types of symbols
_PROGRAM, _ALLOCATED, _CODE = 1, 2, 4  # of a section: its type, and two of its flags
_NAME_MAX = 200  # bytes
_SEGMENTS_MAX, _TABLES_MAX = 64, 2  # a file has one table of symbols of each type


class Function(NamedTuple):
    """Where its first instruction lies in the file, and how many bytes it has (0: not said)."""

    at: int
    size_bytes: int
    name: str


class Segment(NamedTuple):
    """A part of the file that is loaded: where it lies in the file and in memory, from the address
    on at which the file is mapped."""

    is_executable: bool
    is_writable: bool
    offset: int
    address: int
    file_bytes: int
    memory_bytes: int
    """What is beyond `file_bytes` begins as zeros (.bss)."""


def functions(fd: int, table_bytes_max: int = 64 << 20) -> Iterator[Function]:
    """Those that the file defines, in the order of its tables: one may have several names, and
    be in two tables. None if it is not 64-bit ELF; ValueError or struct.error if it is damaged
    or one of its tables, or their names, is longer than `table_bytes_max`."""
    read = _reader(fd, table_bytes_max)
    head = read(64, 0)
    if head[:6] != b"\x7fELF\x02\x01":
        return
    (segments_at,), (segment_count,) = (
        struct.unpack_from(form, head, at) for form, at in (("<Q", 32), ("<H", 56))
    )
    code = [
        (address, offset, size)
        for kind, flags, offset, address, _, size, _, _ in _SEGMENT.iter_unpack(
            read(_SEGMENT.size * segment_count, segments_at)
        )
        if kind == _LOAD and flags & _EXECUTABLE
    ]
    for names, symbols in _tables(read, head):
        for name_at, info, _, section, address, bytes in symbols:
            if info & 15 != _FUNCTION or not section:
                continue
            for start, file_at, length in code:
                if start <= address < start + length:
                    yield Function(address - start + file_at, bytes, _name(names, name_at))
                    break


def exports(fd: int, name: str, table_bytes_max: int = 16 << 20) -> bool:
    """Whether other files may call a function of this name in it. Raises as `functions` does."""
    read = _reader(fd, table_bytes_max)
    head = read(64, 0)
    if head[:6] != b"\x7fELF\x02\x01":
        return False
    word = name.encode() + b"\0"
    for names, symbols in _tables(read, head, (_DYNSYM,)):
        if word not in names:  # which may be the end of a longer one
            continue
        for name_at, info, _, section, _, _ in symbols:
            if section and info & 15 == _FUNCTION and names.startswith(word, name_at):
                return True
    return False


def _reader(fd: int, bytes_max: int) -> Callable[[int, int], bytes]:
    """Reads so many bytes at a place; ValueError beyond bounds."""

    def read(bytes: int, at: int) -> bytes:
        if bytes > bytes_max or at >= 1 << 62:
            raise ValueError("a table of symbols out of bounds")
        return os.pread(fd, bytes, at)

    return read


def _tables(
    read: Callable[[int, int], bytes], head: bytes, kinds: Sequence[int] = (_SYMTAB, _DYNSYM)
) -> Iterator[tuple[bytes, Iterator[tuple[int, ...]]]]:
    """The names and symbols of each table."""
    (at,), (count,) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<H", head, 60)
    sections = [*_SECTION.iter_unpack(read(_SECTION.size * count, at))]
    tables = [one for one in sections if one[1] in kinds]
    for _, _, _, _, offset, size, link, _, _, _ in tables[:_TABLES_MAX]:
        if link < len(sections):
            names = read(sections[link][5], sections[link][4])
            yield names, _SYMBOL.iter_unpack(read(size - size % _SYMBOL.size, offset))


def _name(names: bytes, at: int) -> str:
    return names[at : at + _NAME_MAX].partition(b"\0")[0].decode(errors="replace")


def segments(fd: int) -> list[Segment]:
    """What is loaded of a file of either size and order; none of a file that is damaged or no such
    file."""
    head = os.pread(fd, 64, 0)
    if len(head) < 52 or head[:4] != b"\x7fELF" or head[5] not in (1, 2):
        return []
    order, is_wide = "<>"[head[5] - 1], head[4] == 2
    if is_wide and len(head) < 64:
        return []
    form = struct.Struct(f"{order}{'IIQQQQQQ' if is_wide else '8I'}")
    (at,) = struct.unpack_from(f"{order}{'Q' if is_wide else 'I'}", head, 32 if is_wide else 28)
    size, count = struct.unpack_from(f"{order}HH", head, 54 if is_wide else 42)
    if size != form.size or at >= 1 << 62:
        return []
    table = os.pread(fd, size * min(count, _SEGMENTS_MAX), at)
    result = []
    for words in form.iter_unpack(table[: len(table) // size * size]):
        if is_wide:
            kind, flags, offset, address, _, file_bytes, memory_bytes, _ = words
        else:
            kind, offset, address, _, file_bytes, memory_bytes, flags, _ = words
        if kind == _LOAD and file_bytes <= memory_bytes:
            rights = bool(flags & _EXECUTABLE), bool(flags & _WRITABLE)
            result.append(Segment(*rights, offset, address, file_bytes, memory_bytes))
    return result


def largest_object(fd: int, table_bytes_max: int) -> tuple[str, int] | None:
    """Name and size of the largest variable in what may be written; None where the file names none.
    Raises as `functions` does."""
    read = _reader(fd, table_bytes_max)
    head = read(64, 0)
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    data = [segment for segment in segments(fd) if segment.is_writable]
    largest: tuple[str, int] | None = None
    for names, symbols in _tables(read, head):
        for name_at, info, _, section, address, size in symbols:
            if info & 15 != _OBJECT or not section or (largest and size <= largest[1]):
                continue
            if any(0 <= address - part.address < part.memory_bytes for part in data):
                largest = _name(names, name_at), size
    return largest


def data_sections(fd: int) -> list[tuple[int, int]]:
    """Offset and size of the sections of the program's data that are loaded; none if the file has
    no section headers, or is damaged or no such file."""
    head = os.pread(fd, 64, 0)
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return []
    (at,), (count,) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<H", head, 60)
    if at >= 1 << 63:
        return []
    table = os.pread(fd, _SECTION.size * count, at)
    return [
        (offset, size)
        for _, kind, flags, _, offset, size, *_ in _SECTION.iter_unpack(
            table[: len(table) // _SECTION.size * _SECTION.size]
        )
        if flags & _ALLOCATED and not flags & _CODE and kind == _PROGRAM and offset < 1 << 62
    ]
