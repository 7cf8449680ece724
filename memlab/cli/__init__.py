"""The command line. One file a command; a file in this folder is a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from memlab._version import __version__

DONE, GATE, USAGE, CANNOT_RUN, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 130


class _Commands(click.Group):
    """Finds commands in the folder and imports one when it is asked for."""

    def list_commands(self, _: click.Context) -> list[str]:
        return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"memlab.cli.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f"did you mean {near[0]}?" if near else "`memlab --help` lists them"
            raise click.UsageError(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "MEMLAB"},
)
@click.version_option(__version__, prog_name="memlab")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """How Linux memory behaves on this machine, measured and held against published studies.

    \b
    memlab sweep mmap-write        measure, and leave a table and a figure
    memlab show last               the newest run again
    memlab describe mmap-write     what is varied, timed and claimed

    Exit codes: 0 done, 1 a gate closed, 2 usage, 3 cannot run here, 4 internal error,
    130 interrupted. Every option is also an environment variable: MEMLAB_SWEEP_BUDGET=30s.
    """
    ctx.obj = debug
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(USAGE)


def main() -> NoReturn:
    """Entry of the `memlab` command: runs it, and turns what it raises into one line."""
    debug = "--debug" in sys.argv or os.environ.get("MEMLAB_DEBUG", "") not in ("", "0")
    with _one_line_errors(debug):
        try:
            code = cli.main(standalone_mode=False)  # what ctx.exit was given; a command, None
            sys.stdout.flush()
        except (BrokenPipeError, SystemExit):
            # The reader has gone, as `head` does; there is nobody left to tell. So asked, click
            # itself exits for that alone, with 1, which is a closed gate here.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = DONE
    sys.exit(code or DONE)


@contextmanager
def _one_line_errors(debug: bool) -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        _end(" ".join(error.format_message().split()), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _end("interrupted", INTERRUPTED)
    except Exception as error:
        code = _code(error)
        if debug:
            raise
        if code == INTERNAL:
            _end(f"internal error: {type(error).__name__}: {error}; --debug shows where", code)
        _end(str(error.args[0] if error.args else error), code)


def _code(error: Exception) -> int:
    """The exit code of an error. Imported late: most commands meet none of them."""
    from memlab.diagnose.errors import BadSubject, CannotLook
    from memlab.experiments import UnknownExperiment
    from memlab.run.admission import Refused
    from memlab.run.alone import Busy
    from memlab.run.plan import BadLevels
    from memlab.run.request import BadRequest, CannotRun, Interrupted
    from memlab.run.warm import NotBuilt, WorkerLost
    from memlab.store import StoreError, UnknownRun

    codes = {
        USAGE: (UnknownExperiment, BadLevels, BadRequest, BadSubject, UnknownRun),
        CANNOT_RUN: (Refused, CannotRun, CannotLook, Busy, NotBuilt, WorkerLost, StoreError),
        INTERRUPTED: (Interrupted,),
    }
    return next((code for code, kinds in codes.items() if isinstance(error, kinds)), INTERNAL)


def _end(message: str, code: int) -> NoReturn:
    click.echo(f"memlab: {message}", err=True)
    sys.exit(code)
