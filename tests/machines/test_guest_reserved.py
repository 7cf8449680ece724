"""Memory kept back from a guest's kernel: mapped for real, never locked, and no RAM in use is."""

from pathlib import Path

import pytest
from test_guest import sweep

from memlab.api import Run
from memlab.experiment import Level
from memlab.experiments.reserved_copy import PHYSICAL_RANGE
from memlab.machines.guest.host import GuestTarget
from memlab.machines.guest.machine import GuestSpec
from memlab.text.units import MiB

KEPT_FROM = 512 * MiB
MEMORY = 768 * MiB
SIZE = 64 << 10
TYPES = {"cached": "write-back", "uncached": "uncached-minus"}

# Of the guest: its kernel's memory, both sides of where that ends, the firmware's, its devices'.
REFUSED = {
    "16m+128k": "System RAM",
    "0x2000000-0x201ffff": "System RAM",
    "511.5m+1m": "System RAM",
    "640k+128k": "below 1 MiB",
    "0xfee00000+0x20000": "is in use",
    "0xfffffffffffe0000+128k": "ends beyond",
    "0x20000001+0x20000": "is not whole pages",
}
PERMITTED = "513m+1m"


@pytest.mark.slow
def test_reserved_memory_of_a_guest(guest_kernel: str, store_path: Path) -> None:
    append = f"mem={KEPT_FROM // MiB}M"
    tiny: dict[str, list[Level]] = {"size": [SIZE], "memory": ["reserved"], "clean": ["none"]}
    ranges: list[Level] = [PHYSICAL_RANGE.parse(text) for text in (PERMITTED, *REFUSED)]
    one: dict[str, list[Level]] = {"cache": ["cached"], "lock": ["none"], "range": ranges}
    spec = GuestSpec(kernel=guest_kernel, memory_bytes=MEMORY, append=append)
    with GuestTarget(spec, silence_s=120) as guest:
        found = sweep(guest, store_path, "reserved-copy", tiny)
        chosen = sweep(guest, store_path, "reserved-copy", tiny | one)
    assert _copies(found) == {(cache, lock) for cache in TYPES for lock in ("none", "mlock")}
    _refuses(chosen)


def _copies(run: Run) -> set[tuple[Level, Level]]:
    """Every byte is copied within the largest range, of the type that was asked for; mlock returned
    0, and nothing is locked. Returns what was measured."""
    at = {point.index: point.at for point in run.points}
    for sample in run.samples:
        raw = sample.raw
        assert raw is not None, sample.detail
        assert raw["copied_count"] == SIZE
        assert raw["window"]["counters"]["vm_locked_bytes"]["count"] == 0
        assert raw["range_start_bytes"] == KEPT_FROM
        assert 200 * MiB < raw["range_bytes"] < MEMORY - KEPT_FROM
        assert raw["memory_type"] == TYPES[str(at[sample.point]["cache"])]
        flags = raw["smaps"].rpartition("VmFlags:")[2].split()
        assert {"pf", "io"} <= set(flags)
        assert "lo" not in flags
        assert "/dev/mem" in raw["smaps"]
    return {(at[sample.point]["cache"], at[sample.point]["lock"]) for sample in run.samples}


def _refuses(run: Run) -> None:
    """All but the one that is the guest's to give away."""
    at = {point.index: point.at for point in run.points}
    ended = {at[sample.point]["range"]: sample for sample in run.samples}
    permitted = ended.pop(PHYSICAL_RANGE.parse(PERMITTED))
    assert permitted.raw is not None, permitted.detail
    assert permitted.raw["range_start_bytes"] == 513 * MiB
    assert len(ended) == len(REFUSED)
    for text, why in REFUSED.items():
        sample = ended[PHYSICAL_RANGE.parse(text)]
        assert sample.outcome == "unavailable"
        assert why in (sample.detail or "")
