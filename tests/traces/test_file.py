"""Traces that are cut short, forged, of another machine or version: a line each, and no more."""

import mmap
import os
import random
import signal
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from quick import mostly_slow

from memlab.cli import cli
from memlab.errors import BadTrace
from memlab.files import packed
from memlab.observe import available
from memlab.trace import account, figure, file, shown
from memlab.trace.session import Recorded

from .made import (
    ADVISE,
    ALLOCATE,
    ANONYMOUS,
    AT,
    EXIT,
    FORK,
    FREE,
    HAS_ALLOCATIONS,
    HEADER,
    HEAP,
    MAP,
    PAGE,
    PRIVATE,
    PROTECT,
    READ,
    REMAP,
    RESIZE,
    RW,
    SHARED,
    TASK,
    UNMAP,
    Made,
    replay,
)

pytestmark = pytest.mark.needs("traces")

DISK = (1 << 20, False, b"/x")


def good() -> Made:
    return Made(files=[DISK]).map(AT, 101).touch(AT, 53).map(AT + (1 << 30), 7, file=1)


def test_the_head_and_the_names_are_read(tmp_path: Path) -> None:
    trace = file.read(good().write(tmp_path / "a.trace"))
    assert (trace.records, trace.tasks, trace.files, trace.incomplete) == (59, 1, 1, "")
    assert file.file_names(trace) == ["/x"]
    assert file.name(trace) == "made"
    found = account.of(trace)
    assert found.writes["anonymous"] == 53
    assert found.calls == {"map": 2}
    assert found.mapped_peak_bytes == 108 * PAGE


def test_a_trace_that_is_opened_once_stays_what_it_was(tmp_path: Path) -> None:
    path = good().write(tmp_path / "a.trace")
    with file.opened(path) as trace:
        Made(files=[(1, False, b"/other")]).write(other := tmp_path / "b.trace")
        other.rename(path)
        assert account.of(trace).writes["anonymous"] == 53
        assert (file.name(trace), file.file_names(trace)) == ("made", ["/x"])
    assert file.file_names(file.read(path)) == ["/other"]


def test_names_that_would_write_to_a_terminal_are_made_printable(tmp_path: Path) -> None:
    trace = file.read(Made(files=[(1, False, b"/\x1b[31mx")]).write(tmp_path / "a.trace"))
    assert "\x1b" not in file.file_names(trace)[0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": 5}, "a newer format, 5; this memlab reads 4: record"),
        ({"version": 3}, "an older format, 3; this memlab reads 4: record"),  # without its faults
        ({"machine": 3}, "another kind of machine"),
        ({"records": 1 << 60}, "cut short"),
        ({"tasks": 0}, "counts are out of bounds"),
        ({"tasks": 1 << 30}, "counts are out of bounds"),
        ({"files": 1 << 31}, "counts are out of bounds"),
        ({"records": 61}, "cut short|damaged"),
        ({"cut": 7}, "counts are out of bounds"),
        ({"running_task": 1}, "counts are out of bounds"),
        ({"unfollowed_task": 1 << 31}, "counts are out of bounds"),
    ],
)
def test_a_forged_head_is_a_line(tmp_path: Path, changed: dict[str, int], said: str) -> None:
    path = tmp_path / "a.trace"
    path.write_bytes(good().bytes(**changed))
    with pytest.raises(BadTrace, match=said) as raised:
        account.of(file.read(path))
    assert "\n" not in str(raised.value)
    assert replay(path).status == 1


def test_mappings_of_more_than_a_number_holds_are_a_line(tmp_path: Path) -> None:
    """2^17 processes with 2^47 bytes of shared memory each: their sum is 2^64."""
    tasks = 1 << 17
    made = Made(files=[DISK], tasks=tasks).add(MAP, 0, 1 << 47, RW | SHARED << 32, 1, 0)
    for task in range(1, tasks):
        made.number(TASK, task, what=FORK)
    made.add(READ, PAGE)
    with pytest.raises(BadTrace, match="more memory and processes at once"):
        account.of(file.read(made.write(tmp_path / "a.trace")))


