"""The forms in which a command that judges can print what it found."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from memlab.present.cases import Cases

# Each is a module with `text` of the cases: a new one is its file.
_FOR_PROGRAMS = sorted(
    path.stem for path in (Path(__file__).parents[1] / "present/formats").glob("[!_]*.py")
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", *_FOR_PROGRAMS]),
    help="Output format (default: text). github: annotations for GitHub Actions and a table in "
    "the step's summary; bmf: Bencher Metric Format.",
)


def chosen(form: str | None, as_json: bool) -> str:
    """The format that --format names, or json; text without either."""
    if as_json and form:
        raise click.UsageError(f"--json is a format too: leave --format {form} out")
    return "json" if as_json else form or "text"


def echo_cases(form: str, cases: Cases) -> None:
    """Print in a format that other programs read; GitHub's goes to the step's summary too."""
    from memlab.files import output

    module = import_module(f"memlab.present.formats.{form}")
    click.echo(module.text(cases))
    if form == "github" and (page := os.environ.get("GITHUB_STEP_SUMMARY")):
        output.append(Path(page), module.summary(cases).encode())
