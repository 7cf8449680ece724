"""Why an epoll descriptor may not watch another file: too many paths, too long a chain, or a loop.

/proc/PID/fdinfo names what each epoll descriptor watches. The kernel counts the paths from a
watched file through epoll descriptors, by how many are on the path, and allows any number of paths
through one (path_limits and EP_MAX_NESTS of fs/eventpoll.c, Linux 6.18).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

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
    left = _WATCHED_MAX
    for number in numbers:
        if facts.link(number) != _EPOLL:
            continue
        text = files.text(ROOT / f"proc/{facts.pid}/fdinfo/{number}") or ""
        watches[number] = {int(word) for word in _WATCHED.findall(text)}
        left -= len(watches[number])
        if left < 0:
            return None
    return watches


def too_many(watches: Watches, watcher: int, target: int) -> tuple[int, int] | None:
    """If so many epoll descriptors are on more paths than are allowed once the target is watched
    too: that number, and how many paths are allowed."""
    above: dict[int, set[int]] = {target: {watcher}}
    for number, watched in watches.items():
        for one in watched:
            above.setdefault(one, set()).add(number)
    for leaf in _leaves(watches, target, _CHAIN_MAX):
        counts = dict.fromkeys(_PATHS_MAX, 0)
        for length in _lengths(above, leaf, 0):
            if length not in counts:
                continue
            counts[length] += 1
            if counts[length] > _PATHS_MAX[length]:
                return length, _PATHS_MAX[length]
    return None


def _leaves(watches: Watches, target: int, depth: int) -> set[int]:
    """The files below, that are no epoll descriptors."""
    if target not in watches:
        return {target}
    below = watches[target] if depth else set()
    return {leaf for one in below for leaf in _leaves(watches, one, depth - 1)}


def _lengths(above: Mapping[int, set[int]], number: int, length: int) -> Iterator[int]:
    """Of each path upwards, to a descriptor that nothing watches."""
    watchers = above.get(number, set())
    if length and not watchers:
        yield length
    if length < _CHAIN_MAX:
        for one in watchers:
            yield from _lengths(above, one, length + 1)


def chain(watches: Watches, number: int, depth: int = 0) -> int:
    """How many epoll descriptors the longest path down from this one has; it is no longer than
    the limit allows, and one more."""
    if number not in watches or depth > _CHAIN_MAX:
        return 0
    return 1 + max((chain(watches, one, depth + 1) for one in watches[number]), default=0)


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
    if max(chain(with_it, number) for number in with_it) <= _CHAIN_MAX:
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
