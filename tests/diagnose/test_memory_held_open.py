"""Files in memory that a process holds open and does not map: how much, and how they grow."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memlab.diagnose import memory_held_open, stock
from memlab.diagnose.memory_held_open import Growth
from memlab.observe import process

from .looks import MiB, group, look

PID = os.getpid()


@contextmanager
def deleted(size: int) -> Iterator[int]:
    """A file of /dev/shm that no name leads to."""
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        os.write(file.fileno(), bytes(size))
        yield file.fileno()


def sizes(*numbers: int) -> list[int]:
    held = memory_held_open.read(PID, {number: every()[number] for number in numbers})
    return sorted(memory_held_open.unmapped(held, process.maps(PID)).values())


def every() -> dict[int, str]:
    return process.descriptors(PID)


def test_a_file_counts_once_and_without_what_is_mapped() -> None:
    fd = os.memfd_create("a")
    with deleted(40_960) as other, open("/proc/self/exe", "rb") as program:
        again = os.dup(fd)
        os.write(fd, bytes(102_400))
        assert sizes(fd, again, other, program.fileno()) == [40_960, 102_400]
        with mmap.mmap(fd, 16_384), mmap.mmap(other, 40_960):
            assert sizes(fd, other) == [0, 102_400 - 16_384]
        with mmap.mmap(fd, 16_384, mmap.MAP_PRIVATE) as private:
            assert sizes(fd) == [102_400 - 16_384]  # nor is it said if nothing was read of it
            private.read()  # now in RssShmem
            assert sizes(fd) == [102_400 - 16_384]
        os.close(again)
    os.close(fd)


@pytest.mark.parametrize("more", [8192, 16_384])
def test_the_growth_of_a_deleted_file_is_that_of_what_was_written(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into one that was there and into one that is new; another one shrinks. The room is that of
    one reading: other programs fill the same tmpfs."""
    statvfs, uses = os.statvfs, list[os.statvfs_result]()
    monkeypatch.setattr(os, "statvfs", lambda path: uses.append(statvfs(path)) or uses[-1])
    maps = process.maps(PID)
    with deleted(4096) as fd, deleted(8192) as shrinks:
        before = memory_held_open.unmapped_now(PID, every(), maps)
        assert before is not None
        with deleted(more) as new:
            of = os.fstatvfs(new)
            os.write(fd, bytes(more))
            os.ftruncate(shrinks, 4096)
            held = memory_held_open.read(PID, every())
            after = memory_held_open.unmapped(held, maps)
            grown = memory_held_open.growth(PID, held, before, after)
            assert (grown.bytes, grown.opened_bytes) == (2 * more - 4096, more)
            (use,) = uses
            assert grown.room_bytes == use.f_bavail * use.f_frsize
            assert (use.f_fsid, use.f_blocks) == (of.f_fsid, of.f_blocks)
        assert memory_held_open.growth(PID, held, None, after) == Growth()


def test_what_it_closed_since_is_no_part_of_what_it_holds() -> None:
    """As of one that makes a buffer after another, each as large as the last."""
    maps = process.maps(PID)
    with deleted(16_384):
        before = memory_held_open.unmapped_now(PID, every(), maps)
    with deleted(16_384), deleted(4096):
        held = memory_held_open.read(PID, every())
        grown = memory_held_open.growth(PID, held, before, memory_held_open.unmapped(held, maps))
    assert (grown.bytes, grown.opened_bytes) == (4096, 4096)


def test_what_grows_says_how_fast_and_whose_room_ends_it() -> None:
    """On average between two readings, in which it may have fallen; what was in a file before it
    was opened is no growth of the file."""

    def title(*grown: int) -> str:
        seen = look(
            unmapped_files_bytes=2 * MiB, unmapped_files_growth=Growth(*grown), group=group(),
            seconds=10.0,
        )  # fmt: skip
        return "".join(one.title for one in stock.findings(seen) if one.name == "held-open")

    assert title() == ""
    assert (
        "; that is 10 MiB more than when the look began, on average 1 MiB/s between two readings, "
        "which show no course: if it goes on so, its group (memory.max) has room for 36 s"
    ) in title(10 * MiB)
    assert "their tmpfs has room for 20 s" in title(10 * MiB, 0, 20 * MiB)
    assert "began (of it 9 MiB in files that it opened since), on" in title(10 * MiB, 9 * MiB)
    assert "opened since" not in title(10 * MiB, MiB - 1)


@pytest.mark.parametrize(("count", "is_read"), [(1000, True), (1001, False), (0, True)])
def test_of_many_descriptors_none_is_read_at_the_beginning(
    count: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number is the size of the folder; before Linux 6.2 that is 0."""
    read: list[int] = []
    monkeypatch.setattr(memory_held_open, "open_files", lambda pid, *, listed: count)
    monkeypatch.setattr(
        memory_held_open.process, "descriptors", lambda pid, most: read.append(pid) or {3: "/x"}
    )
    assert memory_held_open.descriptors(7) == ({3: "/x"} if is_read else None)
    assert read == [7] * is_read
