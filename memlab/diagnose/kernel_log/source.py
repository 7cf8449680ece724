"""Where a log comes from: a file, or the kernel's own buffer."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import shlex
import stat
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from memlab.diagnose.kernel_log import forms, records, reports
from memlab.errors import BadRequest, CannotLook
from memlab.observe import capabilities, files
from memlab.observe.proc import ROOT
from memlab.text import units

_BYTES_MAX = 64 << 20
_STREAMS_MAX = 100_000
_MEMORY_MAX = 256 << 20  # of a dictionary of xz, whose file gives its size
_PART = 1 << 20
_BEGIN_BYTES = 1000  # enough to tell a program or an image from text
_DEVICE = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt
_PADDING = re.compile(rb"\0*")
# By what a line is known as the kernel's: its name, seconds since boot or since the line before, a
# level, a clock of dmesg. Each begins with a byte that is quick to search.
_MARKED = tuple(
    map(
        re.compile,
        (
            rb"Linux version \d",
            rb'"kernel["\s]',
            rb'=kernel["\s]',
            rb'"dmesg": ?\[',
            rb"\[ {0,12}(?:\d{1,12}\.\d{3,9}[\] ]|\+\d{1,12}\.\d{6}\])",
            rb"\[< {0,12}\d{1,12}\.\d{6}>\]|\[\w{3}[ \d]\d \d\d:\d\d\] ",
            rb"\n\s{0,8}(?:<\d{1,3}>|\[\w{3} \w{3} {1,2}\d)",
            rb"\n\s{0,8}\[[^\[\]\n]{3,40} \d\d:\d\d:\d\d \d{4}[\] ]",
            rb"\n(?:\d{1,4},\d{1,20},\d{1,20}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{6}[+-])",
            rb"\nkern {1,4}:[a-z]{3,7} {0,4}: ",
            rb"\n(?:\S{1,64}: )?(?:kern|user|daemon): {1,8}[a-z]{3,8}: \[\d{4}-",  # of Talos
        ),
    )
)
_SYSLOG = re.compile(rb"\bkernel(?:\[\d{1,8}\])? {0,4}:|\[kernel\] ")
_BARE_SYSLOG = re.compile(rb"^[ \t]{0,8}(\S{1,64}) kernel(?:\[\d{1,8}\])?: ", re.M)
_BARE_LEAST, _BARE_MAX = 2, 1 << 20
_SYSLOG_MAX = 10_000
_STAMP_MAX = 400  # bytes before `kernel:` that are looked at
_DIGIT = re.compile(rb"\d")
# What a file begins with that holds a log, but no text.
_NO_TEXT = {
    b"LPKSHHRH": "a journal's file: journalctl -k --file {}",
    b"\x28\xb5\x2f\xfd": "packed by zstd: zstd -dc {}",
    b"\x04\x22\x4d\x18": "packed by lz4: lz4 -dc {}",
    b"\x5d\0\0": "packed by lzma: xz -dc {}",
    b"PK\x03\x04": "packed by zip: unzip -p {}",
}


def read(path: Path | None) -> reports.Log:
    """Read a file, or the kernel's log. Raises `CannotLook` and `BadRequest`."""
    if path is None:
        return reports.read(_kernels_log())
    content, is_cut = _content(path)
    packing = None
    if not is_cut:
        _refuse_no_text(path, content)
        packing = next((one for one in _PACKED if content.startswith(one.begin)), None)
    if packing is None:
        lines = forms.lines_of(content)
        del content  # of 64 MiB, while the lines of it are read
        log = reports.read(lines)
        if is_cut:
            log.unread = f"only the last {units.format_size(_BYTES_MAX)} of the file were read"
        return log if _says(log) else _of_kernel(path, _content(path)[0], log)
    text, rest = _unpacked(path, content, packing)
    log = reports.read(forms.lines_of(text))
    log.unread = rest.format("1 line was" if log.lines == 1 else f"{log.lines:,} lines were")
    return _of_kernel(path, text, log)


def _content(path: Path) -> tuple[bytes, bool]:
    """The file, or of a larger one its end, and whether it is cut. Raises `CannotLook`."""
    try:
        with files.opened(path) as file:
            begin, size = file.read(_BEGIN_BYTES), os.fstat(file.fileno()).st_size
            if size <= _BYTES_MAX:
                rest = file.read(_BYTES_MAX) if begin else b""
                return (begin or b"") + (rest or b""), False
            packed = (*_NO_TEXT, *(one.begin for one in _PACKED))
            if begin.startswith(packed):
                most = units.format_size(_BYTES_MAX)
                raise CannotLook(f"{path}: it is packed, and over {most}: unpack it, give its end")
            file.seek(size - _BYTES_MAX)
            return file.read(_BYTES_MAX).partition(b"\n")[2], True
    except OSError:
        raise CannotLook(f"{path}: no regular file that may be read") from None


def _says(log: reports.Log) -> bool:
    """Whether a log has what only the kernel or an OOM daemon prints, or is empty."""
    says = log.reports or log.user_space or log.hints or log.reaped or log.refused or log.lost
    says = says or log.failures or log.parts or log.ends
    is_other = log.requests or log.hidden or log.no_range is not None or not log.lines
    return bool(says or is_other)


