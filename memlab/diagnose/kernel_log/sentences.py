"""The kernel's sentences about want of memory; `versions` says since when each is printed.

`TABLE` is what the parser runs: a marker that stands in the line, wherever, and a function that
reads what is around it. Fields that some version leaves out are None. A process names itself and a
group may be named by anybody, so names are split off from the right, where their length is bounded
(TASK_COMM_LEN), and every pattern is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

CONSTRAINTS = (
    "CONSTRAINT_NONE", "CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY", "CONSTRAINT_MEMCG"
)  # fmt: skip
GROUP_CUT = "\u2026"
"""At the end of a path that a line has only the beginning of."""
_NEXT_STAMP = re.compile(r" \[ {0,12}\d{1,12}\.\d{3,9}\] ")  # of a line that was joined to it
COMM_MAX = 15  # TASK_COMM_LEN without its end
_GFP = re.compile(r"gfp_mask=0x([0-9a-fA-F]{1,16})")
_ORDER = re.compile(r"order=(-?[1-3]?\d)(?!\d)")  # a larger one is no order
_NODES = re.compile(r",nodemask=([\d,-]{1,200}?)(?:,[a-z]|$)")  # a wrap may be behind them
_NODEMASK = re.compile(r"nodemask=([\d,-]{1,200}), ")
_PID = re.compile(r"(\d{1,10})(?!\d|,\d)")
_NO_PID = re.compile(r"()\d{1,10}(?:,\d{1,10}){1,6}(?!\d)")  # commas that are not of thousands
_CUT = re.compile(r"[.\u2026]{0,3}$")  # behind a number: the kernel always prints more behind a PID
_COMMA = re.compile(r",\d{3}")
_THOUSANDS = re.compile(r"(?<![\w,.=/-])(?<!\d:)-?\d{1,3}(?:,\d{3}){1,6}(?![\d,]|\.\d)")
_PID_OF_SUM = re.compile(r"(?<=,pid=)\d{1,3}(?:,\d{3}){1,3}(?=,uid=)")
_SCORE = re.compile(r"score (-?\d{1,10})")
_ADJUSTMENT = re.compile(r"oom_score_adj:(-?\d{1,5})(?!\d)")
_COUNTER = re.compile(
    r"(memory\+swap|memory|swap|kmem): usage (\d{1,20})kB, limit (\d{1,20})kB"
    r"(?:, failcnt (\d{1,20})(?!\d|,\d|[.\u2026]))?"
)
_STATISTIC = re.compile(r"([a-z_]{2,40}):(\d{1,18})KB")
_STATISTIC_LINE = re.compile(r"([a-z][a-z0-9_()]{1,40}) (\d{1,20})")
_COLUMNS = re.compile(r"\[ {0,4}pid {0,4}\]([a-z_()0-9 \t]{8,2000})")
_GAP = r"[ \t]{1,400}"  # a terminal or a table widens it
_ROW = re.compile(
    rf"\[[ \t]{{0,9}}(\d{{1,10}})\]((?:{_GAP}-?\d{{1,20}}){{4,14}})(?:{_GAP}(\S.{{0,63}}))?"
)
_JOINED = re.compile(rf"{_ROW.pattern}|[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d ")
_JOINED_MAX = 8  # rows in a line
_LINE_MAX = 4096
_SUPPRESSED = re.compile(r"oom_kill_process: (\d{1,9}) callbacks suppressed")
_NO_RANGE = re.compile(r"vmap allocation for size (\d{1,20}) failed")
_UB = re.compile(r"(?:in UB (\S{1,40}): )?OOM killed process ")
_VM = re.compile(r"vm:(\d{1,16})kB, rss:(\d{1,16})kB")
_PANIC = re.compile(r"Kernel panic - not syncing: (.{0,120})")
_ENDED_BY_FAULT = re.compile(r"([^()]{1,15})(?:\((\d{1,10})\))?")
# What the kernel prints behind a name: other programs go on with a sentence of their own.
_SIZES = ("total-vm:", "vsz:", "anon-rss:", "UID")
_OTHER_WORDS = re.compile(r"[\s,]{0,8}([A-Za-z][\w-]{0,16}:?)")
_INVOKED_REST = re.compile(r"\s{0,8}(?:[:,.]|in ub |[\"'`]?[,}\])]{0,8}$)")
_CALLED_BY_NAME = re.compile(r",?\s{0,4}(?:UID \d{1,10},\s{0,4})?\(")


class Invoked(NamedTuple):
    """Who requested the memory that was not there."""

    before: str
    """What stands before it: a prefix, and at its end the name; empty without a name."""
    gfp_mask: int | None
    order: int | None
    nodes: str | None


class Chosen(NamedTuple):
    """The line that sums a kill up."""

    constraint: str | None
    """None if it is cut before it is certain."""
    nodes: str | None
    cpuset: str | None
    mems_allowed: str | None
    group: str | None
    task_group: str | None
    name: str | None
    pid: int | None


class Process(NamedTuple):
    """A process that was chosen or killed; sizes in bytes, None if the version prints none."""

    pid: int | None
    name: str
    words: str = ""
    score: int | None = None
    score_adjustment: int | None = None
    virtual: int | None = None
    anonymous: int | None = None
    file: int | None = None
    shared: int | None = None
    page_tables: int | None = None
    rss: int | None = None
    """Of a version that prints no kinds."""
    is_cut: bool = False
    """Whether the line ends within its PID, or just behind it."""

    @property
    def resident(self) -> int | None:
        """The sum of the kinds; None if the line is cut before the last of them."""
        if self.rss is not None:
            return self.rss
        if self.anonymous is None or self.file is None:
            return None
        return self.anonymous + self.file + (self.shared or 0)


class Limit(NamedTuple):
    """The group whose limit it was, and that of the process."""

    group: str
    task_group: str | None


class Counter(NamedTuple):
    """A counter of a group, in bytes; `limit` is None without one."""

    name: str
    usage: int
    limit: int | None
    failures: int | None


class Statistics(NamedTuple):
    """Of a group, in one line; empty if one line per number follows."""

    group: str
    """Empty if it is cut."""
    numbers: dict[str, int]


class ProcessRow(NamedTuple):
    """A task of the table: numbers in pages, as the columns name them."""

    pid: int
    numbers: tuple[int, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the kernel's."""

    kind: str
    marker: str
    """Text that stands in every such line."""
    read: Callable[[str, int], Any]
    """Reads a line with the marker at this place; None if it is another sentence."""


