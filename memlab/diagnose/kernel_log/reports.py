"""Reports of kills: the kernel's sentences, grouped in the order of the log.

A report may be cut anywhere: each sentence goes into the open report, or opens one. Sentences that
only a complete report has (memory, tasks) are read until its kill.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memlab.diagnose.kernel_log import forms, joining, killers, lost, near, sentences
from memlab.diagnose.kernel_log.meminfo import MemInfo
from memlab.diagnose.kernel_log.sentences import Counter, Process, ProcessRow
from memlab.text import units

_STATISTICS_MAX = 400
_SOURCES_MAX = 64  # hosts and callers whose reports are kept apart
_ROWS_MAX = 10_000
_TASKS_MAX = 1 << 18  # of a table; a kernel may have four million
_REPORTS_MAX = 10_000  # of which the older half is then only counted
_FORMER_MAX = 1000  # kills in which a copy is looked for
_ROWS_LEAST = 3  # of a table of which no other line is there
_MIXED_LINES = 3  # after which a report has more than its beginning
_REPORT_S = 600
_STAMPED = 50  # lines at each end of a log, of which one may have a stamp
_CHARGES = (  # "mem_cgroup_oom" begins two names
    "mem_cgroup_out_of_memory", "mem_cgroup_oom", "mem_cgroup_handle_oom", "try_charge_memcg"
)  # fmt: skip
_BY_HAND, _OF_FAULT = "moom_callback", " pagefault_out_of_memory+"
_OF_KILL = "oom_kill_process", "out_of_memory+"
_ALLOCATIONS = "__alloc_pages_slowpath", "__alloc_pages_may_oom"  # charges have neither
_TRACE_LINES = 60  # of a call trace whose report begins in its midst
_MARKS = tuple(
    dict.fromkeys(
        (
            *(s.marker for s in sentences.TABLE),
            *killers.MARKS,
            *lost.MARKS,
            *near.MEMORY,
            "  cache: ",
            *_CHARGES,
            _BY_HAND,
            _OF_FAULT,
            *_OF_KILL,
            *_ALLOCATIONS,
        )
    )
)

# Of grep, of diff and of compose: what stands at the beginning of each line.
_BEFORE_NAME = re.compile(
    r"(?:\S{0,200}\.(?:log|txt)(?:\.\d{1,3})?:(?=\S)|\+(?=\S)|[\w.-]{1,64} {1,40}\| (?=\S))"
)
_NO_PREFIX = forms.Prefix("", "", "", "", "")
Kills = set[tuple[int | None, str, int | None, int | None]]


@dataclass(slots=True)
class Report:
    """What the kernel printed about one kill, as far as the log has it."""

    line: int
    """Its first line in the log."""
    prefix: forms.Prefix = _NO_PREFIX
    """Of the line that has its stamp."""
    stamp: str = ""
    clock: str = ""
    """The clock time, if the stamp is in seconds since boot and the line has both."""
    requester: str | None = None
    """Empty if the kernel does not name it; None if that line is not in the log."""
    gfp_mask: int | None = None
    order: int | None = None
    is_by_hand: bool = False
    is_charge: bool = False
    """The call trace leads from a group's charge to the kill."""
    is_traced: bool = False
    is_allocation: bool = False
    """The call trace leads from the allocator of pages to the kill."""
    is_summed: bool = False
    """Whether the line that sums it up was read, which since 5.0 is the last before the kill."""
    constraint: str | None = None
    nodes: str | None = None
    cpuset: str | None = None
    mems_allowed: str | None = None
    words: str = ""
    """How the kill is opened: "group", "machine", "requester", "policy", "cpuset", "fault", or
    nothing."""
    group: str | None = None
    is_below: bool = False
    """Whether the limit may be that of a parent of the group, whose line is cut off."""
    task_group: str | None = None
    container: str | None = None
    """OpenVZ's group; empty if the log does not name it."""
    counters: dict[str, Counter] = field(default_factory=dict)
    statistics: dict[str, int] = field(default_factory=dict)
    """Of the group: in bytes, or counts of events."""
    groups: set[str] = field(default_factory=set)
    """Whose statistics were read."""
    memory: MemInfo = field(default_factory=MemInfo)
    columns: tuple[str, ...] = ()
    columns_line: int = 0
    rows: list[ProcessRow] = field(default_factory=list)
    is_table_empty: bool = False
    """Whether the line behind the table's head says that nothing can be killed."""
    chosen: Process | None = None
    """Named before the kill; before 5.1 a child of it may be killed instead."""
    victims: list[Process] = field(default_factory=list)
    reaped: Process | None = None
    """In its table, and dead before a kill of it was read: of it if none follows."""
    whole_group: str | None = None
    is_task: bool = False
    """Whether a process of a group was killed whose name is not in the log."""
    is_nobody: bool = False
    is_stuck: bool = False
    """Whether the kernel says that it could not take the memory of what it killed."""
    is_second: bool = False
    """Whether it begins with a choice that was read before."""
    panic: str | None = None
    is_mixed: bool = False
    """Whether another report began just before it, so that a line may belong to either."""

    def stamp_by(self, prefix: forms.Prefix) -> None:
        """Take the time of a line, if it has one."""
        if prefix.boot or prefix.clock:
            self.prefix = prefix
            self.stamp = prefix.boot or prefix.clock
            self.clock = prefix.clock if prefix.boot else ""

    def leave_out_mixed(self) -> None:
        """Forget what may belong to the other report."""
        self.counters, self.statistics, self.memory = {}, {}, MemInfo()
        self.columns, self.rows = (), []

    def settle(self) -> None:
        """No more of it follows: what was reaped is its victim, the kill's line being left out."""
        if self.reaped is not None and not self.is_decided and self.chosen is None:
            self.victims.append(self.reaped)
            self.reaped = None

    @property
    def is_decided(self) -> bool:
        """Whether the report says how it ended."""
        return bool(self.victims or self.is_nobody or self.panic)

    @property
    def is_bare(self) -> bool:
        """Whether it is a kill without the report that the kernel prints before it."""
        has_more = self.requester is not None or self.is_summed or self.group is not None
        return not (has_more or self.counters or self.columns or self.memory.zones)

    @property
    def is_report(self) -> bool:
        """Whether it is more than a table that something else printed."""
        is_begun = self.requester is not None or self.is_summed or self.group is not None
        return bool(self.is_decided or is_begun or self.counters or self.columns or self.chosen)

    @property
    def is_copy(self) -> bool:
        """Whether it is a choice that was read before, and no kill."""
        return self.is_second and not self.victims


