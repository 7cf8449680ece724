"""The numbers of the pages by subject are those of the recorded runs, as they are judged now."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlab import api
from memlab.present import words
from memlab.present.figures import frame, sidecar

DOCS = Path(__file__).parents[1] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("lock", "words_of"), [("off", "not locked"), ("mlock", "mlock")])
def test_the_latencies_of_locking(lock: str, words_of: str) -> None:
    run = api.load("example:locked-latency")
    cells = [
        words.median(summary.medians["p99"], "s")
        for swap in ("file", "zram")
        for summary in run.summaries
        if summary.point.control is None
        if (summary.point.at["lock"], summary.point.at["swap"]) == (lock, swap)
    ]
    assert f"| {words_of} | {cells[0]} | {cells[1]} |" in page("locking.md")


def test_the_ratios_of_thread_creation() -> None:
    run = api.load("example:thread-create")
    at = {
        (point.at["processes"], point.at["lock"]): point
        for point in frame.grid(run)
        if point.at["live_threads"] == 5
    }
    pairs = [(at[n, "future"], at[n, "off"]) for n in (1, 2, 4, 8, 16)]
    found = [frame.ratio_cells(run, "threads_per_s", of, to) for of, to in pairs]
    said = ", ".join(f"{cells['median']:.3f}" for cells in found if cells)
    assert f"no: {said} at 5 live threads" in page("locking.md")


def test_the_crossings_of_eviction() -> None:
    found = sidecar.as_data(api.load("example:coop-reclaim"))["crossings"]
    said = [row["words"].removeprefix("kernel cheaper ").replace(" µs)", ")") for row in found]
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    for row, text in zip(found, said, strict=True):
        place, interval = text.removesuffix(")").split(" (")  # "from 315 µs", "216 to 434"
        assert place in page("cgroups.md")
        assert f"({interval})" in page("cgroups.md")
        if row["panel"]["skew"] == "uniform":
            assert place.removeprefix("from ") in readme
            assert f"({interval})" in readme
