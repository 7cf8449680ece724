"""Where a run's numbers come from: the run, the C file, and the command that measures it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from memlab.experiment import Experiment, Level
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


def again(run: Run) -> str:
    """The sweep that measures the same points in the same order."""
    return shlex.join(["memlab", "sweep", run.row.experiment, *_options(run)])


def _options(run: Run) -> Iterator[str]:
    wanted = run.row.request
    for name, levels in wanted.get("levels", {}).items():
        yield from ("-p", f"{name}={','.join(_level(run.experiment, name, v) for v in levels)}")
    yield from ("--preset", wanted.get("preset", "quick"))
    if not wanted.get("controls", True):
        yield "--no-controls"
    yield from ("--blocks", str(max(1, run.blocks)))
    if wanted.get("budget_s"):
        yield from ("--budget", _level(run.experiment, "", float(wanted["budget_s"])))
    yield from ("--design", ",".join(_design(run)))
    directory = wanted.get("directory")
    if guest := wanted.get("guest"):
        words = [f"kernel={guest['kernel']}", f"memory={guest['memory_bytes']}"]
        words += [f"cpus={guest['cpus']}", *(["iommu"] if guest.get("iommu") else [])]
        words += [f"append={guest['append']}"] if guest["append"] else []
        yield from ("--in", ",".join(["guest", *words]))
        directory = guest["directory"]
    if directory:
        yield from ("--dir", str(directory))


def _design(run: Run) -> Iterator[str]:
    wanted = run.row.request
    yield f"seed={run.row.seed}"
    if not wanted.get("layouts", True):
        yield "layouts=no"
    if run.turns:
        yield "turns"
    if wanted.get("cpus"):
        yield f"cpus={','.join(str(cpu) for cpu in wanted['cpus'])}"


def _level(experiment: Experiment, name: str, level: Level) -> str:
    """A level as `-p` reads it: `4KiB`, `yes`, `0.25s`; durations in all their digits."""
    if isinstance(level, float):
        return f"{level:.9f}".rstrip("0").rstrip(".") + "s"
    return experiment.describe_level(name, level).replace(" ", "")


def _span(ids: IntArray) -> str:
    return f"{ids.min()} to {ids.max()}" if len(ids) else "none"
