"""The process that is looked at: what it is, and a handle that no later process can take over."""

from __future__ import annotations

import os
import pwd
import select
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from memlab.errors import BadSubject, CannotLook, MemlabError
from memlab.observe import files, proc, process

_ENDING_S = 5.0
_CAP_SYS_PTRACE = 19  # linux/capability.h: its holder may read any process's memory


@dataclass(frozen=True, slots=True)
class Subject:
    """A process by what does not change while it lives."""

    pid: int
    command: str
    command_line: str
    user: str
    uid: int
    start_ticks: int
    thread: int | None = None
    """A thread that lives, if the main one has ended: /proc has the memory by its number only."""

    @property
    def number(self) -> int:
        """By which /proc is read."""
        return self.thread or self.pid


def named(text: str) -> int:
    """The PID of a number, or of a name that only one process has: its command (comm), or the
    file name of its program. Raises `BadSubject`."""
    if text.isascii() and text.isdecimal() and len(text) < 10:
        if int(text) < 1:
            raise BadSubject(f"PID {text} is not a process: a number from 1, or a name")
        return int(text)
    matches = []
    for pid in process.ids():
        stat = files.known(process.stat, pid) if pid != os.getpid() else None
        if stat is None or stat.state in "ZX" or stat.kernel_thread:
            continue
        words = files.known(process.arguments, pid) or [""]
        if text in (stat.command, os.path.basename(words[0])):  # noqa: PTH119 - no path
            matches.append(pid)
    if not matches:
        raise BadSubject(f"PID {text!r}: no process has that name; `ps -e` lists those that run")
    if len(matches) > 1:
        pids = ", ".join(map(str, sorted(matches)[:20]))
        raise BadSubject(
            f"PID {text!r} is the name of {len(matches)} processes: name one of {pids}"
        )
    return matches[0]


@contextmanager
def held(pid: int) -> Iterator[tuple[Subject, int]]:
    """The process, and a pidfd that tells when it has ended (pidfd_open(2), Linux 5.3)."""
    subject = _find(pid)
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise BadSubject(f"no process {pid}") from None
    try:
        if _began(pid) != subject.start_ticks:  # its number was given to another meanwhile
            raise CannotLook(f"process {pid} ({subject.command}) ended, and another has its number")
        yield subject, fd
    except MemlabError:
        raise
    except Exception as error:
        # Once its memory is gone /proc says nothing of it, or EACCES to an ordinary user; the pidfd
        # says so later (kernel/exit.c: exit_mm, which takes its time, before exit_notify).
        if _is_lost(subject, fd):
            why = _thread_ended(subject)
        elif ended(fd, _ENDING_S):
            why = "ended while it was looked at"
        elif isinstance(error, PermissionError):
            why = "may no longer be read: it runs a program with other rights; run as root"
        else:
            raise
        raise CannotLook(f"process {pid} ({subject.command}) {why}") from None
    finally:
        os.close(fd)


def wait(subject: Subject, fd: int, seconds: float) -> None:
    """Sleep, and raise `CannotLook` where the process ends meanwhile."""
    if ended(fd, seconds):
        raise CannotLook(f"process {subject.pid} ({subject.command}) ended while it was looked at")
    if not lives_on(subject):
        why = _thread_ended(subject) if _is_lost(subject, fd) else "ended while it was looked at"
        raise CannotLook(f"process {subject.pid} ({subject.command}) {why}")


def lives_on(subject: Subject) -> bool:
    """Whether the thread by which it is read is there, if that is not the main one."""
    return subject.thread is None or subject.thread in other_threads(subject.pid)


def _is_lost(subject: Subject, fd: int) -> bool:
    """Whether the process goes on without that thread."""
    if lives_on(subject):
        return False
    return not ended(fd, 0 if other_threads(subject.pid) else _ENDING_S)


def _thread_ended(subject: Subject) -> str:
    return (
        f"lost its main thread before the look, and in it thread {subject.thread}, by which it was "
        "read: look again"
    )


def number(pid: int) -> int:
    """By which /proc is read: of a thread that lives if the main one has ended."""
    stat = files.known(process.stat, pid)
    others = other_threads(pid) if stat is not None and stat.state in "ZX" else []
    return others[0] if others else pid


def _began(pid: int) -> int | None:
    """In ticks since the machine started; None where the process has ended."""
    stat = files.known(process.stat, pid)
    return None if stat is None else stat.start_ticks


def ended(fd: int, seconds: float) -> bool:
    """Whether the process ends within so many seconds."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _find(pid: int) -> Subject:
    try:
        status = proc.status(pid)
        stat = process.stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise BadSubject(f"no process {pid}; `ps -e` lists those that run") from None
    if status["Tgid"] != str(pid):
        raise BadSubject(f"{pid} is a thread of process {status['Tgid']}: diagnose that")
    if stat.kernel_thread:
        raise BadSubject(f"{pid} ({stat.command}) is a kernel thread: it has no memory of its own")
    by = number(pid)
    if stat.state in "ZX" and by == pid:
        raise CannotLook(f"process {pid} ({stat.command}) has ended; its parent has yet to reap it")
    uid = int(status["Uid"].split()[0])
    user = _name(uid)
    try:
        process.check_readable(by)
    except PermissionError:
        remedy = "run as root" if uid == os.geteuid() else "run as that user or as root"
        if os.geteuid() == 0:
            from memlab.observe.capabilities import privileges  # most looks are not refused

            remedy = "this kernel or container does not allow it, not even to root"
            if not privileges.effective() >> _CAP_SYS_PTRACE & 1:
                remedy = "CAP_SYS_PTRACE is needed, which root has not here"
        raise CannotLook(
            f"process {pid} ({stat.command}) belongs to {user} and may not be read: {remedy}"
        ) from None
    except (FileNotFoundError, ProcessLookupError):
        raise CannotLook(f"process {pid} ({stat.command}) ended while it was looked at") from None
    words, thread = process.command_line(by), None if by == pid else by
    return Subject(pid, stat.command, words, user, uid, stat.start_ticks, thread)


def other_threads(pid: int) -> list[int]:
    """Those that live beside the main one."""
    states = {
        task: files.known(process.stat, pid, task) for task in files.known(process.tasks, pid) or []
    }
    return [task for task, one in states.items() if one is not None and one.state not in "ZX"]


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
