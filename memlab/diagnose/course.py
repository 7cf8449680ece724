"""Findings about the course of what a process holds: it grows, swings, or shares no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlab.diagnose import family, growth, inside, mapping_list, refused, shared, sites
from memlab.diagnose.family import Member
from memlab.diagnose.finding import (
    COSTLY,
    NOTE,
    Fact,
    Finding,
    FindingRow,
    facts,
    left,
    per_day,
    per_second,
    size,
)
from memlab.diagnose.look import Look, MappedOften
from memlab.text import units

MiB = units.MiB
_DAY_S = 86400.0
_CHILD_GROWTH = 256 << 10  # bytes, in the whole look
_SETTLED_S = 600.0  # of a younger process, which may still start, no growth by the day is said


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of how it changes."""
    yield from _unshared(look)
    yield from _growing(look)
    yield from _files(look)
    yield from _children(look)
    yield from _swings(look)


UNSHARED = FindingRow(
    "unshared", "stock", "anonymous, shared since a fork", "B/s",
    "shared pages become private by 64 KiB/s, and 4 MiB more can",
    "write less to what is shared: gc.freeze() before the fork (Python's collector and reference "
    "counts write into objects), arrays instead of objects, read-only or shared mappings; PSS "
    "instead of RSS in the monitoring",
    experiments=("page-fault",),
)  # fmt: skip


def _unshared(look: Look) -> Iterator[Finding]:
    """Pages shared since a fork that become private: of the process or of its children."""
    shares = _sharing(look)
    lost, more = unsharing(look, shares)
    per_s = lost / look.seconds
    if per_s < 16 * 4096 or more < 4 * MiB:
        return
    # A process that forks all the time shares again what it has made private.
    if (look.rate("processes_forked") or 0) >= 0.1:
        return
    others = sum(1 for m in shares if m.shared_bytes)
    who = f"it and {others} other processes" if others else "it and those that share with it"
    # The last that shares a page gets it without a copy, and only copies make the sum grow.
    counted = look.group.growth_bytes_per_s if look.group else 0.0
    grows = min(per_s, counted) if counted > 0 else per_s
    yield UNSHARED.found(
        COSTLY if per_s >= 1 * MiB or more >= 256 * MiB else NOTE,
        f"memory shared since a fork becomes private by {size(per_s)}/s over the look: resident "
        f"memory stays, the sum of {who} grows by {size(grows)}/s or less, and at most "
        f"{size(more)} more",
        per_s,
        facts(
            Fact("still shared, of this process", _shared_bytes(look), "B"),
            Fact("became private in the look", lost, "B"),
            Fact("its own anonymous memory grew by", look.growth_bytes_per_s, "B/s"),
            growth.rate_fact(look, "present_faults_user", "faults on pages that are there"),
        ),
    )


def _sharing(look: Look) -> Sequence[Member]:
    """Those with which it may share: its children, and others of its group only if it shares."""
    if _shared_bytes(look) + max(0, look.unshared_bytes or 0) >= 1 * MiB:
        return look.members
    return _children_of(look)


def _children_of(look: Look) -> Sequence[Member]:
    return [member for member in look.members if member.pid in look.descendants]


def _shared_bytes(look: Look) -> int:
    """Since a fork, at the end of the look."""
    return (look.pages.shared_bytes or 0) if look.pages else 0


def unsharing(look: Look, members: Sequence[Member]) -> tuple[int, int]:
    """Bytes that became private in the look, of the process and of these; and how many more may."""
    became_private = look.unshared_bytes or 0
    others = [m for m in members if m.unshared_bytes is not None]
    lost = max(0, became_private) + sum(max(0, m.unshared_bytes or 0) for m in others)
    shared = [_shared_bytes(look), *(m.shared_bytes or 0 for m in others)]
    return lost, family.may_grow_bytes(shared)


