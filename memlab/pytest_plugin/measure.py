"""A sweep asked for by a test, and what can keep it from being measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from memlab import api
from memlab.errors import Busy, CannotRun, Interrupted, MemlabError
from memlab.pytest_plugin.context import Context
from memlab.pytest_plugin.run import AssertableRun
from memlab.pytest_plugin.settings import fail

_ASKED_EVERY_S = 0.25


def measured(
    context: Context,
    measure: Callable[..., api.Run],
    budget: float | str | None,
    wanted: dict[str, Any],
    number: int,
) -> AssertableRun:
    """What `measure`, of the Python API, returns for `wanted`."""
    __tracebackhide__ = True
    settings = context.settings
    if settings.budget_s is not None:
        budget = settings.budget_s
    until = time.monotonic() + settings.wait_s
    while True:
        try:
            run = measure(budget=budget, store=settings.store, name=context.test, **wanted)
            return AssertableRun(run, context, number)
        except Busy as error:  # before anything is made
            if time.monotonic() >= until:
                _not_measured(context, str(Busy(error.who, "--memlab-wait")))
            time.sleep(_ASKED_EVERY_S)
        except Interrupted as error:
            raise KeyboardInterrupt(str(error)) from None  # ends the session, as Ctrl-C does
        except CannotRun as error:
            _not_measured(context, str(error))
        except MemlabError as error:
            fail(str(error))


def _not_measured(context: Context, reason: str) -> NoReturn:
    __tracebackhide__ = True
    context.account.not_measured(reason)
    if context.settings.inconclusive == "fail":
        fail(reason)
    pytest.skip(reason)
