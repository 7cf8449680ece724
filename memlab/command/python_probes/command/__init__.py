"""command - what a user's own command takes, under the policies of one point.

Window: from the moment before execve(2) of the command to its end, as ../../launch.c times it.
Usage and counters are the command's and its descendants', not this process's. This process reads
the output, and /proc/PID/status of the command and its descendants every 10 ms, or less often where
that would take over 5 % of a CPU; where 600 readings are held, every other one is dropped and the
period doubles. A reading that takes over a second, as of thousands of processes, is given up.

Excluded: the fork, the policies, and the same launcher running a program that does nothing, which
comes first and is the floor.

A command that does not end is run for the time that is asked for. Its counters and its resident
memory are read then, which ends the window. It gets SIGTERM, and SIGKILL ten seconds later.

In the run of a fit that is not measured, a thread reads which memory is used again
(../../used_pages.py).

With a service the policies are the service's and so are the usage and the counters; the window is
the command's, which is the load. The service is started before it and ended after it.

In a duet the commands of both points run at the same time on one CPU, in the trial of the one that
comes first; what the other took is kept for its own trial, which runs nothing.

The command's standard input is empty and it has no terminal. What it prints is read as it comes;
the last 4 KiB are kept, and the last match of each metric. How it ended is an outcome: `failed`
(an exit status other than 0), `oom-killed`, `timeout`, `no-metric`, `unavailable` where a policy
was refused or did not stay in force (a lock, a limit and a CPU mask are looked at with the memory),
the signal that ended it, `not-ready`, `service-ended`, or `ended-early` before the time that is
asked for. What it leaves behind is killed.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memlab.command import lock_coverage
from memlab.command.python_probes.command.group import TrialGroup, processes_bound, word
from memlab.command.python_probes.command.launcher import (
    COUNTERS,
    STOP_WITHIN_S,
    Launched,
    attend,
    count,
    counters,
    in_force_of,
)
from memlab.command.python_probes.command.outcome import (
    bounded,
    command_ended,
    ended_early,
    oom_killed,
    refusal,
    timed_out,
)
from memlab.command.python_probes.command.output import (
    SAID,
    Output,
    WrittenFile,
    histogram,
    last_lines,
    numbers,
)
from memlab.command.python_probes.command.preloads import check_preloads, uncounted
from memlab.command.python_probes.command.replayed import bring_in, without_own
from memlab.command.python_probes.command.sampler import taken_by
from memlab.command.python_probes.command.service import Service
from memlab.observe import tracefs
from memlab.probe import Failed, Window

# What an allocator and ld.so print of options or libraries that they pass over.
_COMPLAINT = r"<jemalloc>: (Invalid|Malformed) conf|ERROR: ld\.so: |ld\.so: invalid GLIBC_TUNABLES"


@dataclass(frozen=True, slots=True)
class Params:
    spec: str  # JSON, as memlab/experiment/tried/spec.py makes it
    group: str  # the folder of the trial's memory cgroup; "" where it runs in none
    processes: str  # the cgroup that bounds the processes; "" where only RLIMIT_NPROC can
    mark: str  # NAME=VALUE in the environment of all that the command starts


def measure(params: Params) -> dict[str, Any]:
    spec = json.loads(params.spec)
    if result := _results.pop(spec["point"], None):
        return result
    _results.clear()
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    name, _, value = params.mark.partition("=")
    plain[name] = value
    environ = {**plain, **spec["environ"]}
    if spec["cpus"] > len(os.sched_getaffinity(0)):
        here = len(os.sched_getaffinity(0))
        raise Failed(f"needs {spec['cpus']} CPUs, and may use {here}", errno.EINVAL, "unavailable")
    group = TrialGroup(params.group, params.processes)
    bound = "" if params.processes or not os.getuid() else processes_bound(spec["processes"])
    bare = [spec["launch"], *word("nproc", bound), *word("tracepoint", _FLUSHES)]
    launch = [*bare, *_policies(spec, environ)]
    complaint = Output({}, _COMPLAINT)
    locks, nothing = bool(spec["preload"]), [spec["nothing"]]
    floor = Launched(launch, nothing, environ, spec["cwd"], complaint, locks=locks)
    if not attend([floor], lambda: floor.ended, STOP_WITHIN_S):
        raise Failed("a program that does nothing does not end", errno.ETIMEDOUT)
    if complaint.ready:
        raise Failed(last_lines(complaint.tail)[len(SAID) :], errno.EINVAL, "unavailable")
    if spec["memory_high"]:
        group.set_high(spec["memory_high"])
    if spec["drops_files"]:
        _drop_files([*spec["argv"], *spec["serve"]], Path(spec["cwd"]))
    if spec["cache"]:
        bring_in(spec["cache"], spec["argv"])
    output = Output(spec["metrics"])
    file, latencies = (
        WrittenFile(spec["cwd"], spec[name]) for name in ("metric_file", "latency_file")
    )
    load: dict[str, Any] = {}
    beside: tuple[Launched, Output] | None = None
    with Window() as window:
        try:
            if spec["serve"]:
                group.open_to_load()
                service = Service(spec, [*launch, *group.words()], environ, group)
                words = [*bare, *group.words(load=True)]
                ended = service.under(words, _without(plain, spec["not_for_load"]), output)
                subject, usage, load = service.launched, service.usage, service.result()
            else:
                subject = _started(spec, [*launch, *group.words()], environ, output, group)
                running = [subject]
                if spec["reads_used"]:
                    subject.used.start()
                usage, ended = {}, None
                if spec["for_s"]:
                    usage, ended = _run_for(spec, subject, output, group)
                if second := spec["beside"]:
                    theirs = {**plain, **second["environ"]}
                    words = [*bare, *_policies(second, theirs), *group.words()]
                    second_output = Output({})
                    beside = _started(second, words, theirs, second_output, group), second_output
                    running.append(beside[0])
                attend(
                    running, lambda: all(program.ended for program in running), spec["timeout_s"]
                )
                late = [program for program in running if not program.ended]
                for launched in running:
                    launched.stop(group)
                if subject in late:
                    ended = timed_out(spec, output, group)
                usage = subject.usage() | usage
        finally:
            group.kill()
    around = _Around(floor, group, window.measured)
    if beside:
        other, second_output = beside
        how = timed_out(second, second_output, group) if other in late else None
        load = {"kept": True}
        second_run = _Ran(second, other, second_output, other.usage(), load, how)
        _results[second["point"]] = _sample(second_run, around)
    written = _of_files(spec, file, latencies)
    return _sample(_Ran(spec, subject, output, usage, load, ended, written), around)


_results: dict[str, dict[str, Any]] = {}  # by the second of a duet, by its point


def _started(
    spec: dict[str, Any],
    words: Sequence[str],
    environ: dict[str, str],
    output: Output,
    group: TrialGroup,
) -> Launched:
    in_force, locks = in_force_of(spec, group), bool(spec["preload"])
    return Launched(words, spec["argv"], environ, spec["cwd"], output, in_force, locks=locks)


def _run_for(
    spec: dict[str, Any], subject: Launched, output: Output, group: TrialGroup
) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Run a command for a time, then end it. Returns what it took until then, which goes before
    what it took in all, and an outcome if it ended before."""
    attend([subject], lambda: subject.ended, spec["for_s"])
    if not subject.ended:
        handled, major, cpu_ns = taken_by(subject.pid)
        subject.memory.read_end(subject.pid)
        count(subject)
    if not subject.counters:
        return {}, ended_early(spec, subject.report, output.tail, group)
    subject.terminate()
    subject.stop(group)
    counted = subject.counters[-1]
    events, usage = counted["events"], subject.usage()
    cpu = events["cpu"]
    return {
        "elapsed_ns": counted["at_ns"] - counted["started_ns"],
        "user_ns": cpu_ns if cpu["errno"] else cpu["count"],  # and system's
        "system_ns": 0,
        "minor_fault_count": handled - major - subject.report["minor_before"],
        "major_fault_count": major,
        "counters": usage["counters"] | counters(events),
    }, None


