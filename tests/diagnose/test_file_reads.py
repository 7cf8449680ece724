"""Advice by measure: readahead that no page fault can use, and reads that are used."""

from __future__ import annotations

import mmap
from dataclasses import replace
from typing import Any

import pytest

from memlab.diagnose import diagnosis, file_reads, group_limits
from memlab.diagnose.finding import COSTLY, NOTE, Finding
from memlab.diagnose.sites import Site, Sites
from memlab.diagnose.waits import Waits

from .looks import MiB, charge, group, look, memory, rates


def said(read_per_s: float, **changes: Any) -> Finding | None:
    return next(file_reads.findings(look(**changes), read_per_s), None)


def test_readahead_beyond_what_faults_map_is_named_and_half_of_it_is_not() -> None:
    """100 faults a second can use 100 times 64 KiB."""
    bound = 100 * (64 << 10)
    found = said(100, read_bytes_per_s=4.0 * bound)
    assert found is not None
    assert found.name == "reads-ahead-unused"
    assert "75 % or more of what is read is used by no fault" in found.title
    assert "MADV_RANDOM" in found.setting
    twice = said(100, read_bytes_per_s=8.0 * bound)
    assert twice is not None
    assert "88 % or more" in twice.title
    used = said(100, read_bytes_per_s=0.9 * bound)  # as a file that is read from end to end
    assert used is not None
    assert (used.name, "MADV_RANDOM" in used.setting) == ("reads-files", False)
    unseen = said(100, read_bytes_per_s=None)
    assert unseen is not None
    assert unseen.name == "reads-files"


def test_faults_on_pages_that_are_there_use_what_was_read_ahead() -> None:
    found = said(10, read_bytes_per_s=8.0 * MiB, per_s=rates(minor_faults=150.0))
    assert found is not None
    assert found.name == "reads-files"


def test_a_full_group_has_one_advice_by_what_was_measured() -> None:
    full = group(charge=charge(used_bytes=64 * MiB, file_clean_bytes=60 * MiB), reached_per_s=900.0)
    wasted = said(100, group=full, read_bytes_per_s=800.0 * MiB)
    used = said(100, group=full, read_bytes_per_s=4.0 * MiB)
    assert wasted is not None
    assert used is not None
    assert (wasted.name, used.name) == ("reads-ahead-unused", "group-limit-drops-files")
    assert "MADV_RANDOM" not in used.setting
    again = replace(full, reread_bytes_per_s=300.0 * MiB)
    reads = rates(major_faults=100.0)
    seen = look(group=again, read_bytes_per_s=800.0 * MiB, per_s=reads)
    names = {one.name for one in diagnosis._findings(seen)}
    assert "reads-ahead-unused" in names
    assert names.isdisjoint(("waits-for-files", "group-limit-met", "group-reads-again"))


def test_what_is_read_in_order_and_dropped_before_it_is_used_is_no_reading_at_random() -> None:
    full = group(charge=charge(used_bytes=64 * MiB, file_clean_bytes=20 * MiB))
    ordered = Sites(100, 0, (), (Site("/srv/lib.so", 90),), (), in_order=0.9)

    def name(**changes: Any) -> str:
        found = said(20, **{"read_bytes_per_s": 800.0 * MiB, "group": full, **changes})
        assert found is not None
        assert ("MADV_RANDOM" in found.setting) == (found.name == "reads-ahead-unused")
        return found.name

    assert name(sites=ordered) == "group-limit-drops-files"
    for sites in (None, replace(ordered, in_order=0.5), replace(ordered, sampled=20)):
        assert name(sites=sites) == "reads-ahead-unused"
    assert name(sites=ordered, group=None) == "reads-ahead-unused"


