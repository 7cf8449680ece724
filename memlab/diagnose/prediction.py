"""What another policy would cost a process: predicted from its own counts and this host's prices.

Every result is a span that follows from the assumptions that it names. `memlab try` measures the
same policies; the peak and the events are its metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memlab import units
from memlab.diagnose import fault
from memlab.diagnose.fault import Span
from memlab.diagnose.finding import size
from memlab.diagnose.flow import give_backs
from memlab.diagnose.look import Look
from memlab.errors import BadRequest

_PAGE_BYTES = 4096
_STACK_BYTES = 8 * units.MiB  # of a thread, unless `ulimit -s` says otherwise
_STACK_PAGES = 4  # that a short-lived thread touches
_LEAST_TICKS_HZ = 100  # at which the kernel samples who runs (CONFIG_HZ, at least)
_LEFT = 0.1  # of the faults, under lock=future: before the lock, and where nothing is populated

Prices = Mapping[str, Span]


@dataclass(frozen=True, slots=True)
class Predicted:
    """A metric of `memlab try`, at present and as predicted: peak_rss in bytes, faults per second
    and cpu_time in CPUs."""

    metric: str
    now: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a level of a policy would do."""

    policy: str
    metrics: tuple[Predicted, ...]
    """None where the process would not go on."""
    assumes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    gone: Span  # faults per second
    saved: Span  # seconds of processor time per second
    peak_bytes: Span
    assumes: Sequence[str]


def read(texts: Sequence[str]) -> list[tuple[str, str]]:
    """`lock=future` and the like, as policy and level. Raises BadRequest."""
    return [_read(text) for text in texts]


def of(look: Look, asked: Sequence[tuple[str, str]]) -> tuple[Prediction, ...]:
    """One for each policy and level."""
    prices = fault.prices() if asked else {}
    return tuple(_prediction(look, prices, policy, level) for policy, level in asked)


def _read(text: str) -> tuple[str, str]:
    policy, _, level = text.partition("=")
    said = ", ".join(f"{name}={'|'.join(of) or 'SIZE'}" for name, (_, of) in _POLICIES.items())
    _, levels = _POLICIES.get(policy, (None, ()))
    try:
        size_given = policy in _POLICIES and not levels and units.parse_size(level) > 0
    except ValueError as error:
        raise BadRequest(f"--if {text!r}: {error}") from None
    if not size_given and level not in levels:
        raise BadRequest(f"--if {text!r}: nothing predicts that; write one of {said}")
    return policy, level


def _prediction(look: Look, prices: Prices, policy: str, level: str) -> Prediction:
    killed = _killed(look, level) if policy == "memory_max" else None
    if killed or not {"fault", "populate", "give_back"} <= prices.keys():
        why = killed or "no prediction: this kernel does not populate memory (madvise(2), 5.14)"
        return Prediction(f"{policy}={level}", (), (why,))
    change = _POLICIES[policy][0](look, _fitting(look, prices), level)
    faults, used = _faults(look), look.cpu_share
    left = [max(0.0, faults - gone) for gone in reversed(change.gone)]
    # Faults and calls are system time: no more than all of that is saved.
    saved = [min(*both) for both in zip(change.saved, _system_span(look), strict=True)]
    metrics = (
        Predicted("peak_rss", look.memory.peak_resident_bytes, *change.peak_bytes, "B"),
        Predicted("faults", faults, left[0], left[1], "1/s"),
        Predicted("cpu_time", used, used - saved[1], used - saved[0], "1"),
    )
    return Prediction(f"{policy}={level}", metrics, tuple(change.assumes))


def _fitting(look: Look, prices: Prices) -> Prices:
    """The prices, lower where all of its system time would not pay its faults at these: the kernel
    may have pages at hand for it that were in use a moment ago."""
    cost, system = _faults(look) * prices["fault"][0], _system_span(look)[1]
    if cost <= system:
        return prices
    return {
        name: (low * system / cost, high * system / cost) for name, (low, high) in prices.items()
    }


