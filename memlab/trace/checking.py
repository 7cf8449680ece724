"""`memlab record --check`: the trace's replay beside the command itself, run once more.

Both are contained and started as the recorded command was, without huge pages and with the same
library preloaded. Faults and peak memory of the command are the kernel's (wait4(2)), and its calls
are counted at the kernel's tracepoint: none of the three comes from what the recorder wrote.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from memlab.errors import CannotRun
from memlab.files import packed
from memlab.observe import files, perf_event, system_calls, tracefs
from memlab.run.contained import Contained
from memlab.text import units
from memlab.trace import account, file

_REPLAYED = re.compile(rb"replayed \d{1,20} touches, .*; faults (\d{1,20}); own traps .*\n")
CALLS = ("mmap", "munmap", "mprotect", "mremap")
_OF_TRACE = ("map", "unmap", "protect", "remap")  # in account.c


@dataclass(frozen=True, slots=True)
class Checked:
    """A metric of the command beside that of its replay."""

    metric: str
    unit: str
    live: float
    """Of the command."""
    replayed: float

    @property
    def error(self) -> float:
        """As a share of the command's."""
        return self.replayed / self.live - 1 if self.live else float(self.replayed > 0)

    def __str__(self) -> str:
        """`page faults 12,941 live, 12,990 replayed (+0.38 %)`."""
        live, replayed = (units.format_quantity(v, self.unit) for v in (self.live, self.replayed))
        sign = "+" if self.error > 0 else ""
        percent = units.format_percent(self.error)
        return f"{self.metric} {live} live, {replayed} replayed ({sign}{percent})"


def check(trace: file.Trace, command: Sequence[str], words: Sequence[str]) -> list[Checked]:
    """Run the command as the launcher's `words` say, then replay its trace. CannotRun if one of
    both cannot be run to its end."""
    live, calls = _run(command, words, dict(os.environ))
    if live["signal"]:
        raise CannotRun(f"the command was ended by signal {live['signal']} when it was checked")
    with ExitStack() as stack:
        source = stack.enter_context(files.opened(trace.source))
        plain = str(stack.enter_context(packed.plain(source)))
        folder = os.environ.get("TMPDIR") or "/var/tmp"
        cached = stack.enter_context(tempfile.TemporaryFile(dir=folder))
        subprocess.run([file.tool("cache"), plain], stdout=cached, check=True)
        reading, writing = os.pipe()
        stack.callback(os.close, reading)
        try:
            cached_path = f"/proc/{os.getpid()}/fd/{cached.fileno()}"
            replay = [file.tool("replay"), f"cached={cached_path}", plain]
            replayed, _ = _run(replay, ["thp=never"], dict(os.environ), writing)
        finally:
            os.close(writing)
        found = _REPLAYED.fullmatch(os.read(reading, 1 << 12))
    if replayed["status"] or replayed["signal"] or not found:
        raise CannotRun("the replay did not come to its end when it was checked")
    counted = account.of(trace).calls
    return [
        Checked("page faults", "count", live["minor"] - live["minor_before"], int(found[1])),
        Checked("peak resident memory", "B", live["rss_peak_bytes"], replayed["rss_peak_bytes"]),
        Checked("calls", "count", calls, sum(counted.get(name, 0) for name in _OF_TRACE)),
    ]


def _run(
    command: Sequence[str],
    words: Sequence[str],
    environ: Mapping[str, str],
    output: int = subprocess.DEVNULL,
) -> tuple[Mapping[str, Any], int]:
    """The launcher's report, and how many of CALLS it did with all that it started."""
    with ExitStack() as stack:
        contained = Contained(file.tool("launch"), command, words, environ, output)
        stack.callback(contained.close)
        counter = _counter(contained.pid)
        stack.callback(os.close, counter)
        contained.begin()
        while not contained.has_ended:
            if not contained.read():
                raise CannotRun("the launcher was killed when the trace was checked")
        if number := contained.report.get("errno"):
            raise CannotRun(f"the command cannot be started: {os.strerror(number)}")
        return contained.report, perf_event.read(counter)


def _counter(pid: int) -> int:
    filtered = " || ".join(f"id == {system_calls.NUMBERS[name]}" for name in CALLS)
    try:
        with tracefs.opened() as events:
            number = events.number("raw_syscalls:sys_enter")
        return perf_event.count(
            perf_event.TRACEPOINT,
            number,
            pid,
            perf_event.Scope.PROCESS,
            inherit=True,
            processes=True,
            filtered=filtered,
        )
    except OSError as error:
        raise CannotRun(f"calls cannot be counted: {perf_event.why(error)}") from None
