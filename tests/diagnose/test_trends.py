"""What a series of readings shows: counts that grow towards their limits, and low points."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from memlab.diagnose import (
    course,
    diagnosis,
    group_limits,
    held,
    inner_heap,
    inside,
    limits,
    mapped_forms,
    mapping_list,
    output,
    stock,
    waits,
)
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.family import Member
from memlab.diagnose.finding import COSTLY, NOTE, Finding, per_second
from memlab.diagnose.held import GroupLook
from memlab.diagnose.inner_heap import InnerHeap
from memlab.diagnose.look import Look, MappedOften, Series, floor_growth
from memlab.diagnose.mapping_list import MappingList
from memlab.diagnose.memory import _locked, _locked_resident
from memlab.diagnose.memory_files import PAGE
from memlab.diagnose.pages import Pages, Sampled
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.room import Room
from memlab.diagnose.sockets import Sockets
from memlab.observe import process

from .looks import MiB, charge, group, heap, look, memory
from .test_when import _of_group


def near(room: Room) -> list[Finding]:
    return list(limits.findings(look(rooms=(room,))))


def test_a_rate_stands_in_a_sentence_as_it_is_said() -> None:
    assert per_second(64.3, "calls") == "64.3 calls per second"
    assert per_second(8000, "page faults") == "8 k page faults per second"
    assert per_second(300) == "300 per second"


def test_a_count_that_grows_names_its_limit_and_the_time_to_it() -> None:
    files = Room("RLIMIT_NOFILE", 424, 1024, "count", "open fails with EMFILE", 10.0)
    assert files.seconds_left == 60
    (found,) = near(files)
    assert (found.name, found.severity) == ("files-limit-nears", COSTLY)
    assert "424 of 1,024 (RLIMIT_NOFILE, 41 %), and 10 more per s" in found.title
    assert "met in 60 s" in found.title


def test_a_limit_that_is_far_is_a_note_and_one_that_nothing_nears_is_none() -> None:
    (found,) = near(Room("kernel.threads-max", 424, 190_000, "count", "fork fails", 10.0))
    assert (found.name, found.severity, found.measured) == ("threads-grow", NOTE, 10.0)
    assert near(Room("RLIMIT_NOFILE", 424, 1024, "count", "open fails with EMFILE")) == []
    # What a growing heap is said to be by its own finding is no second one.
    assert near(Room("RLIMIT_AS", 424 * MiB, 1 << 40, "B", "mmap fails", 1.0)) == []


@pytest.mark.parametrize(
    ("name", "used", "limit", "unit"),
    [
        ("RLIMIT_MEMLOCK", 0, 0, "B"),
        ("RLIMIT_NPROC", 3, 3, "count"),
        ("RLIMIT_NOFILE", 5, 0, "count"),
    ],
)
def test_a_limit_by_which_a_program_confines_itself_is_no_finding(
    name: str, used: int, limit: int, unit: str
) -> None:
    """As avahi-daemon and rtkit-daemon set them: of a call that it refuses there is a finding."""
    room = Room(name, used, limit, unit, "calls fail")
    assert near(room) == []
    assert [one.severity for one in near(replace(room, growth_per_s=1.0))] == [COSTLY]
    assert near(replace(room, used=64 << 10, limit=64 << 10)) != []


def test_of_limits_of_one_kind_the_one_that_is_met_first_comes_first() -> None:
    many = Room("kernel.threads-max", 1000, 190_000, "count", "fork fails", 10.0)
    few = Room("pids.max", 100, 200, "count", "fork fails", 10.0)
    titles = [one.title for one in limits.findings(look(rooms=(many, few)))]
    assert "100 of 200 (pids.max" in titles[0]


@pytest.mark.parametrize(
    ("counts", "per_s"),
    [
        ([10, 20, 30, 40, 50], 4.0),
        ([10, 20, 20, 40, 50], 0.0),  # not in every part
        ([10, 50, 10, 50, 50], 0.0),
        ([50, 40, 30, 20, 10], 0.0),
        ([10, 11, 12, 13, 14], 0.0),  # a program that warms up
        ([10, 50], 0.0),  # two readings show no course
        ([], 0.0),
    ],
)
def test_a_growth_is_one_that_every_part_of_the_look_shows(counts: list[int], per_s: float) -> None:
    series = object.__new__(Series)
    series.counts = {"files": counts}
    assert series.growth_per_s("files", 10.0) == per_s


def teeth(floors: Sequence[int], swing: int, samples: int) -> list[int]:
    """A swing above each floor, in so many samples."""
    return [low + swing * i // samples for low in floors for i in range(samples)]


def test_low_points_that_rise_are_what_a_collector_does_not_get_back() -> None:
    """Twice the leak is twice the number."""
    for leak in (8, 16):
        held = teeth(range(0, 10 * leak, leak), 32, 10)
        assert floor_growth(held) == pytest.approx(leak * (len(held) - 1) / 10)


@pytest.mark.parametrize(
    "held",
    [
        teeth([5] * 10, 32, 10),  # a healthy one
        teeth([5, 9, 7, 12, 11, 16], 32, 10),
        teeth([5, 13, 21], 32, 10),  # too few to tell
        teeth(range(0, 80, 8), 32, 3),  # faster than the samples
        teeth(range(10), 1000, 10),  # by less than the samples can place
        list(range(100)),
        [7] * 100,
        [7],
    ],
)
def test_what_shows_no_rise_of_the_low_points_is_0(held: list[int]) -> None:
    assert floor_growth(held) == 0.0


def test_a_leak_under_a_swing_is_said_with_the_time_that_is_left() -> None:
    swings = {"highest_bytes": 64 * MiB, "lowest_bytes": 10 * MiB, "fell_bytes": 200 * MiB}
    (healthy,) = [one for one in stock.findings(look(**swings)) if one.name == "swings"]
    assert "low points" not in healthy.title
    (found,) = [
        one
        for one in stock.findings(look(**swings, floor_growth_bytes_per_s=float(MiB)))
        if one.name == "swings"
    ]
    assert (found.severity, healthy.severity) == (COSTLY, NOTE)
    assert "its low points rise by 1 MiB/s, 90.6 GB per day" in found.title


def test_what_grows_or_falls_is_not_at_rest_after_its_peak() -> None:
    """A look shorter than a swing sees it grow, and its peak is that of the swing before."""

    def said(lowest: int) -> list[str]:
        held = memory(anonymous_bytes=80 * MiB, resident_bytes=90 * MiB,
                      peak_resident_bytes=140 * MiB)  # fmt: skip
        seen = look(memory=held, heap=heap(held_bytes=MiB, free_bytes=0, retained_bytes=0,
                                           ends_bytes=0),
                    lowest_bytes=lowest, highest_bytes=80 * MiB)  # fmt: skip
        return [one.name for one in stock.findings(seen)]

    assert "held-beside-malloc" in said(lowest=79 * MiB)
    assert "held-beside-malloc" not in said(lowest=70 * MiB)


def test_mappings_too_many_to_list_again_are_counted_at_both_ends() -> None:
    """Two readings of a count over 10,000: the growth is said, and that it shows no course."""
    grown = Room("vm.max_map_count", 14_700, 65_530, "count", "mmap fails", 870.0, True)
    (found,) = limits.findings(look(rooms=(grown,)))
    assert (found.name, found.severity) == ("mappings-limit-nears", COSTLY)
    assert "870 more per s between two readings" in found.title
    stands = replace(grown, growth_per_s=0.0, two_readings=False)
    assert list(limits.findings(look(rooms=(stands,)))) == []


def beside(pid: int) -> Member:
    """Another process of its group, which makes shared pages private."""
    return Member(pid, "worker", 40 * MiB, 0, 16 * MiB, 20 * MiB, 0)


def test_what_others_of_its_group_share_with_each_other_is_not_told_of_it() -> None:
    """A benchmark beside the workers of another program, in one limited group."""
    stranger = look(members=(beside(7),), group=group())
    assert "unshared" not in {one.name for one in stock.findings(stranger)}
    parent = replace(stranger, descendants=frozenset({7}))
    assert "unshared" in {one.name for one in stock.findings(parent)}
    assert stranger.pages
    worker = replace(stranger, pages=replace(stranger.pages, shared_bytes=8 * MiB))
    assert "unshared" in {one.name for one in stock.findings(worker)}


@pytest.mark.parametrize(("left_s", "severity"), [(900.0, COSTLY), (1200.0, NOTE)])
def test_the_growth_of_a_group_costs_if_its_room_lasts_for_less_than_100_looks(
    left_s: float, severity: int
) -> None:
    filling = group(
        growth_bytes_per_s=1.0 * MiB, grows_steadily=True, seconds_left=left_s,
        highest_bytes=32 * MiB,
    )  # fmt: skip
    (found,) = [one for one in limits.findings(look(group=filling)) if one.name != "growing"]
    assert (found.name, found.severity) == ("group-limit-nears", severity)
    assert "(most is not this process's), the group is full in" in found.title
    # A look at the group says the same.
    (found,) = group_limits.of_group(replace(filling, seconds=look().seconds))
    assert (found.name, found.severity) == ("group-limit-nears", severity)


@pytest.mark.parametrize("nears", [True, False])
def test_above_a_limit_that_nears_it_is_not_said_that_nothing_was_found(*, nears: bool) -> None:
    filling = group(
        growth_bytes_per_s=1.0 * MiB, grows_steadily=nears, seconds_left=1200.0,
        highest_bytes=32 * MiB,
    )  # fmt: skip
    found = tuple(group_limits.of_group(replace(filling, seconds=look().seconds)))
    cost = diagnosis._cost(0.0, 1.0, 0.0, 0.0)
    said = list(output._verdict(Diagnosis(look(), None, (), found, (), cost), verbose=False))
    assert (output.NOTHING in said) == (not nears)
    assert ("worth knowing:" in said) == nears


def test_a_locked_part_that_a_sample_does_not_meet_is_not_said_to_be_absent() -> None:
    def seen(matches: int) -> Pages:
        whole = look().pages
        assert whole
        return replace(whole, locked=Sampled(1000, matches))

    assert _locked_resident(16 << 10, 300 * MiB, None, seen(0)) == (None, None)
    assert _locked_resident(64 * MiB, 300 * MiB, None, seen(100)) == (30 * MiB, None)


def test_a_group_that_grows_by_what_becomes_private_says_that_once() -> None:
    """Its processes do not grow, and to look at one of them would say nothing."""
    workers = tuple(replace(beside(pid), growth_bytes=0) for pid in (7, 8))
    quiet = waits.Waits(0, 0, {}, 0, {}, 0.0, None)
    grown = GroupLook(
        path="/g", version="2", seconds=10.0, charge=charge(anonymous_bytes=64 * MiB),
        growth_bytes_per_s=1.5 * MiB, faults_per_s=0.0, room=None, processes=2, members=workers,
        unshared_bytes=18 * MiB,
        tmpfs=(), waits=quiet, pressure_share=None, grows_steadily=True,
    )  # fmt: skip
    assert [one.name for one in held.findings(grown)] == ["unshared"]
    others = replace(grown, unshared_bytes=MiB)
    (growing,) = [one for one in held.findings(others) if one.name == "growing"]
    assert (growing.setting, "most of it" in growing.title) == ("", False)
    largest = replace(workers[1], growth_bytes=8 * MiB)
    (growing,) = [
        one for one in held.findings(replace(others, members=(workers[0], largest)))
        if one.name == "growing"
    ]  # fmt: skip
    assert growing.setting == "memlab diagnose 8"


@pytest.mark.parametrize(("per_s", "is_shared"), [(1.0 * MiB, True), (0.9 * MiB, False)])
def test_a_group_that_fills_with_copies_is_told_how_many_there_can_be_at_most(
    per_s: float, *, is_shared: bool
) -> None:
    """The bound is of all processes that share, and not of the one that is looked at."""
    room = group(
        seconds_left=20.0, grows_steadily=True, growth_bytes_per_s=2.0 * MiB,
        highest_bytes=32 * MiB,
    )  # fmt: skip
    (title,) = [
        one.title for one in group_limits.of_group(room, unshares=(per_s, 64.0 * MiB))
        if one.name == "group-limit-nears"
    ]  # fmt: skip
    assert (
        "share since a fork becomes private, at most 64 MiB more, and the" in title
    ) == is_shared
    assert ("no bound of the growth was found" in title) != is_shared
    assert "the process can fill" not in title


@pytest.mark.parametrize(("locked", "is_said"), [(16 << 10, False), (2 * MiB, True)])
def test_a_few_locked_pages_of_a_large_process_are_no_gap_of_the_look(
    locked: int, *, is_said: bool
) -> None:
    """As the secure memory of libgcrypt."""
    listed = MappingList([process.Mapping(0, 1 << 30, "rw-p", "")], 1)
    detailed, unseen = _locked(7, locked, 1 << 30, listed)
    assert (detailed, bool(unseen)) == (None, is_said)


@pytest.mark.parametrize(
    ("runtime", "words", "never"),
    [
        (inner_heap.JAVA, "MaxDirectMemorySize", "node"),
        ("the JVM in libjvm.so", "MaxDirectMemorySize", "node"),
        (inner_heap.V8, "buffers of node", "JVM"),
        (inner_heap.PYTHON, "over 512 bytes", "JVM"),
        ("Python's pymalloc in libpython3.11.so", "over 512 bytes", "JVM"),
        ("Ruby's heap in libruby.so", "do not fit into a slot", "JVM"),
        ("Erlang's heap in beam.smp", "outside of the runtime's heap", "JVM"),
    ],
)
def test_what_a_runtime_takes_from_malloc_is_said_of_that_runtime(
    runtime: str, words: str, never: str
) -> None:
    held = heap(held_bytes=40 * MiB, free_bytes=0, retained_bytes=0)
    (found,) = (
        one
        for one in inside.findings(look(heap=held, within=(runtime,)))
        if one.name == "in-malloc"
    )
    assert f"({runtime})" in found.title
    assert words in found.setting
    assert never not in found.setting


@pytest.mark.parametrize(
    ("changes", "words", "setting"),
    [
        (
            {"inner_heaps": (InnerHeap(inner_heap.JAVA, 90 * MiB, 80 * MiB, "of 600 MiB"),)},
            "; most of its anonymous memory is in the Java heap, 90 MiB (of 600 MiB)",
            "-Xmx bounds it",
        ),
        ({"inner_heaps": (InnerHeap(inner_heap.JAVA, 40 * MiB, 40 * MiB),)}, "", "heaptrack"),
        ({"within": ("Go's runtime in a",)}, "", "goroutines (net/http/pprof)"),
        ({"within": ("an unknown one",)}, "", "heaptrack"),
        ({"within": ("Go's runtime in a",), "heap": heap(held_bytes=60 * MiB)}, "", "heaptrack"),
    ],
)
def test_what_grows_in_a_heap_of_its_own_is_shown_by_that_heaps_tools(
    changes: dict[str, Any], words: str, setting: str
) -> None:
    seen = look(
        grows_steadily=True, growth_bytes_per_s=1e6,
        memory=memory(anonymous_bytes=100 * MiB, resident_bytes=120 * MiB), **changes,
    )  # fmt: skip
    (found,) = [one for one in course.findings(seen) if one.name == "growing"]
    assert words in found.title
    assert ("most of its" in found.title) == bool(words)
    assert setting in found.setting
    assert ("heaptrack" in found.setting) == (setting == "heaptrack")


@pytest.mark.parametrize(("virtual", "is_said"), [(80, True), (7, False)])
def test_addresses_without_memory_are_a_line_of_their_own(virtual: int, is_said: bool) -> None:
    """As the guard regions of WebAssembly."""
    held = memory(virtual_bytes=virtual << 30, resident_bytes=40 * MiB)
    made = stock.of(look(memory=held, closed_addresses_bytes=2 << 30))
    lines = [one for one in made.lines if one.name == "addresses without memory"]
    assert [one.note for one in lines] == [
        "virtual size counts them; 2 GiB are reserved (PROT_NONE)"
    ] * is_said
    assert all(one.part_of == "none" and 79.9 < one.value / (1 << 30) < 80 for one in lines)
    large = memory(virtual_bytes=40 << 30, resident_bytes=4 << 30)
    assert not any(one.name == "addresses without memory" for one in stock.of(
        look(memory=large)).lines)  # fmt: skip


@pytest.mark.parametrize(("sent", "is_said"), [(60, True), (40, False)])
def test_a_queue_that_the_other_side_does_not_take_is_said_in_its_line(
    sent: int, is_said: bool
) -> None:
    line = inside.of_sockets(Sockets(2, 2, (100 - sent) << 10, sent << 10, 0))
    assert (f"; {sent} KiB written by it and not taken by the other side" in line.note) == is_said


PAGE_CACHE = "page cache, dropped when memory is short; no leak"
AGAIN = MappedOften("/srv/initrd.bin", 1767, 1700, 64 << 10, 110 * MiB, 106 * MiB)


def grown_by(*often: MappedOften, **course_of_files: Any) -> Finding:
    steady = {"files_growth_bytes": 106 * MiB, "files_grow_steadily": True}
    seen = look(mapped_often=often, **steady | course_of_files)
    (found,) = [one for one in course.findings(seen) if one.name == "file-pages-grow"]
    return found


def test_pages_of_a_file_that_is_mapped_again_and_again_are_no_new_page_cache() -> None:
    found = grown_by(AGAIN)
    assert PAGE_CACHE not in found.title
    assert "/srv/initrd.bin is mapped 1,767 times, 1,700 more" in found.title
    assert "at most 64 KiB of it, counted again in each mapping" in found.title
    assert found.setting.startswith("munmap(2)")


def test_pages_of_files_are_no_note_beside_a_larger_growth_of_other_memory() -> None:
    def names(grows: float, *often: MappedOften) -> set[str]:
        seen = look(
            growth_bytes_per_s=grows * MiB, files_growth_bytes=36 * MiB, files_grow_steadily=True,
            seconds=10.0, mapped_often=often,
        )  # fmt: skip
        return {one.name for one in course.findings(seen)}

    assert "file-pages-grow" not in names(3.7)
    assert "file-pages-grow" in names(3.5)
    mapped = replace(AGAIN, more=700, resident_more_bytes=36 * MiB)
    assert "file-pages-grow" in names(3.7, mapped)  # its advice is another


@pytest.mark.parametrize(
    "often",
    [
        replace(AGAIN, more=15),  # no more mappings than a program that warms up
        replace(AGAIN, distinct_bytes=110 * MiB),  # other parts of the file each time
        replace(AGAIN, resident_more_bytes=50 * MiB),  # most of the growth is of other files
        replace(AGAIN, path="/dev/shm/ring"),  # among shared memory
    ],
)
def test_other_growth_of_pages_of_files_is_page_cache(often: MappedOften) -> None:
    assert PAGE_CACHE in grown_by(often).title


@pytest.mark.parametrize("often", [(), (AGAIN,)])
def test_only_a_steady_course_of_pages_of_files_is_said_to_grow(
    often: Sequence[MappedOften],
) -> None:
    """Two readings that differ are no growth: one file that is mapped at once, or that comes and
    goes."""
    for steady in ({}, {"files_fell_bytes": 26 * MiB}):
        assert "its resident memory grows by 10.6 MiB/s" in grown_by(*often, **steady).title
    for unsteady, words in (
        ({"files_grow_steadily": False, "files_fell_bytes": 26 * MiB}, "do not grow all through"),
        ({"files_fell_bytes": 27 * MiB}, "fell by 27 MiB in the look"),
        ({"files_grow_steadily": False, "files_fell_bytes": 900 * MiB}, "fell by 900 MiB in the"),
    ):
        title = grown_by(*often, **unsteady).title
        assert words in title
        assert "and are 106 MiB more at the end than at the beginning" in title
        assert not re.search(r"\bgrows|keeps|no leak", title)


def test_the_course_of_pages_of_files_is_theirs_alone() -> None:
    series = object.__new__(Series)
    series.held, series.private, series.resident, series.of_files = (array("q") for _ in range(4))
    series.counts = defaultdict(partial(array, "q"))
    for anonymous, mapped in ((900, 1), (400, 227), (800, 7)):
        text = f"Name:\tp\nRssAnon:\t{anonymous} kB\nRssFile:\t{mapped} kB\nRssShmem:\t4 kB\n"
        series._add(text.encode())
    assert list(series.of_files) == [1 << 10, 227 << 10, 7 << 10]
    assert list(series.resident) == [905 << 10, 631 << 10, 811 << 10]


def test_of_a_sample_of_mappings_no_pages_are_said_to_be_the_same() -> None:
    found = grown_by(replace(AGAIN, resident_bytes=None, resident_more_bytes=None))
    assert PAGE_CACHE not in found.title
    assert "64 KiB" not in found.title
    assert "its pages count again in each mapping that touches them" in found.title


def test_the_account_says_which_pages_of_files_count_again() -> None:
    def note(*often: MappedOften) -> str:
        held = memory(resident_bytes=112 * MiB, anonymous_bytes=MiB)
        lines = stock.of(look(memory=held, mapped_often=often)).lines
        return next(one.note for one in lines if one.name == "files, mapped")

    said = "110 MiB are the same pages of initrd.bin, 64 KiB at most, mapped 1,767 times"
    assert note(AGAIN) == said
    assert note(replace(AGAIN, distinct_bytes=100 * MiB)) == ""
    assert note(replace(AGAIN, path="/dev/shm/ring")) == ""
    assert note(replace(AGAIN, resident_bytes=None)) == ""


@pytest.mark.parametrize(
    ("of_file", "of_all", "words"),
    [
        (1700, 1800, "; most of the new ones are of /srv/initrd.bin, mapped 1,767 times"),
        (1700, 3400, ""),
        (15, 15, ""),
    ],
)
def test_the_file_that_most_new_mappings_are_of_is_named(
    of_file: int, of_all: int, words: str
) -> None:
    often = replace(AGAIN, more=of_file)
    seen = many_mappings(mapped_often=(often,), mappings_more=of_all)
    assert nears(seen).title.endswith(f"mmap fails{words}")


def many_mappings(**changes: object) -> Look:
    room = Room("vm.max_map_count", 40_000, 65_530, "count", "mmap fails")
    return look(rooms=(room,), memory=memory(mappings=40_000), **changes)


def nears(seen: Look) -> Finding:
    (found,) = limits.findings(seen)
    assert found.name == "mappings-limit-nears"
    return found


def test_the_file_that_most_of_all_mappings_are_of_is_named() -> None:
    found = nears(many_mappings(mapped_often=(replace(AGAIN, more=0, count=20_001),)))
    assert found.title.endswith("; 20,001 are of /srv/initrd.bin")
    assert "initrd" not in nears(many_mappings(mapped_often=(replace(AGAIN, more=0),))).title


@pytest.mark.parametrize(("neighbours", "is_said"), [(20_000, True), (19_999, False)])
def test_neighbours_are_advised_about_only_where_half_of_the_mappings_have_one(
    neighbours: int, is_said: bool
) -> None:
    assert ("neighbours" in nears(many_mappings(neighbours=neighbours)).setting) is is_said


def test_stacks_of_threads_that_do_not_live_are_said_at_the_limit_of_mappings() -> None:
    found = nears(many_mappings(guarded_stacks=19_000, thread_count=3, mapped_often=(AGAIN,)))
    assert found.title.endswith(
        "; 38,000 are 19,000 stacks of threads and their guards, and it has 3 threads: the others "
        "have ended and were not joined, or their stacks are kept for new ones"
    )
    assert found.setting.startswith("pthread_join(3) or pthread_detach(3)")
    full = Room("vm.max_map_count", 65_530, 65_530, "count", "mmap fails")
    refusal = Refusal("mprotect", "ENOMEM", 19.8)
    seen = many_mappings(guarded_stacks=19_000, thread_count=3, refused=(refusal,))
    (failing,) = limits.findings(replace(seen, rooms=(full,)))
    assert "19,000 stacks of threads" in failing.title
    assert failing.setting == found.setting


@pytest.mark.parametrize(
    "changes",
    [
        {"guarded_stacks": 9_999, "thread_count": 3},
        {"guarded_stacks": 19_000, "thread_count": 4751},
    ],
)
def test_stacks_of_threads_that_live_are_not_those_of_others(changes: Mapping[str, int]) -> None:
    found = nears(many_mappings(**changes))
    assert "stacks" not in found.title
    assert "pthread" not in found.setting


@pytest.mark.parametrize(
    ("held", "words", "setting"),
    [
        ({"mappings": 2047}, "pages used lie far apart",
         "memory used side by side; huge pages (one entry instead of 512)"),
        ({"mappings": 2048}, "its 2,048 mappings lie far apart",
         "fewer mappings, such as stacks of threads, or side by side"),
        ({"shmem_bytes": 16 * MiB}, "pages used lie far apart", "memory used side by side; huge "
         "pages (one entry instead of 512); fewer processes that map the same shared memory"),
    ],
)  # fmt: skip
def test_what_page_tables_are_for_is_by_measure(
    held: Mapping[str, int], words: str, setting: str
) -> None:
    seen = look(page_table_bytes=4096 * PAGE, memory=memory(**held))
    (found,) = [one for one in stock.findings(seen) if one.name == "page-tables"]
    assert found.title.endswith(words)
    assert found.setting == setting


def test_mappings_of_a_file_are_told_apart_by_device_and_inode() -> None:
    text = (
        b"1000-3000 r--p 00000000 08:01 9                          /a b\n"
        b"3000-5000 rw-p 00000000 08:01 9                          /a b\n"
        b"5000-6000 rw-p 00001000 08:01 9                          /a b\n"
        b"6000-7000 rw-p 00000000 08:02 9                          /a b\n"
        b"7000-8000 rw-p 00000000 00:00 0 \n"
        b"8000-9000 ---p 00000000 00:00 0 \n"
        b"9000-a000 rw-p 00000000 00:00 0 \n"
        b"b000-c000 rw-p 00000000 00:00 0                          [heap]\n"
        b"c000-d000 rw-p 00000000 00:00 0 \n"
    )
    listed = mapping_list.of(text)
    one, other = listed.files().values()
    assert (one.path, one.starts, one.distinct_bytes) == ("/a b", (0x1000, 0x3000, 0x5000), 0x2000)
    assert (other.path, other.starts, other.distinct_bytes) == ("/a b", (0x6000,), 0x1000)
    assert listed.neighbours == 2
    assert listed.guarded == [0xA000]
    large = b"8000-19000 ---p 00000000 00:00 0 \n19000-20000 rw-p 00000000 00:00 0 \n"
    assert mapping_list.of(large).guarded == []


@pytest.mark.parametrize(
    ("steadily", "grows", "words"),
    [
        (True, 19, "private by 19 MiB/s: the group grows"),
        (False, 19, "private by 19 MiB/s over the look: the group grows"),
        (False, 40, "private by 25 MiB/s over the look: the group grows"),
        (False, 0, ""),
        (False, -3, ""),
    ],
)
def test_what_becomes_private_without_a_copy_is_no_growth(
    *, steadily: bool, grows: int, words: str
) -> None:
    """A parent and three children: of four pages that become private three are copies."""
    members = tuple(replace(beside(pid), growth_bytes=0) for pid in (7, 8, 9, 10))
    seen = _of_group(
        members=members, processes=4, unshared_bytes=250 * MiB, grows_steadily=steadily,
        growth_bytes_per_s=float(grows * MiB),
    )  # fmt: skip
    said = [one.title for one in held.findings(seen) if one.name == "unshared"]
    assert len(said) == bool(words)
    assert all(words in title for title in said)


@pytest.mark.parametrize(
    ("counted", "words"), [(None, "2 MiB/s"), (1.5, "1.5 MiB/s"), (3.0, "2 MiB/s"), (0, "2 MiB/s")]
)
def test_the_sum_grows_by_no_more_than_its_group(counted: float | None, words: str) -> None:
    limited = None if counted is None else group(growth_bytes_per_s=counted * MiB)
    parent = look(members=(beside(7),), descendants=frozenset({7}), group=limited)
    (title,) = [one.title for one in stock.findings(parent) if one.name == "unshared"]
    assert "private by 2 MiB/s over the look: resident memory stays" in title
    assert f"grows by {words} or less" in title


@pytest.mark.parametrize(
    ("objects", "java", "is_most"),
    [
        (85.0, 0.7, True), (85, 21, True), (85, 22, False), (53, 1, True), (51, 1, False),
        (0, 80, False),
    ],
)  # fmt: skip
def test_a_growth_beside_a_small_heap_of_a_runtime_says_where_most_lies(
    *, objects: float, java: float, is_most: bool
) -> None:
    inner = inner_heap.InnerHeap(inner_heap.JAVA, int(java * MiB), int(java * MiB))
    blocks = heap(held_bytes=int(objects * MiB), free_bytes=0, retained_bytes=0, ends_bytes=0)
    seen = look(
        grows_steadily=True, growth_bytes_per_s=5.0 * MiB, heap=blocks, inner_heaps=(inner,),
        memory=memory(anonymous_bytes=104 * MiB, resident_bytes=124 * MiB),
    )  # fmt: skip
    (found,) = [one for one in stock.findings(seen) if one.name == "growing"]
    assert ("malloc's objects" in found.title) == is_most
    assert ("(heaptrack, memlab record)" in found.setting) == is_most
    assert ("direct buffers" in found.setting) == is_most
    if objects == 85 and is_most:
        assert "is malloc's objects, 85 MiB, and not the Java heap, " in found.title
    for other in (replace(seen, inner_heaps=()), replace(seen, heap=None)):
        (found,) = [one for one in stock.findings(other) if one.name == "growing"]
        assert "memlab record" not in found.setting
        assert "and not" not in found.title


@pytest.mark.parametrize(
    ("objects", "runtime", "is_most"),
    [(60, "Go's runtime", True), (60, "", False), (40, "Go's runtime", False)],
)
def test_a_growth_in_malloc_is_not_looked_for_in_a_profile_of_another_heap(
    *, objects: int, runtime: str, is_most: bool
) -> None:
    """What C code allocates in a program of Go."""
    blocks = heap(held_bytes=objects * MiB, free_bytes=0, retained_bytes=0, ends_bytes=0)
    seen = look(
        grows_steadily=True, growth_bytes_per_s=5.0 * MiB, heap=blocks, runtime=runtime,
        memory=memory(anonymous_bytes=62 * MiB, resident_bytes=64 * MiB),
    )  # fmt: skip
    (found,) = [one for one in stock.findings(seen) if one.name == "growing"]
    words = "is malloc's objects, 60 MiB, and not of Go's runtime"
    assert (words in found.title) == is_most
    assert ("cgo" in found.setting) == is_most
    still = replace(seen, grows_steadily=False, growth_bytes_per_s=0.0)
    of_malloc = [one.title for one in stock.findings(still) if one.name == "in-malloc"]
    assert bool(of_malloc) == bool(runtime)
    assert all("beside the heap of its runtime (Go's runtime)" in title for title in of_malloc)


def classes(loaded: float, unloaded: float) -> Finding:
    seen = look(grows_steadily=True, growth_bytes_per_s=5.0 * MiB, loaded_classes_per_s=loaded,
                unloaded_classes_per_s=unloaded)  # fmt: skip
    (found,) = [one for one in stock.findings(seen) if one.name == "growing"]
    return found


def test_a_growth_beside_classes_that_are_loaded_and_kept_says_so() -> None:
    found = classes(380.0, 0.0)
    assert found.title.endswith("; meanwhile it loads 380 classes per second and unloads none")
    assert "jcmd PID VM.classloaders" in found.setting
    assert "and unloads 20" in classes(380.0, 20.0).title
    for loaded, unloaded in ((9.9, 0.0), (380.0, 190.0)):
        other = classes(loaded, unloaded)
        assert "classes" not in other.title
        assert "VM.classloaders" not in other.setting


@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ({}, True), ({"thread_count": 100}, False), ({"rooms": ()}, False),
        ({"growth_bytes_per_s": 2.0 * MiB}, False),
    ],
)  # fmt: skip
def test_a_growth_by_stacks_of_threads_that_have_ended_says_so(
    changes: Mapping[str, Any], *, is_said: bool
) -> None:
    """20 per second, each with its guard, of 24 KiB."""
    form = mapped_forms.MappedForm(mapped_forms.GUARDED, 356 * 24 << 10, 356)
    room = Room("vm.max_map_count", 736, 65_530, "count", "mmap fails", 40.0)
    seen = look(
        **{"grows_steadily": True, "growth_bytes_per_s": 480.0 * 1024, "forms": (form,),
           "guarded_stacks": 356, "thread_count": 1, "rooms": (room,),
           "memory": memory(mappings=736), **changes}
    )  # fmt: skip
    (found,) = [one for one in stock.findings(seen) if one.name == "growing"]
    words = "most of it by 20 stacks per second of threads that have ended, 24 KiB each"
    assert (words in found.title) == is_said
    assert ("pthread_join" in found.setting) == is_said


@pytest.mark.parametrize(("growth", "is_swing"), [(-72.0, False), (-50.0, True), (0.0, True)])
def test_what_only_falls_does_not_swing(*, growth: float, is_swing: bool) -> None:
    seen = look(highest_bytes=981 * MiB, lowest_bytes=257 * MiB, fell_bytes=724 * MiB,
                growth_bytes_per_s=growth * MiB)  # fmt: skip
    (found,) = [one for one in course.findings(seen) if one.name == "swings"]
    assert ("it grows and gives back" in found.title) == is_swing
    assert ("it fell in the look by 724 MiB, to 257 MiB" in found.title) != is_swing
