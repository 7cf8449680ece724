"""load_latency: a prime number of loads ends where this chain, made again here, leads."""

from typing import Any

import in_child
import pytest

LINE = 64
LINES = 1009
SEED, TIMES, WORD = 0x9E3779B97F4A7C15, 0x2545F4914F6CDD1D, (1 << 64) - 1


def run(**change: Any) -> dict[str, Any]:
    params = {"size_bytes": LINES * LINE, "pages": "small", "loads_count": 1}
    return in_child.call("load_latency", params | change)


def chain(count: int) -> list[int]:
    """Which line each line leads to: Sattolo's cycle by xorshift64*."""
    state, follows = SEED, [*range(count)]
    for i in range(count - 1, 0, -1):
        state ^= state >> 12
        state = (state ^ state << 25) & WORD
        state ^= state >> 27
        j = (state * TIMES & WORD) % i
        follows[i], follows[j] = follows[j], follows[i]
    return follows


def test_the_chain_is_one_cycle_through_every_line() -> None:
    at, visited = 0, set()
    follows = chain(LINES)
    while at not in visited:
        visited.add(at)
        at = follows[at]
    assert at == 0
    assert len(visited) == LINES


@pytest.mark.parametrize("loads", [1, 23, LINES - 1, LINES, LINES + 1, 2 * LINES, 104_729])
def test_so_many_loads_end_at_the_line_where_the_chain_leads(loads: int) -> None:
    at, follows = 0, chain(LINES)
    for _ in range(loads):
        at = follows[at]
    result = run(loads_count=loads)
    assert result["end_line"] == at
    assert result["load_count"] == loads
    assert (result["line_count"], result["line_bytes"]) == (LINES, LINE)
    assert (at == 0) == (loads % LINES == 0)


@pytest.mark.parametrize("pages", ["small", "huge"])
def test_no_load_faults(pages: str) -> None:
    result = run(pages=pages, size_bytes=23 * (2 << 20), loads_count=104_729)
    assert result["window"]["minor_fault_count"] == 0
    assert pages == "huge" or result["huge_bytes"] == 0


def test_the_least_chain_is_of_two_lines() -> None:
    assert run(size_bytes=2 * LINE, loads_count=7)["end_line"] == 1
    for wrong in (LINE, LINE * 3 // 2, 0):
        with pytest.raises(Exception, match="size_bytes must be a multiple of 64"):
            run(size_bytes=wrong)
