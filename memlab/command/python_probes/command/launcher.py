"""A launcher with its command: what starts it, waits for it and ends it."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from memlab.command.fault_log import FaultLog, Stack
from memlab.command.python_probes.command.group import TrialGroup
from memlab.command.python_probes.command.output import Output
from memlab.command.python_probes.command.sampler import Sampler, tree
from memlab.command.used_pages import UsedPages
from memlab.observe.in_force import InForce
from memlab.probe import Failed

STOP_WITHIN_S = 10.0  # from SIGTERM on; then the service is killed
_MOST_PIECES = 16  # of 64 KiB: more than a pipe holds, less than what prints for ever
COUNTERS = {"trapped": "faults", "migrations": "migrations", "tlb_remote_sent": "shootdowns"}


class Launched:
    """A launcher with its command. `report` is the launcher's, whole once it has `ended`."""

    _taken = -1  # where ../../lock.c says that it took its lock
    _lock_taken = False

    def __init__(
        self,
        launch: Sequence[str],
        argv: Sequence[str],
        environ: dict[str, str],
        cwd: str,
        output: Output | None,
        in_force: InForce | None = None,
        *,
        locks: bool = False,
    ) -> None:
        """Without `output` what the command prints is lost, and its memory is not read.
        `in_force` is what its processes are to be held to; with `locks` ../../lock.c says when it
        took its lock."""
        self._output = output
        self._report, report = os.pipe()
        request, self._asking = os.pipe()
        theirs = [report, request]
        if locks:
            self._taken, lock_end = os.pipe()
            os.set_blocking(self._taken, False)
            environ = {**environ, "MEMLAB_LOCK_TAKEN": str(lock_end)}
            theirs.append(lock_end)
        self._launch, self._log = launch, FaultLog()
        printed_to = subprocess.PIPE if output else subprocess.DEVNULL
        self._process = subprocess.Popen(
            [launch[0], f"report={report}", f"asked={request}", *launch[1:], "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=printed_to,
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
        self.used = UsedPages(lambda: tree(self.pid))
        self._text = b""
        self.counters: list[dict[str, Any]] = []  # an answer for each time that they were asked for
        self.memory = Sampler(in_force or InForce(), self._took_lock)

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
        if not self.ended:
            self.memory.read_if_due(self.pid if self._output else 0)

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
                number = line.get("signal", 0)
                memory = self.memory
                stack = Stack(
                    memory.stack_end, line["limits"].get("RLIMIT_STACK", resource.RLIM_INFINITY)
                )
                locked = memory.locked_of_limit
                why = self._log.why(self.pid, number, self._launch, locked, stack)
                why = why or self._log.why_child(line.get("status", 0) - 128, self._launch)
                self.report = {**line, "why": why, "uses": memory.uses}
                self._let_go()

    def _await_launcher(self) -> None:
        """Wait until it has ended, and with it all that the command started."""
        self._process.send_signal(signal.SIGCONT)  # the command may have stopped it
        try:
            self._process.wait(2 * STOP_WITHIN_S)
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
        self.used.stop()
        self._await_launcher()
        for descriptor in (self._report, self._asking, self._taken):
            if descriptor >= 0:
                os.close(descriptor)
        self._log.close()
        self.waiting = []

    def stop(self, group: TrialGroup) -> None:
        """End at once what runs still."""
        if not self.ended:
            with _going_first():
                if self.pid:  # it leads a session: all that stayed in it at once, forks too
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(self.pid, signal.SIGKILL)
                group.kill()
                self._kill_tree()
                self._process.send_signal(signal.SIGCONT)  # the command may have stopped it
                if not attend([self], lambda: self.ended, STOP_WITHIN_S):
                    raise Failed("the command does not end when it is killed", errno.ETIMEDOUT)

    def terminate(self) -> None:
        """Ask it to end, and wait for that."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        attend([self], lambda: self.ended, STOP_WITHIN_S)

    def _kill_tree(self) -> None:
        """Kill what it started, where no cgroup holds it: stopped first, so that none forks."""
        if not self.pid:
            self._process.kill()
            return
        stopped: set[int] = set()
        while new := set(tree(self.pid)) - stopped:
            for pid in new:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped |= new
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _took_lock(self) -> bool:
        if self._taken >= 0 and not self._lock_taken:
            with suppress(BlockingIOError):
                self._lock_taken = bool(os.read(self._taken, 1))
        return self._lock_taken

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
        report, locked = self.report, self.memory.peak_locked_bytes
        others = {
            "rss_peak_bytes": {"count": report["rss_peak_bytes"], "error": None},
            "vm_locked_bytes": {"count": locked, "error": None},
        }
        return {
            "voluntary_switch_count": report["voluntary"],
            "involuntary_switch_count": report["involuntary"],
            "counters": counters(events) | others,
        }


def attend(
    commands: Sequence[Launched],
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
        waiting = [descriptor for launched in commands for descriptor in launched.waiting]
        due = min(
            [deadline, now + every_s]
            + [launched.memory.next_s for launched in commands if not launched.ended]
        )
        ready, _, _ = select.select(waiting, [], [], max(0.0, due - now))
        for launched in commands:
            launched.attend(ready)
    return True


def count(launched: Launched) -> None:
    """Have the launcher add its counters as they are, unless the command ends meanwhile."""
    known = len(launched.counters)
    if not launched.ended:
        launched.ask()
    if not attend(
        [launched], lambda: launched.ended or len(launched.counters) > known, STOP_WITHIN_S
    ):
        raise Failed("the launcher does not say its counters", errno.ETIMEDOUT)


def in_force_of(spec: dict[str, Any], group: TrialGroup) -> InForce:
    """What the level asks for and a program could undo."""
    cpus = frozenset(os.sched_getaffinity(0)) if spec["cpus"] else frozenset[int]()
    folder = group.folder if spec["limited"] else ""
    return InForce(spec["environ"].get("MEMLAB_LOCK", ""), folder, cpus)


def counters(events: dict[str, Any]) -> dict[str, Any]:
    """As the window of a C probe has them."""
    return {
        counter: {
            "count": None if (failed := events[event]["errno"]) else events[event]["count"],
            "error": errno.errorcode.get(failed, str(failed)) if failed else None,
        }
        for counter, event in COUNTERS.items()
    }


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
