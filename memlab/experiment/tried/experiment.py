"""The experiment of a command, declared from its `Tried`."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from memlab.errors import BadRequest, BadTrace, SubjectChanged, nearest
from memlab.experiment.factor import Factor
from memlab.experiment.figures import Bars, Figure, Percentiles, Timeline
from memlab.experiment.fit import FIT, USED_PAGES, is_unlimited
from memlab.experiment.kinds import At, choice
from memlab.experiment.metric import Metric
from memlab.experiment.tried.checks import check_duet, check_for, check_ready
from memlab.experiment.tried.expectations import claim
from memlab.experiment.tried.files import is_script, searched
from memlab.experiment.tried.host import host_of
from memlab.experiment.tried.metrics import (
    END_RSS,
    LATENCIES,
    METRICS,
    READY,
    UNITS_NS,
    metrics_of,
    own_metric,
)
from memlab.experiment.tried.policies import factor_of, programs, with_levels
from memlab.experiment.tried.spec import spec_of, tools
from memlab.experiment.tried.subject import Tried
from memlab.experiment.vocabulary import Control, Cost, Experiment
from memlab.files.stamps import FileStamp, file_stamp

NAME = "try"
_LEAST_REPLAY_S = 0.05
_NO_REUSE = "the trace does not show which pages are used again"
_SETUP_S = 120.0  # beside the command's time limit: the floor, a service's start and end
_USED = Factor(
    "used_pages",
    choice("unread", "read"),
    "used pages; read in windows, in a run that is not measured",
    quick=["unread"],
)
_USED_RUN = Control(
    USED_PAGES,
    "Which memory is used again, without a limit: it says where the search begins.",
    {"memory_max": ["none"], _USED.name: ["read"]},
)


@dataclass(frozen=True, slots=True)
class CommandExperiment(Experiment):
    """An experiment whose probe runs the subject's command."""

    subject: Tried = field(default_factory=lambda: Tried([], "", {}))
    trace_stamps: Sequence[FileStamp | None] = field(default=(), compare=False)
    """Those of the traces when they were asked for."""

    @property
    def declared_from(self) -> Mapping[str, Any]:
        spec: dict[str, Any] = msgspec.to_builtins(self.subject)
        return spec

    @property
    def watched(self) -> list[str]:
        """The metrics that an answer begins with."""
        names = [metric.name for metric in self.subject.metrics]
        if self.subject.for_s:  # all take the same time
            return [*names, "end_rss", "peak_rss", "faults", "cpu_time"]
        if self.subject.trace:  # how long a replay takes says nothing about the program
            return ["peak_rss", "faults", "cpu_time", *names]
        service = ["ready"] if self.subject.serve else []
        names += [metric.name for metric in LATENCIES[:3:2] if self.subject.latency_file]
        first = "cpu_time" if self.subject.duet else "elapsed"
        return [*names, first, *service, "peak_rss", "faults"]

    def measures(self, outcome: str) -> bool:
        """A command that is killed by the OOM killer says something of its limits; one that fails,
        nothing."""
        return outcome in ("ok", "oom-killed")

    def only_outcome(self, at: At) -> str:
        """Where it is not known what is used again, a replay does not bring back what reclaim
        takes: under a limit it faults too little."""
        limited = any(at.get(name, "none") != "none" for name in ("memory_max", "memory_high"))
        if not limited or not self.subject.trace or self.subject.knows_reuse:
            return ""
        return _NO_REUSE

    def least_judged(self, metric: Metric) -> float:
        """The kernel counts a replay's time in ticks, and its own start is in it."""
        return _LEAST_REPLAY_S if self.subject.trace and metric.unit == "s" else 0.0

    @property
    def starts_programs(self) -> bool:
        return True

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
                paths += [folder / word] if "/" in word else searched(word, levels)
            scripts = (folder / path for word in words[1:] for path in programs(word, levels))
            paths += filter(is_script, scripts)
        return list(dict.fromkeys(paths))

    @property
    def copied(self) -> Sequence[Path]:
        return self.subject.traces

    def check_copy(self, source: Path, copy: Path, beside: int) -> None:
        """Every record of it, by the program that counts them (account.c). Beside it are the
        trace's files, as far as the program met them in the page cache (cache.c)."""
        stamps = dict(zip(self.copied, self.trace_stamps, strict=True))
        if file_stamp(source) != stamps[source]:
            raise SubjectChanged(f"{source} was changed since it was asked for: try it again")
        for tool, out in (("account", subprocess.DEVNULL), ("cache", beside)):
            checked = subprocess.run(
                [tools() / tool, copy], stdout=out, stderr=subprocess.PIPE, check=False
            )
            if checked.returncode:
                why = checked.stderr.decode(errors="replace").strip() or "it cannot be read"
                raise BadTrace(f"{source}: {why}")

    def params(self, at: At, host: Mapping[str, str]) -> dict[str, Any]:
        beside = {name: host[name] for name in ("group", "processes", "mark")}
        spec = spec_of(self.subject, at)
        reference_s = float(host.get("reference_s", 0.0))
        if self.subject.fit and reference_s and not is_unlimited(at):
            spec["timeout_s"] = min(spec["timeout_s"], self.subject.fit.slowest_s(reference_s))
        if traces := self.subject.traces:
            spec["argv"][-len(traces) :] = [f"cached={host['beside']}", host["copy"]]
        if self.subject.duet:
            spec["beside"] = spec_of(self.subject, _other(self, at))
        return {"spec": json.dumps(spec), **beside}


