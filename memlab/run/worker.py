"""The fork server and its workers: one forked process a trial.

The parent holds nothing but the compiled probes, so that a fork costs about a millisecond
and a locked worker has little to lock. It reads one trial a line from the driver, forks,
waits with a time limit, and answers one line. It is a child subreaper, so that whatever a
probe leaves behind is found and killed before the next trial.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from memlab import probe
from memlab.run import files
from memlab.text.printable import signal_name

Reply = dict[str, Any]

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
_libc = ctypes.CDLL(None)
_OUTCOMES = {"ENOMEM": "enomem"}
_SIGNALS: dict[int, str] = {signal.SIGBUS: "sigbus", signal.SIGSEGV: "sigsegv"}
_REPORTED = "/sys/module/page_reporting/parameters/reported_kib"


def main() -> None:
    """Serve trials from standard input until it closes.

    The next worker is forked while the driver stores the last sample, so that a trial does
    not wait for the fork; it is idle until it is asked. A worker whose trial may `keep` something
    running serves the next trial too, until it is asked by {} to end.
    """
    _end_with(int(sys.argv[3]))
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    probe.prewarm_perf()  # each sample names the counters that are missing
    rehearsed = _rehearse("noop")
    canary = Canary()
    worker = Worker()
    for line in sys.stdin.buffer:
        trial = json.loads(line)
        if not trial or "relay" in trial:
            worker.end(canary.pid)
            sys.stdout.buffer.write(_relayed(**trial) if trial else line)
            sys.stdout.flush()
            _reap_leftovers(canary.pid)
            worker = Worker()
            continue
        reply = worker.run(trial, line, canary)
        # Before the reply: after the last one the driver kills this process at once.
        _reap_leftovers(worker.pid, canary.pid)
        sys.stdout.buffer.write(reply)
        sys.stdout.flush()
        if worker.lives:
            continue
        worker.end(canary.pid)
        if trial["probe"] not in rehearsed:
            rehearsed |= _rehearse(trial["probe"])
        worker = Worker()


def _rehearse(name: str) -> set[str]:
    """Make here what the first calls of a probe make. Each worker would make it again, and copy a
    page of this process for nearly every object: half a millisecond per trial."""
    probe.bind(name)
    for _ in range(8):  # the interpreter adapts a function to its work within eight calls
        json.loads(json.dumps(probe.call("noop", {})))
    gc.collect()
    gc.freeze()  # or else the collector would copy the server's pages in every child
    return {name}


class Worker:
    """One forked process, for one trial, or for all that share what they keep."""

    def __init__(self, join: Callable[[], None] | None = None) -> None:
        """`join` is called in it before its trial."""
        request, self._asking = os.pipe()
        self._reading, writing = os.pipe()
        self.lives = False  # after its trial
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _end_with(parent)
            os.close(self._asking)
            os.close(self._reading)
            if join:
                join()
            _work(request, writing)
        os.close(request)
        os.close(writing)

    def run(self, trial: Mapping[str, Any], line: bytes, canary: Canary) -> bytes:
        """The reply to a trial, which `line` says in JSON, as such a line too: how it ended. Never
        raises. What the worker wrote is passed on unread, with what the host counted added.
        """
        group = trial.get("group")
        if group:
            canary.stand()
        before = _counts(group, trial["cpus"])
        self.ask(line)
        text, timed_out = _collect(self.pid, self._reading, float(trial["limit_s"]))
        self.lives = bool(trial.get("keep")) and text.endswith(b"}\n")
        return self._reply(trial, text, before, canary, timed_out=timed_out)

    def ask(self, line: bytes) -> None:
        os.write(self._asking, line)

    def _reply(
        self,
        trial: Mapping[str, Any],
        text: bytes,
        before: Mapping[str, int],
        canary: Canary | None,
        *,
        timed_out: bool,
        host: Mapping[str, int] | None = None,
    ) -> bytes:
        """`host`: what the host counted, where not all since `before` is of the trial."""
        group = trial.get("group")
        if not text.endswith(b"}\n"):
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            counter = "group_oom_kill" if group else "oom_kill"
            oom_killed = _counts(group, ())[counter] > before[counter]
            died = _died(trial, status, timed_out, oom_killed=oom_killed)
            text = json.dumps(died).encode() + b"\n"
        file = trial["file"]
        if file and file["state"] in files.FRESH:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file["path"], dir_fd=file.get("folder"))
        counts = dict(host or _since(before, group, trial["cpus"]))
        if group and canary:
            counts["outside_killed"] = int(canary.has_ended())
        beside = json.dumps({"host": counts, "probe_hash": probe.hash(trial["probe"])}).encode()
        return text.removesuffix(b"}\n") + b", " + beside[1:] + b"\n"

    def end(self, canary: int) -> None:
        """Reap the worker, which ends what it keeps once it is asked no more, and what it left."""
        self.reap()
        _reap_leftovers(canary)

    def reap(self) -> None:
        os.close(self._asking)
        os.waitpid(self.pid, 0)
        os.close(self._reading)


class _Runner(Worker):
    """A worker of a relay, parked or at its end: `text` is its reply so far."""

    def __init__(
        self, relay: probe.Relay, index: int, news: tuple[int, int], trial: Mapping[str, Any]
    ) -> None:
        shared = bool(trial["file"]) and trial["file"]["state"] not in files.FRESH
        super().__init__(lambda: relay.join(index, news[1], shares_file=shared))
        self.trial, self.index = trial, index
        self.ended = os.pidfd_open(self.pid)
        self.text, self.timed_out, self.parked = b"", False, False
        self.ask(json.dumps(trial).encode() + b"\n")

    def park(self, news: int) -> None:
        """Return when it is parked, or has ended without being so."""
        limit_s = float(self.trial["limit_s"])
        ready, _, _ = select.select([news, self._reading, self.ended], [], [], limit_s)
        self.parked = news in ready
        if self.parked:
            os.read(news, 1)
        else:
            self.finish(limit_s if ready else 0.0)

    def finish(self, limit_s: float) -> None:
        self.text, self.timed_out = _collect(self.pid, self._reading, limit_s)

    def close(self, before: Mapping[str, int], host: Mapping[str, int]) -> bytes:
        os.close(self.ended)
        reply = self._reply(
            self.trial, self.text, before, None, timed_out=self.timed_out, host=host
        )
        self.reap()
        return reply


def _relayed(relay: Sequence[Mapping[str, Any]], seed: int, limit_s: float) -> bytes:
    """The replies to trials whose probes take turns on one CPU, as one line: {"relay": [...]}.

    One after the other is prepared and parked, so that each finds the files as trials one after the
    other would. When the turns of all are over they finish one after the other too: what a probe
    does after its window is disturbed by nobody. One that dies is dropped, and the others go on;
    those that are not done `limit_s` after the start are killed. What the host counted is of the
    turns: to make the others' files keeps other CPUs busy before.
    """
    cpus = relay[0]["cpus"]
    before = _counts(None, cpus)
    all_files = [trial["file"] for trial in relay if trial["file"]]
    if fresh := sum(int(file["size_bytes"]) for file in all_files if file["state"] in files.FRESH):
        files.recycle_memory(fresh)
    baton, news = probe.Relay(len(relay), seed), os.pipe()
    runners: list[_Runner] = []
    for index, trial in enumerate(relay):
        runners.append(_Runner(baton, index, news, trial))
        runners[-1].park(news[0])
        if not runners[-1].parked:
            baton.drop(index)
    started = _counts(None, cpus)
    _run_turns(baton, [item for item in runners if item.parked], news[0], limit_s)
    host = _since(started, None, cpus)
    replies = []
    for runner in runners:
        if runner.parked and not runner.timed_out:
            baton.release(runner.index)
            runner.finish(float(runner.trial["limit_s"]))
        replies.append(runner.close(before, host).removesuffix(b"\n"))
    baton.close()
    for end in news:
        os.close(end)
    return b'{"relay": [' + b", ".join(replies) + b"]}\n"


def _run_turns(baton: probe.Relay, runners: Sequence[_Runner], news: int, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    alive = {runner.ended: runner for runner in runners}
    over = baton.start()
    while not over:
        left_s = deadline - time.monotonic()
        ready, _, _ = select.select([news, *alive], [], [], max(0.0, left_s))
        if not ready:
            for runner in alive.values():
                runner.finish(0.0)
            return
        over = news in ready
        for ended in set(ready) - {news}:
            over |= baton.drop(alive.pop(ended).index)


def _work(requests: int, writing: int) -> NoReturn:
    """The worker's whole life.

    It closes the server's own pipes, at which the driver would wait if the server died.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    while line := _next_line(requests):
        trial = json.loads(line)
        text = json.dumps(_trial(trial)).encode() + b"\n"
        while text:
            text = text[os.write(writing, text) :]
        if not trial.get("keep"):
            os._exit(0)
    os._exit(0)


