"""Arguments that must be a multiple of something and are not, with calls that fail otherwise."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from memlab.diagnose import call_places
from memlab.diagnose.call_facts import Facts
from memlab.diagnose.finding import NOTE

from .test_call_causes import LIBC, PID, of, only

PAGE = mmap.PAGESIZE


@pytest.mark.needs("recording")
def test_an_offset_within_a_page(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(PAGE))
    fd = os.open(tmp_path / "x", os.O_RDONLY)
    call = {"x86_64": 9}.get(os.uname().machine, 222)
    try:
        one, said = only(lambda: LIBC.syscall(call, 0, 4096, 1, 2, fd, ctypes.c_long(1000)))
    finally:
        os.close(fd)
    assert (one.call, one.errno) == ("mmap", "EINVAL")
    assert f"the offset must be a multiple of the page ({PAGE:,} bytes), and is 1,000" in said.title
    assert said.severity is NOTE


@pytest.mark.parametrize(
    ("call", "arguments", "words"),
    [
        ("mmap", (0, PAGE, 1, 2, 3, PAGE + 1000), "the offset must be a multiple"),
        ("mmap", (PAGE + 1, PAGE, 1, 0x12, 3, 0), "the fixed address must be a multiple"),
        ("mmap", (PAGE + 1, PAGE, 1, 2, 3, 0), ""),
        ("mmap", (0, 0, 1, 2, 3, 0), "no bytes are requested"),
        ("munmap", (PAGE, 0), "no bytes are requested"),
        ("mprotect", (PAGE + 1, PAGE, 1), "and is 0x1001: 1 too many"),
        ("mprotect", (PAGE, 1, 1), ""),
        ("madvise", (PAGE + 8, PAGE, 4), "the address must be a multiple"),
        ("mremap", (PAGE, PAGE, PAGE, 3, PAGE + 2), "the new address must be a multiple"),
        ("mremap", (PAGE, PAGE, PAGE, 1, PAGE + 2), ""),
        ("shmat", (1, PAGE + 8, 0), "the address must be a multiple"),
        ("shmat", (1, PAGE + 8, 0o20000), "no shared memory segment"),
        ("mlock", (PAGE + 8, PAGE), ""),
    ],
)
def test_what_must_be_on_a_page(call: str, arguments: tuple[int, ...], words: str) -> None:
    said = of(call, "EINVAL", *arguments)
    assert (words if PAGE == 4096 else words.partition("0x")[0]) in said
    assert bool(said) == bool(words)


def test_direct_reads_that_are_not_aligned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    facts = Facts(PID, {})
    flags = {"flags": f"{os.O_RDWR | os.O_DIRECT:o}", "pos": "100"}
    monkeypatch.setattr(Facts, "field", lambda _, __, name: flags.get(name))
    monkeypatch.setattr(call_places, "direct_units", lambda *_: (512, 4096))

    def words(call: str, *arguments: int) -> str:
        return of(call, "EINVAL", fd, *arguments, facts=facts)

    try:
        begin = f"descriptor {fd}, now {tmp_path}/x"[:60]
        assert words("pread64", 512, 4000, 0).startswith(begin)
        assert words("pread64", 512, 4000, 0).endswith("a buffer of 512, and the length is 4,000")
        assert words("pread64", 100, 4096, 512).endswith(
            "a buffer is at 0x64 and the position is 512"
        )
        assert words("pread64", 512, 4096, 8192) == ""
        assert words("read", 512, 4096).endswith("and the position is 100")
        flags["flags"] = f"{os.O_RDWR | os.O_DIRECT | os.O_APPEND:o}"
        assert words("write", 512, 4096) == "", "it writes at the end"
        pieces = (ctypes.c_uint64 * 4)(512, 4096, 512, 7)
        at = ctypes.addressof(pieces)
        assert words("preadv", at, 2, 0).endswith("and the length is 7")
        monkeypatch.setattr(call_places, "direct_units", lambda *_: None)
        assert words("pread64", 512, 4000, 0) == ""
        flags["flags"] = f"{os.O_RDWR:o}"
        monkeypatch.setattr(call_places, "direct_units", lambda *_: (512, 512))
        assert words("pread64", 512, 4000, 0) == ""
    finally:
        os.close(fd)


def test_the_units_of_direct_reads_are_of_the_file_system(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    pipe, other = os.pipe()
    try:
        known = call_places.mounts(PID)
        units = call_places.direct_units(PID, fd, known)
        assert units is None or all(1 <= one <= 1 << 20 for one in units)
        assert call_places.direct_units(PID, pipe, known) is None
    finally:
        for one in (fd, pipe, other):
            os.close(one)


def test_a_mask_without_a_processor() -> None:
    def words(mask: int) -> str:
        buffer = ctypes.create_string_buffer(mask.to_bytes(128, "little"), 128)
        at = ctypes.addressof(buffer)
        return of("sched_setaffinity", "EINVAL", 0, 128, at)

    assert words(0) == "it is to run on no CPU, by the mask that lies there now"
    assert words(1 << 1000).startswith("it is to run on CPUs that are not online (online are 0")
    assert words(1 << 1000 | 1) == ""
    assert of("sched_setaffinity", "EINVAL", 0, 128, 8) == "", "it was not read"
