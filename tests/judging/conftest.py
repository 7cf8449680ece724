"""A store with made-up runs, and the declaration that they belong to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pretend
import pytest

from memlab import experiments
from memlab.experiment import Experiment
from memlab.results import Run
from memlab.store import Store


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Call with an experiment and a world: the run as if it had been measured there."""
    known: dict[str, Experiment] = {}
    load = experiments.load

    def found(name: str, subject: Any = None) -> Experiment:
        return known.get(name) or load(name, subject)

    monkeypatch.setattr(experiments, "load", found)

    def measure(declared: Experiment, world: pretend.World, **how: Any) -> Run:
        known[declared.name] = declared
        with Store(tmp_path / "results.db", create=True) as store:
            run = pretend.add(store, declared, world, **how)
            return Run(store.find(run), store.path)

    return measure