def _next_line(requests: int) -> bytes:
    """The next trial's line; b"" once there is none."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(requests, 1 << 16)
        if not piece:
            return b""
        line += piece
    return line


def _trial(trial: Mapping[str, Any]) -> Reply:
    """Prepare the file, the CPUs and the group, and call the probe."""
    try:
        os.sched_setaffinity(0, trial["cpus"])
        _go_first()
        if trial["file"]:
            if "folder" in trial["file"]:
                os.fchdir(trial["file"]["folder"])
            files.prepare(trial["file"])
        group = trial.get("group")
        if group and group["procs"]:
            _enter(group["procs"])  # the file is made: its page cache is not charged to the trial
        if trial.get("top"):
            _enter(trial["top"])
        opened = _open_reserved(trial["reserved"]) if "reserved" in trial else {}
        result = probe.call(trial["probe"], {**trial["params"], **opened})
        if trial["file"]:
            files.give_back(trial["file"])
        ended: Reply = result.pop("ended", {})  # how a user's command ended
        return {"outcome": "ok", "result": result} | ended
    except probe.ProbeError as error:
        refused = error.status == "unavailable"  # whatever the errno: mlock(2) refuses by ENOMEM
        outcome = "unavailable" if refused else _OUTCOMES.get(error.errno_name, "error")
        return {"outcome": outcome, "detail": str(error)}
    except _Unavailable as error:
        return {"outcome": "unavailable", "detail": str(error)}
    except OSError as error:
        return {"outcome": "error", "detail": f"preparing the trial: {error}"}
    except BaseException as error:  # a worker must answer, whatever happened
        return {"outcome": "error", "detail": f"{type(error).__name__}: {error}"}


class _Unavailable(Exception):
    """This machine or this user cannot have what the trial needs."""


def _open_reserved(memory_range: Mapping[str, Any]) -> Mapping[str, int]:
    """The probe's params for memory reserved from the kernel."""
    from memlab.observe import physical_memory

    try:
        return physical_memory.opened(**memory_range)
    except physical_memory.RangeRefused as refused:
        raise _Unavailable(str(refused)) from None


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _go_first() -> None:
    """Make this process the one that the kernel kills first if memory runs out.

    Plain descriptors: a Python file object costs a forked process a quarter of a millisecond
    in pages copied on write.
    """
    score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(score, b"1000")
    os.close(score)