def _system_span(look: Look) -> Span:
    """The kernel tells system from user time by samples, at ticks: two standard errors each way."""
    used, system = look.cpu_share, look.system_share
    if not 0 < system < used:
        return system, system
    share, ticks = system / used, _LEAST_TICKS_HZ * used * look.seconds
    errors = 2 * used * math.sqrt(share * (1 - share) / ticks)
    return max(0.0, system - errors), min(used, system + errors)


def _keeps(look: Look, prices: Prices, _: str) -> _Change:
    """A malloc that gives nothing back. What a process takes beyond its growth, it gave back."""
    again, own = _again(look), _share(look, "madvise_dontneed", "munmap", "brk")
    if look.allocator and look.allocator.name != "glibc":
        own = _share(look, "madvise_dontneed", "brk")
    gone = own * again, again if own else 0.0
    assumes = ["page faults beyond its growth are on memory that its malloc gave back"]
    return _Change(gone, _times(gone, _sum(prices, "fault", "give_back")), _kept(look), assumes)


def _locks(look: Look, prices: Prices, level: str) -> _Change:
    faults, again = _faults(look), _again(look)
    memory = look.memory
    if level == "future_onfault":
        refused = again * _share(look, "madvise_dontneed")
        most = _sum(prices, "fault", "give_back")[1]
        assumes = ["MADV_DONTNEED, which locked memory refuses, is all that changes"]
        return _Change((0, refused), (0, refused * most), _kept(look, grows=refused > 0), assumes)
    cheap, dear = prices["populate"]
    reach = max(memory.accessible_bytes, memory.peak_resident_bytes)
    stacks = (look.rate("threads_created") or 0.0) * _STACK_BYTES / _PAGE_BYTES
    forks = look.rate("processes_created") or 0.0
    gone = 0.0 if forks else (1 - _LEFT) * faults, faults
    # What MADV_DONTNEED would have given back stays; what munmap and brk give back is populated
    # again. Where the calls are not seen, it may be either.
    most_stays = again * _share(look, "madvise_dontneed")
    stays = 0.0 if give_backs(look) is None else min(most_stays, gone[0]), most_stays
    kept, trap = _times(stays, _sum(prices, "fault", "give_back")), prices["trap"]
    mapped = [max(0.0, rate - of) for rate, of in zip(gone, stays, strict=True)]
    beyond = reach / max(memory.peak_resident_bytes, 1) - 1  # pages populated beside one touched
    saved = (
        kept[0] + mapped[0] * trap[0] - ((gone[1] - stays[0]) * beyond + stacks) * dear,
        kept[1] + mapped[1] * trap[1],
    )
    start = (reach - memory.resident_bytes) / _PAGE_BYTES
    return _Change(
        gone,
        saved,
        (reach, reach + max(0, memory.peak_virtual_bytes - memory.virtual_bytes)),
        [
            "it maps what it has mapped now; of what it maps later it touches all, or the share "
            "that it has touched so far",
            f"to populate the rest once takes {_span((start * cheap, start * dear), 's')}",
            *(["the processes that it forks are not locked"] if forks else []),
        ],
    )


def _huge(look: Look, prices: Prices, _: str) -> _Change:
    memory, faults = look.memory, _faults(look)
    if memory.thp_machine == "always" or not memory.thp_process:
        same = memory.peak_resident_bytes, memory.peak_resident_bytes
        return _Change(
            (0, 0), (0, 0), same, ["huge pages stay as they are: always, or off by prctl"]
        )
    fits = faults * memory.huge_fit_bytes / max(memory.writable_bytes, 1)
    (least, most), (cheap, dear) = prices["fault"], prices["huge"]
    saved = fits * min(0.0, least - dear), fits * max(0.0, most - cheap)
    assumes = [
        "faults are spread evenly over its writable memory, and it touches whole huge pages",
        f"{size(memory.huge_fit_bytes)} of {size(memory.writable_bytes)} lies in whole huge pages",
    ]
    return _Change((0, fits * 511 / 512), saved, _kept(look), assumes)


