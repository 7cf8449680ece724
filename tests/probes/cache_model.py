"""The cache of coop_reclaim in Python: the same draws, the same list, so that every count of the
probe can be foretold."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate

SEED = 0x9E3779B97F4A7C15  # support/random.h
MASK = 2**64 - 1


def xorshift(state: int = SEED) -> Iterator[int]:
    """xorshift64* (Vigna 2016)."""
    while True:
        state ^= state >> 12
        state = (state ^ (state << 25)) & MASK
        state ^= state >> 27
        yield state * 0x2545F4914F6CDD1D & MASK


def order(count: int) -> list[int]:
    """Fisher and Yates, inside out."""
    numbers, found = xorshift(), [0] * count
    for i in range(count):
        j = next(numbers) % (i + 1)
        found[i] = found[j]
        found[j] = i
    return found


def draws(count: int, skew: str) -> Iterator[int]:
    by_rank, numbers, scanned = order(count), xorshift(), 0
    weights = [1 / (i + 1) for i in range(count)]
    total = sum(weights)
    below = [int(share / total * 2.0**32) for share in accumulate(weights)]
    below[-1] = 2**32
    turn = 0
    while True:
        if skew == "zipf_scan" and turn % 4 == 0:
            yield scanned % count
            scanned += 1
        else:
            number = next(numbers) >> 32
            if skew == "uniform":
                yield number * count >> 32
            else:
                yield by_rank[next(i for i, end in enumerate(below) if end > number)]
        turn += 1


class Cache:
    """Bounded by its own count: at `most` entries it drops its `drop` coldest."""

    def __init__(self, count: int, most: int, drop: int) -> None:
        self.held: OrderedDict[int, None] = OrderedDict()  # the coldest first
        self.most, self.drop, self.dropped, self.hits = most, drop, 0, 0
        for entry in reversed(order(count)):
            self._fill(entry)

    def ask(self, entry: int) -> None:
        if entry in self.held:
            self.hits += 1
            self.held.move_to_end(entry)
        else:
            self._fill(entry)

    def _fill(self, entry: int) -> None:
        self.held[entry] = None
        if len(self.held) >= self.most:
            for _ in range(self.drop):
                self.held.popitem(last=False)
            self.dropped += self.drop
