"""command - what a user's own command takes, under the policies of one point.

Window: from the moment before execve(2) of the command to its end, as ../launch.c times it.
Usage and counters are the command's and its descendants', not this process's. This process reads
the output, and /proc/PID/status of the command and its descendants every 10 ms, or less often where
that would take over 5 % of a CPU; where 600 readings are held, every other one is dropped and the
period doubles. A reading that takes over a second, as of thousands of processes, is given up.

Excluded: the fork, the policies, and the same launcher running a program that does nothing, which
comes first and is the floor.

A command that does not end is run for the time that is asked for. Its counters and its resident
memory are read then, which ends the window. It gets SIGTERM, and SIGKILL ten seconds later.

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
import math
import os
import re
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memlab.analysis.histogram import index_of
from memlab.command import bus_error
from memlab.observe import tracefs
from memlab.observe.in_force import InForce
from memlab.probe import Failed, Window
from memlab.run import cleanup
from memlab.text.printable import signal_name

_READ_EVERY_S, _MOST_READINGS = 0.01, 600
_READING_SHARE = 0.05  # of a CPU, at most
_READING_WITHIN_S = 1.0  # or the time limit would wait for the reading
_PSS_SHARE = 0.01  # of the time, at most: calls of the program that map memory wait meanwhile
_DYING_S = 0.05  # after the counters are read, so that no metric has it
_READY_EVERY_S, _READY_WITHIN_S = 0.001, 60.0
_ANSWER_WITHIN_S = 1.0  # to be ready by HTTP
_STOP_WITHIN_S = 10.0  # from SIGTERM on; then the service is killed
_TAIL_BYTES = 4096
_MOST_PIECES = 16  # of 64 KiB: more than a pipe holds, less than what prints for ever
_LONGEST_LINE_BYTES = 65536  # of the output: a longer line is searched for metrics in pieces
_MOST_FILE_BYTES = 64 << 20  # of a file that the command writes
_LOCK_REFUSED = 121  # ../lock.c
_SCRIPTS = 4  # that name one another as interpreters: execve(2) follows no more
_READINGS_OF_NO_LOCK = 10  # in fewer, a program that another one started may not have begun
_REFUSED_POLICIES = ("setrlimit", "setpriority", "personality", "prctl")
# What an allocator and ld.so print of options or libraries that they pass over.
_COMPLAINT = r"<jemalloc>: (Invalid|Malformed) conf|ERROR: ld\.so: |ld\.so: invalid GLIBC_TUNABLES"
_SAID = "; it said: "
_PEAKS = ("memory.peak", "memory.max_usage_in_bytes")  # v2 since Linux 5.19; v1
_SERIES = {  # fields of proc_pid_status(5)
    "rss": (b"VmRSS",),
    "anonymous": (b"RssAnon", b"VmSwap"),
    "locked": (b"VmLck",),
    "swapped": (b"VmSwap",),
}
_COUNTERS = {"trapped": "faults", "migrations": "migrations", "tlb_remote_sent": "shootdowns"}


@dataclass(frozen=True, slots=True)
class Params:
    spec: str  # JSON, as memlab/experiment/tried/spec.py makes it
    group: str  # the folder of the trial's memory cgroup; "" where it runs in none
    processes: str  # the cgroup that bounds the processes; "" where only RLIMIT_NPROC can
    mark: str  # NAME=VALUE in the environment of all that the command starts


def measure(params: Params) -> dict[str, Any]:
    spec = json.loads(params.spec)
    if taken := _taken.pop(spec["point"], None):
        return taken
    _taken.clear()
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    name, _, value = params.mark.partition("=")
    plain[name] = value
    environ = {**plain, **spec["environ"]}
    if spec["cpus"] > len(os.sched_getaffinity(0)):
        here = len(os.sched_getaffinity(0))
        raise Failed(f"needs {spec['cpus']} CPUs, and may use {here}", errno.EINVAL, "unavailable")
    group = _Group(params.group, params.processes)
    bound = "" if params.processes or not os.getuid() else _processes_bound(spec["processes"])
    bare = [spec["launch"], *_word("nproc", bound), *_word("tracepoint", _FLUSHES)]
    launch = [*bare, *_policies(spec, environ)]
    complaint = _Output({}, _COMPLAINT)
    locks, nothing = bool(spec["preload"]), [spec["nothing"]]
    floor = _Launched(launch, nothing, environ, spec["cwd"], complaint, locks=locks)
    if not _attend([floor], lambda: floor.ended, _STOP_WITHIN_S):
        raise Failed("a program that does nothing does not end", errno.ETIMEDOUT)
    if complaint.ready:
        raise Failed(_last_lines(complaint.tail)[len(_SAID) :], errno.EINVAL, "unavailable")
    if spec["memory_high"]:
        group.set_high(spec["memory_high"])
    if spec["drops_files"]:
        _drop_files([*spec["argv"], *spec["serve"]], Path(spec["cwd"]))
    output = _Output(spec["metrics"])
    file, latencies = (
        _WrittenFile(spec["cwd"], spec[name]) for name in ("metric_file", "latency_file")
    )
    load: dict[str, Any] = {}
    beside: tuple[_Launched, _Output] | None = None
    with Window() as window:
        try:
            if spec["serve"]:
                group.open_to_load()
                service = _Service(spec, [*launch, *group.words()], environ, group)
                words = [*bare, *group.words(load=True)]
                ended = service.under(words, _without(plain, spec["not_for_load"]), output)
                subject, usage, load = service.launched, service.usage, service.result()
            else:
                subject = _started(spec, [*launch, *group.words()], environ, output, group)
                running = [subject]
                usage, ended = {}, None
                if spec["for_s"]:
                    usage, ended = _run_for(spec, subject, output, group)
                if second := spec["beside"]:
                    theirs = {**plain, **second["environ"]}
                    words = [*bare, *_policies(second, theirs), *group.words()]
                    said = _Output({})
                    beside = _started(second, words, theirs, said, group), said
                    running.append(beside[0])
                _attend(running, lambda: all(one.ended for one in running), spec["timeout_s"])
                late = [one for one in running if not one.ended]
                for one in running:
                    one.stop(group)
                if subject in late:
                    ended = _timed_out(spec, output, group)
                usage = subject.usage() | usage
        finally:
            group.kill()
    around = _Around(floor, group, window.measured)
    if beside:
        other, said = beside
        how = _timed_out(second, said, group) if other in late else None
        load = {"kept": True}
        second_run = _Ran(second, other, said, other.usage(), load, how)
        _taken[second["point"]] = _sample(second_run, around)
    written = _of_files(spec, file, latencies)
    return _sample(_Ran(spec, subject, output, usage, load, ended, written), around)


_taken: dict[str, dict[str, Any]] = {}  # by the second of a duet, by its point


def _started(
    spec: dict[str, Any],
    words: Sequence[str],
    environ: dict[str, str],
    output: _Output,
    group: _Group,
) -> _Launched:
    held, locks = _held(spec, group), bool(spec["preload"])
    return _Launched(words, spec["argv"], environ, spec["cwd"], output, held, locks=locks)


def _run_for(
    spec: dict[str, Any], subject: _Launched, output: _Output, group: _Group
) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Run a command for a time, then end it. Returns what it took until then, which goes before
    what it took in all, and an outcome if it ended before."""
    _attend([subject], lambda: subject.ended, spec["for_s"])
    if not subject.ended:
        handled, major, cpu_ns = _taken_by(subject.pid)
        subject.read_end()
        _count(subject)
    if not subject.counters:
        how = f"{_how_it_ended(subject.report)} within the {spec['for_s']:g} s of --for"
        detail = f"{how}: name a shorter time, or leave it out{_last_lines(output.tail)}"
        return {}, {"outcome": "ended-early", "detail": detail}
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
        "counters": usage["counters"] | _counters(events),
    }, None


