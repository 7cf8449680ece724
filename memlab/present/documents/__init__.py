"""What `--json` prints, as types. Each command's JSON Schema is generated from its type.

A field's docstring is its description in the schema. Values are in base units: seconds, bytes,
events per second, shares of 1. A document is made of the objects that have what it prints: a field
is an attribute of theirs, `field(name=...)` is its key if that has another name, and `made_of` adds
what is more than an attribute. Here is what all documents share; what presents stored runs has a
module per answer, and a feature's documents lie in its folder. Only what prints or returns a
document, or its schema, imports these modules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

import msgspec
from msgspec import UNSET, Meta

from memlab.text.printable import json_text
from memlab.text.units import finite

if TYPE_CHECKING:
    from memlab.analysis.crossover import CrossingPoint
    from memlab.analysis.verdicts import Verdict

T = TypeVar("T")
Number = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
NonEmpty = Annotated[list[T], Meta(min_length=1)]
RunId = Annotated[str, Meta(pattern="^[0-9a-f]{8}$")]
DateTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
# A Level of memlab.experiment, whose import takes as long as a look.
Levels = Annotated[
    Mapping[str, int | float | bool | str], Meta(description="The level of each factor, by name.")
]
Ended = (
    Literal[
        "blocks",
        "precise",
        "decided",
        "unmeasured",
        "nothing to compare",
        "budget",
        "interrupted",
        "failed",
    ]
    | None
)
Word = Literal["reproduced", "contradicted", "inconclusive", "not testable here"]


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """An object whose keys are fixed."""

    @classmethod
    def from_attributes(cls, *objects: object, **given: Any) -> Self:
        """Each field is what is `given`, as it is, else the attribute of the first of the objects
        that has it, converted and checked: TypeError where none has it, msgspec.ValidationError
        where it does not fit."""
        for item in (known for known in _fields(cls) if known.name not in given):
            for source in objects:
                if (result := getattr(source, item.name, UNSET)) is not UNSET:
                    given[item.name] = converted(result, item.type)
                    break
        return cls(**given)


_fields = cache(msgspec.structs.fields)


def converted(source: Any, kind: Any) -> Any:
    """An object, or a container of some, as a document that is nothing but their attributes."""
    return msgspec.convert(source, kind, from_attributes=True)


def open_ends(estimate: CrossingPoint | Verdict) -> dict[str, float | None]:
    """The ends and the estimate; null where one is infinite or unknown."""
    return {name: finite(getattr(estimate, name)) for name in ("low", "estimate", "high")}


class ShownInterval(Document):
    """A median, or the median of ratios, with its 95 % interval. A median of a run of several
    sessions or recordings is that of their medians, and the next one's lies in the interval."""

    low: float | None
    """null below 6 samples, which have no such interval."""
    estimate: float
    high: float | None
    """null as low."""
    n: Positive
    """Samples; of a run of several sessions or recordings, how many these are."""


def plain(document: Any) -> Any:
    """A document as dicts and lists, by its keys."""
    return msgspec.to_builtins(document)


def text(document: Any) -> str:
    """A document as JSON text. ValueError where a number is nan or infinite, which JSON lacks."""
    return json_text(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))
