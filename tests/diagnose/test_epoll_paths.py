"""Epoll descriptors that may not watch another file: graphs of them, and this program's own."""

from __future__ import annotations

import ctypes
import errno
import os
import select
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest

from memlab.diagnose import call_causes, epoll_paths
from memlab.diagnose.call_facts import Facts
from memlab.diagnose.call_ordinary import is_ordinary
from memlab.observe import proc

FILE, MAIN, NEW = 1, 2, 3


@pytest.mark.parametrize("count", [499, 500])
def test_so_many_may_watch_one_that_watches_a_file(count: int) -> None:
    watches = {MAIN: {FILE}, NEW: set(), **{10 + n: {MAIN} for n in range(count)}}
    assert epoll_paths.too_many(watches, NEW, MAIN) == (None if count < 500 else (2, 500))
    # Any number may watch the file itself, or one that watches nothing.
    direct = {NEW: set(), **{10 + n: {FILE} for n in range(count)}}
    assert epoll_paths.too_many(direct, NEW, FILE) is None
    assert epoll_paths.too_many({**watches, MAIN: set()}, NEW, MAIN) is None


@pytest.mark.parametrize("count", [499, 500])
def test_a_file_is_one_path_more_for_each_that_watches_its_watcher(count: int) -> None:
    """The call adds no epoll descriptor, and its paths are through two."""
    watches = {NEW: set(), **{10 + n: {NEW} for n in range(count + 1)}}
    assert epoll_paths.too_many(watches, NEW, FILE) == (None if count < 500 else (2, 500))


@pytest.mark.parametrize(("length", "most"), [(3, 100), (4, 50), (5, 10)])
def test_longer_paths_are_fewer(length: int, most: int) -> None:
    for count in (most - 1, most):
        watches: dict[int, set[int]] = {MAIN: {FILE}, NEW: set()}
        last = MAIN
        for n in range(length - 2):
            watches[100 + n] = {last}
            last = 100 + n
        watches |= {1000 + n: {last} for n in range(count)}
        excess = epoll_paths.too_many(watches, NEW, last)
        assert excess == (None if count < most else (length, most))


def test_a_chain_is_as_long_as_it_is_and_a_loop_longer_than_allowed() -> None:
    chain = {10: {FILE}, 11: {10}, 12: {11}, 13: {12}, 14: {13}}
    assert [epoll_paths.longest_chain(one) for one in ({}, {10: {FILE}}, chain)] == [0, 1, 5]
    assert epoll_paths.longest_chain({**chain, 10: {14}}) == 6


def test_paths_that_are_too_many_to_go_along_are_counted() -> None:
    """Five layers of 140, of which each watches all below: 5e10 paths."""
    layers = [range(1000 * n, 1000 * n + 140) for n in range(1, 6)]
    watches = {one: {*below} for below, layer in pairwise(layers) for one in layer}
    watches |= {one: {FILE} for one in layers[0]} | {NEW: set()}
    assert sum(map(len, watches.values())) < epoll_paths._WATCHED_MAX
    assert epoll_paths.longest_chain(watches) == 5
    assert epoll_paths.too_many(watches, NEW, layers[-1][0]) == (5, 10)


class Event(ctypes.Structure):
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


@contextmanager
def epolls(count: int) -> Iterator[list[select.epoll]]:
    with ExitStack() as stack:
        yield [stack.enter_context(select.epoll()) for _ in range(count)]


def cause_of(watcher: int, target: int, name: str, *, operation: int = 1, events: int = 1) -> str:
    event = Event(events)
    facts = Facts(os.getpid(), proc.status(os.getpid()))
    reader = next(read for _, one, read in epoll_paths.READERS if one == name)
    arguments = (watcher, operation, target, ctypes.addressof(event))
    cause = reader(facts, "epoll_ctl", arguments)
    return cause.words if cause else ""


def test_the_kernel_refuses_what_is_said_to_be_too_many() -> None:
    first, second = os.pipe()
    with epolls(502) as (main, last, *others):
        main.register(first)
        for other in others[1:]:
            other.register(main.fileno())
        at = last.fileno(), main.fileno()
        assert cause_of(*at, "EINVAL") == ""
        others[0].register(main.fileno())
        with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
            last.register(main.fileno())
        words = cause_of(*at, "EINVAL")
        assert words.startswith("more than 500 paths would lead from a file to who waits for it")
        last.close()  # as a program does that cannot use it
        assert cause_of(*at, "EINVAL") == words
        # Other faults of a call have the same errno.
        assert cause_of(*at, "EINVAL", operation=7) == ""
        assert cause_of(*at, "EINVAL", events=1 << 28) == ""
        assert cause_of(first, main.fileno(), "EINVAL") == ""
    os.close(first)
    os.close(second)


def test_the_kernel_refuses_what_is_said_to_be_too_long_a_chain() -> None:
    with epolls(7) as many:
        for below, above in pairwise(many[:5]):
            above.register(below.fileno())
        at = many[5].fileno(), many[4].fileno()
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            many[5].register(many[4].fileno())
        assert "more than 5 in a chain" in cause_of(*at, "ELOOP")
        assert cause_of(many[5].fileno(), many[3].fileno(), "ELOOP") == ""


def test_its_calls_are_recorded_and_their_arguments_read() -> None:
    assert not any(is_ordinary("epoll_ctl", name) for name in ("EINVAL", "ELOOP"))
    assert all(call_causes.needs_arguments("epoll_ctl", name) for name in ("EINVAL", "ELOOP"))
