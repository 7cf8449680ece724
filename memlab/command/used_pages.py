"""Which memory a command uses again, read beside one run of it that is not measured.

The accessed bits of all its processes are cleared, then read in windows that double. The next
episode is twice as long, so that half of the run lies in its last whole episode, however long the
run takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from memlab.observe import files, used_pages
from memlab.observe.used_pages import UsedMemory

_FIRST_S = 0.1  # the first episode; before it a program starts
_HALVINGS = 7  # so many windows within an episode, and the whole of it
_LEAST_S = 0.01
_READING_SHARE = 0.05  # of the time, at most: calls that map memory wait meanwhile

Memory = tuple[UsedMemory, UsedMemory]
Window = tuple[float, int, int, int, int]
_NOTHING: Memory = (UsedMemory(), UsedMemory())


class UsedPages:
    """Reads until it is stopped. `pids` lists the processes as they are now."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._episodes: list[list[Window]] = []
        self._why = ""
        self._cost_s = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def readings(self) -> dict[str, Any]:
        """Of each episode its windows: seconds, then how much anonymous memory was used again and
        is resident, and the same of files. `why` says why nothing was read."""
        return {"episodes": [episode for episode in self._episodes if episode], "why": self._why}

    def _read(self) -> None:
        episode_s = _FIRST_S
        while not self._stopped.wait(max(_LEAST_S, self._cost_s / _READING_SHARE)):
            try:
                if self._has_read_episode(episode_s):
                    episode_s *= 2
            except OSError as error:
                self._why = self._why or f"clear_refs: {error.strerror}"
                return

    def _has_read_episode(self, episode_s: float) -> bool:
        """Whether there was anything to read: not while the command starts."""
        for pid in [*self._pids()]:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                used_pages.clear(pid)
        began_s = time.monotonic()
        before = self._memory()
        windows: list[Window] = []
        self._episodes.append(windows)
        for halvings in range(_HALVINGS, -1, -1):
            window_s = episode_s / 2**halvings
            if window_s < max(_LEAST_S, self._cost_s / _READING_SHARE):
                continue
            if self._stopped.wait(began_s + window_s - time.monotonic()):
                break
            seconds, memory = time.monotonic() - began_s, self._memory()
            if not memory:
                break
            windows.append((seconds, *_reused(before, memory, 0), *_reused(before, memory, 1)))
        return bool(windows)

    def _memory(self) -> dict[int, Memory]:
        """By process, anonymous memory and that of files."""
        began_s, sizes = time.thread_time(), {}
        for pid in self._pids():
            if memory := files.known(partial(used_pages.read, pid)):
                sizes[pid] = memory
        self._cost_s = time.thread_time() - began_s
        return sizes


def _reused(before: Mapping[int, Memory], now: Mapping[int, Memory], kind: int) -> tuple[int, int]:
    """What was used, less what has become resident since the bits were cleared, which is new; and
    what is resident."""
    reused = resident = 0
    for pid, memory in now.items():
        at = memory[kind]
        new = at.resident_bytes - before.get(pid, _NOTHING)[kind].resident_bytes
        reused += max(0, at.used_bytes - max(0, new))
        resident += at.proportional_bytes
    return reused, resident