def _policies(spec: dict[str, Any], environ: dict[str, str]) -> list[str]:
    """The launcher's words for the policies of a point."""
    libraries = [os.environ.get("LD_PRELOAD", ""), *spec["preload"]]
    if spec["preload"]:
        _check_preloads((spec["serve"] or spec["argv"])[0], environ)
    return [*spec["policies"], *_word("preload", ":".join(filter(None, libraries)))]


def _of_files(spec: dict[str, Any], file: _WrittenFile, latencies: _WrittenFile) -> dict[str, Any]:
    """The numbers that the command wrote."""
    found: dict[str, Any] = {}
    if file.is_new():
        found["metrics"] = _numbers(file.read(), spec["file_metrics"])
    if latencies.is_new():
        found["latency"] = _histogram(latencies.read(), spec["latency_ns"])
    return found


@dataclass(frozen=True, slots=True)
class _Ran:
    """One run of a command, or of a service under its load."""

    spec: dict[str, Any]
    subject: _Launched
    output: _Output
    usage: dict[str, Any]
    load: dict[str, Any]
    ended: dict[str, str] | None
    written: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Around:
    """What the runs of one window share."""

    floor: _Launched
    group: _Group
    measured: dict[str, Any]


def _sample(ran: _Ran, around: _Around) -> dict[str, Any]:
    """What is kept of a run."""
    spec, subject, group, load = ran.spec, ran.subject, around.group, ran.load
    result = {
        "floor": around.floor.report,
        **subject.report,
        **subject.series(),
        **group.readings(),
        **load,
        "output": ran.output.tail,
        "missing": _missing(group, subject.report) | subject.pss.missing(),
        **ran.written,
        "metrics": ran.output.found | ran.written.get("metrics", {}),
    }
    counters = around.measured["counters"] | ran.usage.pop("counters")
    own_cpu = {"cpu_at_open": -1, "cpu_at_close": -1}  # it may have run on several
    window = around.measured | ran.usage | own_cpu | {"counters": counters}
    said = load.get("service_output", result["output"])
    refused = _refused(spec, subject, _last_lines(said))
    if refused is None and group.oom_kills():
        peak = (result["group_peak_bytes"] or result["rss_peak_bytes"] or 0) / 2**20
        detail = f"the kernel's OOM killer ended it at {peak:.1f} MiB{_last_lines(said)}"
        refused = {"outcome": "oom-killed", "detail": detail}
    ended = refused or ran.ended
    ended = ended or _command_ended(spec, load.get("load") or subject.report, result)
    return {"window": window, **result, "ended": ended}


def _drop_files(words: Sequence[str], folder: Path) -> None:
    """Take the program and the files that its words name (FILE, --option=FILE) out of the page
    cache, so that what is read of them is charged to the trial. What others map or what is dirty
    for them stays (posix_fadvise(2))."""
    parts = [part for word in words for part in (word, word.partition("=")[2]) if part]
    paths = {folder / part for part in parts}
    paths |= {Path(found) for word in words if (found := shutil.which(word))}
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