def test_files_that_are_read_again_are_the_cause_of_what_follows() -> None:
    """No advice to do nothing, and none twice."""
    kept = charge(used_bytes=64 * MiB, file_clean_bytes=20 * MiB)
    seen = group(charge=kept, reached_per_s=900.0, reread_bytes_per_s=228.0 * MiB)
    found = {one.name: one for one in diagnosis._findings(look(group=seen))}
    assert found.keys() == {"group-reads-again"}
    assert found["group-reads-again"].setting.endswith(
        "less anonymous or shared memory in the group"
    )
    index = replace(seen, charge=replace(kept, file_clean_bytes=60 * MiB))
    (found_of_index,) = diagnosis._findings(look(group=index))
    assert found_of_index.setting == "raise /sys/fs/cgroup/job/memory.max"
    title = found["group-reads-again"].title
    assert "and 228 MiB/s of files are read that it had dropped: 44 MiB of it cannot be" in title
    waits = Waits(100, 0, {"a page of a file": 80}, 20, {}, 1.0, None)
    for read, is_said in ((400.0, False), (500.0, True)):  # most of it by another process
        both = diagnosis._findings(look(group=seen, waits=waits, read_bytes_per_s=read * MiB))
        assert ("waits-for-files" in {one.name for one in both}) is is_said


@pytest.mark.parametrize(
    ("reread", "clean", "expected"),
    [
        (0, 20, ["group-full-of-droppable"]),
        (0, 10, ["group-limit-met"]),  # what is full cannot be dropped
        (2, 20, ["group-reads-again"]),
    ],
)
def test_a_full_group_whose_files_are_dropped_for_good_has_no_second_advice(
    reread: int, clean: int, expected: list[str]
) -> None:
    """As of one that writes a log."""
    kept = charge(used_bytes=64 * MiB, file_clean_bytes=clean * MiB)
    seen = group(charge=kept, reached_per_s=900.0, reread_bytes_per_s=1.0 * reread * MiB)
    found = [one.name for one in diagnosis._findings(look(group=seen))]
    assert [name for name in found if name != "group-nearly-full"] == expected
    of_group = diagnosis._causes(group_limits.of_group(seen))
    assert [one.name for one in of_group if one.name != "group-nearly-full"] == expected


def test_a_file_that_is_read_in_order_without_readahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never the advice that is the cause, and only where each part was read."""
    ordered = Sites(100, 0, (), (Site("/srv/index", 90),), (), in_order=0.9)
    ahead: list[int | None] = [128]
    monkeypatch.setattr(file_reads, "_read_ahead_kib", lambda *_: ahead[0])

    def title(each: float = 1.0, sites: Sites = ordered) -> str:
        found = said(100, sites=sites, read_bytes_per_s=100.0 * each * mmap.PAGESIZE)
        assert found is not None
        assert found.name == "reads-files"
        assert ("MADV_SEQUENTIAL" in found.setting) == ("in order" in found.title)
        return found.title

    words = "it reads /srv/index in order and waits for each page, 100 times per second, though "
    assert title().startswith(words + "read_ahead_kb is 128: nothing is read ahead")
    for other in (title(8), title(sites=replace(ordered, in_order=0.5)),
                  title(sites=replace(ordered, sampled=20))):  # fmt: skip
        assert "in order" not in other
    for value in (None, 0, 4):
        ahead[0] = value
        assert "in order" not in title()


def test_reads_of_files_are_no_wait_for_swap() -> None:
    held = memory(swapped_bytes=8 * MiB)
    on_files = Sites(100, 0, (), (Site("/srv/index", 90), Site("[heap]", 10)), ())
    on_heap = Sites(100, 0, (), (Site("[heap]", 90), Site("/srv/index", 10)), ())
    first, second = said(100, memory=held, sites=on_files), said(60, memory=held, sites=on_heap)
    assert first is not None
    assert second is not None
    assert (first.name, second.name) == ("reads-files", "reads-swap")
    few = said(6, memory=held, sites=on_heap)
    assert few is not None
    assert (second.severity, few.severity) == (COSTLY, NOTE)


def test_what_lies_in_swap_is_said_beside_reads_of_files() -> None:
    """Faults that read files do not wait for swap, and those that do are said once."""
    held = memory(swapped_bytes=64 * MiB)
    on_files = Sites(100, 0, (), (Site("/srv/index", 90), Site("[heap]", 10)), ())
    for sites, names in ((on_files, ["reads-files", "swapped-out"]), (None, ["reads-swap"])):
        seen = look(memory=held, sites=sites, per_s=rates(major_faults=20.0))
        assert sorted(one.name for one in diagnosis._findings(seen)) == names
