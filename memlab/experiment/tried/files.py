"""The files that a run is about: the programs that it starts, and the scripts among their words."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from memlab.experiment.kinds import Level

_SCRIPTS = (".py", ".pl", ".rb", ".sh", ".js", ".lua", ".jar", ".R")


def searched(word: str, levels: Mapping[str, Sequence[Level]]) -> list[Path]:
    """The programs of that name: in this process's PATH, and in each that is a level."""
    search = [None, *map(str, levels.get("env.PATH", ()))]
    return [Path(path) for of in search if (path := shutil.which(word, path=of))]


def is_script(path: Path) -> bool:
    """Whether it is a program that another program runs. Data may change between runs; a script
    may not."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and (bool(mode & 0o111) or path.suffix in _SCRIPTS)