def _of_kernel(path: Path, text: bytes, log: reports.Log) -> reports.Log:
    """A log without a kill says something only if it is the kernel's. Raises `BadRequest`."""
    if _says(log):
        return log
    text = forms.narrow(text).strip(b"\0")  # as a crash or a rotation leaves at a file's ends
    is_text = b"\0" not in text[:_BEGIN_BYTES] or records.is_export(text)
    if is_text and (_has_syslog(text) or _is_marked(b"\n" + text)):
        return log
    raise BadRequest(
        f"{path}: no line of it has a form of the kernel's log ({units.counted(log.lines, 'line')} "
        "read): give the output of journalctl -k (as text, JSON or export), of dmesg, with its "
        "stamps or -T, or a syslog file whose lines have 'kernel:'"
    )


def _is_marked(text: bytes) -> bool:
    return any(mark.search(text) for mark in _MARKED)


def _has_syslog(text: bytes) -> bool:
    """Whether a line has `kernel:` at its beginning or behind a stamp, not within a sentence."""
    for place in islice(_SYSLOG.finditer(text), _SYSLOG_MAX):
        before = text[max(0, place.start() - _STAMP_MAX) : place.start()].rpartition(b"\n")[2]
        if not before.strip() or _DIGIT.search(before):
            return True
    hosts = [match[1] for match in islice(_BARE_SYSLOG.finditer(text), _SYSLOG_MAX)]
    lines = sum(map(bool, map(bytes.strip, text[:_BARE_MAX].split(b"\n"))))
    return len(hosts) >= _BARE_LEAST and len(set(hosts)) == 1 and 2 * len(hosts) > lines


def _refuse_no_text(path: Path, content: bytes) -> None:
    what = next((_NO_TEXT[begin] for begin in _NO_TEXT if content.startswith(begin)), None)
    if what is not None:
        raise CannotLook(f"{path}: {what.format(shlex.quote(str(path)))} > k.txt; give k.txt")


class _Packing(NamedTuple):
    """How a log that was rotated is packed."""

    begin: bytes
    command: str
    unpacker: Callable[[], Any]


def _unpacked(path: Path, content: bytes, packing: _Packing) -> tuple[bytes, str]:
    """The text of all streams, and what was not read. Raises `CannotLook`."""
    try:
        text, rest = _streams(content, packing)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise CannotLook(f"{path}: it is packed, and cannot be unpacked: {error}") from None
    if len(text) > _BYTES_MAX:
        raise CannotLook(f"{path}: over {units.format_size(_BYTES_MAX)} when it is unpacked")
    if text.startswith((*_NO_TEXT, *(one.begin for one in _PACKED))):
        command = f"{packing.command} {shlex.quote(str(path))}"
        raise CannotLook(f"{path}: packed twice: {command} > k.txt; give k.txt")
    return text, rest


def _streams(content: bytes, packing: _Packing) -> tuple[bytes, str]:
    """A log may be appended to: then it has several streams, and zeros behind them."""
    text, position, end = bytearray(), 0, len(content)
    for _ in range(_STREAMS_MAX):
        unpacker, part = packing.unpacker(), 512
        while not unpacker.eof and position < end and len(text) <= _BYTES_MAX:
            text += unpacker.decompress(
                content[position : position + part], _BYTES_MAX + 1 - len(text)
            )
            position, part = min(end, position + part), min(2 * part, _PART)
        if not unpacker.eof:
            return bytes(text), "the archive is cut: {} read before that"
        position -= len(unpacker.unused_data)
        position = _PADDING.match(content, position).end()  # type: ignore[union-attr]
        if position == end:
            return bytes(text), ""
        if not content.startswith(packing.begin, position):
            break
    size = units.format_size(end - position)
    return bytes(text), f"{size} behind the archive is unread: {{}} read before that"


def _kernels_log() -> Iterator[str]:
    """Record by record: a read of /dev/kmsg is one line (Documentation/ABI/testing/dev-kmsg)."""
    try:
        fd = os.open(ROOT / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        other = f"{capabilities.as_root()}, or " if isinstance(error, PermissionError) else ""
        raise CannotLook(
            f"/dev/kmsg: {error.strerror}: {other}give a file: journalctl -k > k.txt; "
            "memlab diagnose --last-kill=k.txt"
        ) from None
    try:
        about = os.fstat(fd)
        if not stat.S_ISCHR(about.st_mode) or about.st_rdev != _DEVICE:
            raise CannotLook(
                "/dev/kmsg: not the kernel's log here, as in a container: give a file of the host: "
                "memlab diagnose --last-kill=k.txt"
            )
        while True:
            try:
                record = os.read(fd, 8192).decode("utf-8", "replace")
            except BrokenPipeError:  # overwritten meanwhile: the next read goes on
                continue
            except BlockingIOError:
                return
            if not record:
                return
            yield from forms.logical(record.split("\n")[0])
    finally:
        os.close(fd)


_PACKED = (
    _Packing(b"\x1f\x8b", "gzip -dc", lambda: zlib.decompressobj(wbits=31)),
    _Packing(b"\xfd7zXZ\0", "xz -dc", lambda: lzma.LZMADecompressor(memlimit=_MEMORY_MAX)),
    _Packing(b"BZh", "bzip2 -dc", bz2.BZ2Decompressor),
)
