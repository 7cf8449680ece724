"""What a run changed on the host, written down before it is changed, and how to undo it.

One file a run, one JSON line a change. The guardian undoes it when the driver dies;
the next sweep, or `memlab clean`, undoes what a dead guardian left. Standard library
only: the guardian is a small process.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from memlab.observe import proc
from memlab.run import takedown
from memlab.run.takedown import PREFIX


def folder() -> Path:
    """Where journals lie: memlab/journal in the XDG state directory."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "memlab" / "journal"


class Journal:
    """The journal of a live run. Each entry is on disk before the change it tells of."""

    def __init__(self, run: str) -> None:
        folder().mkdir(parents=True, exist_ok=True)
        self.path = folder() / f"{run}-{os.getpid()}.jsonl"
        begun = self.path.with_suffix(".begun")
        self._file: IO[str] = begun.open("w")
        driver = {"driver": os.getpid(), "start": proc.start_ticks(), "boot": proc.boot_id()}
        self._write({"run": run} | driver)
        begun.rename(self.path)  # one without its driver's name would look left behind

    def _write(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def make_folder(self, parent: Path, name: str) -> Path:
        """A new folder that goes when the run ends."""
        path = parent / f"{PREFIX}{name}"
        self._write({"undo": "folder", "path": str(path)})
        path.mkdir(mode=0o700)
        return path

    def set_value(self, path: Path, value: str) -> None:
        """Write to a setting (a sysctl, a sysfs file) that gets its old value back."""
        self._write({"undo": "value", "path": str(path), "value": value_of(path)})
        path.write_text(value)

    def enable_memory(self, group: Path) -> None:
        """Give the groups below a v2 group the memory controller, until the run ends."""
        control = group / "cgroup.subtree_control"
        self._write({"undo": "value", "path": str(control), "value": "-memory"})
        control.write_text("+memory")

    def make_group(self, parent: Path, name: str) -> Path:
        """A new cgroup that is emptied and goes when the run ends."""
        path = parent / f"{PREFIX}{name}"
        self._write({"undo": "cgroup", "path": str(path)})
        path.mkdir()
        return path

    def note_swap_file(self, path: Path) -> None:
        """A swap file in a folder of ours, before it is swapped on."""
        self._write({"undo": "swap", "path": str(path)})

    def note_zram(self, path: Path, node: Path) -> None:
        """The /sys/block/zramN that is about to be added, and the device file it will have."""
        self._write({"undo": "zram", "path": str(path), "node": str(node)})

    def close(self) -> None:
        """Undo what nobody has undone, newest first, and end the journal."""
        self._file.close()
        if self.path.exists():
            undo(self.path)


def value_of(path: Path) -> str:
    """What a setting is. A file that marks its choice with brackets, like THP's, is the marked
    word."""
    text = path.read_text().strip()
    return text.partition("[")[2].partition("]")[0] or text


def _remove_folder(entry: dict[str, Any]) -> None:
    path = Path(entry["path"])
    if path.name.startswith(PREFIX) and path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def _restore_value(entry: dict[str, Any]) -> None:
    path = Path(entry["path"])
    if value_of(path) != entry["value"]:  # else it was never changed: it may not be writable
        path.write_text(entry["value"])


_UNDO: dict[str, Callable[[dict[str, Any]], None]] = {
    "folder": _remove_folder,
    "value": _restore_value,
    "cgroup": lambda entry: takedown.remove_group(Path(entry["path"])),
    "swap": lambda entry: takedown.remove_swap_file(Path(entry["path"])),
    "zram": lambda entry: takedown.remove_zram(Path(entry["path"]), Path(entry["node"])),
}
_OUTLIVES_A_BOOT = frozenset({"folder"})  # of the rest nothing is left


def _entries(path: Path) -> list[dict[str, Any]] | None:
    """The whole lines; a torn last line tells of a change that was never made. None where
    another process has undone the journal and dropped it."""
    try:
        lines = path.read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return None
    return [json.loads(line) for line in lines if line.endswith("\n")]


def undo(path: Path) -> list[str]:
    """Undo a journal, then drop it. Returns what could not be undone, a line each; the journal
    stays where there is such a line.

    Groups first, since what is inside may still use the rest; else the newest change first.
    """
    failures = []
    head, *changes = _entries(path) or [{}]
    this_boot = head.get("boot") == proc.boot_id()
    changes.reverse()
    for entry in sorted(changes, key=lambda e: e["undo"] != "cgroup"):
        if this_boot or entry["undo"] in _OUTLIVES_A_BOOT:
            if entry["undo"] not in _UNDO:
                unknown = "this memlab cannot undo it; use the one that made it"
                failures.append(f"{entry['undo']} {entry['path']}: {unknown}")
                continue
            try:
                _UNDO[entry["undo"]](entry)
            except OSError as error:
                failures.append(f"{entry['undo']} {entry['path']}: {error.strerror}")
    if not failures:
        path.unlink(missing_ok=True)
    return failures


def undo_patiently(path: Path) -> list[str]:
    """Undo a journal for two seconds: a killed worker may still be leaving a long write, and a
    guardian may be at the same work."""
    for _ in range(200):
        failures = undo(path)
        if not failures:
            break
        time.sleep(0.01)
    return failures


@dataclass(frozen=True, slots=True)
class Stale:
    """The journal of a run whose driver is gone."""

    path: Path
    run: str
    changes: tuple[str, ...]


def stale() -> Iterator[Stale]:
    """Journals without a living driver: killed with their guardian, or by a power cut."""
    for path in sorted(folder().glob("*.jsonl")):
        entries = _entries(path)
        if entries is None:
            continue
        head, *changes = entries or [{"run": "?", "boot": ""}]
        if not _driver_lives(head):
            yield Stale(path, head["run"], tuple(f"{e['undo']} {e['path']}" for e in changes))


def _driver_lives(head: dict[str, Any]) -> bool:
    """A pid alone may have been given to another process since."""
    try:
        return bool(
            head["boot"] == proc.boot_id() and proc.start_ticks(head["driver"]) == head["start"]
        )
    except (FileNotFoundError, ProcessLookupError):
        return False
