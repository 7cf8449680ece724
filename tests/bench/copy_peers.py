"""mbw and lmbench's bw_mem, asked how fast they copy."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
LIMIT_S = 300
TESTS = (0, 1, 2)  # mbw's -t
_BLOCK = 2  # the test that has an option for the size of a block
_AVERAGE = re.compile(r"^AVG\s+Method: (\w+)\s+Elapsed: ([\d.]+)\s+MiB: ([\d.]+)", re.MULTILINE)
_COPIED = re.compile(r"^copied (\d+) from (\d+)$", re.MULTILINE)
_PROBE_MIB = 8


@dataclass(frozen=True, slots=True)
class Mbw:
    """mbw: two arrays from calloc, both written before; then copies of the whole, each timed.

    Its labels are not to be relied on: 1.2.2 prints MEMCPY over the loop and DUMB over memcpy, and
    its MCBLOCK copies the source's first block into every block (`b = mempcpy(b, a, block_size)`).
    `count_memcpy` is a library that says how much a program had memcpy copy, and from how much.
    """

    binary: str
    cpu: int
    count_memcpy: Path

    def copy_ms(self, test: int, size_bytes: int, copies: int) -> float:
        """The mean time of a copy."""
        found = _AVERAGE.search(self._run(test, size_bytes // MIB, copies, {}))
        assert found, f"mbw -t{test} printed no average"
        assert float(found[3]) * MIB == size_bytes
        return float(found[2]) * 1e3

    def label(self, test: int) -> str:
        """What it calls a test."""
        found = _AVERAGE.search(self._run(test, _PROBE_MIB, 1, {}))
        assert found, f"mbw -t{test} printed no average"
        return found[1]

    def tests(self) -> dict[str, int]:
        """memlab's method for each of its tests, by what it does and not by what it says."""
        methods = {self._method(test): test for test in TESTS}
        assert len(methods) == len(TESTS), methods
        return methods

    def _method(self, test: int) -> str:
        printed = self._run(test, _PROBE_MIB, 1, {"LD_PRELOAD": str(self.count_memcpy)})
        found = _COPIED.search(printed)
        assert found, f"mbw does not load {self.count_memcpy}"
        copied_bytes, source_bytes = map(int, found.groups())
        if copied_bytes == 0:
            return "dumb"
        if source_bytes < copied_bytes:
            return "block_again"
        return "block" if test == _BLOCK else "libc"

    def _run(self, test: int, size_mib: int, copies: int, environ: Mapping[str, str]) -> str:
        options = [f"-t{test}", "-n", str(copies), str(size_mib)]
        return _run(self.binary, options, self.cpu, environ)


@dataclass(frozen=True, slots=True)
class BwMem:
    """bw_mem of lmbench 3: bcopy(3) from one page-aligned area to another, again and again.

    It times as many copies as take ENOUGH microseconds, which it would else find out anew each
    time, and prints the median of its repetitions in megabytes of 10^6 bytes a second. One here:
    what disturbs a copy makes it slower, so that a median of several is below any mean.
    """

    binary: str
    cpu: int
    enough_us: int

    def copy_ms(self, size_bytes: int) -> float:
        """The time of a copy."""
        options = ["-N", "1", str(size_bytes), "bcopy"]
        printed = _run(self.binary, options, self.cpu, {"ENOUGH": str(self.enough_us)})
        _, rate = printed.split()
        return size_bytes / float(rate) * 1e-3


def _run(binary: str, options: list[str], cpu: int, environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        [binary, *options],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, **environ},
        preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
    )
    return done.stdout