def invoked(text: str, at: int) -> Invoked | None:
    """Since 2.6.19 with a name before it; not a part of a sentence, which goes on with a word."""
    rest = text[text.find("oom-killer", at) + len("oom-killer") :]
    if not _INVOKED_REST.match(rest):
        return None
    mask, order, nodes = _GFP.search(rest), _ORDER.search(rest), _NODEMASK.search(rest)
    return Invoked(
        text[:at] if text.startswith(" invoked", at) else "",
        int(mask[1], 16) if mask else None,
        int(order[1]) if order else None,
        nodes[1] if nodes else None,
    )


def chosen(text: str, at: int) -> Chosen | None:
    """Split from the right: pid, then a name of at most 15 characters, then the groups."""
    body = text[at + len("oom-kill:") :].lstrip()
    if body[: len("constraint=")].lower() != "constraint=":  # as a page's own spelling has it
        return None
    body = body.replace(", ", ",").replace("task_memcg= ", "task_memcg=")
    constraint = _constraint(body)
    if ",uid=" not in body:  # the line is cut: of its last word only a part may be there
        body = body.rpartition(",")[0]
    head, pid, tail = body.rpartition(",pid=")
    number = _PID.match(tail.lstrip()) if pid else None
    name = None
    if number is None:  # of the name only a part may be there
        head = body.rpartition(",task=")[0] or body
    begin = max(0, len(head) - COMM_MAX - len(",task="))
    if (split := head.find(",task=", begin)) >= 0:
        head, name = head[:split], head[split + len(",task=") :]
    context, group, task_group = _groups(head)
    where, has_cpusets, mems = context.rpartition(",mems_allowed=")  # none without CONFIG_CPUSETS
    where, _, cpuset = (where if has_cpusets else context).partition(",cpuset=")
    nodes = _NODES.search(where)
    return Chosen(
        constraint=constraint,
        nodes=nodes[1] if nodes else None,
        cpuset=cpuset or None,
        mems_allowed=mems if has_cpusets else None,
        group=group,
        task_group=task_group,
        name=name,
        pid=int(number[1]) if number else None,
    )


def _constraint(body: str) -> str | None:
    """The one that its word is, or begins if the line is cut in it."""
    word, is_whole, _ = body[len("constraint=") :].partition(",")
    word = word.rstrip(" .\u2026").upper()
    fitting = [c for c in CONSTRAINTS if c == word or (not is_whole and c.startswith(word))]
    return fitting[0] if len(fitting) == 1 else None


