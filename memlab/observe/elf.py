"""The functions of an ELF file: elf(5), of 64 bits, little end first.

The file is another's: what it says of itself is bounded before it is read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

_SYMBOL = struct.Struct("<IBBHQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMTAB, _DYNSYM, _LOAD, _EXECUTABLE, _FUNCTION = 2, 11, 1, 1, 2
_PROGRAM, _ALLOCATED, _CODE = 1, 2, 4  # of a section: its type, and two of its flags
_SECTIONS_MAX = 1 << 16
_NAME_MAX = 200  # bytes


class Function(NamedTuple):
    """Where its first instruction lies in the file, and how many bytes it has (0: not said)."""

    at: int
    size_bytes: int
    name: str


def functions(fd: int, table_bytes_max: int = 64 << 20) -> Iterator[Function]:
    """Those that the file defines, in the order of its tables: one may have several names, and
    be in two tables. None where it is no such file; ValueError or struct.error where it is damaged
    or one of its tables, or their names, is longer than `table_bytes_max`."""

    def read(bytes: int, at: int) -> bytes:
        if bytes > table_bytes_max or at >= 1 << 63:
            raise ValueError("a table of symbols out of bounds")
        return os.pread(fd, bytes, at)

    head = read(64, 0)
    if head[:6] != b"\x7fELF\x02\x01":
        return
    segments_at, sections_at = struct.unpack_from("<QQ", head, 32)
    segment_count, _, section_count = struct.unpack_from("<HHH", head, 56)
    if section_count > _SECTIONS_MAX:
        return
    code = [
        (address, offset, size)
        for kind, flags, offset, address, _, size, _, _ in _SEGMENT.iter_unpack(
            read(_SEGMENT.size * segment_count, segments_at)
        )
        if kind == _LOAD and flags & _EXECUTABLE
    ]
    sections = [*_SECTION.iter_unpack(read(_SECTION.size * section_count, sections_at))]
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind not in (_SYMTAB, _DYNSYM) or link >= len(sections):
            continue
        names = read(sections[link][5], sections[link][4])
        symbols = read(size - size % _SYMBOL.size, offset)
        for name_at, info, _, section, address, bytes in _SYMBOL.iter_unpack(symbols):
            if info & 15 != _FUNCTION or not section:
                continue
            for start, file_at, length in code:
                if start <= address < start + length:
                    name = names[name_at : name_at + _NAME_MAX].partition(b"\0")[0]
                    yield Function(address - start + file_at, bytes, name.decode(errors="replace"))
                    break


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