def test_offsets_that_grow_beyond_any_file_are_a_line(tmp_path: Path) -> None:
    """A page grows, and its last is moved to its start, until its place in the file is 2^64."""
    at, grown, often = PAGE, (1 << 47) - 2 * PAGE, (3 << 15) + 1
    offset = (1 << 64) - PAGE - often * grown
    assert 0 <= offset <= 1 << 62
    moves = Made().add(REMAP, at, grown, grown + PAGE, at, 0)
    moves.add(REMAP, at + grown, PAGE, PAGE, at, 0)
    made = Made(files=[DISK]).map(at, 1, file=1, offset=offset)
    made.records += moves.records * often
    made.add(REMAP, at, PAGE, 2 * PAGE, at, 0).add(READ, at + PAGE)
    made.add(UNMAP, at, PAGE).add(UNMAP, at + PAGE, PAGE)
    with pytest.raises(BadTrace, match="beyond the end of any file"):
        account.of(file.read(made.write(tmp_path / "a.trace")))


def test_a_time_that_no_calendar_has_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.trace").write_bytes(good().bytes(recorded_s=(1 << 64) - 1))
    with pytest.raises(BadTrace, match="counts are out of bounds"):
        file.read(tmp_path / "a.trace")


def test_a_command_that_was_ended_by_a_signal_without_a_name(tmp_path: Path) -> None:
    trace = file.read(good().write(tmp_path / "a.trace"))
    first, *_ = shown.recorded(trace, Recorded(59, 0, 0, 0, 0, signal=signal.SIGRTMIN + 6))
    assert first == "the command was ended by SIGRTMIN+6"


def test_what_would_be_waited_for_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.trace")
    (tmp_path / "folder.trace").mkdir()
    (tmp_path / "device.trace").symlink_to("/dev/zero")
    for path in tmp_path.iterdir():
        with pytest.raises(BadTrace, match="it is not a file"):
            file.read(path)


def test_a_file_of_another_kind_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    for content in (b"", b"memlab", b"x" * 4096, b"memlabTR"):
        path.write_bytes(content)
        with pytest.raises(BadTrace):
            file.read(path)
        assert replay(path).status == 1
    with pytest.raises(BadTrace, match="No such file"):
        file.read(tmp_path / "none.trace")


@pytest.mark.parametrize("step", mostly_slow([7, 71], 71))
def test_every_length_below_the_whole_is_cut_short(step: int, tmp_path: Path) -> None:
    whole, path = good().bytes(), tmp_path / "a.trace"
    for length in range(0, len(whole), step):
        path.write_bytes(whole[:length])
        with pytest.raises(BadTrace):
            file.file_names(file.read(path))
        assert replay(path).status == 1


FORGED: dict[str, Callable[[], Made]] = {
    "a kind that is none": lambda: Made().add(63),
    "operands of another kind": lambda: Made().add(MAP, AT, 1, 2),
    "a task that has not begun": lambda: Made(tasks=2).touch(AT, 1, task=1),
    "a task out of order": lambda: Made(tasks=3).number(TASK, 2),
    "a task beyond the most": lambda: Made(tasks=1).number(TASK, 1),
    "a touch in the kernel": lambda: Made().add(READ, 0xFFFF_8000_0000_0000),
    "a range into the kernel": lambda: Made().add(ADVISE, AT, 1 << 50, 4),
    "a range of no page": lambda: Made().add(ADVISE, AT, 17, 4),
    "a mapping of no bytes": lambda: Made().map(AT, 0),
    "a mapping of no file": lambda: Made().map(AT, 1, file=1),
    "an offset that overflows": lambda: Made(files=[DISK]).map(AT, 1, file=1, offset=1 << 63),
    "an end of no kind": lambda: Made().add(EXIT, what=2),
    "a move into the kernel": lambda: Made().add(REMAP, AT, PAGE, PAGE, 1 << 60, 0),
    "a last record without its operands": lambda: Made().add(MAP | 2 << 6, AT),
}


@pytest.mark.parametrize("made", FORGED.values(), ids=FORGED)
def test_a_forged_record_is_found_before_any_is_replayed(
    tmp_path: Path, made: Callable[[], Made]
) -> None:
    path = made().write(tmp_path / "a.trace")
    with pytest.raises(BadTrace, match="damaged"):
        account.of(file.read(path))
    found = replay(path)
    assert (found.status, found.said.count("\n")) == (1, 1)
    assert "damaged" in found.said


