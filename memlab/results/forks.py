"""Work on parts of shared arrays, in as many processes as there are CPUs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from mmap import mmap
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from memlab.observe import available

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Result = TypeVar("Result")
_MOST = 8  # processes: more would wait for the store's file


def shared(count: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of `count` zeros that processes forked from now on share."""
    size = count * np.dtype(kind).itemsize
    return np.frombuffer(mmap(-1, max(1, size)), kind, count)


def each(
    work: Callable[[Sequence[int]], Iterable[Result]], count: int
) -> Iterator[tuple[int, Result]]:
    """Each number below `count`, and its result. `work` is given some of the numbers, and has a
    result for each in turn; where a process is killed, its numbers are worked on in this one."""
    step = min(_processes(), count)
    shares = [range(first, count, step) for first in range(step)]
    started = [_started(work, share) for share in shares[1:]]
    try:
        yield from zip(shares[0], work(shares[0]), strict=True)
        for share, (_, pipe) in zip(shares[1:], started, strict=True):
            try:
                found = pipe.recv()
            except EOFError:
                found = work(share)
            if isinstance(found, Exception):
                raise found
            yield from zip(share, found, strict=True)
    finally:
        for process, pipe in started:
            process.kill()
            process.join()
            pipe.close()


def _processes() -> int:
    """One where this process has threads: of what they hold, a forked one could wait for ever."""
    from multiprocessing import current_process

    alone = threading.active_count() == 1 and not current_process().daemon
    return max(1, min(_MOST, int(available.cpus().left))) if alone else 1


def _started(work: Callable[[Sequence[int]], Iterable[Any]], share: range) -> tuple[Any, Any]:
    from multiprocessing import get_context

    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, work, share), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _work(
    pipe: Connection[Any, Any], work: Callable[[Sequence[int]], Iterable[Any]], share: range
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    found: list[Any] | Exception
    try:
        found = [*work(share)]
    except Exception as error:
        found = error
    pipe.send(found)
