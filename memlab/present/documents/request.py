"""What was asked for, and of which machine, as a run stores it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from memlab import request
from memlab.experiment.kinds import Level
from memlab.experiment.tried import Tried
from memlab.present.documents import Document, NonEmpty, Number, Positive


class RequestedGuest(Document):
    """The virtual machine that the trials ran in."""

    kernel: str
    """Its vmlinuz."""
    memory_bytes: Positive
    cpus: Positive
    """How many."""
    append: str
    """Added to its kernel's command line; may be empty."""
    directory: str | None
    """The host's folder that holds its disk as a file."""
    iommu: bool | UnsetType = UNSET
    """Whether it has an emulated IOMMU and a device behind it that VFIO holds."""


class BootedGuest(RequestedGuest, kw_only=True):
    """The virtual machine that it was."""

    accelerator: Literal["kvm", "tcg"]
    """tcg emulates the processor."""


_STORED: Mapping[str, Any] = {  # by kind of option
    "choice": str,
    "count": int,
    "cpus": list[Number],
    "flag": bool,
    "path": str,
    "seconds": float,
    "share": float,
    "text": str,
}


def _option(option: request.Option) -> tuple[Any, ...]:
    """An option as a field of a stored request; one that older runs lack may be absent."""
    bounds = {"gt": option.above, "ge": option.least, "le": option.most}
    finite: Any = {name: bound for name, bound in bounds.items() if math.isfinite(bound)}
    kind = Literal[option.choices] if option.choices else _STORED[option.kind.name]
    kind = Annotated[kind, Meta(**finite)] if finite else kind
    kind = kind | None if option.default is None else kind
    message = option.stored if option.always else f"{option.stored} Absent from older runs."
    kind = Annotated[kind, Meta(description=message)] if message else kind
    return (option.field, kind) if option.always else (option.field, kind | UnsetType, UNSET)


def _described(kind: Any, text: str) -> Any:
    return Annotated[kind, Meta(description=text)]


if TYPE_CHECKING:
    Request = request.Request
else:
    _OTHERS = {
        "experiment": (str,),
        "levels": (_described(dict[str, NonEmpty[Level]], "Of the factors that were given."),),
        "scaled": (
            _described(dict[str, str], "What was made smaller to fit the host, by factor."),
        ),
        "guest": (
            _described(RequestedGuest | None, "null: the host itself. Absent from older runs.")
            | UnsetType,
            UNSET,
        ),
        "subject": (
            _described(
                Tried | None,
                "The command of `memlab try`; null of any other run. Absent from older ones.",
            )
            | UnsetType,
            UNSET,
        ),
    }
    _ASKED = {option.field: _option(option) for option in request.OPTIONS}
    Request = msgspec.defstruct(
        "Request",
        [
            _ASKED.get(field.name) or (field.name, *_OTHERS[field.name])
            for field in dataclasses.fields(request.Request)
        ],
        bases=(Document,),
        namespace={"__doc__": "What was asked for, as it is stored."},
        module=__name__,
        kw_only=True,
    )


class Filesystem(Document):
    """What really lies under a level of the filesystem factor."""

    path: str
    type: str
    """As /proc/mounts has it."""
    readahead_kib: int | UnsetType = UNSET
    """read_ahead_kb of the block device. Older runs have none."""


class Cache(Document):
    """A cache of the first CPU."""

    level: int | None
    type: str | None
    size_bytes: int | None
    line_bytes: int | None
    shared_cpus: str | None


class NumaNode(Document):
    """A NUMA node."""

    node: int
    cpus: str | None
    memory_total_bytes: int | None
    distances: str | None


class Environment(msgspec.Struct):
    """What the run remembers of its machine, as it was then. Open: keys come with versions of
    memlab; null is what could not be read."""

    filesystems: dict[str, Filesystem] | UnsetType = UNSET
    """By level of the filesystem factor."""
    caches: list[Cache] | UnsetType | None = UNSET
    mitigations: dict[str, str | None] | UnsetType | None = UNSET
    emulated_time: bool | UnsetType = UNSET
    """Whether a guest's processor is emulated: its times are not those of any machine."""
    guest: BootedGuest | UnsetType = UNSET
    numa_nodes: list[NumaNode] | UnsetType | None = UNSET
