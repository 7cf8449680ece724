"""Options and parameter types that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from memlab import units
from memlab.cli import _completing


class Parsed(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """A type whose parser raises ValueError with a one-line message."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Parsed("duration", units.parse_duration)
SHARE = Parsed("percent", units.parse_percent)
CPUS = Parsed("list", units.parse_cpus)

store_option = click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="MEMLAB_STORE",
    help="The store's file; else $XDG_DATA_HOME/memlab/results.db.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
run_argument = click.argument("run", default="last", shell_complete=_completing.run)
example_option = click.option(
    "--example",
    is_flag=True,
    help="RUN names an experiment: its recorded run, which ships with memlab.",
)


def echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def output_folder(given: Path | None, store: Path | None) -> Path:
    """Where figures go: the folder named, else `figures` beside the store."""
    from memlab.store import default_path

    return given or (store or default_path()).parent / "figures"