_LATER = (
    "a look later (--seconds 60) tells a load or warm-up, which ends, from a leak, which goes on"
)
GROWING = FindingRow(
    "growing",
    "stock",
    "anonymous, private",
    "B/s",
    "it grows by 64 KiB, in every part of the look",
    setting=(
        f"{_LATER}; then what it allocates and keeps (heaptrack, a heap profile), a bound for a "
        "cache"
    ),
    experiments=("retained-memory",),
)


_CLASSES = (
    f"{_LATER}; then which class loaders stay reachable (jcmd PID VM.classloaders); "
    "-XX:MaxMetaspaceSize bounds what the metadata of classes takes"
)
_LOADED_PER_S = 10.0


def _loads_classes(look: Look) -> bool:
    """A JVM that goes on to load classes and keeps most of them."""
    loaded = look.loaded_classes_per_s
    return loaded >= _LOADED_PER_S and look.unloaded_classes_per_s < loaded / 2


def _growing(look: Look) -> Iterator[Finding]:
    if not growth.is_growing(look):
        return
    rate = look.growth_bytes_per_s
    room, whose = room_of(look)
    lasts = room / rate
    heap = look.heap
    where = [use for use in look.largest if use.growth_bytes > 0]
    most = max(where, key=lambda use: use.growth_bytes, default=None)
    faults = look.rate("minor_faults") or 0.0
    touches = ""
    handled = look.waits is not None and look.waits.by_kind.get("userfaultfd")
    if faults and rate / 4096 >= 0.7 * faults and not handled:
        touches = ": its page faults are first touches, nothing is given back"
    bound = _bound(look)
    peak = look.memory.peak_resident_bytes
    goes_on = f"{whose} has room for {left(lasts)} of it" if lasts < _DAY_S else ""
    bounded = bound is not None and bound < room
    day = ""
    if lasts > 3600 and look.age_s >= _SETTLED_S and not bounded:
        day = f", {per_day(rate)},"
    sentence = f"growing by {size(rate)}/s{day} in every part of the look{touches}"
    if bounded and bound is not None:
        goes_on = f"its mappings have room for {size(bound)} more, {whose} has {size(room)}"
    if look.peak_stands:
        goes_on = f"it has been larger before, {size(peak)}: it may swing"
    most_is, outside = inside.mostly_malloc(look)
    setting = f"{_LATER}; then {outside} (heaptrack, memlab record)" if outside else None
    if not most_is:
        most_is, profile = inside.mostly_runtime(look)
        setting = f"{_LATER}; then {profile}" if profile else None
    if not outside and _loads_classes(look):
        loads = per_second(look.loaded_classes_per_s, "classes")
        unloads = f"{look.unloaded_classes_per_s:,.0f}" if look.unloaded_classes_per_s else "none"
        most_is, setting = f"meanwhile it loads {loads} and unloads {unloads}", _CLASSES
    of_stacks, stacks = inside.new_stacks(look)
    if of_stacks >= rate / 2:
        most_is, setting = f"most of it by {stacks}", refused.JOIN
    longest = min(_DAY_S, growth.LASTS_LOOKS * look.seconds)
    yield GROWING.found(
        COSTLY if lasts < longest and not bounded and not look.peak_stands else NOTE,
        "; ".join(filter(None, (sentence, goes_on, most_is))),
        rate,
        facts(
            Fact("seen for", look.seconds, "s"),
            Fact("it runs for", look.age_s, "s"),
            Fact("most in", f"{most.name} (+{size(most.growth_bytes)})") if most else None,
            Fact("in malloc's objects", heap.used_bytes, "B") if heap else None,
            Fact("free in malloc", heap.retained_bytes, "B") if heap else None,
            growth.rate_fact(look, "minor_faults", "page faults"),
            Fact("room", room, "B"),
            *sites.facts(look.sites),
        ),
        setting=setting,
        grows=not bounded and not look.peak_stands,
    )


