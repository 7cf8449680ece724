"""An executor that measures nothing: the driver's rules, tested without a machine or a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from synthetic import experiment

from memlab.experiment import Experiment
from memlab.experiment.points import Point
from memlab.request import Request
from memlab.run.admission import Directories
from memlab.run.plan import build
from memlab.run.prepare import Prepared
from memlab.run.watch import Progress
from memlab.store import RunRow

Answer = Callable[[Point, int], dict[str, Any]]


class FakeExecutor:
    """Stands in for LocalExecutor. `answer` takes the point and how often it was asked before."""

    TRIAL_S = 1.0

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[int] = []
        self.references_s: list[float] = []  # what each trial was told
        self.opened: list[int] = []  # trials asked before each session
        self.renewed: list[tuple[int, list[int]]] = []  # trials asked before, and the points
        self.relays: list[tuple[list[int], int]] = []  # the points that took turns, and the seed
        self.turn_counts: list[int] = []  # of each relay
        self.clock_s = 100.0
        self.slept: list[float] = []
        self.layouts: bool | None = None  # whether blocks are to take turns with them

    def __call__(self, _: str, experiment: Experiment, *__: object, **___: object) -> FakeExecutor:
        self.layouts = experiment.layouts
        return self

    def __enter__(self) -> FakeExecutor:
        self.opened.append(len(self.asked))
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def renew(self, points: Sequence[Point], block: int) -> None:
        self.renewed.append((len(self.asked), [point.index for point in points]))

    def turns(self, points: Sequence[Point], seed: int, turn_count: int) -> list[dict[str, Any]]:
        self.turn_counts.append(turn_count)
        self.relays.append(([point.index for point in points], seed))
        return [self.trial(point) for point in points]

    def trial(self, point: Point, reference_s: float = 0.0) -> dict[str, Any]:
        self.references_s.append(reference_s)
        self.clock_s += self.TRIAL_S
        before = self.asked.count(point.index)
        self.asked.append(point.index)
        return self.answer(point, before)

    def monotonic(self) -> float:
        return self.clock_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock_s += seconds

    def time(self) -> float:
        return 1.7e9 + self.clock_s


class Heard:
    """A watch that remembers."""

    def __init__(self) -> None:
        self.run: RunRow | None = None
        self.taken: int | None = None
        self.progress: list[Progress] = []
        self.reason: str | None = None
        self.warnings: list[str] = []

    def warned(self, line: str) -> None:
        self.warnings.append(line)

    def started(self, run: RunRow, points: Sequence[Point], taken: int) -> None:
        self.run, self.taken = run, taken

    def sampled(self, progress: Progress) -> None:
        self.progress.append(progress)

    def ended(self, reason: str) -> None:
        self.reason = reason


def prepared(request: Request) -> Prepared:
    plan = build(experiment(), request.preset, request.levels, controls=request.controls)
    asked = replace(experiment(), layouts=request.layouts)
    return Prepared(asked, plan, Directories(Path("/")), request)
