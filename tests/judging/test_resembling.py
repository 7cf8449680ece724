"""Blocks that resemble the block before: what `show` and evidence say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up import Machine

from memlab.analysis.correlation import SamplingScheme
from memlab.analysis.intervals import median_interval
from memlab.cli import cli
from memlab.experiment import At
from memlab.judging import evidence

STATE = 8  # blocks


class Moody(Machine):
    """A machine that is slower by a fifth for some blocks, then not, then again."""

    def _raw(self, at: At, block: int) -> dict[str, Any]:
        raw = super()._raw(at, block)
        if block // STATE % 2:
            raw["window"]["elapsed_ns"] = round(1.2 * raw["window"]["elapsed_ns"])
        return raw


@pytest.mark.parametrize(("machine", "is_wider"), [(Machine, False), (Moody, True)])
def test_show_says_how_blocks_resemble_the_one_before(
    store_path: Path, machine: type[Machine], is_wider: bool
) -> None:
    """A state of the machine is in the values of all points, and cancels in their ratios."""
    measured = machine(store_path)
    measured.blocks = 5 * STATE
    run = measured.sweep("mmap-write", size=[64, 4096], controls=False)
    point = run.points[0]
    values = run.values("time_2gib", point)
    plain = median_interval(values, sequential=run.sequential).halfwidth_relative
    shown = run.interval(values, "time_2gib").halfwidth_relative
    assert plain
    assert shown
    assert (shown > plain) == is_wider
    assert run.sampling("time_2gib")["correlation"] == 0
    args = ["--store", str(store_path), "show", run.id, "-o", str(store_path.parent / "figures")]
    said = CliRunner().invoke(cli, args, env={"COLUMNS": "200"}).output
    (line,) = [line for line in said.splitlines() if line.startswith("from block to block: ")]
    assert ("; intervals of medians are wider by it" in line) == is_wider


@pytest.mark.parametrize("sequential", [False, True])
def test_evidence_says_why_enough_blocks_are_not_enough(sequential: bool) -> None:
    sampling: SamplingScheme = {"sequential": sequential, "correlation": 0.9}
    values = [float(n) for n in range(1, 200)]
    few = median_interval(values[:7], **sampling)
    said = evidence.resembling(few, sampling, "block")
    assert said.startswith("; each block resembles the one before, and an interval needs ")
    least = int(said.split()[-2])
    assert median_interval(values[:least], **sampling).low is not None
    assert median_interval(values[: least - 1], **sampling).low is None
    assert evidence.resembling(median_interval(values[:5], **sampling), sampling, "block") == ""
    assert evidence.resembling(median_interval(values, **sampling), sampling, "block") == ""
