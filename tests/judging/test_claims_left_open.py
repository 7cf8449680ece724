"""What keeps a claim from a verdict, or changes it: samples that are missing, emulated time,
floors, drift, values that were extrapolated."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pretend import FAST, SLOW, Measure, costs, counting, experiment, only, ratio, slope, took
from synthetic import failed

from memlab import experiments
from memlab.experiment import (
    At,
    Condition,
    Control,
    Count,
    Level,
    Outcome,
    Ratio,
    Saturates,
    Within,
)
from memlab.judging import evidence
from memlab.judging.claims import judge
from memlab.present.documents.claims import JudgedClaim


class TestMissing:
    def test_a_point_that_was_not_measured_is_named_with_the_sweep_that_does(
        self, measured: Measure
    ) -> None:
        run = measured(experiment(ratio(below=0.5)), costs(slope), levels={"method": ["fast"]})
        judged = judge(run)
        assert {j.word for j in judged} == {"inconclusive"}
        assert judged[0].evidence == (
            "needs size=4 KiB method=slow: not in this run; to get it: "
            "memlab sweep pretend -p place=here -p size=4KiB"
        )

    def test_a_claim_without_any_point_is_judged_once(self, measured: Measure) -> None:
        run = measured(experiment(ratio(below=0.5)), costs(slope), levels={"size": [1, 64]})
        (judged,) = judge(run)
        assert judged.setting == {}
        assert judged.evidence.endswith("memlab sweep pretend -p size=4KiB")

    def test_a_control_is_no_substitute_for_points_that_a_reader_left_out(
        self, measured: Measure
    ) -> None:
        """It did say: contradicted, by a control's small stacks, of what the grid has."""
        levels: dict[str, list[Level]] = {"method": ["slow", "fast"], "size": [4096]}
        beside = Control("beside", "Elsewhere.", {**levels, "place": ["there"]})
        declared = experiment(ratio(below=0.5), controls=[beside])
        run = measured(declared, costs(slope), levels={"size": [1, 64], "place": ["here"]})
        judged = judge(run)
        assert {one.word for one in judged} == {"inconclusive"}
        assert all("size=4 KiB" in one.evidence for one in judged)

    def test_a_curve_needs_its_knee_and_a_level_beyond(self, measured: Measure) -> None:
        claim = Saturates(text="s", metric="time", where=FAST, over="size", at=64, within=0.2)
        run = measured(experiment(claim), costs(slope), levels={"size": [1, 64]})
        assert "needs size=64 B with a larger size" in only(judge(run)).evidence

    def test_a_cut_short_run_is_to_be_resumed(self, measured: Measure) -> None:
        run = measured(experiment(ratio(below=0.5)), costs(slope), blocks=0)
        assert "memlab sweep --resume 0123abcd" in only(judge(run)).evidence

    def test_what_is_unavailable_is_not_testable_here(self, measured: Measure) -> None:
        run = measured(
            experiment(ratio(below=0.5)),
            lambda at, block: failed("unavailable", "io_uring is disabled"),
        )
        judged = only(judge(run))
        assert judged.word == "not testable here"
        assert "io_uring is disabled" in judged.evidence

    def test_failed_trials_are_named(self, measured: Measure) -> None:
        run = measured(
            experiment(ratio(below=0.5)),
            lambda at, block: failed("enomem", "mmap: out of memory"),
        )
        judged = only(judge(run))
        assert judged.word == "inconclusive"
        assert "ended as enomem: mmap: out of memory" in judged.evidence

    def test_sides_without_a_block_in_common_have_no_ratio(self, measured: Measure) -> None:
        def world(at: At, block: int) -> Mapping[str, Any] | None:
            return took(1e-6) if (at["method"] == "slow") == (block < 6) else None

        judged = only(judge(measured(experiment(ratio(below=0.5)), world, blocks=12)))
        assert judged.evidence == "no block holds a sample of both sides"

    def test_a_ratio_of_nothing_is_no_ratio(self, measured: Measure) -> None:
        claim = Ratio(text="r", metric="faults", where={"size": 1}, of=SLOW, to=FAST, below=1)
        judged = only(judge(measured(experiment(claim), counting(lambda at, block: 0))))
        assert (judged.word, judged.evidence) == (
            "inconclusive",
            "a ratio needs values above 0, and some are 0",
        )


class TestEmulatedTime:
    ENVIRONMENT: Mapping[str, Any] = {"environment": {"emulated_time": True}}

    def test_times_are_not_testable(self, measured: Measure) -> None:
        run = measured(experiment(ratio(below=0.5)), costs(slope), **self.ENVIRONMENT)
        judged = only(judge(run))
        assert (judged.word, judged.evidence) == (
            "not testable here",
            "times in an emulated guest are not the machine's",
        )

    def test_counts_and_outcomes_are(self, measured: Measure) -> None:
        at = {**SLOW, "size": 1}
        claims = [
            Count(text="n", metric="faults", where=at, equals=256),
            Outcome(text="o", metric="faults", where=at, outcome="ok"),
            Ratio(
                text="r", metric="faults", where={"size": 1}, of=SLOW, to=FAST, above=2, timed=False
            ),
        ]
        run = measured(
            experiment(*claims),
            counting(lambda at, block: 256 if at["method"] == "slow" else 1),
            **self.ENVIRONMENT,
        )
        assert {j.word for j in judge(run)} == {"reproduced"}