def test_a_bit_that_is_not_as_it_was_written_is_found(tmp_path: Path) -> None:
    whole, path = bytearray(good().bytes()), tmp_path / "a.trace"
    whole[HEADER.size + 40 * 16 + 8] ^= 1  # a time, which no bound would tell
    path.write_bytes(whole)
    with pytest.raises(BadTrace, match="sum"):
        account.of(file.read(path))
    assert "sum" in replay(path).said


def test_no_damage_ends_the_reader_by_a_signal(tmp_path: Path) -> None:
    """Bytes at random, with a sum that fits again."""
    draw, whole, path = random.Random(7), good().bytes(), tmp_path / "a.trace"
    for _ in range(300):
        made = good()
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(made.records))
            record = bytearray(made.records[at])
            record[draw.randrange(16)] ^= 1 << draw.randrange(8)
            made.records[at] = bytes(record)
        path.write_bytes(made.bytes())
        done = subprocess.run(
            [file.tool("account"), path], capture_output=True, timeout=300, check=False
        )
        assert done.returncode in (0, 1)
    assert whole == good().bytes()


LARGE = 1 << 45  # bytes: 16 million pieces of 2 MiB
FAR = AT + 997 * (1 << 21)
DONTNEED = 4


def test_a_few_records_of_large_ranges_are_a_few_steps(tmp_path: Path) -> None:
    """Each was a step for every 2 MiB of it, and a file of 200 KiB took many minutes."""
    made = Made().add(MAP, AT, LARGE, 3 | 0x22 << 32, 0, 0)
    for _ in range(6000):
        made.add(ADVISE, AT, LARGE, DONTNEED)
    path = made.write(tmp_path / "a.trace")
    done = subprocess.run([file.tool("account"), path], timeout=120, check=False)
    assert done.returncode == 0


def test_what_lies_far_apart_is_given_back_moved_and_touched_again(tmp_path: Path) -> None:
    """In a range with more pieces than were touched, and in one with fewer."""
    made = Made().add(MAP, AT, LARGE, 3 | 0x22 << 32, 0, 0).touch(AT, 7).touch(FAR, 11)
    made.add(ADVISE, AT, LARGE, DONTNEED).touch(FAR, 5)
    made.add(REMAP, AT, LARGE, LARGE, AT + LARGE, 0)
    made.add(ADVISE, FAR + LARGE, PAGE, DONTNEED).add(UNMAP, AT + LARGE, LARGE)
    found = account.of(file.read(made.write(tmp_path / "a.trace")))
    assert found.given_back["anonymous"] == 7 + 11 + 1 + 4
    assert found.touched_again["anonymous"] == 5
    assert found.peak_pages == 7 + 11


@pytest.mark.slow
def test_a_few_records_of_many_forks_take_bounded_memory(tmp_path: Path) -> None:
    """4,000 pieces touched, copied by each of 4,000 processes: 4 GiB of 400 KiB."""
    if available.memory().left < 3 << 30:
        pytest.skip("needs 3 GiB of free memory")
    many = 4000
    made = Made(tasks=1 + many).add(MAP, AT, LARGE, 3 | 0x22 << 32, 0, 0).touch(AT, many, step=512)
    for task in range(1, 1 + many):
        made.number(TASK, task, what=FORK)
    with pytest.raises(BadTrace, match="more memory and processes at once than can be"):
        account.of(file.read(made.write(tmp_path / "a.trace")))


def test_processes_that_end_make_room_for_others(tmp_path: Path) -> None:
    many = 300
    made = Made(tasks=1 + many).map(AT, 1 << 9).touch(AT, 13)
    for task in range(1, 1 + many):
        made.number(TASK, task, what=FORK).touch(AT, 3, task=task).add(EXIT, task=task)
    found = account.of(file.read(made.write(tmp_path / "a.trace")))
    assert found.copied["anonymous"] == 3 * many
    assert found.peak_pages == 13 + 3


def test_show_and_try_say_it_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    path.write_bytes(good().bytes()[:200])
    for words in (["show", str(path)], ["try", str(path)]):
        ended = CliRunner().invoke(cli, words)
        assert isinstance(ended.exception, BadTrace)


def test_a_trace_without_a_touch_is_shown(tmp_path: Path) -> None:
    trace = file.read(Made().map(AT, 3).write(tmp_path / "a.trace"))
    assert figure.draw(trace, account.of(trace), tmp_path / "a.png").stat().st_size > 0


