"""Sampled page faults: the ring as the kernel writes it, and a program whose faults are known."""

from __future__ import annotations

import mmap
import struct

import needs
import pytest

from memlab.diagnose import sites
from memlab.observe.elf import Function
from memlab.observe.process import Mapping

from .live import Compiled, running
from .test_counters import tell

USER = 2**64 - 512  # PERF_CONTEXT_USER
MAPPINGS = [
    Mapping(0x1000, 0x5000, "r-xp", "/srv/app (deleted)", offset_bytes=0x2000),
    Mapping(0x8000, 0x9000, "rw-p", "[heap]"),
    Mapping(0xA000, 0xB000, "rwxp", ""),
]


def sample(code: int, address: int, *frames: int) -> bytes:
    body = struct.pack(f"=QQQ{len(frames)}Q", code, address, len(frames), *frames)
    return struct.pack("=IHH", 9, 2, 8 + len(body)) + body


def lost(count: int) -> bytes:
    return struct.pack("=IHHQQ", 2, 0, 24, 1, count)


def ring(data: bytes, head: int | None = None) -> mmap.mmap:
    made = mmap.mmap(-1, 17 * mmap.PAGESIZE)
    struct.pack_into("=Q", made, 1024, len(data) if head is None else head)
    made[mmap.PAGESIZE : mmap.PAGESIZE + len(data)] = data
    return made


def test_code_memory_and_callers_are_named_by_file_and_offset() -> None:
    often = sample(0x1234, 0x8010, USER, 0x1234, 0x4000)
    data = often + often + lost(3) + sample(0xA010, 0xF000) + often
    faults, gone = sites._read(ring(data))
    found = sites._sites(faults, gone, MAPPINGS, lambda _: [])
    assert found
    assert (found.sampled, found.lost) == (4, 3)
    assert found.code == (sites.Site("app+0x2234", 3), sites.Site("code of its own 0xa010", 1))
    assert found.memory[0] == sites.Site("[heap]", 3)
    assert found.memory[1].where == "memory that is not mapped any more"
    assert found.stack == ("app+0x2234", "app+0x5000")


def test_an_instruction_in_a_function_is_named_by_it() -> None:
    """And counted with the others of that function; one past its end is not."""
    known = [
        Function(0x2100, 0, "label"),
        Function(0x2100, 0x200, "grow"),
        Function(0x9000, 9, "z"),
    ]
    code = (0x1100, 0x12FF, 0x1300, 0x1090)
    faults = [(0x8010, (address, 0x1100)) for address in code]
    asked: list[str] = []

    def functions(mapping: Mapping) -> list[Function]:
        asked.append(mapping.path)
        return known

    found = sites._sites(faults, 0, MAPPINGS, functions)
    assert found
    assert {(one.where, one.count) for one in found.code} == {
        ("grow in app", 2), ("app+0x2300", 1), ("app+0x2090", 1)
    }  # fmt: skip
    assert found.stack == ("grow in app", "grow in app")
    assert asked == ["/srv/app (deleted)"]


def test_a_long_name_is_cut() -> None:
    known = [Function(0x2100, 0x200, "n" * 200)]
    found = sites._sites([(0x8010, (0x1100,))], 0, MAPPINGS, lambda _: known)
    assert found
    assert found.code == (sites.Site(f"{'n' * 57}... in app", 1),)


@pytest.mark.parametrize(
    "data",
    [
        sample(1, 2)[:-1],
        struct.pack("=IHH", 9, 2, 0),
        struct.pack("=IHHQQQ", 9, 2, 32, 1, 2, 2**64 - 1)[:31],
        struct.pack("=IHH", 7, 0, 65535),
        b"",
    ],
)
def test_a_record_that_is_cut_ends_the_reading(data: bytes) -> None:
    assert sites._read(ring(data)) == ([], 0)
    assert sites._read(ring(sample(1, 2) + data)) == ([(2, (1,))], 0)


def test_a_count_of_frames_beyond_the_record_is_cut() -> None:
    data = struct.pack("=IHHQQQQ", 9, 2, 40, 1, 2, 2**40, 7)
    assert sites._read(ring(data)) == ([(2, (7,))], 0)
    # A head beyond the ring is one of a kernel that went round it, which this one does not.
    assert sites._read(ring(data, head=2**60)) == ([(2, (7,))], 0)


def test_the_faults_of_a_program_are_in_its_own_code(binary: Compiled) -> None:
    with running(binary("acts")) as program:
        tell(program, "f")
        with sites.sampling([program.pid]) as sampled:
            tell(program, "f")
            found = sampled.result(program.pid)
        if sampled.why and needs.lacking("recording"):
            pytest.skip(sampled.why)
    assert found
    assert [one.where for one in found.code if one.where.endswith(" in acts")]
    assert [one.where for one in found.memory if one.where.startswith("anonymous at ")]


def test_faults_in_order_are_told_from_others() -> None:
    page = mmap.PAGESIZE

    def ordered(*pages: int, period: int = 1) -> int:
        return sites._ordered([(1 << 40 | page * at, (1,)) for at in pages], period)

    assert ordered(0, 1, 2, 6) == 3
    assert ordered(0, 16, 32) == 2, "each maps 16 pages of a file"
    assert ordered(0, 144, 290, period=9) == 2, "some were not counted"
    assert ordered(0, 33, 66) == ordered(5, 4, 4, 1) == ordered(7) == ordered() == 0


def test_few_samples_are_no_evidence() -> None:
    one = (sites.Site("app+0x1", 9),)
    assert [*sites.facts(sites.Sites(9, 0, one, one, ("app+0x1",)))] == []
    assert [*sites.facts(None)] == []
    (code, memory) = sites.facts(sites.Sites(18, 0, one, one, ("app+0x1",)))
    assert code.value == memory.value == "app+0x1, 50 % of 18 sampled faults"
