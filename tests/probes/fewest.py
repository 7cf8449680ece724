"""An exact count that the rest of the machine can only add to: the least of some tries is exact."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TRIES = 5


def fewest(call: Callable[[], T], count: Callable[[T], int | None], expected: int) -> T:
    """The first result of `call` with the expected count, or with None, where the kernel does not
    count. Fewer, or more in every try, fail."""
    met = []
    for _ in range(TRIES):
        result = call()
        met.append(count(result))
        if met[-1] in (None, expected):
            return result
        assert met[-1] > expected, met
    raise AssertionError(f"{met}, not {expected}")