def _held(spec: dict[str, Any], group: _Group) -> InForce:
    """What the level asks for and a program could undo."""
    cpus = frozenset(os.sched_getaffinity(0)) if spec["cpus"] else frozenset[int]()
    folder = group.folder if spec["limited"] else ""
    return InForce(spec["environ"].get("MEMLAB_LOCK", ""), folder, cpus)


def _flushes() -> str:
    """The number of the tracepoint of TLB flushes; "" where it may not be read."""
    with suppress(OSError), tracefs.opened() as events:
        return str(events.number("tlb:tlb_flush"))
    return ""


_FLUSHES = _flushes()  # once, as the fork server imports this: tracefs takes milliseconds to close


def _check_preloads(word: str, environ: dict[str, str]) -> None:
    """ld.so(8): a static program preloads nothing, and neither does a set-user-ID one of another
    user. Of a script that holds for its interpreter, which may be a script too (execve(2))."""
    path = shutil.which(word, path=environ.get("PATH")) or word
    for _ in range(_SCRIPTS + 1):
        try:
            status = os.stat(path)  # noqa: PTH116
            if not stat.S_ISREG(status.st_mode):
                return
            file = open(path, "rb")  # noqa: SIM115
        except OSError:
            return  # the launcher says why it cannot start
        with file:
            head = file.read(1 << 16)
        interpreter = head[2:].split(b"\n", 1)[0].split()[:1] if head[:2] == b"#!" else []
        if not interpreter:
            break
        path = word = os.fsdecode(interpreter[0])
    if status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid():
        raise Failed(f"{word} is set-user-ID, and preloads no lock", errno.EPERM, "unavailable")
    if head[:4] == b"\x7fELF" and not _has_interpreter(head):
        raise Failed(f"{word} is static, and preloads no lock", errno.ENOEXEC, "unavailable")


def _has_interpreter(head: bytes) -> bool:
    """Whether an ELF file names a dynamic linker (PT_INTERP, elf(5)); 64 bits, little end first."""
    offset, size, number = (
        int.from_bytes(head[at : at + length], "little")
        for at, length in ((32, 8), (54, 2), (56, 2))
    )
    types = (head[offset + i * size : offset + i * size + 4] for i in range(number))
    return any(int.from_bytes(kind, "little") == 3 for kind in types)


def _word(name: str, value: str) -> list[str]:
    return [f"{name}={value}"] if value else []