@dataclass(slots=True)
class Log:
    """What a log says about kills."""

    reports: list[Report] = field(default_factory=list)
    user_space: list[killers.UserSpaceKill] = field(default_factory=list)
    hints: list[killers.Hint] = field(default_factory=list)
    """Sentences of other programs that tell of a kill without the kernel's report."""
    requests: dict[str, killers.Request] = field(default_factory=dict)
    """Of a kill by the kernel, by the program."""
    failures: list[killers.Hint] = field(default_factory=list)
    """Sentences of programs that tried to kill, and could not."""
    ends: list[str] = field(default_factory=list)
    """Sentences about other ends of processes, which are not for want of memory."""
    parts: list[str] = field(default_factory=list)
    """What stands in it of reports that have neither a beginning nor a kill."""
    has_trace: bool = False
    """Whether a call trace of a kill stands in it."""
    refused: list[str] = field(default_factory=list)
    stalled: list[str] = field(default_factory=list)
    """Allocations that failed, which kills nobody."""
    no_range: int | None = None
    """The size in bytes, if the kernel had no range of addresses for vmalloc that is as large."""
    forks: dict[str, int] = field(default_factory=dict)
    """How often a fork was refused, by the group whose limit of processes it met."""
    by_hand: int = 0
    """Requests of a kill by SysRq f."""
    earlier: int = 0
    """Kills that are only counted, because very many follow."""
    reaped: list[Process] = field(default_factory=list)
    """Killed, by the sentence of the reaper only: their reports are not in the log."""
    lost: list[str] = field(default_factory=list)
    """Sentences that say that lines are missing."""
    hidden: int = 0
    """Lines that the journal shows as blob data only."""
    suppressed: int = 0
    """Reports that the kernel left out to print less."""
    unread: str = ""
    """What of its file could not be read."""
    lines: int = 0
    first: str = ""
    last: str = ""
    """Stamps of the first and of the last line that has one."""


