"""Two modes of a point, as `memlab show` says them: from the driver to the line and to --json."""

from pathlib import Path

import numpy as np
from known_truth import KNOWN, KnownProbe, known

from memlab.present import modes
from memlab.present.documents.run import Show
from memlab.request import Request
from memlab.results import Run
from memlab.run import driver
from memlab.run.admission import Directories
from memlab.run.plan import build
from memlab.run.prepare import Prepared
from memlab.run.watch import Silent
from memlab.store import Store


def swept(folder: Path, noise: str) -> Run:
    probe = KnownProbe(noise, np.random.default_rng(3), drifts=False)
    request = Request("known", seed=3, blocks=30)
    prepared = Prepared(KNOWN, build(KNOWN, "quick", {}), Directories(Path("/")), request)
    with known(probe):
        with Store(folder / "results.db", create=True) as store:
            row = driver.sweep(prepared, store, Silent(), probe)
        return Run(row, folder / "results.db")


def test_a_point_of_two_modes_says_both(tmp_path: Path) -> None:
    run = swept(tmp_path, "bimodal 50/50")
    found = list(modes.lines(run))
    assert len(found) == 8
    assert found[0].startswith("two modes at size=1 method=a: ")
    assert " % at " in found[0]
    first = Show.made_of(run).points[0].modes
    assert first is not None
    assert f"{100 * first.low_share:.0f} % at " in found[0]
    assert first.low < first.high
    assert first.high_met is None


def test_a_point_of_one_mode_says_nothing(tmp_path: Path) -> None:
    run = swept(tmp_path, "lognormal")
    assert list(modes.lines(run)) == []
    assert {point.modes for point in Show.made_of(run).points} == {None}
