"""The C library that a trial runs under, as a factor."""

from dataclasses import replace
from pathlib import Path

from memlab.experiment import *
from memlab.files import folders


def _parse(text: str) -> Level:
    """A version is one of those that the user unpacked into memlab's own folder."""
    if text == FOUND or "/" in text:
        return PATH.parse(text)
    unpacked = folders.user("cache") / "libc" / text
    if not unpacked.is_dir():
        raise ValueError(f"no {unpacked}: unpack the package libc6 of {text!r} there with dpkg -x")
    return str(unpacked)


def _format(level: Level) -> str:
    is_cached = Path(str(level)).is_relative_to(folders.user("cache") / "libc")
    return Path(str(level)).name if is_cached else str(level)


LIBC = Factor(
    "glibc",
    replace(PATH, parse=_parse, format=_format),
    quick=[FOUND],
    host=True,
    help="GNU C library, by whose loader the probe starts; the folder of an unpacked package, or a "
    "version for ~/.cache/memlab/libc/VERSION. found: the system's",
)


def libc(at: At) -> str:
    """For Host.libc."""
    return "" if at["glibc"] == FOUND else str(at["glibc"])