def _enter(procs: str) -> None:
    """Move this process, of one thread, into the cgroup: 0 is whoever writes (cgroups(7))."""
    group = os.open(procs, os.O_WRONLY)
    os.write(group, b"0")
    os.close(group)


def _collect(pid: int, reading: int, limit_s: float) -> tuple[bytes, bool]:
    """The worker's line, incomplete if the worker ended or exceeded its time; and whether it was
    killed for that."""
    deadline = time.monotonic() + limit_s
    ended = os.pidfd_open(pid)
    text = b""
    try:
        while not text.endswith(b"\n"):
            rest = deadline - time.monotonic()
            ready, _, _ = select.select([reading, ended], [], [], max(0.0, rest))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                return text, True
            piece = os.read(reading, 1 << 16) if reading in ready else b""
            text += piece
            if ended in ready and not piece:
                break
        return text, False
    finally:
        os.close(ended)


class Canary:
    """A process beside the trials' group that the OOM killer would like as much as a trial: it
    lives as long as every kill is the group's own. It ends with this parent, whose pipes it lets
    go: the driver would wait at them for a lost parent's."""

    pid = 0

    def stand(self) -> None:
        """Have it there, whatever became of the one before."""
        if self.pid and not self.has_ended():
            return
        if self.pid:
            os.waitpid(self.pid, 0)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _end_with(parent)
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))
            _go_first()
            while True:
                signal.pause()

    def has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _reap_leftovers(*spared: int) -> None:
    """Kill and reap what a probe left: its orphans are children of this subreaper, as are the
    canary and a worker that are `kept`."""
    while True:
        with open("/proc/thread-self/children") as children:
            remaining = [
                int(child) for child in children.read().split() if int(child) not in spared
            ]
        if not remaining:
            return
        for child in remaining:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _died(
    trial: Mapping[str, Any], status: os.waitid_result | None, timed_out: bool, *, oom_killed: bool
) -> Reply:
    """The outcome of a worker that ended without a reply."""
    if timed_out:
        return {"outcome": "timeout", "detail": f"killed after {trial['limit_s']:g} s"}
    if status is None or status.si_code == os.CLD_EXITED:
        return {"outcome": "error", "detail": "the worker exited without a reply"}
    number = status.si_status
    if number == signal.SIGKILL and oom_killed:
        return {"outcome": "oom-killed", "detail": "killed by the kernel's OOM killer"}
    from memlab.files import own_limits

    why = _full_disk(trial) if number == signal.SIGBUS else ""
    if limit := own_limits.that_sends(number):
        why = f": {limit}"
    words = f"ended by {signal_name(number)}{why}"
    return {"outcome": _SIGNALS.get(number, "error"), "detail": words}


