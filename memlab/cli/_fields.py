"""A command's options as the fields of a dataclass: each with its type, its name in Python and its
help in one place. For commands of many options, whose helpers take them as one object.

    @dataclass(frozen=True, slots=True)
    class CopyOptions:
        source: str = argument()
        threads: int = option("-n", "--threads", default=1, help="So many at once.")
        store: Path | None = global_option("store")


    @click.command()
    @takes(CopyOptions)
    def command(given: CopyOptions) -> None:

Options come in the order of the fields. A field of `several` holds another such dataclass, whose
options several commands share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memlab.cli._options import Option

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")
_ASKED = "asked"
_DECLARES = "declares"
_SEVERAL = "several"
_GLOBAL = "global"


def option(*flags: str, **settings: Any) -> Any:
    """A field that is an option, as `click.option` takes it."""
    return _field(lambda name: click.option(*flags, name, **settings))


def argument(**settings: Any) -> Any:
    """A field that is an argument, as `click.argument` takes it."""
    return _field(lambda name: click.argument(name, **settings))


def shared(declared: Option) -> Any:
    """A field that is an option of several commands. Those of a sweep, by the names of Request's
    fields, are the one field `asked`."""
    return _field(lambda _: declared)


def global_option(name: str) -> Any:
    """A field that holds an option of memlab itself, which stands before the command."""
    return field(metadata={_GLOBAL: name})


def several(options: type) -> Any:
    """A field that holds the options of another dataclass."""
    return field(metadata={_SEVERAL: options})


def _field(declare: Callable[[str], Option]) -> Any:
    return field(metadata={_DECLARES: declare})


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Give a command's function all of its options as one object."""

    def decorated(function: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(function)
        def callback(**values: Any) -> None:
            function(_filled(options, values))

        _declare(options, callback)
        return callback

    return decorated


def _declare(options: type[DataclassInstance], callback: Callable[..., None]) -> None:
    for item in reversed(fields(options)):
        if inner := item.metadata.get(_SEVERAL):
            _declare(inner, callback)
        elif _GLOBAL not in item.metadata:
            item.metadata[_DECLARES](item.name)(callback)


def _filled(options: type[Options], by_name: dict[str, Any]) -> Options:
    """The object of some of the options that are given, which are taken out of `given`."""
    of_memlab = click.get_current_context().find_root().params
    above = {
        item.name: item.metadata[_GLOBAL] for item in fields(options) if _GLOBAL in item.metadata
    }
    inner = {
        item.name: item.metadata.get(_SEVERAL) for item in fields(options) if item.name not in above
    }
    values = {name: of_memlab[option] for name, option in above.items()}
    values |= {name: _filled(of, by_name) for name, of in inner.items() if of}
    values |= {name: by_name.pop(name) for name, of in inner.items() if not of and name != _ASKED}
    if _ASKED in inner:
        values[_ASKED] = dict(by_name)
    return options(**values)