def read(lines: Iterable[str]) -> Log:
    """Read a log."""
    sources = _Sources()
    begin: list[str] = []
    end: deque[str] = deque(maxlen=_STAMPED)
    for chunk, text in near.chunks(joining.joined(lines)):
        marks = _marks_in(text)
        begin += chunk[: _STAMPED - len(begin)]
        end.extend(chunk)
        for line in chunk:
            sources.feed(line, marks)
    log = sources.log
    for report in log.reports:
        report.settle()
        if report.reaped is not None:
            log.reaped.append(report.reaped)
    log.parts = _parts(log.reports, [*begin, *end])
    log.parts += ["a call trace of a kill"] if log.has_trace else []
    log.reports = [report for report in log.reports if report.is_report and not report.is_copy]
    for report in log.reports:
        if report.is_mixed:
            report.leave_out_mixed()
    log.first = next(filter(None, (forms.parted(line)[0] for line in begin)), "")
    log.last = next(filter(None, (forms.parted(line)[0] for line in reversed(end))), "")
    return log


def _parts(reports: list[Report], lines: list[str]) -> list[str]:
    """What of a report a log has without its beginning, which would say what it is about."""
    parts = []
    memory = next((report.memory for report in reports if report.memory.zones), None)
    counted = next((report.memory for report in reports if report.memory.is_counted), None)
    if memory is None and counted is not None and "free" in counted.pages:
        parts.append(f"the machine's memory ({counted.pages['free']:,} pages free)")
    if memory is not None:
        swap = "" if memory.swap_total else ", no swap" if memory.swap_total == 0 else ""
        parts.append(
            f"the machine's memory ({units.format_quantity(memory.free or 0, 'B')} free{swap})"
        )
    rows = [row for line in lines if (row := sentences.row(line, None)) and row.name]
    if any(report.rows for report in reports) or len(rows) >= _ROWS_LEAST:
        parts.append("a table of processes")
    return parts


def _marks_in(text: str) -> tuple[str, ...]:
    """By which a line of a text may open a report, or say something without one."""
    return tuple(mark for mark in _MARKS if mark in text) if near.has_word(text) else ()


def _is_marked(line: str, marks: Sequence[str]) -> bool:
    for mark in marks:
        if mark in line:
            return near.has_word(line)
    return False


def _is_below(group: str, limit: str) -> bool:
    return f"{group}/".startswith(f"{limit.rstrip('/')}/")


def _is_copy(first: forms.Prefix, second: forms.Prefix) -> bool:
    """Whether two consoles or two loggers wrote a line: at one time, as far as that is read."""
    if first.body != second.body or not second.body:
        return False
    if first.boot and second.boot:
        return first.boot == second.boot
    return bool(first.boot or second.boot) or first.clock == second.clock


def _is_long_after(stamp: str, boot: str) -> bool:
    """Whether a line is of another report, by seconds since boot: a slow console takes a minute."""
    if not boot or not stamp.replace(".", "", 1).isdecimal():
        return False
    return abs(float(boot) - float(stamp)) > _REPORT_S


def _is_of(reaped: Process, victim: Process) -> bool:
    """Whether a line is of a victim: one that is cut has a beginning of its PID."""
    if not reaped.is_cut:
        return reaped.pid == victim.pid
    return str(victim.pid).startswith(str(reaped.pid))


def _is_of_group(report: Report, process: Process) -> bool:
    """Whether it is killed with all processes of a group: the words before each are the same."""
    victims = report.victims
    return report.whole_group is not None and (not victims or victims[0].words == process.words)


def _is_apart(report: Report, prefix: forms.Prefix) -> bool:
    """Whether a line is of another report: by its clock, or by a stamp of another kind."""
    first = report.prefix
    if first.boot and prefix.boot:
        return False  # see above
    if not first.clock or not prefix.clock:
        return bool(first.boot and prefix.clock) or bool(first.clock and prefix.boot)
    if first.clock == prefix.clock:
        return False
    former, key = forms.key_of(first._replace(boot="")), forms.key_of(prefix._replace(boot=""))
    if former is None or key is None:
        return False
    return former[0] != key[0] or forms.nanoseconds_between(former, key) > _REPORT_S * 10**9


