"""A diagnosis as text: what is said of each thing seen, and of what is not."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from diagnose.looks import JEMALLOC, MiB, busy, group, look, memory, rates

from memlab import documents
from memlab.diagnose.diagnosis import Cost, Diagnosis
from memlab.diagnose.finding import find
from memlab.diagnose.look import Look
from memlab.diagnose.rules import RULES
from memlab.present import data, diagnosis

COST = Cost(0.04, 0.09, 0.004, 0.0001)


def of(seen: Look) -> Diagnosis:
    return Diagnosis(seen, tuple(find(RULES, seen)), (), COST)


def lines(seen: Look) -> list[str]:
    return list(diagnosis.lines(of(seen)))


def joined(seen: Look) -> str:
    return " ".join(" ".join(lines(seen)).split())


def test_of_a_healthy_process_it_says_that_nothing_was_found() -> None:
    said = lines(look())
    assert said[0] == (
        "process 4711 (quiet) of nobody, 2 threads, 50 % of a CPU; looked at for 10 s"
    )
    assert said[2] == "nothing to worry about was found"
    assert not [line for line in said if "costly" in line or "critical" in line]


def test_notes_alone_are_nothing_to_worry_about() -> None:
    said = joined(look(memory=memory(swapped_bytes=64 * MiB)))
    assert "nothing to worry about was found; worth knowing: 1. note: part of it lies in" in said


def test_a_finding_says_what_shows_it_what_to_try_and_what_measures_it() -> None:
    threads = (busy(12, madvise=4e3, madvise_dontneed=4e3),)
    seen = look(
        allocator=JEMALLOC,
        per_s=rates(madvise=4e3, madvise_dontneed=4e3, minor_faults=6e4),
        threads=threads,
    )
    said = joined(seen)
    assert "1. costly: jemalloc gives freed memory back" in said
    assert "evidence: malloc jemalloc 5.3.0; dirty_decay_ms 0 (MALLOC_CONF); madvise 4 k/s" in said
    assert "most by thread 12 (worker-12), 100 % of them" in said
    assert "try: MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1 keeps" in said
    assert "what it costs here: memlab sweep allocator, memlab sweep tlb-shootdown" in said


def test_what_is_not_seen_is_said_with_the_reason() -> None:
    seen = look(per_s=rates(shootdowns_asked=None), unseen=("madvise: run as root",))
    said = joined(seen)
    assert "what its threads ask for is not seen; interrupts on its CPUs" in said
    assert "not seen: madvise: run as root" in said


def test_hidden_shootdowns_are_told() -> None:
    seen = look()
    hidden = replace(seen, shootdowns=replace(seen.shootdowns, hidden=True))
    assert "of all processes, not all of them: 3 /s" in joined(hidden)


def test_the_group_and_the_time_left() -> None:
    seen = look(group=group(seconds_left=90.0, growth_bytes_per_s=float(MiB)))
    said = joined(seen)
    assert "memory cgroup 32 MiB of 64 MiB (memory.max), 4 MiB of it file cache" in said
    assert "grows by 1 MiB/s, full in 90 s at that rate" in said
    assert "it does not grow" in joined(look(group=group()))


def test_the_threads_that_do_most_come_first_and_the_rest_are_counted() -> None:
    threads = tuple(busy(tid, minor_faults=float(100 - tid)) for tid in range(1, 9))
    said = lines(look(per_s=rates(minor_faults=5e2), threads=threads))
    at = next(n for n, line in enumerate(said) if line.startswith("thread "))
    assert said[at + 1].split()[:2] == ["1", "worker-1"]
    assert said[at + 6] == "and 3 threads that did less"


def test_the_look_says_what_it_cost() -> None:
    assert (
        "this look cost 0.4 % of a CPU: 40 ms in 10 s; to start Python took 90 ms before it; "
        "the counts cost the process about 0.01 %"
    ) in joined(look())


@pytest.mark.parametrize(("columns", "most"), [("80", 80), ("300", 100)])
def test_no_line_is_wider_than_a_terminal(
    columns: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert max(map(len, lines(look(unseen=("x " * 200,))))) in range(most - 2, most + 1)


def test_the_data_holds_to_the_schema() -> None:
    schema = documents.schema("diagnose")
    full = look(allocator=None, group=group(), threads=(busy(1, brk=2.0),))
    for seen in (look(), full):
        jsonschema.validate(json.loads(documents.text(data.diagnosis(of(seen)))), schema)