def _policies(spec: dict[str, Any], environ: dict[str, str]) -> list[str]:
    """The launcher's words for the policies of a point."""
    libraries = [os.environ.get("LD_PRELOAD", ""), *spec["preload"]]
    if what := spec["needs_preload"]:
        check_preloads((spec["serve"] or spec["argv"])[0], environ, what)
    return [*spec["policies"], *word("preload", ":".join(filter(None, libraries)))]


def _of_files(spec: dict[str, Any], file: WrittenFile, latencies: WrittenFile) -> dict[str, Any]:
    """The numbers that the command wrote."""
    result: dict[str, Any] = {}
    if file.is_new():
        result["metrics"] = numbers(file.read(), spec["file_metrics"])
    if latencies.is_new():
        result["latency"] = histogram(latencies.read(), spec["latency_ns"])
    return result


@dataclass(frozen=True, slots=True)
class _Ran:
    """One run of a command, or of a service under its load."""

    spec: dict[str, Any]
    subject: Launched
    output: Output
    usage: dict[str, Any]
    load: dict[str, Any]
    ended: dict[str, str] | None
    written: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Around:
    """What the runs of one window share."""

    floor: Launched
    group: TrialGroup
    measured: dict[str, Any]


def _sample(ran: _Ran, around: _Around) -> dict[str, Any]:
    """What is kept of a run."""
    spec, subject, group, load = ran.spec, ran.subject, around.group, ran.load
    result = {
        "floor": around.floor.report,
        **subject.report,
        **subject.memory.series(),
        **group.readings(),
        **load,
        "output": ran.output.tail,
        "missing": _missing(group, subject.report) | subject.memory.pss.missing(),
        **ran.written,
        **({"used_pages": subject.used.readings()} if spec["reads_used"] else {}),
        "metrics": ran.output.metrics | ran.written.get("metrics", {}),
    }
    if spec["environ"].get("MEMLAB_LOCK", "").startswith("future") and not spec["cache"]:
        locked_bytes = subject.memory.in_force.locked_bytes
        result["lock_unread"] = lock_coverage.unread_share(
            subject.report, subject.pid, locked_bytes
        )
    counters = around.measured["counters"] | ran.usage.pop("counters")
    if why := uncounted((spec["serve"] or spec["argv"])[0], {**os.environ, **spec["environ"]}):
        counters |= {name: {"count": None, "error": "EPERM"} for name in COUNTERS}
        ended_counters = f"the kernel ends its counters: the program {why}"
        result["missing"] |= dict.fromkeys(("faults", "tlb_remote_sent"), ended_counters)
    if spec["cache"]:
        counters["trapped"] = without_own(
            counters["trapped"], ran.output.tail, subject.report["events"]["faults"]["of_user"]
        )
    own_cpu = {"cpu_at_open": -1, "cpu_at_close": -1}  # it may have run on several
    window = around.measured | ran.usage | own_cpu | {"counters": counters}
    printed = load.get("service_output", result["output"])
    refused = refusal(spec, subject, printed)
    kills = group.oom_kills()  # once: a second count may have one more
    if refused is None and kills:
        refused = oom_killed(spec, result, group, printed)
    ended = refused or ran.ended
    ended = ended or command_ended(
        spec, load.get("load") or subject.report, result, kills, bounded(spec, group)
    )
    return {"window": window, **result, "ended": ended}


