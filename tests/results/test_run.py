"""A stored run, read: each metric from the raw samples, against numbers worked out by hand."""

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import experiment, failed, ok, run_row, sample, window

from memlab import experiments
from memlab._version import __version__
from memlab.errors import CannotRun, StoreError
from memlab.experiment import F, Metric, each
from memlab.results import Run
from memlab.results import run as results
from memlab.results.crossing import crossings
from memlab.run.plan import build
from memlab.store import PointRow, Store, database

Replies = Mapping[int, list[dict[str, Any] | None]]


@pytest.fixture(autouse=True)
def _synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "load", lambda name, subject=None: experiment())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


def stored(path: Path, replies: Replies, **levels: list) -> Run:
    """A run of the synthetic grid; a reply of None is a block without a sample."""
    points = build(experiment(), "quick", levels).points
    row = run_row()
    with Store(path, create=True) as opened:
        opened.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        session = opened.begin_session(row.id)
        for point, answers in replies.items():
            for block, reply in enumerate(answers):
                if reply is not None:
                    opened.add_sample(row.id, session, 1.0, sample(point, block, reply))
        opened.end_session(row.id, session, 2.0, "blocks")
    return Run(row, path)


def test_values_lie_by_block_with_nan_where_there_is_none(path: Path) -> None:
    """Of the blocks that have a sample: the second has none."""
    run = stored(path, {0: [ok(1000), None, failed("error", "why"), ok(4000)]})
    assert run.blocks == 3
    values = run.values("call_time", run.points[0])
    np.testing.assert_allclose(values, [1e-6, np.nan, 4e-6])
    assert np.isnan(run.values("call_time", run.points[1])).all()


