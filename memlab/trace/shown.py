"""A trace in print: what its program did with its memory, on one screen."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from memlab.analysis.least import least_pairs
from memlab.present.table import Column, Table, markdown
from memlab.text import units
from memlab.text.printable import signal_name
from memlab.trace import account, file
from memlab.trace.account import KINDS, LEAST_SHARE, ProcessAccount, TraceAccount
from memlab.trace.checking import Checked
from memlab.trace.session import Recorded

PAGE = 4096  # of a record's address, whatever the machine's page is
NAMES = {
    "heap": "heap (brk)",
    "stack": "stack",
    "anonymous": "anonymous",
    "file": "private of files",
    "shared": "shared",
}
_FILES_SHOWN = 4
_PROCESSES_SHOWN = 4
_WORTH_SAYING = 0.95  # a share under which something is missing


def recorded(
    trace: file.Trace,
    ended: Recorded,
    found: TraceAccount | None = None,
    checked: Sequence[Checked] = (),
) -> Iterator[str]:
    """What was recorded, and what is missing. `found` is None of one that is cut short."""
    if ended.signal:
        yield f"the command was ended by {signal_name(ended.signal)}"
    elif ended.status:
        yield f"the command ended with exit status {ended.status}"
    if trace.incomplete:
        remedy = "; a larger --buffer holds more" if trace.lost else ""
        yield f"{trace.path} is incomplete: {trace.incomplete}{remedy}"
    if ended.untraced:
        yield f"{units.counted(ended.untraced, 'task')} beyond the most that a trace holds left out"
    yield from _huge_pages(trace)
    if trace.used_again and found:
        share = ended.looks_cpu_ns * 1e-9 / trace.elapsed_s if trace.elapsed_s else 0.0
        yield (
            f"{_known_again(found)}; looking for them took {units.format_percent(share)} of a CPU"
        )
    if found:
        yield from _covered(trace, found)
    if checked:
        yield f"check: {'; '.join(map(str, checked))}"
    yield from (f"each answer will say: {doubt}" for doubt in trace.doubts)
    yield (
        f"{trace.path}: {units.counted(trace.records, 'record')}, "
        f"{units.format_quantity(trace.bytes, 'B')} "
        f"({units.format_quantity(trace.plain_bytes, 'B')} unpacked), "
        f"{units.format_quantity(trace.elapsed_s, 's')}"
    )


def _known_again(found: TraceAccount) -> str:
    """How memory limits are answered, and for how much of the program."""
    share = units.format_percent(found.looked_share)
    if found.looked_share < LEAST_SHARE:
        return (
            f"pages that it used again are in it for {share} of what it touched: a memory limit is "
            "answered by how a replay ends"
        )
    if not found.shows_reuse:
        return (
            "pages that it used again are in it, but the place of most is a guess: a memory limit "
            "is answered by how a replay ends"
        )
    part = "" if found.looked_share >= _WORTH_SAYING else f" for {share} of what it touched"
    return f"pages that it used again are in it{part}, so memory limits can be tried"


def next_step(traces: Sequence[file.Trace], found: TraceAccount | None) -> str:
    """What to do with recordings of one program."""
    first, more = shlex.quote(str(traces[0].path)), ""
    if 1 < len(traces) < least_pairs(1):
        more = f"; for intervals: memlab record --runs {least_pairs(1)}"
    return f"next: memlab show {first}; {_try(traces, found)}{more}"


def _allocations(found: TraceAccount) -> str:
    share = units.format_percent(found.allocated_share)
    refused = (
        "" if found.allocated_share >= LEAST_SHARE else ": too little to try another allocator"
    )
    return (
        f"allocations: {share} of the {in_bytes(found.memory_pages)} of anonymous memory that it "
        f"touched{refused}"
    )


def _is_covered(trace: file.Trace, found: TraceAccount | None) -> bool:
    return bool(trace.allocations and found and found.allocated_share >= LEAST_SHARE)


def _covered(trace: file.Trace, found: TraceAccount) -> Iterator[str]:
    """What is left out, and how much of the program the policies act on that do not act on all of
    it."""
    for what in found.apart:
        yield f"mapped {what}: they are in no other number, and not in a replay"
    yield from _unseen(trace, found)
    if trace.allocations:
        yield _allocations(found)
    if found.lockable_share < _WORTH_SAYING and _is_inside(trace, found):
        share = units.format_percent(found.lockable_share)
        refused = "" if found.lockable_share >= LEAST_SHARE else ": too little to try it"
        yield f"lock=future is in force for {share} of what it touched{refused}"


def _is_inside(trace: file.Trace, found: TraceAccount) -> bool:
    return (account.inside_most(trace, found) or 0.0) >= LEAST_SHARE


def _unseen(trace: file.Trace, found: TraceAccount) -> Iterator[str]:
    """The processes that became programs which are not seen inside."""
    counts = Counter(name or "a program" for name in file.task_names(trace, found.unseen))
    if counts:
        names = ", ".join(
            f"{name} in {file.counted(often, 'process')}" for name, often in counts.items()
        )
        more = found.unseen_count - len(found.unseen)
        yield f"not seen inside: {names}{f' and {more:,} more' if more else ''}"
    if trace.unfollowed:
        yield account.inside(trace, found)


def _try(traces: Sequence[file.Trace], found: TraceAccount | None) -> str:
    is_inside = found is None or _is_inside(traces[-1], found)
    locks = is_inside and (found is None or found.lockable_share >= LEAST_SHARE)
    policies = ["lock=off,future"] if locks else []
    is_covered = is_inside and _is_covered(traces[-1], found)
    policies.append("malloc=glibc,jemalloc" if is_covered else "thp=never,always")
    asked = " ".join(f"-p {policy}" for policy in policies)
    return f"memlab try {asked} {shlex.join(str(trace.path) for trace in traces)}"


def lines(trace: file.Trace, found: TraceAccount) -> Iterator[str]:
    """The answer, a row a kind of mapping, the calls, and what it cannot say."""
    name = program(trace, found)
    since = "while it ran" if trace.live else "from its start"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(trace.recorded_s))
    threads = f" and {units.counted(found.threads, 'thread')} more" if found.threads else ""
    yield (
        f"{trace.path.name}: {name}, {file.counted(found.processes, 'process')}{threads}, "
        f"{units.format_quantity(trace.elapsed_s, 's')} {since}, {when}"
    )
    if trace.incomplete:
        yield f"incomplete: {trace.incomplete}"
    yield (
        f"held at most {in_bytes(found.peak_pages)}, "
        f"{units.format_quantity(found.peak_ns * 1e-9, 's')} after the beginning, of at most "
        f"{units.format_quantity(found.mapped_peak_bytes, 'B')} mapped"
    )
    if found.by_process:
        name, one = process_names(trace, found)[0], found.by_process[0]
        yield (
            f"{name} peaked at {in_bytes(one.anonymous)} of anonymous memory and "
            f"{in_bytes(one.files)} of files that a fault touched; RSS has pages around these too"
        )
    given, again = (sum(part.values()) for part in (found.given_back, found.touched_again))
    if given:
        share = units.format_percent(again / given)
        yield f"gave {in_bytes(given)} back, and touched {share} of it again"
    yield ""
    heads = ["mapping", "peak", "pages read", "written", "given back", "touched again", "copied"]
    rows = [
        [
            NAMES[kind],
            in_bytes(found.peak[kind]),
            *(
                f"{part[kind]:,}"
                for part in (
                    found.reads, found.writes, found.given_back, found.touched_again, found.copied
                )
            ),
        ]
        for kind in KINDS
    ]  # fmt: skip
    yield from markdown(Table("", [Column(head) for head in heads], rows))
    yield from _by_process(trace, found)
    yield ""
    yield "calls: " + ", ".join(f"{count:,} {name}" for name, count in found.calls.items())
    if refused := trace.refused + trace.denied:
        yield f"the kernel refused {units.counted(refused, 'call')} while it was recorded"
    if names := _files(trace, found):
        yield "most touched: " + ", ".join(names)
    if trace.used_again:
        yield _used_again(found)
    if found.populated_bytes or "lock_all" in found.calls:
        size = units.format_quantity(found.populated_bytes, "B")
        whole = " and all of its memory" if "lock_all" in found.calls else ""
        yield (
            f"its own calls brought in up to {size}{whole} at once (MAP_POPULATE, mlock): such "
            "pages have no fault, and are not in these numbers"
        )
    if found.offered_pages:
        yield (
            f"offered {in_bytes(found.offered_pages)} by MADV_FREE: resident until the kernel "
            "takes it, and used again without a fault"
        )
    if found.state_pages:
        yield f"{in_bytes(found.state_pages)} were there before the recording began"
    yield from _unknown(trace, found)
    yield from _covered(trace, found)
    yield f"try it: {_try([trace], found)}"


def _used_again(found: TraceAccount) -> str:
    guessed = ""
    if found.guessed_pages:
        share = units.format_percent(found.guessed_share)
        guessed = f"; of {share} of them the mapping is known, and the place is a guess"
    plural = "" if found.again_units == 1 else "s"
    known = ""
    if found.looked_share < _WORTH_SAYING:
        share = units.format_percent(found.looked_share)
        known = f"; known for {share} of what it touched, not for processes that ended before"
    return (
        f"used again: {found.again_units:,} unit{plural} of 64 KiB with "
        f"{in_bytes(found.again_pages)} in all, each once a look{guessed}{known}"
    )


def _huge_pages(trace: file.Trace) -> Iterator[str]:
    if trace.huge:
        yield "recorded with huge pages allowed: touches inside of one were not seen"
    if trace.small_pages:
        yield "recorded without huge pages; --keep-huge-pages records the command as it runs"


def _unknown(trace: file.Trace, found: TraceAccount) -> Iterator[str]:
    for doubt in trace.doubts:
        yield f"a replay differs: {doubt}"
    yield from account.series(trace, found)
    if trace.late:
        yield f"{units.counted(trace.late, 'event')} came out of order, and may stand a little late"
    yield from _huge_pages(trace)
    if found.forbidden:
        forbidden = units.counted(found.forbidden, "fault")
        yield f"{forbidden} that a mapping's rights forbid: a signal, or an error of a call"
    if found.outside:
        whose = ", or in one whose events were lost" if trace.lost else ""
        faults = units.counted(found.outside, "page fault")
        yield (
            f"{faults} outside of every recorded mapping: in the kernel's own (vdso) or where "
            f"nothing was mapped{whose}"
        )


def program(trace: file.Trace, found: TraceAccount) -> str:
    """The command, and what it started that took more memory than itself."""
    name = file.name(trace) or "a program"
    largest = file.task_names(trace, [one.task for one in found.by_process[:1]])
    return f"{largest[0]}, started by {name}" if largest not in ([], [""], [name]) else name


def process_names(trace: file.Trace, found: TraceAccount) -> list[str]:
    """Those of the processes with the highest peaks. Equal ones are numbered as they started."""
    tasks = [one.task for one in found.by_process]
    names = [name or "a program" for name in file.task_names(trace, tasks)]
    started = sorted(zip(tasks, names, strict=True))
    alike = {name: [task for task, other in started if other == name] for name in names}
    return [
        f"{name} {alike[name].index(task) + 1}" if len(alike[name]) > 1 else name
        for task, name in zip(tasks, names, strict=True)
    ]


def is_by_process(trace: file.Trace, found: TraceAccount) -> bool:
    """Whether there is more to say of processes than of the whole."""
    return len(found.by_process) > 1 or _is_covered(trace, found)


def _by_process(trace: file.Trace, found: TraceAccount) -> Iterator[str]:
    """Each process's own peak; of one whose allocations are known, what of it is live."""
    if not is_by_process(trace, found):
        return
    covered = _is_covered(trace, found)
    heads = ["process", "own peak", "anonymous", "of files", *(["live blocks"] if covered else [])]
    rows = [
        [
            name,
            in_bytes(one.anonymous + one.files),
            in_bytes(one.anonymous),
            in_bytes(one.files),
            *([units.format_quantity(one.live, "B")] if covered else []),
        ]
        for name, one in zip(process_names(trace, found), found.by_process, strict=True)
    ][:_PROCESSES_SHOWN]
    yield ""
    yield from markdown(Table("", [Column(head) for head in heads], rows))
    if left := found.processes - len(rows):
        yield f"{file.counted(left, 'process')} more with lower peaks"
    if covered:
        yield ""
        yield _fragmentation(process_names(trace, found)[0], found.by_process[0])


def _fragmentation(name: str, one: ProcessAccount) -> str:
    """Resident memory beside what the program has of it in use."""
    resident = one.mean_anonymous * PAGE
    times = f" ({resident / one.mean_live:.3g} times)" if one.mean_live else ""
    return (
        f"{name}: {units.format_quantity(resident, 'B')} of anonymous memory resident for "
        f"{units.format_quantity(one.mean_live, 'B')} of live blocks{times} on average over its "
        f"life; {in_bytes(one.anonymous)} for {units.format_quantity(one.live, 'B')} at its peak"
    )


def _files(trace: file.Trace, found: TraceAccount) -> list[str]:
    if trace.redacted:
        return []
    names = file.file_names(trace)
    return [
        f"{_file_name(names[number])} {pages:,}"
        for number, pages in found.files[:_FILES_SHOWN]
        if number < len(names)
    ]


def _file_name(name: str) -> str:
    """The kernel names memory that processes share after a file that it removes (mm/shmem.c)."""
    if name == "/dev/zero (deleted)":
        return "shared anonymous memory"
    return name.rpartition("/")[2] or name


def in_bytes(pages: int) -> str:
    return units.format_quantity(pages * PAGE, "B")
