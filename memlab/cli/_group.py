"""Groups of commands that are read from the table, and imported when they are used."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

import click

from memlab.cli import _table
from memlab.cli._table import Item
from memlab.errors import Busy, MemlabError, UsageError, closest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

HELP = ["-h", "--help"]
FOREVER = "forever"  # what `--wait` means without a time
WORDS, BEFORE = "memlab.words", "memlab.before"  # of a command line; those before the command
TYPED = "memlab.typed"  # where a context keeps the words after the command's name, as typed


class StorePath(click.Path):
    """A file, as pathlib has it, which only a command imports."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pathlib import Path

        if value == "":
            self.fail("no name was given: it is empty", param, ctx)
        return Path(str(super().convert(value, param, ctx)))


class Waiting(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """A time, or without end."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from memlab.text import units

        if value == FOREVER or not isinstance(value, str):
            return inf if value == FOREVER else value
        try:
            return units.parse_seconds(value)
        except ValueError as error:
            is_set = param is not None and os.environ.get(str(param.envvar)) == value
            self.fail(f"{param.envvar}: {error}" if param and is_set else str(error), param, ctx)


class CommandGroup(click.Group):
    """A group of commands: `path` are the words that name it after `memlab`."""

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Sequence[Item]],
        path: tuple[str, ...] = (),
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self._sections, self._path = sections, path
        self._rows = {row.name: row for rows in sections.values() for row in rows}

    def list_commands(self, _: click.Context) -> list[str]:
        return [*self._rows]  # `list` is a command of this package

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        row = self._rows.get(name)
        return row and _load(row, self._path)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        shown = {
            heading: [(row.name, row.summary) for row in rows if not row.hidden]
            for heading, rows in self._sections.items()
        }
        width = max(len(name) for rows in shown.values() for name, _ in rows)
        for heading, rows in shown.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl([(f"{name:<{width}}", text) for name, text in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        offered = [
            CompletionItem(row.name, help=row.summary)
            for row in self._rows.values()
            if row.name.startswith(incomplete) and not row.hidden
        ]
        return offered + click.Command.shell_complete(self, ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.parent is None:
            args = _without_a_value(args)
            ctx.meta[WORDS] = tuple(args)  # click takes them out of the list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            option, example = error.option_name, _line(*self._path, next(iter(self._rows)))
            raise click.UsageError(
                f"no option {option} before a command; those of a command follow its name: "
                f"{example} {option}",
                ctx,
            ) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._rows and not name.startswith("-"):
            if ctx.parent is None and ctx.meta[WORDS][: -len(args)][-1:] == (f"--wait={FOREVER}",):
                raise click.UsageError(
                    f"no command {name!r}; --wait takes its value with =: --wait={name}"
                )
            raise click.UsageError(f"no command {name!r}; {self._hint(name)}")
        if BEFORE not in ctx.meta:
            words = ctx.meta[WORDS]
            ctx.meta[BEFORE] = words[: len(words) - len(args)]
        ctx.meta[TYPED] = tuple(args[1:])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Busy as busy:
            if ctx.parent or ctx.params["wait_s"]:
                raise
            raise Busy(busy.who, shlex.join(["memlab", "--wait", *ctx.meta[WORDS]])) from None
        except MemlabError as error:
            if ctx.parent is None:
                typed = shlex.join([*_program(), *ctx.meta[WORDS]])
                error.args = tuple(
                    part.replace("memlab ...", typed) if isinstance(part, str) else part
                    for part in error.args
                )
            raise

    def _hint(self, name: str) -> str:
        """The nearest command: of this group first, then of all, whichever group has it."""
        inner = {row.name: (*self._path, row.name) for row in self._rows.values()}
        every = {words[-1]: words for words, _ in _table.commands()}
        near = name if name in every else closest(name, inner) or closest(name, every)
        if near:
            return f"did you mean `{_line(*({**every, **inner}[near]))}`?"
        return f"`{_line(*self._path)} --help` lists them"


def show_help(ctx: click.Context) -> None:
    """What a group does if no command follows its name."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(UsageError.exit_code)


def words_of(ctx: click.Context) -> list[str]:
    """`memlab` and the words that name a context's command, however the program was started."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return ["memlab", *names]


def typed_before(ctx: click.Context) -> Sequence[str]:
    """The words that stand between `memlab` and the command, as typed."""
    words: Sequence[str] = ctx.find_root().meta[BEFORE]
    return words


def _without_a_value(args: Sequence[str]) -> list[str]:
    """The words of a command line, with the value of a `--wait` that has none: click would take the
    command's name for it. The words after the command's name stay as they are."""
    words, is_path = list(args), False
    for number, word in enumerate(words):
        if word[:1] != "-" and not is_path:
            break
        is_path = word == "--store"
        if word == "--wait":
            words[number] = f"--wait={FOREVER}"
    return words


def _program() -> list[str]:
    """What starts this program, for other users too, whose PATH has other folders."""
    path = os.path.abspath(sys.argv[0])  # noqa: PTH100 - pathlib is slow to import
    is_script = os.path.basename(path) == "memlab"  # noqa: PTH119
    return [path] if is_script else [sys.executable, "-m", "memlab"]


def _line(*words: str) -> str:
    return " ".join(("memlab", *words))


@cache
def _load(row: Item, above: tuple[str, ...]) -> click.Command:
    command = _group_of(row, above) if row.rows else _command_of(row, above)
    # click keeps the help option that it made for the first context that asked: of one without -h.
    command._help_option = None
    command.get_help_option(click.Context(command, help_option_names=HELP))
    return command


def _group_of(row: Item, above: tuple[str, ...]) -> click.Command:
    return CommandGroup(
        row.name,
        sections={"Commands": row.rows},
        path=(*above, row.name),
        help=row.summary,
        short_help=row.summary,
        callback=click.pass_context(show_help),
        invoke_without_command=True,
    )


def _command_of(row: Item, above: tuple[str, ...]) -> click.Command:
    command: click.Command = import_module(row.module).command
    command.name, command.short_help, command.hidden = row.name, row.summary, row.hidden
    for option in command.params:  # click would take the names of the function's parameters
        if isinstance(option, click.Option) and not option.envvar:
            long = max(option.opts, key=len).lstrip("-")
            words = ("memlab", *above, row.name, long)
            option.envvar = "_".join(words).upper().replace("-", "_")
    return command
