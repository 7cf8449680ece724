"""log-append: by which way is a record cheapest that is appended to a log and flushed?"""

from math import inf

from memlab.experiment import *
from memlab.experiments._file_io import NO_DONTCACHE_ON_TMPFS

KIB, MIB = 2**10, 2**20
BLOCK = 4 * KIB  # what O_DIRECT moves a multiple of
OWN = "memlab's own"
PREALLOCATED: dict[str, Level] = {"file_state": "preallocated"}  # what most logs append to
AT_THE_END, EACH = 0, 1  # levels of flush_every

EXPERIMENT = Experiment(
    name="log-append",
    question="By which way is a record cheapest that is appended to a log and flushed to the disk?",
    so=[
        Decision(
            "batching",
            "flush many records at once if a record may wait: the flush decides, not the way of "
            "writing ({number} times)",
            "flush as often as needed: it costs under 20 % here ({number} times)",
            if_holds=(10, inf),
            if_fails=(0, 1.2),
            between="flush several records at once if a record may wait: one at a time takes "
            "{number} times as long",
        ),
        Decision(
            "populating",
            "populate the segment and store into it if records are small and flushed seldom "
            "({number} of write(2)'s time); else use write(2)",
            "use write(2): a populated mapping takes {number} of its time",
            if_holds=(0, 0.95),
            if_fails=(1, inf),
        ),
    ],
    probe="log_append",
    file=File(size="segment"),
    factors=[
        Factor(
            "record",
            BYTES,
            quick=[128, 1 * KIB, 4 * KIB, 64 * KIB],
            help="bytes per record",
            least=1,
        ),
        Factor(
            "method",
            ENUM,
            help="method; mmap: a store into a MAP_SHARED mapping; populated: into one with "
            "MAP_POPULATE, whose time is counted; dontcache: pwritev2(2) with RWF_DONTCACHE; "
            "direct: write(2) with O_DIRECT, in whole blocks of 4 KiB",
            level_labels={"write": "write(2)", "dontcache": "RWF_DONTCACHE", "direct": "O_DIRECT"},
        ),
        Factor(
            "flush_every",
            COUNT,
            quick=[EACH, 100, AT_THE_END],
            help="records per flush; fdatasync(2), of a mapping msync(2); 0: only after the last",
            level_labels={
                EACH: "a flush per record",
                100: "a flush per 100 records",
                AT_THE_END: "a flush at the end",
            },
        ),
        Factor(
            "filesystem",
            choice("dir", "tmpfs"),
            quick=["dir"],
            help="file system; dir: that of --dir; tmpfs: /dev/shm, which has no disk",
            level_labels={"dir": "file system of --dir"},
        ),
        Factor(
            "file_state",
            choice("preallocated", "empty", "cached_4k"),
            quick=["preallocated"],
            paper=["preallocated", "empty", "cached_4k"],
            help="state of the segment; preallocated: by fallocate, at its full length; empty: it "
            "grows with each record, for a mapping by ftruncate beforehand; cached_4k: an older "
            "segment in the page cache, overwritten",
            level_labels={
                "preallocated": "preallocated",
                "empty": "empty, growing",
                "cached_4k": "overwritten",
            },
        ),
        Factor("segment", BYTES, quick=[64 * MIB], help="segment's length", least=1),
        Factor(
            "slice",
            SECONDS,
            quick=[0.05],
            help="longest time in the loop; then the last records are flushed; 0: the whole "
            "segment",
        ),
    ],
    excludes=[
        Exclude(
            lambda at: at["method"] == "direct" and int(at["record"]) % BLOCK != 0,
            "O_DIRECT moves whole blocks of 4 KiB",
        ),
        NO_DONTCACHE_ON_TMPFS,
        Exclude(
            lambda at: int(at["segment"]) < int(at["record"]),
            "a record cannot be longer than its segment",
        ),
    ],
    metrics=[
        Metric(
            "record_time",
            "s",
            "time per record; with its share of all flushes and of mapping and populating the "
            "segment",
            of=F.window.elapsed_ns / F.record_count + F.prepare_ns * F.at.record / F.at.segment,
            baseline_loop=F.floor_ns / F.floor_record_count,
        ),
        Metric(
            "unflushed_time",
            "s",
            "time per record without the flushes; with its share of mapping and populating",
            of=(F.window.elapsed_ns - F.flush_ns) / F.record_count
            + F.prepare_ns * F.at.record / F.at.segment,
            baseline_loop=F.floor_ns / F.floor_record_count,
        ),
        Metric(
            "flush_time",
            "s",
            "time per flush",
            of=F.flush_ns / F.flush_count,
        ),
        Metric(
            "faults_per_mib",
            "faults/MiB",
            "minor faults per MiB; in the loop: one per page of 4 KiB is 256",
            of=F.window.minor_fault_count / (F.record_count * F.at.record / MIB),
        ),
        Metric(
            "prepare_time",
            "s",
            "preparation time; of a mapping: ftruncate, mmap and populating, for the whole segment",
            of=F.prepare_ns,
        ),
    ],
    cost=Cost(
        memory=lambda at: 16 * MIB + 2 * int(at["record"]),
        time=lambda at: 2 * float(at["slice"] or 0.5) + 0.05,
    ),
    shrinks="segment",
    tiny={
        "record": [4 * KIB],
        "segment": [64 * KIB],
        "slice": [0.0],
        "flush_every": [AT_THE_END],
    },
    claims=[
        Ratio(
            id="batching",
            nearest=PREALLOCATED,
            text="a flush per 100 records makes a record of 4 KiB over 10 times cheaper than a "
            "flush per record",
            metric="record_time",
            where={"method": "write", "record": 4 * KIB},
            of={"flush_every": EACH},
            to={"flush_every": 100},
            above=10,
            published=f"{OWN}: the wait for the disk is per flush, not per record",
        ),
        Ratio(
            id="mapping",
            nearest=PREALLOCATED,
            text="appended page by page through a new mapping, a record of 4 KiB costs over 1.2 "
            "times what write(2) takes",
            metric="unflushed_time",
            where={"flush_every": AT_THE_END, "record": 4 * KIB},
            of={"method": "mmap"},
            to={"method": "write"},
            above=1.2,
            published=f"{OWN}: each page of a mapping is a fault",
        ),
        Ratio(
            id="populating",
            nearest=PREALLOCATED,
            text="a populated mapping, its populating counted, takes less than write(2) at records "
            "of 128 B",
            metric="unflushed_time",
            where={"flush_every": AT_THE_END, "record": 128},
            of={"method": "populated"},
            to={"method": "write"},
            below=1,
            published=f"{OWN}: a system call per record costs more than its share of a page",
        ),
        Ratio(
            id="through-a-mapping",
            nearest=PREALLOCATED,
            text="with a flush per record a mapping costs no more than 1.25 times what write(2) "
            "takes",
            metric="record_time",
            where={"flush_every": EACH},
            of={"method": "mmap"},
            to={"method": "write"},
            below=1.25,
            published=f"{OWN}: the wait for the disk is most of a record's time",
        ),
        Ratio(
            id="lengthening",
            text="a flush per record takes longer where each record lengthens the file than where "
            "it overwrites one",
            metric="flush_time",
            where={"flush_every": EACH, "method": "write"},
            of={"file_state": "empty"},
            to={"file_state": "cached_4k"},
            above=1,
            published="fdatasync(2): a change to the file size requires a metadata flush",
        ),
    ],
    budget_s={"quick": 75.0, "paper": 600.0, "full": 1800.0},
    figure=Lines(
        "record_time",
        over="record",
        by=["method"],
        panels=["flush_every", "filesystem", "file_state"],
        log="xy",
    ),
)
