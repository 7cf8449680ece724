"""How a run ended, in a word and a sentence."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Mapping
from typing import Any

from memlab.command import bus_error
from memlab.command.fault_log import MAP_FAILED
from memlab.command.python_probes.command.group import TrialGroup
from memlab.command.python_probes.command.launcher import Launched
from memlab.command.python_probes.command.output import Output, last_lines
from memlab.text import units
from memlab.text.printable import signal_name

_LOCK_REFUSED = 121  # ../lock.c
_LOCK_REFUSAL = "memlab: mlockall (lock="  # what it prints then
_READINGS_OF_NO_LOCK = 10  # in fewer, a program that another one started may not have begun
_REFUSED_POLICIES = ("setrlimit", "setpriority", "personality", "prctl")


def refusal(spec: dict[str, Any], launched: Launched, printed: str) -> dict[str, str] | None:
    """The outcome of what could not be started under its policies, if that is how it was. `printed`
    is the end of what it printed."""
    report, program = launched.report, (spec["serve"] or spec["argv"])[0]
    if "errno" in report:
        refused = report["failed"].startswith(_REFUSED_POLICIES)
        why = f"{report['failed']}: {os.strerror(report['errno'])}"
        what = why if refused else _not_started(program, report["errno"])
        return {"outcome": "unavailable" if refused else "failed", "detail": what}
    if launched.memory.in_force.why:
        return {"outcome": "unavailable", "detail": f"not in force: {launched.memory.in_force.why}"}
    if "MEMLAB_LOCK" not in spec["environ"]:
        return None
    if report["status"] == _LOCK_REFUSED:
        return {"outcome": "unavailable", "detail": f"the lock was refused{last_lines(printed)}"}
    if _LOCK_REFUSAL in printed:
        detail = f"the lock was refused in a program that it started{last_lines(printed)}"
        return {"outcome": "unavailable", "detail": detail}
    if (count := launched.memory.unlocked_readings) >= _READINGS_OF_NO_LOCK:
        why = "the program unlocked it, or what it started is static or set-user-ID"
        refused = f"no memory was locked in {count} readings after the lock was taken: {why}"
        return {"outcome": "unavailable", "detail": refused}
    return None


def _not_started(program: str, error: int) -> str:
    why = os.strerror(error)
    if error == errno.ENOENT and shutil.which(program):  # execve(2) says so of either
        why = "the interpreter that it names is not there"
    return f"{program}: {why}"


def command_ended(
    spec: dict[str, Any],
    report: dict[str, Any],
    result: dict[str, Any],
    kills: int | None = None,
) -> dict[str, str]:
    """The outcome of a command that ended by itself, with the last that it printed. `kills`: how
    many processes of its group the kernel killed for want of memory; None where none counts."""
    last = f"{_of_sigkill(report, kills)}{last_lines(result['output'])}"
    if "errno" in report:  # of a load, which no policy holds back
        what = _not_started(spec["argv"][0], report["errno"])
        return {"outcome": "failed", "detail": what}
    # With --for it was ended by memlab, and how it takes that is its own affair.
    if report["signal"] and not spec["for_s"]:
        name = signal_name(report["signal"]).lower()
        return {"outcome": name, "detail": f"{how_it_ended(report, last)}{last}"}
    if not spec["for_s"] and report["status"] not in spec["good_statuses"]:
        return {"outcome": "failed", "detail": f"{how_it_ended(report, last)}{last}"}
    missing = [name for name in spec["wanted"] if name not in result["metrics"]]
    if missing:
        place = spec["metric_file"] if missing[0] in spec["file_metrics"] else "what it printed"
        return {"outcome": "no-metric", "detail": f"no {missing[0]} in {place}{last}"}
    if spec["latency_file"] and not result.get("latency", {}).get("total"):
        return {"outcome": "no-metric", "detail": f"no number in {spec['latency_file']}{last}"}
    return {"outcome": "ok", "detail": ""}


def how_it_ended(report: dict[str, Any], printed: str = "") -> str:
    number, limits = report["signal"], _of_a_limit(report)
    if number:
        why = bus_error.read() if number == signal.SIGBUS else report["why"]
        if number in (signal.SIGSEGV, signal.SIGABRT):
            limits = _limited(report, is_lock_said=MAP_FAILED in why or _is_refused(printed))
        return f"ended by {signal_name(number)}{why and f': {why}'}{limits}"
    as_shell, ended_by = "", report["status"] - 128
    if ended_by in _SIGNALS_OF_LIMITS:
        as_shell = f", as a shell says it of what {signal_name(ended_by)} ended"
    limits = limits or _limited(report, is_lock_said=_is_refused(printed))
    return f"exit status {report['status']}{as_shell}{limits}"


# setrlimit(2)
_SIGNALS_OF_LIMITS = {
    int(signal.SIGXFSZ): ("RLIMIT_FSIZE",),
    int(signal.SIGXCPU): ("RLIMIT_CPU", "RLIMIT_RTTIME"),
    int(signal.SIGKILL): ("hard RLIMIT_CPU", "hard RLIMIT_RTTIME"),
}


def _of_a_limit(report: Mapping[str, Any]) -> str:
    """The limits that send the signal that ended it, or, by a shell's status, a child of it: as
    they were at its end. Who sent the signal is not read."""
    number = report["signal"] or report["status"] - 128
    names = _SIGNALS_OF_LIMITS.get(number, ())
    known = [
        _limit_words(name, report["limits"][name]) for name in names if name in report["limits"]
    ]
    if number == signal.SIGKILL and (not known or report["why"]):
        return ""  # most are sent by others
    if not known:
        senders = f"; {' or '.join(names)} sends it, and none was read of this process"
        return senders if names else ""
    sends, then_is = ("sends", "is") if len(known) == 1 else ("send", "are")
    limits = f", under {' and '.join(known)}, which {sends} it"
    if number == signal.SIGXFSZ:
        return limits
    # check_process_timers(), kernel/time/posix-cpu-timers.c
    added = f" (and then {then_is} 1 s more)" if number == signal.SIGXCPU else ""
    cpu_s = (report["user_ns"] + report["system_ns"]) / 1e9
    return f"{limits}{added}; {cpu_s:.2f} s of CPU time were taken"


def _limit_words(name: str, value: int) -> str:
    if name.endswith("FSIZE"):
        return f"{name} of {units.format_quantity(value, 'B')}"
    seconds = f"{value / 1e6:g}" if name.endswith("RTTIME") else f"{value:,}"
    return f"{name} of {seconds} s"


def _is_refused(printed: str) -> bool:
    """Whether what a program printed names the errno of memory that may not be locked."""
    numbers = (errno.ENOMEM, errno.EAGAIN)
    words = [word for number in numbers for word in (errno.errorcode[number], os.strerror(number))]
    return any(word in printed for word in words)


_USED = {"RLIMIT_AS": "mapped", "RLIMIT_DATA": "of data", "RLIMIT_MEMLOCK": "locked"}


def _limited(report: Mapping[str, Any], *, is_lock_said: bool = False) -> str:
    """The limits of its memory and files are said, for the program may have failed at one: that of
    locked memory if it locked some, or if a mapping failed."""
    words = []
    for name, what in _USED.items():
        limit, used = report["limits"].get(name), report["uses"].get(name, 0)
        if limit is not None and (name != "RLIMIT_MEMLOCK" or used or is_lock_said):
            had = f" ({units.format_quantity(used, 'B')} {what} when it was last read)"
            words.append(f"{name} of {units.format_quantity(limit, 'B')}{had if used else ''}")
    file_most = report["limits"].get("RLIMIT_FSIZE")
    if file_most is not None and report["signal"] != signal.SIGSEGV:
        words.append(_limit_words("RLIMIT_FSIZE", file_most))
    unread = "; which call failed was not recorded" if words and is_lock_said else ""
    return f", under {', '.join(words)}{unread}" if words else ""


def _of_sigkill(report: Mapping[str, Any], kills: int | None) -> str:
    """A kill looks like one of the kernel for want of memory, which a group counts."""
    is_status = report.get("status") == 128 + signal.SIGKILL
    if not is_status and report.get("signal") != signal.SIGKILL:
        return ""
    if kills is None:
        return "; whether the kernel did it for want of memory was not counted"
    return "; the kernel killed nothing in its memory cgroup for want of memory"


def timed_out(spec: dict[str, Any], output: Output, group: TrialGroup) -> dict[str, str]:
    bounded = f", at the most processes allowed, {spec['processes']}" if group.is_full() else ""
    remedy = "" if spec["serve"] or spec["for_s"] else "; --for TIME measures what does not end"
    message = f"killed after {spec['timeout_s']:g} s{bounded}{remedy}{last_lines(output.tail)}"
    return {"outcome": "timeout", "detail": message}
