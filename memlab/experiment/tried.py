"""A user's own command as an experiment: policies, variables and placeholders are its factors.

It is declared from a `Tried`, which the run's request holds, so that a stored run is read and
resumed like any other. What runs and times the command is memlab/command/python_probes/command.py.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from memlab.errors import BadLevels, BadRequest, BadTrace, NotBuilt, SubjectChanged, nearest
from memlab.experiment.claims import Claim, Count, Ratio, Within
from memlab.experiment.expressions import Expression, F, each
from memlab.experiment.factor import Factor
from memlab.experiment.figures import Bars, Figure, Percentiles, Timeline
from memlab.experiment.fit import FIT, Fit
from memlab.experiment.host import Containment, Host, Malloc
from memlab.experiment.huge_pages import thp_kind, thp_settings
from memlab.experiment.kinds import At, Kind, Level, choice
from memlab.experiment.latency import longest, percentile
from memlab.experiment.metric import Metric
from memlab.experiment.points import LONG, point_key
from memlab.experiment.vocabulary import Cost, Experiment
from memlab.files.stamps import FileStamp, file_stamp
from memlab.text import units

NAME = "try"
_SWAP_BYTES = 1 << 30
_SETUP_S = 120.0  # beside the command's time limit: the floor, a service's start and end
_MOST_PROCESSES = 4096  # at once: many for a program, few for one that forks for ever
# The variables that allocators read their options from begin so: they are the service's alone.
_ALLOCATOR_OPTIONS = ["MALLOC_", "GLIBC_TUNABLES", "TCMALLOC_", "MIMALLOC_"]
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_ALLOCATORS = ("system", "glibc", "jemalloc", "tcmalloc", "mimalloc")
_SETTINGS = ("default", "never", "at_once", "no_trim", "no_mmap")  # observe/allocators.py
_OVERCOMMIT = "/proc/sys/vm/overcommit_memory"
_LOCK = {"current": "current", "future": "future", "future_onfault": "future_onfault"}


class OwnMetric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of the command's own: the last match of `pattern` in what it prints, or without a
    pattern a field of the JSON file that it writes. `unit` is a base unit: s, B, 1/s, ..."""

    name: str
    unit: str = "1"
    pattern: str = ""
    higher_is_better: bool = False


