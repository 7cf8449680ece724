"""What the store holds, a row a dataclass. Times are Unix times, durations seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RunRow:
    id: str
    experiment: str
    name: str | None
    created_at: str
    seed: int
    request: Mapping[str, Any]
    environment: Mapping[str, Any]
    memlab: str


@dataclass(frozen=True, slots=True)
class PointRow:
    point: int
    levels: Mapping[str, Any]
    control: str | None


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One trial as it ended. `raw` is the probe's result, None where it returned none."""

    point: int
    block: int
    position: int
    outcome: str
    detail: str | None
    started_at: float
    trial_s: float
    cpu: int | None
    probe_hash: str
    raw: Mapping[str, Any] | None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One sitting of a run: its start (Unix time), its wall time, how it ended."""

    session: int
    started_at: float
    wall_s: float
    ended: str | None
