"""A run's figure: drawn from its marks, and written with a file that names their samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text

from memlab.errors import BadRequest, nearest
from memlab.experiment import figures as declared
from memlab.experiment.figures import Choice
from memlab.files import output
from memlab.judging.compare import metric_of
from memlab.present.figures import (
    frame,
    kinds,
    sidecar,
    style,
    verdicts,
)
from memlab.present.figures.frame import Rows
from memlab.present.figures.layout import NARROW, Page
from memlab.results import Run
from memlab.text.printable import printable

FORMATS = ("png", "svg", "pdf")

# Without a date, so that the same run gives the same file.
_METADATA: Mapping[str, Mapping[str, str | None]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


class RunFigure(Figure):
    """A figure without pyplot. It shows itself in a notebook, and SVG text stays text."""

    title = description = ""  # what it shows and what it says, for whoever cannot see it
    source = ""  # the run that it is of, and a digest of its numbers: it stands in the file

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        for text in self.findobj(Text):
            text.set_text(printable(text.get_text(), keep="\n"))
        # Else matplotlib takes the resolution that the figure had before its size was known.
        kwargs.setdefault("dpi", self.dpi)
        with style.settings():
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        return _rendered(self, "png")


def names(run: Run) -> list[str]:
    """The run's figures: "" is its experiment's first one, then the others by name."""
    return list(sidecar.shown(run))


def findings(run: Run) -> Iterator[str]:
    """What the run's figures found, in the words of their titles."""
    for name in names(run):
        shown, drawn = _showing(run, name)
        if text := _finding(drawn, shown, kinds.rows(drawn, shown)):
            yield text


def caption(run: Run, name: str = "") -> str:
    """What a figure shows, in a line."""
    shown, drawn = _showing(run, name)
    return upper(kinds.title(drawn, shown))


def headline(run: Run, name: str = "") -> str:
    """What a figure found, or what the run's claims say of it; may be empty."""
    shown, drawn = _showing(run, name)
    return _headline(drawn, shown, kinds.rows(drawn, shown))


def source(run: Run, name: str = "") -> str:
    """What the file of this figure says that it is of: a file that says something else is of
    another run, or has other numbers."""
    shown, drawn = _showing(run, name)
    rows = kinds.rows(drawn, shown)
    return _source(run, _headline(drawn, shown, rows), rows)


def _source(run: Run, text: str, rows: Any) -> str:
    # Which of the run's samples are behind a number is in the sidecar.
    shown = [{k: v for k, v in row.items() if k != "samples"} for row in frame.as_data(rows)]
    return f"memlab {run.row.memlab}, run {run.id}, numbers {sidecar.digest(text, shown)}"


def _headline(run: Run, shown: declared.Figure, rows: Rows) -> str:
    return upper(_finding(run, shown, rows) or verdicts.headline(run, shown))


def _finding(run: Run, shown: declared.Figure, rows: Rows) -> str:
    text = verdicts.declared(run, shown)
    if text or kinds.is_left_out(run, shown):
        return text
    return kinds.of(shown).finding(run, shown, rows) or ""


def upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def chosen(run: Run, choice: Choice) -> Run:
    """The same run with only the chosen figure. Raises BadRequest if a name is wrong, factors
    stand twice, or no point is left."""
    x, series, panels, against = choice.x, choice.series, choice.panels, choice.against
    if against and (choice.samples or x or series is not None or panels is not None):
        raise BadRequest("a figure against another run has a row per point: give metric and where")
    levels = {name: set(of) for name, of in (choice.where or {}).items()}
    points = [p for p in run.points if all(p.at[_factor(run, n)] in of for n, of in levels.items())]
    if not points:
        raise BadRequest("no point of this run has these levels")
    part, first = run.only(points), run.experiment.figure
    over = _factor(run, x) if x else first.over
    free = [name for name in part.varied if name != over]
    by = list(map(partial(_factor, run), series)) if series is not None else None
    if by is None:
        by = [name for name in first.by if name in free] or free[:1]
    split = list(map(partial(_factor, run), panels or ()))
    split += [name for name in free if name not in {*by, *split}]
    names = [over, *by, *split]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadRequest(f"{twice} is the axis, a series or a panel, and not two of these")
    watched = metric_of(run.experiment, choice.metric or first.metric).name
    if against:
        return part.drawn(declared.Ratios(watched, over, by, split, bases=tuple(against)))
    if choice.samples:
        return part.drawn(declared.StripPlot(watched, over, by, split))
    numbers = [level for p in points if not isinstance(level := p.at[over], str | bool)]
    kind = declared.Lines if len(numbers) == len(points) else declared.Bars
    log = ""
    if numbers and min(numbers) > 0 and max(numbers) >= _LOG_FROM * min(numbers):
        log = "x"
    if (watched, over) == (first.metric, first.over):
        log = first.log
    return part.drawn(kind(watched, over, by, split, log=log if kind is declared.Lines else ""))


