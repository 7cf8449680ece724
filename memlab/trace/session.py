"""One recording while it runs: the recorder, the command if there is one, and what ends them.

However it ends, it ends in one way: the command and all that it has started are ended where this
process was asked to end, or where their time is over. Where only the trace has failed they are let
go on, and what is written of it by then is kept.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

import msgspec

from memlab.errors import CannotRun, EndedBySignal
from memlab.files.output import Unnamed
from memlab.run.contained import Contained, starting
from memlab.trace import file
from memlab.trace.ring import AllocationRing

_PATIENCE_S = 5.0  # from a signal on, until the command is killed
_KILLED_WITHIN_S = 10.0
_HAS_ENDED = 255  # recorder/main.c
_COUNTS = ("records", "lost", "late", "untraced", "looks_cpu_ns")  # recorder/main.c
_GOES_ON = "the command goes on, and is not recorded any more"


class Recorded(msgspec.Struct):
    """How a recording ended: the exit status and signal are the command's. `ended_by` is the signal
    that this process was ended by, 0 for none; `is_over`: the command's time was over.
    `looks_cpu_ns` is what looks for pages used again took of a CPU."""

    records: int
    lost: int
    late: int
    untraced: int
    looks_cpu_ns: int
    status: int = 0
    signal: int = 0
    ended_by: int = 0
    is_over: bool = False

    @property
    def exit_status(self) -> int:
        """Of a wrapper: the command's, as a shell has it."""
        if self.is_over:
            return 0
        return 128 + self.signal if self.signal else self.status


class Recorder:
    """The process that writes the trace (recorder/main.c). It prints a line once it follows, one
    when a command has ended, and one at its own end."""

    def __init__(
        self, made: Unnamed, words: Sequence[str], ring: AllocationRing | None = None
    ) -> None:
        self.last: dict[str, Any] = {}
        self.follows = self.has_command_ended = self.has_ended = False
        self._made, self._ring = made, ring
        with ExitStack() as stack:
            reading, self._control = os.pipe()
            stack.callback(os.close, self._control)
            theirs = [reading, *([ring.file] if ring else [])]
            words = [f"control={reading}", *words]
            words += [f"allocations={ring.file}"] if ring else []
            os.set_blocking(reading, False)
            try:
                self._process, self.reading = _started(made, words, theirs)
            finally:
                os.close(reading)
            stack.callback(os.close, self.reading)
            stack.callback(self._process.wait)
            self._text = b""
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """What is left of it is ended, which is all of it where it has not begun to follow."""
        if not self.has_ended:
            self._process.kill()
        self._stack.close()

    @property
    def failed(self) -> str:
        return str(self.last.get("failed", ""))

    def read(self) -> None:
        piece = os.read(self.reading, 1 << 16)
        *lines, self._text = (self._text + piece).split(b"\n")
        for line in lines:
            self.last = json.loads(line)
            self.follows |= "follows" in self.last
            self.has_command_ended |= "ended" in self.last
        self.has_ended = not piece

    def mark_end(self, number: int) -> None:
        """Say what ends the command: a signal, or 0 if its time is over."""
        self._write_control(bytes([number]))

    def mark_exit(self, faults: int) -> None:
        """Say that the command has ended, with so many page faults."""
        self._write_control(bytes([_HAS_ENDED]) + faults.to_bytes(8, "little"))

    def _write_control(self, message: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(self._control, message)

    def end(self) -> None:
        """Have it write the end of the trace now."""
        self._process.terminate()
        self.wake()

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)  # a command may have stopped it

    def kill(self) -> None:
        self._process.kill()

    @property
    def is_whole(self) -> bool:
        return self.last.get("cut") == file.Cut.WHOLE

    @property
    def cut(self) -> int:
        """Why the trace ends before the command, as in its head."""
        return int(self.last.get("cut", file.Cut.RECORDER_KILLED))

    @property
    def why(self) -> str:
        return self.failed or file.why_cut(self.cut, int(self.last.get("cut_by", 0)))

    def close_ring(self) -> None:
        """No program is to wait for room in it."""
        if self._ring:
            self._ring.close_to_writers()

    def result(self) -> dict[str, Any]:
        """What it says of the whole trace. Where it was killed, a second one makes a trace of what
        it had written. CannotRun where there is none."""
        self.close_ring()
        if not {"records", "failed"} & self.last.keys():
            process, reading = _started(self._made, ["rescue=1"], [])
            with open(reading, "rb") as lines:
                text = lines.read().splitlines()
            process.wait()
            self.last = json.loads(text[-1]) if text else {"failed": "the recorder was killed"}
        if self.failed:
            raise CannotRun(self.failed)
        return self.last