class Tried(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is tried. `levels` are the factors in the order given, their baseline level first. With
    `serve` the policies are that service's, and `argv` is the load that is put on it once it is
    `ready`: tcp:PORT, unix:PATH, an HTTP URL that answers, or line:REGEX, by what it prints."""

    argv: list[str]
    cwd: str
    levels: dict[str, list[int | float | bool | str]]
    metrics: list[OwnMetric] = []
    metric_file: str = ""
    latency_file: str = ""  # of numbers, a latency each
    latency_unit: str = "s"
    expect: list[str] = []
    timeout_s: float = 600.0
    for_s: float | None = None  # the command is ended then; None: it ends by itself
    good_statuses: list[int] = msgspec.field(default_factory=lambda: [0])
    serve: list[str] = []
    ready: str = ""
    duet: bool = False  # the two points of a block at the same time, on one CPU
    cap_bytes: int = 0  # the limit of the memory cgroup where memory_max says none
    trace: str = ""  # what argv is, in words, where that is a trace to replay and no command
    fit: Fit | None = None  # what the search for the smallest memory_max is to keep


def _or(
    word: str,
    noun: str,
    parse: Callable[[str], Level],
    form: Callable[[Level], str],
    same: Sequence[str] = (),
) -> Kind:
    """A kind of number that has a word for "leave it as it is", and others that are the `same`."""

    def read(text: str) -> Level:
        return word if text in (word, *same) else parse(text)

    def write(level: Level) -> str:
        return word if level == word else form(level)

    return Kind(f"{noun}, or {word}", read, write, lambda level: read(str(level)))


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if not least <= value <= most:
            raise ValueError(f"{value} is out of bounds, {least} to {most}")
        return value

    return read


def _malloc(text: str) -> str:
    allocator, sign, rest = re.fullmatch(r"(\w*)([/:]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if allocator not in _ALLOCATORS:
        raise ValueError(f"invalid value {text!r} (choose from {', '.join(_ALLOCATORS)})")
    if sign == "/" and rest not in _SETTINGS:
        raise ValueError(
            f"{allocator} has no setting {rest!r} (choose from {', '.join(_SETTINGS)})"
        )
    if sign == ":" and (not rest or allocator == "system"):
        raise ValueError(f"{text!r}: write options as in glibc:arena_max=1 or jemalloc:narenas:1")
    return text


def _limit(text: str) -> int:
    if size := units.parse_size(text):
        return size
    raise ValueError("0 leaves no memory to run in; write none for no limit")


def _size_text(level: Level) -> str:
    return units.format_size(int(level))


TEXT = Kind("text", str, str, str)
_LIMIT = _or("none", "size", _limit, _size_text, same=("off", "max"))
_NUMBER = _or("inherit", "count", _whole(3, 2**31 - 1), str)

POLICIES = {
    f.name: f
    for f in (
        Factor("lock", choice("off", *_LOCK), "lock; mlockall(2) before main, by a preload"),
        Factor(
            "malloc",
            Kind("allocator", _malloc, str, lambda level: _malloc(str(level))),
            "malloc; with a setting (jemalloc/never) or options (glibc:arena_max=1)",
        ),
        Factor(
            "thp",
            thp_kind("inherit", "never", "madvise", "always"),
            "transparent huge pages; never by prctl(2), madvise, always or one size alone (64K) on "
            "the whole host",
        ),
        Factor("memory_max", _LIMIT, "memory limit; of the cgroup"),
        Factor("memory_high", _LIMIT, "memory.high; of the cgroup, v2 alone"),
        Factor("swap", choice("none", "file", "zram"), "swap; an area of the run's own"),
        Factor(
            "page_cache",
            choice("kept", "dropped"),
            "page cache; of the program and the files that its words name, before each trial",
        ),
        Factor("overcommit", choice("inherit", "0", "1", "2"), "overcommit; of the whole host"),
        Factor("cpus", _or("all", "count", _whole(1, 4096), str), "CPUs; that it may use"),
        Factor("nice", Kind("nice value", _whole(-20, 19), str, lambda n: int(n)), "nice value"),
        Factor("stack", _or("inherit", "size", units.parse_size, _size_text), "stack limit"),
        Factor("nofile", _NUMBER, "open files; RLIMIT_NOFILE"),
        Factor("aslr", choice("on", "off"), "address space randomisation"),
    )
}


def factor_of(name: str, argv: Sequence[str]) -> Factor:
    """The factor of this name; BadLevels where the command has no such placeholder either."""
    if name in POLICIES:
        return POLICIES[name]
    if name.startswith("env.") and len(name) > 4 and "=" not in name:
        return Factor(name, TEXT, f"{name[4:]}; an environment variable")
    placeholders = _PLACEHOLDER.findall(" ".join(argv))
    if name in placeholders:
        return Factor(name, TEXT, f"{name}; in the command")
    known = [*POLICIES, "env.NAME", *dict.fromkeys(placeholders)]
    hint = nearest(name, known, "")
    raise BadLevels(
        f"no policy {name!r}, and no {{{name}}} in the command; {hint}{' ' if hint else ''}"
        f"policies: {', '.join(known)}"
    )


def read_policies(argv: Sequence[str], assignments: Sequence[str]) -> dict[str, list[str]]:
    """`lock=off,future` and the like, as lists of text. BadLevels where one cannot be read."""
    levels: dict[str, list[str]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        kind = factor_of(name, argv).kind
        if not equals or not text:
            raise BadLevels(f"-p {assignment!r}: write -p {name}=LEVEL,LEVEL")
        if name in levels:
            raise BadLevels(f"-p {name} is given twice; write its levels in one list")
        # A backslash keeps a comma that is part of a level.
        levels[name] = [level.replace("\\,", ",") for level in re.split(r"(?<!\\),", text)]
        if kind is not TEXT and ".." in text:  # a range: 1..8*2
            try:
                levels[name] = [str(level) for level in units.expand(text, kind.parse)]
            except ValueError as error:
                raise BadLevels(f"{name}: {error}") from None
    return levels


def check_policies(
    argv: Sequence[str], policies: Mapping[str, Sequence[object]]
) -> dict[str, list[Level]]:
    """Levels as text or values, checked, each once. BadLevels names what is wrong."""
    levels: dict[str, list[Level]] = {}
    for name, given in policies.items():
        made = factor_of(name, argv)
        if not given:
            raise BadLevels(f"{name}: no level given")
        try:
            parsed = [made.kind.parse(str(level)) for level in given]
        except ValueError as error:
            raise BadLevels(f"{name}: {error}") from None
        found: dict[object, Level] = {}
        for level in parsed:
            found.setdefault(_as_read(name, level), level)
        levels[name] = list(found.values())
        if len(levels[name]) < len(parsed) and len(levels[name]) == 1:
            raise BadLevels(
                f"{name}: its levels are the same, {made.kind.format(parsed[0])}: name another to "
                "compare with"
            )
    return levels


def _as_read(name: str, level: Level) -> object:
    """What tells a level from another: glibc takes its tunables in any order, the last of a name
    (ld.so(8), GLIBC_TUNABLES)."""
    if name != "env.GLIBC_TUNABLES" or not isinstance(level, str):
        return level
    return frozenset(dict(part.partition("=")[::2] for part in level.split(":")).items())


def programs(word: str, levels: Mapping[str, Sequence[Level]]) -> list[str]:
    """What the first word of a command stands for, with each level of its placeholder."""
    names = [name for name in _PLACEHOLDER.findall(word) if name in levels]
    found = [{}] if not names else [{names[0]: level} for level in levels[names[0]]]
    return [fill(word, at) for at in found]


_UNITS_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


def read_latencies(text: str) -> tuple[str, str]:
    """The file and its unit: `latencies.txt[us]`, or in seconds `latencies.txt`."""
    found = re.fullmatch(r"(.*?)(?:\[(\w*)\])?", text, re.DOTALL)
    return (found[1], found[2] or "s") if found else ("", "s")


_METRIC = re.compile(
    r"(?P<name>[A-Za-z_][\w.]*)(\[(?P<unit>[^\],]*)(?P<higher>,higher)?\])?(=(?P<pattern>.+))?"
)


def read_metric(text: str, *, in_file: bool) -> OwnMetric:
    """`rate[1/s]=Throughput: ([0-9.]+)`; of a file `rate[1/s]` alone."""
    metric = named_metric(text)
    if not metric or not (metric.pattern or in_file):
        raise BadRequest(
            f"--metric {text!r}: write NAME[UNIT]=REGEX, as in 'rate[1/s]=([0-9.]+) req/s'"
        )
    _check_pattern(metric.pattern, f"--metric {text!r}")
    if any(metric.name == other.name for other in METRICS):
        raise BadRequest(
            f"--metric {metric.name}: memlab has a metric of that name; choose another"
        )
    return metric


def named_metric(text: str) -> OwnMetric | None:
    """What NAME[UNIT] or NAME[UNIT]=REGEX names; None if it is neither."""
    parts = _METRIC.fullmatch(text)
    if not parts:
        return None
    unit, pattern = parts["unit"] or "1", parts["pattern"] or ""
    return OwnMetric(parts["name"], unit, pattern, bool(parts["higher"]) or unit.endswith("/s"))


def metric_text(metric: OwnMetric) -> str:
    """As --metric reads it."""
    is_rate = metric.unit.endswith("/s")
    higher = ",higher" if metric.higher_is_better and not is_rate else ""
    pattern = f"={metric.pattern}" if metric.pattern else ""
    return f"{metric.name}[{metric.unit}{higher}]{pattern}"


def _check_pattern(pattern: str, said: str) -> None:
    """BadRequest where it cannot search what a program prints, which is bytes."""
    try:
        re.compile(pattern.encode())
    except Exception as error:  # one too large, too deep or in no encoding is no re.error
        raise BadRequest(f"{said}: {error}") from None


def _peak(series: Expression) -> Expression:
    return each("peak", lambda found: float(max(found["values"], default=0)), series)


def _own(metric: OwnMetric) -> Metric:
    return Metric(
        metric.name,
        metric.unit,
        f"{metric.name}; the command's own: {metric.pattern or metric.name}",
        F.metrics[metric.name].optional,
        lower_is_better=not metric.higher_is_better,
    )


METRICS = (
    Metric(
        "elapsed",
        "s",
        "elapsed time; from execve(2) to the command's end",
        F.window.elapsed_ns,
    ),
    Metric(
        "empty_elapsed",
        "s",
        "elapsed time of a program that does nothing; started in the same way",
        F.floor.elapsed_ns,
    ),
    Metric(
        "cpu_time",
        "s",
        "processor time; user and system",
        F.window.user_ns + F.window.system_ns,
    ),
    Metric("peak_rss", "B", "peak resident memory; of one process, ru_maxrss", F.rss_peak_bytes),
    Metric(
        "peak_pss",
        "B",
        "peak proportional memory; Pss of all processes, read for at most 1 % of the time",
        F.pss_peak_bytes.optional,
    ),
    Metric(
        "peak_group",
        "B",
        "peak memory of the cgroup; page cache included",
        F.group_peak_bytes,
    ),
    Metric(
        "faults",
        "faults",
        "page faults; of all processes, from execve(2) on, by perf",
        F.window.counters.trapped,
    ),
    Metric("peak_locked", "B", "peak locked memory; VmLck every 10 ms", _peak(F.locked_bytes)),
    Metric("peak_swapped", "B", "peak swapped memory; VmSwap every 10 ms", _peak(F.swapped_bytes)),
    Metric("read", "B", "bytes read from storage; proc_pid_io(5)", F.io.read_bytes.optional),
    Metric("written", "B", "bytes written to storage; proc_pid_io(5)", F.io.write_bytes.optional),
    Metric(
        "stalled",
        "s",
        "time in which a task waited for memory; PSI of the cgroup (v2), else of the host",
        F.stalled_ns,
    ),
    Metric(
        "refaults",
        "pages",
        "pages that the kernel took and had to bring back; workingset_refault of the cgroup",
        F.refault_count.optional,
    ),
    Metric("processes", "processes", "processes at a time", F.process_count),
)
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
_OF_FILE = "latency; of the numbers in the command's file"
_LATENCIES = (
    *(Metric(n, "s", f"{n} {_OF_FILE}", percentile("latency", of)) for n, of in _SHARES.items()),
    Metric("longest", "s", f"longest {_OF_FILE}", longest("latency")),
)
END_RSS = Metric(
    "end_rss",
    "B",
    "resident memory at the end; VmRSS of all processes, before SIGTERM",
    F.end_rss_bytes,
)
READY = Metric(
    "ready",
    "s",
    "time until the service was ready; from its execve(2)",
    F.ready_ns,
)


@dataclass(frozen=True, slots=True)
class CommandExperiment(Experiment):
    """An experiment whose probe runs the subject's command."""

    subject: Tried = field(default_factory=lambda: Tried([], "", {}))
    trace_stamp: FileStamp | None = field(default=None, compare=False)
    """The trace's when it was asked for."""

    @property
    def declared_from(self) -> Mapping[str, Any]:
        made: dict[str, Any] = msgspec.to_builtins(self.subject)
        return made

    @property
    def watched(self) -> list[str]:
        """The metrics that an answer begins with."""
        own = [metric.name for metric in self.subject.metrics]
        if self.subject.for_s:  # all take the same time
            return [*own, "end_rss", "peak_rss", "faults", "cpu_time"]
        if self.subject.trace:  # a replay's own time says nothing of its program's
            return ["peak_rss", "faults", "cpu_time", *own]
        service = ["ready"] if self.subject.serve else []
        own += [metric.name for metric in _LATENCIES[:3:2] if self.subject.latency_file]
        first = "cpu_time" if self.subject.duet else "elapsed"
        return [*own, first, *service, "peak_rss", "faults"]

    @property
    def programs(self) -> list[Path]:
        """Those that it starts, and the scripts among their words."""
        subject = self.subject
        if subject.trace:
            return []
        levels, folder = subject.levels, Path(subject.cwd)
        paths: list[Path] = []
        for words in filter(None, (subject.argv, subject.serve)):
            for word in programs(words[0], levels):
                paths += [folder / word] if "/" in word else _searched(word, levels)
            scripts = (folder / one for word in words[1:] for one in programs(word, levels))
            paths += filter(_is_script, scripts)
        return list(dict.fromkeys(paths))

    @property
    def copied(self) -> Path | None:
        return Path(self.subject.cwd) / self.subject.argv[-1] if self.subject.trace else None

    def check_copy(self, copy: Path) -> None:
        """Every record of it, by the program that counts them (account.c)."""
        if not (source := self.copied):
            return
        if file_stamp(source) != self.trace_stamp:
            raise SubjectChanged(f"{source} was changed since it was asked for: try it again")
        account = [_tools() / "account", copy]
        checked = subprocess.run(account, capture_output=True, check=False)
        if checked.returncode:
            why = checked.stderr.decode(errors="replace").strip() or "it cannot be read"
            raise BadTrace(f"{source}: {why}")

    def params(self, at: At, host: Mapping[str, str]) -> dict[str, Any]:
        groups = {name: host[name] for name in ("group", "processes")}
        spec = _spec(self, at)
        if self.subject.trace:
            spec["argv"][-1] = host["copy"]
        if self.subject.duet:
            spec["beside"] = _spec(self, _other(self, at))
        return {"spec": json.dumps(spec), **groups}


_SCRIPTS = (".py", ".pl", ".rb", ".sh", ".js", ".lua", ".jar", ".R")


def _searched(word: str, levels: Mapping[str, Sequence[Level]]) -> list[Path]:
    """The programs of that name: in this process's PATH, and in each that is a level."""
    search = [None, *map(str, levels.get("env.PATH", ()))]
    return [Path(path) for of in search if (path := shutil.which(word, path=of))]


def _is_script(path: Path) -> bool:
    """Whether it is a program that another program runs. Data may change between runs; a script
    may not."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and (bool(mode & 0o111) or path.suffix in _SCRIPTS)


def declare(given: Mapping[str, Any]) -> CommandExperiment:
    """The experiment of a stored or new subject. BadRequest says what is wrong with it."""
    try:
        subject = msgspec.convert(given, Tried)
    except msgspec.ValidationError as error:
        raise BadRequest(f"this is not a command to try: {error}") from None
    if not subject.argv:
        raise BadRequest("name the command to try, after --")
    check_ready(subject)
    if not 0 < subject.timeout_s < math.inf:
        raise BadRequest(f"--timeout: {subject.timeout_s:g} s is not a time limit")
    if subject.for_s is not None:
        _check_for(subject)
    if subject.latency_unit not in _UNITS_NS:
        raise BadRequest(f"a latency is in {', '.join(_UNITS_NS)}, not in {subject.latency_unit!r}")
    levels = subject.levels or {"lock": ["off"]}
    if subject.duet:
        check_duet(subject)
    words = [*subject.argv, *subject.serve]
    factors = [_with_levels(factor_of(name, words), levels[name]) for name in levels]
    own = [_own(metric) for metric in subject.metrics]
    names = list(levels)
    latencies = _LATENCIES if subject.latency_file else ()
    figures: dict[str, Figure] = {}
    if latencies:
        first = {name: levels[name][0] for name in names[2:]}
        figures["latency"] = Percentiles(
            "p99", over=names[0], by=names[1:2], histogram="latency", where=first
        )
    experiment = CommandExperiment(
        name=FIT if subject.fit else NAME,
        search="memlab.fit.trials" if subject.fit else "",
        question=_question(subject),
        probe="command",
        factors=factors,
        metrics=(*own, *latencies, *_metrics(subject), *([READY] if subject.serve else [])),
        cost=_cost(subject),
        figure=Bars(_first(subject), over=names[0], by=names[1:2], panels=names[2:]),
        more_figures=figures
        | {
            "memory": Timeline(
                "peak_rss",
                over=names[0],
                by=names[1:2],
                panels=names[2:],
                series="rss_bytes",
                quantity="resident memory of all processes",
            )
        },
        host=_host(subject, set(names)),
        subject=subject,
    )
    if source := experiment.copied:
        object.__setattr__(experiment, "trace_stamp", file_stamp(source))
    names = [metric.name for metric in experiment.metrics]
    if subject.fit and subject.fit.metric not in names:
        hint = nearest(subject.fit.metric, names)
        raise BadRequest(f"--keep-within: no metric {subject.fit.metric!r}; {hint}")
    claims = [_claim(experiment, number, text) for number, text in enumerate(subject.expect, 1)]
    object.__setattr__(experiment, "claims", claims)
    return experiment


def _first(subject: Tried) -> str:
    """The metric of the first figure."""
    if subject.trace:
        return "peak_rss"
    if subject.duet:
        return "cpu_time"
    if subject.for_s and not subject.metrics:
        return END_RSS.name
    return subject.metrics[0].name if subject.metrics else METRICS[0].name


def _cost(subject: Tried) -> Cost:
    run_s = subject.for_s
    if run_s is None:
        return Cost(limit_s=subject.timeout_s + _SETUP_S)
    return Cost(time=lambda _: run_s, limit_s=run_s + _SETUP_S)


def _check_for(subject: Tried) -> None:
    """BadRequest if a command cannot be run for so long."""
    if not subject.for_s or not 0 < subject.for_s < math.inf:
        raise BadRequest(f"--for: {subject.for_s:g} s is not how long a command can run; write 20s")
    if subject.serve or subject.duet or subject.trace:
        raise BadRequest("--for ends a command: without --serve, --duet and a trace")


def _question(subject: Tried) -> str:
    if subject.trace:
        return f"What would other memory policies do to {subject.trace}?"
    load = f" under `{command_line(subject.argv)}`" if subject.serve else ""
    if subject.fit:
        return f"How little memory does `{command_line(subject.serve or subject.argv)}` need{load}?"
    tried = command_line(subject.serve or subject.argv)
    load += f" in {subject.for_s:g} s" if subject.for_s else ""
    beside = ", two at the same time on one CPU," if subject.duet else ""
    return f"How does `{tried}` behave{load}{beside} under other memory policies?"


def command_line(words: Sequence[str]) -> str:
    """As in a shell; a placeholder needs no quotes here."""
    plain = re.compile(r"[\w{}@%+=:,./-]+")
    return " ".join(word if plain.fullmatch(word) else shlex.quote(word) for word in words)


# Each of a duet has these of its own: all others it would share, or change by them what it shares.
_OF_A_DUET = ("lock", "stack", "nofile", "aslr")
_SHARED_IN_A_DUET = ("elapsed", "peak_group", "stalled")


def check_duet(subject: Tried) -> None:
    """BadRequest where two levels cannot run beside each other, or not be distinguished so."""
    points = math.prod(map(len, subject.levels.values())) if subject.levels else 1
    if points != 2:
        raise BadRequest(f"--duet is of two levels of one policy, not of {points}: see -p")
    if subject.serve or subject.metrics or subject.latency_file or subject.trace:
        raise BadRequest(
            "--duet compares the processor time of a command: without --serve, --metric, "
            "--latencies and a trace"
        )
    for name in subject.levels:
        if name in POLICIES and name not in _OF_A_DUET:
            raise BadRequest(
                f"--duet: both run at the same time, and would share {name}; it takes "
                f"{', '.join(_OF_A_DUET)}, env.NAME and what is in the command"
            )


def _metrics(subject: Tried) -> list[Metric]:
    if subject.for_s:
        return [END_RSS, *(metric for metric in METRICS if metric.name != "elapsed")]
    shared = _SHARED_IN_A_DUET if subject.duet else ()
    return [metric for metric in METRICS if metric.name not in shared]


def _other(experiment: Experiment, at: At) -> At:
    """The other point of a duet."""
    others = {
        one.name: next((level for level in one.quick if level != at[one.name]), at[one.name])
        for one in experiment.factors
    }
    return {name: others[name] for name in at}


_PORT_MAX = 65_535


def check_ready(subject: Tried) -> None:
    """BadRequest where a service's sign of being ready is none."""
    kind, _, address = subject.ready.partition(":")
    if not subject.serve:
        if subject.ready:
            raise BadRequest("--ready is of a service: name it with --serve")
        return
    if kind not in ("tcp", "unix", "http", "line") or not address:
        raise BadRequest(
            "say when the service is ready: --ready tcp:{port}, unix:PATH, "
            "http://127.0.0.1:{port}/PATH, or line:REGEX by what it prints"
        )
    if kind == "http" and not _is_url(subject.ready.replace("{port}", "1")):
        raise BadRequest(f"--ready {subject.ready}: write http://127.0.0.1:{{port}}/PATH")
    is_port = re.fullmatch("[0-9]{1,5}", address) and 0 < int(address) <= _PORT_MAX
    if kind == "tcp" and address != "{port}" and not is_port:
        raise BadRequest(
            f"--ready {subject.ready}: a port is 1 to {_PORT_MAX}, or {{port}} for a free one"
        )
    if kind == "line":
        _check_pattern(address, f"--ready {subject.ready!r}")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _with_levels(made: Factor, levels: Sequence[Level]) -> Factor:
    checked = [made.kind.check(level) for level in levels]
    named = _labels(made, checked) if made.kind is TEXT else {}
    return Factor(made.name, made.kind, made.help, checked, host=True, level_labels=named)


def _labels(made: Factor, levels: Sequence[Level]) -> dict[Level, str]:
    """What tables and figures call a user's own words: themselves, and where they are long, a name
    that is short and of no other level."""
    of_environment = made.name.startswith("env.")
    long = [str(level) for level in levels if len(str(level)) > LONG]
    tails = {level: f"{made.label}=…{level[-LONG + 4 :]}" for level in long}
    if len(set(tails.values())) < len(long) or of_environment:
        tails = {level: f"{made.label} {number}" for number, level in enumerate(long, 1)}
    if len(long) == 1 and of_environment:
        tails = {long[0]: f"{made.label} set"}
    named: dict[Level, str] = {level: f"{made.label}={level}" for level in levels}
    named.update(tails)
    if of_environment and "" in named:
        named[""] = f"{made.label} as it is"
    elif "" in named:
        named[""] = f"{made.label} empty"
    return named


def _host(subject: Tried, names: set[str]) -> Host:
    def asked(at: At) -> int | None:
        found = at.get("memory_max", "none")
        return None if found == "none" else int(found)

    def own_limit(at: At) -> int:
        return asked(at) or subject.cap_bytes

    def limit(at: At) -> int | None:
        """A load is beside the service in the group."""
        return max(own_limit(at), subject.cap_bytes if subject.serve else 0) or None

    def needs_group(at: At) -> bool:
        return any(at.get(name, "none") != "none" for name in ("memory_max", "memory_high"))

    def settings(at: At) -> dict[str, str]:
        overcommit = at.get("overcommit", "inherit")
        wanted = thp_settings(at.get("thp", "inherit"))
        return wanted | ({_OVERCOMMIT: str(overcommit)} if overcommit != "inherit" else {})

    def cpus(at: At) -> int:
        return len(os.sched_getaffinity(0)) if at["cpus"] == "all" else int(at["cpus"])

    def malloc(at: At) -> Malloc:
        allocator, _, setting = str(at["malloc"]).partition(":")[0].partition("/")
        return Malloc(
            "glibc" if allocator == "system" else allocator,
            setting or "default",
            otherwise="-p env.LD_PRELOAD=,PATH",
        )

    return Host(
        containment=Containment(
            limit,
            swap=lambda at: str(at.get("swap", "none")),
            swap_bytes=_SWAP_BYTES if "swap" in names else 0,
            required=needs_group,
            members=lambda _: 2 if subject.serve else 1,
            member_limit=own_limit,
            processes=_MOST_PROCESSES,
            pass_group=True,
            fresh=True,
            keep_cache=True,
            counted=asked,
        ),
        cpus=(lambda _: 1) if subject.duet else cpus if "cpus" in names else "all",
        malloc=malloc if "malloc" in names else None,
        settings=settings,
        needs=lambda at: ["memory cgroup v2"] if at.get("memory_high", "none") != "none" else [],
        # By one worker, which keeps what the second took.
        kept=lambda _: "duet" if subject.duet else "",
    )


def _tools() -> Path:
    """The folder of the compiled helpers."""
    probes = find_spec("memlab._probes")
    if probes is None or probes.origin is None:
        raise NotBuilt
    return Path(probes.origin).parent / "launch"


def _spec(experiment: CommandExperiment, at: At) -> dict[str, Any]:
    """What the probe does at a point, as plain data."""
    subject = experiment.subject
    tools = _tools()
    lock = at.get("lock", "off")
    words = {
        "nice": at.get("nice"),
        "stack": None if at.get("stack") == "inherit" else at.get("stack"),
        "nofile": None if at.get("nofile") == "inherit" else at.get("nofile"),
        "aslr": "off" if at.get("aslr") == "off" else None,
        "thp": "never" if at.get("thp") == "never" else None,
    }
    environ = {n[4:]: str(level) for n, level in at.items() if n.startswith("env.") and level != ""}
    environ |= _malloc_options(str(at.get("malloc", "system")))
    if lock != "off":
        environ["MEMLAB_LOCK"] = _LOCK[str(lock)]
    # Of a trace: its calls, by a static program that locks what the trace maps; or, under another
    # allocator, its allocations.
    replayer = "" if not subject.trace else "allocate" if "malloc" in at else "replay"
    high = at.get("memory_high", "none")
    from_file = [m.name for m in subject.metrics if not m.pattern]
    return {
        "launch": str(tools / "launch"),
        "nothing": str(tools / "nothing"),
        "argv": [
            *([str(tools / replayer)] if subject.trace else []),
            *(fill(word, at) for word in subject.argv),
        ],
        "serve": [fill(word, at) for word in subject.serve],
        "ready": fill(subject.ready, at),
        "point": point_key(at),
        "beside": None,
        "not_for_load": _ALLOCATOR_OPTIONS if "malloc" in at else [],
        "processes": _MOST_PROCESSES,
        "cwd": subject.cwd,
        "environ": environ,
        "preload": [] if lock == "off" or replayer == "replay" else [str(tools / "lock.so")],
        "policies": [f"{name}={value}" for name, value in words.items() if value is not None],
        "cpus": 0 if at.get("cpus", "all") == "all" else int(at["cpus"]),
        "drops_files": at.get("page_cache") == "dropped",
        "limited": any(at.get(name, "none") != "none" for name in ("memory_max", "memory_high")),
        "memory_high": None if high == "none" else int(high),
        "metrics": {m.name: m.pattern for m in subject.metrics if m.pattern},
        "metric_file": subject.metric_file,
        "latency_file": subject.latency_file,
        "latency_ns": _UNITS_NS[subject.latency_unit],
        "file_metrics": from_file,
        "wanted": [m.name for m in subject.metrics],
        "timeout_s": subject.timeout_s,
        "for_s": subject.for_s,
        "good_statuses": subject.good_statuses,
    }


def fill(word: str, at: At) -> str:
    """A word of the command with the levels of its placeholders; other braces stay."""

    def level(match: re.Match[str]) -> str:
        return str(at[match[1]]) if match[1] in at else match[0]

    return _PLACEHOLDER.sub(level, word)


def _malloc_options(level: str) -> dict[str, str]:
    """The environment that an allocator reads its options from (each one's manual)."""
    allocator, _, options = level.partition(":")
    if not options:
        return {}
    if allocator == "jemalloc":
        return {"MALLOC_CONF": options.replace("+", ",")}
    pairs = [pair.partition("=") for pair in options.split("+")]
    if allocator == "glibc":
        tunables = (f"glibc.malloc.{name}={value}" for name, _, value in pairs)
        return {"GLIBC_TUNABLES": ":".join(tunables)}
    return {f"{allocator.upper()}_{name.upper()}": value for name, _, value in pairs}


_EXPECTATION = re.compile(
    r"\s*(?P<metric>[\w.-]+)\s*(?::\s*(?P<of>\S+?)\s*(?:\s/\s+(?P<to>\S+?)\s*)?)?"
    r"\s(?P<sign><=|>=|==|<|>)\s*(?P<value>\S+)\s*"
)


def _claim(experiment: CommandExperiment, number: int, text: str) -> Claim:
    """`elapsed: lock=future / lock=off < 1.05`, or `peak_rss: lock=off < 100M`, as a claim."""
    found = _EXPECTATION.fullmatch(text)
    if not found:
        raise BadRequest(
            f"--expect {text!r}: write METRIC: FACTOR=LEVEL / FACTOR=LEVEL < NUMBER, or "
            "METRIC: FACTOR=LEVEL < VALUE"
        )
    names = [metric.name for metric in experiment.metrics]
    if found["metric"] not in names:
        hint = nearest(found["metric"], names)
        raise BadRequest(f"--expect: no metric {found['metric']!r}; {hint}")
    metric = experiment.metric(found["metric"])
    said: dict[str, Any] = {"metric": metric.name, "text": text.strip(), "id": f"expect-{number}"}
    try:
        value = float(found["value"]) if found["to"] else _number(metric, found["value"])
    except ValueError as error:
        raise BadRequest(f"--expect {text!r}: {error}") from None
    of = _point(experiment, found["of"])
    bound: dict[str, Any] = {"below": value} if found["sign"][0] == "<" else {"above": value}
    if found["sign"] == "==":
        if found["to"]:
            raise BadRequest(f"--expect {text!r}: a ratio is compared with < or >")
        return Count(**said, where=of, equals=int(value))
    if found["to"]:
        return Ratio(**said, of=of, to=_point(experiment, found["to"]), **bound)
    return Within(**said, where=of, **bound)


def _number(metric: Metric, text: str) -> float:
    if metric.unit == "B":
        return float(units.parse_size(text))
    return units.parse_duration(text) if metric.unit == "s" else float(text)


def _point(experiment: CommandExperiment, text: str | None) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for part in filter(None, (text or "").split(",")):
        name, _, level = part.partition("=")
        known = {made.name: made for made in experiment.factors}
        if name not in known:
            raise BadRequest(
                f"--expect: this run does not vary {name!r}; it varies {', '.join(known)}"
            )
        try:
            levels[name] = known[name].kind.parse(level)
        except ValueError as error:
            raise BadRequest(f"--expect: {name}: {error}") from None
        if levels[name] not in known[name].quick:
            measured = ", ".join(map(known[name].kind.format, known[name].quick))
            raise BadRequest(f"--expect: {name}={level} is not measured; its levels: {measured}")
    return levels
