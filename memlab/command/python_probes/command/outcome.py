"""How a run ended, in a word and a sentence."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memlab.command import bus_error, limit_words
from memlab.command.fault_log import MAP_FAILED, STACK_FULL
from memlab.command.python_probes.command.group import TrialGroup
from memlab.command.python_probes.command.launcher import Launched
from memlab.command.python_probes.command.output import Output, last_lines
from memlab.text import units
from memlab.text.printable import signal_name

_LOCK_REFUSED = 121  # ../lock.c
_LOCK_REFUSAL = "memlab: mlockall (lock="  # what it prints then
_READINGS_OF_NO_LOCK = 10  # in fewer, a program that another one started may not have begun
_NEAR = 0.9  # of its limit is the peak of a group that the kernel kills in because of that limit
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
    bounded: str = "",
) -> dict[str, str]:
    """The outcome of a command that ended by itself, with the last that it printed. `kills`: how
    many processes of its group the kernel killed for want of memory; None where none counts.
    `bounded` says that a process was refused."""
    last = last_lines(result["output"])
    if "errno" in report:  # of a load, which no policy holds back
        what = _not_started(spec["argv"][0], report["errno"])
        return {"outcome": "failed", "detail": what}
    # With --for it was ended by memlab, and how it takes that is its own affair.
    if not spec["for_s"] and (report["signal"] or report["status"] not in spec["good_statuses"]):
        outcome = signal_name(report["signal"]).lower() if report["signal"] else "failed"
        policies = () if spec["serve"] else spec["policies"]  # a load has none
        how = how_it_ended(report, last, policies=policies, kills=kills)
        return {"outcome": outcome, "detail": f"{how}{bounded}{last}"}
    missing = [name for name in spec["wanted"] if name not in result["metrics"]]
    if missing:
        place = spec["metric_file"] if missing[0] in spec["file_metrics"] else "what it printed"
        return {"outcome": "no-metric", "detail": f"no {missing[0]} in {place}{last}"}
    if spec["latency_file"] and not result.get("latency", {}).get("total"):
        return {"outcome": "no-metric", "detail": f"no number in {spec['latency_file']}{last}"}
    return {"outcome": "ok", "detail": ""}


# setrlimit(2)
_SIGNALS_OF_LIMITS = {
    int(signal.SIGXFSZ): ("RLIMIT_FSIZE",),
    int(signal.SIGXCPU): ("RLIMIT_CPU", "RLIMIT_RTTIME"),
    int(signal.SIGKILL): ("hard RLIMIT_CPU", "hard RLIMIT_RTTIME"),
}
_BY_SHELLS = {
    int(number)
    for number in (
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP),
        *(signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV),
        *(signal.SIGPIPE, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS),
    )
}
_REFUSE = {
    errno.ENOMEM: ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_MEMLOCK"),
    errno.EAGAIN: ("RLIMIT_NPROC", "RLIMIT_MEMLOCK"),
    errno.EMFILE: ("RLIMIT_NOFILE",),
    errno.EFBIG: ("RLIMIT_FSIZE",),
}
# What C++, Python and Rust print of an allocation that failed.
_NO_MEMORY = ("std::bad_alloc", "MemoryError", "memory allocation of ")
_OF_MAPPINGS = ("RLIMIT_AS", "RLIMIT_DATA")
_OF_MEMORY = (*_OF_MAPPINGS, "RLIMIT_MEMLOCK")
_ANY_LIMIT = (*_OF_MEMORY, "RLIMIT_FSIZE")
_UNREAD_CALL = "which call failed was not recorded (strace -f -Z prints it)"


def how_it_ended(
    report: Mapping[str, Any],
    printed: str = "",
    when: str = "",
    policies: Sequence[str] = (),
    kills: int | None = None,
) -> str:
    """How, `when`, why as far as it was read, and what to do: of a limit its value and what raises
    it, by the launcher's words of the `policies`. `printed` is what the program printed, `kills` as
    of `command_ended`."""
    number = report["signal"]
    ended_by = number or report["status"] - 128
    if number:
        head = f"ended by {signal_name(number)}"
    else:
        head = f"exit status {report['status']}"
        if ended_by in _BY_SHELLS:
            head += f", as a shell says it of what {signal_name(ended_by)} ended"
    why = bus_error.read() if ended_by == signal.SIGBUS else report["why"]
    reasons = [why] if why else []
    if STACK_FULL in why and "RLIMIT_STACK" in report["limits"]:
        reasons.append(limit_words.remedy("RLIMIT_STACK", report["limits"], policies))
    sent = _of_a_limit(report, ended_by, policies)
    under, refused = _refusals(report, why, printed, policies)
    if sent:
        reasons.append(sent)
    elif refused:
        reasons += refused
    elif under and (not number or number in (signal.SIGSEGV, signal.SIGABRT)):
        when = f"{when}, under {under}"
    if ended_by == signal.SIGKILL:
        reasons.append(
            "whether the kernel did it for want of memory was not counted"
            if kills is None
            else "the kernel killed nothing in its memory cgroup for want of memory"
        )
    return f"{head}{when}{': ' if reasons else ''}{'; '.join(reasons)}"


def _of_a_limit(report: Mapping[str, Any], ended_by: int, policies: Sequence[str]) -> str:
    """The limits that send the signal that ended it, or, by a shell's status, a child of it: as
    they were at its end. Who sent the signal is not read."""
    limits, names = report["limits"], _SIGNALS_OF_LIMITS.get(ended_by, ())
    known = [name for name in names if name in limits]
    if not known:
        is_silent = ended_by == signal.SIGKILL or not names  # most are sent by others
        return (
            "" if is_silent else f"{' or '.join(names)} sends it, and none was read of this process"
        )
    if ended_by == signal.SIGKILL and report["why"]:
        return ""
    # check_process_timers(), kernel/time/posix-cpu-timers.c
    added = " (the kernel adds 1 s as it sends it)" if ended_by == signal.SIGXCPU else ""
    clauses = [
        f"{name}, which sends it, is {limit_words.value_of(name, limits[name])}{added}: "
        f"{limit_words.remedy(name, limits, policies, is_raised=bool(added))}"
        for name in known
    ]
    if ended_by != signal.SIGXFSZ:
        cpu_s = (report["user_ns"] + report["system_ns"]) / 1e9
        clauses.append(f"{cpu_s:.2f} s of CPU time were taken")
    return "; ".join(clauses)


def _refusals(
    report: Mapping[str, Any], why: str, printed: str, policies: Sequence[str]
) -> tuple[str, list[str]]:
    """The limits under which it ran, at which a program may have failed; and, if what it printed or
    a fault is of a call that was refused, those that refuse so, with what raises them."""
    limits, uses = report["limits"], report["uses"]
    numbers = {number for number in _REFUSE if _is_printed(number, printed)}
    codes = " and ".join(errno.errorcode[number] for number in sorted(numbers))
    reasons = [f"its output names {codes}"] if codes else []
    if MAP_FAILED in why:
        numbers |= {errno.ENOMEM}
    if numbers:
        names = _that_refuse(numbers, printed)
        clauses = limit_words.known(limits, names, uses, policies)
        is_of_machine = errno.ENOMEM in numbers and not limits.keys() & {*_OF_MAPPINGS}
        if not clauses or is_of_machine:
            clauses.append(limit_words.unlimited(limits, _OF_MAPPINGS if clauses else names))
        if is_of_machine:
            clauses += limit_words.of_machine()
        return "", [*reasons, *clauses, _UNREAD_CALL]
    under = [
        f"{name} of {limit_words.value_of(name, limits[name], uses.get(name, 0))}"
        for name in _ANY_LIMIT
        if name in limits
        and (name != "RLIMIT_MEMLOCK" or uses.get(name))
        and (name != "RLIMIT_FSIZE" or report["signal"] != signal.SIGSEGV)
    ]
    return ", ".join(under), []


def _that_refuse(numbers: Iterable[int], printed: str) -> list[str]:
    """The limits behind these errno. What it printed may name the call: EAGAIN is of processes by
    fork(2), and of locked memory by mmap(2)."""
    names = [*dict.fromkeys(name for number in sorted(numbers) for name in _REFUSE[number])]
    if errno.ENOMEM in numbers:
        return names
    if re.search("fork|clone|thread|process", printed):
        return [name for name in names if name != "RLIMIT_MEMLOCK"]
    if re.search(r"mmap|\bm?lock|io_uring", printed):
        return [name for name in names if name != "RLIMIT_NPROC"]
    return names


def _is_printed(number: int, printed: str) -> bool:
    """Whether a program printed the name or the text of an errno, or what means the same."""
    texts = (errno.errorcode[number], os.strerror(number))
    return any(text in printed for text in texts) or (
        number == errno.ENOMEM and any(text in printed for text in _NO_MEMORY)
    )


def ended_early(
    spec: Mapping[str, Any], report: Mapping[str, Any], printed: str, group: TrialGroup
) -> dict[str, str]:
    """The outcome of a command that ended before the time that it was to run for."""
    when = f" within the {spec['for_s']:g} s of --for"
    how = how_it_ended(report, printed, when, spec["policies"], group.oom_kills())
    remedy = (
        "" if report["signal"] or report["status"] else ": name a shorter time, or leave it out"
    )
    detail = f"{how}{remedy}{bounded(spec, group)}{last_lines(printed)}"
    return {"outcome": "ended-early", "detail": detail}


def oom_killed(
    spec: Mapping[str, Any], readings: Mapping[str, Any], group: TrialGroup, printed: str
) -> dict[str, str]:
    """The outcome where the kernel killed in its group for want of memory, with the group's limit,
    if it has one."""
    group_peak, limit = readings["group_peak_bytes"], group.limit_bytes()
    peak = (group_peak or readings["rss_peak_bytes"] or 0) / 2**20
    words = f"the kernel's OOM killer ended it at {peak:.1f} MiB"
    if limit is not None:
        words += f"; its limit is {units.format_quantity(limit, 'B')}"
        if group_peak and group_peak < _NEAR * limit:
            swapped, most = group.peak_with_swap() or (0, limit + 1)
            if most <= limit and swapped >= _NEAR * most:
                words += f" with swap, of which it had {units.format_quantity(swapped, 'B')}"
            else:
                words += ", so that memory of an outer group or of the machine ran out"
        elif not spec["limited"]:
            words += " by memlab, of the free memory: -p memory_max= names another"
    return {"outcome": "oom-killed", "detail": f"{words}{last_lines(printed)}"}


def bounded(spec: Mapping[str, Any], group: TrialGroup) -> str:
    return f", at the most processes allowed, {spec['processes']}" if group.is_full() else ""


def timed_out(spec: dict[str, Any], output: Output, group: TrialGroup) -> dict[str, str]:
    remedy = "" if spec["serve"] or spec["for_s"] else "; --for TIME measures what does not end"
    how = f"killed after {spec['timeout_s']:g} s{bounded(spec, group)}{remedy}"
    return {"outcome": "timeout", "detail": f"{how}{last_lines(output.tail)}"}