def _groups(head: str) -> tuple[str, str | None, str | None]:
    """The context before the groups, the group of the limit and that of the task."""
    context, limit, rest = head.partition(",oom_memcg=")
    if not limit:
        context, _, task_group = head.partition(",task_memcg=")
        return context.removesuffix(",global_oom"), None, task_group or None
    parts = rest.split(",task_memcg=", 4)
    for number in range(1, len(parts)):
        group = ",task_memcg=".join(parts[:number])
        task_group = ",task_memcg=".join(parts[number:])
        if task_group.startswith(group.rstrip("/")):  # the limit is the task's or a parent's
            return context, group, task_group
    return context, parts[0], ",task_memcg=".join(parts[1:]) or None


def killed(text: str, at: int) -> Process | None:
    """`Killed process 7 (a) total-vm:...`; Red Hat's 2.6.32 and 3.10 put the UID into it."""
    rest = text[at + len("Killed process ") :]
    words = _words(text[:at])
    pid = _PID.match(rest) or _NO_PID.match(rest)
    if not pid or not _is_kernels(rest, pid.end(), words):
        return None
    sizes = max(rest.rfind("total-vm:"), rest.rfind(" vsz:"))
    sizes = sizes if sizes >= 0 else rest.rfind("anon-rss:")
    naming = rest[:sizes] if sizes >= 0 else rest[: pid.end() + 64]
    is_named = _CALLED_BY_NAME.match(rest, pid.end()) is not None
    begin, end = (naming.find("("), naming.rfind(")")) if is_named else (-1, -1)
    numbers = rest[sizes:] if sizes >= 0 else ""
    adjustment = _ADJUSTMENT.search(numbers)
    virtual = _kilobytes(numbers, "total-vm:") or _kilobytes(numbers, "vsz:")
    tables = _kilobytes(numbers, "pgtables:")
    return Process(
        int(pid[1]) if pid[1] else None,
        naming[begin + 1 : end] if 0 <= begin < end else "",
        words=words,
        score_adjustment=int(adjustment[1]) if adjustment else None,
        virtual=virtual,
        anonymous=_kilobytes(numbers, "anon-rss:"),
        file=_kilobytes(numbers, "file-rss:"),
        shared=_kilobytes(numbers, "shmem-rss:"),
        # The first 5.4 printed bytes there (941f762bcb27): more than was mapped.
        page_tables=tables if tables and virtual and tables < virtual else None,
        is_cut=_CUT.match(rest, pid.end()) is not None,
    )


def _is_kernels(rest: str, end: int, words: str) -> bool:
    """Whether it is the kernel's: behind its words about memory, or with a name in brackets before
    its sizes or nothing. Scripts and supervisors print `Killed process 7` too."""
    if words:
        return True
    if not _CALLED_BY_NAME.match(rest, end):
        return False
    tail = rest[rest.rfind(")", end, end + 96) + 1 :]
    other = _OTHER_WORDS.match(tail)
    return other is None or any(sizes.startswith(other[1]) for sizes in _SIZES)


def victim(text: str, at: int) -> Process | None:
    """`Kill process 7 (a) score 12 or sacrifice child`, which may kill another one."""
    rest = text[at + len("ill process ") :]
    if not (pid := _PID.match(rest)) or "sharing same memory" in rest:
        return None
    end, words = rest.rfind(") score "), _words(text[:at])
    if not words and end < 0:
        return None
    name = rest[rest.find("(") + 1 : end] if end > 0 else ""
    score = _SCORE.search(rest[end:]) if end > 0 else None
    is_cut = _CUT.match(rest, pid.end()) is not None
    return Process(int(pid[1]), name, words, int(score[1]) if score else None, is_cut=is_cut)


def ended_by_fault(text: str, at: int) -> Process | None:
    """Until 2.6.35 a page fault that found no memory ended its process without a report."""
    match = _ENDED_BY_FAULT.fullmatch(text[at + len("VM: killing process ") :].rstrip())
    if match is None or match[1].lower() == "%s":
        return None
    return Process(int(match[2]) if match[2] else None, match[1], words="fault")


def reaped(text: str, at: int) -> Process | None:
    rest = text[at + len("oom_reaper: ") :]
    begin = rest.find("pid:") + 4 if rest.startswith("unable") else len("reaped process ")
    if not (pid := _PID.match(rest, begin)):
        return None
    end = max(rest.rfind("), now"), rest.rfind(") ")) if "," in rest else rest.rfind(")")
    name = rest[rest.find("(") + 1 : end] if end > 0 else ""
    is_cut = _CUT.match(rest, pid.end()) is not None
    words = "unable" if rest.startswith("unable") else ""
    return Process(int(pid[1]), name, words, is_cut=is_cut)


