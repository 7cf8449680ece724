"""The request to try a command: from a command line, from Python, or from a file."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from memlab.analysis.least import least_pairs
from memlab.errors import BadRequest
from memlab.experiment import tried
from memlab.experiment.fit import FIT, Fit
from memlab.observe import available, files, process
from memlab.request import PRECISION, Request
from memlab.text import units
from memlab.trace import file as trace
from memlab.trace import replay

_FILE_BYTES_MAX = 1 << 20
_CAP_SHARE = 0.7  # of the available memory that a command may take where no memory_max is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Trying:
    """What is read of a command, what is expected of it, and how one run of it goes: as the options
    of `memlab try` of the same names."""

    metrics: Sequence[str] = ()
    latencies: str = ""
    expect: Sequence[str] = ()
    timeout: float | str = "10min"
    run_for: float | str | None = None
    serve: Sequence[str] = ()
    ready: str = ""
    duet: bool = False

    @property
    def timeout_s(self) -> float:
        """Of one run. Raises BadRequest."""
        return _seconds("timeout", self.timeout)

    @property
    def for_s(self) -> float | None:
        """How long a command that does not end is run; None until its end. Raises BadRequest."""
        return None if self.run_for is None else _seconds("for", self.run_for)


def _seconds(name: str, value: float | str) -> float:
    try:
        return units.parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadRequest(f"{name}: {error}") from None


def read_policies(
    words: Sequence[str], serve: Sequence[str], assignments: Sequence[str]
) -> dict[str, list[str]]:
    """`lock=off,future` and the like, as lists of text; of a trace, the replayer's own too.
    BadLevels where one cannot be read."""
    recorded_words = replay.words(replay.WORDS) if trace.is_named(words) else []
    return tried.read_policies([*recorded_words, *words, *serve], assignments)


def command(
    words: Sequence[str],
    policies: Mapping[str, Sequence[object]],
    trying: Trying = Trying(),
    cwd: Path | None = None,
    fit: Fit | None = None,
    **how: Any,
) -> Request:
    """The request to try a command under levels of policies, as text or values, each policy's
    baseline first; `how` is what any sweep may be asked. Raises BadRequest and BadLevels."""
    serve, metrics = list(trying.serve), trying.metrics
    if isinstance(words, str):
        raise BadRequest(f"a command is a list of its words, not the text {words!r}: shlex.split")
    if isinstance(trying.expect, str):  # one text, as --expect takes it
        trying = replace(trying, expect=[trying.expect])
    if not words:
        raise BadRequest("name the command, after the options and --, such as -- ./app")
    folder, what = cwd or Path.cwd(), ""
    recordings = len(words) if trace.is_named(words) else 0
    knows_reuse = False
    if recordings:
        paths = [folder / word for word in words]
        what = replay.checked(paths, policies, serve=serve, metrics=metrics)
        knows_reuse = replay.has_limits(policies) and replay.knows_reuse(paths)
        words, metrics = [*replay.words(policies), *words], replay.metrics(policies)
        how = replay.repeated(recordings, how)
    levels = tried.check_policies([*words, *serve], policies)
    started = [] if what else [words[0], *serve[:1]]
    for program in (program for word in started for program in tried.programs(word, levels)):
        path = folder / program if "/" in program else Path(program)
        if not program or shutil.which(path) is None:
            what = "is not executable" if program and path.exists() else "is not found"
            if trace.is_named([program]) and path.exists():
                other = next(word for word in words if not trace.is_named([word]))
                what = "options stand before traces: memlab try -p ... a.trace"
                if not other.startswith("-"):
                    what = f"{shlex.quote(other)} is not a trace: name only traces"
                raise BadRequest(f"{shlex.quote(program)} is a trace, and {what}")
            raise BadRequest(f"{shlex.quote(program)}: the command to try {what}")
    for command_words in [] if what else [[*words], serve]:
        if process.reads_program(command_words):
            raise BadRequest(
                f"{shlex.join(command_words)}: it reads its program from standard input, which is "
                "empty in a trial: name a file of it"
            )
    own_metrics, metric_file = tried.read_metrics(metrics)
    latency_file, latency_unit = tried.read_latencies(trying.latencies)
    free = available.memory().left
    subject = tried.Tried(
        argv=list(words),
        cwd=str(folder),
        levels=levels,
        metrics=own_metrics,
        metric_file=metric_file,
        latency_file=latency_file,
        latency_unit=latency_unit,
        expect=list(trying.expect),
        timeout_s=trying.timeout_s,
        for_s=trying.for_s,
        serve=serve,
        ready=trying.ready,
        duet=trying.duet,
        cap_bytes=max(1, int(free * _CAP_SHARE)),
        trace=what,
        knows_reuse=knows_reuse,
        fit=fit,
    )
    if not fit and how.get("blocks") is None and how.get("precision") is None:
        how["precision"] = PRECISION  # what levels change is the question, more than expectations
    enough = (how.get("blocks") or 0) >= least_pairs(1)
    if enough and recordings < 2:  # fewer compare nothing, and are a rehearsal
        compared = prod(map(len, levels.values())) - 1
        how["blocks"] = max(how["blocks"], least_pairs(compared))
    request = Request(
        experiment=FIT if fit else tried.NAME, subject=msgspec.to_builtins(subject), **how
    )
    tried.declare(request.subject or {})
    return request


class _CommandFile(msgspec.Struct, forbid_unknown_fields=True):
    """A command with its policies, metrics and expectations, as a repository keeps it."""

    command: list[str]
    policies: dict[str, list[int | float | bool | str]] = {}
    metrics: list[str] = []
    latencies: str = ""
    expect: list[str] = []
    timeout: str = "10min"
    run_for: str | None = msgspec.field(default=None, name="for")
    serve: list[str] = []
    ready: str = ""
    duet: bool = False
    blocks: int | None = None
    budget: str | None = None


def command_file(path: Path, **how: Any) -> Request:
    """The request that a TOML file describes. It runs in the file's folder. What `how` gives
    besides None goes before the file. Raises BadRequest and BadLevels."""
    try:
        file = msgspec.toml.decode(files.regular(path, _FILE_BYTES_MAX), type=_CommandFile)
        timeout_s = units.parse_duration(file.timeout)
        budget_s = None if file.budget is None else units.parse_duration(file.budget)
    except Exception as error:  # whatever a parser makes of it
        raise BadRequest(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    options: dict[str, Any] = {"blocks": file.blocks, "budget_s": budget_s}
    options |= {name: value for name, value in how.items() if value is not None}
    words = {True: "on", False: "off"}
    levels = {
        name: [words[v] if isinstance(v, bool) else str(v) for v in of]
        for name, of in file.policies.items()
    }
    trying = Trying(**{item.name: getattr(file, item.name) for item in fields(Trying)})
    trying = replace(trying, timeout=timeout_s)
    return command(file.command, levels, trying, path.absolute().parent, **options)
