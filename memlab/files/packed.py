"""Files of fixed rows, packed by the standard library.

A packed file has the plain file's first and last bytes as they are, so that both are read without
unpacking the rows between them: MAGIC, the sizes of the plain file, of its first and of its last
part, these two parts, then the rows in pieces. A piece is the sizes of what is packed and of what
it is unpacked to, and a zlib stream of the rows byte by byte: the first byte of each row, then the
second of each, and so on. Bytes of one place in a row resemble each other more than neighbours do.

A packed file may come from anybody. What it unpacks to has the size that it names, to the byte, and
leaves room on the disk; a piece never takes more memory than `_PIECE_BYTES`.
"""

from __future__ import annotations

import errno
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MAGIC = b"memlabTZ"
_ROW_BYTES = 16
_PIECE_BYTES = 1 << 20
_PIECE_MOST = _PIECE_BYTES + (64 << 10)  # packed; what cannot be packed grows a little
_LEVEL = 3
_ROOM_BYTES = 64 << 20  # that a plain file leaves on the disk
_SIZES, _PIECE = struct.Struct("<3Q"), struct.Struct("<II")


class BadPacking(ValueError):
    """What is wrong with a packed file, as a clause."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Of a packed file: where its last part is, and the size of the plain file."""

    plain_bytes: int
    head_at: int
    head_bytes: int
    tail_at: int
    tail_bytes: int

    @property
    def rows_bytes(self) -> int:
        return self.plain_bytes - self.head_bytes - self.tail_bytes


def layout(file: IO[bytes]) -> Layout | None:
    """None of a file that is not packed. Raises BadPacking."""
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        return None
    sizes = file.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        raise BadPacking("it is cut short")
    plain, head, tail = _SIZES.unpack(sizes)
    head_at = len(MAGIC) + _SIZES.size
    if head + tail > os.fstat(file.fileno()).st_size - head_at:
        raise BadPacking("it is cut short")
    if head > _PIECE_BYTES or head + tail > plain or (plain - head - tail) % _ROW_BYTES:
        raise BadPacking("its sizes are out of bounds")
    return Layout(plain, head_at, head, head_at + head, tail)


def pack(source: IO[bytes], head_bytes: int, tail_at: int) -> Iterator[bytes]:
    """The pieces of the packed file of a plain one, which has rows between these places."""
    plain_bytes = os.fstat(source.fileno()).st_size
    yield MAGIC + _SIZES.pack(plain_bytes, head_bytes, plain_bytes - tail_at)
    source.seek(0)
    yield source.read(head_bytes)
    source.seek(tail_at)
    yield from _pieces(source, plain_bytes - tail_at)
    source.seek(head_bytes)
    for rows in _pieces(source, tail_at - head_bytes):
        packed = zlib.compress(b"".join(rows[i::_ROW_BYTES] for i in range(_ROW_BYTES)), _LEVEL)
        yield _PIECE.pack(len(packed), len(rows)) + packed


def _unpacked(source: IO[bytes], of: Layout) -> Iterator[bytes]:
    source.seek(of.head_at)
    yield source.read(of.head_bytes)
    source.seek(of.tail_at + of.tail_bytes)
    remaining = of.rows_bytes
    while remaining:
        sizes = source.read(_PIECE.size)
        if len(sizes) < _PIECE.size:
            raise BadPacking("it is cut short")
        packed, plain = _PIECE.unpack(sizes)
        if (
            packed > _PIECE_MOST
            or not 0 < plain <= min(remaining, _PIECE_BYTES)
            or plain % _ROW_BYTES
        ):
            raise BadPacking("its sizes are out of bounds")
        yield _rows(source.read(packed), plain)
        remaining -= plain
    if source.read(1):
        raise BadPacking("it is longer than its sizes say")
    source.seek(of.tail_at)
    yield from _pieces(source, of.tail_bytes)


def _pieces(source: IO[bytes], size: int) -> Iterator[bytes]:
    while size and (piece := source.read(min(size, _PIECE_BYTES))):
        yield piece
        size -= len(piece)


def _rows(packed: bytes, plain: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        columns = stream.decompress(packed, plain)
    except zlib.error:
        raise BadPacking("a piece of it cannot be unpacked") from None
    if len(columns) != plain or not stream.eof or stream.unused_data:
        raise BadPacking("a piece of it cannot be unpacked")
    result, count = bytearray(plain), plain // _ROW_BYTES
    for i in range(_ROW_BYTES):
        result[i::_ROW_BYTES] = columns[i * count : (i + 1) * count]
    return bytes(result)


def copy(source: IO[bytes], written: IO[bytes]) -> None:
    """Write the plain file. Raises BadPacking, and OSError if the disk has too little room."""
    size = os.fstat(source.fileno()).st_size  # what is appended later is not copied
    of = layout(source)
    size = of.plain_bytes if of else size
    status = os.fstatvfs(written.fileno())
    if size + _ROOM_BYTES > status.f_bavail * status.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    source.seek(0)
    for piece in _unpacked(source, of) if of else _pieces(source, size):
        written.write(piece)


@contextmanager
def plain(source: IO[bytes]) -> Iterator[Path]:
    """Where the plain file is read until this is closed: the file itself, or an unnamed copy.
    Raises as `copy`."""
    with ExitStack() as stack:
        if layout(source):
            folder = os.environ.get("TMPDIR") or "/var/tmp"
            written = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            copy(source, written)
            written.flush()
            source = written
        yield Path(f"/proc/{os.getpid()}/fd/{source.fileno()}")
