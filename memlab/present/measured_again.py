"""The command line that measures the points of a run once more, of memlab's own or of a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memlab import recorded
from memlab.analysis.least import least_pairs
from memlab.experiment import Experiment, Level, tried
from memlab.store import default_path
from memlab.text.printable import printable

if TYPE_CHECKING:
    from memlab.results import Run

_TIMEOUT_S, _BOUND = 600.0, "elapsed: 5%"  # the defaults of try and fit


def again(run: Run) -> str:
    """In the same order, of as many blocks."""
    how = [f"--blocks {max(1, run.blocks)}"]
    if budget_s := run.row.request.get("budget_s"):
        how.append(_option("--budget", _level(run.experiment, "", float(budget_s))))
    return _line(run, [*how, _option("--design", ",".join(_design(run, seed=run.row.seed)))])


def with_blocks(run: Run, blocks: int = 0) -> str:
    """With so many blocks, or as many as decide one of its comparisons, into the same store; empty
    if it cannot be asked for so: a run that ships with memlab, one of another host, one of several
    sessions or recordings, and of words that a terminal does not show as they are."""
    if recorded.ships(run.store_path) or run.row.origin or run.clustered:
        return ""
    design = ",".join(_design(run))
    how = [
        f"--blocks {max(blocks, _enough(run))}",
        *([_option("--design", design)] if design else []),
    ]
    other = run.store_path != default_path()
    line = _line(run, how, _option("--store", str(run.store_path)) if other else "")
    return line if printable(line) == line else ""


def _enough(run: Run) -> int:
    """`try` takes no fewer that compare its levels."""
    is_command = isinstance(run.experiment, tried.CommandExperiment)
    return least_pairs(len(run.points) - 1 if is_command else 1)


def _line(run: Run, how: Sequence[str], store: str = "") -> str:
    experiment, memlab = run.experiment, " ".join(filter(None, ["memlab", store]))
    if not isinstance(experiment, tried.CommandExperiment):
        words = ["sweep", shlex.quote(run.row.experiment), *_levels(run), *how, *_place(run)]
        if directory := _directory(run):
            words.append(_option("--dir", directory))
        return " ".join([memlab, *words])
    subject = experiment.subject
    where = [] if subject.fit else [*how, *_place(run)]
    words = ["fit" if subject.fit else "try", *_asked(experiment), *where, "--"]
    named = _traces(subject) if subject.trace else subject.argv
    line = " ".join([memlab, *words, tried.command_line(named)])
    is_here = Path(subject.cwd) == Path.cwd()
    return line if is_here else f"cd {shlex.quote(subject.cwd)} && {line}"


def _traces(subject: tried.Tried) -> list[str]:
    return [word for word in subject.argv if word.endswith(".trace")]


def _asked(experiment: tried.CommandExperiment) -> Iterator[str]:
    """What is asked of a command, beside how often it is run."""
    subject = experiment.subject
    levels = {} if subject.fit else subject.levels
    for name in levels:
        yield _option("-p", f"{name}={','.join(_texts(experiment, name))}")
    pairs: dict[str, str] = {}
    if fit := subject.fit:
        bound = f"{fit.metric}: {100 * fit.within:g}%"
        swap = str(subject.levels.get("swap", ["none"])[0])
        pairs |= {"--keep-within": "" if bound == _BOUND else bound}
        pairs |= {"--swap": "" if swap == "none" else swap}
        pairs |= {"--gate": str(fit.gate_bytes or "")}
    pairs |= {"--serve": tried.command_line(subject.serve), "--ready": subject.ready}
    unit = "" if subject.latency_unit == "s" else f"[{subject.latency_unit}]"
    pairs |= {"--latencies": subject.latency_file and subject.latency_file + unit}
    pairs |= {"--timeout": "" if subject.timeout_s == _TIMEOUT_S else f"{subject.timeout_s:.15g}s"}
    pairs |= {"--for": "" if subject.for_s is None else f"{subject.for_s:.15g}s"}
    yield from (_option(name, value) for name, value in pairs.items() if value)
    for metric in () if subject.trace else subject.metrics:
        yield _option("--metric", tried.metric_text(metric, subject.metric_file))
    yield from (_option("--expect", text) for text in subject.expect)
    if subject.duet:
        yield "--duet"


def _option(name: str, value: str) -> str:
    return shlex.join([name, value])


def _texts(experiment: tried.CommandExperiment, name: str) -> Iterator[str]:
    """The levels as -p reads them: a backslash keeps a comma."""
    kind = experiment.factor(name).kind
    for level in experiment.factor(name).quick:
        text = kind.format(level)
        yield text.replace(",", "\\,") if isinstance(level, str) else text.replace(" ", "")


def _levels(run: Run) -> Iterator[str]:
    """Of an experiment of memlab's."""
    for name, levels in run.row.request.get("levels", {}).items():
        texts = ",".join(_level(run.experiment, name, level) for level in levels)
        yield _option("-p", f"{name}={texts}")
    yield _option("--preset", run.row.request.get("preset", "quick"))
    if not run.row.request.get("controls", True):
        yield "--no-controls"


def _place(run: Run) -> Iterator[str]:
    if guest := run.row.request.get("guest"):
        keys = {"kernel": "kernel", "memory": "memory_bytes", "cpus": "cpus"}
        words = [f"{key}={guest[name]}" for key, name in keys.items() if guest.get(name)]
        words += ["iommu"] if guest.get("iommu") else []
        words += [f"append={guest['append']}"] if guest.get("append") else []
        yield _option("--in", ",".join(["guest", *words]))


def _directory(run: Run) -> str:
    wanted = run.row.request
    return str((wanted.get("guest") or wanted).get("directory") or "")


def _design(run: Run, seed: int | None = None) -> Iterator[str]:
    wanted = run.row.request
    if seed is not None:
        yield f"seed={seed}"
    if wanted.get("sessions", 1) > 1:
        yield f"sessions={wanted['sessions']}"
        if pause_s := wanted.get("pause_s"):
            yield f"pause={_level(run.experiment, '', float(pause_s))}"
    if isinstance(run.experiment, tried.CommandExperiment):
        return  # the rest is of memlab's own probes
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
