"""A trace in print: what its program did with its memory, on one screen and in one figure."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from memlab.analysis.least import least_pairs
from memlab.present import words
from memlab.present.table import Column, Table, markdown
from memlab.text import units
from memlab.text.printable import signal_name
from memlab.trace import file
from memlab.trace.account import KINDS, TraceAccount
from memlab.trace.replay import LEAST_SHARE
from memlab.trace.session import Recorded

PAGE = 4096  # of a record's address, whatever the machine's page is
_NAMES = {
    "heap": "heap (brk)",
    "stack": "stack",
    "anonymous": "anonymous",
    "file": "private of files",
    "shared": "shared",
}
_HATCHES = ("", "////", "....", "xxxx", "----")  # of KINDS, which differ without colour too
_FILES_SHOWN = 4


def recorded(
    trace: file.Trace, ended: Recorded, found: TraceAccount | None = None
) -> Iterator[str]:
    """What was recorded, and what is missing. `found` is of a trace with allocations."""
    if ended.signal:
        yield f"the command was ended by {signal_name(ended.signal)}"
    elif ended.status:
        yield f"the command ended with exit status {ended.status}"
    if trace.incomplete:
        remedy = "; a larger --buffer holds more" if trace.lost else ""
        yield f"{trace.path} is incomplete: {trace.incomplete}{remedy}"
    if ended.untraced:
        yield f"{words.count(ended.untraced, 'task')} beyond the most that a trace holds left out"
    yield from _huge_pages(trace)
    if found:
        yield _allocations(found)
    yield (
        f"{trace.path}: {words.count(trace.records, 'record')}, "
        f"{units.format_quantity(trace.bytes, 'B')} "
        f"({units.format_quantity(trace.plain_bytes, 'B')} unpacked), "
        f"{units.format_quantity(trace.elapsed_s, 's')}"
    )


def next_step(traces: Sequence[file.Trace], found: TraceAccount | None) -> str:
    """What to do with recordings of one program."""
    first, more = shlex.quote(str(traces[0].path)), ""
    if 1 < len(traces) < least_pairs(1):
        more = f"; for intervals: memlab record --runs {least_pairs(1)}"
    return f"next: memlab show {first}; {_try(traces, found)}{more}"


def _allocations(found: TraceAccount) -> str:
    share = units.format_percent(found.allocated_share)
    refused = "" if _is_covered(found) else ": too little to try another allocator"
    return (
        f"allocations: {share} of the {_bytes(found.memory_pages)} of anonymous memory that it "
        f"touched{refused}"
    )


def _is_covered(found: TraceAccount | None) -> bool:
    return found is not None and found.allocated_share >= LEAST_SHARE


def _try(traces: Sequence[file.Trace], found: TraceAccount | None) -> str:
    policy = "malloc=glibc,jemalloc" if _is_covered(found) else "thp=never,always"
    named = shlex.join(str(trace.path) for trace in traces)
    return f"memlab try -p lock=off,future -p {policy} {named}"


def lines(trace: file.Trace, found: TraceAccount) -> Iterator[str]:
    """The answer, a row a kind of mapping, the calls, and what it cannot say."""
    program = file.name(trace) or "a program"
    since = "while it ran" if trace.live else "from its start"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(trace.recorded_s))
    threads = f" and {words.count(found.threads, 'thread')} more" if found.threads else ""
    yield (
        f"{trace.path.name}: {program}, {file.counted(found.processes, 'process')}{threads}, "
        f"{units.format_quantity(trace.elapsed_s, 's')} {since}, {when}"
    )
    if trace.incomplete:
        yield f"incomplete: {trace.incomplete}"
    yield (
        f"held at most {_bytes(found.peak_pages)}, "
        f"{units.format_quantity(found.peak_ns * 1e-9, 's')} after the beginning, of at most "
        f"{units.format_quantity(found.mapped_peak_bytes, 'B')} mapped"
    )
    given, again = (sum(part.values()) for part in (found.given_back, found.touched_again))
    if given:
        share = units.format_percent(again / given)
        yield f"gave {_bytes(given)} back, and touched {share} of it again"
    yield ""
    heads = ["mapping", "peak", "pages read", "written", "given back", "touched again", "copied"]
    rows = [
        [
            _NAMES[kind],
            _bytes(found.peak[kind]),
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
    yield ""
    yield "calls: " + ", ".join(f"{count:,} {name}" for name, count in found.calls.items())
    if refused := trace.refused + trace.denied:
        yield f"the kernel refused {words.count(refused, 'call')} while it was recorded"
    if names := _files(trace, found):
        yield "most touched: " + ", ".join(names)
    if found.state_pages:
        yield f"{_bytes(found.state_pages)} were there before the recording began"
    yield from _unknown(trace, found)
    if trace.allocations:
        yield _allocations(found)
    yield f"try it: {_try([trace], found if trace.allocations else None)}"


def _huge_pages(trace: file.Trace) -> Iterator[str]:
    if trace.huge:
        yield "recorded with huge pages: touches inside of one were not seen"
    if trace.small_pages:
        yield "recorded without huge pages; --keep-huge-pages records the command as it runs"


def _unknown(trace: file.Trace, found: TraceAccount) -> Iterator[str]:
    if trace.late:
        yield f"{words.count(trace.late, 'event')} came out of order, and may stand a little late"
    yield from _huge_pages(trace)
    if found.outside:
        whose = "of the kernel's own (vdso), or a signal to the program"
        whose = f"of mappings whose events were lost, {whose}" if trace.lost else whose
        yield f"{words.count(found.outside, 'page fault')} outside of every mapping: {whose}"


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


def _bytes(pages: int) -> str:
    return units.format_quantity(pages * PAGE, "B")


def figure(trace: file.Trace, found: TraceAccount, path: Path) -> Path:
    """Memory over time by kind of mapping, stacked; below it what was given back, if anything was,
    and what of that was touched again, summed. Written as PNG."""
    # A second of processor time, which `record` need not wait for.
    from memlab.present import figures
    from memlab.present.figures import scales, style

    at_s = [trace.elapsed_s * (i + 1) / len(found.moments) for i in range(len(found.moments))]
    held = [[row[i] * PAGE for row in found.moments] for i in range(len(KINDS))]
    given, again = ([row[len(KINDS) + i] * PAGE for row in found.moments] for i in range(2))
    with style.settings():
        made = figures.RunFigure(figsize=(8, 5), dpi=style.PIXELS / 8)
        made.title = f"{trace.path.name}: memory over time"
        both = any(given)
        grid = {"height_ratios": [3, 1] if both else [1], "hspace": 0.12, "right": 0.76}
        panels = made.subplots(1 + both, 1, sharex=True, squeeze=False, gridspec_kw=grid)[:, 0]
        above, last = panels[0], panels[-1]
        shown = [i for i in range(len(KINDS)) if any(held[i])] or [KINDS.index("anonymous")]
        above.stackplot(
            at_s,
            [held[i] for i in shown],
            labels=[_NAMES[KINDS[i]] for i in shown],
            colors=[style.paler(style.colour(i), 0.75) for i in shown],
            hatch=[_HATCHES[i] for i in shown],
            edgecolor=style.INK,
            linewidth=0,
        )
        totals = [sum(row[: len(KINDS)]) * PAGE for row in found.moments]
        if both:
            look = {"linewidth": 1.4}
            last.plot(at_s, given, color=style.INK, label="given back", **look)
            last.plot(at_s, again, color=style.colour(1), linestyle=style.dashes(1),
                      label="of it touched again", **look)  # fmt: skip
            scales.y_label(last, "summed", 70.0)
        for axes, values, high in zip(panels, (totals, given), (210.0, 70.0), strict=False):
            scales.quantities(axes.yaxis, "B", [0.0, *map(float, values)], high, log=False)
            axes.spines[["top", "right"]].set_visible(False)
            axes.margins(x=0)
            axes.legend(
                loc="upper left",
                bbox_to_anchor=(1.01, 1),
                frameon=False,
                fontsize=style.SMALL,
                reverse=axes is above,
            )  # fmt: skip - beside what it names, in the order in which that is stacked
        scales.quantities(last.xaxis, "s", [0.0, trace.elapsed_s], 400.0, log=False)
        scales.x_label(last, "time in the recording")
        scales.y_label(above, "pages that were there", 210.0)
        program = file.name(trace) or "a program"
        said = f"{trace.path.name}: {program} held at most {_bytes(found.peak_pages)}"
        above.set_title(said, loc="left", fontsize=style.FINDING, weight="bold", parse_math=False)
    return figures.write(made, path)
