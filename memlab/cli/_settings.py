"""Options that hold several settings, `KEY=VALUE,...`: what few users set, each in few words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from memlab.errors import nearest

_BOUNDARY = re.compile(r",(?=[a-z])")  # a list of numbers may have commas


class KeyValues(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.2
    """Reads `memory=4g,cpus=2,iommu`, a flag by its name, into values by key. `rest` is a key that
    takes all that follows it, commas too."""

    name = "settings"

    def __init__(self, keys: Mapping[str, click.ParamType], rest: str = "") -> None:  # type: ignore[type-arg]
        self.keys, self._rest = keys, rest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        results: dict[str, Any] = {}
        for word in self._words(value):
            key, equals, text = word.partition("=")
            kind = self.keys.get(key)
            if kind is None:
                hint = nearest(key, [*self.keys], f"there are: {', '.join(self.keys)}")
                self.fail(f"no setting {key!r}; {hint}", param, ctx)
            if key in results:
                self.fail(f"{key} is given twice", param, ctx)
            if not equals and kind is not click.BOOL:
                self.fail(f"write {key}=VALUE", param, ctx)
            try:
                results[key] = kind.convert(text if equals else "yes", None, ctx)
            except click.BadParameter as error:
                self.fail(f"{key}: {error.message}", param, ctx)
        return results

    def _words(self, text: str) -> list[str]:
        before, begin, rest = text, "", ""
        if self._rest and (at := re.search(rf"(^|,){self._rest}=", text)):
            before, begin, rest = text[: at.start()], f"{self._rest}=", text[at.end() :]
        words = _BOUNDARY.split(before) if before else []
        return [*words, begin + rest] if begin else words
