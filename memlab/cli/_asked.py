"""The options of a sweep on a command line, made from the table of what a sweep can be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from memlab.cli import _options
from memlab.cli._options import CPUS, DURATION, SHARE, FileName
from memlab.cli._settings import KeyValues
from memlab.request import OPTIONS, Option

_TYPES = {
    "seconds": DURATION,
    "share": SHARE,
    "cpus": CPUS,
    "flag": click.BOOL,
    "path": FileName(),
}


def asked_options(command: str) -> _options.Option:
    """The options of a sweep that a command takes, each given by the name of Request's field. Those
    without a flag of their own are settings of `--design`."""
    accepted = [option for option in OPTIONS if command in option.on]
    settings = [option for option in accepted if not option.flag.startswith("-")]

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        function = _design(settings, command)(function)
        for option in reversed(accepted):
            if option not in settings:
                function = _option(option, option.on[command])(function)
        return function

    return decorated


def _design(settings: Sequence[Option], command: str) -> _options.Option:
    def divide(ctx: click.Context, _: click.Parameter, values: dict[str, Any]) -> None:
        for option in settings:
            ctx.params[option.field] = _read(option, values.get(option.flag, option.default))

    return click.option(
        "--design",
        metavar="KEY=VALUE[,KEY=VALUE]...",
        type=KeyValues({option.flag: _type(option) for option in settings}),
        default="",
        callback=divide,
        expose_value=False,
        help="; ".join(option.on[command] for option in settings) + ".",
    )


def _read(option: Option, value: Any) -> Any:
    return option.read(value) if option.kind.name == "path" else value


def _type(option: Option) -> Any:
    if option.choices:
        return click.Choice(option.choices)
    if option.kind.name == "count":
        return click.IntRange(int(option.least), int(option.most))
    return _TYPES.get(option.kind.name, click.STRING)


def _option(option: Option, help: str) -> _options.Option:
    names = (option.flag, option.field)
    if option.kind.name == "flag":

        def flagged(_: click.Context, __: click.Parameter, flag: bool) -> bool:
            return bool(option.default) != flag  # a flag says what is not the default

        return click.option(*names, is_flag=True, help=help, callback=flagged)
    return click.option(
        *names,
        type=_type(option),
        default=option.default,
        show_default=bool(option.choices),
        metavar=option.metavar or None,
        callback=lambda _, __, value: _read(option, value),
        help=help,
    )