def _started(
    made: Unnamed, words: Sequence[str], theirs: Sequence[int]
) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and where what it says is read."""
    reading, report = os.pipe()
    own = [f"out={made.file}", f"folder={made.folder}", f"report={report}"]
    own += [f"part={made.part}", f"name={made.name}", f"parent={os.getpid()}"]
    try:
        with starting("the recorder"):
            process = subprocess.Popen(
                [file.tool("record"), *own, *words],
                pass_fds=[made.file, made.folder, report, *theirs],
            )
    except CannotRun:
        os.close(reading)
        raise
    finally:
        os.close(report)
    return process, reading


class Session:
    """A recording that runs: what is waited for, and what is done about what comes."""

    def __init__(
        self,
        recorder: Recorder,
        contained: Contained | None = None,
        seconds: float = 0.0,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Without a command the recorder itself ends after its time. `warn` is given a line where
        the trace has failed and the command goes on."""
        self._recorder, self._contained = recorder, contained
        self._seconds, self._warn = seconds, warn
        self._due_s = math.inf  # when the next step of the command's end is
        self._ended_by, self._is_over = 0, False
        self._is_ending = self._is_killed = self._is_lost = self._is_hurried = False

    def run(self) -> Recorded:
        with _signals() as heard:
            self._begin(heard)
            while not (self._recorder.has_ended and self._command_has_ended):
                self._attend(heard)
            if self._contained and self._contained.has_ended and not self._is_ending:
                self._contained.let_go()
            self._check_started()
            result = self._recorder.result()
        report = self._contained.report if self._contained else {"status": 0, "signal": 0}
        return Recorded(
            **{name: int(result[name]) for name in _COUNTS},
            status=report.get("status", 0),
            signal=report.get("signal", signal.SIGKILL),  # the launcher was killed, and it too
            ended_by=self._ended_by,
            is_over=self._is_over,
        )

    def _check_started(self) -> None:
        report = self._contained.report if self._contained else {}
        if number := report.get("errno"):
            where = "" if report["failed"] == "execve" else f"{report['failed']}: "
            raise CannotRun(f"the command cannot be started: {where}{os.strerror(number)}")

    @property
    def _command_has_ended(self) -> bool:
        return self._contained is None or self._contained.has_ended or self._is_lost

    def _begin(self, heard: Heard) -> None:
        """Until the subject is followed. A signal ends it before: then there is no trace."""
        recorder = self._recorder
        while not recorder.follows:
            if recorder.has_ended:
                raise CannotRun(recorder.failed or "the recorder was killed before it followed")
            ready, _, _ = select.select([heard.descriptor, recorder.reading], [], [])
            if heard.descriptor in ready:
                raise EndedBySignal(heard.take()[0])
            recorder.read()
        if self._contained is None:
            return
        self._contained.begin()
        if self._seconds:
            self._due_s = time.monotonic() + self._seconds

    def _attend(self, heard: Heard) -> None:
        """Wait for what comes next, and do what is to be done about it."""
        recorder, contained = self._recorder, self._contained
        waiting = [heard.descriptor]
        waiting += [] if recorder.has_ended else [recorder.reading]
        waiting += [] if contained is None or self._command_has_ended else [contained.reading]
        left_s = None if self._due_s == math.inf else max(0.0, self._due_s - time.monotonic())
        ready, _, _ = select.select(waiting, [], [], left_s)
        for number in heard.take() if heard.descriptor in ready else ():
            self._take_signal(number)
        if contained and contained.reading in ready:
            self._hear_launcher(contained)
        if recorder.reading in ready:
            recorder.read()
            if contained and recorder.has_command_ended:
                contained.wake()  # the command may have stopped the launcher
            if recorder.has_ended and not self._command_has_ended:
                self._take_failure()
        if time.monotonic() >= self._due_s:
            self._go_on_ending()

    def _take_signal(self, number: int) -> None:
        if not self._command_has_ended and not self._ended_by:
            self._ended_by = number
            self._end_command(number)
        elif not self._command_has_ended:
            self._due_s = 0.0  # no patience any more
        elif not self._is_hurried:
            self._is_hurried = True
            self._recorder.end()
        else:
            self._recorder.kill()

    def _end_command(self, number: int) -> None:
        """Ask it to end; 0 where its time is over."""
        assert self._contained
        self._is_ending = True
        self._recorder.mark_end(number)
        self._contained.signal(number or signal.SIGTERM)
        self._due_s = time.monotonic() + _PATIENCE_S

    def _go_on_ending(self) -> None:
        """The time of the command is over, or the patience with it."""
        assert self._contained
        if not self._is_ending:
            self._is_over = True
            self._end_command(0)
        elif not self._is_killed:
            self._is_killed = True
            self._contained.kill()
            self._due_s = time.monotonic() + _KILLED_WITHIN_S
        else:  # one that the kernel does not let end
            self._is_lost, self._due_s = True, math.inf
            self._recorder.end()

    def _hear_launcher(self, contained: Contained) -> None:
        if not contained.read() and not contained.has_ended:
            self._recorder.mark_end(signal.SIGKILL)
            contained.kill()
            self._is_lost = self._is_ending = True
        if self._command_has_ended:
            self._due_s = math.inf
            if contained.has_ended:
                counts = {"minor": 0, "minor_before": 0, "major": 0} | contained.report
                faults = counts["minor"] - counts["minor_before"] + counts["major"]
                self._recorder.mark_exit(max(0, faults))
            self._recorder.wake()

    def _take_failure(self) -> None:
        """The trace has ended before the command."""
        assert self._contained
        self._recorder.close_ring()
        if self._recorder.is_whole:
            return
        if self._recorder.cut == file.Cut.MANY_PROCESSES:
            self._is_ending = self._is_killed = True
            self._contained.kill()
            self._due_s = time.monotonic() + _KILLED_WITHIN_S
        elif not self._is_ending:
            self._warn(f"{self._recorder.why}; {_GOES_ON}")


class Heard:
    """The signals that have come, by a descriptor that can be waited for."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def take(self) -> bytes:
        return os.read(self.descriptor, 64)


@contextmanager
def _signals() -> Iterator[Heard]:
    """While it is open, SIGINT, SIGTERM and SIGHUP are read and raise nothing. One that is ignored,
    as SIGHUP is under nohup(1), stays ignored."""
    reading, writing = os.pipe()
    with ExitStack() as stack:
        stack.callback(os.close, reading)
        stack.callback(os.close, writing)
        if threading.current_thread() is threading.main_thread():
            os.set_blocking(writing, False)
            stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writing))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if (before := signal.getsignal(number)) is not signal.SIG_IGN:
                    stack.callback(signal.signal, number, before)
                    signal.signal(number, lambda *_: None)
        yield Heard(reading)