def _without_host(report: Report, line: str) -> None:
    """Before a name that has no `kernel:` before it stands the host, as before each line."""
    host = forms.parted(line)[1].partition(" Mem-")[0].strip()
    if host and report.requester and report.requester.startswith(f"{host} "):
        report.requester = report.requester.removeprefix(f"{host} ")


class _Sources:
    """Takes lines apart that several hosts, or several tasks of a kernel, print into one log."""

    def __init__(self) -> None:
        self.log = Log()
        self._kills: Kills = set()
        self._readers: dict[tuple[str, str], _ReportReader] = {}
        self._source = "", ""
        self._rows: list[str] = []
        self._unmarked = 0
        """Lines behind the last one with a mark."""

    def feed(self, line: str, marks: tuple[str, ...]) -> None:
        """Read a line, of some that have these marks."""
        self.log.lines += 1
        is_marked = _is_marked(line, marks)
        self._unmarked = 0 if is_marked else self._unmarked + 1
        # A report whose end was not logged stays open: it has no line that far behind a mark.
        is_open = self._unmarked <= near.AFTER and any(r.is_open for r in self._readers.values())
        if not is_open and not is_marked:
            self._keep(line)
            return
        rows, self._rows = self._rows, []
        line = sentences.without_commas(line) if "," in line else line
        prefix = forms.prefix_of(line)
        if not any(mark in marks for mark in lost.MARKS):
            pass
        elif lost.is_hidden(line):
            self.log.hidden += 1
        elif (sentence := lost.read(line)) is not None and len(self.log.lost) < 100:
            self.log.lost.append(sentence)
        self._reader(prefix).feed(line, prefix, () if is_open else rows, marks)

    def _keep(self, line: str) -> None:
        """Keep rows of a table whose head is cut off until the kill that follows them."""
        if sentences.is_row(line):
            if len(self._rows) < _ROWS_MAX:
                self._rows.append(line)
        elif self._rows and not line.isspace() and line:
            self._rows = []

    def _reader(self, prefix: forms.Prefix) -> _ReportReader:
        """That of the line's host and caller; a line that has none belongs to the one before."""
        sender = prefix.sender or self._source[0]
        is_same = sender == self._source[0]
        source = sender, prefix.caller or (self._source[1] if is_same else "")
        if source not in self._readers and len(self._readers) < _SOURCES_MAX:
            former = next((key for key in ((sender, ""), ("", "")) if key in self._readers), None)
            if former is None:
                self._readers[source] = _ReportReader(self.log, self._kills)
            else:  # its first lines had no host
                self._readers[source] = self._readers.pop(former)
        if source in self._readers:
            self._source = source
        return self._readers[self._source]


