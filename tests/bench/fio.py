"""fio beside memlab: found or installed, run on one file, its own overhead taken off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends", "fio"]
INSTALL_LIMIT_S = 300
LOOPS = 4  # fio counts its run time in milliseconds


class Missing(Exception):
    """There is no fio here; one line says why."""


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


def find() -> str:
    """The path of fio, installed by the package manager where it can be. Missing if not."""
    if found := shutil.which("fio"):
        return found
    if os.geteuid() != 0:
        raise Missing("fio is not installed, and installing it needs root: apt-get install fio")
    if shutil.which("apt-get") is None:
        raise Missing("fio is not installed, and there is no apt-get to install it")
    for command in (["apt-get", "update"], INSTALL):
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
        if done.returncode != 0:
            why = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
            raise Missing(f"fio is not installed, and {' '.join(command)} failed: {why[0]}")
    found = shutil.which("fio")
    if found is None:
        raise Missing("fio was installed, and is not on the PATH")
    return found