class _Launched:
    """A launcher with its command. `report` is the launcher's, whole once it has `ended`."""

    _taken = -1  # where ../lock.c says that it took its lock
    _lock_taken = False

    def __init__(
        self,
        launch: Sequence[str],
        argv: Sequence[str],
        environ: dict[str, str],
        cwd: str,
        output: _Output | None,
        held: InForce | None = None,
        *,
        locks: bool = False,
    ) -> None:
        """Without `output` what the command prints is lost, and its memory is not read. `held` is
        what its processes are to be held to; with `locks` ../lock.c says when it took its
        lock."""
        self._output, self.held = output, held or InForce()
        self._report, report = os.pipe()
        asked, self._asking = os.pipe()
        theirs = [report, asked]
        if locks:
            self._taken, taken = os.pipe()
            os.set_blocking(self._taken, False)
            environ = {**environ, "MEMLAB_LOCK_TAKEN": str(taken)}
            theirs.append(taken)
        said = subprocess.PIPE if output else subprocess.DEVNULL
        self._process = subprocess.Popen(
            [launch[0], f"report={report}", f"asked={asked}", *launch[1:], "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT if output else subprocess.DEVNULL,
            env=environ,
            cwd=cwd,
            pass_fds=theirs,
        )
        for descriptor in theirs:
            os.close(descriptor)
        self.waiting = [self._report]
        if self._process.stdout:
            self.waiting.append(self._process.stdout.fileno())
            os.set_blocking(self._process.stdout.fileno(), False)
        self.report: dict[str, Any] = {}
        self.pid = 0
        self._text = b""
        self.begin()

    def begin(self) -> None:
        """Hold nothing that was read of it."""
        self.counters: list[dict[str, Any]] = []  # an answer for each time that they were asked for
        self.next_s = self._started_s = time.monotonic()
        self._period_s = _READ_EVERY_S
        self._at_ns: list[int] = []
        self._values: dict[str, list[int]] = {name: [] for name in _SERIES}
        self._peak_processes = 1
        self._unlocked = 0  # readings since the lock was taken
        self._end_bytes: int | None = None
        self.pss = _Pss()

    @property
    def ended(self) -> bool:
        return "elapsed_ns" in self.report

    def ask(self) -> None:
        """Have the launcher say the counters as they are now."""
        with suppress(BrokenPipeError):  # it has just ended
            os.write(self._asking, b"?")

    def attend(self, ready: Sequence[int]) -> None:
        """Read what is to be had from these descriptors, and the memory where that is due."""
        for descriptor in ready:
            if descriptor not in self.waiting:
                continue
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                self.waiting.remove(descriptor)
            if descriptor == self._report:
                self._hear(piece)
            elif self._output:
                self._output.add(piece)
        now_s, cpu_s = time.monotonic(), time.thread_time()
        if now_s >= self.next_s and not self.ended:
            if self._output and self.pid:
                self._read_memory(now_s - self._started_s)
                if len(self._at_ns) >= _MOST_READINGS:
                    self._thin()
                    self._period_s *= 2
            cost_s = time.thread_time() - cpu_s  # and not what others had of the CPU meanwhile
            self.next_s = now_s + max(self._period_s, cost_s / _READING_SHARE)

    def _hear(self, piece: bytes) -> None:
        if not piece and not self.ended:
            # One of its two processes was killed: the other one ends what the command has started.
            self._await_launcher()
            raise Failed("the launcher ended without a report", errno.ECHILD)
        *lines, self._text = (self._text + piece).split(b"\n")
        for line in map(json.loads, lines):
            if "pid" in line:
                self.pid = line["pid"]
            elif "at_ns" in line:
                self.counters.append(line)
            else:
                self.report = line
                self._let_go()

    def _await_launcher(self) -> None:
        """Wait until it has ended, and with it all that the command started."""
        self._process.send_signal(signal.SIGCONT)  # the command may have stopped it
        try:
            self._process.wait(2 * _STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _let_go(self) -> None:
        """What the command had printed before it ended. A descendant that lives on may hold the
        pipe open, so nothing is waited for."""
        out = self._process.stdout
        if out is not None and self._output is not None:
            with suppress(BlockingIOError):
                for _ in range(_MOST_PIECES):
                    self._output.add(os.read(out.fileno(), 1 << 16))
            self._output.end()
            out.close()
        self._await_launcher()
        for descriptor in (self._report, self._asking, self._taken):
            if descriptor >= 0:
                os.close(descriptor)
        self.waiting = []

    def stop(self, group: _Group) -> None:
        """End at once what runs still."""
        if not self.ended:
            with _going_first():
                if self.pid:  # it leads a session: all that stayed in it at once, forks too
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(self.pid, signal.SIGKILL)
                group.kill()
                self._kill_tree()
                self._process.send_signal(signal.SIGCONT)  # the command may have stopped it
                if not _attend([self], lambda: self.ended, _STOP_WITHIN_S):
                    raise Failed("the command does not end when it is killed", errno.ETIMEDOUT)

    def terminate(self) -> None:
        """Ask it to end, and wait for that."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        _attend([self], lambda: self.ended, _STOP_WITHIN_S)

    def _kill_tree(self) -> None:
        """Kill what it started, where no cgroup holds it: stopped first, so that none forks."""
        if not self.pid:
            self._process.kill()
            return
        stopped: set[int] = set()
        while new := set(_tree(self.pid)) - stopped:
            for pid in new:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped |= new
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def unlocked_readings(self) -> int:
        """How often nothing was locked after the lock was taken; 0 where it was seen once."""
        return 0 if any(self._values["locked"]) else self._unlocked

    def _took_lock(self) -> bool:
        if self._taken >= 0 and not self._lock_taken:
            with suppress(BlockingIOError):
                self._lock_taken = bool(os.read(self._taken, 1))
        return self._lock_taken

    def _read_memory(self, elapsed_s: float) -> None:
        sums, took_lock = dict.fromkeys(self._values, 0), self._took_lock()
        until_s = time.monotonic() + _READING_WITHIN_S
        processes: list[int] = []
        statuses: dict[int, dict[bytes, int]] = {}
        for pid in _tree(self.pid):
            if time.monotonic() > until_s:
                self._peak_processes = max(self._peak_processes, len(processes))
                return
            processes.append(pid)
            statuses[pid] = _status(pid)
        self.held.look(statuses)
        for status in statuses.values():
            for name, keys in _SERIES.items():
                sums[name] += sum(status.get(key, 0) for key in keys)
        if not any(sums.values()):
            return  # it has ended, or has not begun
        self._peak_processes = max(self._peak_processes, len(processes))
        self._at_ns.append(int(elapsed_s * 1e9))
        self._unlocked += took_lock
        for name, values in self._values.items():
            values.append(sums[name])
        self.pss.read(processes, until_s)

    def read_end(self) -> None:
        """Read the memory now, as the last before it is ended."""
        self._read_memory(time.monotonic() - self._started_s)
        if self._at_ns:
            self._end_bytes = self._values["rss"][-1]

    def _thin(self) -> None:
        """Drop every other reading; what was the highest so far stays the highest."""
        peaks = {name: values.index(max(values)) for name, values in self._values.items()}
        kept = sorted({*range(0, len(self._at_ns), 2), *peaks.values()})
        self._at_ns = [self._at_ns[index] for index in kept]
        for name, values in self._values.items():
            self._values[name] = [values[index] for index in kept]

    def series(self) -> dict[str, Any]:
        """As support/series.h makes one: when, how much, and how many had no room."""
        made: dict[str, Any] = {
            f"{name}_bytes": {"at_ns": list(self._at_ns), "values": values, "lost": 0}
            for name, values in self._values.items()
        }
        return made | {
            "process_count": self._peak_processes,
            "pss_peak_bytes": self.pss.peak_bytes,
            "end_rss_bytes": self._end_bytes,
        }

    def usage(self) -> dict[str, Any]:
        """The window as the command's: this process only waited."""
        report = self.report
        return {
            "elapsed_ns": report["elapsed_ns"],
            "user_ns": report["user_ns"],
            "system_ns": report["system_ns"],
            "minor_fault_count": report["minor"] - report["minor_before"],
            "major_fault_count": report["major"],
            **self.usage_beside(report["events"]),
        }

    def usage_beside(self, events: dict[str, Any]) -> dict[str, Any]:
        """The part of it that a service has over its load too, whose `events` these are."""
        report, locked = self.report, max(self._values["locked"], default=0)
        others = {
            "rss_peak_bytes": {"count": report["rss_peak_bytes"], "error": None},
            "vm_locked_bytes": {"count": locked, "error": None},
        }
        return {
            "voluntary_switch_count": report["voluntary"],
            "involuntary_switch_count": report["involuntary"],
            "counters": _counters(events) | others,
        }


class _Pss:
    """The peak of the proportional memory of some processes: of a page that several share, each
    has its part (proc_pid_smaps(5)). The kernel walks the page tables for it, which it does not
    for /proc/PID/status, so it is read less often. It waits for the lock of the memory for each
    mapping (show_smaps_rollup, fs/proc/task_mmu.c): of one of thousands that fork, that was
    minutes. So a thread waits, and the time limit holds."""

    def __init__(self) -> None:
        self.peak_bytes: int | None = None
        self._next_s = 0.0
        self._why = ""
        self._reading: threading.Thread | None = None

    def read(self, processes: Sequence[int], until_s: float) -> None:
        """Return then at the latest, and leave a reading that takes longer to itself."""
        now_s = time.monotonic()
        if now_s < self._next_s or (self._reading and self._reading.is_alive()):
            return
        reading = threading.Thread(target=self._read, args=(processes, until_s), daemon=True)
        try:
            reading.start()
        except RuntimeError:  # the user's processes are as many as may be: RLIMIT_NPROC
            return
        self._reading = reading
        reading.join(None if until_s == math.inf else max(0.0, until_s - now_s))

    def _read(self, processes: Sequence[int], until_s: float) -> None:
        now_s, cpu_s, now_bytes = time.monotonic(), time.thread_time(), 0
        try:
            for pid in processes:
                if time.monotonic() > until_s:
                    return
                now_bytes += _pss_bytes(pid)
        except (FileNotFoundError, ProcessLookupError):
            return  # one of them has ended
        except OSError as error:
            self.peak_bytes, self._next_s = None, math.inf
            self._why = f"/proc/PID/smaps_rollup: {error.strerror}"
            return
        self.peak_bytes = max(self.peak_bytes or 0, now_bytes)
        self._next_s = now_s + (time.thread_time() - cpu_s) / _PSS_SHARE

    def missing(self) -> dict[str, str]:
        return {"peak_pss": self._why} if self._why else {}


def _attend(
    all_of: Sequence[_Launched],
    until: Callable[[], bool],
    limit_s: float,
    every_s: float = math.inf,
) -> bool:
    """Read what they print and their memory until then, which is looked at each time that there is
    something to read, and every `every_s`. False if the time is up before."""
    deadline = time.monotonic() + limit_s
    while not until():
        now = time.monotonic()
        if now >= deadline:
            return False
        waiting = [descriptor for one in all_of for descriptor in one.waiting]
        due = min([deadline, now + every_s, *(one.next_s for one in all_of if not one.ended)])
        ready, _, _ = select.select(waiting, [], [], max(0.0, due - now))
        for one in all_of:
            one.attend(ready)
    return True


class _Service:
    """The service that a load is put on: it has the policies, and it is what is measured."""

    def __init__(
        self,
        spec: dict[str, Any],
        launch: Sequence[str],
        environ: dict[str, str],
        group: _Group,
    ) -> None:
        with socket.socket() as free:  # closed before the service binds it
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])
        self._spec, self._group = spec, group
        ready = self._filled([spec["ready"]])[0]
        self._kind, _, self._address = ready.partition(":")
        if self._kind == "http":
            self._address = ready
        self._output = _Output({}, self._address if self._kind == "line" else None)
        words, locks = self._filled(spec["serve"]), bool(spec["preload"])
        held = _held(spec, group)
        self.launched = _Launched(
            launch, words, environ, spec["cwd"], self._output, held, locks=locks
        )
        self._ready_ns: int | None = None
        self.usage: dict[str, Any] = {"counters": {}}
        self._handled: list[tuple[int, int]] = []
        self._load: dict[str, Any] | None = None

    def _filled(self, words: Sequence[str]) -> list[str]:
        return [word.replace("{port}", self._port) for word in words]

    def under(
        self, launch: Sequence[str], environ: dict[str, str], output: _Output
    ) -> dict[str, str] | None:
        """Put the load on it once it is ready, then end it. An outcome if that went wrong."""
        try:
            outcome = self._await() or self._loaded(launch, environ, output)
        finally:
            if not self.launched.ended:
                self.launched.terminate()
                self.launched.stop(self._group)
        self._measure()
        return outcome

    def _await(self) -> dict[str, str] | None:
        service, within_s = self.launched, min(self._spec["timeout_s"], _READY_WITHIN_S)
        if not _attend([service], lambda: service.ended or self._ready(), within_s, _READY_EVERY_S):
            return self._wrong("not-ready", f"not ready after {within_s:g} s")
        if service.ended:
            return self._wrong("not-ready", f"{_how_it_ended(service.report)} before it was ready")
        self._ready_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        return None

    def _loaded(
        self, launch: Sequence[str], environ: dict[str, str], output: _Output
    ) -> dict[str, str] | None:
        service, spec = self.launched, self._spec
        self._count()
        load = _Launched(launch, self._filled(spec["argv"]), environ, spec["cwd"], output)
        timely = _attend([service, load], lambda: load.ended or service.ended, spec["timeout_s"])
        self._count()
        # A load that loses its service may end before the service's own end is reported.
        died = service.ended or _attend([service], lambda: service.ended, _DYING_S)
        load.stop(self._group)
        self._load = load.report
        if died:
            return self._wrong("service-ended", f"{_how_it_ended(service.report)} under the load")
        return None if timely else _timed_out(spec, output, self._group)

    def _wrong(self, outcome: str, how: str) -> dict[str, str]:
        detail = f"the service: {how}{_last_lines(self._output.tail, 3)}"
        return {"outcome": outcome, "detail": detail}

    def _ready(self) -> bool:
        if self._kind == "line":
            return self._output.ready
        if self._kind == "http":
            return _answers(self._address)
        unix = self._kind == "unix"
        with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as asking:
            asking.settimeout(_READY_EVERY_S)
            try:
                asking.connect(self._address if unix else ("127.0.0.1", int(self._address)))
            except OSError:
                return False
        return True

    def _count(self) -> None:
        self._handled.append(self._group.handled() or _taken_by(self.launched.pid)[:2])
        _count(self.launched)

    def _measure(self) -> None:
        """The window: the service's counters while the load ran."""
        both = [line["events"] for line in self.launched.counters]
        if len(both) != 2 or self._load is None:
            return
        handled, major = (b - a for a, b in zip(*self._handled, strict=True))
        events: dict[str, Any] = {
            name: {"count": after["count"] - before["count"], "errno": after["errno"]}
            for (name, before), after in zip(both[0].items(), both[1].values(), strict=True)
        }
        self.usage = {
            "elapsed_ns": self._load["elapsed_ns"],
            "user_ns": events["cpu"]["count"],  # and system's: perf's task clock has both
            "system_ns": 0,
            "minor_fault_count": handled - major,
            "major_fault_count": major,
            **self.launched.usage_beside(events),
        }

    def result(self) -> dict[str, Any]:
        """What the sample keeps of it beside what a command's has."""
        began_ns = self.launched.report["started_ns"]
        return {
            "load": self._load,
            "ready_ns": None if self._ready_ns is None else self._ready_ns - began_ns,
            "service_output": self._output.tail,
        }


