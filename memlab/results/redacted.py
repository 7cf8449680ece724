"""A run without what names its host, its user or its folders, for those who may see it.

What is kept of the machine is what makes machines unlike (memlab.observe.environment). Of every
text a path becomes `[path 1]`, the same path the same word, and the host's name `[host]`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memlab.errors import BadRequest
from memlab.experiment.points import Point
from memlab.observe import environment
from memlab.results.run import Run

_PATH = re.compile(r"(?<![\w./:\]])/[^\s,;:'\"`()<>\[\]]+")
_LOCAL = ("directory", "guest", "name", "subject")  # of a request
_SALT = "memlab gallery 1: "


def host_id(seen: Mapping[str, Any]) -> str:
    """A name for a machine that does not tell which one it is: by its identity where it has one,
    which is random, else by what it is made of."""
    known = [seen["machine_id_hash"], seen.get("host_name")] if seen.get("machine_id_hash") else []
    text = json.dumps(known or environment.compared(seen), sort_keys=True)
    return f"host-{hashlib.sha256((_SALT + text).encode()).hexdigest()[:12]}"


def redacted(run: Run) -> Run:
    """The same run under its machine's `host_id`. BadRequest for a user's own command, whose words
    are what was measured."""
    if run.row.request.get("subject") is not None:
        raise BadRequest(f"run {run.id} is of a command, which would have to be left out")
    hide = _Hidden(run)
    filesystems = {
        level: found | {"path": hide(found["path"])}
        for level, found in run.environment.get("filesystems", {}).items()
    }
    seen = environment.compared(run.environment) | {"filesystems": filesystems}
    request = {name: of for name, of in run.row.request.items() if name not in _LOCAL}
    row = replace(
        run.row,
        experiment=run.experiment.name,
        name=None,
        origin=host_id(run.environment),
        environment=seen,
        request=hide.within(request | {"experiment": run.experiment.name}),
    )
    points = [Point(p.index, hide.within(p.at), p.control) for p in run.points]
    return run.as_if(row, points, hide)


class _Hidden:
    """Texts without paths and without the host's names."""

    def __init__(self, run: Run) -> None:
        self._numbers: dict[str, int] = {}
        seen, asked = run.environment, run.row.request
        guest = asked.get("guest") or {}
        paths = [str(run.store_path), asked.get("directory"), guest.get("kernel")]
        paths += [guest.get("directory")]
        paths += [found.get("path") for found in seen.get("filesystems", {}).values()]
        whole = sorted({path for path in paths if path and path != "/"}, key=len, reverse=True)
        hosts = {n for n in (seen.get("host_name"), run.row.origin) if n and len(n) > 2}
        self._whole = _any_of(whole, "(?<![\\w/]){}")
        self._hosts = _any_of(sorted(hosts), r"(?<!\w){}(?!\w)")

    def __call__(self, text: str) -> str:
        text = self.paths(text)
        return self._hosts.sub("[host]", text) if self._hosts else text

    def paths(self, text: str) -> str:
        for pattern in filter(None, (self._whole, _PATH)):
            text = pattern.sub(self._path, text)
        return text

    def _path(self, found: re.Match[str]) -> str:
        return f"[path {self._numbers.setdefault(found[0], len(self._numbers) + 1)}]"

    def within(self, value: Any) -> Any:
        """Levels, or what else JSON holds, without paths."""
        if isinstance(value, str):
            return self.paths(value)
        if isinstance(value, Mapping):
            return {name: self.within(part) for name, part in value.items()}
        return [self.within(part) for part in value] if isinstance(value, list) else value


def _any_of(texts: list[str], around: str) -> re.Pattern[str] | None:
    found = "|".join(map(re.escape, texts))
    return re.compile(around.format(f"(?:{found})")) if found else None
