"""Runs of mmap-write on a machine where every call and byte has a price, with 1 % noise."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from synthetic import run_row, sample, window

from memlab import api, experiments
from memlab.experiment import At
from memlab.experiment.levels import check_levels
from memlab.request import Request
from memlab.run import plan
from memlab.store import PointRow, Store

BYTE_NS = {"mmap": 0.1, "write": 0.02}
CALL_NS = {"mmap": 1, "write": 500}
BYTES = 1 << 20


class Machine:
    """`factor`: how many times as long its writes take. Each run goes into the store."""

    def __init__(self, store: Path) -> None:
        self.store, self.factor, self.blocks = store, 1.0, 9
        self.environment: dict[str, Any] = {"kernel_release": "6.1.0", "host_name": "secret"}
        self.asked: list[dict[str, Any]] = []
        self.host: dict[str, int] = {}  # what the host counts during each trial

    def sweep(self, experiment: str, **asked: Any) -> api.Run:
        """As api.sweep."""
        self.asked.append(asked)
        declared = experiments.load(experiment)
        if experiment == "mmap-write":  # one state of the file on two file systems
            asked = {"file_state": "cached_4k", "filesystem": ["dir", "tmpfs"]} | asked
        given = {f.name: asked[f.name] for f in declared.factors if f.name in asked}
        levels = check_levels(declared, given)
        points = plan.build(declared, "quick", levels, controls=asked.get("controls", True)).points
        row = run_row(
            id=f"{len(self.asked):08x}",
            experiment=experiment,
            request=asdict(Request(experiment)),
            environment=self.environment,
        )
        with Store(self.store, create=True) as store:
            store.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
            session = store.begin_session(row.id)
            for block in range(self.blocks):
                for point in points:
                    result = self._raw(point.at, block)
                    reply = {"outcome": "ok", "result": result, "probe_hash": "5eed"}
                    store.add_sample(row.id, session, 1.0, sample(point.index, block, reply))
            store.end_session(row.id, session, 1.0, "blocks")
        return api.Run(row, self.store)

    def _raw(self, at: At, block: int) -> dict[str, Any]:
        size, method = int(at["size"]), str(at["method"])
        calls = BYTES // size
        elapsed_ns = calls * CALL_NS[method] + BYTE_NS[method] * BYTES
        if method == "write":
            elapsed_ns *= self.factor
        return {
            "window": window(round(elapsed_ns * (1 + 0.005 * (block * 7 % 5 - 2)))),
            "host": self.host,
            "call_count": calls,
            "byte_count": calls * size,
            "floor_ns": 1,
            "floor_call_count": 10,
            "prepare_ns": 1,
            "sync_ns": 0,
            "resident_before_bytes": BYTES,
        }
