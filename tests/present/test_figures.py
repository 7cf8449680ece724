"""A run's figure: every point is a mark, every mark leads to its samples, no words collide."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from looking import collisions, written
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from stored_runs import (
    BYTES,
    ERRNO,
    HASH,
    SIZES,
    TABLE,
    beside,
    crossing_at_1500,
    of_kind,
    stored,
)

from memlab import api
from memlab.analysis.crossover import crossover
from memlab.experiment import At
from memlab.judging import summary
from memlab.judging.claims import judge
from memlab.judging.summary import DIFFERS, PARTLY
from memlab.present import figures, words
from memlab.present.figures import sidecar, style, verdicts
from memlab.results import Run
from memlab.results.crossing import crossings

# What is a mark


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return stored(tmp_path_factory.mktemp("store"), filesystem=["dir", "tmpfs"])


@pytest.fixture(scope="module")
def figure(run: Run) -> Figure:
    """Drawn once for all that look at it."""
    return figures.draw(run)


def test_the_sidecar_has_every_grid_point_with_its_summary(run: Run) -> None:
    data = beside(run)
    lines = {json.dumps(mark["levels"]): mark for mark in of_kind(data, "line")}
    grid = [s for s in run.summaries if s.point.control is None]
    assert len(of_kind(data, "line")) == len(lines) == len(grid) == 20
    for entry in grid:
        mark, median = lines[json.dumps(dict(entry.point.at))], entry.medians["time_2gib"]
        assert (mark["median"], mark["low"], mark["high"]) == (
            median.estimate,
            median.low,
            median.high,
        )
        assert mark["n"] == median.n == 6
        assert mark["samples"] == [s.id for s in run.by_point[entry.point.index]]
        assert mark["extrapolated"] is True
        assert mark["probe_hashes"] == [HASH]
        assert (mark["metric"], mark["unit"]) == ("time_2gib", "s")
        assert mark["panel"] == {
            name: entry.point.at[name] for name in ("filesystem", "file_state")
        }
    assert (data["run"], data["memlab"]) == ("ab12cd34", "9.9")
    assert Path(data["store"]) == run.store_path


def test_the_sidecar_names_a_c_file_that_exists(run: Run) -> None:
    root = Path(__file__).parents[2]
    assert {mark["c_file"] for mark in of_kind(beside(run), "line")} == {"probes/mmap_write.c"}
    assert (root / "probes/mmap_write.c").is_file()


def test_every_mark_of_the_sidecar_is_drawn(run: Run, figure: Figure) -> None:
    data = sidecar.as_data(run)
    for axes, level in zip(figure.axes, ("dir", "tmpfs"), strict=True):
        drawn = {
            (float(x), float(y))
            for line in axes.lines
            for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
        }
        for mark in data["marks"]:
            if mark["panel"]["filesystem"] == level:
                value = mark.get("median", mark.get("value"))
                assert (float(mark["levels"]["size"]), value) in drawn


def test_controls_are_series_of_their_own_with_their_name(run: Run, figure: Figure) -> None:
    controls = of_kind(beside(run), "control")
    points = run.control("faults")
    assert len(controls) == len(points) > 0
    assert {mark["series"] for mark in controls} == {"control faults"}
    assert "control faults" in written(figure)


def test_a_figure_that_names_its_controls_draws_no_other(run: Run) -> None:
    def drawn(controls: list[str]) -> set[str]:
        figure = replace(run.experiment.figure, controls=controls)
        return {mark["series"] for mark in of_kind(beside(run.showing(figure)), "control")}

    assert drawn(["faults"]) == {"control faults"}
    assert drawn([]) == set()


def test_a_control_that_sets_a_panels_factor_stands_in_the_panels_that_agree(
    tmp_path: Path,
) -> None:
    levels = {"filesystem": ["dir", "tmpfs"], "file_size": [BYTES], "file_state": ["cached_4k"]}
    run = stored(tmp_path, preset="paper", **levels)
    folios = [m for m in of_kind(beside(run), "control") if "folios" in m["series"]]
    assert len(folios) == len(run.control("folios")) == 20
    for mark in folios:
        assert mark["panel"]["filesystem"] == mark["levels"]["filesystem"]
        assert (mark["panel"]["file_state"], mark["levels"]["file_state"]) == (
            "cached_4k",
            "cached_1m",
        )
    assert {mark["series"] for mark in folios} == {
        "control folios: mmap",
        "control folios: write(2)",
    }


def test_the_baseline_loop_pools_the_samples_of_a_level(run: Run, figure: Figure) -> None:
    baseline_loops = of_kind(beside(run), "baseline loop")
    assert [mark["levels"]["size"] for mark in baseline_loops] == SIZES * 2
    assert all(mark["n"] == len(mark["samples"]) == 12 for mark in baseline_loops)
    assert baseline_loops[0]["median"] == pytest.approx(1e-9 * TABLE)
    assert "baseline loop" in written(figure)


def test_the_published_cells_are_all_there_and_a_bound_stays_a_bound(tmp_path: Path) -> None:
    cells = of_kind(beside(stored(tmp_path)), "published")
    assert len(cells) == 16
    assert {cell["source"] for cell in cells} == {"logstore-mmap, write"}
    (bound,) = (cell for cell in cells if cell["bound"])
    assert (bound["printed"], bound["bound"], bound["value"]) == (">300s", ">", 300)
    assert bound["levels"] == {"method": "write", "size": 1}


def test_open_markers_are_the_extrapolated_ones(tmp_path: Path) -> None:
    run = stored(tmp_path, slice=[0.0], controls=False)
    assert not any(mark["extrapolated"] for mark in of_kind(beside(run), "line"))
    assert "extrapolated" not in written(figures.draw(run))


def test_open_markers_are_said_in_the_legend(figure: Figure) -> None:
    assert "open marker: extrapolated from a slice" in written(figure)


def test_a_factor_that_the_figure_does_not_name_splits_the_panels(tmp_path: Path) -> None:
    run = stored(tmp_path, sync=[False, True], controls=False)
    data = beside(run)
    lines = of_kind(data, "line")
    assert [mark["panel"]["sync"] for mark in lines] == [False] * 10 + [True] * 10
    assert [mark["panel"]["sync"] for mark in data["crossings"]] == [False]
    assert [mark["x"] for mark in lines] == [float(size) for size in SIZES] * 4


# Crossings


def test_a_crossing_is_ringed_and_said(tmp_path: Path) -> None:
    run = stored(tmp_path, controls=False)
    (crossing,) = crossings(run)
    (row,) = sidecar.as_data(run)["crossings"]
    assert crossing.found.estimate == pytest.approx(1500)
    assert (row["estimate"], row["cost"]) == (crossing.found.estimate, crossing.cost)
    assert (row["low"], row["high"], row["n"]) == (crossing.found.low, crossing.found.high, 6)
    assert len(row["samples"]) == 2 * len(SIZES) * 6
    figure = figures.draw(run)
    rings = [
        line
        for line in figure.axes[0].lines
        if list(line.get_xdata()) == [crossing.found.estimate]
        and list(line.get_ydata()) == [crossing.cost]
    ]
    assert len(rings) == 1
    assert "write cheaper from 1.46 KiB (1.46 to 1.46 KiB)" in written(figure)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "said"),
    [(0.1, "write cheaper at every size"), (50.0, "mmap cheaper at every size")],
)
def test_a_crossing_outside_the_sizes_is_text(tmp_path: Path, write: float, said: str) -> None:
    run = stored(tmp_path, lambda at: 2.0 if at["method"] == "mmap" else write, controls=False)
    (row,) = sidecar.as_data(run)["crossings"]
    assert (row["estimate"], row["words"]) == (None, said)
    assert said in written(figures.draw(run))


@pytest.mark.parametrize(
    ("estimate", "low", "high", "said"),
    [
        (inf, inf, inf, "mmap cheaper at every size"),
        (inf, 3200.0, inf, "mmap cheaper up to 3.12 KiB, not decided at the others"),
        (inf, -inf, inf, "mmap or write, not decided at any size"),
        (-inf, -inf, -inf, "write cheaper at every size"),
        (-inf, -inf, 200.0, "write cheaper from 200 B on, not decided at the others"),
        (-inf, -inf, inf, "write or mmap, not decided at any size"),
    ],
)
def test_a_line_is_cheaper_as_far_as_the_interval_shows_it(
    tmp_path: Path, estimate: float, low: float, high: float, said: str
) -> None:
    run = stored(tmp_path, crossing_at_1500, controls=False)
    (crossed,) = crossings(run)
    found = replace(crossed.found, estimate=estimate, low=low, high=high, crossings=0)
    assert words.crossing(run.named, replace(crossed, found=found)) == said


@pytest.mark.parametrize(
    ("estimate", "low", "high", "said"),
    [
        (4000.0, 750.0, inf, "mmap cheaper up to 750 B, not decided at the others"),
        (4000.0, -inf, 5000.0, "write cheaper from 4.88 KiB on, not decided at the others"),
        (4000.0, -inf, inf, "write or mmap: the size where they cross is not decided"),
        (4000.0, 3000.0, 5000.0, "write cheaper from 3.91 KiB (2.93 to 4.88 KiB)"),
    ],
)
def test_a_crossing_whose_interval_runs_out_of_the_levels_is_not_decided(
    tmp_path: Path, estimate: float, low: float, high: float, said: str
) -> None:
    run = stored(tmp_path, crossing_at_1500, controls=False)
    (crossed,) = crossings(run)
    point = replace(crossed.found, estimate=estimate, low=low, high=high, crossings=1)
    crossed = replace(crossed, found=replace(point, largest=10240.0))
    assert words.crossing(run.named, crossed) == said
    assert crossed.decided == ("decided" not in said)


@pytest.mark.parametrize(
    ("signs", "said"),
    [
        ([1, 1, 1, -1, 1], "mmap cheaper at 1 B to 512 B, 2 KiB; write at 1 KiB"),
        ([1, 1, 0, -1, 1], "mmap cheaper at 1 B to 100 B, 2 KiB; write at 1 KiB; not decided at "
         "the others"),
        ([1, 0, 0, 1, 1], "mmap cheaper at 1 B, 1 KiB to 2 KiB; not decided at the others"),
        ([-1, 0, 0, 0, 0], "write cheaper at 1 B; not decided at the others"),
        ([0, 0, 0, 0, 0], "write or mmap, not decided at any size"),
    ],
)  # fmt: skip
def test_lines_that_cross_several_times_are_told_apart_by_level(
    tmp_path: Path, signs: list[int], said: str
) -> None:
    run = stored(tmp_path, crossing_at_1500, controls=False)
    (crossed,) = crossings(run)
    ratios = np.outer(np.ones(8), signs) + np.outer([0.1, -0.1] * 4, np.ones(5))
    sizes = [1, 100, 512, 1024, 2048]
    point = crossover(sizes, np.exp(ratios), np.ones_like(ratios))
    point = replace(point, crossings=2, estimate=inf)
    assert words.crossing(run.named, replace(crossed, found=point)) == said


def test_mmap_read_has_no_crossing_and_five_lines(tmp_path: Path) -> None:
    run = stored(tmp_path, experiment="mmap-read")
    data = beside(run)
    assert list(dict.fromkeys(mark["series"] for mark in of_kind(data, "line"))) == [
        "mmap, untouched",
        "mmap, summed",
        "mmap, copied",
        "read(2), untouched",
        "read(2), summed",
    ]
    assert data["crossings"] == []
    assert "cheaper" not in written(figures.draw(run))


# What has no value


def failing(at: At) -> float | None:
    lost = at["method"] == "write" and at["size"] == 1024
    return None if lost else crossing_at_1500(at)


def test_a_failed_point_is_named_and_breaks_its_line(tmp_path: Path) -> None:
    run = stored(tmp_path, failing, controls=False)
    data, figure = beside(run), figures.draw(run)
    (lost,) = data["unavailable"]
    assert (lost["series"], lost["levels"]["size"], lost["why"]) == ("write(2)", 1024, "enomem")
    assert lost["outcomes"] == {"enomem": 6}
    assert lost["details"] == [f"mmap: {ERRNO} at probes/x.c:9"]
    assert len(of_kind(data, "line")) == 9
    assert "no value: size 1 KiB, write(2): enomem (mmap: ENOMEM)" in written(figure)
    joined = [tuple(line.get_xdata()) for line in figure.axes[0].lines]
    assert (1.0, 100.0) in joined
    assert (4096.0, 10240.0) in joined
    assert not any(100.0 in xs and 4096.0 in xs and 1024.0 not in xs for xs in joined)


def test_a_run_that_failed_throughout_still_draws(tmp_path: Path) -> None:
    run = stored(tmp_path, lambda at: None)
    data = beside(run)
    assert data["marks"] == []
    assert len(data["unavailable"]) == len(run.points)
    assert "no sample has a value to draw" in written(figures.draw(run))


def test_a_run_without_samples_still_draws(tmp_path: Path) -> None:
    data = beside(stored(tmp_path, blocks=0))
    assert (data["marks"], data["unavailable"], data["crossings"]) == ([], [], [])


def test_a_single_size_is_marks_without_a_line(tmp_path: Path) -> None:
    run = stored(tmp_path, size=[4096], controls=False)
    assert [mark["levels"]["size"] for mark in of_kind(beside(run), "line")] == [4096] * 2


def test_few_blocks_have_marks_and_no_interval(tmp_path: Path) -> None:
    run = stored(tmp_path, blocks=3, controls=False)
    lines = of_kind(beside(run), "line")
    assert {(mark["low"], mark["high"], mark["n"]) for mark in lines} == {(None, None, 3)}
    text = written(figures.draw(run))
    assert "3 per point; no interval below 6" in text
    assert "not known yet: 3 of 6 samples" in text


# The page


CASES: dict[str, Callable[[Path], Run]] = {
    "one panel": lambda folder: stored(folder),
    "two panels": lambda folder: stored(folder, filesystem=["dir", "tmpfs"]),
    "six panels": lambda folder: stored(
        folder,
        filesystem=["dir", "tmpfs"],
        file_state=["cached_4k", "sparse", "preallocated"],
    ),
    "folios": lambda folder: stored(folder, preset="paper", file_size=[BYTES]),
    "failed": lambda folder: stored(folder, failing),
    "empty": lambda folder: stored(folder, blocks=0),
    "read": lambda folder: stored(folder, experiment="mmap-read", filesystem=["dir", "tmpfs"]),
    "one size": lambda folder: stored(folder, size=[4096]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_words_collide_or_leave_the_page(case: str, tmp_path: Path) -> None:
    assert collisions(figures.draw(CASES[case](tmp_path))) == []


def several_times(at: At) -> float | None:
    """Seconds for 2 GiB: write(2) is the cheaper one at 100 B and at 4 KiB."""
    return 2.0 if at["method"] == "mmap" else 1.0 if at["size"] in (100, 4096) else 3.0


@pytest.mark.slow
def test_words_of_a_panel_stay_in_it(tmp_path: Path) -> None:
    """They were drawn over the panel beside it, and cut off at the edge of the page."""
    states = ["cached_4k", "sparse", "preallocated"]
    figure = figures.draw(stored(tmp_path, several_times, file_state=states))
    figure.draw(renderer := FigureCanvasAgg(figure).get_renderer())
    panels = {axes: axes.get_window_extent(renderer) for axes in figure.axes}
    labels = {axes: [t for t in axes.texts if "cheaper at" in t.get_text()] for axes in panels}
    assert [len(texts) for texts in labels.values()] == [1, 1, 1]
    for axes, (text,) in labels.items():
        shown = " ".join(text.get_text().split())
        assert shown == "mmap cheaper at 1 B, 1 KiB, 10 KiB; write at 100 B, 4 KiB"
        box, panel = Text.get_window_extent(text, renderer), panels[axes]
        assert panel.x0 <= box.x0 < box.x1 <= panel.x1


def test_a_number_and_its_unit_stand_in_one_line() -> None:
    lines = style.wrap("write at 8 KiB, at most (5 ms or 10 %)", 10, 1)
    assert lines == ["write", "at", "8 KiB,", "at", "most", "(5 ms", "or", "10 %)"]


def test_the_page_says_what_was_measured_where(run: Run, figure: Figure) -> None:
    text = written(figure)
    for said in (
        run.experiment.question,
        "ext4 at /var/tmp",
        "tmpfs at /dev/shm",
        "file_size 64 MiB",
        "Some CPU, 2 CPUs; Linux 6.1.0",
        "memlab 9.9, run ab12cd34 of 2026-01-02: ",
        "page, 4 KiB",
        "published (logstore-mmap)",
        ">300s",
    ):
        assert said in text


# The files


@pytest.mark.parametrize(
    ("word", "one", "two"),
    [
        ("holds", "1 more claim holds", "2 more claims hold"),
        (PARTLY, "1 more claim holds in part", "2 more claims hold in part"),
        (
            DIFFERS,
            f"1 more claim {DIFFERS}",
            f"2 more claims {DIFFERS.replace('depends', 'depend')}",
        ),
        ("contradicted", "1 more claim is contradicted", "2 more claims are contradicted"),
        ("not decided", "1 more claim is undecided", "2 more claims are undecided"),
        ("not in this run", "1 more claim is not in this run", "2 more claims are not in this run"),
    ],
)
def test_a_count_of_claims_is_a_sentence(word: str, one: str, two: str) -> None:
    assert [summary.counted(n, word, "more claim") for n in (1, 2)] == [one, two]


@pytest.mark.slow
def test_a_figure_counts_claims_as_the_text_does() -> None:
    """thp-cost's claims on free memory need a guest: the recorded run was not to measure them."""
    run = api.load("example:thp-cost")
    claims = summary.by_claim(judge(run))
    absent = sum(item.absent for item in claims)
    assert summary.sentence(claims)[0].endswith(f". {absent} others are not in this run.")
    shown = replace(run.experiment.figure, claims=[item.claim.id for item in claims])
    headline = verdicts.declared(run, shown)
    assert headline.endswith(f"{absent} more claims are not in this run")
    assert "undecided" not in headline


@pytest.mark.parametrize("word", ["no sample yet", "failed"])
def test_a_figure_says_as_the_text_does_why_nothing_is_decided(word: str) -> None:
    summaries = [SimpleNamespace(overall="not decided", standing=word)] * 2
    assert verdicts._of_claims(summaries) == summary.counted(2, word, "claim")
