"""What a limit is expected to cost, by the memory that an unlimited run used again.

A page that is used again after w seconds is evicted meanwhile if the program used more other
memory in w seconds than there is room for. So with room for r bytes, refaults come at the rate at
which the memory that is used in a window grows with the window, where it passes r (Denning, The
working set model for program behavior, 1968). What a program touches first is not a refault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import Any

PAGE_BYTES = 4096
_REFAULT_S = 1e-4  # of a page that is read from storage; zram takes a fifth of it
_SIZES = 64  # between no room and room for all
_ANONYMOUS, _FILE = (1, 2), (3, 4)  # used again, resident: memlab/command/used_pages.py


@dataclass(frozen=True, slots=True)
class Episode:
    """The memory that was used again within windows of a run: (seconds, bytes), both rising. More
    than `resident_bytes` was never there."""

    windows: Sequence[tuple[float, float]]
    resident_bytes: float

    @property
    def seconds(self) -> float:
        return self.windows[-1][0]

    def refaults_per_s(self, room_bytes: float) -> float:
        """Between two windows memory grows by the logarithm of the window. What is used next after
        the longest one may be any of the rest, of which there is room for a part."""
        first_s, first = self.windows[0]
        if room_bytes < first:
            return first / first_s / PAGE_BYTES
        if room_bytes >= self.resident_bytes:
            return 0.0
        rate = 0.0
        for (began_s, below), (ended_s, above) in pairwise(self.windows):
            per_e_fold = (above - below) / log(ended_s / began_s)
            if below <= room_bytes < above:
                return per_e_fold / began_s * exp((below - room_bytes) / per_e_fold) / PAGE_BYTES
            rate = per_e_fold / ended_s / PAGE_BYTES
        longest = self.windows[-1][1]
        return rate * (self.resident_bytes - room_bytes) / max(1.0, self.resident_bytes - longest)


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of limits. `floor_bytes` cannot be reclaimed; without `episodes` it is all
    that is known."""

    floor_bytes: int
    episodes: Sequence[Episode] = ()

    def refaults_per_s(self, limit_bytes: int) -> float | None:
        """None if it is not known, or if the limit is below what cannot be reclaimed."""
        if not self.episodes or limit_bytes < self.floor_bytes:
            return None
        return self._rate(limit_bytes - self.floor_bytes)

    def reused_bytes(self, within: float) -> int | None:
        """The least room beside the floor with which, and with more, refaults take no more than
        this share of the time; None if it is not known."""
        if not self.episodes:
            return None
        ends = {round(size) for episode in self.episodes for _, size in episode.windows}
        least = round(max(episode.resident_bytes for episode in self.episodes))
        for size in sorted({*ends, *range(0, least, max(1, least // _SIZES))}, reverse=True):
            if self._rate(size) * _REFAULT_S > within:
                break
            least = size
        return least

    def _rate(self, room_bytes: float) -> float:
        """Over all episodes, by how long each is."""
        counts = (episode.seconds * episode.refaults_per_s(room_bytes) for episode in self.episodes)
        return sum(counts) / sum(episode.seconds for episode in self.episodes)


def episodes(readings: Mapping[str, Any], *, with_anonymous: bool) -> list[Episode]:
    """As the probe read them: of mapped files, and `with_anonymous` of all memory."""
    columns = [_FILE, _ANONYMOUS] if with_anonymous else [_FILE]
    results = []
    for rows in readings.get("episodes", ()):
        windows: list[tuple[float, float]] = []
        most = resident = 0.0
        for row in rows:
            most = max(most, sum(row[used] for used, _ in columns))
            resident = max(resident, sum(row[at] for _, at in columns))
            if row[0] > (windows[-1][0] if windows else 0.0):
                windows.append((float(row[0]), most))
        if windows:
            results.append(Episode(windows, resident))
    return results
