"""mmap-read: does reading through a mapping beat read(2), and what is reading?"""

from memlab.experiment import (
    Control,
    Cost,
    Exclude,
    Experiment,
    Explanation,
    Factor,
    File,
    Limit,
    Lines,
    Metric,
    Published,
    Ratio,
    Within,
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
    name="mmap-read",
    question="Does reading a file through a mapping beat read(2), once the bytes are really read?",
    probe="mmap_read",
    file=File(),
    factors=[
        SIZE,
        Factor(
            "method",
            choice("mmap", "read", "pread", "anon"),
            quick=["mmap", "read"],
            full=["mmap", "read", "pread"],
            help="a MAP_SHARED mapping, the system call that reads, or touched anonymous memory",
        ),
        Factor(
            "touch",
            choice("none", "sum", "copy"),
            quick=["none", "sum", "copy"],
            help="what is done with the bytes: nothing (a pointer and a length are made), "
            "every byte is summed, or copied into a buffer",
        ),
        FILESYSTEM,
        Factor(
            "file_state",
            FILE_STATES,
            quick=["cached_4k"],
            full=["cached_4k", "cached_1m", "dropped"],
            help=FILE_STATE_HELP,
        ),
        FILE_SIZE,
        Factor(
            "advice",
            choice("normal", "sequential", "populate_read", "hugepage"),
            quick=["normal"],
            full=["normal", "sequential", "populate_read"],
            help="madvise(2) on the mapping before the window",
        ),
        POPULATE,
        SLICE,
    ],
    excludes=[
        Exclude(
            lambda at: (
                at["method"] in ("read", "pread")
                and (at["advice"] != "normal" or bool(at["populate"]))
            ),
            "advice and populate are about a mapping, and read and pread have none",
        ),
        Exclude(
            lambda at: at["method"] in ("read", "pread") and at["touch"] == "copy",
            "read and pread have copied the bytes already",
        ),
        *EXCLUDES,
    ],
    controls=[
        Control(
            "memory",
            "Anonymous memory of the same size, touched before, summed in large pieces: the "
            "fastest that one core reads memory here. Nothing that reads can be faster.",
            levels={
                "method": ["anon"],
                "touch": ["sum"],
                "size": [64 * KIB],
                "filesystem": ["tmpfs"],
            },
            explanations=[
                Explanation(
                    predicts=Within(
                        text="no reading here reaches what 2 GiB in 867.88 µs would take",
                        metric="bandwidth",
                        where={"method": "anon", "touch": "sum", "size": 64 * KIB},
                        below=TABLE_BYTES / 867.88e-6,
                    ),
                    confirmed="2 GiB in 867.88 µs would be {below}; the fastest that one core "
                    "reads memory here is {value}: what was timed read nothing",
                    refuted="2 GiB in 867.88 µs are {below}, and one core reads memory here at "
                    "{value}: the printed time can be one of reading",
                    undecided="2 GiB in 867.88 µs would be {below}, and one core reads memory "
                    "here at {value}: whether the printed time can be one of reading is open",
                )
            ],
        ),
        Control(
            "faults",
            "The page tables filled before the window: what is left is the reading itself.",
            levels={
                "method": ["mmap"],
                "touch": ["sum", "copy"],
                "advice": ["populate_read"],
                "size": [4 * KIB],
            },
            explanations=[
                Explanation(
                    predicts=Ratio(
                        text="over half of a copy out of a mapping at 4 KiB is its faults",
                        metric="time_2gib",
                        where={"method": "mmap", "touch": "copy", "size": 4 * KIB},
                        of={"advice": "populate_read"},
                        to={"advice": "normal"},
                        below=0.5,
                    ),
                    finding="with the page tables filled before the window the copy out of the "
                    "mapping at 4 KiB takes {of} instead of {to}",
                    confirmed="over half of what the mapping costs is its faults, and read pays "
                    "for none",
                    refuted="its faults are under half of what it costs",
                    undecided="whether its faults are over half of what it costs is not decided",
                )
            ],
        ),
    ],
    metrics=[
        *METRICS,
        Metric(
            "resident_before",
            "B",
            "bytes of the file in the page cache before the window",
            of=lambda raw, at: float(raw["resident_before_bytes"]),
            lower_is_better=False,
        ),
    ],
    cost=Cost(
        memory=lambda at: (
            16 * MIB + 2 * int(at["size"]) + (int(at["file_size"]) if at["method"] == "anon" else 0)
        ),
        time=lambda at: float(at["slice"] or 0.0) + 0.01,
    ),
    shrinks="file_size",
    tiny={"size": [4 * KIB], "file_size": [64 * KIB], "slice": [0.0], "filesystem": ["dir"]},
    published=[
        Published(
            "logstore-mmap",
            "read",
            "time_2gib",
            columns={
                "mmap": {"method": "mmap", "touch": "none"},
                "read": {"method": "read", "touch": "none"},
            },
            note="The published mmap column is about 4 ns a call whatever the size, so it times "
            "the making of a slice; no byte is read in it.",
            limit=Limit(
                "memory",
                "bandwidth",
                implied=lambda seconds: TABLE_BYTES / seconds,
                what="bandwidth",
            ),
        ),
    ],
    claims=[
        Within(
            text="2 GiB pass through a mapping in 0.9 ms at 10240 bytes a call, untouched",
            metric="time_2gib",
            where={"method": "mmap", "touch": "none", "size": 10 * KIB, "advice": "normal"},
            below=0.9e-3,
            published="867.88 µs",
        ),
        Within(
            text="2 GiB are read through a mapping in 0.9 ms at 10240 bytes a call",
            metric="time_2gib",
            where={"method": "mmap", "touch": "sum", "size": 10 * KIB, "advice": "normal"},
            below=0.9e-3,
            published="867.88 µs",
            controls=("memory",),
        ),
        Ratio(
            text="a copy out of a mapping is faster than read of the same size",
            metric="time_2gib",
            where={"advice": "normal"},
            of={"method": "read", "touch": "none"},
            to={"method": "mmap", "touch": "copy"},
            above=1.0,
            published="558.10 ms against 2.07 ms at 4096 B",
            controls=("faults",),
        ),
    ],
    figure=Lines(
        "time_2gib",
        over="size",
        by=["method", "touch", "advice"],
        panels=["filesystem", "file_state"],
        log="xy",
        mark_page_size=True,
    ),
)
