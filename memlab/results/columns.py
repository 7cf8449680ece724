"""Numbers derived from many samples at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from memlab.experiment import At, Expression
from memlab.experiment.fields import Fields, FloatArray, Unreadable

_LARGEST = 1e100  # and 1e-100 the least: what is made of two such numbers is finite


def evaluate(expression: Expression | Callable[[Any, At], Any], fields: Fields) -> FloatArray:
    """An expression's value of each sample, shape (samples,), nan for none; of a function, which
    only a declaration outside memlab has, sample by sample. Unreadable where a sample does not hold
    what is read, or no number that could be measured."""
    if isinstance(expression, Expression):
        result = fields.numbers(expression.evaluate(fields)) + 0.0  # no -0
    else:
        result, number = np.empty(len(fields)), 0
        try:
            for number, (raw, at) in enumerate(zip(fields.readings, fields.at, strict=True)):
                value = expression(raw, at)
                result[number] = np.nan if value is None else float(value + 0)
        except MemoryError:
            raise
        except Exception as error:
            raise Unreadable(number, error) from error
    size = np.abs(result)
    with np.errstate(invalid="ignore"):
        wrong = (size != 0) & ~((size > 1 / _LARGEST) & (size < _LARGEST)) & ~np.isnan(result)
    if wrong.any():
        number = int(wrong.argmax())
        text = (
            f"{result[number]:g} is not a measurement" if not math.isnan(result[number]) else "nan"
        )
        raise Unreadable(number, OverflowError(text))
    return result


def measurement(value: Any) -> Any:
    """A number as a sample holds it, not nan. TypeError, or OverflowError as above."""
    if not isinstance(value, Real):
        raise TypeError(f"{value!r:.60} is not a number")
    if value and not 1 / _LARGEST < abs(float(value)) < _LARGEST:
        raise OverflowError(f"{value!r:.60} is not a measurement")
    return value


def measurements(values: Sequence[Any]) -> list[Any]:
    """The same of several."""
    return [*map(measurement, values)]