@pytest.mark.parametrize(("pages", "name"), [(3, b"made"), (300, b"_$a$")])
def test_processes_of_little_memory_and_of_odd_names_are_drawn(
    pages: int, name: bytes, tmp_path: Path
) -> None:
    """A legend needs an entry, and leaves out what begins with an underscore."""
    made = Made(tasks=3).map(AT, pages)
    for task in (1, 2):
        made.number(TASK, task, what=FORK).touch(AT, pages, task=task)
    (path := tmp_path / "a.trace").write_bytes(made.bytes().replace(b"made", name))
    trace = file.read(path)
    assert figure.draw(trace, account.of(trace), tmp_path / "a.png").stat().st_size > 0


def test_what_brk_maps_is_no_mmap_and_shared_memory_has_a_name(tmp_path: Path) -> None:
    shared = Made(files=[(8 * PAGE, True, b"/dev/zero (deleted)")])
    shared.add(MAP, AT << 1, 8 * PAGE, RW | 1 << 32, 1, 0).touch(AT << 1, 3).touch(AT << 2, 1)
    for size in (5, 7):
        shared.add(MAP, AT, size * PAGE, RW | 0x22 << 32, 0, 0, what=HEAP)
    shared.add(UNMAP, AT + 5 * PAGE, 2 * PAGE, what=HEAP)
    shared.lost = 1
    trace = file.read(shared.write(tmp_path / "a.trace"))
    found = account.of(trace)
    assert found.calls == {"map": 1, "brk": 3}
    text = "\n".join(shown.lines(trace, found))
    assert "most touched: shared anonymous memory 3" in text
    assert "1 page fault outside of every recorded mapping: " in text
    assert "or in one whose events were lost" in text


def repacked(plain_bytes: int, head: bytes, tail: bytes, pieces: bytes) -> bytes:
    return (
        packed.MAGIC + struct.pack("<3Q", plain_bytes, len(head), len(tail)) + head + tail + pieces
    )


def piece(rows: bytes, size: int) -> bytes:
    content = zlib.compress(rows, 9)
    return struct.pack("<II", len(content), size) + content