def _full_disk(trial: Mapping[str, Any]) -> str:
    """A store into a hole of a file on a full disk is a SIGBUS (mmap(2)): name that cause."""
    if not trial["file"]:
        return ""
    file = trial["file"]
    free = os.statvfs(file.get("folder") or os.path.dirname(file["path"]))  # noqa: PTH120
    return ": ENOSPC, no space left for the file's page" if free.f_bavail == 0 else ""


def _counts(group: Mapping[str, Any] | None, cpus: Collection[int]) -> dict[str, int]:
    """What the host counts, and for a contained trial the OOM kills of only its group: another
    program of the host may be killed at the same time. `cpus` are the trial's own."""
    counts = _host_counts() | (_others(cpus) if cpus else {})
    if group:
        counts["group_oom_kill"] = sum(_oom_kills(path) for path in group["oom_counts"])
    return counts


def _since(
    before: Mapping[str, int], group: Mapping[str, Any] | None, cpus: Collection[int]
) -> dict[str, int]:
    after = _counts(group, cpus)
    return {name: count - before.get(name, 0) for name, count in after.items()}


def _oom_kills(path: str) -> int:
    with open(path) as lines:
        return int(dict(line.split() for line in lines)["oom_kill"])


def _host_counts() -> dict[str, int]:
    """What the host counts during a trial: OOM kills and pages written back, of /proc/vmstat, and
    KiB returned to the hypervisor, where the kernel reports that."""
    vmstat = b"\n" + _read("/proc/vmstat")
    counts = {}
    for name in ("oom_kill", "nr_written"):
        _, result, after = vmstat.partition(b"\n%s " % name.encode())
        if result:
            counts[name] = int(after[: after.index(b"\n")])
    with contextlib.suppress(OSError, ValueError):
        counts["reported_kib"] = int(_read(_REPORTED))
    return counts


def _others(cpus: Collection[int]) -> dict[str, int]:
    """The clock ticks of the CPUs that the trial does not use, and how many of those were busy, of
    /proc/stat (proc_stat(5)); nothing where it uses all."""
    ticks = busy = 0
    for line in _read("/proc/stat").split(b"\n")[1:]:
        name, *times = line.split()
        if not name.startswith(b"cpu"):
            break
        if int(name[3:]) not in cpus:
            spent = [int(time) for time in times[:8]]  # guest time is in user's and nice's
            ticks += sum(spent)
            busy += sum(spent) - spent[3] - spent[4]  # idle and iowait
    return {"other_cpus_ticks": ticks, "other_cpus_busy_ticks": busy} if ticks else {}


def _read(path: str) -> bytes:
    """Read a small kernel file at once. Plain descriptors: see _go_first."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 1 << 16)
    finally:
        os.close(file)