def test_arrays_are_of_the_blocks_that_have_samples(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row may name any block: 121 kB of rows took 730 MiB."""
    run = stored(path, {0: [ok(1000)], 1: [ok(3000)]})
    with Store(path) as opened:
        for point in (0, 1):
            opened.add_sample(run.id, 1, 1.0, sample(point, 999_999, ok(2000)))
    run = Run(run.row, path)
    assert run.blocks == 2
    np.testing.assert_allclose(run.values("call_time", run.points[1]), [3e-6, 2e-6])
    monkeypatch.setattr(results, "CELLS_MAX", 2 * len(run.points) - 1)
    with pytest.raises(StoreError, match=r"\d points by 2 blocks: more than \d+ numbers are not"):
        Run(run.row, path)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"size": -1}, r"point 1 has size -1, which is not a level of synthetic"),
        ({"size": 2.5}, r"point 1 has size 2.5, which is not a level of synthetic"),
        ({"size": 1, "method": "slow"}, "two of its points are the same"),
    ],
)
def test_points_that_no_plan_makes(path: Path, levels: dict[str, Any], said: str) -> None:
    points = [PointRow(0, {"size": 1, "method": "slow"}, None)]
    points.append(PointRow(1, {"size": 8, "method": "slow"} | levels, None))
    with Store(path, create=True) as opened:
        opened.add_run(run_row(), points)
    with pytest.raises(StoreError, match=said):
        Run(run_row(), path)


def test_what_cannot_be_read_names_the_other_memlab_that_wrote_it(path: Path) -> None:
    row = run_row(memlab="9.1")
    with Store(path, create=True) as opened:
        opened.add_run(row, [PointRow(0, {"size": 1, "method": "slow", "colour": "blue"}, None)])
        opened.add_sample(row.id, 1, 0.0, sample(0, 0, ok(1000)))
    wrote = f"; memlab 9.1 wrote it, and this is memlab {__version__}$"
    with pytest.raises(StoreError, match=f"colour 'blue', which is not a level of .*{wrote}"):
        Run(row, path)
    change(path, "UPDATE points SET levels = json_remove(levels, '$.colour')", "points")
    change(path, "UPDATE samples SET raw = json_remove(raw, '$.window')", "samples")
    with pytest.raises(StoreError, match=f"does not hold what call_time is read from.*{wrote}"):
        _ = Run(row, path).summaries


def change(path: Path, statement: str, table: str) -> None:
    """As another memlab would have written it."""
    with ExitStack() as stack:
        db = database.opened(path, False, stack)
        db.execute(statement)
        database.seal(db, table, "true")


def test_median_and_interval_of_six(path: Path) -> None:
    run = stored(path, {0: [ok(n * 1000) for n in (3, 1, 6, 2, 5, 4)]})
    found = run.summaries[0].medians["call_time"]
    assert (found.estimate, found.n) == (pytest.approx(3.5e-6), 6)
    # (x1, x6) covers 96.875 %, (x2, x5) 78.125 %; 95 % lies 5/14 of the way from one to the other
    # (Hettmansperger and Sheather 1986).
    assert found.low == pytest.approx((1 + 5 / 14) * 1e-6)
    assert found.high == pytest.approx((6 - 5 / 14) * 1e-6)


def test_of_a_run_over_sessions_each_counts_once(path: Path) -> None:
    """Two sessions of three and of two blocks; one block of the second failed."""
    row = run_row(request={"experiment": "synthetic", "blocks": 5, "sessions": 2})
    points = build(experiment(), "quick", {}).points
    sessions = [[ok(1000), ok(9000), ok(2000)], [failed("error", "why"), ok(4000)]]
    with Store(path, create=True) as opened:
        opened.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        blocks = iter(range(5))
        for replies in sessions:
            session = opened.begin_session(row.id)
            for reply in replies:
                opened.add_sample(row.id, session, 1.0, sample(0, next(blocks), reply))
            opened.end_session(row.id, session, 2.0, "blocks")
    run = Run(row, path)
    point = run.points[0]
    np.testing.assert_allclose(run.values("call_time", point), [2e-6, 4e-6])
    assert run.session_index(run.by_point[0]).tolist() == [0, 0, 0, 1, 1]
    assert run.frame["session"].tolist() == [0, 0, 0, 1, 1]
    assert np.isnan(run.values("call_time", run.points[1])).all()
    median = run.summaries[0].medians["call_time"]
    assert (median.n, median.estimate, run.unit) == (2, pytest.approx(3e-6), "session")
    assert run.wall_s == 4.0
    assert median.low is None  # which takes three
    assert "session" not in stored(path.with_name("one.db"), {0: [ok(1000)]}).frame


@pytest.mark.parametrize("elapsed_ns", [1e308, 1e-200])
def test_what_nothing_measures_is_no_value(path: Path, elapsed_ns: float) -> None:
    """What is made of two such numbers is infinite, or 0."""
    run = stored(path, {0: [ok(1000)] * 5 + [ok(elapsed_ns)]})  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="sample 6 does not hold what call_time is read from"):
        _ = run.summaries


def raising(error: Exception) -> Callable[..., float]:
    def read(*_: object) -> float:
        raise error

    return read


@pytest.mark.parametrize("error", [KeyError("smaps"), RuntimeError("own"), StopIteration("own")])
def test_whatever_reading_a_sample_raises_names_it_and_the_error(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """In a metric that is a function, a function within an expression, and what a figure reads."""
    said = f"run 0123abcd of synthetic in .*: sample 1 does not hold.*{type(error).__name__}: "
    whole = stored(path, {0: [ok(1000)] * 5})
    with pytest.raises(StoreError, match=said):
        list(whole.samples.read(raising(error), "the figure"))
    for of in (raising(error), each("own", raising(error), F.floor_ns)):
        own = Metric("call_time", "s", "", of=of)
        declared = replace(experiment(), metrics=[own])
        monkeypatch.setattr(experiments, "load", lambda *_, declared=declared: declared)
        with pytest.raises(StoreError, match=said):
            _ = Run(whole.row, path).summaries
        with pytest.raises(CannotRun, match="call_time cannot be read from what the probe"):
            own.value(ok(1000)["result"], {})


def test_five_samples_have_a_median_and_no_interval(path: Path) -> None:
    run = stored(path, {0: [ok(n) for n in (1, 2, 3, 4, 5)]})
    found = run.summaries[0].medians["call_time"]
    assert (found.low, found.estimate, found.high) == (None, pytest.approx(3e-9), None)


def test_failed_trials_are_counted_and_quoted_once(path: Path) -> None:
    no = failed("unavailable", "EPERM")
    run = stored(path, {0: [ok(1), no, no, failed("sigbus", "full")], 1: [no]})
    assert run.summaries[0].outcomes == {"ok": 1, "unavailable": 2, "sigbus": 1}
    assert run.summaries[0].details == ("EPERM", "full")
    assert run.summaries[0].medians["call_time"].n == 1
    assert run.summaries[1].medians == {}
    assert run.summaries[2].outcomes.total() == 0


def test_nothing_is_a_share_of_zero(path: Path) -> None:
    run = stored(path, {0: [ok(0, floor_ns=n) for n in (0, 0, 3)]})
    assert run.summaries[0].baseline_loop_share("call_time") is None


def test_baseline_loop_is_beside_the_median(path: Path) -> None:
    run = stored(path, {0: [ok(1000, floor_ns=n) for n in (100, 300, 200)]})
    assert run.summaries[0].baseline_loops["call_time"] == pytest.approx(200e-9)
    assert run.summaries[0].baseline_loop_share("call_time") == pytest.approx(0.2)
    assert run.summaries[0].baseline_loop_share("elapsed") is None


def test_extrapolated_values_are_marked(path: Path) -> None:
    run = stored(path, {0: [ok(1)], 2: [ok(1)]})  # size 1, size 4096
    assert run.summaries[0].extrapolated == ["call_time"]
    assert run.summaries[2].extrapolated == []


def test_an_outlier_is_flagged_and_kept(path: Path) -> None:
    run = stored(path, {0: [ok(1000 + n) for n in range(9)] + [ok(50_000)]})
    summary = run.summaries[0]
    assert summary.noise["outlier"] == 1
    assert summary.medians["call_time"].n == 10


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"cpu_at_close": 0}, "migrated"),
        ({"major_fault_count": 1}, "major faults"),
        ({"involuntary_switch_count": 3}, "preempted"),
    ],
)
def test_noise_in_the_window_is_named(path: Path, change: dict[str, int], flag: str) -> None:
    noisy = ok(1000, window=window(1000, **change))
    assert stored(path, {0: [noisy, ok(1000)]}).summaries[0].noise == {flag: 1}


def test_processes_that_preempt_one_another_are_no_noise(path: Path) -> None:
    """A crew of processes has no CPU of its own: -1."""
    crew = window(1000, cpu_at_open=-1, cpu_at_close=-1, involuntary_switch_count=30)
    assert stored(path, {0: [ok(1000, window=crew)]}).summaries[0].noise == {}


def test_stolen_time_writeback_and_reported_memory_are_noise(path: Path) -> None:
    stolen = window(1000)
    stolen["counters"]["stolen_ns"] = {"count": 11, "error": None}
    replies = [
        ok(1000, window=stolen),
        ok(1000, host={"reported_kib": 1, "nr_written": 256}),
        ok(1, host={"reported_kib": 0, "nr_written": 257}),
    ]
    found = stored(path, {0: replies}).summaries[0].noise
    assert found == {"stolen": 1, "memory reported to the hypervisor": 1, "writeback": 1}


def test_work_of_others_on_other_cpus_is_noise_where_it_is_more_than_the_clocks(path: Path) -> None:
    replies = [
        ok(1000, host={"other_cpus_ticks": 100, "other_cpus_busy_ticks": 26}),
        ok(1000, host={"other_cpus_ticks": 100, "other_cpus_busy_ticks": 25}),
        ok(1000, host={"other_cpus_ticks": 4, "other_cpus_busy_ticks": 3}),
        ok(1000, host={}),
    ]
    assert stored(path, {0: replies}).summaries[0].noise == {"other CPUs busy": 1}


def test_a_counter_that_is_not_there_is_no_number(path: Path) -> None:
    blind = window(1000)
    blind["counters"]["trapped"] = {"count": None, "error": "EACCES"}
    run = stored(path, {0: [ok(1000, window=blind)]})
    assert "trapped" not in run.summaries[0].medians
    assert "populated" not in run.summaries[0].medians
    assert run.summaries[0].medians["minor_faults"].estimate == 0


def test_populated_is_rusage_less_perf(path: Path) -> None:
    counted = window(1000, minor_fault_count=4096)
    counted["counters"]["trapped"] = {"count": 96, "error": None}
    run = stored(path, {0: [ok(1000, window=counted)]})
    assert run.summaries[0].medians["populated"].estimate == 4000


def test_share_of_the_time_inside_windows(path: Path) -> None:
    run = stored(path, {0: [ok(500_000_000), ok(100_000_000), failed("error", "why")]})
    assert run.window_share == pytest.approx(0.3)  # 0.6 s of 2 s


def test_frame_is_tidy(path: Path) -> None:
    run = stored(path, {0: [ok(1000), failed("error", "why")], 5: [ok(2000)]})
    frame = run.frame
    assert list(frame.columns[:3]) == ["run", "sample", "point"]
    assert not frame.columns.duplicated().any()
    assert frame["outcome"].tolist() == ["ok", "error", "ok"]
    assert frame["size"].tolist() == [1, 1, 8192]
    assert frame["control"].isna().tolist() == [True, True, False]
    assert frame["call_time"].tolist()[::2] == pytest.approx([1e-6, 2e-6])
    assert math.isnan(frame["call_time"][1])


def test_summary_is_a_row_a_point(path: Path) -> None:
    run = stored(path, {p: [ok(1000)] * 6 for p in range(6)}, size=[1, 4096])
    summary = run.summary()
    assert summary["size"].tolist() == [1, 1, 4096, 4096, 8192, 8192]
    assert summary["samples"].tolist() == summary["ok"].tolist() == [6] * 6
    assert (summary["call_time_low"] <= summary["call_time"]).all()


def test_points_are_found_by_level_and_by_control(path: Path) -> None:
    run = stored(path, {})
    assert [p.index for p in run.matching({"method": "fast"})] == [1, 3, 5]
    assert [p.index for p in run.control("large")] == [4, 5]
    assert run.varied == ["size", "method"]
    assert repr(run) == "<memlab run 0123abcd: synthetic, 0 samples>"


def test_a_run_without_samples_can_be_read(path: Path) -> None:
    run = stored(path, {})
    assert (run.blocks, len(run.frame), len(run.summaries)) == (0, 0, 6)
    assert run.window_share == 0
    assert list(crossings(run)) == []


def test_crossing_lies_where_the_lines_meet(path: Path) -> None:
    """slow costs 8, 8 and fast 2, 32 at sizes 1, 4096: in log-log they meet halfway, at 64."""
    cost = {0: 8, 1: 2, 2: 8, 3: 32}
    run = stored(path, {p: [ok(1000 * c) for _ in range(6)] for p, c in cost.items()})
    (found,) = crossings(run)
    assert found.found.estimate == pytest.approx(64)
    assert found.cost == pytest.approx(8e-6)
    assert (found.of, found.to) == ({"method": "slow"}, {"method": "fast"})


def test_lines_that_do_not_meet_cross_outside(path: Path) -> None:
    run = stored(path, {p: [ok(1000 if p % 2 else 9000)] * 6 for p in range(4)})
    (found,) = crossings(run)
    assert math.isinf(found.found.estimate)
    assert math.isnan(found.cost)


def test_a_line_with_a_cost_of_zero_has_no_crossing(path: Path) -> None:
    """It has no ratio to the other; the rest of the run is shown all the same."""
    cost = {0: 8, 1: 2, 2: 8, 3: 32}
    made = {p: [ok(1000 * c) for _ in range(6)] for p, c in cost.items()}
    made[1][3] = ok(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(crossings(stored(path, made))) == []
