"""A signal to memlab alone, and to each command of the command line by itself: it ends as a shell
expects, in one line, and nothing that it has started is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import needs
import pytest
from processes import processes
from recordings import LIMIT_S, until

from memlab.cli._table import commands

SUBJECT = """#!/bin/sh
sleep 300.881 &
setsid sleep 300.882 &
(setsid sh -c 'sleep 300.883 & exec sleep 300.884' &)
echo ready >{folder}/ready
exec sleep 300.885
"""
# What keeps a command busy. Every other command ends by itself: before the signal, or by it.
BUSY = {
    "record": ["record", "-o", "{folder}/a.trace", "--", "{folder}/subject"],
    "record a process": ["record", "-o", "{folder}/a.trace", "{pid}"],
    "try": ["try", "--blocks", "9", "-p", "lock=off", "--", "{folder}/subject"],
    "try a service": [
        *("try", "--blocks", "9", "-p", "lock=off", "--serve", "{folder}/subject"),
        *("--ready", "unix:{folder}/none", "--", "true"),
    ],
    "try a duet": ["try", "--duet", "--blocks", "9", "-p", "aslr=on,off", "--", "{folder}/subject"],
    "fit": ["fit", "--", "{folder}/subject"],
    "diagnose": ["diagnose", "--watch", "end", "{pid}"],
    "sweep": ["sweep", "mmap-write", "--budget", "100s", "-q"],
    "hosts import": ["hosts", "import", "-"],
    "hosts worker": ["hosts", "worker", "tcp://127.0.0.1:9"],
}
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
NAMES = [*BUSY, *(name for words, _ in commands() if (name := " ".join(words)) not in BUSY)]


def cases() -> Iterator[Any]:
    """Each command by each signal. Quick: `record` and `try` by all, the others by one in turn."""
    for at, name in enumerate(NAMES):
        for number in SIGNALS:
            is_quick = name in ("record", "try") or number == SIGNALS[at % len(SIGNALS)]
            marks = [] if is_quick else [pytest.mark.slow]
            if name == "fit":  # whose levels are limits of a group
                marks.append(pytest.mark.needs("memory cgroup"))
            yield pytest.param(name, number, marks=marks, id=f"{name}-{number.name}")


@pytest.fixture
def other() -> Iterator[int]:
    """A process that goes on whatever becomes of memlab."""
    with subprocess.Popen(["sleep", "300.889"]) as process:
        yield process.pid
        assert process.poll() is None
        process.kill()


def started(folder: Path, name: str, pid: int) -> subprocess.Popen[bytes]:
    (folder / "subject").write_text(SUBJECT.format(folder=folder))
    (folder / "subject").chmod(0o755)
    words = [word.format(folder=folder, pid=pid) for word in BUSY.get(name, name.split())]
    environ = os.environ | {"MEMLAB_STORE": str(folder / "s.db")}
    with (folder / "err").open("w") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "memlab", *words],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=err, env=environ,
        )  # fmt: skip


@pytest.mark.parametrize(("name", "number"), list(cases()))
def test_a_signal_ends_each_command_and_what_it_has_started(
    name: str, number: signal.Signals, tmp_path: Path, other: int
) -> None:
    if name.startswith("record"):
        needs.of("recording")
    is_subject = "{folder}/subject" in BUSY.get(name, ())
    with started(tmp_path, name, other) as process:
        if is_subject:
            until((tmp_path / "ready").exists, "the subject begins")
        elif name == "record a process":
            until(lambda: any(map(waits, processes(r"^\S*/launch/record "))), "it is followed")
        else:
            until(lambda: process.poll() is not None or begun(process.pid), "it listens")
        process.send_signal(number)
        status, said = process.wait(LIMIT_S), (tmp_path / "err").read_text()
    until(lambda: processes() == [other], f"left: {processes()}")
    assert "Traceback" not in said
    assert list((tmp_path / "home").glob("state/memlab/journal/*")) == []
    if is_subject:
        assert status == 128 + number
        assert said.splitlines()[-1].startswith(("memlab: ended by", "memlab: interrupted"))
    elif name == "record a process":
        assert status == 0
    elif name in BUSY:
        assert status in (128 + number, -number)


def waits(recorder: int) -> bool:
    """For the end of what it follows, of which all is read."""
    with suppress(OSError):
        links = [str(link.readlink()) for link in Path(f"/proc/{recorder}/fd").iterdir()]
        return "anon_inode:[pidfd]" in links
    return False


def begun(pid: int) -> bool:
    """Whether it takes SIGTERM in hand (proc_pid_status(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)
