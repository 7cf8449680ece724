"""Where a run's numbers come from: the run, the C file, and the command that measures it again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from memlab.present.measured_again import again
from memlab.results import Run
from memlab.results.samples import IntArray


@dataclass(frozen=True, slots=True)
class Provenance:
    """A run's origin, as pairs of a name and what stands there."""

    run: str
    rows: tuple[tuple[str, str], ...]


def source(run: Run) -> Provenance:
    """Everything needed to find a run's samples and to take them again."""
    hashes = run.samples.probe_hashes
    ids = run.samples.ids
    rows = (
        ("run", f"{run.id}, begun {run.row.created_at}, memlab {run.row.memlab}"),
        ("samples", f"{len(run.samples)} in {run.blocks} blocks, rows {_span(ids)} of the store"),
        ("store", str(run.store_path)),
        ("probe", f"{run.experiment.probe_file}, sha256 {', '.join(hashes) or 'none'}"),
        ("again", again(run)),
        *([("note", run.note)] if run.note else []),
        ("raw samples", f"memlab --store {shlex.quote(str(run.store_path))} export {run.id}"),
    )
    return Provenance(run.id, rows)


def _span(ids: IntArray) -> str:
    return f"{ids.min()} to {ids.max()}" if len(ids) else "none"
