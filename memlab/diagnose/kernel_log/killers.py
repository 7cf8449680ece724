"""Kills by programs, which act before the kernel does, and programs that tell of a kernel's kill.

Formats: systemd-oomd 247 to 257 (src/oom/oomd-manager.c), earlyoom 0.9 to 1.8, nohang 0.1 and 0.2,
oomd 0.3 and later, Android's lmkd and the kernel driver before it, Talos 1.12, kubelet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from memlab.diagnose.kernel_log import forms

_OOMD = re.compile(r"(?:Killed|Marked) ((?:/|\u2026|\.{3}).{1,1024}?) (?:for killing )?due to ")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_SHORTENED = "\u2026."  # with which people write a path
_OOMD_PRESSURE = re.compile(
    r"Memory pressure for (/.{1,1024}?) is greater than \d{1,3} for more than \d{1,6} seconds"
)
_OOMD_COUNT = re.compile(r"systemd-oomd killed (\d{1,9}) process")
_OOMD_ATTEMPT = re.compile(r"oomd attempting to kill (\d{1,10}) with ")
_OOMD_NO_GROUP = re.compile(r"under (/.{1,1024}?) based on ")
_ATTEMPTS_MAX, _PIDS_SHOWN, _OOMD_MAX = 10_000, 8, 1200
_EARLYOOM = re.compile(
    r'ending (SIG\w{1,8}) to process (\d{1,10}) (?:uid \d{1,10} )?"(.{0,64}?)":? '
    r".{0,40}VmRSS (\d{1,10}) MiB"
)
_EARLYOOM_FORMER = re.compile(
    r"illing process (?:(\d{1,10}) \"(.{0,64}?)\"|'(.{0,64}?)') with signal (\d{1,2})"
    r"(?:, pid: (\d{1,10}))?.{0,40}?VmRSS:? (\d{1,10}) MiB"
)
_EARLYOOM_FIRST = re.compile(  # 1.1, and until 1.0
    r"illing process: (.{0,64}?), pid: (\d{1,10}), badness: \d{1,10}, VmRSS: (\d{1,10}) MiB"
    r"|Killing process (\d{1,10}) (.{1,64})"
)
_MINIMUM = re.compile(r"Out of memory! (?:avail: \d{1,10} MiB < min|mem min): \d{1,10} MiB")
_MINIMUM_LINES = 3
_NOHANG = re.compile(r"end(?:ing)? (SIG[A-Z]{3,5}) to (?:the victim|\"?(.{1,64}?)\"?;)")
_NOHANG_COMMAND = re.compile(r"Run the command: kill -([A-Z]{3,4}|\d{1,2}) (\d{1,10})\b")
_NOHANG_LEVEL = re.compile(
    r"\w{2,16} \[.{1,24}\] (?:<=|>=) \w{4,16}_threshold_\w{3,16} \[.{1,24}\]"
)
_LEVELS_MAX = 8
_NOHANG_VICTIM = re.compile(r"PID: (\d{1,10}), [nN]ame: (.{1,64}), badness: ")
_LMKD = re.compile(
    r"(?:owmemorykiller|\blmkd) {0,9}(?:\( {0,6}\d{1,7}\))?: {1,2}"
    r"(?:Kill|Killing|Reclaim) '(.{1,256}?)' \((\d{1,10})\)"
    r"(?:.{0,200}?to free (\d{1,12})kB)?(?:.{0,200}?; reason: (.{0,120}))?"
)
_DRIVER_FREED = re.compile(r"\bto free (\d{1,12})kB on behalf of ")
_DRIVER_FORMER = re.compile(
    r"send sigkill to (\d{1,10}) \((.{1,64}?)\), (?:oom_)?adj -?\d{1,5}, size \d{1,12}"
)
_DRIVER = re.compile(r"cache \d{1,12}kB is below limit \d{1,12}kB for oom_score_adj -?\d{1,5}")
_FACEBOOK = re.compile(r"illed (\d{1,6}): (\d{1,10})(?:\((.{0,64}?)\))?")
_FACEBOOK_PICK = re.compile(r'Picked "(.{1,512}?)" \((\d{1,9})MB\) based on (.{1,80})')
_TALOS = re.compile(r'ending SIGKILL to cgroup \{.{0,300}?"cgroup": "(.{1,512}?)"')
_TALOS_VICTIMS = re.compile(r'victim processes: \{.{0,300}?"processes": ?\[([\d, ]{0,4096})\]')
_KUBELET = re.compile(r"must evict pod\(s\) to reclaim\"? {0,4}(?:resourceName=\"?)?(\w{1,32})")
_EVICTED = re.compile(
    r'pod (?:(\S{1,253}) is evicted successfully|is evicted successfully" pod="(\S{1,253})")'
)
_LOW_NODE = re.compile(  # by `kubectl get events`, and by `kubectl describe`
    r"(?:\bEvicted\b(?:.{0,80}?\bpod/(\S{1,253})\s)?.{0,200}?|\b[Mm]essage: {1,12})"
    r"(The node was low on resource: memory\..{0,160})"
)

LMKD = "Android's lmkd"
DRIVER = "Android's driver lowmemorykiller"
"""A part of the kernel, but not its OOM killer."""

_OTHER_ENDS = re.compile(
    r"(?:Memory failure:|MCE) 0x[0-9a-f]{1,16}: (?:Killing|Sending SIGBUS to|forcibly killing) "
    r".{1,64} (?:due to hardware memory corruption|because of failure to unmap corrupted page)"
    r"|Watchdog timeout \(limit .{1,16}\)!|CPU Watchdog Timeout: .{1,64}"
    r"|: Killing process \d{1,10} \(.{1,64}\) with signal SIG[A-Z]{3,5}"
)
"""Ends of processes that are not for want of memory: mm/memory-failure.c, kernel/time, systemd."""
_END_MARKS = (
    "due to hardware memory corruption",
    "to unmap corrupted page",
    "Watchdog",
    ": Killing process ",
)
_HINT_MARKS = (
    ("has been killed by the OOM killer", "systemd"),
    ("Failed with result 'oom-kill'", "systemd"),
    ("OOM killer killed some processes", "systemd"),
    (" OOM encountered, victim process: ", "kubelet"),
    ("System OOM encountered", "kubelet"),
    ("Created an OOM event in container", "kubelet"),
    ("OutOfMemoryError: Container killed due to memory usage", "ECS"),
    ("TERM_MEMLIMIT: job killed", "LSF"),
    ("oom_kill event in StepId", "Slurm"),
    (", OOM kill of PID ", "oomkill (BPF)"),
    ("oom-kill event(s)", "Slurm"),
    ("oom_kill event(s)", "Slurm"),
    ("OOMKilled", "the container runtime"),
    ("(Result: oom-kill)", "systemd"),
    ("TaskOOM", "containerd"),
    ("topic=/tasks/oom", "containerd"),
    ("out of memory: OOM killed", "the batch system"),
)
_REQUEST_MARKS = (("Invoking oom killer: ", "earlyoom"),)  # with -k, by SysRq f
"""By which a program only asks the kernel for a kill."""
_AVAILABLE = re.compile(
    r"Low memory! mem avail: {1,8}(\d{1,10}) of {1,8}(\d{1,10}) MiB"
    r"(?:.{1,40}, swap free: {1,8}(\d{1,10}) of {1,8}(\d{1,10}) MiB)?"
)

_NO_KILL = re.compile(r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:false|0)\b", re.I)  # of docker inspect
_CONTAINER_OOM = re.compile(r"\d container oom [0-9a-f]{12,64}\b")  # of docker events
_FAILURE_MARKS = (
    ("Failed to kill any cgroup", "systemd-oomd"),
    ("Could not find a process to kill", "earlyoom"),
    ("kill failed: ", "earlyoom"),
    ("Invoking oom killer: failed", "earlyoom"),
    (" < min_badness ", "nohang"),
)
"""By which a program says that it tried to kill, and that nobody ended."""
_TYPOGRAPHIC = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")  # as an editor turns quotes
_HINT_MAX = 200
_FAILURE_LINES = 20  # behind the line of the kill
# Words of earlyoom that others print too are its own only behind its name, or behind no name.
_BEHIND_EARLYOOM = re.compile(
    r"\bearlyoom[\w.-]{0,64}(?:\[\d{1,10}\])?(?::| {0,40}\|) {1,8}(?:[Ee]rror: )?$"
)
_BEHIND_A_STAMP = re.compile(
    r"\W{0,8}(?:[A-Z][a-z]{2} {1,2}){0,2}[\d\s:.,TZ+\-\[\]]{0,48}(?:[Ee]rror: )?"
)


class UserSpaceKill(NamedTuple):
    """A kill by a program."""

    line: int
    by: str
    """The program."""
    victim: str
    """A process or a group, as it is named."""
    pid: int | None
    resident: int | None
    """In bytes."""
    signal: str | None
    reason: str
    """As the program gives it; empty if it gives none."""
    stamp: str = ""
    processes: int | None = None
    """How many processes of a group, if it is printed."""
    failure: str = ""
    """What the program says if its victim did not end."""
    signals: int = 1
    """How often it was signalled in a row."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A line by which a program tells of a kill by the kernel."""

    line: int
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """Lines by which a program only asks the kernel for a kill."""

    line: int
    """The last of them."""
    by: str
    text: str
    count: int
    available: str
    """What memory its last line before names as available; empty without one."""


