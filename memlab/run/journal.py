"""The changes that a run makes to the host: recorded before they are made, and undone afterwards.

One file a run, one JSON line a change. The guardian undoes it when the driver dies;
the next sweep, or `memlab clean`, undoes what a dead guardian left. Standard library
only: the guardian is a small process.

A journal is read as hostile: it must be this user's own regular file, its lines are checked, and
each change is checked once more where it is undone (run.cleanup). Only a run of this machine and
of this PID namespace is known to be over: the journal of another is left to it.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from memlab.errors import CannotRun
from memlab.files import folders, ownership
from memlab.observe import proc
from memlab.run import cleanup
from memlab.run.cleanup import PREFIX, value_of

_BYTES_MAX = 16 << 20
_TEXT_MAX = 4096  # characters of a value: a path has no more (PATH_MAX), nor has a page of sysfs
_DIGITS_MAX = 20  # of 64 bits
_SAID = ".damaged"  # is put behind the name of a damaged journal once a sweep has said so
_BEGUN_S = 10.0  # a journal without a head is of a run that begins, or of one killed as it began
RETRY_S = 2.0  # a killed worker may still be in a long write
ALONE_S = 60.0  # that a dead driver's guardian goes on for: a process of 1 TB takes so long to end
_ALL_S = 20.0  # for the journals of all runs that are over


def folder() -> Path:
    """Where journals lie: memlab/journal in the XDG state directory."""
    return folders.user("state") / "journal"


class Journal:
    """The journal of a live run. Each entry is on disk before its change is made.

    What it undoes from is in its memory: the file is for whoever comes after, and may be lost or
    emptied meanwhile, as by a machine of the same id and name that shares the home.
    """

    def __init__(self, run: str) -> None:
        """CannotRun where it cannot be written: without it nothing is changed."""
        # A container's process has the pid that the one before it had.
        self.name = f"{run}-{os.getpid()}-{secrets.token_hex(2)}"
        self.path = folder() / f"{self.name}.jsonl"
        self._entries: list[dict[str, Any]] = []
        self._written = self._bytes = 0  # entries that are whole in the file, and their bytes
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            self.fd = os.open(self.path, flags, 0o600)
            with ExitStack() as unfinished:  # no guardian yet: nobody else would remove it
                unfinished.callback(os.close, self.fd)
                unfinished.callback(_remove, self.fd, self.path)
                self._write(
                    {"run": run} | _here() | {"driver": os.getpid(), "start": proc.start_ticks()}
                )
                unfinished.pop_all()
        except OSError as error:
            raise CannotRun(
                f"cannot write the journal {self.path}: {error.strerror}; set XDG_STATE_HOME to "
                "the path of a folder that can be written"
            ) from None

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._entries.append(dict(entry))
        self.renew()

    def renew(self) -> None:
        """Have the file say all that the memory does."""
        if os.fstat(self.fd).st_size != self._bytes:  # emptied by another, or a write cut short
            os.ftruncate(self.fd, 0)
            self._written = self._bytes = 0
        new = self._entries[self._written :]
        text = unwritten = b"".join(json.dumps(entry).encode() + b"\n" for entry in new)
        while unwritten:
            unwritten = unwritten[os.write(self.fd, unwritten) :]
        os.fsync(self.fd)
        self._written, self._bytes = len(self._entries), self._bytes + len(text)

    def forget(self) -> None:
        """All is undone: by the guardian, which says so."""
        self._entries.clear()

    def make_folder(self, parent: Path, name: str) -> Path:
        """Make a folder that is removed when the run ends. OSError, for root also where another
        user could put something else in its place."""
        if why := ownership.unfit(parent):
            raise cleanup.NotOurs(why)
        path = parent / f"{PREFIX}{name}"
        self._write({"undo": "folder", "path": str(path)})
        path.mkdir(mode=0o700)
        return path

    def set_value(self, path: Path, value: str) -> None:
        """Change a setting (a sysctl, a sysfs file) and restore it when the run ends."""
        cleanup.check_setting(path, value)
        keeper, before = cleanup.restored_by(path, value_of(path))
        self._write({"undo": "value", "path": str(keeper), "value": before})
        cleanup.set_value(path, value)

    def enable_memory(self, group: Path) -> None:
        """Give the groups below a v2 group the memory controller, until the run ends."""
        control = group / "cgroup.subtree_control"
        self._write({"undo": "value", "path": str(control), "value": "-memory"})
        control.write_text("+memory")

    def make_group(self, parent: Path, name: str) -> Path:
        """Make a cgroup that is emptied and removed when the run ends."""
        path = parent / f"{PREFIX}{name}"
        self._write({"undo": "cgroup", "path": str(path)})
        path.mkdir()
        return path

    def note_swap_file(self, path: Path) -> None:
        """Record a swap file in a folder of the run, before swapon(2)."""
        self._write({"undo": "swap", "path": str(path)})

    def note_zram(self, path: Path, node: Path, mark: str) -> None:
        """Record the /sys/block/zramN that is about to be added, its device file, and the readahead
        that it will be known by."""
        self._write({"undo": "zram", "path": str(path), "node": str(node), "mark": mark})

    def give_mark(self) -> str:
        """A mark, NAME=VALUE, for the environment of processes that are about to begin. They are
        known by it, and so are all that they start."""
        mark = f"MEMLAB_CONTAINED={secrets.token_hex(16)}"
        self._write({"undo": "marked", "path": mark})
        return mark

    def forget_mark(self, mark: str) -> None:
        """Its processes may go on."""
        self._write({"undo": "nothing", "path": mark})

    def note_session(self, leader: int, mark: str) -> None:
        """Record a session of processes that has begun. `mark` is on the command line of each."""
        start = str(proc.start_ticks(leader))
        self._write({"undo": "session", "path": f"/proc/{leader}", "start": start, "mark": mark})

    def forget_session(self, leader: int) -> None:
        """Its processes have ended."""
        self._write({"undo": "nothing", "path": f"/proc/{leader}"})

    def close(self) -> None:
        """Undo what has not been undone yet, newest first, and end the journal."""
        try:
            _undo(self._entries, self.fd, self.path)
        finally:
            os.close(self.fd)


class Lasting(str):
    """A failure that no wait mends; it says what does."""


class Unusable(Exception):
    """A journal that is not to be undone here; one clause says why. `damaged`: nor anywhere."""

    def __init__(self, why: str, *, damaged: bool = False) -> None:
        super().__init__(why)
        self.damaged = damaged


def _remove_session(entry: Mapping[str, str], deadline: float) -> bool:
    leader, start = Path(entry["path"]), entry["start"]
    if not (start.isascii() and start.isdecimal() and len(start) <= _DIGITS_MAX):
        raise cleanup.NotOurs("not a session that memlab began")
    return cleanup.end_session(leader, int(start), entry["mark"], deadline)


_Undo = Callable[[Mapping[str, str], float], bool]
# In each kind's entry, beside `undo` and `path`; and what undoes it.
_KINDS: dict[str, tuple[frozenset[str], _Undo]] = {
    "folder": (frozenset(), lambda e, _: cleanup.remove_folder(Path(e["path"]))),
    "value": (frozenset({"value"}), lambda e, _: cleanup.restore(Path(e["path"]), e["value"])),
    "session": (frozenset({"start", "mark"}), _remove_session),
    "marked": (frozenset(), lambda e, until: cleanup.end_marked(e["path"], until)),
    "cgroup": (frozenset(), lambda e, until: cleanup.remove_group(Path(e["path"]), until)),
    "swap": (frozenset(), lambda e, until: cleanup.remove_swap_file(Path(e["path"]), until)),
    "zram": (
        frozenset({"node"}),
        lambda e, until: cleanup.remove_zram(
            Path(e["path"]), Path(e["node"]), until, e.get("mark", ""), int(e.get(_NOTED_NS, 0))
        ),
    ),
    "nothing": (frozenset(), lambda *_: False),
}
_NOTED_NS = "noted_ns"  # when the last line was written, which the driver may have died after
_PATHS = ("path", "node")
_FIRST = {"session": 0, "marked": 0, "cgroup": 1}  # what runs may still use the rest
_PASSING = frozenset({errno.EBUSY, errno.EAGAIN, errno.EINTR, errno.ENOMEM})
_REPORTED = "its failures last, and were told"  # the path of an entry that says so
_REPORTED_ENTRY = json.dumps({"undo": "nothing", "path": _REPORTED}).encode() + b"\n"
_OUTLIVES_A_BOOT = frozenset({"folder"})  # nothing else survives a boot
_HEAD = {"run": str, "driver": int, "start": int, "boot": str, "machine": str, "pids": int}


def _here() -> dict[str, Any]:
    """This boot of this machine, and the PID namespace that processes are known by. The id of a
    machine may be an image's, and that of many containers; the name beside it is not."""
    identity = _machine_id()
    return _boot() | {"machine": f"{identity} {os.uname().nodename}" if identity else ""}