def test_a_packed_trace_is_the_plain_one(tmp_path: Path) -> None:
    made = good()
    for i in range(70_000):  # of two pieces
        made.add(READ, AT + i % 1009 * PAGE)
    plain, path = made.bytes(), made.write(tmp_path / "a.trace")
    before, counted = file.read(path), account.of(file.read(path))
    names = file.file_names(before)
    file.pack(path)
    trace = file.read(path)
    assert trace.bytes == path.stat().st_size < len(plain) / 6
    assert (trace.plain_bytes, trace.records, trace.sum) == (len(plain), before.records, before.sum)
    assert (file.name(trace), file.file_names(trace)) == ("made", names)
    assert account.of(trace) == counted
    with path.open("rb") as opened, packed.plain(opened) as source:
        assert source.read_bytes() == plain
    whole = path.read_bytes()
    for end in (8, 20, 31, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(BadTrace, match=r"cut short|unpacked"):
            account.of(file.read(path))
    path.write_bytes(whole + b"x")
    with pytest.raises(BadTrace, match="longer"):
        account.of(file.read(path))


def test_what_a_packed_trace_unpacks_to_is_bounded(tmp_path: Path) -> None:
    """A piece of 64 MiB that is called 16 bytes, and sizes that no disk has."""
    path, bomb = tmp_path / "a.trace", zlib.compressobj(9)
    head = good().bytes(records=1)[: HEADER.size]
    tail = good().bytes()[HEADER.size + len(b"".join(good().records)) :]
    content = bomb.compress(bytes(64 << 20)) + bomb.flush()
    forged = {
        "cannot be unpacked": struct.pack("<II", len(content), 16) + content,
        "out of bounds": piece(bytes(16), 1 << 30),
        "cut short": b"",
    }
    for why, pieces in forged.items():
        path.write_bytes(repacked(len(head) + len(tail) + 16, head, tail, pieces))
        with pytest.raises(BadTrace, match=why):
            account.of(file.read(path))
    records = 1 << 40
    head = good().bytes(records=records)[: HEADER.size]
    path.write_bytes(repacked(len(head) + len(tail) + 16 * records, head, tail, b""))
    with pytest.raises(BadTrace, match="No space left"):
        account.of(file.read(path))
    path.write_bytes(repacked(len(head) + len(tail) + 32, head, tail, b""))
    with pytest.raises(BadTrace, match=r"cut short|out of bounds"):
        file.read(path)


def test_each_process_has_its_own_peak_of_anonymous_memory_and_of_files(tmp_path: Path) -> None:
    """A page that is read is the page of zeros, one of a file that is written is anonymous, and a
    forked child begins with what its parent has."""
    of_file, shared = AT + (1 << 30), AT + (2 << 30)
    made = Made(tasks=2, files=[DISK]).map(AT, 1009).touch(AT, 101).touch(AT + 500 * PAGE, 53, READ)
    made.map(of_file, 97, file=1, flags=PRIVATE).touch(of_file, 31, READ).touch(of_file, 7)
    made.map(shared, 83, flags=SHARED | ANONYMOUS).touch(shared, 13)
    made.number(TASK, 1, what=FORK).touch(AT + 200 * PAGE, 11, task=1).touch(AT, 5, task=1)
    made.touch(of_file, 3, READ, task=1).touch(of_file + 10 * PAGE, 3, READ, task=1)
    made.add(UNMAP, AT, 100 * PAGE, 0).add(EXIT).add(EXIT, task=1)
    first, second = account.of(file.read(made.write(tmp_path / "a.trace"))).by_process
    assert (first.task, first.anonymous, first.files) == (0, 101 + 7, 24 + 13)
    assert (second.task, second.anonymous, second.files) == (1, 101 + 7 + 11, 3)


def test_live_blocks_are_set_beside_resident_pages(tmp_path: Path) -> None:
    """Ten pages in ten blocks, of which one stays for nine tenths of the time."""
    made = Made(flags=HAS_ALLOCATIONS).map(AT, 100)
    for number in range(10):
        made.add(ALLOCATE, 0, number, PAGE, 0, AT + number * PAGE)
    made.touch(AT, 10)
    for number in range(1, 10):
        made.add(FREE, 0, number, 0)
    for _ in range(20):
        made.add(RESIZE, 0, 0, 2 * PAGE, AT, 0)
    path = made.write(tmp_path / "a.trace")
    path.write_bytes(made.bytes(blocks=10))
    (one,) = account.of(file.read(path)).by_process
    assert (one.anonymous, one.files, one.live) == (10, 0, 10 * PAGE)
    resident = sum(range(11)) + 10 * (9 + 19)  # of 49 times: from each record to the next
    live = sum(range(11)) + 10 * 10 + sum(range(10)) + 2 * 19
    assert one.mean_anonymous == pytest.approx(resident / 49, abs=0.001)
    assert one.mean_live == pytest.approx(live * PAGE / 49, abs=0.001)
    said = "\n".join(shown.lines(file.read(path), account.of(file.read(path))))
    assert "made: 27.3 KiB of anonymous memory resident for 19.4 KiB of live blocks" in said
    assert "40 KiB for 40 KiB at its peak" in said


def test_a_fault_that_is_a_signal_touches_nothing(tmp_path: Path) -> None:
    made = Made().map(AT, 10).add(PROTECT, AT + 3 * PAGE, 4 * PAGE, mmap.PROT_READ)
    made.touch(AT, 10).add(PROTECT, AT + 8 * PAGE, 2 * PAGE, 0).touch(AT, 10, READ)
    trace = file.read(made.write(tmp_path / "a.trace"))
    found = account.of(trace)
    assert (found.forbidden, found.outside, found.writes["anonymous"]) == (4 + 2, 0, 6)
    assert found.peak["anonymous"] == 6  # what is read only is the page of zeros
    said = "\n".join(shown.lines(trace, found))
    assert "6 faults that a mapping's rights forbid" in said


def test_two_traces_of_one_name_have_two_figures(tmp_path: Path) -> None:
    traces = []
    for folder, made in (("a", good()), ("b", good().touch(AT + 60 * PAGE, 1))):
        (tmp_path / folder).mkdir()
        traces.append(file.read(made.write(tmp_path / folder / "x.trace")))
    assert len({figure.place(trace, tmp_path) for trace in traces}) == 2
