"""A run's figure: drawn from its marks, and written with a file that names their samples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from memlab.present.figures import page, sidecar, style
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
        with style.settings():
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        return _rendered(self, "png")


def draw(run: Run) -> Figure:
    """The figure that the run's experiment declares, 1600 pixels wide as PNG."""
    with style.settings():
        figure = RunFigure()
        page.compose(figure, run)
    return figure


def save(
    run: Run, folder: Path, formats: Sequence[str] = ("png", "svg"), stem: str | None = None
) -> list[Path]:
    """Write folder/<experiment>-<run id>.<format> and the sidecar <stem>.json, which is last.

    Each file appears whole, and none before all are made. ValueError for a format that is
    none; CannotRun where the folder cannot be written.
    """
    if bad := [kind for kind in formats if kind not in FORMATS]:
        raise ValueError(f"a figure is {', '.join(FORMATS)}, not {bad[0]!r}")
    stem = stem or f"{run.experiment.name}-{run.id}"
    figure = draw(run)
    made = {f"{stem}.{kind}": _rendered(figure, kind) for kind in formats}
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
