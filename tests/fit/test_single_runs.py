"""Whether each run of a program keeps a bound, or only their median: what a fit shows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from memlab.experiment.tried import Tried
from memlab.fit import shown
from memlab.fit.documents import Baseline, FitAnswer, LimitRow
from memlab.fit.search import ALPHA, SINGLE, apart, exceed_shown
from memlab.fit.trials import FitRun

MIB = 1 << 20


def test_each_run_is_in_one_pair() -> None:
    values = np.array([1.0, 1.1, 3.0, 2.0, np.nan, 4.0, 4.0, 0.0, 9.0])
    assert apart(values) == pytest.approx([0.1, 0.5, 0.0])
    assert apart(np.array([1.0])).size == 0


@pytest.mark.parametrize("share", [SINGLE, 2 * SINGLE])
def test_at_the_allowed_share_it_is_shown_in_one_of_twenty_at_most(share: float) -> None:
    """Exactly, over all sequences of 60 trials, with a look after each."""
    ways, wrong = {0: 1.0}, 0.0
    for trials in range(1, 61):
        after = dict.fromkeys(range(trials + 1), 0.0)
        for over, chance in ways.items():
            after[over] += chance * (1 - share)
            after[over + 1] += chance * share
        wrong += sum(p for over, p in after.items() if exceed_shown(over, trials, share))
        ways = {over: p for over, p in after.items() if not exceed_shown(over, trials, share)}
    assert ALPHA / 4 < wrong <= ALPHA


def test_few_trials_show_what_is_clear() -> None:
    assert exceed_shown(3, 5, 2 * SINGLE)
    assert not exceed_shown(1, 5, 2 * SINGLE)
    assert not exceed_shown(0, 0, SINGLE)
    assert not exceed_shown(3, 60, SINGLE)  # 5 %


def ended(value: float) -> Baseline:
    return Baseline(value=value, blocks=12, outcomes={"ok": 12}, detail=None)


def answer(**changed: Any) -> FitAnswer:
    """Of a program that needs 60 MiB, as far as it is not changed."""
    row = LimitRow(
        limit_bytes=60 * MIB, word="fits", cost=1.01, low=0.99, high=1.03, blocks=12, over=1,
        outcomes={"ok": 12}, refaults_per_s=0.0, expected_refaults_per_s=None, reached=0,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run": "r", "command": "./app", "metric": "elapsed", "within": 0.05, "swap": "none",
        "state": "answered", "limit_bytes": 60 * MIB, "above_bytes": 55 * MIB,
        "fits_bytes": 60 * MIB, "setting_bytes": 63 * MIB, "gate_bytes": None,
        "peak_bytes": 80 * MIB, "is_peak_summed": False, "page_cache_bytes": 0,
        "unmapped_cache_bytes": None,
        "expected_bytes": None, "expected_reused_bytes": None,
        "baseline": ended(1.0),
        "pairs": 6, "pairs_apart": 1, "apart": 0.02, "single_runs": "not shown to exceed",
        "broken_share_most": 0.22, "growth_bytes_per_s": None, "limits": [row],
    }  # fmt: skip
    return FitAnswer(**fields | changed)


def test_a_program_whose_runs_differ_without_a_limit_has_a_limit_of_its_median() -> None:
    expected = (
        "Without a limit 5 of 6 pairs of runs differ by over 5 % (the median pair by 12 %), so no "
        "limit keeps each run within 5 %: limits are those of the median run."
    )
    differing = {"single_runs": "differ", "apart": 0.12, "pairs_apart": 5}
    for more in ({}, {"state": "open", "fits_bytes": None, "setting_bytes": None}):
        assert expected in [*shown.sentences(answer(**differing, **more))]
    assert not any("of runs differ" in line for line in shown.sentences(answer()))


OPEN = {"state": "open", "above_bytes": None, "fits_bytes": None, "setting_bytes": None}


def test_an_open_fit_names_no_limit_of_few_runs_and_its_peak_until_then() -> None:
    row = structs.replace(answer().limits[0], word="open")
    lines = {
        blocks: [*shown.sentences(answer(**OPEN, limits=[structs.replace(row, blocks=blocks)]))]
        for blocks in (5, 6)
    }
    assert lines[5][0] == "Not decided: no limit is shown to fit yet."
    assert lines[6][0] == "Not decided: ./app seems to keep its speed down to 60 MiB."
    until = "Until then: memory.max=84M, its peak of 80 MiB and a margin of 5 % or more."
    assert all(until in of for of in lines.values())
    assert not any("To decide it" in line for of in lines.values() for line in of)


@pytest.mark.parametrize("above_mib", [80, 84, 90])
def test_until_it_is_decided_no_limit_is_named_that_is_too_small(above_mib: int) -> None:
    row = structs.replace(answer().limits[0], limit_bytes=above_mib * MIB, word="broken")
    row = structs.replace(row, outcomes={"ok": 3, "oom-killed": 1})
    lines = [*shown.sentences(answer(**OPEN | {"above_bytes": above_mib * MIB}, limits=[row]))]
    assert any(f"At {above_mib} MiB it is killed (1 of 4)." in line for line in lines)
    assert any("memory.max=84M" in line for line in lines) == (above_mib < 84)


def test_an_open_fit_of_runs_that_differ_says_by_how_much_and_what_helps() -> None:
    helps = (
        "To decide it: more work per run (one takes 52 ms), a quieter machine, or a larger "
        "--keep-within."
    )
    short = OPEN | {"baseline": ended(0.052), "apart": 0.23}
    differ = "Without a limit the median pair of runs differs by 23 %, over the bound of 5 %."
    assert f"{differ} {helps}" in [*shown.sentences(answer(**short))]
    assert helps in [*shown.sentences(answer(**short, single_runs="differ"))]
    few = [*shown.sentences(answer(**short, pairs=5))]
    assert not any("To decide it" in line for line in few)


def test_runs_that_exceed_the_bound_at_the_limit_only_are_counted() -> None:
    lines = [*shown.sentences(answer(single_runs="exceed"))]
    assert (
        "At 60 MiB 1 of 12 runs exceed the bound of 5 %: it holds for the median run, not for 19 "
        "of 20." in lines
    )


@pytest.mark.parametrize(
    ("state", "left", "next_words"),
    [
        ("open", {3}, "memlab sweep --resume r"),
        ("open", set(), "memlab fit --keep-within 'elapsed: 10%' --timeout 30s -- ./app '$x'"),
        ("answered", set(), "memlab fit --gate 63M --timeout 30s -- ./app '$x'"),
        ("grows", set(), "memlab show r"),
    ],
)
def test_the_next_command_is_one_that_helps(
    state: str, left: set[int], next_words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "open_points", lambda _: left)
    subject = Tried(["./app", "$x"], "/", {}, timeout_s=30.0)
    run: Any = SimpleNamespace(
        experiment=SimpleNamespace(subject=subject), command=lambda words: f"memlab {words} r"
    )
    setting = 63 * MIB if state == "answered" else None
    assert shown.next_step(answer(state=state, setting_bytes=setting), run) == next_words


def test_a_peak_that_is_not_of_the_cgroup_is_said_to_be_none() -> None:
    summed = {"is_peak_summed": True, "state": "open", "fits_bytes": None, "setting_bytes": None}
    said = "\n".join(shown.sentences(answer(**summed)))
    assert "Without a limit its processes took 80 MiB or more at one time (no peak" in said
    assert "the 80 MiB or more that its processes took at one time and a margin" in said
    assert "its peak" not in said


class Trials:
    """The trials without a limit, of two processes with 30 MiB each."""

    def __init__(self, peak_group: list[float]) -> None:
        self.metrics = {"peak_group": peak_group, "peak_rss": [30.0 * MIB]}

    def valued(self, metric: str, _: object) -> Any:
        return SimpleNamespace(column=lambda _: np.array(self.metrics[metric]))

    def good(self, _: object) -> Any:
        sample = SimpleNamespace(readings={"rss_bytes": {"values": [2 * MIB, 60 * MIB, 3 * MIB]}})
        return SimpleNamespace(read=lambda function, _: [function(sample)])


@pytest.mark.parametrize(("group", "peak"), [([70.0 * MIB], 70 * MIB), ([], 60 * MIB)])
def test_processes_are_summed_where_the_cgroup_has_no_peak(group: list[float], peak: int) -> None:
    run: Any = Trials(group)
    fit = FitRun(run)
    fit.__dict__["baseline"] = None
    assert (fit.peak_bytes, fit.is_peak_summed) == (peak, not group)
