"""What `diagnose --last-kill` says: who was killed, the one cause, who held the memory, and what
the log does not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from memlab.diagnose.account import Part
from memlab.diagnose.finding import size
from memlab.diagnose.kernel_log import cause, forms, holders, killers
from memlab.diagnose.kernel_log.cause import Kind
from memlab.diagnose.kernel_log.holders import Task
from memlab.diagnose.kernel_log.reports import Log, Report
from memlab.diagnose.kernel_log.sentences import GROUP_CUT, Process
from memlab.text import units

Ended = Literal["killed", "nobody killed", "panic", "cut"]
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Killed:
    """A process, or by a user-space killer a group, that was killed."""

    pid: int | None
    name: str
    resident_bytes: int | None
    """null: the log does not have it."""
    anonymous_bytes: int | None
    file_bytes: int | None
    shared_bytes: int | None
    page_table_bytes: int | None
    score_adjustment: int | None


@dataclass(frozen=True, slots=True)
class Kill:
    """What a log says about its last kill. null: the log does not have it."""

    at: str
    """Seconds since boot, or the clock time as the log writes it; of seconds since 1970 in UTC.
    Empty without a stamp."""
    ended: Ended
    cause: Kind
    text: str
    """The cause in words."""
    by: str
    """Who killed: "kernel", or the name of a user-space killer."""
    killed: tuple[Killed, ...]
    requester: str | None
    """Who requested the memory that was not there."""
    order: int | None
    """The request was for 2 to the power of this pages; -1 for SysRq."""
    group: str | None
    """The group whose limit it was, or that a program killed."""
    process_group: str | None
    """The group of the process."""
    counter: str | None
    """The counter of the group that stands at its limit: memory, memory+swap, kmem."""
    used_bytes: int | None
    limit_bytes: int | None
    reached: int | None
    """How often the limit was met."""
    nodes: str | None
    """The nodes to which a cpuset or a memory policy limited the request."""
    page_bytes: int | None
    """The size of a page, as far as the log has it."""
    swap_bytes: int | None
    swap_free_bytes: int | None
    statistics: dict[str, int]
    """Of the group, in bytes; events are counts."""
    holdings: tuple[Part, ...]
    """What held the memory, the largest first."""
    processes: tuple[Task, ...]
    """The 20 that hold most; empty if the log has no table of tasks."""
    process_count: int
    """In the table."""
    resident_bytes: int
    """What all tasks of the table hold; pages that several map count several times."""
    missing: tuple[str, ...]
    """What the log does not have, and would have answered more."""


def kill_of(report: Report) -> Kill:
    """Put a report of the kernel into one answer."""
    reason = cause.cause_of(report)
    shown = report.counters.get(reason.counter or "memory")
    tasks = holders.tasks_of(report)
    return Kill(
        at=report.stamp,
        ended=_ended(report),
        cause=reason.kind,
        text=reason.sentence,
        by="kernel",
        killed=tuple(_killed(process, tasks) for process in _victims(report)),
        requester=report.requester or None,
        order=report.order,
        group=None if report.is_below or _is_cut(report.group) else report.group,
        process_group=report.task_group,
        counter=reason.counter,
        used_bytes=shown.usage if shown else None,
        limit_bytes=shown.limit if shown else None,
        reached=shown.failures if shown else None,
        nodes=reason.nodes,
        page_bytes=cause.page_size(report),
        swap_bytes=report.memory.swap_total,
        swap_free_bytes=report.memory.swap_free,
        statistics=report.statistics,
        holdings=holders.holdings_of(report),
        processes=tuple(tasks[:20]),
        process_count=len(tasks),
        resident_bytes=sum(task.resident_bytes for task in tasks),
        missing=tuple(_missing(report, tasks)),
    )


def _is_cut(group: str | None) -> bool:
    return group is not None and group.endswith(GROUP_CUT)


def user_space_kill(kill: killers.UserSpaceKill) -> Kill:
    """Put the sentence of a user-space killer into the same form."""
    reason = f": {kill.reason}" if kill.reason else ""
    sentence = f"it was the decision of {kill.by}{reason}"
    kind: Kind = "driver" if kill.by == killers.DRIVER else "user space"
    victim = Killed(kill.pid, kill.victim, kill.resident, None, None, None, None, None)
    if kill.signals > 1:
        sentence += f"; it signalled it {kill.signals:,} times"
    if kill.failure:
        sentence += f"; it could not kill: {kill.failure}"
    return Kill(
        at=kill.stamp, ended="nobody killed" if kill.failure else "killed", cause=kind,
        text=sentence, by=kill.by,
        killed=(victim,), requester=None, order=None,
        group=kill.victim if kill.victim.startswith("/") else None,
        process_group=None, counter=None, used_bytes=None, limit_bytes=None, reached=None,
        nodes=None, page_bytes=None, swap_bytes=None, swap_free_bytes=None, statistics={},
        holdings=(), processes=(), process_count=0, resident_bytes=0, missing=(),
    )  # fmt: skip


def last(log: Log) -> tuple[Kill | None, Report | None, int]:
    """Return the last kill, its report if it is the kernel's, and how many were before it."""
    ended = [report for report in log.reports if _ended(report) != "cut"]
    kills = log.earlier + sum(_ended(report) != "nobody killed" for report in ended)
    programs = sum(not kill.failure for kill in log.user_space)
    if log.user_space and (not ended or log.user_space[-1].line > ended[-1].line):
        is_kill = not log.user_space[-1].failure
        return user_space_kill(log.user_space[-1]), None, kills + programs - is_kill
    if ended:
        is_kill = _ended(ended[-1]) != "nobody killed"
        return kill_of(ended[-1]), ended[-1], kills + programs - is_kill
    if log.reaped:
        process = log.reaped[-1]
        report = Report(0, victims=[process], is_stuck=bool(process.words))
        return kill_of(report), report, len(log.reaped) - 1
    if log.reports:
        return kill_of(log.reports[-1]), log.reports[-1], 0
    return None, None, 0


