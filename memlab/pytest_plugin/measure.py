"""A sweep asked for by a test, and what can keep it from being measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from memlab import api, units
from memlab.experiments import UnknownExperiment
from memlab.pytest_plugin.run import Run
from memlab.pytest_plugin.settings import fail
from memlab.run.admission import Refused
from memlab.run.alone import Busy
from memlab.run.plan import BadLevels
from memlab.run.request import BadRequest, CannotRun, Interrupted
from memlab.run.warm import NotBuilt, WorkerLost
from memlab.store import StoreError

if TYPE_CHECKING:
    from memlab.pytest_plugin.lab import Memlab

_NOT_HERE = (Busy, CannotRun, Refused)
_WRONG = (BadLevels, BadRequest, NotBuilt, StoreError, UnknownExperiment, WorkerLost)


def sweep(
    lab: Memlab, experiment: str, budget: float | str | None, wanted: dict[str, Any], number: int
) -> Run:
    __tracebackhide__ = True
    settings = lab.settings
    if settings.budget_s is not None:
        budget = settings.budget_s
    try:
        budget_s = units.parse_duration(budget) if isinstance(budget, str) else budget
    except ValueError as error:
        fail(f"budget: {error}")
    try:
        measured = api.sweep(
            experiment, budget=budget_s, store=settings.store, name=lab.test, **wanted
        )
    except Interrupted as error:
        raise KeyboardInterrupt(str(error)) from None  # ends the session, as Ctrl-C does
    except _NOT_HERE as error:
        _not_measured(lab, str(error))
    except _WRONG as error:
        fail(str(error.args[0]))
    return Run(measured, lab, number)


def _not_measured(lab: Memlab, reason: str) -> NoReturn:
    __tracebackhide__ = True
    lab.account.not_measured(reason)
    if lab.settings.inconclusive == "fail":
        fail(reason)
    pytest.skip(reason)
