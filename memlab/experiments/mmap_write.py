"""mmap-write: from which size does write(2) beat a store into a shared mapping?"""

from dataclasses import replace
from math import inf

from memlab.experiment import *
from memlab.experiments._file_io import *

# The study's segments are files of a fixed length that are appended to; whether they were
# preallocated it does not say.
NEAREST: dict[str, Level] = {"file_state": "preallocated", "filesystem": "dir"}
# A file of folios of 1 MiB, so that a fault per folio is one per MiB, and one per page is 256.
ONE_FOLIO_EACH: dict[str, Level] = {
    "file_state": "cached_1m",
    "method": "mmap",
    "file_size": 8 * MIB,
}

SIZES_END = 2.0**50  # bytes per call: beyond any that is measured

EXPERIMENT = Experiment(
    name="mmap-write",
    question="From which size per call does write(2) beat a store into a shared mapping?",
    so=[
        Decision(
            "crossover",
            "use write(2) from {number} per call, a mapping below",
            "use a mapping",
            if_holds=(0, SIZES_END),
            if_fails=(SIZES_END, inf),  # a mapping is cheaper at every size
            always="for records on the disk see log-append",
        ),
    ],
    probe="mmap_write",
    file=File(),
    factors=[
        SIZE,
        Factor(
            "method",
            ENUM,
            quick=["mmap", "write"],
            full=["mmap", "write", "pwrite", "writev", "io_uring", "dontcache"],
            help="method; mmap: a store into a MAP_SHARED mapping; dontcache: pwritev2(2) with "
            "RWF_DONTCACHE, not on tmpfs; the others: the system call",
            level_labels={"write": "write(2)", "pwrite": "pwrite(2)", "writev": "writev(2)"},
        ),
        replace(FILESYSTEM, quick=["dir"], paper=["dir", "tmpfs"]),
        file_state(
            *("preallocated", "cached_4k", "cached_1m", "sparse", "dropped"),
            quick=["preallocated", "cached_4k", "sparse"],
            labels={
                "preallocated": "preallocated file",
                "cached_4k": "overwritten in the page cache",
                "sparse": "new file",
            },
        ),
        replace(FILE_SIZE, quick=[64 * MIB]),
        advice("normal", "populate_write"),
        POPULATE,
        Factor("sync", FLAG, quick=[False], help="msync or fdatasync after the loop; timed apart"),
        SLICE,
        Factor(
            "handicap",
            COUNT,
            quick=[0],
            help="turns of an empty loop per call; a known slowdown that shows what the statistics "
            "can detect",
        ),
    ],
    excludes=[
        Exclude(
            lambda at: (
                at["method"] != "mmap" and (at["advice"] != "normal" or bool(at["populate"]))
            ),
            "advice and populate need a mapping, and only method=mmap has one",
        ),
        NO_DONTCACHE_ON_TMPFS,
        *EXCLUDES,
    ],
    controls=[
        control(
            "faults",
            "Every page's write fault is taken before the window.",
            {"method": ["mmap"], "advice": ["populate_write"], "size": 4 * KIB},
            Explanation(
                Ratio(
                    metric="time_2gib",
                    of={"method": "mmap", "advice": "populate_write"},
                    to={"method": "write", "advice": "normal"},
                    below=1,
                ),
                "with the write faults taken before the window, and not counted, 2 GiB at 4 KiB "
                "take {of} through the mapping, {to} by write, {times} times apart",
                confirmed="the faults decide the crossover",
                refuted="more than the faults decides the crossover",
            ),
        ),
        control(
            "folios",
            "The same file, written in pieces of 1 MiB: larger folios, and one write fault per "
            "folio instead of one per page where the file system supports it.",
            {"file_state": ["cached_1m"]},
            Explanation(
                Shift(
                    metric="time_2gib",
                    where={"advice": "normal"},
                    over="size",
                    of={"method": "write"},
                    to={"method": "mmap"},
                    at={"file_state": "cached_1m"},
                    base={"file_state": "cached_4k"},
                    by=1.25,
                    beside="faults_per_mib",
                ),
                "a file written in 4 KiB pieces takes {beside_base}, and write is cheaper {base}; "
                "one written in 1 MiB pieces takes {beside_at}, and write is cheaper {at}",
                confirmed="the file's folios decide where the crossover lies, not the machine",
                refuted="the crossover moved the other way than fewer faults would move it",
            ),
            presets=("paper", "full"),
        ),
    ],
    metrics=[
        *METRICS,
        Metric(
            "cached",
            "B",
            "bytes of the file in the page cache; at the end, after sync, by cachestat(2)",
            of=F.cached_bytes.optional,  # of newer samples
        ),
        Metric(
            "time_2gib_synced",
            "s",
            "time for 2 GiB, synced; time_2gib plus the msync or fdatasync of what was written",
            of=((F.window.elapsed_ns + F.sync_ns) * TABLE_BYTES / F.byte_count).where(sync=True),
        ),
    ],
    cost=Cost(
        memory=lambda at: 16 * MIB + 2 * int(at["size"]),
        time=loop_time,
    ),
    turns=turns,
    shrinks="file_size",
    tiny=TINY,
    published=[
        Published(
            "logstore-mmap",
            "write",
            "time_2gib",
            columns={"mmap": {"method": "mmap"}, "write": {"method": "write"}},
            note="The published times are Go's; whether its file was cached is not stated.",
        )
    ],
    changes=[
        Count(
            id="tmpfs-folio-faults",
            text="a store into a mapped tmpfs file of large folios faults once per folio, not once "
            "per page",
            metric="faults_per_mib",
            where={**ONE_FOLIO_EACH, "filesystem": "tmpfs"},
            equals=1,
            within=0.01,
            since="6.17",
            boots_with="transparent_hugepage_tmpfs=always",  # folios by the size of the write
            published="mm: fault in complete folios instead of individual pages for tmpfs, "
            "version 2 (Baolin Wang, 4 July 2025): we can map multiple consecutive pages of a "
            "tmpfs folios at once according to the size of the large folio",
        ),
        Count(
            id="file-folio-write-faults",
            text="a store into a mapped ext4 file of large folios faults once per folio, not once "
            "per page",
            metric="faults_per_mib",
            where={**ONE_FOLIO_EACH, "filesystem": "dir"},
            equals=1,
            within=0.01,
            since="6.18",
            published="commit 19773df031bc (Kiryl Shutsemau): map large folios in one shot; this "
            "reduces the number of minor page faults",
        ),
    ],
    claims=[
        Saturates(
            id="mmap-saturates",
            nearest=NEAREST,
            text="a mapping reaches its full speed at 100 bytes per call",
            metric="time_2gib",
            where={"method": "mmap", "advice": "normal"},
            over="size",
            at=100,
            within=0.2,
            published="2.84 s at 100 B, 2.47 s at best, 22.14 s at 1 B",
        ),
        Saturates(
            id="write-saturates",
            nearest=NEAREST,
            text="write(2) reaches its full speed at 4096 bytes per call",
            metric="time_2gib",
            where={"method": "write"},
            over="size",
            at=4 * KIB,
            within=0.1,
            published="1.74 s at 4096 B, 1.65 s at best, 2.34 s at 2048 B",
        ),
        Crossover(
            id="crossover",
            nearest=NEAREST,
            text="write(2) becomes faster than a mapping between 1024 and 4096 bytes per call",
            metric="time_2gib",
            where={"advice": "normal"},
            over="size",
            of={"method": "write"},
            to={"method": "mmap"},
            low=1 * KIB,
            high=4 * KIB,
            published="3.48 s against 2.48 s at 1024 B, 2.34 s against 2.47 s at 2048 B",
            controls=("faults", "folios"),
        ),
        Ratio(
            id="one-byte",
            nearest=NEAREST,
            text="at 1 byte per call a mapping is over 10 times faster than write(2)",
            metric="time_2gib",
            where={"size": 1, "advice": "normal"},
            of={"method": "write"},
            to={"method": "mmap"},
            above=10,
            published=">300 s against 22.14 s",
        ),
    ],
    costs=CostTerms(
        "call_time",
        by=["method", "filesystem", "file_state"],
        over="size",
        terms=[
            CostTerm("call", 1),
            CostTerm("byte", F.at.size),
            CostTerm("fault", F.window.minor_fault_count / F.call_count),
        ],
    ),
    figure=Lines(
        "time_2gib",
        over="size",
        by=["method", "advice"],
        panels=["filesystem", "file_state"],
        log="xy",
        crossing=({"method": "write"}, {"method": "mmap", "advice": "normal"}),
        mark_page_size=True,
    ),
)
