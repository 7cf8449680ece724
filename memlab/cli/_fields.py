"""A command's options as the fields of a dataclass: each with its type, its name in Python and its
help in one place. For commands of many options, whose helpers take them as one object.

    @dataclass(frozen=True, slots=True)
    class CopyOptions:
        source: str = argument()
        threads: int = option("-n", "--threads", default=1, help="So many at once.")
        store: Path | None = shared(store_option)


    @click.command()
    @takes(CopyOptions)
    def command(given: CopyOptions) -> None:

Options come in the order of the fields. A field that is neither is what a feature that extends the
command gives it.
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


def option(*flags: str, **said: Any) -> Any:
    """A field that is an option, as `click.option` takes it."""
    return _field(lambda name: click.option(*flags, name, **said))


def argument(**said: Any) -> Any:
    """A field that is an argument, as `click.argument` takes it."""
    return _field(lambda name: click.argument(name, **said))


def shared(declared: Option) -> Any:
    """A field that is an option of several commands. Those of a sweep, by the names of Request's
    fields, are the one field `asked`."""
    return _field(lambda _: declared)


def _field(declare: Callable[[str], Option]) -> Any:
    return field(metadata={_DECLARES: declare})


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Give a command's function all of its options as one object."""
    own = {one.name for one in fields(options)}

    def decorated(function: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(function)
        def callback(**given: Any) -> None:
            if _ASKED in own:
                given[_ASKED] = {name: given.pop(name) for name in [*given] if name not in own}
            function(options(**given))

        for one in reversed(fields(options)):
            if declare := one.metadata.get(_DECLARES):
                declare(one.name)(callback)
        return callback

    return decorated
