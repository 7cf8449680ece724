"""Runs that memlab has made and that ship with it: a store each, gzipped, named by experiment.

For a first look, for the documentation and for notebooks, which then measure nothing. A reader
opens a copy of the store in the user's cache.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from difflib import get_close_matches
from pathlib import Path

from memlab.store import StoreError, UnknownRun

FOLDER = Path(__file__).parent
SUFFIX = ".db.gz"


def names() -> list[str]:
    """The experiments that have a recorded run. The folder is the registry."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def store(experiment: str) -> Path:
    """A store that holds the recorded run of an experiment. UnknownRun where there is none,
    StoreError where the cache cannot be written."""
    if experiment not in names():
        near = get_close_matches(experiment, names(), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names())}"
        raise UnknownRun(f"no recorded run of {experiment!r}; {hint}")
    packed = (FOLDER / f"{experiment}{SUFFIX}").read_bytes()
    path = _cache() / f"{experiment}-{hashlib.sha256(packed).hexdigest()[:12]}.db"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(gzip.decompress(packed))
            part.replace(path)
        except OSError as error:
            raise StoreError(
                f"cannot unpack the recorded run to {path}: {error.strerror}; set XDG_CACHE_HOME"
            ) from None
    return path


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memlab" / "recorded"