def container(text: str, at: int) -> tuple[str, Process] | None:
    """OpenVZ's kernels, whose groups are beancounters; the log of a container does not name it."""
    if not (group := _UB.match(text, at)):
        return None
    words = "ut of memory: "
    process = killed(f"{words}Killed process {text[group.end() :]}", len(words))
    sizes = _VM.search(text, group.end())
    if process is None or sizes is None:
        return None
    name = process.name.partition(") score")[0]
    virtual, resident = int(sizes[1]) << 10, int(sizes[2]) << 10
    process = process._replace(name=name, words="", virtual=virtual, rss=resident)
    return group[1] or "", process


def limit(text: str, at: int) -> Limit | None:
    before, _, after = text.partition(" killed as a result of limit of ")
    begin = before.rfind("Task in ")
    group = _NEXT_STAMP.split(after.strip(), maxsplit=1)[0]
    task_group = before[begin + 8 :] if begin >= 0 else None
    rest = (task_group or "").removeprefix(group) if group else ""
    if rest != (task_group or "") and not f"{rest}/".startswith("/") and group != "/":
        group += GROUP_CUT  # the limit is the task's or a parent's
    return Limit(f"{group[:-3]}{GROUP_CUT}" if group.endswith("...") else group, task_group)


def reached(text: str, at: int) -> Limit | None:
    return Limit(text[at + len("Memory limit reached of cgroup ") :].strip(), None)


def whole_group(text: str, at: int) -> str | None:
    begin = text.rfind("Tasks in ", 0, at)
    return text[begin + 9 : at] if begin >= 0 else None


def counter(text: str, at: int) -> Counter | None:
    begin = max(0, at - len("memory+swap"))
    if not (match := _COUNTER.search(text, begin)):
        return None
    bound = int(match[3])
    return Counter(
        match[1],
        int(match[2]) << 10,
        bound << 10 if bound < 1 << 52 else None,  # PAGE_COUNTER_MAX and RES_COUNTER_MAX in kB
        int(match[4]) if match[4] else None,
    )


def statistics(text: str, at: int) -> Statistics:
    rest = text[at + len("emory cgroup stats for ") :]
    numbers = statistics_of(rest)
    group, is_whole, _ = rest.partition(": cache:")
    group = group if is_whole or not numbers else ""
    group = group.rstrip()
    is_cut = not numbers and not group.endswith(":")
    return Statistics("" if is_cut else group.removesuffix(":"), numbers)


def statistics_of(text: str) -> dict[str, int]:
    """Return the numbers of a group that stand in one line."""
    return {match[1]: int(match[2]) << 10 for match in _STATISTIC.finditer(text)}


def statistic(text: str) -> tuple[str, int] | None:
    """A number of a group that has a line of its own: the last two words of it."""
    words = text.rsplit(None, 2)
    match = _STATISTIC_LINE.fullmatch(" ".join(words[-2:]))
    return (match[1], int(match[2])) if match else None


def columns(text: str, at: int) -> tuple[str, ...] | None:
    match = _COLUMNS.search(text)
    names = tuple(match[1].split()) if match else ()
    return names if "name" in names else None


def row(text: str, width: int | None) -> ProcessRow | None:
    """A line of the table of tasks; `width` is the number of its columns, if they were read."""
    if not (match := _ROW.search(text)):
        return None
    numbers, name = match[2].split(), match[3] or ""
    if width is not None and len(numbers) > width:  # a name may begin with a number
        name = " ".join([*numbers[width:], name]).rstrip()
        numbers = numbers[:width]
    return ProcessRow(int(match[1]), tuple(int(number) for number in numbers), name)


def named(row: ProcessRow) -> ProcessRow:
    """A row with a name as long as the kernel has it: what else follows is of another line."""
    name = row.name
    if len(name) > COMM_MAX:
        name = _JOINED.split(name, maxsplit=1)[0].partition("  ")[0].rstrip(" [")
    if len(name) > COMM_MAX:
        name = name.split(None, 1)[0][:COMM_MAX]
    return row._replace(name=name)


def rows_behind(text: str, width: int | None) -> Iterator[ProcessRow]:
    """Yield the rows that are joined to another one, behind its name."""
    match, at = _ROW.search(text), 0
    for _ in range(_JOINED_MAX):
        if match is None or len(match[3] or "") <= COMM_MAX:
            return
        match = _ROW.search(text, at := match.start(3))
        if match is not None and (other := row(text[match.start() : at + _LINE_MAX], width)):
            yield other