def _drop_files(words: Sequence[str], folder: Path) -> None:
    """Take the program and the files that its words name (FILE, --option=FILE) out of the page
    cache, so that what is read of them is charged to the trial. What others map or what is dirty
    for them stays (posix_fadvise(2))."""
    parts = [part for word in words for part in (word, word.partition("=")[2]) if part]
    paths = {folder / part for part in parts}
    paths |= {Path(program) for word in words if (program := shutil.which(word))}
    for path in paths:
        with suppress(OSError, ValueError):
            if not path.is_file():
                continue
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                os.fdatasync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def _flushes() -> str:
    """The number of the tracepoint of TLB flushes; "" where it may not be read."""
    with suppress(OSError), tracefs.opened() as events:
        return str(events.number("tlb:tlb_flush"))
    return ""


_FLUSHES = _flushes()  # once, as the fork server imports this: tracefs takes milliseconds to close


def _without(environ: dict[str, str], prefixes: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(tuple(prefixes))}


def _missing(group: TrialGroup, report: dict[str, Any]) -> dict[str, str]:
    """The metrics that this host does not offer, and why not."""
    missing = dict(group.missing)
    if not os.path.exists("/proc/pressure/memory"):  # noqa: PTH110
        missing["stalled"] = "this kernel counts no pressure (CONFIG_PSI)"
    if failed := report["events"]["shootdowns"]["errno"]:
        missing["tlb_remote_sent"] = f"perf's tlb:tlb_flush: {os.strerror(failed)}"
    if failed := report["events"]["faults"]["errno"]:
        missing["faults"] = f"perf_event_open: {os.strerror(failed)}"
    if not report["io"]:
        missing["read"] = missing["written"] = "/proc/PID/io may not be read"
    return missing
