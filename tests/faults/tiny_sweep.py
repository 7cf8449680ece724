"""A small sweep in a process of its own, what it has stored, and what it has left behind."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from memlab.run import journal
from memlab.store import Store

POINTS = 6
TINY = ["mmap-write", "-p", "size=4k", "-p", "file_size=1m", "-p", "filesystem=dir,tmpfs"]
TINY += ["-p", "file_state=cached_4k", "-p", "slice=5ms"]
SHM = Path("/dev/shm")
LIMIT_S = 300.0  # of any wait: it ends a hang, and is not a measure of time


class Lab:
    """A store and a folder of its own. The processes take the test's home from its environment."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.files.mkdir()
        self.store = folder / "store" / "results.db"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "memlab", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )
        self.started.append(process)
        return process

    def sweep(self, blocks: int, **options: Any) -> subprocess.Popen[str]:
        """Begin the sweep, or go on with it where there is a run already."""
        own = ["--resume", "last"] if self.run_ids() else [*TINY, "--blocks", str(blocks)]
        own += [] if self.run_ids() else ["--dir", str(self.files)]
        return self.start("--store", str(self.store), "sweep", *own, "-q", **options)

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        """Exit status, stdout and stderr."""
        out, err = process.communicate(timeout=5 * LIMIT_S)
        return process.returncode, out, err

    def close(self) -> None:
        """End what a test has left running, and undo what that left."""
        for pid, _ in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.communicate()
        for left in journal.stale():
            journal.undo(left.path)

    # What is stored

    def run_ids(self) -> list[str]:
        if not self.store.exists():
            return []
        with Store(self.store) as opened:
            return [run.id for run in opened.runs()]

    def samples(self) -> dict[tuple[int, int], tuple[int | None, Any]]:
        """(block, point) -> (row's number, raw); a pair that came twice would be missed."""
        (run,) = self.run_ids()
        with Store(self.store) as opened:
            rows = list(opened.samples(run))
        found = {(row.block, row.point): (row.id, row.raw) for row in rows}
        assert len(found) == len(rows)
        return found

    def count(self) -> int:
        """The samples, seen past the store's own reader: cheap enough to poll."""
        if not self.store.exists():
            return 0
        database = sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)
        try:
            (count,) = database.execute("SELECT count(*) FROM samples").fetchone()
            return int(count)
        except sqlite3.OperationalError:  # it is being made
            return 0
        finally:
            database.close()

    def until_sampled(self, process: subprocess.Popen[str], more: int = 1) -> None:
        """Wait until a running sweep has stored so many more samples."""
        enough = self.count() + more
        until(lambda: self.count() >= enough or process.poll() is not None)
        assert process.poll() is None, process.communicate()

    # What is left

    def leftovers(self) -> list[str]:
        """Journals, folders and processes of this test's runs."""
        journals = [str(path) for path in journal.folder().glob("*")]
        folders = [str(path) for path in self.files.iterdir()]
        for run in self.run_ids():
            folders += [str(path) for path in SHM.glob(f"memlab-{run}-*")]
        return journals + folders + [f"pid {pid}: {line}" for pid, line in self.processes()]

    def processes(self) -> list[tuple[int, str]]:
        """Every process that has this test's home, by its environment, but this one."""
        mark = f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes():
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append((int(folder.name), line))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return [(pid, line) for pid, line in found if pid != os.getpid()]

    def guardian(self) -> int:
        return until(lambda: next((p for p, s in self.processes() if "run.guardian" in s), None))


def until(holds: Callable[[], Any]) -> Any:
    """What `holds` returns as soon as that is true; fails after the limit."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.003)
    return found


def settled(lab: Lab) -> None:
    """Nothing of a dead sweep is left, soon after its death."""
    deadline = time.monotonic() + LIMIT_S
    while left := lab.leftovers():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
