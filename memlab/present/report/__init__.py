"""Runs as one HTML file that needs no network: what was asked, what holds, and every number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from memlab._version import __version__
from memlab.present.report.section import section
from memlab.results import Run
from memlab.run.request import CannotRun


def html(runs: Sequence[Run]) -> str:
    """The report of at least one run. The same runs give the same text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["svg"] = Markup  # ours, with its texts escaped by the XML writer
    sections = [section(run, f"r{number}") for number, run in enumerate(runs, 1)]
    template = environment.get_template("report.html.jinja")
    return template.render(sections=sections, memlab=__version__)


def write(runs: Sequence[Run], path: Path) -> None:
    """Write the report; it appears whole or not at all. CannotRun where it cannot be written."""
    text = html(runs)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, part, text)
    except OSError as error:
        raise CannotRun(f"cannot write {error.filename or path}: {error.strerror}") from None


def _replace(path: Path, part: Path, text: str) -> None:
    """Write the part, then rename it; it does not stay behind."""
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
