"""memlab's side of a comparison: one probe, one file in memory, one CPU, a fresh process a call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.run.fork_server import ForkServer
from memlab.run.settings import Unavailable

PAGE_BYTES = 4096
STRANDS = 2
# Whole calls at 1, 100, 4096 and 10240 bytes, and 50 to 100 ms of most methods.
FILE_BYTES = 10240 * 51200
PILOT_S = 0.08
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Operation:
    """What is measured: one method of an experiment, at one size of call."""

    experiment: str
    method: str
    size_bytes: int
    touch: str | None = None  # for mmap-read alone

    def params(self, path: Path, byte_count: int, slice_s: float) -> dict[str, Any]:
        """The probe's params for the first `byte_count` bytes of the file, all else as in a plain
        sweep's first point."""
        declared = experiments.load(self.experiment)
        at = {factor.name: factor.quick[0] for factor in declared.factors}
        at |= {"size": self.size_bytes, "method": self.method}
        at |= {"file_size": byte_count, "slice": slice_s}
        at |= {} if self.touch is None else {"touch": self.touch}
        return declared.params(at, {"path": str(path)})


@dataclass(frozen=True, slots=True)
class Lab:
    """Where operations run."""

    server: ForkServer
    cpu: int
    path: Path

    def run(self, operation: Operation, byte_count: int, slice_s: float = 0.0) -> dict[str, Any]:
        """The probe's result. Unavailable where this machine lacks what the trial needs;
        AssertionError if it ended otherwise."""
        probe = experiments.load(operation.experiment).probe
        file = {"path": str(self.path), "state": "cached_4k", "size_bytes": FILE_BYTES}
        return self._reply(probe, operation.params(self.path, byte_count, slice_s), file)

    def noop(self) -> dict[str, Any]:
        """The result of a trial that measures nothing."""
        return self._reply("noop", {}, None)

    def pilot_bytes(self, operation: Operation) -> int:
        """How much of the file the operation gets through in about 80 ms, in whole calls."""
        result = self.run(operation, FILE_BYTES, slice_s=PILOT_S)
        return int(result["byte_count"])

    def _reply(
        self, probe: str, params: Mapping[str, Any], file: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        reply = self.server.run(
            {"probe": probe, "params": params, "file": file, "cpus": [self.cpu], "limit_s": LIMIT_S}
        )
        if reply["outcome"] == "unavailable":
            raise Unavailable(reply["detail"])
        assert reply["outcome"] == "ok", reply["detail"]
        result: dict[str, Any] = reply["result"]
        return result


def call_ns(result: Mapping[str, Any]) -> float:
    """The time of one call in the window."""
    return float(result["window"]["elapsed_ns"] / result["call_count"])


def floor_ns(result: Mapping[str, Any]) -> float:
    """The time of one turn of the same loop without its operation."""
    return float(result["floor_ns"] / result["floor_call_count"])


def write_file(path: Path) -> None:
    """Fill the page cache with a file whose halves lie alike in physical memory.

    Pages that are allocated first come from the small, scattered free blocks, and a call on
    them is dearer (seen: a third). The halves' pages are allocated in turn, so that the whole
    file is twice the work of its first half.
    """
    page = os.urandom(PAGE_BYTES)
    strand_bytes = FILE_BYTES // STRANDS
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for offset in range(0, strand_bytes, PAGE_BYTES):
            for strand in range(STRANDS):
                os.pwrite(fd, page, strand * strand_bytes + offset)
    finally:
        os.close(fd)