def last_of_group(log: Log, name: str) -> str:
    """Who was killed last in a group or below it; `name` is its path in the hierarchy. Empty if
    the log has no such kill."""
    for report in reversed(log.reports):
        task_group = (report.task_group or "").strip("/")
        if _ended(report) == "killed" and f"{task_group}/".startswith(f"{name.strip('/')}/"):
            return _first_line(kill_of(report), report)
    return ""


def lines(log: Log) -> Iterator[str]:
    """Yield the answer, at most some 20 lines."""
    kill, report, earlier = last(log)
    if kill is None:
        yield from _no_kill(log)
        return
    yield f"{_first_line(kill, report)}{_unread(log)}"
    yield kill.text
    if report is None:
        if log.user_space[-1].processes:
            yield f"it killed {holders.processes(log.user_space[-1].processes)} of it"
    else:
        yield from _choice(kill, report)
        yield from holders.lines(report, kill.holdings)
        if holders.is_whole(report):
            yield from _unheld(kill)
        yield from _table(kill)
        if report.is_table_empty:
            yield "the table of processes has no process: init and kernel threads are never in it"
    if kill.missing:
        yield f"not in this log: {'; '.join(kill.missing)}"
    yield from _others(log, report, earlier)


def _ended(report: Report) -> Ended:
    if report.panic is not None:
        return "panic"
    if report.is_nobody:
        return "nobody killed"
    return "killed" if _victims(report) or report.is_task else "cut"


def _victims(report: Report) -> list[Process]:
    if report.is_nobody:
        return []
    chosen = [report.chosen] if report.chosen is not None and not report.panic else []
    return report.victims or chosen


def _is_choice(report: Report) -> bool:
    """Whether of a kill only the choice is in the log: before 5.1 a child may be killed instead."""
    return not report.victims and report.chosen is not None and report.chosen.score is not None