def is_row(text: str) -> bool:
    """Whether a line is one of the table of tasks."""
    return _ROW.search(text) is not None


def suppressed(text: str, at: int) -> int | None:
    match = _SUPPRESSED.match(text, at)
    return int(match[1]) if match else None


def panic(text: str, at: int) -> str | None:
    match = _PANIC.match(text, at)
    ends = match is not None and ("memory" in match[1])
    return match[1].removesuffix(" ]---") if match and ends else None


def nobody(text: str, at: int) -> str:
    begin = text.rfind("ut of ", 0, at)
    return f"O{text[begin : at + len('no killable processes')]}" if begin >= 0 else text[at:]


def no_range(text: str, at: int) -> int | None:
    match = _NO_RANGE.match(text, at)
    return int(match[1]) if match else None


def fork(text: str, at: int) -> str | None:
    """The group whose limit of processes a fork met: no lack of memory."""
    group = text[at + len("fork rejected by pids controller in ") :].strip()
    return group if group.startswith("/") else None


def _plain(text: str, at: int) -> str:
    return text[at:]


def _words(before: str) -> str:
    """Which of the kernel's two openings stands before a kill."""
    if "cgroup out of memory" in before:
        return "group"
    if "(oom_kill_allocating_task)" in before:
        return "requester"
    if "No available memory in cpuset" in before:
        return "cpuset"
    if "No available memory" in before:
        return "policy"
    return "machine" if "ut of memory" in before or "ut of Memory" in before else ""


def _kilobytes(text: str, key: str) -> int | None:
    at = text.find(key)
    digits, unit, _ = text[at + len(key) : at + len(key) + 18].partition("kB")
    is_whole = at >= 0 and unit and digits.isascii() and digits.isdigit()
    return int(digits) << 10 if is_whole else None


TABLE = (
    Sentence("invoked", " invoked oom-killer", invoked),
    Sentence("invoked", "oom-killer: gfp_mask=", invoked),
    Sentence("limit", " killed as a result of limit of ", limit),
    Sentence("limit", "Memory limit reached of cgroup ", reached),
    Sentence("counter", ": usage ", counter),
    Sentence("statistics", "emory cgroup stats for ", statistics),
    Sentence("columns", "total_vm", columns),
    Sentence("chosen", "oom-kill:", chosen),
    Sentence("container", "in UB ", container),
    Sentence("container", "OOM killed process ", container),
    Sentence("killed", "Killed process ", killed),
    Sentence("victim", "ill process ", victim),
    Sentence("whole_group", " are going to be killed due to memory.oom.group set", whole_group),
    Sentence("ended_by_fault", "VM: killing process ", ended_by_fault),
    Sentence("reaped", "oom_reaper: ", reaped),
    Sentence("nobody", "no killable processes", nobody),
    Sentence("panic", "Kernel panic - not syncing: ", panic),
    Sentence("by_hand", "Manual OOM execution", _plain),
    Sentence("ignored", "OOM request ignored", _plain),
    Sentence("suppressed", "oom_kill_process: ", suppressed),
    Sentence("refused", "page allocation failure", _plain),
    Sentence("stalled", "page allocation stalls for ", _plain),
    Sentence("no_range", "vmap allocation for size ", no_range),
    Sentence("refused", "vmalloc: allocation failure", _plain),
    Sentence("refused", "vmalloc error: ", _plain),
    Sentence("refused", "SLUB: Unable to allocate memory", _plain),
    Sentence("refused", "VM_FAULT_OOM leaked out", _plain),
    Sentence("fork", "fork rejected by pids controller in ", fork),
)
"""Of several whose markers stand in a line, the leftmost counts: what follows it is a name."""


def without_commas(line: str) -> str:
    """Return a line with numbers whose thousands have commas, as a person writes them, without
    these. Lists of nodes and stamps have commas of their own."""
    if not _COMMA.search(line):
        return line
    line = _PID_OF_SUM.sub(lambda match: match[0].replace(",", ""), line)
    return _THOUSANDS.sub(lambda match: match[0].replace(",", ""), line)


@lru_cache(maxsize=64)
def _of(marks: tuple[str, ...]) -> tuple[Sentence, ...]:
    return tuple(sentence for sentence in TABLE if sentence.marker in marks)


def within(line: str, marks: tuple[str, ...]) -> list[tuple[int, Sentence]]:
    """Return the sentences whose markers, which are of these, stand in a line, the leftmost
    first."""
    places = [(line.find(sentence.marker), sentence) for sentence in _of(marks)]
    return sorted((place for place in places if place[0] >= 0), key=lambda place: place[0])
