"""Facts that several rules give as evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from memlab import units
from memlab.diagnose.finding import Fact
from memlab.diagnose.look import Look


def fact(name: str, value: float | str | None, unit: str = "") -> Fact | None:
    """None where it was not seen."""
    return None if value is None else Fact(name, value, unit)


def rate(look: Look, name: str, words: str) -> Fact | None:
    """None where it is not seen, or did not happen."""
    return fact(words, look.rate(name) or None, "1/s")


def fault_cost(look: Look) -> Fact | None:
    """What the faults cost, at the price of one on this machine: at most all of its system time."""
    faults = look.rate("minor_faults")
    if not faults or look.fault_s is None:
        return None
    each, cost = units.format_duration(look.fault_s), faults * look.fault_s
    if cost > look.system_share:
        return Fact("which take nearly all of its system time", f"{look.system_share:.2g} of a CPU")
    return Fact("which take about", f"{cost:.2g} of a CPU, at {each} per fault here")


def left(seconds: float | None) -> str:
    """Time left in words: `40 s`, `12 min`, `3 h`."""
    if seconds is None:
        return "no time seen"
    for unit, factor in (("h", 3600), ("min", 60)):
        if seconds >= 2 * factor:
            return f"{seconds / factor:.0f} {unit}"
    return f"{seconds:.0f} s"


def share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def group_facts(look: Look) -> Iterator[Fact | None]:
    group = look.group
    if group is None:
        return
    yield Fact("charged", group.used_bytes, "B")
    yield Fact("of it file cache that can be dropped", group.droppable_bytes, "B")
    yield Fact(group.limit_name, group.limit_bytes, "B")
    yield Fact("grows by", group.growth_bytes_per_s, "B/s")
    if group.reached_per_s:
        yield Fact("limit met", group.reached_per_s, "1/s")
    if group.oom_kills:
        yield Fact("killed here since the group was made", group.oom_kills, "count")


def give_backs(look: Look) -> float | None:
    """Calls a second that give memory back to the kernel; None where none is seen."""
    seen = [look.rate(name) for name in ("madvise_dontneed", "munmap", "brk")]
    return None if None in seen else sum(r for r in seen if r is not None)


def who(look: Look, *names: str) -> Fact | None:
    """The thread that does most of these, and its share."""

    def does(per_s: dict[str, float]) -> float:
        return sum(per_s.get(name, 0) for name in names)

    threads = sorted(look.threads, key=lambda thread: -does(dict(thread.per_s)))
    total = sum(does(dict(thread.per_s)) for thread in threads)
    if not total:
        return None
    first = threads[0]
    part = does(dict(first.per_s)) / total
    return Fact("most by thread", f"{first.tid} ({first.command}), {100 * part:.0f} % of them")


def malloc(look: Look) -> Fact | None:
    found = look.allocator
    return (
        None
        if found is None
        else Fact("malloc", f"{found.name} {found.version or '(version not seen)'}")
    )


def options(look: Look, *names: str) -> Iterator[Fact]:
    """The malloc's options of these names, with what set them."""
    for option in look.allocator.options if look.allocator else ():
        if option.name in names:
            yield Fact(option.name, f"{option.value} ({option.source})")


def limit(value: float) -> str:
    """Bytes as `try` takes them, in whole MiB."""
    return f"{max(1, math.ceil(value / units.MiB))}M"


def size(value: float) -> str:
    return units.format_quantity(value, "B")