def _killed(process: Process, tasks: list[Task]) -> Killed:
    """The sizes of the kill's line; if it is not in the log, of the table."""
    row = next((task for task in tasks if task.pid == process.pid), None)
    if process.resident is None and row is not None:
        return Killed(
            process.pid, process.name, row.resident_bytes, row.anonymous_bytes, row.file_bytes,
            row.shared_bytes, row.page_table_bytes, row.score_adjustment,
        )  # fmt: skip
    name = process.name or (row.name if row is not None else "")
    return Killed(
        process.pid, name, process.resident, process.anonymous, process.file,
        process.shared, process.page_tables, process.score_adjustment,
    )  # fmt: skip


def _when(at: str, clock: str) -> str:
    seconds = at.replace(".", "", 1)
    if seconds.isascii() and seconds.isdigit():
        after = f"{float(at):,.0f} s after boot"
        return f" at {clock} ({after})" if clock else f" at {after}"
    return f" at {at}" if at else ""


def _first_line(kill: Kill, report: Report | None) -> str:
    when = _when(kill.at, report.clock if report else "")
    if kill.ended == "panic":
        return f"the kernel panicked{when}: {report.panic if report else ''}"
    if kill.ended == "nobody killed" and kill.by != "kernel":
        who = _who(kill.killed[0])
        ending = ", and it did not end" if kill.killed[0].pid is not None else ""
        return f"nothing was killed{when}: {kill.by} tried to end {who}{ending}"
    if kill.ended == "nobody killed":
        short = "" if kill.cause == "by hand" else "memory was short, and "
        return f"nothing was killed{when}: {short}no process could be killed"
    if kill.ended == "cut":
        who = f": {kill.requester} requested memory" if kill.requester else ""
        return f"memory was short{when}, and the log ends before a kill{who}"
    if not kill.killed:
        return f"killed{when}: a process of {kill.process_group}; which one is not in this log"
    if kill.by != "kernel":
        other = "OOM killer" if kill.cause == "driver" else "kernel"
        return f"killed{when} by {kill.by}, not by the {other}: {_who(kill.killed[0])}"
    or_child = ", or a child of it" if report is not None and _is_choice(report) else ""
    line = f"killed{when}: {_who(kill.killed[0])}{or_child}"
    if len(kill.killed) > 1:
        line += f"; and {holders.processes(len(kill.killed) - 1)} more"
    return line


def _who(victim: Killed) -> str:
    line = victim.name or "a process"
    if victim.pid is not None:
        line = f"process {victim.pid}" + (f" ({victim.name})" if victim.name else "")
    resident, tables = victim.resident_bytes, victim.page_table_bytes or 0
    if resident is not None:
        line += f", {size(resident)} resident"
        line += f" and {size(tables)} of page tables" if tables > max(resident, 1 << 20) else ""
    kinds = (
        (victim.anonymous_bytes, "anonymous"),
        (victim.file_bytes, "of files"),
        (victim.shared_bytes, "shared memory"),
    )
    shown = ", ".join(f"{size(number)} {kind}" for number, kind in kinds if number)
    return line + (f": {shown}" if shown else "")


def _choice(kill: Kill, report: Report) -> Iterator[str]:
    """Who requested, and why this process was chosen, if that was printed."""
    if kill.ended == "panic" and kill.killed:
        yield f"killed before it: {_who(kill.killed[0])}"
    if kill.requester and kill.ended != "cut" and kill.cause != "by hand":
        yield f"{kill.requester} requested the memory that was not there"
    if report.whole_group is not None:
        same = report.whole_group in (report.group, report.task_group)
        name = "its group" if same else report.whole_group
        yield f"all processes of {name} are killed with it (memory.oom.group)"
    victims = _victims(report)
    if report.is_stuck:
        yield "the kernel could not take its memory (oom_reaper), which is free only when it ends"
    why = "because it requested the memory (vm.oom_kill_allocating_task)"
    parent = report.chosen and report.chosen.pid
    if report.chosen and victims and parent is not None and victims[0].pid not in (None, parent):
        score = f" by its score of {report.chosen.score}" if report.chosen.score else ""
        score = f" {why}" if report.words == "requester" else score
        name = f" ({report.chosen.name})" if report.chosen.name else ""
        chosen = f"process {parent}{name}"
        yield f"the kernel chose {chosen}{score}, and killed this child of it"
    elif report.words == "requester":
        yield f"chosen {why}"
    elif victims:
        yield from holders.why_chosen(report, victims[0])


