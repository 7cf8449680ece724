"""retained-memory: after a peak, what stays resident, and what gives it back?

Threads hold their objects all at once and free them again. What is resident then and belongs to no
object that lives is retained by malloc: it is no leak. Reports of 2026 contradict each other on
which setting of glibc ends it: they speak of different objects and lifetimes, and each setting has
those for which it ends retention, does nothing, or makes it worse.
"""

from memlab.experiment import *

KIB, MIB = 2**10, 2**20
SMALL, MIDDLE, LARGE = KIB, 64 * KIB, 4 * MIB

# glibc's environment (mallopt(3)).
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "one_arena": {"MALLOC_ARENA_MAX": "1"},
    "two_arenas": {"MALLOC_ARENA_MAX": "2"},
    "map_1m": {"MALLOC_MMAP_THRESHOLD_": str(MIB)},
    "trim_128k": {"MALLOC_TRIM_THRESHOLD_": str(128 * KIB)},
}


def beyond_live(field: str) -> Reading:
    return lambda raw, at: float(max(0, raw[field] - raw["live_bytes"]))


def counted_since(field: str) -> Reading:
    """None in runs of a memlab that did not count it yet."""
    count = read(field)
    return lambda raw, at: count(raw, at) if field in raw else None


RETAINED, LEFT = beyond_live("after_bytes"), beyond_live("given_bytes")


def share(raw: Raw, at: At) -> float | None:
    freed = raw["peak_bytes"] - raw["live_bytes"]
    return (RETAINED(raw, at) or 0.0) / freed if freed > 0 else None


def given_share(raw: Raw, at: At) -> float | None:
    """None where hardly anything is retained."""
    retained, left = RETAINED(raw, at) or 0.0, LEFT(raw, at) or 0.0
    return 1 - left / retained if retained > MIB else None


def free_in_malloc(raw: Raw, at: At) -> float | None:
    held, used = read("numbers.held")(raw, at), read("numbers.in_use")(raw, at)
    return None if held is None or used is None else max(0.0, held - used)


GLIBC: dict[str, Level] = {"allocator": "glibc", "threads": "kept", "survivors": 0}
MIXED: dict[str, Level] = GLIBC | {"survivors": 64, "object": SMALL}


def less(id: str, text: str, setting: str, below: float, published: str, **where: Level) -> Ratio:
    """Retained with a setting, against without."""
    return Ratio(
        id=id,
        text=text,
        metric="retained",
        where=GLIBC | where,
        of={"setting": setting},
        to={"setting": "default"},
        below=below,
        published=published,
        timed=False,
    )


