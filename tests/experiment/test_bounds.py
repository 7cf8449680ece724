"""A level that no probe takes is refused before anything runs, and the refusal says the bounds."""

from contextlib import suppress
from pathlib import Path

import pytest

from memlab import experiments
from memlab.errors import BadLevels
from memlab.experiment import BYTES, COUNT, Experiment, Factor
from memlab.experiment.levels import check_levels, read_levels
from memlab.run import plan
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus

NUMBERS = {
    name: [
        factor.name for factor in experiments.load(name).factors if factor.kind in (BYTES, COUNT)
    ]
    for name in experiments.names()
    if not experiments.load(name).host.virtual_machine
}


def grid(declared: Experiment, factor: str, text: str) -> plan.Plan:
    short = {"slice": [0.01]} if "slice" in declared.tiny else {}  # a trial without operations
    levels = {**declared.tiny, **short, **read_levels(declared, [f"{factor}={text}"])}
    return plan.build(declared, "quick", levels, controls=False)


@pytest.mark.parametrize("name", [name for name, factors in NUMBERS.items() if factors])
def test_zero_is_measured_or_refused_by_the_plan(name: str, tmp_path: Path) -> None:
    declared, points = experiments.load(name), []
    for factor in NUMBERS[name]:
        with suppress(BadLevels):
            points.append(grid(declared, factor, "0").points[0])
    with LocalExecutor(
        "a123abcd", declared, Directories(tmp_path), default_cpus(declared)
    ) as bench:
        for point in points:
            reply = bench.trial(point)
            assert reply["outcome"] in ("ok", "unavailable"), (point.at, reply["detail"])


def bounded(**how: float) -> Factor:
    return Factor("size", BYTES, help="of it", quick=[4096], **how)


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (bounded(), ""),
        (bounded(least=1), "1 B or more"),
        (bounded(least=4096, most=2**20), "4 KiB to 1 MiB"),
    ],
)
def test_bounds_in_words(factor: Factor, said: str) -> None:
    assert factor.bounds == said
    assert factor.within(4096)
    assert factor.within("found")
    assert factor.within(0) is (not factor.least)
    assert factor.within(2**30) is (factor.most > 2**30)


def test_the_refusal_says_the_bounds() -> None:
    declared = experiments.load("memcpy")
    for text, said in (("0", "0"), ("2,65", "65")):
        with pytest.raises(BadLevels) as refused:
            read_levels(declared, [f"threads={text}"])
        assert str(refused.value) == f"threads: {said} is out of bounds, 1 to 64"
    with pytest.raises(BadLevels, match=r"size: 0 B is out of bounds, 1 B or more"):
        check_levels(declared, {"size": 0})
