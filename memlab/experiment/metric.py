"""A metric: a number derived from a sample when it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memlab.errors import CannotRun, MemlabError
from memlab.experiment.expressions import Expression
from memlab.experiment.kinds import At, Raw

Reads = Expression | Callable[[Raw, At], float | None]  # a function is asked sample by sample


@dataclass(frozen=True, slots=True)
class Metric:
    """A number derived from a sample when it is read. Base units: s, B, 1/s, or a count.

    `help` begins with what an axis says of it; what else there is to say follows a semicolon.
    """

    name: str
    unit: str
    help: str
    of: Reads
    lower_is_better: bool = True
    baseline_loop: Reads | None = None  # the same loop without the operation
    extrapolated: Reads | None = None  # is this value more than was measured?
    evidence: Callable[[Raw, At], str] | None = None  # the lines of /proc that it was read from
    # What a cost by the model (CostTerms) is in this metric; a level of the point may lie between
    # those measured.
    of_cost: Callable[[float, At], float] | None = None
    needs: str = ""  # the capability that counts it, by the name that `doctor` gives it
    # Why no machine of this environment has the metric; "" where that is not known.
    lacks: Callable[[Mapping[str, Any]], str] = lambda _: ""

    def value(self, raw: Raw, at: At) -> float | None:
        """Of a sample that has just come. CannotRun with whatever reading it raised: the sample
        is not as this memlab's probe returns it, or the metric is at fault."""
        try:
            result = self.of(raw, at)
            return None if result is None else float(result)
        except (MemlabError, MemoryError):
            raise
        except Exception as error:
            raise CannotRun(
                f"{self.name} cannot be read from what the probe returned "
                f"({type(error).__name__}: {error})"
            ) from error

    @property
    def label(self) -> str:
        """On an axis."""
        return self.help.partition(";")[0]
