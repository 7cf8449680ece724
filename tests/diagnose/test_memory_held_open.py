"""Files in memory that a process holds open and does not map: how much, and how they grow."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memlab.diagnose import memory_held_open, stock
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
def test_the_growth_of_a_deleted_file_is_that_of_what_was_written(more: int) -> None:
    """Into one that was there and into one that is new; another one shrinks."""
    maps = process.maps(PID)
    with deleted(4096) as fd, deleted(8192) as shrinks:
        before = memory_held_open.unmapped_now(PID, every(), maps)
        assert before is not None
        with deleted(more) as new:
            os.write(fd, bytes(more))
            os.ftruncate(shrinks, 4096)
            held = memory_held_open.read(PID, every())
            after = memory_held_open.unmapped(held, maps)
            grown, room = memory_held_open.growth(PID, held, before, after)
            assert grown == 2 * more - 4096
            use = os.fstatvfs(new)
            assert room is not None
            assert abs(room - use.f_bavail * use.f_frsize) < 64 * MiB
        assert memory_held_open.growth(PID, held, None, after) == (0, None)


def test_what_grows_says_how_fast_and_whose_room_ends_it() -> None:
    def title(**changes: int) -> str:
        seen = look(unmapped_files_bytes=2 * MiB, group=group(), seconds=10.0, **changes)
        return "".join(one.title for one in stock.findings(seen) if one.name == "held-open")

    assert title() == ""
    assert "they grow by 1 MiB/s between two readings" in title(
        unmapped_files_growth_bytes=10 * MiB
    )
    assert "its group (memory.max) has room for 36 s" in title(unmapped_files_growth_bytes=10 * MiB)
    bound = {"unmapped_files_growth_bytes": 10 * MiB, "unmapped_files_room_bytes": 20 * MiB}
    assert "their tmpfs has room for 20 s" in title(**bound)


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