def _stacks(look: Look, prices: Prices, level: str) -> _Change:
    made, new = look.rate("threads_created") or 0.0, units.parse_size(level)
    memory = look.memory
    peak = memory.peak_resident_bytes
    if memory.locked_stacks_count and memory.locked_stacks_bytes is not None:
        old = memory.locked_stacks_bytes // memory.locked_stacks_count
        fewer = max(0, old - new)
        saved = _times((made * fewer / _PAGE_BYTES,) * 2, prices["populate"])
        peak -= memory.locked_stacks_count * fewer
        assumes = [f"its threads' stacks, {size(old)} now, are of the default size"]
        return _Change((0, 0), saved, (peak, peak), assumes)
    gone = 0.0, made * _STACK_PAGES
    assumes = [f"a thread touches up to {_STACK_PAGES} pages of its stack, and glibc keeps stacks"]
    return _Change(gone, _times(gone, _sum(prices, "fault", "give_back")), (peak, peak), assumes)


def _limited(look: Look, _: Prices, level: str) -> _Change:
    limit, peak = units.parse_size(level), look.memory.peak_resident_bytes
    if limit >= peak:
        return _Change((0, 0), (0, 0), (peak, peak), [f"{level} has room for its peak so far"])
    files = [f"what it reads from files goes out of memory beyond {level}, and is read again"]
    return _Change((0, 0), (0, 0), (_needed_bytes(look), limit), files)


def _killed(look: Look, level: str) -> str | None:
    if _needed_bytes(look) < units.parse_size(level):
        return None
    needed = size(_needed_bytes(look))
    return f"the kernel ends it: {needed} at its peak cannot be dropped, and {level} has no room"


def _needed_bytes(look: Look) -> int:
    """Of its peak, without swap: all but what it holds of files now."""
    memory = look.memory
    files_bytes = max(0, memory.resident_bytes - memory.anonymous_bytes)
    return max(memory.anonymous_bytes, memory.peak_resident_bytes - files_bytes)


_POLICIES: dict[str, tuple[Callable[[Look, Prices, str], _Change], tuple[str, ...]]] = {
    "lock": (_locks, ("future", "future_onfault")),
    "decay": (_keeps, ("-1",)),
    "thp": (_huge, ("always",)),
    "stack": (_stacks, ()),
    "memory_max": (_limited, ()),
}


def _faults(look: Look) -> float:
    return look.rate("minor_faults") or 0.0


def _again(look: Look) -> float:
    """Faults per second beyond growth: on memory that it had before."""
    return max(0.0, _faults(look) - max(0.0, look.growth_bytes_per_s) / _PAGE_BYTES)


def _share(look: Look, *calls: str) -> float:
    """Of the calls that give memory back; 1 where they are not seen."""
    everything = give_backs(look)
    if everything is None:
        return 1.0
    return sum(look.rate(call) or 0.0 for call in calls) / everything if everything else 0.0


def _kept(look: Look, *, grows: bool = True) -> Span:
    """From its peak so far to all that it may write to."""
    memory = look.memory
    peak, files = memory.peak_resident_bytes, memory.resident_bytes - memory.anonymous_bytes
    return peak, max(peak, files + memory.writable_bytes) if grows else peak


def _sum(prices: Prices, *names: str) -> Span:
    return sum(prices[name][0] for name in names), sum(prices[name][1] for name in names)


def _times(one: Span, other: Span) -> Span:
    return one[0] * other[0], one[1] * other[1]


def _span(values: Span, unit: str) -> str:
    low, high = (units.format_quantity(value, unit) for value in values)
    return low if low == high else f"{low} to {high}"