class Reader:
    """Collects what programs print."""

    def __init__(
        self,
        kills: list[UserSpaceKill],
        hints: list[Hint],
        failures: list[Hint],
        ends: list[str],
        requests: dict[str, Request],
    ) -> None:
        self._requests = requests
        self._kills, self._hints, self._failures, self._ends = kills, hints, failures, ends
        self._victim: tuple[int | None, str] = (None, "")
        self._limit = ""
        self._available = ""
        self._status: list[str] = []
        self._picked: tuple[str, int, str] | None = None
        self._attempts: list[tuple[int, str]] = []
        self._minimum = 0, ""

    def read(self, line: str, number: int, marks: tuple[str, ...]) -> bool:
        """Read a line, which may have these marks; whether it was such a program's."""
        if not line.isascii():
            line = line.translate(_TYPOGRAPHIC)
        for marker, function in _programs_of(marks):
            if marker in line and function(self, line, number):
                if self._kills and self._kills[-1].line == number:
                    self._kills[-1] = self._kills[-1]._replace(stamp=forms.parted(line)[0])
                return True
        for marker, by in _FAILURE_MARKS:
            if marker in line and (by != "earlyoom" or self._is_earlyooms(line, marker)):
                is_nohang = by == "nohang"  # whose words begin before the mark
                text = _around(line, marker) if is_nohang else line[line.find(marker) :].strip()
                if by != "systemd-oomd" or not self._attempted(line, text[:_OOMD_MAX], number):
                    self._fail(by, text[:160], number)
                return True
        for marker, by in _REQUEST_MARKS:
            if marker in line:
                self._ask(number, by, _around(line, marker))
                return True
        is_end = any(marker in line for marker in _END_MARKS) and len(self._ends) < 100
        if is_end and (end := _OTHER_ENDS.search(line)):
            self._ends.append(end[0].lstrip(": "))
        mark = next((mark for mark in _HINT_MARKS if mark[0] in line), None)
        if mark is not None and _NO_KILL.match(line, line.find(mark[0]) + len(mark[0])):
            return False
        if " container oom " in line and _CONTAINER_OOM.search(line):
            mark = " container oom ", "docker"
        if mark is not None and len(self._hints) < 100:
            self._hints.append(Hint(number, mark[1], _around(line, mark[0])))
        return mark is not None

    def _ask(self, number: int, by: str, text: str) -> None:
        """Count the requests of a program in one place: it may ask ten times a second."""
        former = self._requests.get(by)
        count = former.count + 1 if former else 1
        self._requests[by] = Request(number, by, text, count, self._available)

    def _is_earlyooms(self, line: str, marker: str) -> bool:
        before = line[: line.find(marker)]
        if _BEHIND_EARLYOOM.search(before[-160:]):
            return True
        has_killed = any(one.by == "earlyoom" for one in self._kills[-1:])
        is_open = has_killed or self._limit.lower().startswith("low memory!")
        return is_open and _BEHIND_A_STAMP.fullmatch(before) is not None

    def _fail(self, by: str, text: str, number: int) -> None:
        last = self._kills[-1] if self._kills else None
        is_of_it = last is not None and last.by == by != "nohang"
        if last is not None and is_of_it and number - last.line <= _FAILURE_LINES:
            self._kills[-1] = last._replace(failure=text)
        elif len(self._failures) < 100:
            self._failures.append(Hint(number, by, text))

    def _add(self, kill: UserSpaceKill) -> bool:
        last = self._kills[-1] if self._kills else None
        if last is not None and _is_again(last, kill):
            kill = kill._replace(signals=last.signals + 1)
            self._kills.pop()
        self._kills.append(kill)
        return True

    def oomd(self, line: str, number: int) -> bool:
        match = _OOMD.search(line)
        if match is None or ("memory" not in line and "swap" not in line):
            return False
        self._attempts = []
        reason = line[match.end() :][:200]
        last = self._kills[-1] if self._kills else None
        if last is not None and not last.reason and _is_of(last, match[1]):
            times = [_CLOCK.findall(text)[:1] for text in (last.stamp, forms.parted(line)[0])]
            if times[0] and times[0] == times[1]:  # pasted behind what systemd says of its unit
                is_short = match[1][0] in _SHORTENED
                victim = last.victim if is_short else match[1]
                self._kills[-1] = last._replace(victim=victim, reason=reason)
                return True
        return self._add(
            UserSpaceKill(number, "systemd-oomd", match[1], None, None, "SIGKILL", reason)
        )

    def oomd_pressure(self, line: str, number: int) -> bool:
        """Until 248: the group below this one that is killed is not named."""
        if not (match := _OOMD_PRESSURE.search(line)):
            return False
        victim = f"a group of {match[1]}"
        return self._add(
            UserSpaceKill(number, "systemd-oomd", victim, None, None, "SIGKILL", match[0])
        )

    def oomd_count(self, line: str, number: int) -> bool:
        match = _OOMD_COUNT.search(line)
        if match is None:
            return False
        count = int(match[1])
        unit = line[: match.start()].rstrip(" :").rsplit(" ", 1)[-1]
        last = self._kills[-1] if self._kills else None
        if last is not None and last.processes is None and _is_of(last, unit):
            self._kills[-1] = last._replace(processes=count)
            return True
        return self._add(
            UserSpaceKill(number, "systemd-oomd", unit, None, None, "SIGKILL", "", processes=count)
        )

    def oomd_attempt(self, line: str, number: int) -> bool:
        match = _OOMD_ATTEMPT.search(line)
        if match is not None and len(self._attempts) < _ATTEMPTS_MAX:
            self._attempts.append((number, match[1]))
        return match is not None

    def _attempted(self, line: str, text: str, number: int) -> bool:
        """Whether systemd-oomd sent its signal before it says that it killed no group."""
        last = self._attempts[-1][0] if self._attempts else number
        pids, self._attempts = [pid for _, pid in self._attempts], []
        match = _OOMD_NO_GROUP.search(text)
        if match is None or not pids or number - last > _FAILURE_LINES:
            return False
        sent = f"it sent KILL to {', '.join(pids[:_PIDS_SHOWN])}, and then: {text}"
        return self._add(
            UserSpaceKill(
                number,
                "systemd-oomd",
                match[1],
                None,
                None,
                "SIGKILL",
                sent,
                forms.parted(line)[0],
                len(pids),
            )
        )

    def low_memory(self, line: str, number: int) -> bool:
        self._limit = line[line.lower().find("low memory!") :][:120]
        return True

    def low_available(self, line: str, number: int) -> bool:
        """Of earlyoom before 1.0, in the same line."""
        if not (match := _AVAILABLE.search(line)):
            return False
        self._limit = line[match.start() :][:120]
        self._available = f"{int(match[1]):,} of {int(match[2]):,} MiB available"
        if match[4]:
            free = f", {int(match[3]):,} of {int(match[4]):,} MiB of swap free"
            self._available += free if int(match[4]) else ", no swap"
        return True

    def earlyoom(self, line: str, number: int) -> bool:
        if not (match := _EARLYOOM.search(line)):
            return False
        size = int(match[4]) << 20
        kill = UserSpaceKill(
            number, "earlyoom", match[3], int(match[2]), size, match[1], self._limit
        )
        return self._add(kill)

    def earlyoom_former(self, line: str, number: int) -> bool:
        if not (match := _EARLYOOM_FORMER.search(line)):
            return False
        pid, signal = match[1] or match[5], {"15": "SIGTERM", "9": "SIGKILL"}.get(match[4])
        return self._add(
            UserSpaceKill(
                number, "earlyoom", match[2] or match[3] or "", int(pid) if pid else None,
                int(match[6]) << 20, signal or f"signal {match[4]}", self._limit,
            )
        )  # fmt: skip

    def minimum(self, line: str, number: int) -> bool:
        """Of earlyoom until 1.1, in the line before the kill."""
        if match := _MINIMUM.search(line):
            self._minimum = number, line[match.start() :][:120].strip()
        return match is not None

    def earlyoom_first(self, line: str, number: int) -> bool:
        match, (before, reason) = _EARLYOOM_FIRST.search(line), self._minimum
        if match is None or not reason or number - before > _MINIMUM_LINES:
            return False
        self._minimum = 0, ""
        pid, name = match[2] or match[4], match[1] or match[5]
        size = int(match[3]) << 20 if match[3] else None
        return self._add(
            UserSpaceKill(number, "earlyoom", name.strip(), int(pid), size, None, reason)
        )

    def nohang_victim(self, line: str, number: int) -> bool:
        if match := _NOHANG_VICTIM.search(line):
            self._victim = int(match[1]), match[2]
        return match is not None

    def nohang(self, line: str, number: int) -> bool:
        if not (match := _NOHANG.search(line)):
            return False
        pid, name = self._victim
        return self._add(
            UserSpaceKill(
                number, "nohang", name or match[2] or "", pid, None, match[1], self._why()
            )
        )

    def nohang_status(self, line: str, number: int) -> bool:
        """Each level that is too low stands in a line behind the first one."""
        match = _NOHANG_LEVEL.search(line)
        if match is None:
            self._status = []
        elif len(self._status) < _LEVELS_MAX:
            self._status.append(match[0])
        return True

    def _why(self) -> str:
        return "; ".join(self._status)

    def nohang_command(self, line: str, number: int) -> bool:
        """A command for some names in place of a signal: only kill(1) is known to end one."""
        pid, name = self._victim
        if pid is None or not (match := _NOHANG_COMMAND.search(line)) or int(match[2]) != pid:
            return False
        return self._add(UserSpaceKill(number, "nohang", name, pid, None, match[1], self._why()))

    def lmkd(self, line: str, number: int) -> bool:
        if not (match := _LMKD.search(line)):
            return False
        size = int(match[3]) << 10 if match[3] else None
        by = LMKD if "uid" in line or "Killing '" not in line else DRIVER
        return self._add(
            UserSpaceKill(number, by, match[1], int(match[2]), size, "SIGKILL", match[4] or "")
        )

    def driver_former(self, line: str, number: int) -> bool:
        """Of Android's kernels up to 3.4, which print the size in pages."""
        if not (match := _DRIVER_FORMER.search(line)):
            return False
        return self._add(
            UserSpaceKill(number, DRIVER, match[2], int(match[1]), None, "SIGKILL", "")
        )

    def driver_freed(self, line: str, number: int) -> bool:
        """The size stands in the line behind the name."""
        match = _DRIVER_FREED.search(line)
        if match is None or not self._kills or self._kills[-1].by != DRIVER:
            return False
        if number - self._kills[-1].line > 1:
            return False
        self._kills[-1] = self._kills[-1]._replace(resident=int(match[1]) << 10)
        return True

    def driver(self, line: str, number: int) -> bool:
        """The reason stands in a line behind the name."""
        match = _DRIVER.search(line)
        if match is None or not self._kills or self._kills[-1].by != DRIVER:
            return False
        self._kills[-1] = self._kills[-1]._replace(reason=match[0])
        return True

    def facebook(self, line: str, number: int) -> bool:
        if pick := _FACEBOOK_PICK.search(line):
            self._picked = pick[1], int(pick[2]) << 20, pick[3]
            return True
        match = _FACEBOOK.search(line)
        if match is None or ("oomd" not in line and "KillPlugin" not in line) or match[1] == "0":
            return False
        if self._picked is None:
            kill = UserSpaceKill(number, "oomd", match[3] or "", int(match[2]), None, "SIGKILL", "")
        else:  # all processes of a group, of which the first are named
            group, size, reason = self._picked
            count = int(match[1])
            kill = UserSpaceKill(
                number, "oomd", group, None, size, "SIGKILL", reason, processes=count
            )
        return self._add(kill)

    def talos(self, line: str, number: int) -> bool:
        if not (match := _TALOS.search(line)):
            return False
        return self._add(UserSpaceKill(number, "Talos", match[1], None, None, "SIGKILL", ""))

    def talos_victims(self, line: str, number: int) -> bool:
        """What was in the group is in the line behind it."""
        match = _TALOS_VICTIMS.search(line)
        last = self._kills[-1] if self._kills else None
        if match is None or last is None or last.by != "Talos" or number - last.line > 1:
            return False
        count = len(match[1].replace(",", " ").split())
        failure = "" if count else "it lists no process of the group"
        self._kills[-1] = last._replace(processes=count or None, failure=failure)
        return True

    def low_node(self, line: str, number: int) -> bool:
        """The event that kubectl shows of an eviction."""
        if not (match := _LOW_NODE.search(line)):
            return False
        victim = match[1] or "a pod"
        reason = match[2].strip()
        return self._add(
            UserSpaceKill(number, "kubelet (eviction)", victim, None, None, None, reason)
        )

    def kubelet(self, line: str, number: int) -> bool:
        if match := _KUBELET.search(line):
            self._limit = f"to reclaim {match[1]}"
            return True
        if not (match := _EVICTED.search(line)):
            return False
        reason, self._limit = self._limit, ""
        return self._add(
            UserSpaceKill(
                number, "kubelet (eviction)", match[1] or match[2], None, None, None, reason
            )
        )


