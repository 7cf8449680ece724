"""Options and parameter types that several commands share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from memlab.cli import _completing
from memlab.cli._group import TYPED, typed_before, words_of
from memlab.text import units
from memlab.text.printable import printable

if TYPE_CHECKING:
    from memlab.results import Run


Option = Callable[[Callable[..., Any]], Callable[..., Any]]  # what click.option returns


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


def typed() -> set[str]:
    """The arguments on the command line, by their longest name."""
    context = click.get_current_context()
    return {
        max(parameter.opts, key=len)
        for parameter in context.command.params
        if parameter.name
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }


def listed(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    """A callback for words with commas between them."""
    return tuple(word for word in (text or "").split(",") if word)


DURATION = Parsed("duration", units.parse_seconds)
SHARE = Parsed("percent", units.parse_percent)
CPUS = Parsed("list", units.parse_cpus)


def store_path() -> Path | None:
    """The file that `memlab --store` names; None for the user's own."""
    path: Path | None = click.get_current_context().find_root().params["store"]
    return path


class FileName(click.Path):
    """A path. An empty word is refused: a shell variable may be unset, and `Path("")` would be the
    working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("no name was given: it is empty", param, ctx)
        return super().convert(value, param, ctx)


class _OutputFolder(FileName):
    """A folder that could be written to, asked before anything is measured."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _writable(Path(str(super().convert(value, param, ctx))))


def _writable(folder: Path) -> Path:
    from memlab.files import output

    output.check_folder(folder)
    return folder


output_type = _OutputFolder(file_okay=False, path_type=Path)
figure_option = click.option(
    "-o",
    "output",
    type=output_type,
    help="Folder for the figure (default: `figures` beside the store).",
)
jsonl_option = click.option(
    "--jsonl",
    is_flag=True,
    help="Print each row as a JSON line when it is stored, for `memlab hosts import`, and no "
    "table.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
run_argument = click.argument("run", default="last", shell_complete=_completing.run)


def of_all(run: str) -> str:
    """The experiment of which a run's address names the newest run of each host, as all:page-fault
    does; empty if it names one run."""
    host, _, experiment = run.partition(":")
    return experiment if host == "all" else ""


@contextmanager
def base_of(base: str, new: Run, store: Path | None) -> Iterator[Run]:
    """What a run is held against: another run, or one in a file of rows. UsageError for itself."""
    from memlab import api
    from memlab.results import rows_file

    if rows_file.is_file(base):
        with rows_file.opened(Path(base), new) as stored:
            yield stored
        return
    result: Run = api.load(base, store=store)
    if result.id == new.id:
        raise click.UsageError(
            f"{base} is run {new.id} itself: name another run to compare it with"
        )
    yield result


on_option = click.option(
    "--on",
    metavar="ssh:HOST,...|dask:ADDRESS|HOSTS.toml",
    help="Measure on these hosts in parallel; each runs its own memlab; results are copied back.",
)
gate_option = click.option("--gate", is_flag=True, help="Exit with 1 if a claim is contradicted.")
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Print only the run's id: no progress and no table."
)
fresh_option = click.option(
    "--fresh", is_flag=True, help="Measure again, even if the store has the results."
)


def verbose_option(help: str) -> Option:
    """`-v`, with what it prints in full."""
    return click.option("-v", "--verbose", is_flag=True, help=help)


def factor_option(help: str) -> Option:
    """`-p FACTOR=LEVELS`, as often as wanted."""
    return click.option(
        "-p",
        "--factor",
        "levels",
        metavar="FACTOR=LEVELS",
        multiple=True,
        shell_complete=_completing.factor,
        help=help,
    )


def in_full(*without: str) -> str:
    """The command line that runs, as it was typed, with -v and `without` some options: what prints
    that for which one screen has no room."""
    context = click.get_current_context()
    words = [word for word in context.meta[TYPED] if word not in without]
    memlab, *names = words_of(context)
    return shlex.join([memlab, *typed_before(context), *names, "-v", *words])


def echo(line: object, *, err: bool = False) -> None:
    """Print one line, whatever is in it."""
    click.echo(printable(str(line)), err=err)


def behind(begin: str, text: str) -> list[str]:
    """A text behind what it belongs to, in lines as wide as the terminal; in a pipe, where other
    programs read lines, in one."""
    import shutil

    from memlab.text.wrapping import wrapped

    begin = printable(begin)
    columns = shutil.get_terminal_size(fallback=(sys.maxsize, 1)).columns
    return [*wrapped(printable(text), max(columns, len(begin) + 20), begin, " " * len(begin))]


def echo_json(document: Any) -> None:
    """Print what `memlab.present.documents` declares."""
    from memlab.present import documents

    click.echo(documents.text(document))


def output_folder(folder_named: Path | None, store: Path | None) -> Path:
    """Where figures go: the folder named, else `figures` beside the store. CannotRun where nothing
    may be written there: what takes minutes asks this first. A store's folder that is not there is
    made with the store, or the store says why it cannot be."""
    from memlab.store import default_path

    if folder_named:
        return folder_named
    folder = (store or default_path()).parent / "figures"
    return _writable(folder) if folder.parent.exists() else folder
