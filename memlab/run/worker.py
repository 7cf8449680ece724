"""The warm parent and its workers: one forked process a trial.

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
from collections.abc import Mapping
from typing import Any, NoReturn

from memlab import probe
from memlab.run import files

Reply = dict[str, Any]

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_OUTCOMES = {"ENOMEM": "enomem"}
_SIGNALS = {signal.SIGBUS: "sigbus", signal.SIGSEGV: "sigsegv"}
_REPORTED = "/sys/module/page_reporting/parameters/reported_kib"


def main() -> None:
    """Serve trials from standard input until it closes."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    probe.keep_counters()  # what it lacks, each sample names
    gc.collect()
    gc.freeze()  # the collector would copy the parent's pages in every child
    for line in sys.stdin.buffer:
        reply = run_trial(json.loads(line))
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def run_trial(trial: Mapping[str, Any]) -> Reply:
    """Fork a worker for one trial and say how it ended. Never raises."""
    reading, writing = os.pipe()
    kills_before = _oom_kills()
    reported_before = _reported_kib()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _work(trial, writing)
    os.close(writing)
    try:
        text, timed_out = _collect(pid, reading, float(trial["limit_s"]))
    finally:
        os.close(reading)
    _, status = os.waitpid(pid, 0)
    _reap_leftovers()
    file = trial["file"]
    if file and file["state"] in files.FRESH:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file["path"])  # noqa: PTH108
    reply = _ended(trial, text, status, timed_out, oom_killed=_oom_kills() > kills_before)
    reply["probe_hash"] = probe.hash(trial["probe"])
    if reported_before is not None:
        reply["reported_kib"] = [reported_before, _reported_kib()]
    return reply


def _work(trial: Mapping[str, Any], writing: int) -> NoReturn:
    """The worker's whole life."""
    reply: Reply
    try:
        os.sched_setaffinity(0, trial["cpus"])
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")  # if memory runs out, this process is the one to go
        params = dict(trial["params"])
        if trial["file"]:
            files.prepare(trial["file"])
            params["path"] = trial["file"]["path"]
        reply = {"outcome": "ok", "result": probe.call(trial["probe"], params)}
    except probe.ProbeError as error:
        kind = "unavailable" if error.status == "unavailable" else "error"
        reply = {"outcome": _OUTCOMES.get(error.errno_name, kind), "detail": str(error)}
    except OSError as error:
        reply = {"outcome": "error", "detail": f"preparing the trial: {error}"}
    except BaseException as error:  # a worker must answer, whatever it met
        reply = {"outcome": "error", "detail": f"{type(error).__name__}: {error}"}
    with os.fdopen(writing, "w") as pipe:
        json.dump(reply, pipe)
    os._exit(0)


def _collect(pid: int, reading: int, limit_s: float) -> tuple[bytes, bool]:
    """What the worker wrote until it ended, and whether it had to be killed for its time."""
    deadline = time.monotonic() + limit_s
    ended = os.pidfd_open(pid)
    text = b""
    try:
        while True:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([reading, ended], [], [], max(0.0, left))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                return text, True
            if reading in ready and (piece := os.read(reading, 1 << 16)):
                text += piece
            elif ended in ready:  # and the pipe holds nothing more
                return text, False
            else:  # the pipe is at its end and the worker is about to be
                select.select([ended], [], [], max(0.0, left))
                return text, False
    finally:
        os.close(ended)


def _reap_leftovers() -> None:
    """Kill and reap what a probe left: its orphans are children of this subreaper."""
    while True:
        with open("/proc/thread-self/children") as children:
            left = [int(child) for child in children.read().split()]
        if not left:
            return
        for child in left:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _ended(
    trial: Mapping[str, Any], text: bytes, status: int, timed_out: bool, *, oom_killed: bool
) -> Reply:
    if timed_out:
        return {"outcome": "timeout", "detail": f"killed after {trial['limit_s']:g} s"}
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        if number == signal.SIGKILL and oom_killed:
            return {"outcome": "oom-killed", "detail": "killed by the kernel's OOM killer"}
        return {
            "outcome": _SIGNALS.get(signal.Signals(number), "error"),
            "detail": f"ended by {name}{_full_disk(trial) if number == signal.SIGBUS else ''}",
        }
    try:
        reply: Reply = json.loads(text)
    except ValueError:
        return {"outcome": "error", "detail": f"the worker exited with status {status} and no word"}
    return reply


def _full_disk(trial: Mapping[str, Any]) -> str:
    """A store into a hole of a full filesystem is a SIGBUS (mmap(2)); say so where it is one."""
    if not trial["file"]:
        return ""
    free = os.statvfs(os.path.dirname(trial["file"]["path"]))  # noqa: PTH120
    return ": ENOSPC, no space left for the file's page" if free.f_bavail == 0 else ""


def _oom_kills() -> int:
    """The kernel's count of OOM kills, /proc/vmstat oom_kill (since 4.13)."""
    with open("/proc/vmstat") as vmstat:
        for line in vmstat:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _reported_kib() -> int | None:
    """Memory handed back to the hypervisor so far, where the kernel says."""
    try:
        with open(_REPORTED) as reported:
            return int(reported.read())
    except (OSError, ValueError):
        return None
