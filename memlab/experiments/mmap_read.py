"""mmap-read: does reading through a mapping beat read(2), and what counts as reading?"""

from math import inf

from memlab.experiment import *
from memlab.experiments._file_io import *

EXPERIMENT = Experiment(
    name="mmap-read",
    question="Does reading a file through a mapping beat read(2), once the bytes are really read?",
    so=[
        Decision(
            "copy-over-read",
            "read through a mapping if the file is in the page cache and mapped once: read(2) "
            "takes {number} times as long as a copy out of it",
            "use read(2): a copy out of a mapping is not faster (read(2) takes {number} of its "
            "time)",
            if_holds=(1.05, inf),
            if_fails=(0, 1),
        ),
    ],
    probe="mmap_read",
    file=File(),
    factors=[
        SIZE,
        Factor(
            "method",
            ENUM,
            quick=["mmap", "read"],
            full=["mmap", "read", "pread"],
            help="method; mmap: a MAP_SHARED mapping; read, pread: the system call; anon: "
            "anonymous memory that was touched before",
            level_labels={"read": "read(2)", "pread": "pread(2)", "anon": "anonymous memory"},
        ),
        Factor(
            "touch",
            ENUM,
            quick=["none", "sum", "copy"],
            help="use of the bytes; none: only a pointer and a length are computed; sum: every "
            "byte is added up; copy: they are copied into a buffer",
            level_labels={"none": "untouched", "sum": "summed", "copy": "copied"},
        ),
        FILESYSTEM,
        file_state("cached_4k", "cached_1m", "dropped"),
        FILE_SIZE,
        advice("normal", "sequential", "populate_read"),
        POPULATE,
        SLICE,
    ],
    excludes=[
        Exclude(
            lambda at: (
                at["method"] in ("read", "pread")
                and (at["advice"] != "normal" or bool(at["populate"]))
            ),
            "advice and populate need a mapping, and read and pread have none",
        ),
        Exclude(
            lambda at: at["method"] in ("read", "pread") and at["touch"] == "copy",
            "read and pread have already copied the bytes",
        ),
        Exclude(
            lambda at: at["method"] == "mmap" and at["advice"] == "populate_write",
            "the file is mapped for reading, and populate_write needs a writable mapping",
        ),
        *EXCLUDES,
    ],
    controls=[
        control(
            "memory",
            "Anonymous memory of the same size, touched before, is summed in large pieces: the "
            "fastest that one core reads memory here. No read can be faster.",
            {"method": "anon", "touch": "sum", "size": 64 * KIB, "filesystem": ["tmpfs"]},
            Explanation(
                Within(metric="bandwidth", below=TABLE_BYTES / 867.88e-6),
                "2 GiB in 867.88 µs would be {below}; the fastest that one core reads memory here "
                "is {value}",
                confirmed="the published loop read nothing in its timed part",
                refuted="the printed time can be that of reading",
            ),
        ),
        control(
            "faults",
            "The page tables are filled before the window; the rest is the reading itself.",
            {
                "method": "mmap",
                "touch": ["sum", "copy"],
                "advice": ["populate_read"],
                "size": 4 * KIB,
            },
            Explanation(
                Ratio(
                    metric="time_2gib",
                    where={"touch": "copy"},
                    of={"advice": "populate_read"},
                    to={"advice": "normal"},
                    below=0.5,
                ),
                "with the page tables filled before the window, copying out of the mapping at 4 "
                "KiB takes {of} instead of {to}",
                confirmed="page faults are over half of the mapping's cost, and read has none",
                refuted="page faults are under half of the mapping's cost",
            ),
        ),
    ],
    metrics=[
        *METRICS,
        Metric(
            "resident_before",
            "B",
            "file in the page cache; before the window",
            of=F.resident_before_bytes,
            lower_is_better=False,
        ),
    ],
    cost=Cost(
        memory=lambda at: (
            16 * MIB + 2 * int(at["size"]) + (int(at["file_size"]) if at["method"] == "anon" else 0)
        ),
        time=loop_time,
    ),
    turns=turns,
    shrinks="file_size",
    tiny=TINY,
    published=[
        Published(
            "logstore-mmap",
            "read",
            "time_2gib",
            columns={
                "mmap": {"method": "mmap", "touch": "none"},
                "read": {"method": "read", "touch": "none"},
            },
            note="The published mmap column is about 4 ns per call at every size: it times the "
            "making of a Go slice, and no byte is read in it.",
            limit=MachineLimit(
                "memory",
                "bandwidth",
                implied=lambda seconds: TABLE_BYTES / seconds,
                what="bandwidth",
            ),
        )
    ],
    changes=[
        Count(
            id="file-folio-read-faults",
            text="loads from a mapped ext4 file of large folios fault once per folio, not once per "
            "64 KiB",
            metric="faults_per_mib",
            where={
                "filesystem": "dir",
                "file_state": "cached_1m",
                "method": "mmap",
                "touch": "sum",
                "file_size": 8 * MIB,
            },
            equals=1,
            within=0.01,
            since="6.18",
            published="commit 357b92761d94 (Kiryl Shutsemau): currently, kernel only maps part of "
            "large folio that fits into the range of the fault; map entire folio where possible",
        ),
    ],
    claims=[
        Within(
            id="untouched",
            text="2 GiB pass a mapping in 0.9 ms or less at 10240 bytes per call, untouched",
            metric="time_2gib",
            where={"method": "mmap", "touch": "none", "size": 10 * KIB, "advice": "normal"},
            below=0.9e-3,
            published="867.88 µs",
        ),
        Within(
            id="read",
            text="2 GiB are read through a mapping in 0.9 ms or less at 10240 bytes per call",
            metric="time_2gib",
            where={"method": "mmap", "touch": "sum", "size": 10 * KIB, "advice": "normal"},
            below=0.9e-3,
            published="867.88 µs",
            controls=("memory",),
        ),
        Ratio(
            id="copy-over-read",
            text="copying out of a mapping is faster than read(2) of the same size",
            metric="time_2gib",
            where={"advice": "normal"},
            of={"method": "read", "touch": "none"},
            to={"method": "mmap", "touch": "copy"},
            above=1.0,
            published="558.10 ms against 2.07 ms at 4096 B",
            controls=("faults",),
        ),
    ],
    budget_s={"quick": 75.0, "paper": 600.0, "full": 1800.0},
    figure=Lines(
        "time_2gib",
        over="size",
        by=["method", "touch", "advice"],
        panels=["filesystem", "file_state"],
        log="xy",
        mark_page_size=True,
        answers=[
            Explanation(
                Ratio(
                    metric="time_2gib",
                    where={"advice": "normal", "size": 10 * KIB, "touch": "sum"},
                    of={"method": "mmap"},
                    to={"method": "read"},
                    below=1,
                ),
                "2 GiB take {of} through a mapping and {to} by read(2) if every byte is read",
                confirmed="the mapping is faster",
                refuted="read(2) is no slower",
            ),
            Explanation(
                Within(
                    metric="time_2gib",
                    where={"advice": "normal", "size": 10 * KIB, "method": "mmap", "touch": "none"},
                    below=0.9e-3,
                ),
                "{value} if no byte is read",
                confirmed="the published 0.87 ms are of such a mapping",
                refuted="more than the published 0.87 ms",
            ),
        ],
    ),
)
