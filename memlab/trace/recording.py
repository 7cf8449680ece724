"""Recording: a command from its start, or a process that runs, into a trace's file.

What follows it is recorder/, by perf events: they are that process's own and the kernel closes them
with it, so nothing is left behind however it ends, and no other tracer is disturbed. A command is
contained as those of `try` are. The file has no name until it is written to its end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from memlab.errors import BadSubject, CannotLook, CannotRun, CannotWrite
from memlab.files import output
from memlab.observe import cgroup, tracefs
from memlab.run.contained import Contained
from memlab.trace import file, ring
from memlab.trace.session import Recorded, Recorder, Session

_CACHED = "filemap:mm_filemap_add_to_page_cache"
# The tracepoints in the order that record.c wants them, and where it reads their fields.
_EVENTS = {
    "exceptions:page_fault_user": {"address": (8, 8), "error_code": (24, 8)},
    "exceptions:page_fault_kernel": {"address": (8, 8), "error_code": (24, 8)},
    "raw_syscalls:sys_enter": {"id": (8, 8), "args": (16, 48)},
    "raw_syscalls:sys_exit": {"id": (8, 8), "ret": (16, 8)},
    "task:task_newtask": {"pid": (8, 4), "clone_flags": (32, 8)},
    _CACHED: {"i_ino": (16, 8), "s_dev": (32, 4)},
}
RING_BYTES = 32 << 20  # a CPU
PROCESSES_MOST = 8192  # at once: more is a program that forks for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """What of a recording may be asked. `stdout` is the command's, if not this process's; `warn` is
    given a line where the trace has failed and the command goes on."""

    seconds: float = 0.0  # 0: until it ends
    redact: bool = False
    keep_huge: bool = False
    allocations: bool = False
    ring_bytes: int = RING_BYTES
    stdout: int | None = None
    warn: Callable[[str], None] = lambda _: None


def paths(out: Path, runs: int) -> list[Path]:
    """Where so many recordings go: `a.trace`, or `a1.trace`, `a2.trace` and so on."""
    if runs == 1:
        return [out]
    return [out.with_name(f"{out.stem}{number}{out.suffix}") for number in range(1, runs + 1)]


def record(out: Path, *, command: Sequence[str] = (), pid: int = 0, how: How = How()) -> Recorded:
    """Follow a command, or the process `pid`, and write the trace to `out`. CannotRun and
    CannotLook say what is missing; then there is no trace."""
    words = [*_events(), f"ring={how.ring_bytes}"]
    words += [f"processes={PROCESSES_MOST}"]
    words += ["redact=1"] if how.redact else []
    if pid:
        _check_subject(pid)
    with output.unnamed(out) as result:
        if pid:
            words += [f"seconds={how.seconds}"] if how.seconds else []
            with Recorder(result, [*words, f"pid={pid}"]) as recorder:
                ended = Session(recorder).run()
        else:
            ended = _command(result, command, words, how)
    if file.read(out).cut == file.Cut.NOT_WRITTEN:  # there is no room to pack it either
        return ended
    try:
        file.pack(out)
    except CannotWrite as error:
        how.warn(f"the trace is not packed: {error}")
    return ended


def _command(
    made: output.Unnamed, command: Sequence[str], words: Sequence[str], how: How
) -> Recorded:
    with ExitStack() as stack:
        shared = stack.enter_context(ring.opened(how.ring_bytes)) if how.allocations else None
        environ = {**os.environ, **(shared.environ if shared else {})}
        words_of_launcher = launched(how)
        contained = Contained(file.tool("launch"), command, words_of_launcher, environ, how.stdout)
        stack.callback(contained.close)
        words = [*words, f"command={contained.pid}", *(["thp=keep"] if how.keep_huge else [])]
        words += [f"groups={group}" for group in cgroup.chain("memory")[1][-1:]]
        recorder = stack.enter_context(Recorder(made, words, shared))
        return Session(recorder, contained, how.seconds, how.warn).run()


def launched(how: How) -> list[str]:
    """The launcher's words for a command that is recorded."""
    preload = [os.environ.get("LD_PRELOAD", ""), file.tool("lock.so")]
    preload += [file.tool("allocations.so")] if how.allocations else []
    huge = [] if how.keep_huge else ["thp=never"]
    return [*huge, f"preload={':'.join(filter(None, preload))}"]


def _events() -> list[str]:
    """The recorder's arguments for the tracepoints. CannotRun if they may not be read, or if their
    fields are not those that record.c expects."""
    try:
        with tracefs.opened() as events:
            for event, wanted in _EVENTS.items():
                fields = events.fields(event)
                if wrong := [name for name, where in wanted.items() if fields.get(name) != where]:
                    raise CannotRun(f"this kernel lays out {event} in another way ({wrong[0]})")
            numbers = [events.number(event) for event in _EVENTS]
            has_folios = events.fields(_CACHED).get("order") == (36, 1)
        return [f"events={','.join(map(str, numbers))}", *(["folios=1"] if has_folios else [])]
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