def _machine_id() -> str:
    """machine-id(5). Containers and image builds have none, or an empty one (machine-id(5), "First
    boot semantics"): theirs is the root's file system's (statfs(2), f_fsid), where it has one."""
    with suppress(OSError):
        if machine_id := proc.read(proc.ROOT / "etc/machine-id").strip():
            return machine_id
    fsid = os.statvfs(proc.ROOT).f_fsid
    return f"fsid-{fsid:x}" if fsid else ""


def _boot() -> dict[str, Any]:
    return {"boot": proc.boot_id(), "pids": Path("/proc/self/ns/pid").stat().st_ino}


def _lines(fd: int) -> list[dict[str, Any]]:
    """The complete lines, the head first. An incomplete last line is of a change that was never
    made. Raises Unusable."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise Unusable("it is not a regular file", damaged=True)
    if status.st_uid != os.geteuid():
        raise Unusable("it is another user's: they run `memlab clean`")
    if status.st_mode & 0o022:
        raise Unusable("others may write to it", damaged=True)
    if status.st_size > _BYTES_MAX:
        raise Unusable("it is too long", damaged=True)
    text = os.pread(fd, _BYTES_MAX, 0)
    try:
        lines = [json.loads(line) for line in text.split(b"\n")[:-1]]
        good = not lines or (_is_head(lines[0]) and all(map(_is_change, lines[1:])))
    except Exception:  # whatever a parser makes of bytes that memlab did not write
        good = False
    if not good:
        raise Unusable("it is not one memlab wrote", damaged=True)
    return lines


def _is_head(line: object) -> bool:
    return (
        isinstance(line, dict)
        and line.keys() >= _HEAD.keys()
        and all(type(line[name]) is kind for name, kind in _HEAD.items())
        and all(abs(line[name]) < 2**64 for name, kind in _HEAD.items() if kind is int)
        and all(_is_text(line[name]) for name, kind in _HEAD.items() if kind is str)
        and line["run"].replace("-", "").isalnum()
    )


def _is_change(line: object) -> bool:
    if not isinstance(line, dict) or not {"undo", "path"} <= line.keys():
        return False
    if not all(_is_text(value, path=name in _PATHS) for name, value in line.items()):
        return False
    return line["undo"] not in _KINDS or _KINDS[line["undo"]][0] <= line.keys()


def _is_text(value: object, *, path: bool = False) -> bool:
    """Whether the kernel can be given it: a path may have bytes that are not UTF-8."""
    if not isinstance(value, str) or len(value) > _TEXT_MAX or "\0" in value:
        return False
    try:
        value.encode("utf-8", "surrogateescape" if path else "strict")
    except UnicodeEncodeError:
        return False
    return True


def _check_undoable(head: Mapping[str, Any]) -> None:
    """Raises Unusable unless this journal's run was one of this machine and is over."""
    here = _here()
    if head["boot"] != here["boot"]:
        if not here["machine"] or head["machine"] != here["machine"]:
            raise Unusable(
                "its run is another machine's: `memlab clean` there, or remove the file once the "
                "run is over"
            )
    elif head["pids"] != here["pids"]:
        raise Unusable("its run is in another container: `memlab clean` there")
    elif _driver_lives(head):
        raise Unusable("")