def _unheld(kill: Kill) -> Iterator[str]:
    """What no task of the table explains."""
    whole = sum(holding.bytes for holding in kill.holdings) or kill.used_bytes or 0
    free = sum(holding.bytes for holding in kill.holdings if holding.name == "free")
    rest = whole - free - kill.resident_bytes
    if kill.process_count and kill.cause in ("group", "machine") and rest > whole / 10:
        hold = "hold" if kill.process_count > 1 else "holds"
        count, resident = holders.processes(kill.process_count), size(kill.resident_bytes)
        table = f"the table's {count} {hold} {resident}"
        yield f"{table}; {size(rest)} are in none of them"


def _table(kill: Kill) -> Iterator[str]:
    for task in kill.processes[:_SHOWN]:
        kinds = (
            (task.anonymous_bytes, "anonymous"),
            (task.file_bytes, "of files"),
            (task.shared_bytes, "shared"),
            (task.swapped_bytes, "in swap"),
            (task.page_table_bytes, "page tables"),
        )
        least = max(1 << 20, task.resident_bytes // 20)
        shown = ", ".join(f"{size(n)} {kind}" for n, kind in kinds if n and n >= least)
        note = f" ({shown})" if shown else ""
        yield f"  {task.pid:>8}  {size(task.resident_bytes):>9}  {task.name}{note}"
    names = holders.by_name(kill.processes) if kill.process_count > 1 else None
    if names is not None:
        yield f"  {names}"


def _others(log: Log, report: Report | None, earlier: int) -> Iterator[str]:
    if earlier:
        yield f"{units.counted(earlier, 'earlier kill')} in the same log"
    if in_vain := sum(r.is_nobody and not r.panic and r is not report for r in log.reports):
        yield f"{units.counted(in_vain, 'other report')} in which no process could be killed"
    if report is not None and log.reports and (later := log.reports[-1]).line > report.line > 0:
        short = cause.cause_of(later)
        reason = f": {short.sentence}" if later.memory.zones or short.kind != "unknown" else ""
        without = [r for r in log.reports if r.line > report.line and _ended(r) == "cut"]
        many = _without_kill(without)
        reason = f"; the last one{reason}" if many and reason else reason
        yield f"{many or _LATER_CUT}{reason}"
    elif report is not None and _ended(report) == "cut" and (many := _without_kill(log.reports)):
        yield many
    if log.reaped and report is not None and log.reports:
        whose = [p.name or (f"process {p.pid}" if p.pid else "a process") for p in log.reaped[:6]]
        names = ", ".join(dict.fromkeys(whose))
        yield f"also killed, without a report in this log: {names}"
    if report is not None and log.refused and cause.cause_of(report).kind == "unknown":
        yield f"memory was refused in the same log: {log.refused[-1]}"
    yield from _holes(log)
    if log.suppressed:
        yield f"the kernel left out {units.counted(log.suppressed, 'report')} (rate limit)"


_LATER_CUT = "a later report in this log is cut before its kill"


def _without_kill(reports: list[Report]) -> str:
    """Of reports that follow each other without a kill, if one that another follows is whole."""
    if not any(r.memory.zones and r.memory.ram_pages is not None for r in reports[:-1]):
        return ""
    first, last = (forms.key_of(report.prefix) for report in (reports[0], reports[-1]))
    between = forms.nanoseconds_between(first, last) / 1e9 if first and last else 0
    within = f" in {units.format_long(between)}" if first and last and between >= 1 else ""
    return f"{len(reports):,} reports{within} that no kill follows in this log"


def _missing(report: Report, tasks: list[Task]) -> Iterator[str]:
    if report.is_mixed:
        yield "which lines are of this report: another one is mixed with it"
        return
    reason = cause.cause_of(report)
    victims = _victims(report)
    if victims and (victim := _killed(victims[0], tasks)).resident_bytes is None:
        is_part = victim.anonymous_bytes is not None
        yield f"the {'whole ' if is_part else ''}size of what was killed"
    if reason.kind == "group" and report.container is None:
        if reason.counter is None and "memory" not in report.counters:
            yield "the group's usage and limit"
        if not report.statistics:
            yield "what the group's memory was"
    elif reason.kind in ("machine", "unknown") and not report.memory.zones and not report.is_nobody:
        is_sum = cause.free_in_sum(report) is not None
        yield "what was free of each zone" if is_sum else "the machine's free memory (Mem-Info)"
    if report.is_table_empty:
        return
    if not tasks:
        yield "the table of processes"
    elif not report.columns or (victims and holders.in_table(victims[0], tasks) is None):
        yield "a part of the table of processes"
    elif cause.page_size(report) is None:
        yield "the size of a page (4 KiB is assumed)"


def _no_range(log: Log) -> Iterator[str]:
    if log.no_range is not None:
        yield (
            f"the kernel had no free range of {size(log.no_range)} in its addresses for vmalloc "
            "(vmalloc= at boot): that is not a lack of memory"
        )


def _unread(log: Log) -> str:
    return f"; {log.unread}" if log.unread else ""


def _holes(log: Log) -> Iterator[str]:
    """What the log says that it does not have."""
    if log.lost:
        yield f"lines are missing in this log: {log.lost[-1]}"
    if log.hidden:
        are = "line is" if log.hidden == 1 else "lines are"
        yield f"{log.hidden:,} {are} not shown in this log (blob data): journalctl -k -a prints all"


def _no_kill(log: Log) -> Iterator[str]:
    span = f", from {log.first} to {log.last}" if log.first and log.last != log.first else ""
    if not log.lines:
        yield f"{log.unread or 'the log is empty'}: nothing can be said of a kill"
        return
    lines = "1 line was" if log.lines == 1 else f"{log.lines:,} lines were"
    opening = "no kill for want of memory in this log"
    opening = "a kill is reported, but not by the kernel" if log.hints else opening
    yield f"{opening}: {lines} read{span}{_unread(log)}"
    if log.by_hand:
        times = "once" if log.by_hand == 1 else f"{log.by_hand:,} times"
        yield f"a kill was requested by hand (SysRq f) {times}, and none follows"
    if log.refused:
        yield f"memory was refused, which kills nobody: {log.refused[-1]}"
    yield from _no_range(log)
    if log.forks:
        group, count = max(log.forks.items(), key=lambda item: item[1])
        more = f", and of {len(log.forks) - 1:,} more" if len(log.forks) > 1 else ""
        yield (
            f"{units.counted(count, 'fork')} met the limit of processes (pids.max) of the group "
            f"{group}{more}: that is not a lack of memory"
        )
    if log.stalled:
        yield f"a request for memory had to wait, which kills nobody: {log.stalled[-1]}"
    for failure in log.failures[-1:]:
        did = "tried to kill, and could not"
        did = "was about to kill, and did not" if failure.by == "nohang" else did
        yield f"{failure.by} {did}: {failure.text}"
    if log.parts:
        yield (
            f"a part of a report stands in it, {' and '.join(log.parts)}, as the kernel prints it "
            "for a kill, a refused request and SysRq: what it is of is not in this log"
        )
    for end in log.ends[-1:]:
        yield f"a process was ended for another reason than want of memory: {end}"
    for request in log.requests.values():
        times = "once" if request.count == 1 else f"{request.count:,} times"
        sentence = f"{request.by} asked the kernel for a kill {times}, and this log has no kill"
        had = f"; its last line of memory: {request.available}" if request.available else ""
        yield f"{sentence}: {request.text}{had}"
    for hint in log.hints[-1:]:
        reported = f"{hint.by} reports a kill, but the kernel's own report is not in this log"
        yield f"{reported}: {hint.text}"
    yield from _holes(log)
    says = (
        log.refused
        or log.no_range is not None
        or log.forks
        or log.stalled
        or log.hints
        or log.failures
        or log.parts
        or log.ends
    )
    is_bare = not says and not log.requests and not log.by_hand
    if is_bare and not log.lost and not log.hidden and not log.unread:
        yield "it may have been overwritten, or stands in an earlier boot: journalctl -k -b -1"
