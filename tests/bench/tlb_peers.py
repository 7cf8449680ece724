"""will-it-scale's tlb_flush tests and stress-ng's tlb-shootdown, asked for rates and shootdowns."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import flushes

LIMIT_S = 60
_TOTAL = re.compile(r"total:(\d+)")
_AVERAGE = re.compile(r"^average:(\d+)$", re.MULTILINE)
# bogo ops, real time, user time, system time, bogo ops a second of real time
_METRICS = re.compile(r"tlb-shootdown +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)")


@dataclass(frozen=True, slots=True)
class Asked:
    """Operations per second, and by operation what the machine counted meanwhile."""

    ops_per_s: float
    sent_per_op: float | None
    interrupts_per_op: float


@dataclass(frozen=True, slots=True)
class WillItScale:
    """tlb_flush1 to 3 of will-it-scale, as threads.

    An iteration writes to a page, gives it back by MADV_DONTNEED and reads it, which faults once
    more: of a private file mapping (1), anonymous memory (2), a shared file mapping (3). With two
    threads each is the other's reader, and pays for its interrupts.
    """

    folder: Path

    def ask(self, test: int, threads: int, seconds: int = 1) -> Asked:
        words = [str(self.folder / f"tlb_flush{test}_threads"), "-n", "-t", str(threads)]
        with flushes.counted() as seen:
            printed = subprocess.check_output(
                [*words, "-s", str(seconds)], text=True, timeout=LIMIT_S
            )
        average = _AVERAGE.search(printed)
        assert average, printed
        # The seconds of warming up are printed like the measured ones.
        operations = sum(map(int, _TOTAL.findall(printed)))
        sent = None if seen.sent is None else seen.sent / operations
        return Asked(float(average[1]), sent, seen.interrupts / operations)


@dataclass(frozen=True, slots=True)
class TlbStressor:
    """stress-ng --tlb-shootdown 1 (stress-tlb-shootdown.c of 0.15.06).

    Its workers are processes made by fork: they share the memory, by MAP_SHARED, and no page
    table. Each changes its own mapping by mprotect, and the first gives its own pages back; no
    other CPU runs that address space, so there is nothing to interrupt. It is memlab's
    sharing=processes.
    """

    binary: str
    folder: Path

    def ask(self, operations: int) -> Asked:
        options = {"tlb-shootdown": 1, "tlb-shootdown-ops": operations, "timeout": LIMIT_S}
        options |= {"temp-path": self.folder}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with flushes.counted() as seen:
            done = subprocess.run(
                [self.binary, *words, "--metrics"],
                check=True,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        found = _METRICS.search(done.stdout)
        assert found, done.stdout
        did = int(found[1])
        assert did >= operations, done.stdout
        sent = None if seen.sent is None else seen.sent / did
        return Asked(float(found[5]), sent, seen.interrupts / did)
