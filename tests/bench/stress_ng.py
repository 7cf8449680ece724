"""stress-ng's pthread stressor beside memlab: what it times, and how it is asked."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# stressor, bogo ops, real time, user time, system time
_METRICS = re.compile(r"pthread +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)")
LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class StressNg:
    """stress-ng, one stressor on one CPU.

    A bogo op is one pthread_create that succeeded (stress-pthread.c of 0.15.06, and of today).
    The stressor creates pthread-max threads, waits until they run, wakes and joins them: a batch
    of memlab's with as many live threads. But each of its threads also makes some twenty system
    calls (robust lists, tgkill and tkill, prctl, set_tid_address, open and setns, sched_yield),
    waits for the others on a condition variable and a millisecond at most for a signal; and its
    creator clears a table for 30,000 threads before every batch. It sleeps most of the time, so
    only its processor time can be compared.
    """

    binary: str
    cpu: int
    folder: Path

    def thread_cpu_ns(self, live_threads: int, threads: int) -> float:
        """The processor time of a thread, of all that the stressor did for `threads`."""
        options = {
            "pthread": 1,
            "pthread-max": live_threads,
            "pthread-ops": threads,
            "taskset": self.cpu,
            "temp-path": self.folder,
            "timeout": LIMIT_S,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
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
        assert int(found[1]) >= threads, done.stdout
        return (float(found[3]) + float(found[4])) * 1e9 / int(found[1])
