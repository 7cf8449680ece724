"""What mmap-write and mmap-read share: the file, the sizes, and the metrics of a loop of calls."""

from memlab.experiment import BYTES, FLAG, SECONDS, Exclude, Factor, Metric, choice

KIB, MIB, GIB = 2**10, 2**20, 2**30
TABLE_BYTES = 2 * GIB  # both published tables are for a file of 2 GiB

SIZE = Factor(
    "size",
    BYTES,
    quick=[1, 100, 512, 1 * KIB, 2 * KIB, 4 * KIB, 8 * KIB, 10 * KIB],
    help="bytes a call",
)
FILE_STATES = choice("cached_4k", "cached_1m", "sparse", "preallocated", "dropped")
FILE_STATE_HELP = (
    "how the file came to be: in the page cache, written in 4 KiB or in 1 MiB pieces (which "
    "decides its folios); never written; allocated; written, then dropped from the cache"
)
FILESYSTEM = Factor(
    "filesystem",
    choice("dir", "tmpfs"),
    quick=["dir", "tmpfs"],
    help="where the file lies: the directory of --dir, or /dev/shm",
)
FILE_SIZE = Factor("file_size", BYTES, quick=[256 * MIB], paper=[2 * GIB], help="bytes in the file")
POPULATE = Factor("populate", FLAG, quick=[False], help="map with MAP_POPULATE")
SLICE = Factor(
    "slice",
    SECONDS,
    quick=[0.1],
    paper=[1.0],
    help="longest time in the loop; 0 for the whole file",
)
EXCLUDES = [
    Exclude(
        lambda at: at["filesystem"] == "tmpfs" and at["file_state"] == "dropped",
        "tmpfs has no disk to drop the page cache to",
    ),
    Exclude(
        lambda at: int(at["size"]) < 1 or int(at["file_size"]) < int(at["size"]),
        "a call moves at least 1 byte and at most the file",
    ),
]
METRICS = [
    Metric(
        "time_2gib",
        "s",
        "time for 2 GiB at the rate seen",
        of=lambda raw, at: raw["window"]["elapsed_ns"] * 1e-9 * TABLE_BYTES / raw["byte_count"],
        floor=lambda raw, at: (
            raw["floor_ns"] * 1e-9 / raw["floor_call_count"] * (TABLE_BYTES / int(at["size"]))
        ),
        extrapolated=lambda raw, at: bool(raw["byte_count"] < TABLE_BYTES - int(at["size"])),
        of_cost=lambda call_time, at: call_time * TABLE_BYTES / float(at["size"]),
    ),
    Metric(
        "call_time",
        "s/call",
        "time a call",
        of=lambda raw, at: raw["window"]["elapsed_ns"] * 1e-9 / raw["call_count"],
        floor=lambda raw, at: raw["floor_ns"] * 1e-9 / raw["floor_call_count"],
        of_cost=lambda call_time, at: call_time,
    ),
    Metric(
        "bandwidth",
        "B/s",
        "bytes a second that went by",
        of=lambda raw, at: raw["byte_count"] / (raw["window"]["elapsed_ns"] * 1e-9),
        lower_is_better=False,
    ),
    Metric(
        "faults_per_mib",
        "faults/MiB",
        "minor faults a MiB that went by; one a page of 4 KiB is 256",
        of=lambda raw, at: raw["window"]["minor_fault_count"] / (raw["byte_count"] / MIB),
    ),
    Metric(
        "prepare_time",
        "s",
        "mmap, MAP_POPULATE and madvise, before the window",
        of=lambda raw, at: raw["prepare_ns"] * 1e-9,
    ),
]