def _driver_lives(head: Mapping[str, Any]) -> bool:
    """The start time is compared too, since a pid may be reused."""
    try:
        life = proc.life(head["driver"])
    except (FileNotFoundError, ProcessLookupError):
        return False
    return life.start_ticks == head["start"] and not life.ended


def undo_open(
    fd: int, path: Path, changed: list[str] | None = None, until: float | None = None
) -> list[str]:
    """Undo an open journal, then remove it. Returns one line for each failure; the journal
    stays where there is such a line. Adds to `changed` what there was to undo.

    First what runs, which may still use the rest; else the newest change first. What has to wait
    waits no longer than `until`, by the monotonic clock; else ten seconds in all.
    """
    return _undo(_lines(fd), fd, path, changed, until)


def undo_whole(fd: int, path: Path, retry_s: float) -> bool:
    """Undo an open journal patiently; whether there was one, and all of it is undone. No change is
    undone twice: another run may have begun meanwhile."""
    try:
        lines = _lines(fd)
    except Unusable:
        return False
    done: set[int] = set()
    undo_rest = partial(_undo, lines, fd, path, done=done)
    return bool(lines) and not patiently(undo_rest, retry_s=retry_s)


def _undo(
    lines: list[dict[str, Any]],
    fd: int,
    path: Path,
    changed: list[str] | None = None,
    until: float | None = None,
    done: set[int] | None = None,
) -> list[str]:
    """`done`: the places of the changes that earlier attempts undid, to which this adds its own."""
    done = set() if done is None else done
    failures: list[str] = []
    head, *changes = lines or [{}]
    ended = {entry["path"] for entry in changes if entry["undo"] == "nothing"}
    this_boot = head.get("boot") == proc.boot_id()
    deadline = until or time.monotonic() + cleanup.PATIENCE_S
    if changes:
        changes[-1] = {**changes[-1], _NOTED_NS: str(os.fstat(fd).st_mtime_ns)}
    newest_first = reversed(list(enumerate(changes)))
    for place, entry in sorted(newest_first, key=lambda pair: _FIRST.get(pair[1]["undo"], 2)):
        if place in done:
            continue
        what = f"{entry['undo']} {entry['path']}"
        if not (this_boot or entry["undo"] in _OUTLIVES_A_BOOT):
            continue
        if entry["undo"] in ("session", "marked") and entry["path"] in ended:
            continue
        if entry["undo"] not in _KINDS:
            message = (
                f"this memlab cannot undo it; {path} is for `memlab clean` of the one that made it"
            )
            failures.append(Lasting(f"{what}: {message}"))
            continue
        try:
            if _KINDS[entry["undo"]][1](entry, deadline) and changed is not None:
                changed.append(what)
        except Exception as error:  # what one entry meets stops no other
            failures.append(_failure(entry, path, error))
        else:
            done.add(place)
    if not failures:
        _remove(fd, path)
        os.ftruncate(fd, 0)  # whoever else has it open finds nothing to undo
    return failures