CLAIMS: list[Claim] = [
    Within(
        id="large-retained",
        text="by default glibc retains over half of what threads free in objects of 4 MiB",
        metric="retained_share",
        where=GLIBC | {"setting": "default", "object": LARGE},
        above=0.5,
        published="samsoir/xearthlayer#242: 64 threads cycling 11 MiB buffers retain 191.5 MB",
        timed=False,
    ),
    less(
        "large-two-arenas",
        "MALLOC_ARENA_MAX=2 retains less of objects of 4 MiB",
        "two_arenas",
        1,
        "samsoir/xearthlayer#242: 70.4 MB instead of 191.5",
        object=LARGE,
    ),
    less(
        "large-threshold",
        "with the mmap threshold pinned to 1 MiB, under a tenth of objects of 4 MiB is retained",
        "map_1m",
        0.1,
        "samsoir/xearthlayer#242: 4.6 MB instead of 191.5",
        object=LARGE,
    ),
    Within(
        id="large-trim",
        text="malloc_trim gives back over half of what is retained of objects of 4 MiB",
        metric="given_share",
        where=GLIBC | {"setting": "default", "object": LARGE},
        above=0.5,
        published="javimosch/machin#530: malloc_trim(0) took resident memory from 825 to 1.8 MB",
        timed=False,
    ),
    *(
        less(
            f"{name}-two-arenas",
            f"MALLOC_ARENA_MAX=2 retains less of objects of {size // KIB} KiB",
            "two_arenas",
            1,
            "cortexkit/aft#205: the cap is 'decisive' in the rig, '65% less retained free space', "
            "and was 'ineffective' in production",
            object=size,
        )
        for name, size in (("small", SMALL), ("middle", MIDDLE))
    ),
    less(
        "large-trim-threshold",
        "with the trim threshold pinned to 128 KiB, under a tenth of objects of 4 MiB is retained",
        "trim_128k",
        0.1,
        "singnet/das#1171: M_TRIM_THRESHOLD of 128 KiB returns 'free heap pages to the OS'",
        object=LARGE,
    ),
    Within(
        id="mixed-trim",
        text="where one object of 64 survives, malloc_trim gives back over half of what is "
        "retained between them",
        metric="given_share",
        where=MIXED | {"setting": "default"},
        above=0.5,
        published="amule-org/amule#1153: malloc_trim(0) 'reaches the fragmented space' below an "
        "arena's top; zakura-core/zakura#148: it reduced RSS from 12.1 to 3.0 GiB",
        timed=False,
    ),
    Ratio(
        id="mixed-two-arenas",
        text="where one object of 64 survives, MALLOC_ARENA_MAX=2 retains a tenth less, or better",
        metric="retained",
        where=MIXED,
        of={"setting": "two_arenas"},
        to={"setting": "default"},
        below=0.9,
        published="amule-org/amule#1095: it 'halves the remaining peak'; developmentseed/titiler"
        "#1477: 27 % less growth",
        timed=False,
    ),
    Ratio(
        id="mimalloc-more",
        text="at the peak, mimalloc holds over twice the memory that glibc holds",
        metric="peak",
        where={"setting": "default", "threads": "kept", "survivors": 0},
        of={"allocator": "mimalloc"},
        to={"allocator": "glibc"},
        above=2,
        published="c4punks/CWIST#34: resident memory +120 % under mimalloc",
        timed=False,
    ),
    Ratio(
        id="mimalloc-returns",
        text="right after the peak, mimalloc retains less than glibc",
        metric="retained",
        where={"setting": "default", "threads": "kept", "survivors": 0},
        of={"allocator": "mimalloc"},
        to={"allocator": "glibc"},
        below=1,
        published="ScriptedAlchemy/tracedecay#1751: under mimalloc 'RSS returns', glibc pinned at "
        "18.4 GB",
        timed=False,
    ),
]

