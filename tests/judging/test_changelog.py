"""Claims of a kernel's changelog: what the files declare, and the verdict by two kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memlab import documents, experiments, published
from memlab.cli import cli
from memlab.experiment.levels import read_levels
from memlab.machines.guest import kernels
from memlab.machines.guest.kernels import Found
from memlab.machines.ladder import changelog
from memlab.machines.ladder import climb as ladder
from memlab.machines.ladder import judge as judging
from memlab.machines.ladder.changes import Side, around, judge
from memlab.machines.ladder.judge import Cell, Row
from memlab.published import Change
from memlab.run import plan
from memlab.run.kernel import Kernel

COUNT = Change("faults", "", "", "", "", before=256, since=1)
TIME = replace(COUNT, before=None, since=None, below=0.9)


def cell(low: float, high: float) -> Cell:
    return Cell("", (low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("change", "before", "since", "word"),
    [
        (COUNT, cell(256, 256), cell(1, 1), "reproduced"),
        (COUNT, cell(255, 257), cell(1, 1), "reproduced"),
        (COUNT, cell(256, 256), cell(256, 256), "contradicted"),
        (COUNT, cell(1, 1), cell(1, 1), "contradicted"),
        (COUNT, cell(200, 300), cell(1, 1), "inconclusive"),
        (COUNT, Cell("", 256), cell(1, 1), "inconclusive"),
        (COUNT, cell(256, 256), None, "not testable here"),
        (TIME, cell(10, 11), cell(5, 6), "reproduced"),
        (TIME, cell(10, 12), cell(9, 10), "inconclusive"),
        (TIME, cell(10, 11), cell(12, 13), "contradicted"),
        (TIME, Cell("", 10), cell(5, 6), "inconclusive"),
    ],
)
def test_a_word_by_two_kernels(change: Change, before: Cell, since: Cell | None, word: str) -> None:
    found = judge(change, Side("6.17.13", before), Side("6.18.5", since, "it has no virtio_pci"))
    assert found.word == word
    if since is None:
        assert found.reason == "6.18.5: it has no virtio_pci"


def test_the_neighbours_of_a_version() -> None:
    versions = ["6.1.192", "6.12.117", "6.17.13", "6.18.5", "7.3.4"]
    assert around(COUNT, "6.18", versions) == ("6.17.13", "6.18.5")
    assert around(COUNT, "6.17", versions) == ("6.12.117", "6.17.13")
    assert (
        around(replace(COUNT, least="5.10"), "6.1", versions)
        == "no kernel from 5.10 to before 6.1 is at hand: memlab kernels suggest 5.10 6.1"
    )
    assert around(COUNT, "6.17", versions[2:]) == (
        "no kernel before 6.17 is at hand: memlab kernels suggest 6.1 6.17"
    )
    assert around(COUNT, "7.4", versions) == (
        "no kernel since 7.4 is at hand: memlab kernels suggest 7.4 8"
    )
    since_13 = replace(COUNT, least="6.13")
    assert around(since_13, "6.16", versions) == (
        "no kernel from 6.13 to before 6.16 is at hand: memlab kernels suggest 6.13 6.16"
    )


@pytest.mark.parametrize("name", published.changelogs())
def test_what_is_declared_leaves_one_point_or_says_why_not(name: str) -> None:
    log = published.changelog(name)
    assert log.id == f"linux-{log.version}"
    for change in log.changes:
        assert change.printed, change.id
        assert change.place, change.id
        if change.lacks:
            assert not change.experiment, change.id
            continue
        declared = experiments.load(change.experiment)
        assert change.metric in [metric.name for metric in declared.metrics]
        assert (change.before is None) == (change.since is None) == (change.below is not None)
        levels = {**judging.levels(declared, []), **read_levels(declared, change.levels)}
        planned = plan.build(declared, "quick", levels, controls=False)
        assert len(planned.points) == 1, change.id


@pytest.fixture
def reproduce(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """`memlab reproduce linux-6.18` under two kernels, of which the newer one shows `seen`."""
    monkeypatch.setenv("MEMLAB_STORE", str(tmp_path / "store.db"))
    at_hand = [
        Found(Path(f"/k/{v}"), Kernel(Path(f"/k/{v}"), v)) for v in ("6.17.1", "6.18.1", "7.3.1")
    ]
    monkeypatch.setattr(kernels, "choose", lambda *_: at_hand)

    def run(*words: str, seen: float = 1.0) -> Result:
        numbers = {"6.17.1": 256.0, "6.18.1": seen}

        def climb(asked: ladder.Asked, found: Any, *_: Any, **__: Any) -> list[ladder.Rung]:
            return [ladder.Rung(kernel, {}, [], 1.0) for kernel in found]

        def rows(asked: ladder.Asked, rungs: Any) -> list[Row]:
            if asked.experiments == ["mmap-read"]:
                return []
            (version,) = (rung.kernel.version for rung in rungs)
            cells = {version: cell(numbers[version], numbers[version])}
            return [Row("mmap-write", "faults_per_mib", "", {}, "faults/MiB", cells)]

        monkeypatch.setattr(ladder, "climb", climb)
        monkeypatch.setattr(ladder, "rows", rows)
        return CliRunner().invoke(cli, ["reproduce", "linux-6.18", *words])

    return run


def test_the_answer_is_first_and_what_is_printed_stands_beside_it(reproduce: Any) -> None:
    done = reproduce("-q")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "linux-6.18: 1 of 2 claims hold, 1 not testable here"
    assert "6.17.1: 256" in done.stdout
    assert "commit 19773df031bc" in " ".join(done.stdout.split())
    assert "6.17.1: no number" in done.stdout  # of the read faults


def test_the_json_keeps_to_its_schema_and_the_gate_closes(reproduce: Any) -> None:
    import jsonschema

    done = reproduce("--json", "--gate", seen=256.0)
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    jsonschema.validate(document, documents.schema("reproduce-changelog"))
    first = document["changes"][0]
    assert (first["verdict"], first["since"]["value"]) == ("contradicted", 256.0)
    assert first["rule"] == "6.18.1 should show 1"


def test_options_of_a_study_are_refused(reproduce: Any) -> None:
    done = reproduce("--preset", "paper")
    assert (done.exit_code, "--preset does not apply to a changelog" in done.output) == (2, True)
    done = CliRunner().invoke(cli, ["reproduce", "vma-lock", "--kernels", "6.1"])
    assert (done.exit_code, "--kernels: for a changelog" in done.output) == (2, True)


def test_times_wait_for_kvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(changelog.kvm, "accelerator", lambda: "tcg")
    log = replace(published.changelog("linux-6.17"))
    log = replace(log, changes=tuple(c for c in log.changes if c.timed))
    judged = list(
        changelog.reproduce(log, [], tmp_path / "store.db", Any, lambda _: None)  # type: ignore[arg-type]
    )
    assert {one.word for one in judged} == {"not testable here"}
    assert all("at hand" in one.reason or one.change.lacks for one in judged)