def _failure(entry: Mapping[str, str], journal: Path, error: Exception) -> str:
    message = f"{entry['undo']} {entry['path']}: {_why(error)}"
    if isinstance(error, cleanup.NotOurs) or not isinstance(error, OSError):
        return Lasting(f"{message}; look at it, then remove {journal}")
    if entry["undo"] == "value" and error.errno not in _PASSING:
        return Lasting(f"{message}; write {entry['value']!r} to it yourself, then remove {journal}")
    return message


def _why(error: Exception) -> str:
    """The kernel's words, or what no code here expected."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"


def _remove(fd: int, path: Path) -> None:
    """Remove a journal's file, and no other that has come to lie there."""
    with suppress(OSError):
        if os.path.samestat(os.fstat(fd), path.stat(follow_symlinks=False)):
            path.unlink()


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def undo(path: Path, changed: list[str] | None = None, until: float | None = None) -> list[str]:
    """Undo a journal by its path; as undo_open. One that somebody else undid is not a failure."""
    try:
        fd = _open(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{path}: {_why(error)}"]
    try:
        return undo_open(fd, path, changed, until)
    except Unusable as unusable:
        return [f"{path}: {unusable}"]
    except Exception as error:  # a journal stops no other, whatever lies in it
        return [f"{path}: {_why(error)}"]
    finally:
        os.close(fd)


def patiently(
    attempt: Callable[[], list[str]], until: float = math.inf, retry_s: float = RETRY_S
) -> list[str]:
    """The failures of the last attempt to undo a journal, within `retry_s` and `until`: a killed
    worker may still be in a long write, and a guardian may be undoing the same journal. What lasts
    is not waited for."""
    deadline, pause_s = min(until, time.monotonic() + retry_s), 0.01
    while failures := attempt():
        if (
            all(isinstance(failure, Lasting) for failure in failures)
            or time.monotonic() >= deadline
        ):
            break
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)
    return failures


