"""How a process was started, and the `memlab try` line that starts its program again.

All of it is another's text: a word is quoted for the shell, and what would not be seen is written
in dollar-single-quotes (POSIX.1-2024), which bash and zsh read back.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from memlab.analysis.budget import budget_of_levels
from memlab.diagnose.subject import Subject
from memlab.observe import files, proc, process
from memlab.text import units

Policies = Mapping[str, Sequence[str]]
"""Levels by policy of `memlab try`, the baseline first. An empty one leaves a variable alone."""

_SECRET_NAME = re.compile(
    r"PASS|PWD|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|SIGNATURE|DSN", re.I
)
_SECRET_VALUE = re.compile(r"://[^/@\s:]{0,500}:[^/@\s]{0,500}@|-----BEGIN |password=", re.I)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OF_MEMORY = re.compile(
    r"MALLOC|GLIBC_TUNABLES|^LD_(PRELOAD|LIBRARY_PATH)$|_RJEM|TCMALLOC|^GO(GC|MEMLIMIT|DEBUG|MAXPROCS)$"
    r"|JAVA_(TOOL_)?OPTIONS|^JAVA_OPTS$|NODE_OPTIONS|^PYTHON(MALLOC|HOME|PATH)|^OMP_|^MKL_|HUGETLB"
)
"""Variables that bear on memory, or without which the program may not start."""
_OF_TRACES = ("lock", "thp")
"""The policies of findings that a recorded trace can be replayed under."""
LOAD = "LOAD"
FOR_S = 20
"""How long a program that has run for longer is tried: it does not end by itself."""
_LONGEST = 500  # characters of a variable
_NAMED = 8  # variables by name; of more their number is said


def whole_mib(value: float) -> str:
    """Bytes as a level of a limit."""
    return f"{max(1, -(-int(value) // units.MiB))}M"


@dataclass(frozen=True, slots=True)
class Started:
    """What is known of a start; `environ` is what differs from this process's environment."""

    argv: tuple[str, ...] = ()
    folder: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    """What a new start would have otherwise."""
    unknown: str | None = None
    """Why it cannot be started again from here; None where it can."""


def read(subject: Subject) -> Started:
    """From /proc. Raises `OSError` where the process has ended or may not be read."""
    held = proc.ROOT / f"proc/{subject.number}"
    argv, environ = process.arguments(subject.number), process.environ(subject.number)
    exe, folder = (os.fsdecode((held / name).readlink()) for name in ("exe", "cwd"))
    if not _same(held / "exe", Path(exe)):
        return Started(unknown=f"its program is not at {exe} here: deleted, or in a container")
    if not argv or not _same(held / "exe", _program(argv[0], folder)):
        # A title that the program has written over its arguments is one word with spaces.
        if len([word for word in argv if word]) == 1 and " " in argv[0]:
            return Started(unknown=f"it has overwritten its command line; its program is {exe}")
        argv = [exe, *argv[1:]]
    if process.reads_program(argv):
        text = " ".join(map(_quoted, argv))[:_LONGEST]
        why = f"its program was read from standard input ({text}): start it from a file for one"
        return Started(unknown=why)
    differing = {
        name: value
        for name, value in environ.items()
        if value and _OF_MEMORY.search(name) and os.environ.get(name) != value
    }
    kept = {n: v for n, v in differing.items() if _NAME.fullmatch(n) and not _hidden(n, v)}
    left_out = sorted(differing.keys() - kept.keys())
    return Started(tuple(argv), folder, kept, tuple(_remarks(subject, folder, left_out)))