_FILES_GROW = FindingRow(
    "file-pages-grow", "stock", "files, mapped", "B/s", "its resident pages of files grew by 1 MiB",
    "RSS without RssFile in the monitoring",
    experiments=("reclaim-or-kill",),
)  # fmt: skip


def _files(look: Look) -> Iterator[Finding]:
    """Pages of files that it maps: they look like a leak in resident memory."""
    more = look.files_growth_bytes - look.met_shared_bytes
    if more < 1 * MiB:
        return
    paths = [
        use for use in look.largest if use.name.startswith("/") and use.growth_bytes > more / 2
    ]
    most = next((f", most of {use.name}" for use in paths if shared.kind_of(use.name) is None), "")
    per_s = more / look.seconds
    fell = look.files_fell_bytes
    falls = fell > more / 4
    grows = look.files_grow_steadily and not falls
    changed = f"its resident memory grows by {size(per_s)}/s of pages of files that it maps"
    if not grows:
        how = f"fell by {size(fell)} in the look" if falls else "do not grow all through the look"
        changed = (
            f"its resident pages of files that it maps {how}, and are {size(more)} more at the "
            "end than at the beginning"
        )
    if again := _mapped_again(look, more):
        counts = (
            f"mapped {again.count:,} times, {again.more:,} more at the end than at the beginning"
        )
        why = "its pages count again in each mapping that touches them"
        if again.resident_more_bytes is not None:
            why = f"at most {size(again.distinct_bytes)} of it, counted again in each mapping"
        ends = ": what grows are the mappings, which it keeps" if grows else ""
        yield _FILES_GROW.found(
            NOTE,
            f"{changed}: {again.path} is {counts}; {why}{ends}",
            per_s,
            setting="munmap(2) of what it no longer uses, or one mapping of the file for all",
        )
        return
    if look.growth_bytes_per_s > per_s:  # what it grows by is other memory
        return
    yield _FILES_GROW.found(
        NOTE,
        f"{changed}{most}: page cache, dropped when memory is short{'; no leak' if grows else ''}",
        per_s,
    )


def _mapped_again(look: Look, more: int) -> MappedOften | None:
    """The file whose new mappings account for the growth; of a sample of mappings, whose pages were
    not counted, the one with most new ones."""
    grown = [
        one
        for one in look.mapped_often
        if one.more >= mapping_list.OFTEN
        and shared.kind_of(one.path) is None
        and (one.resident_more_bytes is None or one.new_again_bytes > more / 2)
    ]
    return max(grown, key=lambda one: one.more, default=None)


_CHILDREN_GROW = FindingRow(
    "children-grow", "stock", "its children", "B/s",
    "a child grew by 256 KiB, and its children by more than it did",
    experiments=("retained-memory",),
)  # fmt: skip
_CHILDREN_HOLD = FindingRow(
    "children-hold", "stock", "its children", "B",
    "its children hold 16 MiB, and as much as it does",
    experiments=("memcg-accounting",),
)  # fmt: skip


def _children(look: Look) -> Iterator[Finding]:
    """Memory of a supervisor, a shell or a master of workers is in its children."""
    children = _children_of(look)
    if not children:
        return
    largest = max(children, key=lambda member: member.anonymous_bytes)
    children_bytes = held_by_children(look)
    whose = "child process" if len(children) == 1 else f"{len(children)} descendant processes"
    if len(look.descendants) > family.MEMBERS_MAX:
        whose = (
            f"{len(look.descendants)} descendant processes, of which the {len(children)} largest "
            "were read,"
        )
    if children_bytes >= growth.WORTH_BYTES and children_bytes >= look.memory.anonymous_bytes:
        yield _CHILDREN_HOLD.found(
            NOTE,
            f"at least {size(children_bytes)} of anonymous memory are held by its {whose} and not "
            f"by it: {size(largest.anonymous_bytes)} by {largest.pid} ({largest.command}); itself "
            f"it holds {size(look.memory.anonymous_bytes)}",
            children_bytes,
            setting=f"memlab diagnose {largest.pid} says what that one holds",
        )
    most = max(children, key=lambda member: member.growth_bytes)
    grown = sum(max(0, member.growth_bytes) for member in children)
    if most.growth_bytes >= _CHILD_GROWTH and grown > look.growth_bytes_per_s * look.seconds:
        yield _CHILDREN_GROW.found(
            NOTE,
            f"its {whose} grew by {size(grown / look.seconds)}/s over the look, most {most.pid} "
            f"({most.command}), by {size(most.growth_bytes)}: two readings, which show no course",
            grown / look.seconds,
            setting=f"memlab diagnose {most.pid} says whether it grows all the time, and what",
            grows=True,
        )


