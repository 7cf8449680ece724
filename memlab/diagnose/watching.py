"""Cheap looks, again and again, until something happens: then a whole look, and the last minutes.

A cheap look reads three files. What was read lately is kept in a ring, and on disk where a file is
named, so that the last look is there when the subject is not any more.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from memlab.diagnose import group, subject, tree
from memlab.diagnose.tree import Events
from memlab.errors import BadRequest, BadSubject, CannotLook, CannotWrite
from memlab.files import output
from memlab.observe import files, proc, process
from memlab.text import units

_RING = 300
_LAST = 5  # looks that are printed when the subject has ended
_KEPT_EVERY = 10  # looks, and at each change
_CHANGE = 0.05
_NAMES = {
    "group": "the share of its group's limit, without what can be dropped",
    "charge": "the share of its group's limit, with all",
    "rss": "its resident memory",
    "anonymous": "its anonymous memory",
    "swap": "what it has in swap",
    "threads": "its threads",
    "files": "its open files",
    "pressure": "waiting for memory, of the machine or the group, in 10 s",
    "kills": "kills in its group since the watch began",
}
_SHARES = ("group", "charge", "pressure")
_BYTES = ("rss", "anonymous", "swap")
_KILLS = {"1": "memory.oom_control", "2": "memory.events"}
_END = "end"
_TRIGGER = re.compile(r"\s*(\w+)\s*([<>])=?\s*([0-9.]+\s{0,8}(?:[^\W\d]\w*)?%?)\s*")


@dataclass(frozen=True, slots=True)
class Trigger:
    """``group > 90%``."""

    text: str
    name: str
    above: bool
    bound: float

    def met(self, seen: Sample) -> bool:
        value = seen.values.get(self.name)
        return value is not None and (value > self.bound if self.above else value < self.bound)


@dataclass(frozen=True, slots=True)
class Sample:
    """A cheap look: what could be read, by name; shares from 0 to 1, bytes and counts."""

    at: str
    values: dict[str, float]


def trigger(text: str) -> Trigger:
    """Raises `BadRequest`. No look meets `end`."""
    if text.strip() == _END:
        return Trigger(_END, _END, True, 0.0)
    match = _TRIGGER.fullmatch(text)
    known = ", ".join(_NAMES)
    if match is None or match[1] not in _NAMES:
        raise BadRequest(
            f"--watch {text!r}: write NAME > VALUE, such as 'group > 90%', or end; {known}"
        )
    word = match[3].replace(" ", "")
    try:
        bound = _bound(match[1], word)
    except ValueError as error:
        raise BadRequest(f"--watch {text!r}: {error}") from None
    return Trigger(text.strip(), match[1], match[2] == ">", bound)


def _bound(name: str, word: str) -> float:
    """In the unit of what is read by this name; `ValueError` for a value of another."""
    if name in _SHARES:
        return units.parse_percent(word)
    is_size = name in _BYTES or word[-1:] in "kKmMgGtT"
    return float(units.parse_size(word) if is_size else units.parse_count(word))


class Watcher:
    """Of a process, or of a group where `pid` is None."""

    def __init__(
        self, pid: int | None, directory: Path | None, version: str | None, keep: Path | None
    ) -> None:
        self._pid, self._keep = pid, keep
        self._directory, self._version = directory, version
        if pid is not None and directory is None:
            own = group.own(subject.number(pid))
            self._directory, self._version = own if own else (None, None)
        self._start = self._started()
        self._events: list[Events] = []  # of the first look and of the last
        self._has_failed = False  # once, to write
        self.unwritten: CannotWrite | None = None  # why the file lacks the last looks
        self.ring: deque[Sample] = deque(maxlen=_RING)

    def _started(self) -> int | None:
        pid = self._pid
        stat = None if pid is None else files.known(process.stat, pid)
        return stat.start_ticks if stat else None

    def look(self) -> Sample | None:
        """None where the subject has ended."""
        values: dict[str, float] = {}
        if self._pid is not None:
            number = subject.number(self._pid)
            status = files.known(proc.status, number)
            stat = files.known(process.stat, number)
            if status is None or stat is None or self._started() != self._start:
                return None
            if stat.state in "ZX":
                return None
            for name, field in (("rss", "VmRSS"), ("anonymous", "RssAnon"), ("swap", "VmSwap")):
                values[name] = float(proc.status_bytes(status, field) or 0)
            values["threads"] = float(status.get("Threads", "0"))
            folder = files.known(lambda: (proc.ROOT / f"proc/{number}/fd").stat().st_size)
            if folder is not None and _counts_files():
                values["files"] = float(folder)
        if self._directory and self._version:
            if not self._directory.is_dir():
                return None
            values.update(self._of_group(self._directory, self._version))
        if (waits := _pressure(self._directory)) is not None:
            values["pressure"] = waits
        made = Sample(time.strftime("%H:%M:%S"), values)
        self.ring.append(made)
        return made

    def _of_group(self, directory: Path, version: str) -> Iterator[tuple[str, float]]:
        limit = group.nearest_of(directory, version)
        charge = files.known(group.charge, limit.group if limit else directory, version)
        if charge and limit:
            yield "group", charge.needed_bytes / max(1, limit.limit_bytes)
            yield "charge", charge.used_bytes / max(1, limit.limit_bytes)
        if "oom_kill" not in group.pairs(directory / _KILLS[version]):
            return
        # v2 adds those of the groups below itself.
        below = tree.folders(directory)[0] if version == "1" else ()
        self._events = [*self._events[:1], tree.events(directory, version, below)]
        yield "kills", float(self._events[-1].kills - self._events[0].kills)

    def why_absent(self, name: str) -> str:
        """Why a look has no value of this name."""
        if name == "pressure":
            return "/proc/pressure/memory cannot be read: boot with psi=1"
        if name not in ("group", "charge", "kills"):
            if self._pid is None:
                return "a group is watched, and no process: name its PID"
            if not _counts_files():
                return "this kernel shows no count of open files, Linux 6.2 does"
            return f"/proc/{self._pid}/fd cannot be read"
        if not self._directory or not self._version:
            return "no memory cgroup is seen here"
        if name == "kills":
            return f"{self._directory / _KILLS[self._version]} has no oom_kill"
        limit = group.nearest_of(self._directory, self._version)
        if limit is None:
            return "no memory cgroup with a limit is seen here"
        return f"the charge of {limit.group} cannot be read"

    def killed(self) -> str:
        """That there were kills in its group meanwhile; empty without one."""
        if self._directory is None or self._version is None:
            return ""
        kills = dict(self._of_group(self._directory, self._version)).get("kills", 0)
        if not kills:
            return ""
        counts = [events.whole_kills for events in self._events]
        whole = group.whole_kills(counts[0], counts[-1])
        many = group.killed(round(kills), whole)
        said = f", and the kernel killed {many} of its group for want of memory meanwhile"
        return f"{said} (memlab diagnose --last-kill says which)"

    def keep(self, note: str, say: Callable[[str], None]) -> None:
        """Write the ring and why, whole or not at all. The watch goes on if that fails: a full disk
        may be what it watches for."""
        if self._keep is None:
            return
        document = {"why": note, "samples": [asdict(one) for one in self.ring]}
        try:
            output.write({self._keep: (json.dumps(document, indent=1) + "\n").encode()})
        except CannotWrite as error:
            if not self._has_failed:
                say(f"{error}; the watch goes on")
            self._has_failed, self.unwritten = True, error
        else:
            self.unwritten = None


def run(
    watch: Watcher,
    triggers: Sequence[Trigger],
    every_s: float,
    say: Callable[[str], None],
    look: Callable[[], None],
) -> bool:
    """Until a trigger is met, when `look` takes a whole look, or the subject ends. Whether a
    trigger was met. Raises `CannotLook` where the first look can read none of them."""
    last: Sample | None = None
    taken = 0
    while True:
        seen = watch.look()
        if seen is None:
            watch.keep("ended", say)
            say(f"the subject has ended{watch.killed()}; these were the last looks:")
            for one in [*watch.ring][-_LAST:]:
                say(line(one))
            return False
        if not taken:
            _check_readable(watch, triggers, seen, say)
        taken += 1
        if last is None or _changed(last, seen):
            say(line(seen))
            last = seen
            watch.keep("running", say)
        elif taken % _KEPT_EVERY == 0:
            watch.keep("running", say)
        met = next((one for one in triggers if one.met(seen)), None)
        if met is not None:
            watch.keep(met.text, say)
            say(f"{met.text}: {line(seen)}")
            _look_whole(watch, say, look)
            return True
        time.sleep(every_s)


def _check_readable(
    watch: Watcher, triggers: Sequence[Trigger], first: Sample, say: Callable[[str], None]
) -> None:
    """A limit may be set, or a file become readable, while others are waited for."""
    absent = [one for one in triggers if one.name not in (_END, *first.values)]
    for one in absent:
        known = ", ".join(first.values) or "nothing"
        words = f"--watch {one.text!r} cannot be read: {watch.why_absent(one.name)}; read: {known}"
        if len(absent) == len(triggers):
            raise CannotLook(words)
        say(f"{words}; the watch goes on")


def _look_whole(watch: Watcher, say: Callable[[str], None], look: Callable[[], None]) -> None:
    """What met the trigger may have ended the subject too, as a kill does."""
    try:
        look()
    except (BadSubject, CannotLook) as error:
        say(f"it cannot be looked at any more: {error}; these were the last looks:")
        for one in [*watch.ring][-_LAST:]:
            say(line(one))


def line(seen: Sample) -> str:
    """A cheap look in one line."""
    return "  ".join([seen.at, *(f"{name} {_value(name, v)}" for name, v in seen.values.items())])


def _value(name: str, value: float) -> str:
    if name in _SHARES:
        return units.format_percent(value)
    unit = "B" if name in _BYTES else "count"
    return units.format_quantity(value, unit)


@cache
def _counts_files() -> bool:
    """Whether the size of /proc/PID/fd is the number of open files, since Linux 6.2: 0 before. Of
    this process one is open, the folder itself."""
    try:
        folder = os.open(proc.ROOT / "proc/self/fd", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.fstat(folder).st_size > 0
    finally:
        os.close(folder)


def _changed(before: Sample, now: Sample) -> bool:
    """A share by 5 points, another number by 5 %."""
    for name, value in now.values.items():
        old = before.values.get(name, 0.0)
        least = _CHANGE if name in _SHARES else _CHANGE * max(abs(old), 1.0)
        if abs(value - old) > least:
            return True
    return False


def _pressure(directory: Path | None) -> float | None:
    """`some` over 10 s, of the group where it has one (v2)."""
    of_group = files.text(directory / "memory.pressure") if directory else None
    text = of_group or files.text(proc.ROOT / "proc/pressure/memory") or ""
    found = re.search(r"some avg10=([\d.]+)", text)
    return float(found[1]) / 100 if found else None