def line(
    started: Started,
    policies: Policies,
    *,
    port: int | None = None,
    age_s: float = 0.0,
    idles: bool = False,
) -> str | None:
    """What to paste into a shell; None where nothing can be tried, or what would be tried is in
    force already. What listens on a port is given as `--serve`, with a load to be named in its
    place; a port that its arguments name is a free one, since it holds its own. What idles or
    has run for over `FOR_S` is tried for that long, within a budget that measures every level."""
    if started.unknown or not policies:
        return None
    if any(f"{{{name}}}" in word for name in policies for word in started.argv):
        return None  # `try` would put a level in its place
    differing = {n: levels for n, levels in policies.items() if len(set(levels)) == len(levels)}
    if not differing:
        return None
    constant = {f"env.{name}": [value] for name, value in started.environ.items()}
    words = ["memlab", "try"]
    # The policies come first, for the axis of the figure, and go before what the variables were.
    for name, levels in {**differing, **constant, **differing}.items():
        escaped = ",".join(level.replace(",", "\\,") for level in levels)
        words += ["-p", f"{name}={escaped}"]
    if port is not None:
        whole = re.compile(rf"(?<!\d){port}(?!\d)")
        argv = [started.argv[0], *(whole.sub("{port}", word) for word in started.argv[1:])]
        named = "{port}" if argv != list(started.argv) else port
        command = " ".join(_quoted(word) for word in argv)
        words += ["--serve", command, "--ready", f"tcp:{named}", "--", LOAD]
    else:
        if idles or age_s > FOR_S:
            words += ["--for", f"{FOR_S}s", "--budget", f"{budget_s(differing)}s"]
        words += ["--", *started.argv]
    here = files.known(Path.cwd)  # None of a folder that is gone
    there = [] if here == Path(started.folder) else ["cd", started.folder, "&&"]
    return " ".join(word if word in ("&&", LOAD) else _quoted(word) for word in (*there, *words))


def budget_s(policies: Policies) -> int:
    """The one that measures these levels, each trial of `FOR_S`."""
    return budget_of_levels(prod(map(len, policies.values())), FOR_S)


def recorded(subject: Subject, asked: Sequence[Policies]) -> str | None:
    """What to paste where the program cannot be started again: a trace of it, and the policies that
    can be tried on one; None where none of those asked can."""
    policies = {n: levels for one in asked for n, levels in one.items() if n in _OF_TRACES}
    if not policies:
        return None
    trace = f"{subject.pid}.trace"
    tried = " ".join(f"-p {name}={','.join(levels)}" for name, levels in policies.items())
    return f"memlab record --seconds 60 -o {trace} {subject.pid} && memlab try {tried} {trace}"


def present(started: Started, name: str) -> str:
    """The value of a variable; empty where it has none."""
    return started.environ.get(name, os.environ.get(name, ""))


def _program(word: str, folder: str) -> Path:
    """The file that `try` starts for the first word of a command."""
    return Path(folder, word) if "/" in word else Path(shutil.which(word) or word)


def _same(one: Path, other: Path) -> bool:
    try:
        return other.is_absolute() and one.samefile(other)
    except OSError:
        return False


def _hidden(name: str, value: str) -> bool:
    return bool(len(value) > _LONGEST or _SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def _remarks(subject: Subject, folder: str, left_out: Sequence[str]) -> Iterator[str]:
    if left_out:
        more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
        names = ", ".join(name[:_LONGEST] for name in left_out[:_NAMED])
        yield f"without the variables that may be secret or are long: {names}{more}"
    if source := _input(subject.number):
        yield f"without its standard input, {source}"
    if subject.uid != os.geteuid():
        yield f"by you, and not by {subject.user}"
    if not Path(folder).is_dir():
        yield f"its working directory is not here: {folder}"


def _input(pid: int) -> str:
    """Where its standard input comes from, if not from a device: a trial's is empty."""
    try:
        path = (proc.ROOT / f"proc/{pid}/fd/0").readlink()
    except OSError:  # closed, or of another user
        return ""
    kind = str(path).partition(":")[0]
    if kind in ("pipe", "socket"):
        return f"a {kind}"
    is_device = path.is_relative_to("/dev") and not path.is_relative_to("/dev/shm")
    return "" if is_device else _quoted(str(path))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_written, word))}'"


def _written(character: str) -> str:
    if character == "\n":
        return "\\n"
    if character.isprintable() and character not in "\\'":
        return character
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))