def _count(launched: _Launched) -> None:
    """Have the launcher add its counters as they are, unless the command ends meanwhile."""
    known = len(launched.counters)
    if not launched.ended:
        launched.ask()
    if not _attend(
        [launched], lambda: launched.ended or len(launched.counters) > known, _STOP_WITHIN_S
    ):
        raise Failed("the launcher does not say its counters", errno.ETIMEDOUT)


def _taken_by(pid: int) -> tuple[int, int, int]:
    """Page faults, those of them that read from storage, and nanoseconds of processor time: of a
    process, of its living descendants and of all whose end was waited for (proc_pid_stat(5))."""
    all_of = major = ticks = 0
    for one in _tree(pid):
        with suppress(OSError), open(f"/proc/{one}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
            minor_own, minor_waited, major_own, major_waited = map(int, fields[7:11])
            major += major_own + major_waited
            all_of += minor_own + minor_waited + major_own + major_waited
            ticks += sum(map(int, fields[11:15]))
    return all_of, major, ticks * 10**9 // os.sysconf("SC_CLK_TCK")


def _answers(url: str) -> bool:
    """Whether a GET has a status of 200 to 399; what it redirects to is not asked."""
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    asking = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_ANSWER_WITHIN_S)
    try:
        asking.request("GET", parts._replace(scheme="", netloc="").geturl() or "/")
        return 200 <= asking.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asking.close()


