"""A run as BibTeX: the run itself, the memlab that measured it, and the studies that it tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from memlab import published
from memlab.present import words
from memlab.results import Run

_SPECIAL = re.compile(r"[&%$#_{}]")


def text(run: Run) -> str:
    """Entries for BibTeX and biber: `memlab-RUN`, `memlab` and one per study, by its id. Who
    measured is not known to a run: its entry has no author."""
    return "\n\n".join(_entries(run))


def _entries(run: Run) -> Iterator[str]:
    made = datetime.fromisoformat(run.row.created_at)
    points = len(run.points)
    yield _entry(
        "misc",
        f"memlab-{run.id}",
        {
            "title": f"{run.experiment.name} on {words.machine(run)}",
            "year": str(made.year),
            "month": str(made.month),
            "note": f"run {run.id} of memlab {run.row.memlab}: {len(run.samples):,} samples at "
            f"{points} point{'s' if points > 1 else ''}, seed {run.row.seed}",
        },
    )
    yield _entry(
        "misc",
        "memlab",
        {
            "title": "memlab: a laboratory for how Linux memory behaves",
            "author": "the memlab authors",
            "note": f"version {run.row.memlab}, MIT license",
        },
    )
    for source in map(published.load, run.experiment.sources):
        known = {
            "title": source.title,
            "author": source.authors,
            "year": str(source.year or ""),
            "note": ". ".join(filter(None, (source.appeared, f"In {source.language}"))),
        }
        yield _entry("misc", source.id, known)


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    # Two pairs of braces keep a title's capitals, and an author's name in one piece.
    known = {
        name: f"{{{_escaped(value)}}}" if name in ("title", "author") else _escaped(value)
        for name, value in fields.items()
        if value
    }
    lines = [f"  {name} = {{{value}}}," for name, value in known.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def _escaped(value: str) -> str:
    """As LaTeX reads it."""
    plain = value.replace("\\", "/").replace("~", "-").replace("^", "")
    return " ".join(_SPECIAL.sub(lambda found: f"\\{found[0]}", plain).split())
