"""The recordings of a storm: `record` of a command and of a process, and what each leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import needs
from processes import kill_at_once

from memlab.errors import BadTrace
from memlab.trace import account, file

if TYPE_CHECKING:
    from storm import Blow, Storm

COMMAND, PROCESS = "record", "record a process"
KILLED = (
    "driver",
    "launcher",
    "recorder",
    "guardian",
    "driver and launcher",
    "driver, then launcher",
    "launcher, then driver",
    "driver and recorder",
    "driver and guardian",
    "all",
)
# A command that forks, forks twice, makes sessions and threads, and never ends by itself.
SUBJECT = """
sleep 300 &
setsid sleep 300 &
(setsid sh -c 'sleep 300 & exec sleep 300' &)
{python} -c 'import threading, time
for _ in range(9): threading.Thread(target=time.sleep, args=(300,)).start()' &
echo >ready
while :; do /bin/true; done
"""
_PARTS = {  # of a command line
    "driver": " -m memlab record ",
    "launcher": "/launch/launch ",
    "recorder": "/launch/record ",
    "guardian": "run.guardian",
}
_KILLED_COMMAND = 128 + signal.SIGKILL


def names() -> list[str]:
    """Those that this machine can record."""
    return [COMMAND, PROCESS] if not needs.lacking("recording") else []


def pids(storm: Storm, driver: int, who: str) -> list[int]:
    """The processes of one part; a launcher is two, of which one is drawn."""
    lines = storm.processes()
    if who == "driver":
        return [driver] if driver in lines else []
    found = [pid for pid, line in lines.items() if _PARTS.get(who, "") in line]
    if who == "all":
        return [pid for pid in found if any(part in lines[pid] for part in _PARTS.values())]
    return [storm.random.choice(found)] if who == "launcher" and found else found


def hit(storm: Storm, place: Path, blow: Blow) -> None:
    """One recording, one blow, and the look at its trace."""
    shutil.rmtree(place)
    place.mkdir()
    with _process(blow) as pid:
        of = [str(pid)] if pid else ["--", "sh", "-c", SUBJECT.format(python=sys.executable)]
        process = subprocess.Popen(
            [sys.executable, "-m", "memlab", "record", "-o", "a.trace", *of],
            env=storm.environ, cwd=place, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        storm.pids.add(process.pid)
        if storm.random.random() < 0.7:
            _await(process, lambda: (place / "ready").exists() or (pid and _follows(storm)))
        time.sleep(storm.random.uniform(0, 1.0))
        is_ready = (place / "ready").exists()
        is_guarded = bool(pids(storm, process.pid, "guardian"))
        parts = [who for both in blow.what.split(" and ") for who in both.split(", then ")]
        if blow.what in ("stop and continue", "SIGINT", "SIGTERM", "SIGHUP"):
            storm.signal(process, blow)
        else:
            _kill(storm, process.pid, parts, together=", then " not in blow.what)
            if not {"driver", "all"} & set(parts):
                time.sleep(storm.random.uniform(0, 1.0))
                process.send_signal(signal.SIGINT)
        if {"guardian", "all"} & set(parts) or not is_guarded:
            with suppress(subprocess.TimeoutExpired):
                process.wait(60.0)
            storm.memlab("clean")  # what it ends has the pipes that are read next
        storm.end(process, blow, also={0} if pid else {_KILLED_COMMAND})
        storm.settled(place, blow)
        is_due = is_ready and not pid and not {"recorder", "all"} & set(parts)
        blow.wrong += lacks(place, is_due=is_due)


@contextmanager
def _process(blow: Blow) -> Iterator[int]:
    """The process to record, which goes on whatever becomes of memlab; 0 for a command."""
    if blow.experiment == COMMAND:
        yield 0
        return
    busy = ["sh", "-c", "while :; do /bin/true; done"]
    with subprocess.Popen(busy) as process:
        yield process.pid
        if process.poll() is not None:
            blow.wrong.append("the recorded process has ended")
        process.kill()


def _await(process: subprocess.Popen[str], holds: object) -> None:
    deadline = time.monotonic() + 60.0
    while process.poll() is None and not holds() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.02)


def _follows(storm: Storm) -> bool:
    return any("/launch/record " in line for line in storm.processes().values())


def _kill(storm: Storm, driver: int, parts: list[str], *, together: bool) -> None:
    targets = [pids(storm, driver, who) for who in parts]
    if together:
        kill_at_once(chain.from_iterable(targets))
        return
    for found in targets:
        for pid in found:
            with suppress(ProcessLookupError):  # it has ended by the end of another part
                os.kill(pid, signal.SIGKILL)
        time.sleep(storm.random.uniform(0, 0.2))


def lacks(place: Path, *, is_due: bool) -> Iterator[str]:
    """Every record of a trace is read. One is due if the command had begun and a recorder lived."""
    trace = place / "a.trace"
    if trace.exists():
        try:
            account.of(file.read(trace))
        except BadTrace as error:
            yield str(error)
    elif is_due:
        yield "no trace is left"
    others = {entry.name for entry in place.iterdir()} - {"a.trace", "ready"}
    yield from (f"left: {name}" for name in others)
