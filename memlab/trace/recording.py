"""Recording: a command from its start, or a process that runs, into a trace's file.

What follows it is record.c, by perf events: they are that process's own and the kernel
closes them with it, so nothing is left behind however it ends, and no other tracer is disturbed.
The file has no name until it is whole.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from errno import EAGAIN
from pathlib import Path
from typing import Any

import msgspec

from memlab.errors import BadSubject, CannotLook, CannotRun
from memlab.files import output
from memlab.observe import tracefs
from memlab.trace import file

# The tracepoints in the order that record.c wants them, and where it reads their fields.
_EVENTS = {
    "exceptions:page_fault_user": {"address": (8, 8), "error_code": (24, 8)},
    "exceptions:page_fault_kernel": {"address": (8, 8), "error_code": (24, 8)},
    "raw_syscalls:sys_enter": {"id": (8, 8), "args": (16, 48)},
    "raw_syscalls:sys_exit": {"id": (8, 8), "ret": (16, 8)},
    "task:task_newtask": {"pid": (8, 4), "clone_flags": (32, 8)},
}
RING_BYTES = 32 << 20  # a CPU
PROCESSES_MOST = 8192  # at once: more is a program that forks for ever


class Recorded(msgspec.Struct):
    """How a recording ended: the exit status and signal are the command's."""

    records: int
    lost: int
    late: int
    untraced: int
    status: int
    signal: int


def record(
    out: Path,
    *,
    command: Sequence[str] = (),
    pid: int = 0,
    seconds: float = 0.0,
    redact: bool = False,
    keep_huge: bool = False,
    allocations: bool = False,
    ring_bytes: int = RING_BYTES,
) -> Recorded:
    """Follow a command, or the process `pid` for so many seconds (0: until it ends), and write the
    trace to `out`, whole or not at all. CannotRun and CannotLook say what is missing."""
    with ExitStack() as stack:
        words = [f"events={','.join(map(str, _numbers()))}", f"ring={ring_bytes}"]
        words += [f"processes={PROCESSES_MOST}"]
        words += [f"seconds={seconds}"] if seconds else []
        words += ["redact=1"] if redact else []
        words += ["thp=keep"] if keep_huge else []
        if pid:
            _check_subject(pid)
            words += [f"pid={pid}"]
        else:
            preload = [os.environ.get("LD_PRELOAD", ""), file.tool("start.so")]
            preload += [file.tool("allocations.so")] if allocations else []
            words += ["allocations=1"] if allocations else []
            words += [f"preload={':'.join(filter(None, preload))}", "--", *command]
        try:
            return _run(words, stack.enter_context(output.unnamed(out)))
        except OSError as error:
            raise CannotRun(f"cannot write {out}: {error.strerror}") from None


def _numbers() -> list[int]:
    """CannotRun where the tracepoints may not be read, or are not as record.c knows them."""
    try:
        with tracefs.opened() as events:
            for event, wanted in _EVENTS.items():
                fields = events.fields(event)
                if wrong := [name for name, where in wanted.items() if fields.get(name) != where]:
                    raise CannotRun(f"this kernel lays out {event} in another way ({wrong[0]})")
            return [events.number(event) for event in _EVENTS]
    except FileNotFoundError as error:
        raise CannotRun(
            f"this kernel has no tracepoint to record with ({error.filename}): it needs "
            "CONFIG_FTRACE_SYSCALLS, and page faults as x86-64 traces them"
        ) from None
    except OSError as error:
        raise CannotRun(
            f"recording needs root, or CAP_PERFMON and a readable tracefs ({error.strerror}): "
            "sudo memlab record ..."
        ) from None


def _check_subject(pid: int) -> None:
    """A process with memory of its own, of this machine's kind."""
    try:
        with open(f"/proc/{pid}/exe", "rb") as program:
            bits = program.read(5)[4:]
    except FileNotFoundError:
        raise BadSubject(f"no process {pid}, or one without a program") from None
    except OSError as error:
        raise CannotLook(f"process {pid} may not be read: {error.strerror}") from None
    if bits == b"\x01":
        raise BadSubject(f"process {pid} is a 32-bit program, whose calls are not recorded")


def _run(words: Sequence[str], written: int) -> Recorded:
    heard, report = os.pipe()
    # Ctrl-C reaches the recorder and the command by itself; what they make of it is waited for.
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        recorder = _started([f"out={written}", f"report={report}", *words], [written, report])
        signal.signal(signal.SIGTERM, lambda *_: recorder.terminate())
        os.close(report)
        with open(heard, "rb") as lines:
            said: list[dict[str, Any]] = [json.loads(line) for line in lines]
        recorder.wait()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    failed = [line["failed"] for line in said if "failed" in line]
    if failed or not said:
        raise CannotRun(failed[0] if failed else "the recorder ended without a trace")
    return msgspec.convert(said[-1], Recorded)


def _started(words: Sequence[str], passed: Sequence[int]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen([file.tool("record"), *words], pass_fds=passed)
    except OSError as error:
        remedy = "; raise pids.max of the cgroup, or `ulimit -u`" if error.errno == EAGAIN else ""
        raise CannotRun(f"the recorder cannot be started: {error.strerror}{remedy}") from None
