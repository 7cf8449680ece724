"""Causes that the arguments of a failing call tell, of calls that look into another process:
whether they may is one rule for all of them.

Sources: __ptrace_may_access() of kernel/ptrace.c, yama_ptrace_access_check() of
security/yama/yama_lsm.c, cap_ptrace_access_check() of security/commoncap.c, mm_access() of
kernel/fork.c of Linux 6.18; ptrace(2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memlab.diagnose.call_facts import Cause, EarlierFacts, Facts, Reader, shown
from memlab.diagnose.kernel_numbers import sysctl, target_of
from memlab.observe import files, namespaces, proc
from memlab.observe.proc import ROOT
from memlab.text import units

_PTRACE, _ADMIN, _PERFMON = 19, 21, 38
_ATTACH, _SEIZE = 16, 0x4206
_MOVE_ALL = 4
_CURRENT = 0xFFFF_FF9C  # AT_FDCWD
_FILES = re.compile(
    r"/proc/(\d{1,10})/(?:task/\d{1,10}/)?"
    r"(mem|maps|smaps|smaps_rollup|numa_maps|environ|auxv|pagemap|exe|cwd|root|(?:fd|ns)(?:/\w+)?)"
)
_SETTING = "as the user of that process, or as root with CAP_SYS_PTRACE"


def _memory(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    return _cause(facts, arguments[0], attaches=call.startswith("process_vm"))


def _pages(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    if call == "move_pages" and arguments[5] & _MOVE_ALL:
        return None  # it needs another right, CAP_SYS_NICE
    return _cause(facts, arguments[0], attaches=False)


def _trace(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    if arguments[0] not in (_ATTACH, _SEIZE):
        return None
    status = _status(arguments[1])
    if (tracer := status.get("TracerPid", "0").strip()) not in ("", "0"):
        who = f"process {arguments[1]} ({shown(status.get('Name', ''))})"
        return Cause(
            f"{who} is traced by {shown(tracer)}, and may have one tracer", "ptrace",
            "one debugger or profiler at a time", harmless=True,
        )  # fmt: skip
    return _cause(facts, arguments[1], attaches=True)


def _descriptor(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    return _cause(facts, int(facts.field(arguments[0], "Pid") or 0), attaches=True)


def _event(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    if facts.is_capable(_ADMIN, _PERFMON):
        return None
    return _cause(facts, arguments[1], attaches=False, instead="CAP_PERFMON")


def _file(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EACCES of a file of /proc/PID, by its path or from a folder that is open."""
    has_folder = call.endswith(("at", "at2"))
    raw, end, _ = facts.memory(arguments[1 if has_folder else 0], 256).partition(b"\0")
    path = raw.decode("utf-8", "surrogateescape") if end else ""
    if path and not path.startswith("/") and has_folder and arguments[0] != _CURRENT:
        path = f"{facts.link(arguments[0])}/{path}"
    file = _FILES.fullmatch(path)
    mount = next((m for m in facts.mounts.values() if m.mount_point == "/proc"), None)
    if file is None or mount is None or mount.filesystem != "proc":
        return None
    return _cause(facts, int(file[1]), attaches=file[2] == "mem", file=file[2])


def _cause(
    facts: Facts, pid: int, *, attaches: bool, file: str = "", instead: str = ""
) -> Cause | None:
    """None where nothing was read that forbids it."""
    pid &= 0xFFFF_FFFF
    if isinstance(facts, EarlierFacts) or not pid or pid == facts.pid or facts.is_thread(pid):
        return None
    if not namespaces.is_shared(facts.pid, "pid"):
        return None  # the number is of another namespace
    status = _status(pid)
    why = _why(facts, pid, status, attaches=attaches, by_file=bool(file))
    if not why:
        return None
    rights = facts.lacks("CAP_SYS_PTRACE") + (f" or {instead}" if instead else "")
    of = f"/proc/PID/{shown(file)} of " if file else ""
    return Cause(
        f"{of}process {pid} ({shown(status.get('Name', ''))}) {why}; this one has no {rights}",
        "CAP_SYS_PTRACE",
        _SETTING + (f"; {instead}" if instead else ""),
        harmless=True,
    )


def _why(
    facts: Facts, pid: int, status: Mapping[str, str], *, attaches: bool, by_file: bool
) -> str:
    """Without CAP_SYS_PTRACE in the user namespace of the other; empty if it has that, or if
    nothing forbids it."""
    users, other = (_numbers(text, "Uid") for text in (facts.status, status))
    groups, other_groups = (_numbers(text, "Gid") for text in (facts.status, status))
    if min(len(users), len(other), len(groups), len(other_groups)) < 4:
        return ""
    place = 3 if by_file else 0  # PTRACE_MODE_FSCREDS, PTRACE_MODE_REALCREDS
    user, of_group = users[place], groups[place]
    of_users = [target_of(ROOT / f"proc/{number}/ns/user") for number in (facts.pid, pid)]
    effective = int(facts.status.get("CapEff", "0"), 16)
    if effective >> _PTRACE & 1 and (not facts.is_contained or of_users[0] == of_users[1]):
        return ""
    if {*other[:3]} != {user}:
        return f"is of UID {_listed(other[:3])}, this one of UID {user}"
    if {*other_groups[:3]} != {of_group}:
        return (
            f"is of the same user, of GID {_listed(other_groups[:3])}, this one of GID {of_group}"
        )
    if _owner(pid) not in (None, user):
        return "is of the same user, and not dumpable (PR_SET_DUMPABLE; set-user-ID)"
    more = int(status.get("CapPrm", "0"), 16) & ~int(facts.status.get("CapPrm", "0"), 16)
    if of_users[0] is not None and of_users[0] == of_users[1] and more:
        return "is of the same user, and has capabilities that this one has not"
    scope = next(iter(sysctl("kernel/yama/ptrace_scope")), 0) if attaches else 0
    if scope == 1 and not _is_below(pid, facts.pid):
        return "does not descend from this one, and kernel.yama.ptrace_scope is 1"
    if scope > 1:
        return f"is not to be traced: kernel.yama.ptrace_scope is {scope}"
    return ""


def _owner(pid: int) -> int | None:
    """Of its files in /proc: root, of a process that is not dumpable (proc(5))."""
    return files.known(lambda: (ROOT / f"proc/{pid}/mem").stat().st_uid)


def _is_below(pid: int, other: int) -> bool:
    """Whether a process descends from the other."""
    for _ in range(64):
        if pid == other:
            return True
        pid = next(iter(_numbers(_status(pid), "PPid")), 0)
        if not pid:
            break
    return False


def _status(pid: int) -> Mapping[str, str]:
    return files.known(lambda: proc.status(pid)) or {}


def _numbers(status: Mapping[str, str], name: str) -> list[int]:
    return [int(word) for word in status.get(name, "").split() if word.isdigit()]


def _listed(numbers: Sequence[int]) -> str:
    return units.enumerated(map(str, numbers))


READERS: tuple[tuple[str, str, Reader], ...] = (
    ("process_vm_readv process_vm_writev", "EPERM", _memory),
    ("move_pages migrate_pages", "EPERM", _pages),
    ("process_madvise", "EPERM EACCES", _memory),
    ("ptrace", "EPERM", _trace),
    ("pidfd_getfd", "EPERM", _descriptor),
    ("perf_event_open", "EACCES", _event),
    ("open openat openat2 readlink readlinkat", "EACCES EPERM", _file),
)
