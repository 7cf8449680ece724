"""A diagnosis as text and as JSON.

Plain text, without rich: importing that takes as much CPU time as the whole look.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator

from memlab import units
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.finding import Fact, Finding, Severity
from memlab.diagnose.look import Look
from memlab.diagnose.prediction import Predicted, Prediction

_WIDTH = 100  # characters: longer lines are hard to read
_LEAST = 60
_THREADS_SHOWN = 5
_CALLS = {
    "madvise": "madvise",
    "munmap": "munmap",
    "mprotect": "mprotect",
    "mremap": "mremap",
    "brk": "brk",
    "shootdowns_asked": "flushes asked",
    "minor_faults": "faults",
    "threads_created": "threads made",
    "lock_sleeps": "sleeps for a lock",
    "compactions": "compactions",
}
_NOTHING = "nothing to worry about was found"


def lines(found: Diagnosis) -> Iterator[str]:
    """The findings, then what was seen, what was not, and what the look cost."""
    look = found.look
    yield from (
        f"process {look.subject.pid} ({look.subject.command}) of {look.subject.user}, "
        f"{_count(look.thread_count, 'thread')}, {_percent(look.cpu_share)} of a CPU; "
        f"looked at for {_quantity(look.seconds, 's')}",
        "",
        *_findings(found.findings),
        *_predictions(found.predictions),
        *_table(_seen(look)),
        "",
        *_threads(look),
        *_proofs(found),
        *_wrapped("not seen: ", look.unseen),
        *_wrapped("", [_cost(found)]),
    )


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    found = list(findings)
    if not found:
        yield _NOTHING
        yield ""
    elif all(finding.severity is Severity.NOTE for finding in found):
        yield f"{_NOTHING}; worth knowing:"
        yield ""
    for number, finding in enumerate(found, 1):
        yield from _wrapped(f"{number}. {finding.severity.name.lower()}: ", [finding.title])
        yield from _wrapped("   evidence: ", ["; ".join(map(_fact, finding.evidence))])
        yield from _wrapped("   try: ", [finding.setting])
        if finding.proof:  # one line, for the clipboard
            yield f"   proof: {finding.proof}"
        sweeps = ", ".join(f"memlab sweep {name}" for name in finding.experiments)
        yield from _wrapped("   what it costs here: ", [sweeps])
        yield ""


_PREDICTED = {
    "peak_rss": "peak resident memory",
    "faults": "page faults",
    "cpu_time": "processor time",
}


def _predictions(predictions: Iterable[Prediction]) -> Iterator[str]:
    """A block for each policy that was asked for."""
    for one in predictions:
        yield f"if {one.policy}: predicts"
        for metric in one.metrics:
            now, low, high = (_predicted(metric, v) for v in (metric.now, metric.low, metric.high))
            span = low if low == high else f"{low} to {high}"
            yield from _wrapped(f"   {_PREDICTED[metric.metric]}: ", [f"{span}, now {now}"])
        said = "   assumes: " if one.metrics else "   "
        yield from _wrapped(said, ["; ".join(one.assumes)])
        yield ""


def _predicted(metric: Predicted, value: float) -> str:
    return _percent(value) + " of a CPU" if metric.unit == "1" else _quantity(value, metric.unit)


def _proofs(found: Diagnosis) -> Iterator[str]:
    """What the lines that start the program again leave out, or why there are none."""
    start = found.look.started
    if found.findings and start.unknown:
        yield from _wrapped("", [f"no `memlab try` line: {start.unknown}"])
    if any(finding.proof for finding in found.findings):
        yield from _wrapped("`memlab try` starts it ", start.remarks)


def _seen(look: Look) -> Iterator[tuple[str, str]]:
    memory = look.memory
    malloc = look.allocator
    if malloc is None:
        yield "malloc", "none that is known"
    else:
        yield "malloc", f"{malloc.name} {malloc.version or '(version not seen)'}, {malloc.where}"
        for option in malloc.options:
            yield "", f"{option.name} {option.value} ({option.source})"
    yield "TLB shootdowns", _shootdowns(look)
    yield (
        "page faults",
        ", ".join(
            f"{words} {_rate(look.rate(name))}"
            for name, words in (
                ("minor_faults", "minor"),
                ("major_faults", "major"),
                ("populated", "populated without a fault"),
            )
        ),
    )
    yield (
        "resident",
        (
            f"{_size(memory.resident_bytes)}, {_size(memory.anonymous_bytes)} of it anonymous; "
            f"{_size(memory.virtual_bytes)} mapped in {_count(memory.mappings, 'mapping')}"
        ),
    )
    yield "locked", _locked(look)
    yield "pinned", _size(memory.pinned_bytes)
    yield "swapped out", _size(memory.swapped_bytes)
    yield (
        "huge pages",
        (
            f"{_size(memory.huge_bytes)} transparent (the machine: {memory.thp_machine or 'none'}"
            f"{'' if memory.thp_process else '; off for this process'}), "
            f"{_size(memory.hugetlb_bytes)} hugetlb"
        ),
    )
    yield "memory cgroup", _group(look)


def _shootdowns(look: Look) -> str:
    seen = look.shootdowns
    how = ", not all of them" if seen.hidden else ""
    asked, taken = look.rate("shootdowns_asked"), look.rate("shootdowns_taken")
    own = (
        "what its threads ask for is not seen"
        if asked is None
        else f"its threads ask for {_rate(asked)} and are interrupted by {_rate(taken)}"
    )
    return (
        f"{own}; interrupts on its CPUs ({seen.cpus}), of all "
        f"processes{how}: {_rate(seen.interrupts_per_s)}"
    )


def _locked(look: Look) -> str:
    memory = look.memory
    limit = "no limit" if memory.lockable_bytes is None else f"limit {_size(memory.lockable_bytes)}"
    if not memory.locked_bytes:
        return f"0 B ({limit})"
    stacks = (
        f", {_size(memory.locked_stacks_bytes)} in the stacks of "
        f"{_count(memory.locked_stacks_count, 'thread')}"
        if memory.locked_stacks_count
        else ""
    )
    resident = _size(memory.locked_resident_bytes)
    return f"{_size(memory.locked_bytes)}, {resident} of it resident{stacks} ({limit})"


def _group(look: Look) -> str:
    group = look.group
    if group is None:
        return "no limit"
    left = (
        "it does not grow"
        if group.seconds_left is None
        else f"grows by {_quantity(group.growth_bytes_per_s, 'B/s')}, full in "
        f"{_quantity(group.seconds_left, 's')} at that rate"
    )
    return (
        f"{_size(group.used_bytes)} of {_size(group.limit_bytes)} ({group.limit_name}), "
        f"{_size(group.droppable_bytes)} of it file cache that can be dropped; {left}"
    )


def _threads(look: Look) -> Iterator[str]:
    names = [name for name in _CALLS if look.rate(name)]
    shown = [t for t in look.threads if any(t.per_s.get(name) for name in names)]
    if not shown:
        return
    rows = [["thread", "", *(_CALLS[name] for name in names)]]
    for thread in shown[:_THREADS_SHOWN]:
        rates = (_rate(thread.per_s.get(name)) for name in names)
        rows.append([str(thread.tid), thread.command, *rates])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if column == 1 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells)
    if len(shown) > _THREADS_SHOWN:
        yield f"and {_count(len(shown) - _THREADS_SHOWN, 'thread')} that did less"
    yield ""


def _cost(found: Diagnosis) -> str:
    cost, walked_s = found.cost, found.look.memory.walked_s
    walked = (
        f"; its page tables were read for {_quantity(walked_s, 's')}, in which its calls that map "
        "memory waited"
        if walked_s
        else ""
    )
    return (
        f"this look cost {_percent(cost.share)} of a CPU: {_quantity(cost.cpu_s, 's')} in "
        f"{_quantity(found.look.seconds, 's')}; to start Python took "
        f"{_quantity(cost.starting_cpu_s, 's')} before it; the counts cost the process about "
        f"{_percent(cost.counted_share)}{walked}"
    )


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    pairs = list(rows)
    width = max(len(name) for name, _ in pairs) + 2
    for name, value in pairs:
        yield from _wrapped(name.ljust(width), [value])


def _wrapped(first: str, texts: Iterable[str]) -> Iterator[str]:
    """Each text after `first`, its further lines under its beginning, as wide as the terminal."""
    width = min(_WIDTH, max(_LEAST, shutil.get_terminal_size((_WIDTH, 1)).columns))
    for line in texts:
        yield from textwrap.wrap(
            line,
            width,
            initial_indent=first,
            subsequent_indent=" " * min(len(first), 18),
            break_long_words=False,
            break_on_hyphens=False,
        )


def _fact(fact: Fact) -> str:
    value = fact.value if isinstance(fact.value, str) else _quantity(fact.value, fact.unit)
    return f"{fact.name} {value}"


def _quantity(value: float, unit: str) -> str:
    return units.format_quantity(value, unit)


def _size(value: float | None) -> str:
    return "not seen" if value is None else units.format_quantity(value, "B")


def _rate(value: float | None) -> str:
    return "not seen" if value is None else units.format_quantity(value, "1/s")


def _percent(share: float) -> str:
    return units.format_percent(share)


def _count(number: int | None, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