class _Output:
    """What is printed: its end, the last match of each metric in its lines, and whether a line of
    it matches `ready`."""

    def __init__(self, metrics: dict[str, str], ready: str | None = None) -> None:
        self._patterns = {name: re.compile(text.encode()) for name, text in metrics.items()}
        self._ready = None if ready is None else re.compile(ready.encode())
        self.ready = False
        self.found: dict[str, float] = {}
        self._tail = b""
        self._line = b""

    @property
    def tail(self) -> str:
        return self._tail.decode(errors="replace")

    def add(self, piece: bytes) -> None:
        self._tail = (self._tail + piece)[-_TAIL_BYTES:]
        if not self._patterns and self._ready is None:
            return
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            self._search(line)
        if len(self._line) > _LONGEST_LINE_BYTES:
            self.end()

    def end(self) -> None:
        self._search(self._line)
        self._line = b""

    def _search(self, line: bytes) -> None:
        if self._ready is not None:
            self.ready = self.ready or self._ready.search(line) is not None
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(line):
                with suppress(ValueError):
                    found = match[1] if match.groups() else match[0]
                    value = float((found or b"").decode())  # a group may be left out
                    if _is_number(value):
                        self.found[name] = value


class _Group:
    """The trial's memory cgroup, of v1 or v2, and the one that bounds its processes. The command or
    the service is in the first of the groups inside, a load in the second."""

    def __init__(self, folder: str, processes: str) -> None:
        self._outer, self._processes = folder, processes
        self._folder, self._load = (f"{folder}/{n}" if folder else "" for n in (0, 1))
        self._killed = self._count() if folder else 0
        self._refused = self._refusals()
        self._stalled = self._stalls()
        self.missing: dict[str, str] = {} if folder else {"peak_group": "needs a memory cgroup"}

    def words(self, *, load: bool = False) -> list[str]:
        """The launcher's words to enter them."""
        memory = self._load if load else self._folder
        within = self._processes == self._outer  # v2 has one hierarchy
        return [*_word("group", memory), *_word("group", "" if within else self._processes)]

    @property
    def folder(self) -> str:
        """Of the trial, "" where there is none."""
        return self._outer

    def set_high(self, limit_bytes: int) -> None:
        """The group is this trial's own, so nothing is put back."""
        try:
            with open(f"{self._folder}/memory.high", "w") as file:
                file.write(str(limit_bytes))
        except OSError as error:
            why = "memory.high needs cgroup v2 with the memory controller"
            raise Failed(why, error.errno or errno.ENOENT, "unavailable") from None

    def open_to_load(self) -> None:
        """A load has the outer group's limit alone: memory_max is the service's."""
        for name, none in (
            ("memory.memsw.limit_in_bytes", "-1"),
            ("memory.limit_in_bytes", "-1"),
            ("memory.max", "max"),
        ):
            with suppress(OSError), open(f"{self._load}/{name}", "w") as file:
                file.write(none)

    def kill(self) -> None:
        for folder in filter(None, dict.fromkeys((self._processes, self._outer))):
            cleanup.empty_group(Path(folder))

    def is_full(self) -> bool:
        """Whether a process was refused since this trial began (cgroup-v2.rst, pids.events)."""
        return self._refusals() > self._refused

    def oom_kills(self) -> int:
        return self._count() - self._killed if self._folder else 0

    def handled(self) -> tuple[int, int] | None:
        """Page faults that were handled in it, trapped or populated, and those of them that read
        from storage; None where no group counts them."""
        with suppress(OSError), open(f"{self._folder}/memory.stat") as lines:
            found = dict(line.split() for line in lines)
            return int(found["pgfault"]), int(found["pgmajfault"])
        return None

    def readings(self) -> dict[str, Any]:
        """What the group has counted, None where it does not."""
        stalls = self._stalls()
        known = stalls is not None and self._stalled is not None
        return {
            "group_peak_bytes": self._peak_bytes(),
            "stalled_ns": stalls - self._stalled if known else None,  # type: ignore[operator]
            **self._paging(),
        }

    def _paging(self) -> dict[str, int | None]:
        """How many pages the kernel took and had to bring back, of files and of swap; and the page
        cache of files that is charged now, when the command has ended."""
        try:
            with open(f"{self._folder}/memory.stat") as lines:
                counts = {name: int(n) for name, n in map(str.split, lines)}
        except OSError:
            return {"refault_count": None, "group_cache_bytes": None}
        refaults = [n for name, n in counts.items() if name.startswith("workingset_refault")]
        cache = counts.get("file", counts.get("cache"))  # v2, v1; with shared memory
        return {
            "refault_count": sum(refaults) if refaults else None,
            "group_cache_bytes": None if cache is None else cache - counts.get("shmem", 0),
        }

    def _peak_bytes(self) -> int | None:
        if "peak_group" in self.missing:
            return None
        for name in _PEAKS:
            with suppress(OSError), open(f"{self._folder}/{name}") as file:
                return int(file.read())
        return None

    def _stalls(self) -> int | None:
        """The time in which some task waited for memory: PSI of the group, v2, else of the host."""
        for path in (f"{self._folder}/memory.pressure", "/proc/pressure/memory"):
            with suppress(OSError), open(path) as lines:
                return int(lines.readline().rpartition("=")[2]) * 1000
        return None

    def _refusals(self) -> int:
        with suppress(OSError), open(f"{self._processes}/pids.events") as lines:
            return int(dict(line.split() for line in lines).get("max", 0))
        return 0

    def _count(self) -> int:
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError), open(f"{self._folder}/{name}") as lines:
                return int(dict(line.split() for line in lines).get("oom_kill", 0))
        return 0


