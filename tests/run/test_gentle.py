"""--gentle: what is left out, refused and how long is slept, without a machine."""

import os
from dataclasses import replace
from typing import Any

import pytest
from synthetic import experiment

from memlab import experiments
from memlab.errors import BadLevels, Refused
from memlab.experiment import Experiment
from memlab.observe import available
from memlab.request import Request
from memlab.run import gentle, plan
from memlab.run.admission import Directories, admit
from memlab.run.executor import default_directory


@pytest.mark.parametrize(
    ("cpus", "share", "times"), [([1], 0.25, 4), ([0, 1, 2], 0.25, 12), ([1], 1.0, 1)]
)
def test_a_point_takes_as_much_longer_as_its_cpus_are_to_be_spared(
    cpus: list[int], share: float, times: float
) -> None:
    asked = Request("synthetic", cpus=cpus, gentle=share)
    assert gentle.stretch(experiment(), asked, {}) == times
    assert gentle.stretch(experiment(), replace(asked, gentle=None), {}) == 1


def test_a_point_that_says_how_many_cpus_it_takes_is_counted_so() -> None:
    declared = experiments.load("memcpy")
    asked = Request("memcpy", gentle=0.5)
    assert gentle.stretch(declared, asked, {"threads": 3}) == 6


def left_out(declared: Experiment, preset: str = "quick", **levels: Any) -> set[str]:
    try:
        return set(plan.build(gentle.spared(declared), preset, levels, controls=False).excluded)
    except BadLevels as none:
        return set(str(none).removeprefix("no point is left: ").split("; "))


def test_what_others_would_meet_is_left_out() -> None:
    overcommit = left_out(experiments.load("mmap-overcommit"))
    assert "--gentle changes no setting of the host" in overcommit
    assert "--gentle makes no swap, which others' memory could go to" in left_out(
        experiments.load("coop-reclaim")
    )
    cost = replace(experiment().cost, time=lambda _: 1.5)
    assert left_out(replace(experiment(), cost=cost)) == {"--gentle takes no trial of over 1 s"}
    assert left_out(experiments.load("mmap-write")) == left_out(experiment()) == set()


def test_sizes_keep_within_a_share_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preset's size is made smaller; one that was asked for is refused with the numbers."""
    monkeypatch.setattr(available, "memory", lambda: available.AvailableMemory(32 << 30, None))
    monkeypatch.setattr(available, "disk", lambda _: 1 << 40)
    declared, places = experiments.load("page-fault"), Directories(default_directory())
    assert declared.shrinks
    _, scaled = admit(declared, "paper", {}, places, controls=False, short=gentle.shortage)
    assert set(scaled) == {declared.shrinks}
    asked = {declared.shrinks: declared.factor(declared.shrinks).levels("paper")}
    with pytest.raises(Refused, match=r"--gentle takes 5 % of the 32 GiB free"):
        admit(declared, "paper", asked, places, controls=False, short=gentle.shortage)


@pytest.mark.needs("root's capabilities")
def test_priority_is_the_lowest_meanwhile() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with gentle.priority(Request("synthetic")):
        assert os.getpriority(os.PRIO_PROCESS, 0) == before
    if os.geteuid() == 0:  # another user's process could not go back
        with gentle.priority(Request("synthetic", gentle=0.25)):
            assert os.getpriority(os.PRIO_PROCESS, 0) == 19
        assert os.getpriority(os.PRIO_PROCESS, 0) == before
