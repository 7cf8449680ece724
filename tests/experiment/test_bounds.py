"""A level that no probe takes is refused before anything runs, and the refusal says the bounds."""

from pathlib import Path

import pytest

from memlab import experiments
from memlab.experiment import BYTES, COUNT, Experiment, Factor
from memlab.run import plan
from memlab.run.admission import Places
from memlab.run.bench import Bench, default_cpus

NUMBERS = [
    (name, factor.name)
    for name in experiments.names()
    for factor in experiments.load(name).factors
    if factor.kind in (BYTES, COUNT) and not experiments.load(name).virtual_machine
]


def grid(declared: Experiment, factor: str, text: str) -> plan.Plan:
    levels = {**declared.tiny, **plan.read_levels(declared, [f"{factor}={text}"])}
    return plan.build(declared, "quick", levels, controls=False)


@pytest.mark.parametrize(("name", "factor"), NUMBERS)
def test_zero_is_measured_or_refused_by_the_plan(name: str, factor: str, tmp_path: Path) -> None:
    declared = experiments.load(name)
    try:
        point = grid(declared, factor, "0").points[0]
    except plan.BadLevels:
        return
    with Bench("a123abcd", declared, Places(tmp_path), default_cpus(declared)) as bench:
        reply = bench.trial(point)
    assert reply["outcome"] in ("ok", "unavailable"), reply["detail"]


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
        with pytest.raises(plan.BadLevels) as refused:
            plan.read_levels(declared, [f"threads={text}"])
        assert str(refused.value) == f"threads: {said} is out of bounds, 1 to 64"
    with pytest.raises(plan.BadLevels, match=r"size: 0 B is out of bounds, 1 B or more"):
        plan.check_levels(declared, {"size": 0})


@pytest.mark.parametrize("name", experiments.names())
def test_declared_levels_lie_within_their_bounds(name: str) -> None:
    declared = experiments.load(name)
    for factor in declared.factors:
        for preset in ("quick", "paper", "full"):
            assert all(map(factor.within, factor.levels(preset)))
        assert all(map(factor.within, declared.tiny.get(factor.name, ())))
        for control in declared.controls:
            assert all(map(factor.within, control.levels.get(factor.name, ())))