_LOG_FROM = 20  # times, that the levels of an axis span


def outcomes(run: Run) -> Run:
    """The same run with one figure: how the samples of each point ended."""
    first = run.experiment.figure
    by = [name for name in run.varied if name != first.over]
    calm: Callable[[str], bool] = "ok".__eq__
    title = "how the samples ended"
    shown = declared.Matrix("", first.over, by, title=title, calm=calm, counted=True)
    return run.drawn(shown)


def _factor(run: Run, name: str) -> str:
    known = [factor.name for factor in run.experiment.factors]
    if name not in known:
        hint = nearest(name, known)
        raise BadRequest(f"{run.experiment.name} has no factor {name!r}; {hint}")
    return name


def _showing(run: Run, name: str) -> tuple[declared.Figure, Run]:
    shown = run.experiment.more_figures[name] if name else run.experiment.figure
    return shown, run.showing(shown)


def draw(run: Run, name: str = "") -> RunFigure:
    """A figure that the run's experiment declares, 1600 pixels wide as PNG."""
    shown, shown_run = _showing(run, name)
    with style.settings():
        figure = RunFigure()
        figure.title, figure.description = caption(run, name), run.experiment.question
        rows = kinds.rows(shown_run, shown)
        text = _headline(shown_run, shown, rows)
        figure.description = text or figure.description
        figure.source = _source(run, text, rows)
        drawn = frame.shared(mark["levels"] for mark in frame.marks(rows) if "levels" in mark)
        page = Page(figure, shown_run, figure.title, text, drawn=drawn)
        if frame.marks(rows) or not kinds.is_left_out(shown_run, shown):
            kinds.of(shown).draw(page, shown, rows)
        else:
            page.width = NARROW
        page.notes += frame.said_lost(rows)
        page.settle()
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
    results: dict[str, bytes] = {}
    for name in names(run):
        figure = draw(run, name)
        named = f"{stem}-{name}" if name else stem
        results |= {f"{named}.{kind}": _rendered(figure, kind) for kind in formats}
    results[f"{stem}.json"] = sidecar.as_json(run).encode()
    return _write(folder, results)


def write(figure: RunFigure, path: Path) -> Path:
    """Write one figure as its file's name says; its folder is made. CannotRun if that cannot be
    written."""
    (written,) = _write(path.parent, {path.name: _rendered(figure, path.suffix[1:])})
    return written


def _rendered(figure: RunFigure, kind: str) -> bytes:
    result, metadata = BytesIO(), dict(_METADATA[kind])
    if kind in ("svg", "png"):
        metadata["Title"] = printable(figure.title)
    if kind == "png":
        metadata["Description"] = printable(figure.description)
    if figure.source:
        metadata["Subject" if kind == "pdf" else "Source"] = printable(figure.source)
    figure.savefig(result, format=kind, metadata=metadata)
    content = result.getvalue()
    if kind == "svg":  # matplotlib writes no <desc>
        words = f"</title>\n <desc>{escape(printable(figure.description))}</desc>"
        content = content.replace(b"</title>", words.encode(), 1)
    return content


def _write(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    contents = {folder / name: content for name, content in files.items()}
    output.make_folder(folder)
    output.write(contents)
    return list(contents)
