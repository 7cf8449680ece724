"""A run's figure: drawn from its marks, and written with a file that names their samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from memlab.experiment import figures as declared
from memlab.judging import evidence
from memlab.present.figures import (
    bar_marks,
    bars,
    causes,
    checks,
    lines,
    marks,
    matrix,
    members,
    nines,
    pair_marks,
    pairs,
    percentiles,
    sidecar,
    strips,
    style,
    timeline,
    timelines,
    tradeoff,
    tradeoffs,
)
from memlab.results import Run
from memlab.run.request import CannotRun

FORMATS = ("png", "svg", "pdf")

# Without a date, so that the same run gives the same file.
_METADATA: Mapping[str, Mapping[str, None]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


class RunFigure(Figure):
    """A figure without pyplot. It shows itself in a notebook, and SVG text stays text."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        # Else matplotlib takes the resolution that the figure had before its size was known.
        kwargs.setdefault("dpi", self.dpi)
        with style.settings():
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        return _rendered(self, "png")


# Each composer draws one kind of declaration on an empty figure, and sets the figure's size.
_COMPOSERS: Mapping[type, Callable[[Figure, Run, Any], None]] = {
    declared.Lines: lambda figure, run, _: lines.compose(figure, run),
    declared.Bars: bars.compose,
    declared.Against: pairs.compose,
    declared.Nines: nines.compose,
    declared.Checks: checks.compose,
    declared.Matrix: matrix.compose,
    declared.Members: members.compose,
    declared.Timeline: timeline.compose,
    declared.Tradeoff: tradeoff.compose,
    declared.Causes: causes.compose,
}

# What a figure's title says that was found; a kind that is not here says nothing.
_FINDINGS: Mapping[type, Callable[[Run, Any], str]] = {
    declared.Lines: lambda run, _: lines.finding(run, marks.panels(run)),
    declared.Bars: lambda run, shown: bars.finding(run, shown, bar_marks.panels(run, shown)),
    declared.Against: lambda run, shown: pairs.finding(run, shown, pair_marks.panels(run, shown)),
    declared.Nines: lambda run, shown: nines.finding(run, percentiles.panes(run, shown)),
    declared.Checks: lambda run, shown: checks.finding(checks.checks(run, shown)),
    declared.Matrix: lambda run, shown: matrix.finding(matrix.places(run, shown), shown),
    declared.Members: lambda run, shown: members.finding(run, shown, strips.panes(run, shown)),
    declared.Timeline: lambda run, shown: timelines.finding(run, shown),
    declared.Tradeoff: lambda run, shown: tradeoffs.finding(run, shown),
    declared.Causes: lambda run, _: causes.finding(run),
}


def names(run: Run) -> list[str]:
    """The run's figures: "" is its experiment's first one, then the others by name."""
    return list(sidecar.shown(run))


def findings(run: Run) -> Iterator[str]:
    """What the run's figures found, in the words of their titles."""
    for name in names(run):
        shown = _declared(run, name)
        find = _FINDINGS.get(type(shown))
        if find and (said := find(run.showing(shown), shown)):
            yield said


def caption(run: Run, name: str = "") -> str:
    """What a figure shows, in a line."""
    shown = _declared(run, name)
    said = run.metric(shown.metric).help
    if isinstance(shown, declared.Causes):
        return f"{name}: what the slowest operations met"
    if isinstance(shown, declared.Against):
        of, to = (evidence.side(run.experiment, side) for side in (shown.of, shown.to))
        return f"{name}: {said}, {of} / {to}, by {shown.x_label}"
    if isinstance(shown, declared.Timeline):
        said = f"{shown.quantity} over time"
    if isinstance(shown, declared.Tradeoff):
        return f"{name}: {said}, against {run.metric(shown.against).help}"
    return f"{name}: {said} by {shown.over}" if name else f"{said} by {shown.over}"


def _declared(run: Run, name: str) -> declared.Figure | declared.Against:
    return run.experiment.more_figures[name] if name else run.experiment.figure


def draw(run: Run, name: str = "") -> Figure:
    """A figure that the run's experiment declares, 1600 pixels wide as PNG."""
    shown = _declared(run, name)
    with style.settings():
        figure = RunFigure()
        _COMPOSERS[type(shown)](figure, run.showing(shown), shown)
    return figure


def save(
    run: Run, folder: Path, formats: Sequence[str] = ("png", "svg"), stem: str | None = None
) -> list[Path]:
    """Write folder/<experiment>-<run id>.<format>, any further figure as <stem>-<name>.<format>,
    and the sidecar <stem>.json, which is last.

    Each file appears whole, and none before all are made. ValueError for a format that is
    none; CannotRun where the folder cannot be written.
    """
    if bad := [kind for kind in formats if kind not in FORMATS]:
        raise ValueError(f"a figure is {', '.join(FORMATS)}, not {bad[0]!r}")
    stem = stem or f"{run.experiment.name}-{run.id}"
    made: dict[str, bytes] = {}
    for name in names(run):
        figure = draw(run, name)
        named = f"{stem}-{name}" if name else stem
        made |= {f"{named}.{kind}": _rendered(figure, kind) for kind in formats}
    made[f"{stem}.json"] = sidecar.as_json(run).encode()
    return _write(folder, made)


def _rendered(figure: Figure, kind: str) -> bytes:
    made = BytesIO()
    figure.savefig(made, format=kind, metadata=dict(_METADATA[kind]))
    return made.getvalue()


def _write(folder: Path, made: Mapping[str, bytes]) -> list[Path]:
    parts = {folder / name: folder / f".{name}.{os.getpid()}.part" for name in made}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(parts, made.values())
    except OSError as error:
        raise CannotRun(f"cannot write {error.filename or folder}: {error.strerror}") from None
    return list(parts)


def _replace(parts: Mapping[Path, Path], contents: Iterable[bytes]) -> None:
    """Write every part beside its file, then rename them all; no part stays behind."""
    try:
        for part, content in zip(parts.values(), contents, strict=True):
            part.write_bytes(content)
        for path, part in parts.items():
            part.replace(path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
