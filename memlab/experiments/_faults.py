"""What page-fault counts: the faults that pages and headers explain, and the metrics."""

from math import ceil

from memlab.experiment import At, Metric, Raw

KIB, MIB = 2**10, 2**20
PAGE_BYTES = 4 * KIB  # for what a point needs; a sample says its own
CHUNK_BYTES = 1_024_000  # 20,000 of these fit both printed counts
TABLE_BYTES = 20_000 * CHUNK_BYTES
# glibc's malloc: a chunk of this and more is a mapping of its own, up to so many of them
# (mallopt(3), M_MMAP_THRESHOLD and M_MMAP_MAX).
MAPPED_BYTES, MAPPED_COUNT = 128 * KIB, 65_536
HEADER_BYTES = 16


def mapped_bytes(at: At) -> int:
    """What one allocation maps, before it is rounded up to pages: glibc's sysmalloc_mmap."""
    chunk = int(at["chunk"])
    return (chunk + 23) // 16 * 16 + 8 if at["allocator"] == "malloc" else chunk


def used_bytes(at: At) -> int:
    """From the start of an allocation's first page to its last byte."""
    return int(at["chunk"]) + (HEADER_BYTES if at["allocator"] == "malloc" else 0)


def faults_a_chunk(at: At, page_bytes: int) -> int:
    """All pages where they are locked or used, else the one that malloc's header is in."""
    if at["lock"] == "future":
        return ceil(mapped_bytes(at) / page_bytes)
    if at["touched"] == "all" or at["populate"]:
        return ceil(used_bytes(at) / page_bytes)
    return 1 if at["allocator"] == "malloc" else 0


def over_expected(raw: Raw, at: At) -> float | None:
    """None where the count depends on more than this: malloc's heap, huge pages, no fault."""
    in_heap = at["allocator"] == "malloc" and (
        int(at["chunk"]) < MAPPED_BYTES or int(at["chunks"]) > MAPPED_COUNT
    )
    expected = faults_a_chunk(at, raw["page_bytes"]) * int(at["chunks"])
    if in_heap or at["thp"] == "always" or expected == 0:
        return None
    return float(raw["window"]["minor_fault_count"] / expected)


def memory_bytes(at: At) -> int:
    """The pages that faults bring in, an eighth of a page table a page, and the worker."""
    pages = faults_a_chunk(at, PAGE_BYTES) * int(at["chunks"])
    table_bytes = int(at["chunk"]) * int(at["chunks"]) // 512
    return pages * PAGE_BYTES + table_bytes + 8 * int(at["chunks"]) + 64 * MIB


def trapped_share(raw: Raw, at: At) -> float | None:
    faults, trapped = raw["window"]["minor_fault_count"], raw["window"]["counters"]["trapped"]
    return None if trapped["count"] is None or not faults else float(trapped["count"] / faults)


def took_ns(raw: Raw) -> int:
    """The three parts of the window."""
    return int(raw["alloc_ns"] + raw["populate_ns"] + raw["touch_ns"])


METRICS = [
    Metric(
        "chunk_time",
        "s/chunk",
        "time an allocation, its populating and touching included",
        of=lambda raw, at: took_ns(raw) * 1e-9 / int(at["chunks"]),
    ),
    Metric(
        "faults_20gb",
        "faults",
        "minor faults by rusage for the published 20,000 x 1,024,000 bytes, at the rate seen",
        of=lambda raw, at: (
            raw["window"]["minor_fault_count"]
            * TABLE_BYTES
            / (int(at["chunk"]) * int(at["chunks"]))
        ),
        extrapolated=lambda raw, at: int(at["chunk"]) * int(at["chunks"]) < TABLE_BYTES,
    ),
    Metric(
        "faults_over_expected",
        "1",
        "minor faults over those that pages and headers explain",
        of=over_expected,
    ),
    Metric(
        "trapped_share",
        "1",
        "share of the minor faults that were exceptions, by perf",
        of=trapped_share,
    ),
    Metric(
        "alloc_time",
        "s/chunk",
        "time an allocation",
        of=lambda raw, at: raw["alloc_ns"] * 1e-9 / int(at["chunks"]),
    ),
    Metric(
        "populate_time",
        "s/chunk",
        "time to populate an allocation",
        of=lambda raw, at: (
            raw["populate_ns"] * 1e-9 / int(at["chunks"]) if at["populate"] else None
        ),
    ),
    Metric(
        "touch_time",
        "s/chunk",
        "time to touch an allocation's pages",
        of=lambda raw, at: (
            raw["touch_ns"] * 1e-9 / int(at["chunks"]) if raw["touch_count"] else None
        ),
        floor=lambda raw, at: (
            raw["floor_ns"] * 1e-9 / int(at["chunks"]) if raw["touch_count"] else None
        ),
    ),
    Metric(
        "fault_time",
        "s/fault",
        "time of all three parts over the minor faults in them",
        of=lambda raw, at: (
            took_ns(raw) * 1e-9 / raw["window"]["minor_fault_count"]
            if raw["window"]["minor_fault_count"]
            else None
        ),
        floor=lambda raw, at: (
            raw["floor_ns"] * 1e-9 / raw["window"]["minor_fault_count"]
            if raw["touch_count"] and raw["window"]["minor_fault_count"]
            else None
        ),
    ),
    Metric(
        "release_time",
        "s/chunk",
        "time to give an allocation back, after the window",
        of=lambda raw, at: raw["release_ns"] * 1e-9 / int(at["chunks"]),
    ),
    Metric(
        "resident",
        "B",
        "VmRSS with every allocation held",
        of=lambda raw, at: raw["resident_bytes"]["count"],
    ),
    Metric(
        "page_tables",
        "B",
        "VmPTE with every allocation held",
        of=lambda raw, at: raw["page_table_bytes"]["count"],
    ),
]