class _ReportReader:
    """Puts each sentence of a source where it belongs."""

    def __init__(self, log: Log, kills: Kills) -> None:
        self.log = log
        self._open: Report | None = None
        self._is_by_hand = False
        self._is_in_statistics = False
        self._is_whole = True  # the last line of them ended behind a number
        self._is_refused = False
        self._is_other = False  # the lines about memory belong to something else
        self._trace: Report | None = None
        self._listed: tuple[Report | None, int, set[int]] = None, 0, set()
        self._row = ""
        self._rows_before: Sequence[str] = ()
        self._kills = kills
        self._before = forms.Prefix("", "", "", "", "")
        self._killers = killers.Reader(
            self.log.user_space,
            self.log.hints,
            self.log.failures,
            self.log.ends,
            self.log.requests,
        )

    @property
    def is_open(self) -> bool:
        """Whether it is in a report that does not say yet how it ended."""
        return self._open is not None and not self._open.is_decided

    def feed(
        self, line: str, prefix: forms.Prefix, rows: Sequence[str], marks: tuple[str, ...]
    ) -> None:
        """Read a line; `rows` are those of a table without a head just before it."""
        before, self._before = self._before, prefix
        self._rows_before = rows
        if _is_copy(before, prefix):
            return
        if self._open is not None and _is_long_after(self._open.stamp, prefix.boot):
            self._open = None
        is_apart = self._open is not None and _is_apart(self._open, prefix)
        for at, sentence in sentences.within(line, marks):
            if (value := sentence.read(line, at)) is not None:
                self._open = None if is_apart else self._open
                self._is_in_statistics, self._row = False, ""
                getattr(self, f"on_{sentence.kind}")(value, line)
                return
        if not self._killers.read(line, self.log.lines, marks):
            if not is_apart:
                self._rest(line)
        elif len(self.log.user_space) >= _REPORTS_MAX:
            older = self.log.user_space[: _REPORTS_MAX // 2]
            self.log.earlier += sum(not one.failure for one in older)
            del self.log.user_space[: len(older)]

    def _rest(self, line: str) -> None:
        """Lines that only a report's place makes the kernel's: memory, tasks, statistics."""
        if self._is_refused and " cache: " in line:
            self.log.refused[-1] += f";{forms.parted(line)[1][:160]}"
            self._is_refused = False
            return
        report = self._open
        if not self._is_other and any(mark in line for mark in near.MEMORY):
            report = self._undecided(line)
        if report is None or report.is_decided:
            self._headless_trace(line)
            return
        if self._is_in_statistics and self._statistic(report, line):
            return
        if report.requester and " Mem-" in line:
            _without_host(report, line)
        if report.memory.read(line) or self._task(report, line):
            return
        self._context(report, line)

    def _context(self, report: Report, line: str) -> None:
        """The lines behind the first one: whose memory, and how the request came there."""
        if "+0x" in line and " mems_allowed=" not in line:  # a cpuset has any name
            report.is_by_hand |= _BY_HAND in line
            if "? " not in line:  # which may be of another call
                report.is_charge |= any(name in line for name in _CHARGES)
                report.is_traced |= any(name in line for name in _OF_KILL)
                is_of_pages = any(name in line for name in _ALLOCATIONS)
                report.is_allocation |= report.is_traced and is_of_pages
            if report.gfp_mask is None and _OF_FAULT in line:
                report.gfp_mask = 0  # the first line, which has it, is missing
        elif " Comm: " in line and report.requester is not None:
            self._requester(report, line)
        elif "cpuset=" in line and " mems_allowed=" in line and report.mems_allowed is None:
            before, _, report.mems_allowed = line.rpartition(" mems_allowed=")
            report.cpuset = before.rpartition("cpuset=")[2]

    def _headless_trace(self, line: str) -> None:
        """A call trace may be all that a log has before the memory or the kill."""
        if self._trace is None or self.log.lines - self._trace.line > _TRACE_LINES:
            self._trace = Report(self.log.lines)
        self._context(self._trace, line)
        self.log.has_trace |= self._trace.is_traced
        if self._trace.is_by_hand or self._trace.is_charge or self._trace.gfp_mask == 0:
            self._is_other = False

    def _task(self, report: Report, line: str) -> bool:
        """A line of the table; a narrow terminal or a mail breaks it in two."""
        part, self._row = "" if sentences.is_row(line) else self._row, ""
        whole = f"{part} {line.strip(' >|')}" if part else line
        if not report.columns and "]" not in whole:
            return False
        width = len(report.columns) - 1 if report.columns else None
        row = sentences.row(whole, width)
        if part and row is not None and row.name[:1].isdigit():  # it was broken within a number
            whole = part + line.strip(" >|")
            row = sentences.row(whole, width)
        if row is None:
            return False
        if part and width is not None and report.rows and report.rows[-1].pid == row.pid:
            if len(row.name) > sentences.COMM_MAX:
                return False  # the row before it lacks a name
            report.rows.pop()
        if width is not None and not row.name:
            self._row = whole
        is_row = width is None or len(row.numbers) >= width or row.name
        is_long = len(row.name) > sentences.COMM_MAX
        behind = sentences.rows_behind(whole, width) if is_long else ()
        for task in (*((row,) if is_row else ()), *behind):
            if len(report.rows) < _TASKS_MAX:
                report.rows.append(sentences.named(task))
        return True

    def _undecided(self, line: str) -> Report:
        """The report that is before its kill: since 5.0 its sum is the last line before."""
        report = self._open
        if report is None or report.is_decided or report.is_summed:
            return self._new(line)
        return report

    def _new(self, line: str) -> Report:
        report = Report(self.log.lines, is_by_hand=self._is_by_hand)
        if self._trace is not None and self.log.lines - self._trace.line <= _TRACE_LINES:
            report.is_by_hand |= self._trace.is_by_hand
            report.is_charge, report.gfp_mask = self._trace.is_charge, self._trace.gfp_mask
            report.is_allocation = self._trace.is_allocation
        self._trace = None
        report.stamp_by(self._before)
        self._is_by_hand = self._is_other = False
        if len(self.log.reports) >= _REPORTS_MAX:
            older = self.log.reports[: _REPORTS_MAX // 2]
            self.log.earlier += sum(bool(one.victims or one.panic) for one in older)
            del self.log.reports[: len(older)]
        self.log.reports.append(report)
        self._open = report
        return report

    def _new_after_rows(self, line: str) -> Report:
        """A report that begins with its end: the rows before it are of its table."""
        report = self._new(line)
        for text in self._rows_before:
            if (row := sentences.row(text, None)) is not None:
                report.rows.append(sentences.named(row))
        return report

    def _requester(self, report: Report, line: str) -> None:
        """The line behind the first one has the name without a prefix."""
        name = line.partition(" Comm: ")[2]
        for mark in (" Not tainted", " Tainted:", " Kdump:"):
            name = name.partition(mark)[0]
        if not name or len(name) > 15 or not report.requester:
            return
        if name.endswith(report.requester) or report.requester.endswith(name):
            report.requester = name

    def _statistic(self, report: Report, line: str) -> bool:
        # A mail broke the line, or a console, within a word.
        rest = line if self._is_whole else line.strip(" >|").partition(" ")[2]
        if numbers := sentences.statistics_of(rest):
            self._is_whole = line.rstrip().endswith("KB")
            for name, size in numbers.items():
                report.statistics[name] = report.statistics.get(name, 0) + size
            return True
        number = sentences.statistic(forms.parted(line)[1])
        if number is None or len(report.statistics) >= _STATISTICS_MAX:
            return False
        report.statistics.setdefault(*number)
        return True

    def on_invoked(self, value: sentences.Invoked, line: str) -> None:
        other = self._open
        self._trace = None  # of something else: its own follows
        report = self._new(line)
        report.is_mixed = (
            other is not None
            and not other.is_decided
            and other.requester is not None
            and report.line - other.line < _MIXED_LINES
        )
        body = forms.parted(value.before)[1].rpartition("`")[2]  # in a table of Markdown
        body = body[before.end() :] if (before := _BEFORE_NAME.match(body)) else body
        name = body if len(body) <= 15 else (body.rsplit(": ", 1)[-1].rsplit("] ", 1)[-1])
        report.requester = name if len(name) <= 15 else (name.split() or [""])[-1][-15:]
        report.gfp_mask, report.order, report.nodes = value.gfp_mask, value.order, value.nodes

    def on_limit(self, value: sentences.Limit, line: str) -> None:
        report = self._undecided(line)
        if report.counters and report.group not in (None, value.group):
            report = self._split(report, line)
        report.group, report.task_group = value.group, value.task_group
        report.is_below = False
        report.is_task = value.task_group is not None

    def on_counter(self, value: Counter, line: str) -> None:
        report = self._undecided(line)
        if report.counters.get(value.name, value) != value:
            report = self._split(report, line)
        report.counters[value.name] = value

    def _split(self, report: Report, line: str) -> Report:
        """Another report, whose beginning is left out: this line cannot be of the open one."""
        other = self._new(line)
        other.is_mixed = report.is_mixed or report.requester is not None
        return other

    def on_statistics(self, value: sentences.Statistics, line: str) -> None:
        report = self._undecided(line)
        is_read = report.statistics and value.group and report.group
        if is_read and not _is_below(value.group, report.group or ""):
            report = self._split(report, line)
        elif value.numbers and value.group in report.groups:
            return  # a copy
        report.groups.add(value.group)
        if report.group is None:
            report.group = value.group or None
            report.is_below = bool(value.numbers) and not report.counters  # which stand before
        report.words = report.words or "group"  # it is printed for no other cause
        self._is_in_statistics = True
        self._is_whole = line.rstrip().endswith(("KB", ":"))
        for name, size in value.numbers.items():  # of each group below, in a line of its own
            report.statistics[name] = report.statistics.get(name, 0) + size

    def on_columns(self, value: tuple[str, ...], line: str) -> None:
        report = self._undecided(line)
        report.columns, report.rows = value, []
        report.columns_line = self.log.lines

    def on_chosen(self, value: sentences.Chosen, line: str) -> None:
        report = self._open
        if report is None or report.is_decided or report.is_summed:
            report = self._new_after_rows(line)
        report.is_summed = True
        report.constraint, report.nodes = value.constraint, value.nodes or report.nodes
        report.cpuset = value.cpuset or report.cpuset
        report.mems_allowed = value.mems_allowed or report.mems_allowed
        report.group = value.group or report.group
        report.is_below &= value.group is None
        report.task_group = value.task_group or report.task_group
        if value.pid is not None:
            report.chosen = Process(value.pid, value.name or "")

    def on_victim(self, value: Process, line: str) -> None:
        report = self._open
        if value.is_cut:
            value = self._uncut(value)
        if report is not None and report.chosen is not None:
            other = report.chosen.pid != value.pid and bool(report.chosen.words)
            report = None if other else report
        if report is None or report.is_decided:
            report = self._new_after_rows(line)
            report.is_second = self._is_repeated(value)  # or another child of it is killed
        report.chosen, report.words = value, value.words or report.words

    def _uncut(self, process: Process) -> Process:
        """A process whose PID is certain: of the open report's choice, or without one."""
        chosen = self._open.chosen if self._open is not None else None
        if chosen is not None and chosen.pid is not None and _is_of(process, chosen):
            return chosen._replace(words=process.words)
        return process._replace(pid=None, is_cut=False)

    def _is_repeated(self, process: Process) -> bool:
        if process.pid is None:
            return False
        key = (process.pid, process.name, process.virtual, process.anonymous)
        is_repeated = key in self._kills
        if len(self._kills) >= _TASKS_MAX:
            self._kills.clear()
        self._kills.add(key)
        return is_repeated

    def on_killed(self, value: Process, line: str) -> None:
        others: list[Process] = []
        whole_group = None
        if value.is_cut:
            value = self._uncut(value)
        if self._is_repeated(value):  # memory.oom.group names it twice; two logs in one file
            quoted = self._quoted(value)
            if quoted is None:
                return
            others = [one for one in quoted.victims if one != value]
            whole_group = quoted.whole_group
        report = self._chosen_before(value) or self._open
        if report is not None and self._is_after(report, value):
            report.settle()
        if report is None or (report.is_decided and not _is_of_group(report, value)):
            report = self._new_after_rows(line)
        report.victims += [value, *others]
        report.whole_group = report.whole_group or whole_group
        report.words = value.words or report.words
        report.stamp_by(self._before)

    def _is_after(self, report: Report, value: Process) -> bool:
        """Whether a kill is of a later report, whose beginning is left out."""
        is_listed = any(row.pid == value.pid for row in report.rows)
        return report.reaped is not None and report.chosen is None and not is_listed

    def _quoted(self, value: Process) -> Report | None:
        """The kill that a mail quoted above the open report; None if that report is a copy."""
        report = self._open
        if report is None or report.is_decided:
            return None
        latest = self.log.reports[-_FORMER_MAX:]
        former = [one for one in latest if one.is_bare and value in one.victims]
        if report.is_bare or not former:
            self._drop(report)
            return None
        self._forget(former[0])
        return former[0]

    def _chosen_before(self, process: Process) -> Report | None:
        """The report that chose this process, if another one has begun in between."""
        if self._open is None or self._open.chosen is None:
            return None
        if process.pid in (None, self._open.chosen.pid):
            return None
        for report in reversed(self.log.reports[-_SOURCES_MAX:]):
            is_waiting = report.is_summed and not report.is_decided
            if is_waiting and report.chosen is not None and report.chosen.pid == process.pid:
                return report
        return None

    def _drop(self, report: Report) -> None:
        """A second copy of a report that was read already."""
        self._forget(report)
        self._open = None

    def _forget(self, report: Report) -> None:
        for place in range(len(self.log.reports) - 1, -1, -1):
            if self.log.reports[place] is report:
                del self.log.reports[place]
                return

    def on_ended_by_fault(self, value: Process, line: str) -> None:
        report = self._new(line)
        report.victims, report.words = [value], value.words

    def on_container(self, value: tuple[str, Process], line: str) -> None:
        report = self._new(line)
        report.container, process = value
        report.victims.append(process)

    def on_whole_group(self, value: str, line: str) -> None:
        self._decidable(line).whole_group = value

    def _decidable(self, line: str) -> Report:
        return self._open if self._open is not None else self._new(line)

    def on_reaped(self, value: Process, line: str) -> None:
        for report in reversed(self.log.reports[-64:]):
            victims = [*report.victims, report.chosen, report.reaped]
            if any(process is not None and _is_of(value, process) for process in victims):
                report.is_stuck |= bool(value.words)
                return
        opened = self._open
        is_open = opened is not None and not opened.is_decided
        if opened is not None and is_open and opened.reaped is None and self._lists(opened, value):
            opened.reaped, opened.is_stuck = value, bool(value.words)
        elif not self._is_repeated(value):
            self.log.reaped.append(value._replace(pid=None) if value.is_cut else value)

    def _lists(self, report: Report, process: Process) -> bool:
        """Whether its table has a process, as often as that is asked of a large one."""
        former, count, pids = self._listed
        if former is not report or count != len(report.rows):
            pids = {row.pid for row in report.rows}
            self._listed = report, len(report.rows), pids
        return process.pid in pids

    def on_nobody(self, value: str, line: str) -> None:
        report = self._undecided(line)
        report.is_nobody = True
        report.is_table_empty |= self._is_behind_head(report)
        if "Kernel panic" in line:
            report.panic = value
            report.words = report.words or "machine"  # for a group's limit it never panicked so

    def on_panic(self, value: str, line: str) -> None:
        report = self._decidable(line)
        report.panic = value
        report.is_table_empty |= "no killable" in value and self._is_behind_head(report)
        report.stamp_by(self._before)
        if "deadlocked" in value:
            report.words = report.words or "machine"

    def _is_behind_head(self, report: Report) -> bool:
        return bool(report.columns) and self.log.lines == report.columns_line + 1

    def on_by_hand(self, value: str, line: str) -> None:
        self._is_by_hand = True
        self._open = None
        self.log.by_hand += 1

    def on_ignored(self, value: str, line: str) -> None:
        """Of SysRq f: behind the report that says so, if there is one."""
        report = self._open
        if report is None or report.victims or not (report.is_by_hand or report.order == -1):
            report = self._new(line)
        report.is_by_hand = report.is_nobody = True

    def on_suppressed(self, value: int, line: str) -> None:
        self.log.suppressed += value

    def on_stalled(self, value: str, line: str) -> None:
        if len(self.log.stalled) < 100:
            self.log.stalled.append(forms.parted(line)[1][:160])
        self._is_other = True
        if self._open is not None and self._open.is_decided:
            self._open = None

    def on_no_range(self, value: int, line: str) -> None:
        self.log.no_range = value

    def on_fork(self, value: str, line: str) -> None:
        if value in self.log.forks or len(self.log.forks) < _SOURCES_MAX:
            self.log.forks[value] = self.log.forks.get(value, 0) + 1

    def on_refused(self, value: str, line: str) -> None:
        self._is_refused = len(self.log.refused) < 100  # the line behind it is of the last one
        if self._is_refused:
            self.log.refused.append(forms.parted(line)[1][:160])
        self._is_other = True
        if self._open is not None and self._open.is_decided:
            self._open = None
