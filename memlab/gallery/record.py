"""What a gallery keeps of a run beside its samples, in a file of JSON: all that its pages say.

A file may come from anywhere. It is read as data, checked against these types, and its texts go
through the escaping of every page.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from memlab.judging.claims import judge
from memlab.present import tables, words
from memlab.present.machine import kernel_of
from memlab.present.report import provenance
from memlab.present.verdicts import verdicts
from memlab.results import Run

# Names make paths and links: nothing in them leads elsewhere.
Name = Annotated[str, Meta(pattern="^[0-9A-Za-z][0-9A-Za-z._@-]{0,99}$")]
Count = Annotated[int, Meta(ge=0)]
RunId = Annotated[str, Meta(pattern="^[0-9a-f]{8}$")]
Word = Literal["reproduced", "contradicted", "inconclusive", "not testable here"]


class Said(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A verdict on a claim at one setting; `number` is the estimate with its interval."""

    where: str
    word: Word
    number: str
    evidence: str
    samples: Count


class Claimed(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A claim; `overall` is the one word of all its verdicts, where they agree."""

    id: Name
    text: str
    published: str
    overall: str
    verdicts: list[Said]


class MeasuredPoint(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A point's median of the experiment's first metric, in words and as numbers."""

    point: str
    median: str
    estimate: float
    low: float | None
    high: float | None
    n: Count


class Record(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A run. `sha256` is of the file of its samples, which lies beside."""

    format: Literal[1]
    run: RunId
    experiment: Name
    host: Name
    created_at: str
    memlab: str
    question: str
    machine: str
    environment: dict[str, Any]
    request: dict[str, Any]
    again: str
    redacted: bool
    samples: Count
    blocks: Count
    metric: str
    points: list[MeasuredPoint]
    claims: list[Claimed]
    sha256: str

    @property
    def kernel(self) -> str:
        return kernel_of(self.environment)

    @property
    def file(self) -> str:
        """Where it lies in the gallery."""
        return f"runs/{self._place}.json"

    @property
    def samples_file(self) -> str:
        """Where its samples lie: partitions as pyarrow and DuckDB read them."""
        return f"data/{self._place}.parquet"

    @property
    def _place(self) -> str:
        return f"experiment={self.experiment}/host={self.host}/{self.run}"


def of(run: Run, host: str, sha256: str, *, redacted: bool) -> Record:
    """A run's record. ValueError where a name of its experiment or host is none for a gallery."""
    metric = run.experiment.metrics[0]
    unit = words.cell_unit(metric.unit)
    made = Record(
        format=1,
        run=run.id,
        experiment=run.experiment.name,
        host=host,
        created_at=run.row.created_at,
        memlab=run.row.memlab,
        question=run.experiment.question,
        machine=words.machine(run),
        environment=dict(run.environment),
        request=dict(run.row.request),
        again=provenance.again(run),
        redacted=redacted,
        samples=len(run.samples),
        blocks=run.blocks,
        metric=words.metric_label(metric),
        points=[
            MeasuredPoint(
                words.labels(run.experiment, one.point.at, run.varied) or "the only point",
                tables.median(one, metric, unit),
                found.estimate,
                found.low,
                found.high,
                found.n,
            )
            for one in run.summaries
            if one.point.control is None and (found := one.medians.get(metric.name))
        ],
        claims=_claims(run),
        sha256=sha256,
    )
    return read(msgspec.json.encode(made))


def _claims(run: Run) -> list[Claimed]:
    return [
        Claimed(
            one.id,
            one.text,
            one.published,
            one.overall,
            [
                Said(v.where, cast(Word, v.word), v.number, v.evidence, v.samples)
                for v in one.verdicts
            ],
        )
        for one in verdicts(run, judge(run))
    ]


def read(content: bytes) -> Record:
    """A record out of its file; ValueError with what is wrong in it."""
    return msgspec.json.decode(content, type=Record)