class TestBaselineLoops:
    def test_a_large_baseline_loop_of_the_divisor_makes_a_lower_bound(
        self, measured: Measure
    ) -> None:
        def world(at: At, block: int) -> Mapping[str, Any]:
            slow = at["method"] == "slow"
            return took(1e-4 if slow else 1e-6, floor_ns=500)

        judged = only(judge(measured(experiment(ratio(above=10)), world)))
        assert judged.word == "reproduced"
        assert "at least 100 (100 to 100)" in judged.evidence
        assert "the baseline loop is 50 % of fast, so this is a lower bound" in judged.evidence
        assert judged.verdict.high == float("inf")
        assert JudgedClaim.made_of(judged).high is None

    def test_a_lower_bound_shows_nothing_about_an_upper_one(self, measured: Measure) -> None:
        def world(at: At, block: int) -> Mapping[str, Any]:
            return took(1e-4 if at["method"] == "slow" else 1e-6, floor_ns=500)

        assert only(judge(measured(experiment(ratio(below=1000)), world))).word == "inconclusive"

    def test_large_baseline_loops_on_both_sides_leave_nothing(self, measured: Measure) -> None:
        world = costs(lambda at: 1e-6, floor_ns=900)
        judged = only(judge(measured(experiment(ratio(above=0.5)), world)))
        assert judged.word == "inconclusive"
        assert "this says nothing of the operations" in judged.evidence

    def test_a_curve_that_the_loop_decides_is_left_open(self, measured: Measure) -> None:
        def world(at: At, block: int) -> Mapping[str, Any]:
            one = at["size"] == 1
            return took(4e-6 if one else 2e-6, floor_ns=2000 if one else 0)

        claim = Saturates(text="s", metric="time", where=SLOW, over="size", at=64, within=0.2)
        judged = only(judge(measured(experiment(claim), world)))
        assert judged.word == "inconclusive"
        assert "the baseline loop is 50 % at 1 B" in judged.evidence
        assert "reproduced with the loop's own cost, contradicted without it" in judged.evidence

    def test_a_baseline_loop_leaves_a_median_no_lower_limit(self, measured: Measure) -> None:
        claim = Within(text="w", metric="time", where={**SLOW, "size": 1}, above=0.5e-6)
        judged = only(judge(measured(experiment(claim), costs(lambda at: 1e-6, floor_ns=900))))
        assert judged.word == "inconclusive"
        assert "the baseline loop is 90 % of it" in judged.evidence


def test_drift_that_a_block_shares_changes_no_verdict(measured: Measure) -> None:
    def world(at: At, block: int) -> Mapping[str, Any]:
        return took((1.2e-6 if at["method"] == "slow" else 1e-6) * (1 + 0.05 * block))

    judged = only(judge(measured(experiment(ratio(above=1.15, below=1.25)), world)))
    assert judged.word == "reproduced"
    assert judged.verdict.low == pytest.approx(1.2, rel=1e-3)
    assert judged.verdict.high == pytest.approx(1.2, rel=1e-3)


def test_extrapolated_values_are_said(measured: Measure) -> None:
    world = costs(slope, extrapolated=True)
    judged = only(judge(measured(experiment(ratio(below=0.5)), world)))
    assert judged.evidence.endswith("; extrapolated")


def test_an_older_run_without_a_factor_is_still_judged(measured: Measure) -> None:
    declared = experiment(ratio(below=0.5))
    run = measured(declared, costs(slope))
    for point in run.points:
        dict.pop(point.at, "place")
    assert [j.word for j in judge(run)] == ["reproduced"]


class TestCondition:
    """A claim that is provided for is judged by the samples that meet its condition alone."""

    RAN = Condition("speed", 5e5, "the reader ran")
    CLAIM = Count(text="c", metric="faults", where={**FAST, "size": 1}, equals=3, provided=RAN)

    def test_a_count_stays_open_if_no_sample_met_its_condition(self, measured: Measure) -> None:
        run = measured(experiment(self.CLAIM), lambda at, block: took(4e-6, fault_count=3))
        judged = judge(run)[0]
        assert judged.word == "inconclusive"
        assert judged.evidence == (
            "judged only where the reader ran: calls a second 250 k/s at most, needs 500 k/s"
        )

    def test_samples_without_the_condition_do_not_count(self, measured: Measure) -> None:
        """Every third sample was held up, and counted other than the rest."""

        def world(at: At, block: int) -> Mapping[str, Any]:
            held_up = block % 3 == 0
            return took(4e-6, fault_count=0) if held_up else took(1e-6, fault_count=3)

        judged = judge(measured(experiment(self.CLAIM), world, blocks=9))[0]
        assert (judged.word, judged.verdict.n) == ("reproduced", 6)
        unconditional = replace(self.CLAIM, provided=None)
        judged = judge(measured(experiment(unconditional), world, blocks=9, id="0123abce"))[0]
        assert (judged.word, judged.verdict.n) == ("inconclusive", 9)


def test_a_number_among_levels_is_named() -> None:
    """`at 1` says nothing; a size, and a level that has words of its own, do."""
    declared = experiments.load("log-append")
    where = {"flush_every": 1, "record": 4096, "file_state": "preallocated"}
    text = "a flush per record, 4 KiB, preallocated"
    assert evidence.place(declared, where, where) == text
    assert evidence.place(experiments.load("tlb-shootdown"), {"readers": 1}, ["readers"]) == (
        "readers 1"
    )