def declare(spec: Mapping[str, Any]) -> CommandExperiment:
    """The experiment of a stored or new subject. BadRequest says what is wrong with it."""
    try:
        subject = msgspec.convert(spec, Tried)
    except msgspec.ValidationError as error:
        raise BadRequest(f"this is not a command to try: {error}") from None
    if not subject.argv:
        raise BadRequest("name the command to try, after --")
    check_ready(subject)
    if not 0 < subject.timeout_s < math.inf:
        raise BadRequest(f"--timeout: {subject.timeout_s:g} s is not a time limit")
    if subject.for_s is not None:
        check_for(subject)
    if subject.latency_unit not in UNITS_NS:
        raise BadRequest(f"a latency is in {', '.join(UNITS_NS)}, not in {subject.latency_unit!r}")
    levels = subject.levels or {"lock": ["off"]}
    if subject.duet:
        check_duet(subject)
    words = [*subject.argv, *subject.serve]
    factors = [with_levels(factor_of(name, words), levels[name]) for name in levels]
    reads_used = bool(subject.fit and subject.fit.reads_used)
    metrics = [own_metric(metric) for metric in subject.metrics]
    names = list(levels)
    latencies = LATENCIES if subject.latency_file else ()
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
        factors=[*factors, _USED] if reads_used else factors,
        controls=[_USED_RUN] if reads_used else (),
        metrics=(*metrics, *latencies, *metrics_of(subject), *([READY] if subject.serve else [])),
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
        host=host_of(subject, set(names)),
        subject=subject,
    )
    stamps = [*map(file_stamp, experiment.copied)]
    object.__setattr__(experiment, "trace_stamps", stamps)
    names = [metric.name for metric in experiment.metrics]
    if subject.fit and subject.fit.metric not in names:
        hint = nearest(subject.fit.metric, names)
        if subject.fit.metric in {metric.name for metric in LATENCIES}:
            hint = "name the file of the command's latencies: --latencies FILE"
        raise BadRequest(f"--keep-within: no metric {subject.fit.metric!r}; {hint}")
    claims = [claim(experiment, number, text) for number, text in enumerate(subject.expect, 1)]
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
        cost = Cost(limit_s=subject.timeout_s + _SETUP_S)
        return replace(cost, reference=is_unlimited) if subject.fit else cost
    return Cost(time=lambda _: run_s, limit_s=run_s + _SETUP_S)


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
    """As in a shell; a placeholder needs no quotes here, as `{a,b}` and `{1..3}` do."""
    plain = re.compile(r"(?:[\w@%+=:,./-]|\{\w*\})+")
    return " ".join(word if plain.fullmatch(word) else shlex.quote(word) for word in words)


def _other(experiment: Experiment, at: At) -> At:
    """The other point of a duet."""
    others = {
        factor.name: next(
            (level for level in factor.quick if level != at[factor.name]), at[factor.name]
        )
        for factor in experiment.factors
    }
    return {name: others[name] for name in at}
