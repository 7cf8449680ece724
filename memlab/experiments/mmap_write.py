"""mmap-write: from which size does write(2) beat a store into a shared mapping?"""

from memlab.experiment import (
    FLAG,
    Control,
    Cost,
    Crossover,
    Exclude,
    Experiment,
    Factor,
    File,
    Lines,
    Metric,
    Published,
    Ratio,
    Saturates,
    choice,
)
from memlab.experiments._file_io import (
    EXCLUDES,
    FILE_SIZE,
    FILE_STATE_HELP,
    FILE_STATES,
    FILESYSTEM,
    KIB,
    METRICS,
    MIB,
    POPULATE,
    SIZE,
    SLICE,
    TABLE_BYTES,
)

EXPERIMENT = Experiment(
    name="mmap-write",
    question="From which size a call does write(2) beat a store into a shared mapping?",
    probe="mmap_write",
    file=File(),
    factors=[
        SIZE,
        Factor(
            "method",
            choice("mmap", "write", "pwrite", "writev", "io_uring"),
            quick=["mmap", "write"],
            full=["mmap", "write", "pwrite", "writev", "io_uring"],
            help="a store into a MAP_SHARED mapping, or the system call that writes",
        ),
        FILESYSTEM,
        Factor(
            "file_state",
            FILE_STATES,
            quick=["cached_4k"],
            full=["cached_4k", "cached_1m", "sparse", "preallocated", "dropped"],
            help=FILE_STATE_HELP,
        ),
        FILE_SIZE,
        Factor(
            "advice",
            choice("normal", "sequential", "populate_write", "hugepage"),
            quick=["normal"],
            full=["normal", "populate_write"],
            help="madvise(2) on the mapping before the window",
        ),
        POPULATE,
        Factor(
            "sync",
            FLAG,
            quick=[False],
            help="msync or fdatasync after the loop, timed on its own",
        ),
        SLICE,
    ],
    excludes=[
        Exclude(
            lambda at: (
                at["method"] != "mmap" and (at["advice"] != "normal" or bool(at["populate"]))
            ),
            "advice and populate are about a mapping, and only method=mmap has one",
        ),
        *EXCLUDES,
    ],
    controls=[
        Control(
            "faults",
            "Every page's write fault taken before the window: if the mapping then wins at sizes "
            "where it lost, the faults are what decides the crossover.",
            levels={
                "method": ["mmap"],
                "advice": ["populate_write"],
                "size": [4 * KIB],
            },
        ),
        Control(
            "folios",
            "The same file, written in 1 MiB pieces: larger folios, one write fault a folio "
            "instead of one a page where the filesystem can.",
            levels={"file_state": ["cached_1m"]},
            presets=("paper", "full"),
        ),
    ],
    metrics=[
        *METRICS,
        Metric(
            "time_2gib_synced",
            "s",
            "time_2gib with the msync or fdatasync of what was written",
            of=lambda raw, at: (
                (raw["window"]["elapsed_ns"] + raw["sync_ns"])
                * 1e-9
                * TABLE_BYTES
                / raw["byte_count"]
                if at["sync"]
                else None
            ),
        ),
    ],
    cost=Cost(
        memory=lambda at: 16 * MIB + 2 * int(at["size"]),
        time=lambda at: float(at["slice"] or 0.0) + 0.01,
    ),
    shrinks="file_size",
    published=[
        Published(
            "logstore-mmap",
            "write",
            "time_2gib",
            columns={"mmap": {"method": "mmap"}, "write": {"method": "write"}},
            note="The published times are Go's; whether its file was cached is not stated.",
        ),
    ],
    claims=[
        Saturates(
            text="a mapping is at its full speed from 100 bytes a call",
            metric="time_2gib",
            where={"method": "mmap", "advice": "normal"},
            over="size",
            at=100,
            within=0.2,
            published="2.84 s at 100 B, 2.47 s at best, 22.14 s at 1 B",
        ),
        Saturates(
            text="write is at its full speed from 4096 bytes a call",
            metric="time_2gib",
            where={"method": "write"},
            over="size",
            at=4 * KIB,
            within=0.1,
            published="1.74 s at 4096 B, 1.65 s at best, 2.34 s at 2048 B",
        ),
        Crossover(
            text="write becomes the faster one between 1024 and 4096 bytes a call",
            metric="time_2gib",
            where={"advice": "normal"},
            over="size",
            of={"method": "write"},
            to={"method": "mmap"},
            low=1 * KIB,
            high=4 * KIB,
            published="3.48 s against 2.48 s at 1024 B, 2.34 s against 2.47 s at 2048 B",
            control="folios",
        ),
        Ratio(
            text="at 1 byte a call a mapping is over 10 times faster",
            metric="time_2gib",
            where={"size": 1, "advice": "normal"},
            of={"method": "write"},
            to={"method": "mmap"},
            above=10,
            published=">300 s against 22.14 s",
        ),
    ],
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
