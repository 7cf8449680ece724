"""Why an epoll descriptor may not watch another file: too many paths, too long a chain, or a loop.

/proc/PID/fdinfo names what each epoll descriptor watches. The kernel counts the paths from a
watched file through epoll descriptors, by how many are on the path, and allows any number of paths
through one (path_limits and EP_MAX_NESTS of fs/eventpoll.c, Linux 6.18).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from memlab.diagnose.call_facts import Cause, Facts, Reader
from memlab.observe import files
from memlab.observe.proc import ROOT

_ADD, _EXCLUSIVE = 1, 1 << 28  # EPOLL_CTL_ADD, EPOLLEXCLUSIVE
_PATHS_MAX = {2: 500, 3: 100, 4: 50, 5: 10}  # by the epoll descriptors on a path
_CHAIN_MAX = 5
_READ_MAX, _WATCHED_MAX = 2000, 100_000  # descriptors, and what they watch: some 100 ms
_EPOLL = "anon_inode:[eventpoll]"
_WATCHED = re.compile(r"^tfd:\s*(\d+)", re.MULTILINE)

Watches = Mapping[int, set[int]]
"""What each epoll descriptor watches."""


def read(facts: Facts) -> Watches | None:
    """None if there is more than is read."""
    numbers = [int(name) for name in files.names(ROOT / f"proc/{facts.pid}/fd")]
    if len(numbers) > _READ_MAX:
        return None
    watches: dict[int, set[int]] = {}
    room = _WATCHED_MAX
    for number in numbers:
        if facts.link(number) != _EPOLL:
            continue
        text = files.text(ROOT / f"proc/{facts.pid}/fdinfo/{number}") or ""
        watches[number] = {int(word) for word in _WATCHED.findall(text)}
        room -= len(watches[number])
        if room < 0:
            return None
    return watches


def too_many(watches: Watches, watcher: int, target: int) -> tuple[int, int] | None:
    """If so many epoll descriptors are on more paths than are allowed once the target is watched
    too: that number, and how many paths are allowed."""
    above: dict[int, set[int]] = {target: {watcher}}
    for number, watched in watches.items():
        for target_number in watched:
            above.setdefault(target_number, set()).add(number)
    up = _counter(above)
    for leaf in _leaves(watches, target):
        for length, count in sorted(up(leaf, _CHAIN_MAX).items()):
            if count > _PATHS_MAX.get(length, count):
                return length, _PATHS_MAX[length]
    return None


def _leaves(watches: Watches, target: int) -> set[int]:
    """The files below, that are no epoll descriptors."""
    leaves: set[int] = set()
    reached = {target}
    for _ in range(_CHAIN_MAX + 1):
        leaves |= {one for one in reached if one not in watches}
        reached = {below for one in reached for below in watches.get(one, ())}
    return leaves


def _counter(above: Mapping[int, set[int]]) -> Callable[[int, int], Mapping[int, int]]:
    """Counts the paths upwards by their length, to a descriptor that nothing watches; each
    descriptor once, as the paths may be far too many to go along."""

    @cache
    def up(number: int, steps: int) -> Counter[int]:
        lengths: Counter[int] = Counter()
        for watcher in above.get(number, ()) if steps else ():
            if watcher not in above:
                lengths[1] += 1
            for length, count in up(watcher, steps - 1).items():
                lengths[length + 1] += count
        return lengths

    return up


def longest_chain(watches: Watches) -> int:
    """How many epoll descriptors the longest path down has; no more than the limit and one."""

    @cache
    def chain(number: int, left: int) -> int:
        if number not in watches or not left:
            return 0
        return 1 + max((chain(one, left - 1) for one in watches[number]), default=0)

    return max((chain(number, _CHAIN_MAX + 1) for number in watches), default=0)


def _arguments(facts: Facts, arguments: Sequence[int]) -> tuple[Watches, int, int] | None:
    """What is watched, by which descriptor and what else is to be; None of another fault."""
    watcher, operation, target, at = arguments[:4]
    events = int.from_bytes(facts.memory(at, 4), "little")
    if operation != _ADD or events & _EXCLUSIVE or watcher == target:
        return None
    watches = read(facts)
    if watches is None or facts.link(watcher) not in ("", _EPOLL):
        return None
    # One that is closed after the call watched nothing, as far as is known.
    return {watcher: set(), **watches}, watcher, target


def _paths(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of epoll_ctl."""
    known = _arguments(facts, arguments)
    most = too_many(*known) if known else None
    if most is None:
        return None
    length, allowed = most
    return Cause(
        f"more than {allowed} paths would lead from a file to who waits for it, through {length} "
        "epoll descriptors each, and the kernel allows no more",
        "paths of epoll", "fewer epoll descriptors that watch one and the same; close those that "
        "are no longer used",
    )  # fmt: skip


def _nested(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ELOOP of epoll_ctl."""
    known = _arguments(facts, arguments)
    if known is None:
        return None
    watches, watcher, target = known
    with_it = {**watches, watcher: watches[watcher] | {target}}
    if longest_chain(with_it) <= _CHAIN_MAX:
        return None
    return Cause(
        f"epoll descriptors would watch one another in a loop, or more than {_CHAIN_MAX} in a "
        "chain, which is what the kernel allows",
        "chains of epoll", "one epoll descriptor that watches the files themselves",
    )  # fmt: skip


READERS: tuple[tuple[str, str, Reader], ...] = (
    ("epoll_ctl", "EINVAL", _paths),
    ("epoll_ctl", "ELOOP", _nested),
)
