"""Each rule: what it is found on, what it says, and what it keeps quiet about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memlab import experiments
from memlab.diagnose.finding import Finding, Severity, Threshold, find
from memlab.diagnose.look import Look
from memlab.diagnose.malloc_options import Option
from memlab.diagnose.rules import RULES

from .looks import GLIBC, JEMALLOC, GiB, MiB, busy, group, heap, look, memory, rates

NOTE, COSTLY, CRITICAL = Severity
TRIMMING = replace(GLIBC, options=(Option("trim_threshold", "131072", "default of glibc 2.36"),))

PURGING = rates(madvise=4e3, madvise_dontneed=4e3, minor_faults=6e4, shootdowns_taken=3e3)
UNSEEN = rates(
    **{event: None for event in rates() if "faults" not in event and event != "populated"},
)

# What is looked at: the names and severities found, in order.
FOUND: list[tuple[dict[str, Any], list[tuple[str, Severity]]]] = [
    ({}, []),
    ({"allocator": JEMALLOC, "per_s": PURGING}, [("malloc-gives-back", COSTLY)]),
    ({"allocator": JEMALLOC, "per_s": rates(madvise_dontneed=300.0)},
     [("malloc-gives-back", NOTE)]),
    # Few calls of many pages each: the note on calls does not hide what the faults cost.
    ({"allocator": JEMALLOC, "per_s": rates(madvise_dontneed=300.0, minor_faults=9e4)},
     [("gives-back-large-pieces", COSTLY), ("malloc-gives-back", NOTE)]),
    ({"allocator": JEMALLOC, "per_s": UNSEEN | {"minor_faults": 6e4}},
     [("malloc-told-to-give-back", COSTLY)]),
    ({"per_s": rates(brk=5e3, minor_faults=6e4)}, [("glibc-trims", COSTLY)]),
    # brk that only grows the heap, each page of it touched once: no trimming to speak of.
    ({"per_s": rates(brk=150.0, minor_faults=9e3)}, []),
    ({"per_s": PURGING}, [("gives-memory-back", COSTLY)]),
    # Arenas of threads give back tens of megabytes per call: few calls, many faults.
    ({"per_s": rates(madvise=15.0, madvise_dontneed=15.0, munmap=5.0, minor_faults=2.8e5)},
     [("gives-back-large-pieces", COSTLY)]),
    ({"per_s": rates(processes_created=900.0, minor_faults=5.7e4)},
     [("copies-after-fork", COSTLY)]),
    ({"memory": memory(mappings=58536)}, [("mappings-limit-nears", COSTLY)]),
    ({"memory": memory(mappings=65000)}, [("mappings-limit-nears", CRITICAL)]),
    ({"per_s": rates(mprotect=5e3, shootdowns_asked=5e3, shootdowns_taken=4e3)},
     [("shootdowns", COSTLY)]),
    ({"thread_count": 1, "per_s": rates(shootdowns_taken=4e3)}, []),
    # A process with one thread asks for flushes that no CPU is interrupted for.
    ({"per_s": rates(shootdowns_asked=5e3)}, []),
    ({"per_s": rates(lock_sleeps=3e3, munmap=400.0)}, [("waits-for-mappings", COSTLY)]),
    ({"thread_count": 1, "per_s": rates(lock_sleeps=3e3, munmap=400.0)}, []),
    ({"per_s": rates(lock_sleeps=3e3, munmap=200.0)}, []),  # most likely of a file
    ({"per_s": rates(compactions=3.0)}, [("waits-for-compaction", NOTE)]),
    ({"per_s": rates(compactions=50.0, minor_faults=1e3)}, [("waits-for-compaction", COSTLY)]),
    ({"per_s": rates(minor_faults=5e4)}, [("page-faults", COSTLY)]),
    ({"per_s": UNSEEN | {"minor_faults": 5e4}}, [("page-faults", COSTLY)]),
    ({"memory": memory(locked_bytes=200 * MiB, lockable_bytes=None,
                       locked_stacks_bytes=192 * MiB, locked_stacks_count=24)},
     [("locked-stacks", COSTLY)]),
    ({"memory": memory(locked_bytes=16 * MiB, lockable_bytes=None,
                       locked_stacks_bytes=16 * MiB, locked_stacks_count=2)}, []),
    ({"memory": memory(locked_bytes=MiB), "per_s": rates(threads_created=250.0)},
     [("threads-made-while-locked", COSTLY)]),
    ({"per_s": rates(threads_created=50.0)}, []),
    ({"per_s": rates(threads_created=5e3)}, [("makes-threads", COSTLY)]),
    ({"memory": memory(locked_bytes=7 * MiB)}, [("lock-limit-nears", NOTE)]),
    ({"memory": memory(locked_bytes=6 * GiB, lockable_bytes=None)}, [("locks-much", NOTE)]),
    ({"memory": memory(pinned_bytes=2 * GiB)}, [("pins-much", NOTE)]),
    ({"memory": memory(swapped_bytes=64 * MiB)}, [("swapped-out", NOTE)]),
    ({"memory": memory(swapped_bytes=64 * MiB), "per_s": rates(major_faults=200.0)},
     [("reads-swap", COSTLY)]),
    ({"per_s": rates(major_faults=200.0)}, [("reads-files", COSTLY)]),
    ({"group": group(used_bytes=62 * MiB), "per_s": rates(major_faults=200.0)},
     [("group-limit-drops-files", COSTLY)]),
    ({"group": group(used_bytes=40 * MiB), "per_s": rates(major_faults=200.0)},
     [("reads-files", COSTLY)]),
    ({"group": group()}, []),
    ({"group": group(seconds_left=90.0, growth_bytes_per_s=4e5)},
     [("group-limit-nears", CRITICAL)]),
    ({"group": group(seconds_left=1800.0)}, [("group-limit-nears", COSTLY)]),
    ({"group": group(seconds_left=86400.0)}, []),
    ({"group": group(needed_bytes=63 * MiB)}, [("group-nearly-full", COSTLY)]),
    ({"group": group(needed_bytes=63 * MiB, reached_per_s=500.0)},
     [("group-limit-met", CRITICAL)]),
    ({"available_seconds_left": 120.0}, [("machine-fills", CRITICAL)]),
    ({"heap": heap(retained_bytes=12 * MiB)}, []),
    ({"heap": heap(), "memory": memory(anonymous_bytes=40 * MiB)}, [("retained", NOTE)]),
    ({"heap": heap(), "memory": memory(anonymous_bytes=200 * MiB)}, []),
    # What grows is not called retained, though some of it is free.
    ({"heap": heap(), "memory": memory(anonymous_bytes=40 * MiB), "growth_bytes_per_s": 2e6,
      "grows_steadily": True}, [("growing", NOTE)]),
    ({"growth_bytes_per_s": 2e6}, []),
    ({"growth_bytes_per_s": 2e6, "grows_steadily": True, "available_seconds_left": 120.0},
     [("machine-fills", CRITICAL)]),
    # The worst first, whatever the order of the rules.
    ({"allocator": JEMALLOC, "per_s": PURGING, "group": group(seconds_left=90.0),
      "memory": memory(pinned_bytes=2 * GiB)},
     [("group-limit-nears", CRITICAL), ("malloc-gives-back", COSTLY), ("pins-much", NOTE)]),
]  # fmt: skip


def found_on(changes: dict[str, Any]) -> list[Finding]:
    return find(RULES, look(**changes))


@pytest.mark.parametrize(("changes", "expected"), FOUND)
def test_what_is_found(changes: dict[str, Any], expected: list[tuple[str, Severity]]) -> None:
    assert [(f.name, f.severity) for f in found_on(changes)] == expected


def test_every_rule_is_found_on_some_look() -> None:
    found = {name for _, expected in FOUND for name, _ in expected}
    assert found == {rule.name for rule in RULES}


def test_the_documentation_lists_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "diagnose.md").read_text(encoding="utf-8")
    assert [rule.name for rule in RULES if f"`{rule.name}`" not in page] == []


def test_what_a_rule_explains_is_a_rule() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert {name for rule in RULES for name in rule.explains} <= set(names)


def test_every_experiment_that_is_named_can_be_swept() -> None:
    named = {name for rule in RULES for name in rule.experiments}
    assert all(rule.experiments for rule in RULES)
    assert named <= set(experiments.names())


@pytest.mark.parametrize("changes", [changes for changes, expected in FOUND if expected])
def test_a_finding_has_evidence_and_something_to_try(changes: dict[str, Any]) -> None:
    for finding in found_on(changes):
        assert finding.evidence
        assert all(fact.value is not None for fact in finding.evidence)
        assert finding.setting
        assert finding.title[0].islower()


def test_the_thread_that_does_most_is_named() -> None:
    threads = (busy(11, madvise=10.0), busy(12, madvise=90.0))
    (found,) = found_on({"allocator": JEMALLOC, "per_s": PURGING, "threads": threads})
    assert "12 (worker-12), 90 % of them" in [fact.value for fact in found.evidence]


def test_the_setting_is_in_the_words_of_the_malloc_in_use() -> None:
    (found,) = found_on({"allocator": GLIBC, "per_s": PURGING})
    assert "GLIBC_TUNABLES" in found.setting
    (found,) = found_on({"allocator": None, "per_s": PURGING})
    assert "its malloc is not known here" in found.setting


@pytest.mark.parametrize("large", [False, True])
def test_what_malloc_is_set_to_is_no_evidence_of_calls_that_may_be_the_programs(
    large: bool,
) -> None:
    """stress-ng --mmap calls munmap itself; the advice says `if it is malloc's`."""
    calls = rates(munmap=100.0, minor_faults=5e4) if large else rates(munmap=5e3)
    (found,) = found_on({"allocator": TRIMMING, "per_s": calls})
    assert found.name == ("gives-back-large-pieces" if large else "gives-memory-back")
    assert not {fact.name for fact in found.evidence} & {"malloc", "trim_threshold"}
    assert "if it is malloc's: " in found.setting
    (found,) = found_on({"allocator": TRIMMING, "per_s": rates(brk=5e3, minor_faults=6e4)})
    assert {"malloc", "trim_threshold"} <= {fact.name for fact in found.evidence}


@pytest.mark.parametrize(
    ("value", "severity"),
    [(0.0, None), (9.9, None), (10.0, NOTE), (19.9, NOTE), (20.0, COSTLY), (1e9, CRITICAL)],
)
def test_a_threshold_that_rises(value: float, severity: Severity | None) -> None:
    threshold = Threshold("1/s", note=10, costly=20, critical=30)
    assert threshold.severity(value) is severity


@pytest.mark.parametrize(
    ("value", "severity"), [(101.0, None), (100.0, COSTLY), (10.1, COSTLY), (10.0, CRITICAL)]
)
def test_a_threshold_that_falls(value: float, severity: Severity | None) -> None:
    threshold = Threshold("s", costly=100, critical=10, falling=True)
    assert threshold.severity(value) is severity


def test_of_two_that_are_as_severe_the_one_further_beyond_its_bound_is_first() -> None:
    def first(**per_s: float) -> str:
        seen: Look = look(per_s=rates(**per_s))
        return find(RULES, seen)[0].name

    assert first(shootdowns_taken=4e3, minor_faults=3e4) == "shootdowns"
    assert first(shootdowns_taken=3e3, minor_faults=9e4) == "page-faults"
