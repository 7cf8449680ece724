"""The options of a sweep on a command line, made from the table of what a sweep can be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from memlab.cli import _options
from memlab.cli._options import CPUS, DURATION, SHARE
from memlab.request import OPTIONS, Option

_TYPES = {
    "seconds": DURATION,
    "share": SHARE,
    "cpus": CPUS,
    "path": click.Path(),
}


def asked_options(command: str) -> _options.Option:
    """The options of a sweep that a command takes, each given by the name of Request's field."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(OPTIONS):
            if command in option.on:
                function = _option(option, option.on[command])(function)
        return function

    return decorated


def _option(option: Option, help: str) -> _options.Option:
    names = (option.flag, option.field)
    if option.kind.name == "flag":

        def flagged(_: click.Context, __: click.Parameter, given: bool) -> bool:
            return bool(option.default) != given  # a flag says what is not the default

        return click.option(*names, is_flag=True, help=help, callback=flagged)
    kind: Any = _TYPES.get(option.kind.name)
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.kind.name == "count":
        kind = click.IntRange(int(option.least), int(option.most))
    return click.option(
        *names,
        type=kind,
        default=option.default,
        show_default=bool(option.choices),
        metavar=option.metavar or None,
        callback=(lambda _, __, text: option.read(text)) if option.kind.name == "path" else None,
        help=help,
    )