@lru_cache(maxsize=64)
def _programs_of(marks: tuple[str, ...]) -> tuple[_Program, ...]:
    return tuple(program for program in _PROGRAMS if program[0] in marks)


def _is_of(kill: UserSpaceKill, name: str) -> bool:
    """Whether systemd-oomd's kill is of this unit or group; people shorten a path."""
    if kill.by != "systemd-oomd":
        return False
    one, other = (text.rsplit("/", 1)[-1].lstrip(_SHORTENED) for text in (kill.victim, name))
    return one == other or (bool(one and other) and (one.endswith(other) or other.endswith(one)))


def _is_again(last: UserSpaceKill, kill: UserSpaceKill) -> bool:
    """Whether a program signals the same process again, having signalled no other in between."""
    is_same = (last.by, last.pid, last.victim) == (kill.by, kill.pid, kill.victim)
    return is_same and kill.pid is not None


def _around(line: str, marker: str) -> str:
    """What a line says, without its prefix; of a long line what is around the marker."""
    marker = marker.strip()
    line = line[: line.find(marker) + _HINT_MAX]
    text = forms.parted(line)[1].strip()
    text = text if marker in text else line.strip()  # a stamp may stand behind it
    begin = text.find(marker)
    return text[max(0, begin - _HINT_MAX // 2) : begin + _HINT_MAX].strip()


_Program = tuple[str, Callable[[Reader, str, int], bool]]
_PROGRAMS: tuple[_Program, ...] = (
    (" due to ", Reader.oomd),
    ("Memory pressure for /", Reader.oomd_pressure),
    ("systemd-oomd killed", Reader.oomd_count),
    ("oomd attempting to kill ", Reader.oomd_attempt),
    ("low memory!", Reader.low_memory),
    ("Low Memory!", Reader.low_memory),
    ("Low memory!", Reader.low_available),
    ("SIG", Reader.earlyoom),
    ("with signal", Reader.earlyoom_former),
    ("Out of memory! ", Reader.minimum),
    ("illing process", Reader.earlyoom_first),
    (", badness: ", Reader.nohang_victim),
    ("SIG", Reader.nohang),
    ("Run the command: ", Reader.nohang_command),
    ("that requires corrective action", Reader.nohang_status),
    ("_threshold_", Reader.nohang_status),
    ("owmemorykiller", Reader.lmkd),
    ("lmkd", Reader.lmkd),
    ("send sigkill to ", Reader.driver_former),
    (" on behalf of ", Reader.driver_freed),
    (" is below limit ", Reader.driver),
    ("Picked ", Reader.facebook),
    ("illed ", Reader.facebook),
    ("to cgroup", Reader.talos),
    ("victim processes: ", Reader.talos_victims),
    ("The node was low on resource: memory", Reader.low_node),
    ("must evict pod(s)", Reader.kubelet),
    ("evicted successfully", Reader.kubelet),
)
MARKS = (
    *(marker for marker, _ in (*_PROGRAMS, *_HINT_MARKS, *_REQUEST_MARKS, *_FAILURE_MARKS)),
    " container oom ",
    *_END_MARKS,
)
"""One of which stands in each line that is read here."""