EXPERIMENT = Experiment(
    name="retained-memory",
    question="After a peak, what stays resident, and what gives it back?",
    probe="retained_memory",
    factors=[
        Factor(
            "allocator",
            ENUM,
            quick=["glibc", "jemalloc", "tcmalloc", "mimalloc"],
            help="allocator; glibc's malloc, or a library that is preloaded",
        ),
        Factor(
            "setting",
            choice(*SETTINGS),
            quick=list(SETTINGS),
            help="setting of glibc; one_arena, two_arenas: MALLOC_ARENA_MAX; map_1m: "
            "MALLOC_MMAP_THRESHOLD_ of 1 MiB; trim_128k: MALLOC_TRIM_THRESHOLD_ of 128 KiB",
            host=True,
            level_labels={
                "one_arena": "1 arena",
                "two_arenas": "2 arenas",
                "map_1m": "mmap threshold 1 MiB",
                "trim_128k": "trim threshold 128 KiB",
            },
        ),
        Factor("object", BYTES, quick=[SMALL, MIDDLE, LARGE], help="object size", least=16),
        Factor(
            "threads",
            ENUM,
            quick=["kept"],
            help="threads; kept: a pool; per_round: made anew for each round",
            level_labels={"kept": "kept threads", "per_round": "new threads per round"},
        ),
        Factor("at_once", COUNT, quick=[16], help="threads at once", least=1, most=256),
        Factor("held", BYTES, quick=[4 * MIB], help="memory of a thread; at the peak", least=16),
        Factor(
            "survivors",
            COUNT,
            quick=[0],
            help="one survivor in; so many objects, which lives until the next round; 0: none",
        ),
        Factor("rounds", COUNT, quick=[8], help="rounds; of allocating and freeing", least=1),
    ],
    excludes=[
        Exclude(
            lambda at: at["allocator"] != "glibc" and at["setting"] != "default",
            "the settings are glibc's",
        ),
        Exclude(lambda at: at["allocator"] == "other", "an allocator of the list is needed"),
        Exclude(
            lambda at: int(at["held"]) < int(at["object"]) * max(1, int(at["survivors"])),
            "a thread holds an object at least, and more than one where one survives",
        ),
    ],
    host=Host(
        malloc=lambda at: Malloc(str(at["allocator"])),
        environ=lambda at: SETTINGS[str(at["setting"])],
        cpus="all",
    ),
    controls=[
        control(
            "mixed",
            "One object of 64 lives on: free memory lies between objects that live.",
            {
                "allocator": "glibc",
                "survivors": 64,
                "object": [SMALL],
                "setting": ["default", "two_arenas", "trim_128k"],
            },
            Explanation(
                Within(
                    metric="given_share",
                    where={"setting": "trim_128k"},
                    above=0.5,
                    timed=False,
                ),
                "with a trim threshold of 128 KiB, malloc_trim gives back a share of {value} of "
                "what is retained between objects that live",
                confirmed="a threshold trims an arena's end alone, and the call what is between",
                refuted="the threshold has given it back already",
            ),
        ),
        control(
            "churn",
            "New threads for each round, instead of a pool.",
            {"allocator": "glibc", "threads": "per_round", "setting": ["default"]},
            Explanation(
                Equivalent(
                    metric="retained",
                    where={"allocator": "glibc", "setting": "default", "survivors": 0},
                    of={"threads": "per_round"},
                    to={"threads": "kept"},
                    within=0.25,
                    timed=False,
                ),
                "{of} are retained with new threads per round, and {to} with kept ones",
                confirmed="the arenas outlive the threads",
                refuted="whether threads are kept changes what is retained",
            ),
        ),
    ],
    metrics=[
        Metric("peak", "B", "resident at the peak; beyond that before", of=read("peak_bytes")),
        Metric(
            "retained",
            "B",
            "retained; resident after the peak, and of no object that lives",
            of=RETAINED,
        ),
        Metric(
            "retained_share",
            "1",
            "retained / freed; of what was freed after the peak",
            of=share,
        ),
        Metric(
            "left",
            "B",
            "retained after giving back; by malloc_trim(3), or what the library has instead",
            of=LEFT,
        ),
        Metric(
            "given_share",
            "1",
            "share given back; of what was retained, not given where that is under 1 MiB",
            of=given_share,
            lower_is_better=False,
        ),
        Metric(
            "page_tables",
            "B",
            "page tables after the peak; VmPTE",
            of=counted_since("after_table_bytes"),
        ),
        Metric(
            "page_tables_left",
            "B",
            "page tables after giving back; VmPTE. Linux 6.14 and later (x86-64) frees those that "
            "madvise empties",
            of=counted_since("given_table_bytes"),
        ),
        Metric("give_back_time", "s", "time to give back; one call", of=read("give_back_ns")),
        Metric("last_time", "s", "time of the last round; before that", of=read("last_ns")),
        Metric("again_time", "s", "time of the next round; after that", of=read("again_ns")),
        Metric(
            "last_faults",
            "faults",
            "page faults of the last round",
            of=read("last_fault_count"),
        ),
        Metric(
            "again_faults", "faults", "page faults of the next round", of=read("again_fault_count")
        ),
        Metric("arenas", "count", "arenas; by glibc's malloc_info(3)", of=read("arena_count")),
        Metric(
            "free_in_malloc",
            "B",
            "free by malloc's own count; taken from the kernel and not in use, touched or not",
            of=free_in_malloc,
        ),
    ],
    cost=Cost(
        memory=lambda at: 2 * int(at["at_once"]) * int(at["held"]) + 64 * MIB,
        time=lambda at: (
            0.3 + int(at["rounds"]) * int(at["at_once"]) * int(at["held"]) / (500 * MIB)
        ),
    ),
    shrinks="held",
    tiny={
        "allocator": ["glibc"],
        "setting": ["default"],
        "at_once": [3],
        "held": [MIB],
        "object": [SMALL],
        "rounds": [2],
    },
    claims=CLAIMS,
    figure=Bars(
        "retained", over="object", by=["setting"], panels=["allocator"], base={"setting": "default"}
    ),
    more_figures={
        "left": Bars(
            "left",
            over="object",
            by=["setting"],
            panels=["allocator"],
            claims=["large-trim", "mixed-trim"],
        ),
    },
    budget_s={"quick": 120.0, "paper": 600.0, "full": 1200.0},
)
