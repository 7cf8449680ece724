"""A history in print: the changes first, then the runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlab.analysis.alarm import FIRST, YEAR
from memlab.analysis.change_place import LEAST
from memlab.analysis.history import SeriesChange
from memlab.analysis.intervals import Interval
from memlab.judging import evidence
from memlab.machines.history.judge import History, Night
from memlab.machines.history.remarks import percent
from memlab.present import words
from memlab.present.answer import Part, Sentence, Verbatim, say
from memlab.present.table import Cell, Column, Table
from memlab.text import units

_SHOWN, _EVENTS = 20, 5  # runs of the table and changes of the machine, unless asked for all


def show(found: History, in_full: str = "") -> None:
    """Print what changed, when and by how much, then a row per run: only the newest if
    `in_full`, the command that prints all, is given."""
    say(_parts(found, in_full))


def _parts(found: History, in_full: str) -> Iterator[Part]:
    first, *more = answer(found)
    yield Sentence(first, "bold")
    yield from more
    for change in found.changes:
        yield from _change(found, change)
    shown = found.nights[-_SHOWN:] if in_full else found.nights
    heads = ["run", "measured", _head(found), "changed"]
    first_after = {change.after + 1 for change in found.changes if change.withdrawn is None}
    cells: list[list[Cell | str]] = [
        [
            night.run,
            _day(night),
            Cell(_level(found, night), "inconclusive" if number in first_after else ""),
            ", ".join(dict.fromkeys(event.partition(":")[0] for event in night.events)),
        ]
        for number, night in list(enumerate(found.nights))[-len(shown) :]
    ]
    yield Table("", [Column(head, "left", wrap=24) for head in heads], cells)
    if len(shown) < len(found.nights):
        older = units.counted(len(found.nights) - len(shown), "older run")
        yield Verbatim(f"not shown: {older}: {in_full}")
    near = {n for change in found.changes for n in _around(change)}
    others = [n for n, night in enumerate(found.nights) if night.events and n not in near]
    for number in others[-_EVENTS:] if in_full else others:
        yield from _events(found.nights[number])
    if found.left_out:
        runs = units.counted(len(found.left_out), "run")
        yield f"{runs} left out, without these points or values: {_few(found)}"


def answer(found: History) -> Iterator[str]:
    """How many changes there are, what could have been seen, how often that is wrong, and what
    else moves the series."""
    yield _headline(found)
    if found.newer:
        yield (
            f"{units.counted(found.newer, 'newer run')} measured other points; these are the "
            f"points of run {found.followed}, and --run RUN takes another's"
        )
    yield _could_see(found)
    yield (
        f"of machines on which nothing changes, {100 * found.rate:.0f} % show a change in {YEAR} "
        "runs; each run counts once, whatever its blocks"
    )
    yield from found.remarks


def _headline(found: History) -> str:
    withdrawn = sum(change.withdrawn is not None for change in found.changes)
    standing = len(found.changes) - withdrawn
    changes = units.counted(standing, "change") if standing else "no change"
    gone = f" ({withdrawn} withdrawn)" if withdrawn else ""
    newest = found.changes[-1] if found.changes else None
    now = ""
    if newest and newest.seen == len(found.nights) - 1:
        now = f"; now {found.word(newest)}: {_ratio(newest.ratio)}"
    return (
        f"{found.of}, {found.metric.name}: {changes}{gone} in "
        f"{units.counted(len(found.nights), 'run')}{_host(found)} "
        f"since {_day(found.nights[0])}{now}"
    )


def _host(found: History) -> str:
    if not found.followed:  # a file says nothing of its host
        return ""
    return f" of {found.host or 'this host'}"


def _could_see(found: History) -> str:
    """What no alarm means, and what the newest runs are blind to."""
    runs, since = len(found.nights), found.since_change
    if runs < FIRST:
        return f"below {FIRST} runs no change is looked for: {FIRST - runs} more are needed"
    ratios = {n: ratio for n, ratio in found.visible.items() if since >= n + LEAST}
    if not ratios:
        few = f"{units.counted(since, 'run')} since the last one"
        return f"no further change could have been seen yet: {few}"
    level = units.counted(found.in_level, "run")
    few = f"; the new level has {level}, and {FIRST} show more" if found.in_level < FIRST else ""
    visible = [
        f"one over {100 * (ratio - 1):.2g} % in the newest {newest} runs"
        for newest, ratio in ratios.items()
        if ratio
    ]
    blind = [f"the newest {newest}" for newest, ratio in ratios.items() if not ratio]
    of_no_size = f"of any size in {' or '.join([*blind, 'one run'])}"
    if not visible:
        return f"no further change {of_no_size} would have been seen{few}"
    return f"a further change would have been seen: {', '.join(visible)}; none {of_no_size}{few}"


def _change(found: History, change: SeriesChange) -> Iterator[str]:
    nights, word = found.nights, found.word(change)
    gone = "withdrawn, " if change.withdrawn is not None else ""
    back = " (a level that was there before)" if change.is_return else ""
    alarm = ", now" if change.seen == len(nights) - 1 else ""
    yield (
        f"{gone}{word}: {_ratio(change.ratio)}{back} after {_name(nights[change.after])}, seen "
        f"{_later(nights, change.after, change.seen)} later{alarm}"
    )
    if change.withdrawn is not None:
        yield f"  since {_name(nights[change.withdrawn])} it may be no change"
    text, now = (_ratio(change.said), change.said_after), (_ratio(change.ratio), change.after)
    if text != now:
        yield f"  said then: {text[0]} after {_name(nights[change.said_after])}"
    if change.earliest < change.latest:
        first, last = nights[change.earliest], nights[change.latest + 1]
        yield f"  between {_day(first)} and {_day(last)} (95 %)"
    events = [line for number in _around(change) for line in _events(nights[number])]
    yield from (f"  {line}" for line in events)
    if found.followed and not events:
        yield "  nothing that memlab reads of the machine changed there"


def _later(nights: Sequence[Night], first: int, last: int) -> str:
    """`2 runs`, and how many days they took if that is another number."""
    runs, days = (
        last - first,
        round((nights[last].date - nights[first].date).total_seconds() / 86400),
    )
    more = f" and {units.counted(days, 'day')}" if days not in (0, runs) else ""
    return f"{units.counted(runs, 'run')}{more}"


def _ratio(ratio: Interval) -> str:
    """`+5.7 % (+5.1 % to +6.2 %)`; beyond a factor of two `101 times (97.6 to 105 times)`."""
    times = not 0.5 <= ratio.estimate <= 2
    estimate = f"{evidence.number(ratio.estimate)} times" if times else percent(ratio.estimate)
    if ratio.low is None or ratio.high is None:
        return estimate
    if times:
        return f"{estimate} ({evidence.number(ratio.low)} to {evidence.number(ratio.high)} times)"
    return f"{estimate} ({percent(ratio.low)} to {percent(ratio.high)})"


def _around(change: SeriesChange) -> range:
    """The runs that may be the first after a change."""
    return range(change.earliest + 1, change.latest + 2)


def _events(night: Night) -> list[str]:
    return [f"with {_name(night)}: {event}" for event in night.events]


def _name(night: Night) -> str:
    """`run a0000026 of 2026-02-08 03:00`, or only the date if that is its name."""
    day = _day(night)
    return day if night.run[:10] == day[:10] else f"run {night.run} of {day}"


def _day(night: Night) -> str:
    day, _, minute = night.date.isoformat(" ", "minutes")[:16].partition(" ")
    return day if len(night.run) == len(day) else f"{day} {minute}"


def _few(found: History) -> str:
    more = f" and {len(found.left_out) - 5} more" if found.left_out[5:] else ""
    return ", ".join(found.left_out[:5]) + more


def _head(found: History) -> str:
    return found.metric.name if found.typical else f"{found.metric.name}, of the typical run"


def _level(found: History, night: Night) -> str:
    level = night.level
    ends = [level.low, level.estimate, level.high]
    if found.typical is None:
        parts = [None if end is None else percent(end) for end in ends]
    else:
        unit, scale = found.metric.unit, found.typical
        parts = [None if end is None else words.quantity(end * scale, unit) for end in ends]
    low, estimate, high = parts
    return f"{estimate} ({low} to {high})" if low and high else f"{estimate}"