def held_by_children(look: Look) -> int:
    """At least: what they share with each other counts once, by the largest such part."""
    children = _children_of(look)
    shared = max((member.shared_bytes or 0 for member in children), default=0)
    private = sum(member.anonymous_bytes - (member.shared_bytes or 0) for member in children)
    return private + max(0, shared - _shared_bytes(look))


_SWINGS_ITSELF = FindingRow(
    "swings", "stock", "shared memory, tmpfs", "B",
    "it swings by 8 MiB and an eighth of what it holds, and fell by half of that",
    experiments=("memcg-accounting",),
)  # fmt: skip
_SWINGS = FindingRow(
    "swings", "stock", "anonymous, private", "B",
    "it swings by 8 MiB and an eighth of what it holds, and fell by half of that",
    experiments=("retained-memory",),
)  # fmt: skip


def _swings(look: Look) -> Iterator[Finding]:
    """A collected heap, or a cache that is emptied."""
    swing = look.highest_bytes - look.lowest_bytes
    if swing < 8 * MiB or swing < look.highest_bytes / 8 or look.fell_bytes < swing / 2:
        return
    if look.private_swing_bytes is not None and look.private_swing_bytes < swing / 2:
        yield _SWINGS_ITSELF.found(
            NOTE,
            f"what it maps of shared memory swings: it holds between {size(look.lowest_bytes)} and "
            f"{size(look.highest_bytes)}; that it unmaps some gives none of it back by itself",
            swing,
        )
        return
    if look.fell_bytes + look.growth_bytes_per_s * look.seconds < swing / 4:
        yield _SWINGS.found(
            NOTE,
            f"it fell in the look by {size(look.fell_bytes)}, to {size(look.lowest_bytes)}, and "
            "hardly grew before or since: memory that was given back",
            swing,
        )
        return
    room, whose = room_of(look)
    rises = look.floor_growth_bytes_per_s
    keeps = (
        f"; its low points rise by {size(rises)}/s, {per_day(rises)}: so much is kept each time, "
        f"and the room lasts {left(room / rises)}"
        if rises
        else ""
    )
    yield _SWINGS.found(
        COSTLY if rises and room / rises < _DAY_S else NOTE,
        f"it swings between {size(look.lowest_bytes)} and {size(look.highest_bytes)}: it grows and "
        f"gives back; {whose} has room for {size(room)} more{keeps}",
        swing,
        facts(
            Fact("fell in the look by", look.fell_bytes, "B"), Fact("seen for", look.seconds, "s")
        ),
        grows=bool(rises),
    )


def _bound(look: Look) -> float | None:
    """How much it can grow without another mapping; None where it makes mappings as it grows."""
    if look.mapped_growth_bytes > 0:
        return None
    return float(look.unfilled_bytes)


def room_of(look: Look) -> tuple[float, str]:
    """What the growth fills first, and whose room that is."""
    machine = float(look.available_bytes or 0)
    if look.group and look.group.room_bytes < machine:
        above = look.group.above
        whose = f"the group {above} above" if above else "its group"
        return float(look.group.room_bytes), f"{whose} ({look.group.limit_name})"
    return machine, "the machine"
