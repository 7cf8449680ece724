"""mmap-write: from which size does write(2) beat a store into a shared mapping?"""

from memlab.experiment import (
    COUNT,
    FLAG,
    Control,
    Cost,
    CostTerm,
    CostTerms,
    Crossover,
    Exclude,
    Experiment,
    Explanation,
    Factor,
    File,
    Lines,
    Metric,
    Published,
    Ratio,
    Saturates,
    Shift,
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
        Factor(
            "handicap",
            COUNT,
            quick=[0],
            help="turns of an empty loop to waste a call: a known slowdown, to try what the "
            "statistics can see",
        ),
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
            explanations=[
                Explanation(
                    predicts=Ratio(
                        text="without its write faults the mapping beats write at 4 KiB",
                        metric="time_2gib",
                        where={"size": 4 * KIB},
                        of={"method": "mmap", "advice": "populate_write"},
                        to={"method": "write", "advice": "normal"},
                        below=1,
                    ),
                    confirmed="with the write faults taken before the window the mapping costs "
                    "{of} for 2 GiB at 4 KiB and beats write ({to}) {times} times: the faults "
                    "decide the crossover",
                    refuted="even with the write faults taken before the window the mapping costs "
                    "{of} for 2 GiB at 4 KiB and loses to write ({to}): more than the faults "
                    "decides the crossover",
                    undecided="with the write faults taken before the window the mapping costs "
                    "{of} for 2 GiB at 4 KiB and write {to}: which is less, and so what decides "
                    "the crossover, is not shown",
                )
            ],
        ),
        Control(
            "folios",
            "The same file, written in 1 MiB pieces: larger folios, one write fault a folio "
            "instead of one a page where the filesystem can.",
            levels={"file_state": ["cached_1m"]},
            presets=("paper", "full"),
            explanations=[
                Explanation(
                    predicts=Shift(
                        text="with larger folios the crossover lies further up",
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
                    finding="a file written in 4 KiB pieces takes {beside_base} and write is the "
                    "cheaper one {base}; written in 1 MiB pieces it takes {beside_at} and write "
                    "is the cheaper one {at}",
                    confirmed="the crossover belongs to the file's folios, not to the machine",
                    refuted="the crossover moved the other way than fewer faults would move it",
                    undecided="no shift of the crossover is shown",
                )
            ],
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
    tiny={"size": [4 * KIB], "file_size": [64 * KIB], "slice": [0.0], "filesystem": ["dir"]},
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
            controls=("faults", "folios"),
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
    costs=CostTerms(
        "call_time",
        by=["method", "filesystem", "file_state"],
        over="size",
        terms=[
            CostTerm("call", lambda raw, at: 1.0),
            CostTerm("byte", lambda raw, at: float(at["size"])),
            CostTerm(
                "fault", lambda raw, at: raw["window"]["minor_fault_count"] / raw["call_count"]
            ),
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
