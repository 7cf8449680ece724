"""The experiments. One module declares one EXPERIMENT; the folder is the registry."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from memlab.experiment import Experiment


class UnknownExperiment(LookupError):
    """There is no experiment of that name; the message says which is nearest."""


def names() -> list[str]:
    """Every experiment's name, without importing any."""
    modules = Path(__file__).parent.glob("[!_]*.py")
    return sorted(path.stem.replace("_", "-") for path in modules)


def load(name: str) -> Experiment:
    """The declaration of one experiment."""
    if name not in names():
        near = get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names())}"
        raise UnknownExperiment(f"no experiment {name!r}; {hint}")
    module = import_module(f"memlab.experiments.{name.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
