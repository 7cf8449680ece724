"""guest_memory - what a virtual machine takes of its host's memory while it boots and rests.

Window: the life of one QEMU, from its start over the boot of its guest and `settle` after it
to its end. VmLck and VmHWM of the window are QEMU's. Its usage and its perf counters are QEMU's
and those of this process, which reads /proc/PID/status every 100 ms.
Excluded: making the command line and what boots. QEMU's memory is read from its start on, and
once in full after `settle`, before it is told to quit.

The guest has booted when its console says so: an init's one line, or the firmware's last. QEMU
is asked over its machine protocol (QMP) whether the guest runs and how much memory it has.
With `-overcommit mem-lock=on` QEMU calls mlockall(MCL_CURRENT | MCL_FUTURE) before it maps its
guest's memory (QEMU's os-posix.c, os_mlock). QEMU is this process's child and dies with it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from memlab.observe.capabilities import privileges
from memlab.probe import Failed, Window

_READ_EVERY_NS = 100_000_000
_ANSWER_S = 10.0
_PR_SET_PDEATHSIG = 1  # prctl(2)


@dataclass(frozen=True, slots=True)
class Params:
    command: str  # QEMU's, one word per line; its descriptor 0 is QMP, 1 the guest's console
    booted_sign: str  # what the console says once the guest has booted
    memory_bytes: int
    mem_lock: bool
    settle_ns: int


def measure(params: Params) -> dict[str, Any]:
    if not params.booted_sign:
        raise Failed("booted_sign must not be empty", errno.EINVAL)
    if params.mem_lock:
        _check_lockable(params.memory_bytes)
    qmp, its_qmp = socket.socketpair()
    console, its_console = socket.socketpair()
    text, answers = os.fdopen(os.memfd_create("stderr"), "w+b"), qmp.makefile("rb")
    with text, answers, qmp, its_qmp, console, its_console, Window() as window:
        qemu = subprocess.Popen(
            params.command.split("\n"),
            stdin=its_qmp.fileno(),
            stdout=its_console.fileno(),
            stderr=text,
            preexec_fn=_dying_with(os.getpid()),
        )
        try:
            its_qmp.close()
            its_console.close()  # so that the other ends close with QEMU
            machine = EmulatedMachine(qemu, text, qmp, answers, console, window.started_ns)
            machine.live(params.booted_sign.encode(), params.settle_ns)
            result = machine.ask()
        finally:
            qemu.kill()
            qemu.wait()
    counters = window.measured["counters"]
    counters["vm_locked_bytes"] = {"count": result["vm_locked_bytes"], "error": None}
    counters["rss_peak_bytes"] = {"count": result.pop("rss_peak_bytes"), "error": None}
    return {"window": window.measured, **result}


class EmulatedMachine:
    """A running QEMU: its memory over time, its console and its QMP."""

    def __init__(
        self,
        qemu: subprocess.Popen[bytes],
        said: IO[bytes],
        qmp: socket.socket,
        answers: IO[bytes],
        console: socket.socket,
        started_ns: int,
    ) -> None:
        self._qemu, self._said, self._console = qemu, said, console
        self._started_ns = started_ns
        qmp.settimeout(_ANSWER_S)
        self._qmp, self._answers = qmp, answers
        series = ("rss", "locked", "pinned", "booted")
        self._series: dict[str, dict[str, Any]] = {
            name: {"at_ns": [], "values": [], "lost": 0} for name in series
        }
        self._greeting, self._answered_ns, self._booted_ns = "", 0, 0

    def live(self, sign: bytes, settle_ns: int) -> None:
        """Until the guest has booted and settled, and QMP has greeted."""
        heard, read_at_ns, now_ns = b"", 0, 0
        waiting = [self._qmp, self._console]
        while waiting or now_ns < self._booted_ns + settle_ns:
            if self._qemu.poll() is not None:
                self._end_as_it_did()
            now_ns = self._now_ns()
            if now_ns >= read_at_ns:
                self._read()
                read_at_ns = (now_ns // _READ_EVERY_NS + 1) * _READ_EVERY_NS
            next_ns = read_at_ns if waiting else min(read_at_ns, self._booted_ns + settle_ns)
            ready, _, _ = select.select(waiting, [], [], max(0, next_ns - now_ns) * 1e-9)
            if self._qmp in ready and (line := self._answers.readline()):
                self._greeting, self._answered_ns = line.decode().strip(), self._now_ns()
                waiting.remove(self._qmp)  # it has nothing more to say until it is asked
            if self._console in ready:
                heard = heard[-len(sign) :] + self._console.recv(4096)
                if sign in heard:
                    self._booted_ns = self._now_ns()
                    self._read()
                    self._add("booted", self._booted_ns, self._series["rss"]["values"][-1])
                    waiting.remove(self._console)

    def ask(self) -> dict[str, Any]:
        """What QEMU says of the guest, and its memory in full; then it quits."""
        self._execute("qmp_capabilities")
        if not self._execute("query-status")["running"]:
            raise Failed("the guest does not run", errno.ECANCELED)
        guest_bytes = self._execute("query-memory-size-summary")["base-memory"]
        status = _kib(f"/proc/{self._qemu.pid}/status")
        locked = _kib(f"/proc/{self._qemu.pid}/smaps_rollup")["Locked"]
        self._send("quit")
        self._qemu.wait()
        shown = ("VmRSS", "RssAnon", "VmLck", "VmPin", "VmHWM")
        lines = [*(f"{name}: {status[name]} kB\n" for name in shown)]
        return {
            **self._series,
            "rss_bytes": status["VmRSS"] * 1024,
            "rss_anon_bytes": status["RssAnon"] * 1024,
            "rss_peak_bytes": status["VmHWM"] * 1024,
            "vm_locked_bytes": status["VmLck"] * 1024,
            "vm_pinned_bytes": status["VmPin"] * 1024,
            "locked_bytes": locked * 1024,
            "guest_bytes": guest_bytes,
            "answered_ns": self._answered_ns,
            "booted_ns": self._booted_ns,
            "greeting": self._greeting,
            "status": "".join([*lines, f"smaps_rollup Locked: {locked} kB\n"]),
        }

    def _now_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - self._started_ns

    def _add(self, series: str, at_ns: int, value: int) -> None:
        self._series[series]["at_ns"].append(at_ns)
        self._series[series]["values"].append(value)

    def _read(self) -> None:
        now_ns, status = self._now_ns(), _kib(f"/proc/{self._qemu.pid}/status")
        if "VmRSS" not in status:
            return  # it is about to be reaped, and has no memory
        for series, field in (("rss", "VmRSS"), ("locked", "VmLck"), ("pinned", "VmPin")):
            self._add(series, now_ns, status[field] * 1024)

    def _send(self, command: str) -> None:
        self._qmp.sendall(json.dumps({"execute": command}).encode() + b"\n")

    def _execute(self, command: str) -> Any:
        """QMP (QEMU's docs/interop/qmp-spec): a line of JSON each way, events in between."""
        call = f"QMP {command}"
        try:
            self._send(command)
            for line in self._answers:
                answer = json.loads(line)
                if "error" in answer:
                    raise Failed(f"{call}: {answer['error']['desc']}", errno.EPROTO)
                if "return" in answer:
                    return answer["return"]
        except TimeoutError:
            raise Failed(call, errno.ETIMEDOUT) from None
        raise Failed(call, errno.EPIPE)

    def _end_as_it_did(self) -> None:
        """QEMU has ended before it was told to: by a signal, which ends this process too, or with
        last words, which say why."""
        if self._qemu.returncode < 0:
            os.kill(os.getpid(), -self._qemu.returncode)
        self._said.seek(0)
        words = self._said.read().decode(errors="replace").strip().splitlines()
        why = f"QEMU ended: {words[-1] if words else 'without a word'}"
        if "locking memory failed" in why:  # QEMU's softmmu/vl.c: what mlockall(2) says
            raise Failed(why, errno.EPERM, "unavailable")
        raise Failed(why, errno.ECHILD)


def _kib(path: str) -> dict[str, int]:
    """The fields of a file of /proc that are in kB."""
    with open(path) as lines:
        words = (line.split() for line in lines)
        return {line[0].rstrip(":"): int(line[1]) for line in words if line[-1:] == ["kB"]}


def _dying_with(parent: int) -> Callable[[], None]:
    """What a child runs before it executes, so that it ends when its parent ends."""
    prctl = ctypes.CDLL(None).prctl

    def die_with() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return die_with


def _check_lockable(memory_bytes: int) -> None:
    """mlock(2): more than RLIMIT_MEMLOCK is refused, and QEMU would end at once."""
    _, limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
    lockable = privileges.lockable_bytes()
    if lockable is None or lockable > memory_bytes:
        return
    raise Failed(
        f"RLIMIT_MEMLOCK is {limit // 1024} kB and QEMU would lock over {memory_bytes // 1024} kB: "
        "raise it (ulimit -l) or run as root",
        errno.EPERM,
        "unavailable",
    )
