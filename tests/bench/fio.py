"""fio beside memlab: run on one file, its own overhead taken off."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

LOOPS = 4  # fio counts its run time in milliseconds


@dataclass(frozen=True, slots=True)
class Fio:
    """fio, and what it measures: sequential writes by one thread over a file that exists."""

    binary: str
    file: Path
    cpu: int

    def call_ns(self, engine: str, size_bytes: int) -> float:
        """The time of one call of an I/O engine over the whole file.

        No time stamp a call (gtod_reduce), no change to the buffer (scramble_buffers), no
        dropping of the page cache (invalidate), no new layout of the file (overwrite): each of
        these is fio's default and would be in its figure alone.
        """
        options = {
            "name": "beside-memlab",
            "filename": self.file,
            "size": self.file.stat().st_size,
            "rw": "write",
            "bs": size_bytes,
            "ioengine": engine,
            "cpus_allowed": self.cpu,
            "loops": LOOPS,
            "overwrite": 1,
            "fallocate": "none",
            "invalidate": 0,
            "scramble_buffers": 0,
            "gtod_reduce": 1,
            "output-format": "json",
        }
        command = [self.binary, "--thread", *(f"--{key}={value}" for key, value in options.items())]
        report = json.loads(subprocess.check_output(command, cwd=self.file.parent))
        writes = report["jobs"][0]["write"]
        assert writes["io_bytes"] == LOOPS * self.file.stat().st_size
        return float(writes["runtime"] * 1e6 / writes["total_ios"])

    def own_ns(self, engine: str, size_bytes: int) -> float:
        """The time of a call without that of fio's own loop, which ioengine=null shows."""
        return self.call_ns(engine, size_bytes) - self.call_ns("null", size_bytes)
