"""What mmap-write and mmap-read share: the file, the sizes, and the metrics of a loop of calls."""

from collections.abc import Mapping, Sequence

from memlab.experiment import *

KIB, MIB, GIB = 2**10, 2**20, 2**30
TABLE_BYTES = 2 * GIB  # both published tables are for a file of 2 GiB

SIZE = Factor(
    "size",
    BYTES,
    quick=[1, 100, 512, 1 * KIB, 2 * KIB, 4 * KIB, 8 * KIB, 10 * KIB],
    help="bytes per call",
    least=1,
)
FILE_STATES = choice("cached_4k", "cached_1m", "sparse", "preallocated", "dropped")
FILESYSTEM = Factor(
    "filesystem",
    choice("dir", "tmpfs"),
    quick=["dir", "tmpfs"],
    help="file system; dir: that of --dir; tmpfs: /dev/shm",
    level_labels={"dir": "file system of --dir"},
)
ON_DISK = Factor(
    "filesystem",
    choice("dir"),
    quick=["dir"],
    help="file system; dir: that of --dir",
    level_labels={"dir": "file system of --dir"},
)
FILE_SIZE = Factor("file_size", BYTES, quick=[256 * MIB], paper=[2 * GIB], help="file size")
POPULATE = Factor("populate", FLAG, quick=[False], help="MAP_POPULATE; a flag of the mapping")
SLICE = Factor(
    "slice", SECONDS, quick=[0.1], paper=[1.0], help="longest time in the loop; 0: the whole file"
)
TINY: Mapping[str, Sequence[Level]] = {
    "size": [4 * KIB],
    "file_size": [64 * KIB],
    "slice": [0.0],
    "filesystem": ["dir"],
}


def file_state(
    *full: Level,
    quick: Sequence[Level] = ("cached_4k",),
    labels: Mapping[Level, str] | None = None,
) -> Factor:
    return Factor(
        "file_state",
        FILE_STATES,
        quick=quick,
        full=full,
        level_labels=labels or {},
        help="state of the file; cached_4k, cached_1m: in the page cache, written in pieces of 4 "
        "KiB or 1 MiB, which decides the size of its folios; sparse: never written; preallocated: "
        "by fallocate; dropped: written, then dropped from the page cache",
    )


def advice(*full: Level) -> Factor:
    return Factor(
        "advice",
        ENUM,
        quick=["normal"],
        full=full,
        help="advice; madvise(2) on the mapping before the window",
        level_labels={
            "normal": "no advice",
            "sequential": "MADV_SEQUENTIAL",
            "populate_read": "MADV_POPULATE_READ",
            "populate_write": "MADV_POPULATE_WRITE",
            "hugepage": "MADV_HUGEPAGE",
        },
    )


def loop_time(at: At) -> float:
    return float(at["slice"] or 0.0) + 0.01


def turns(at: At) -> bool:
    """Where nothing is read from a disk or synced, which would be done in the turns of others, and
    no new page of a disk's file is faulted in, for which the kernel reads ahead of the turn."""
    # do_sync_mmap_readahead, mm/filemap.c; tests/bench/README.md has turn against window.
    here = at["file_state"] != "dropped" and not at.get("sync")
    faults = at["method"] == "mmap" and at["advice"] == "normal" and not at["populate"]
    ahead = faults and at["file_state"] in ("sparse", "preallocated") and at["filesystem"] == "dir"
    return here and not ahead and float(at["slice"] or 0.0) > 0


NO_DONTCACHE_ON_TMPFS = Exclude(
    lambda at: at["method"] == "dontcache" and at["filesystem"] == "tmpfs",
    "what tmpfs holds is only in the page cache",
)
EXCLUDES = [
    Exclude(
        lambda at: at["filesystem"] == "tmpfs" and at["file_state"] == "dropped",
        "tmpfs has no disk from which a dropped page could be read back",
    ),
    Exclude(
        lambda at: int(at["file_size"]) < int(at["size"]),
        "a call cannot transfer more than the whole file",
    ),
]
METRICS = [
    Metric(
        "time_2gib",
        "s",
        "time for 2 GiB; at the measured rate",
        of=F.window.elapsed_ns * TABLE_BYTES / F.byte_count,
        baseline_loop=F.floor_ns / F.floor_call_count * (TABLE_BYTES / F.at.size),
        extrapolated=F.byte_count < TABLE_BYTES - F.at.size,
        of_cost=lambda call_time, at: call_time * TABLE_BYTES / float(at["size"]),
    ),
    Metric(
        "call_time",
        "s/call",
        "time per call",
        of=F.window.elapsed_ns / F.call_count,
        baseline_loop=F.floor_ns / F.floor_call_count,
        of_cost=lambda call_time, at: call_time,
    ),
    Metric(
        "mean_call_time",
        "s/call",
        "mean time per call; over all turns with the machine's stalls, as a window has it",
        of=F.loop_ns.or_(F.window.elapsed_ns) / F.call_count,
    ),
    Metric(
        "stalled",
        "1",
        "share of the time in stalls of the machine; what the mean of all turns has beyond their "
        "median",
        of=1 - F.window.elapsed_ns / F.loop_ns.optional,
    ),
    Metric(
        "bandwidth",
        "B/s",
        "bandwidth; bytes transferred per second",
        of=F.byte_count / F.window.elapsed_ns,
        lower_is_better=False,
    ),
    Metric(
        "faults_per_mib",
        "faults/MiB",
        "minor faults per MiB; one per page of 4 KiB is 256",
        of=F.window.minor_fault_count / (F.byte_count / MIB),
    ),
    Metric(
        "prepare_time",
        "s",
        "preparation time; mmap, MAP_POPULATE and madvise, before the window",
        of=F.prepare_ns,
    ),
]
