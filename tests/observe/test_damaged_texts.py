"""Texts of the kernel that are damaged: each parser reads them or raises ValueError.

The texts are short and fixed, so that every damage of a kind is tried, each time the same ones.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memlab.observe import cgroup, proc, process

from . import test_proc, test_process

TEXTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "status": (test_proc.STATUS, proc.parse_status),
    "meminfo": (test_proc.MEMINFO, proc.parse_meminfo),
    "vmstat": ("nr_free_pages 12\npgfault 0\n", proc.parse_vmstat),
    "interrupts": (test_proc.INTERRUPTS, lambda text: proc.parse_interrupts(text, "TLB")),
    "interrupts by CPU": (
        test_proc.INTERRUPTS,
        lambda text: process.parse_interrupts_by_cpu(text, "TLB"),
    ),
    "life": (test_proc.stat_of("a (b) c"), proc.parse_life),
    "mountinfo": (test_proc.MOUNTINFO, proc.parse_mountinfo),
    "swaps": (test_proc.SWAPS, proc.parse_swaps),
    "stat": (test_process.STAT.format(flags=0x40_0040), process.parse_stat),
    "maps": (test_process.MAPS, process.parse_maps),
    "smaps": (test_process.SMAPS, process.parse_maps),
    "smaps_rollup": (test_process.ROLLUP, process.parse_rollup),
    "limits": (test_process.LIMITS, lambda text: process.parse_limit(text, "Max locked memory")),
    "cgroup": ("4:memory,cpu:/a\n0::/b:c\n", cgroup.parse_membership),
}


def damaged(text: str) -> Iterator[str]:
    """Cut before and after each character; each character, word and line left out, or doubled."""
    for at in range(len(text) + 1):
        yield from (text[:at], text[at:], text[:at] + text[at + 1 :])
    for part in re.finditer(r"\S+|[^\n]*\n", text):
        before, after = text[: part.start()], text[part.end() :]
        yield from (before + after, f"{before}{part[0]}{part[0]}{after}")
        yield from (f"{before}{other}{after}" for other in ("-1", "x", "9" * 30, "\n", "A: 1 kB\n"))


@pytest.mark.parametrize("name", TEXTS)
def test_a_damaged_text_is_read_or_is_a_value_error(name: str) -> None:
    text, parse = TEXTS[name]
    assert parse(text) is not None
    for one in damaged(text):
        try:
            parse(one)
        except ValueError:
            continue
        except Exception as error:
            pytest.fail(f"{error!r} of {one!r}")