def _processes_bound(most: int) -> str:
    """RLIMIT_NPROC counts all threads of the user; root has none (setrlimit(2))."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    running = 0
    for folder in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError):
            if folder.isdecimal() and os.stat(f"/proc/{folder}").st_uid == os.getuid():  # noqa: PTH116
                running += len(os.listdir(f"/proc/{folder}/task"))  # noqa: PTH208
    return str(running + most if hard < 0 else min(running + most, hard))


def _without(environ: dict[str, str], prefixes: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(tuple(prefixes))}


class _WrittenFile:
    """A file that the command writes. One that an earlier trial wrote is none."""

    def __init__(self, cwd: str, name: str) -> None:
        self._path = os.path.join(cwd, name) if name else ""  # noqa: PTH118
        self._before = self._stamp()

    def _stamp(self) -> tuple[int, ...] | None:
        with suppress(OSError):
            status = os.stat(self._path)  # noqa: PTH116
            if stat.S_ISREG(status.st_mode):
                return (status.st_ino, status.st_size, status.st_mtime_ns)
        return None

    def is_new(self) -> bool:
        return self._stamp() not in (None, self._before)

    def read(self) -> bytes:
        with open(self._path, "rb") as file:
            return file.read(_MOST_FILE_BYTES)


def _numbers(document: bytes, names: Sequence[str]) -> dict[str, float]:
    """The numbers of a JSON object; nested names are joined by a dot."""
    try:
        read = json.loads(document)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, float] = {}
    for name in names:
        value: Any = read
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        with suppress(OverflowError):  # a whole number that no float holds
            if type(value) in (int, float) and _is_number(float(value)):
                found[name] = float(value)
    return found


def _is_number(value: float) -> bool:
    """What could be measured: not nan, and no more than ratios of it can hold."""
    return value == 0 or 1e-100 < abs(value) < 1e100


def _histogram(text: bytes, unit_ns: float) -> dict[str, Any]:
    """Of the words of a text that are numbers of 0 and above; as a C probe has one."""
    values: list[int] = []
    for word in text.split():
        with suppress(ValueError, OverflowError):  # no number; nan and infinity
            values.append(round(float(word) * unit_ns))
    values = [value for value in values if 0 <= value < 1 << 63]
    buckets = Counter(map(index_of, values))
    ends = {"min_ns": min(values, default=0), "max_ns": max(values, default=0)}
    return {"total": len(values), **ends, "buckets": [list(one) for one in sorted(buckets.items())]}


def _missing(group: _Group, report: dict[str, Any]) -> dict[str, str]:
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


def _counters(events: dict[str, Any]) -> dict[str, Any]:
    """As the window of a C probe has them."""
    return {
        counter: {
            "count": None if (failed := events[event]["errno"]) else events[event]["count"],
            "error": errno.errorcode.get(failed, str(failed)) if failed else None,
        }
        for counter, event in _COUNTERS.items()
    }


def _refused(spec: dict[str, Any], launched: _Launched, said: str) -> dict[str, str] | None:
    """The outcome of what could not be started under its policies, if that is how it was."""
    report, program = launched.report, (spec["serve"] or spec["argv"])[0]
    if "errno" in report:
        refused = report["failed"].startswith(_REFUSED_POLICIES)
        why = f"{report['failed']}: {os.strerror(report['errno'])}"
        what = why if refused else _not_started(program, report["errno"])
        return {"outcome": "unavailable" if refused else "failed", "detail": what}
    if launched.held.why:
        return {"outcome": "unavailable", "detail": f"not in force: {launched.held.why}"}
    if "MEMLAB_LOCK" not in spec["environ"]:
        return None
    if report["status"] == _LOCK_REFUSED:
        return {"outcome": "unavailable", "detail": f"the lock was refused{said}"}
    if (count := launched.unlocked_readings) >= _READINGS_OF_NO_LOCK:
        why = "the program unlocked it, or what it started is static or set-user-ID"
        refused = f"no memory was locked in {count} readings after the lock was taken: {why}"
        return {"outcome": "unavailable", "detail": refused}
    return None


def _not_started(program: str, error: int) -> str:
    why = os.strerror(error)
    if error == errno.ENOENT and shutil.which(program):  # execve(2) says so of either
        why = "the interpreter that it names is not there"
    return f"{program}: {why}"


def _command_ended(
    spec: dict[str, Any], report: dict[str, Any], result: dict[str, Any]
) -> dict[str, str]:
    """The outcome of a command that ended by itself, with the last that it printed."""
    last = _last_lines(result["output"])
    if "errno" in report:  # of a load, which no policy holds back
        what = _not_started(spec["argv"][0], report["errno"])
        return {"outcome": "failed", "detail": what}
    # With --for it was ended by memlab, and how it takes that is its own affair.
    if report["signal"] and not spec["for_s"]:
        name = signal_name(report["signal"]).lower()
        return {"outcome": name, "detail": f"{_how_it_ended(report)}{last}"}
    if not spec["for_s"] and report["status"] not in spec["good_statuses"]:
        return {"outcome": "failed", "detail": f"{_how_it_ended(report)}{last}"}
    missing = [name for name in spec["wanted"] if name not in result["metrics"]]
    if missing:
        place = spec["metric_file"] if missing[0] in spec["file_metrics"] else "what it printed"
        return {"outcome": "no-metric", "detail": f"no {missing[0]} in {place}{last}"}
    if spec["latency_file"] and not result.get("latency", {}).get("total"):
        return {"outcome": "no-metric", "detail": f"no number in {spec['latency_file']}{last}"}
    return {"outcome": "ok", "detail": ""}


def _how_it_ended(report: dict[str, Any]) -> str:
    if report["signal"]:
        why = f": {bus_error.read()}" if report["signal"] == signal.SIGBUS else ""
        return f"ended by {signal_name(report['signal'])}{why}"
    return f"exit status {report['status']}"


def _timed_out(spec: dict[str, Any], output: _Output, group: _Group) -> dict[str, str]:
    bounded = f", at the most processes allowed, {spec['processes']}" if group.is_full() else ""
    said = f"killed after {spec['timeout_s']:g} s{bounded}{_last_lines(output.tail)}"
    return {"outcome": "timeout", "detail": said}


def _last_lines(text: str, most: int = 1) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{_SAID}{' / '.join(lines[-most:])[-200:]}" if lines else ""


@contextmanager
def _going_first() -> Iterator[None]:
    """Ahead of what is to be killed: among thousands that run, this process would wait for its
    turn for seconds. Only root may; a nice value is for a CPU group of cgroup v1 that has no
    real-time bandwidth (sched(7))."""
    usual, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, usual, parameters)
        os.setpriority(os.PRIO_PROCESS, 0, nice)


def _tree(pid: int) -> Iterator[int]:
    """A process and its living descendants (proc_pid_children(5))."""
    left = [pid]
    while left:
        yield (one := left.pop())
        with suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):  # noqa: PTH208
                with suppress(OSError), open(f"/proc/{one}/task/{task}/children") as children:
                    left += map(int, children.read().split())


def _pss_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", "rb") as lines:
        for line in lines:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    raise ProcessLookupError  # it has no memory any more


def _status(pid: int) -> dict[bytes, int]:
    """The sizes in /proc/PID/status, in bytes; none of a process that has ended."""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as lines:
        words = (line.split() for line in lines)
        return {line[0].rstrip(b":"): int(line[1]) * 1024 for line in words if line[2:] == [b"kB"]}
    return {}
