"""The forms in which a command that judges can print what it found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from memlab.present.formats.cases import Cases

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json", "junit", "github", "bmf"]),
    help="Output format (default: text). github: annotations for GitHub Actions and a table in "
    "the step's summary; bmf: Bencher Metric Format.",
)
json_format_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, as --format json does."
)


def chosen(form: str | None, as_json: bool) -> str:
    if as_json and form not in (None, "json"):
        raise click.UsageError("--json is short for --format json: choose one")
    return "json" if as_json else form or "text"


def echo_cases(form: str, found: Cases) -> None:
    """Print in a format that other programs read; GitHub's goes to the step's summary too."""
    from memlab.files import output
    from memlab.present.formats import bmf, github, junit

    formats = {"junit": junit, "github": github, "bmf": bmf}
    click.echo(formats[form].text(found))
    if form == "github" and (page := os.environ.get("GITHUB_STEP_SUMMARY")):
        output.append(Path(page), github.summary(found).encode())
