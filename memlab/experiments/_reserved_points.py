"""What reserved-copy's samples say of their memory, where its claims are made, its metrics."""

from __future__ import annotations

import errno

from memlab.experiment import At, Level, Metric, Raw

KIB, MIB = 2**10, 2**20
PAGE_BYTES = 4 * KIB
WORKER_BYTES = 32 * MIB
# Bytes a second of a trial's steps, a guess: for the plan's time.
CACHED_RATE, UNCACHED_RATE = 1024 * MIB, 100 * MIB

COPIED = 32 * MIB  # the published copy
RESERVED = ("malloc_to_reserved", "reserved_to_malloc", "reserved")
WITHIN: dict[str, Level] = {"size": COPIED, "memory": "reserved"}
PLAIN: dict[str, Level] = {"cache": "cached", "clean": "none", "lock": "none"}
MALLOC: dict[str, Level] = {"size": COPIED, "memory": "malloc"}


def memory_bytes(at: At) -> int:
    """Two sides, which reserved memory needs none for, but room for one is touched before."""
    side = int(at["size"]) + 2 * PAGE_BYTES
    return 2 * (side + side // 512) + WORKER_BYTES


def trial_time(at: At) -> float:
    """Filling, the copy, comparing."""
    rate = CACHED_RATE if at["cache"] == "cached" else UNCACHED_RATE
    return 0.05 + 4 * int(at["size"]) / rate


def memory_type(raw: Raw) -> str:
    """In force for the reserved memory; "" where that is not to be read here."""
    return str(raw["memory_type"])


def evidence(raw: Raw, at: At) -> str:
    """What mlock returned, VmLck, the memory and its type, and the lines of smaps."""
    locked = raw["window"]["counters"]["vm_locked_bytes"]["count"]
    said = ["mlock(memory) = 0" if at["lock"] == "mlock" else "(not locked)"]
    if locked is not None:
        said.append(f"VmLck: {locked // KIB} kB")
    if raw["range_bytes"]:
        number = raw["memory_type_errno"]
        found = memory_type(raw) or f"unknown, {errno.errorcode.get(number, number)}"
        said.append(f"memory type at 0x{raw['range_start_bytes']:x}: {found}")
    return "\n".join([*said, raw["smaps"].rstrip()])


def copy_s(raw: Raw, _: At) -> float:
    return float(raw["window"]["elapsed_ns"] * 1e-9)


def _flags(raw: Raw) -> set[str]:
    return set(raw["smaps"].rpartition("VmFlags:")[2].split())


METRICS = [
    Metric(
        "copy_time",
        "s",
        "time of the copy",
        of=copy_s,
        floor=lambda raw, _: float(raw["floor_ns"] * 1e-9),
        evidence=evidence,
    ),
    Metric(
        "bandwidth",
        "B/s",
        "bytes copied a second",
        of=lambda raw, at: int(at["size"]) / copy_s(raw, at),
        lower_is_better=False,
    ),
    Metric(
        "vm_lck",
        "B",
        "VmLck of the process, after the copy",
        of=lambda raw, _: raw["window"]["counters"]["vm_locked_bytes"]["count"],
        evidence=evidence,
    ),
    Metric(
        "pfn_mapped",
        "count",
        "VM_PFNMAP of the mapping (pf in VmFlags): 1 where it has it",
        of=lambda raw, _: float("pf" in _flags(raw)),
        evidence=evidence,
    ),
    Metric(
        "write_back",
        "count",
        "memory type in force: 1 for write-back, 0 for another",
        of=lambda raw, _: float(memory_type(raw) == "write-back") if memory_type(raw) else None,
        evidence=evidence,
    ),
]