@dataclass(frozen=True, slots=True)
class Stale:
    """The journal of a run that is over and has not been undone."""

    path: Path
    run: str


@dataclass(frozen=True, slots=True)
class Left:
    """A journal that is not undone here, and why. One that is damaged is undone nowhere.
    `reported`: a sweep has said so."""

    path: Path
    why: str
    damaged: bool

    @property
    def reported(self) -> bool:
        return self.path.suffix == _SAID

    def set_aside(self) -> Left:
        """The same under a name that says that it was said; it stays to be looked at."""
        try:
            return replace(self, path=self.path.rename(f"{self.path}{_SAID}"))
        except OSError:  # it is said again
            return self

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


@dataclass(frozen=True, slots=True)
class Undone:
    """What there was to undo of a run, and a line for what could not be. `reported`: an earlier
    sweep has said so of failures that last."""

    run: str
    changes: list[str]
    failures: list[str]
    reported: bool


def undo_stale() -> Iterator[Undone]:
    """Undo every run that is over."""
    until = time.monotonic() + _ALL_S
    for journal in list(stale()):
        changed: list[str] = []
        failures = patiently(partial(undo, journal.path, changed, until), until)
        lasting = bool(failures) and all(isinstance(failure, Lasting) for failure in failures)
        yield Undone(journal.run, changed, failures, lasting and _reported(journal.path))


def _reported(path: Path) -> bool:
    """Whether the journal has an entry that says its failures were reported; else it gets one."""
    try:
        fd = _open(path)
    except OSError:
        return False
    try:
        lines = _lines(fd)
        reported = any(line.get("path") == _REPORTED for line in lines)
        if lines and not reported:
            os.ftruncate(fd, os.pread(fd, _BYTES_MAX, 0).rindex(b"\n") + 1)  # a line cut short
            os.pwrite(fd, _REPORTED_ENTRY, os.fstat(fd).st_size)
    except Exception:  # it is reported again
        return False
    finally:
        os.close(fd)
    return reported


def stale() -> Iterator[Stale]:
    """Journals of runs that are over: killed with their guardian, or by a power cut."""
    return (journal for journal in _journals() if isinstance(journal, Stale))


def left_alone() -> Iterator[Left]:
    """Journals of other machines, containers and users, and damaged ones."""
    return (journal for journal in _journals() if isinstance(journal, Left))


def _journals() -> Iterator[Stale | Left]:
    kinds = (".jsonl", _SAID)
    try:
        paths = sorted(path for path in folder().iterdir() if path.suffix in kinds)
    except OSError:
        return
    for path in paths:
        try:
            if head := _head(path):
                yield Stale(path, head["run"])
        except FileNotFoundError:
            continue  # undone meanwhile
        except Unusable as unusable:
            if str(unusable):
                yield Left(path, str(unusable), unusable.damaged)
        except Exception as error:  # it stops no other
            foreign = isinstance(error, PermissionError)
            yield Left(path, _why(error), damaged=not foreign)


def _head(path: Path) -> Mapping[str, Any] | None:
    """The head of a journal that is to be undone here; None for one that names no change, which is
    removed where it is old. Raises Unusable and OSError."""
    fd = _open(path)
    try:
        lines = _lines(fd)
        if not lines:
            if time.time() - os.fstat(fd).st_mtime > _BEGUN_S:
                _remove(fd, path)
            return None
        _check_undoable(lines[0])
        return lines[0]
    finally:
        os.close(fd)
