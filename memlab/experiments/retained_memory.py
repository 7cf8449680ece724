"""retained-memory: after a peak, what stays resident, and what gives it back?

Threads hold their objects all at once and free them again. What is resident then and belongs to no
object that lives is retained by malloc: it is not a leak. Reports of 2026 contradict each other on
which setting of glibc ends it: they speak of different objects and lifetimes, and each setting has
those for which it ends retention, does nothing, or makes it worse.
"""

import bisect
from collections.abc import Mapping
from math import inf
from typing import Any

from memlab.experiment import *

KIB, MIB = 2**10, 2**20
SMALL, MIDDLE, LARGE = KIB, 64 * KIB, 4 * MIB

# Environments: glibc's (mallopt(3)) and jemalloc's (jemalloc(3)).
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "one_arena": {"MALLOC_ARENA_MAX": "1"},
    "two_arenas": {"MALLOC_ARENA_MAX": "2"},
    "map_1m": {"MALLOC_MMAP_THRESHOLD_": str(MIB)},
    "trim_128k": {"MALLOC_TRIM_THRESHOLD_": str(128 * KIB)},
    "decay_1s": {"MALLOC_CONF": "dirty_decay_ms:1000"},
    "background": {"MALLOC_CONF": "background_thread:true"},
    "background_1s": {"MALLOC_CONF": "background_thread:true,dirty_decay_ms:1000"},
}
OF_JEMALLOC = ("decay_1s", "background", "background_1s")
OF_GLIBC = [name for name in SETTINGS if name not in OF_JEMALLOC]
WAIT, LONG_WAIT = 2.0, 12.0  # seconds; the decay times are 1 s, and 10 by default


def beyond_live(value: Expression) -> Expression:
    return larger(0, value - F.live_bytes)


RETAINED, LEFT = beyond_live(F.after_bytes), beyond_live(F.given_bytes)
_FREED = F.peak_bytes - F.live_bytes
SHARE = (RETAINED / _FREED).where(_FREED > 0)
SOMETHING = RETAINED > MIB  # hardly anything is retained where it is not
GIVEN_SHARE = (1 - LEFT / RETAINED).where(SOMETHING)
_WAITED = F.at.wait > 0
WAITED = beyond_live(F.waited_bytes).where(_WAITED)
WAITED_SHARE = (WAITED / RETAINED).where(SOMETHING)


def left_after(wait_s: float) -> Expression:
    """Retained so long after the last round; None where the wait was shorter."""

    def resident(course: Mapping[str, Any]) -> float:
        until = bisect.bisect_right(course["at_ns"], wait_s * 1e9)
        return float(course["values"][until - 1])

    result = each(f"resident_after_{wait_s:g}s", resident, F.resident)
    return beyond_live(result).where(F.at.wait >= wait_s)


def _half_time(course: Mapping[str, Any], live: float, retained: float) -> float | None:
    half = live + retained / 2
    times = zip(course["at_ns"], course["values"], strict=True)
    return next((at_ns * 1e-9 for at_ns, value in times if value <= half), None)


# None where half of it is there to the end of the wait.
HALF_TIME = each("half_time", _half_time, F.resident, F.live_bytes, RETAINED).where(
    _WAITED & SOMETHING
)
# None where less than 1 MiB is missing from the peak.
_GIVEN = F.peak_bytes - F.waited_bytes
FAULTS_PER_PAGE = (F.retaken_fault_count * F.page_bytes / _GIVEN).where(_WAITED, _GIVEN > MIB)
FREE_IN_MALLOC = larger(0, F.numbers.held - F.numbers.in_use)


GLIBC: dict[str, Level] = {"allocator": "glibc"}
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


JEMALLOC = "jemalloc(3), opt.dirty_decay_ms: unused dirty pages are purged in that time"
TUNING = (
    "jemalloc, TUNING.md: background threads avoid 'unintended purging delay caused by application "
    "inactivity'"
)
RELEASE = (
    "gperftools, tcmalloc: TCMALLOC_RELEASE_RATE is 1 by default, the 'rate at which we release "
    "unused memory to the system'"
)
LEVIATH = (
    "leviath-alloc 0.3.9: mimalloc's delay 'is not a timer': memory stays in an idle program, "
    "'then released by the next moment of allocator activity'"
)


def decays(
    id: str,
    text: str,
    policy: tuple[str, str, str],
    published: str,
    *,
    above: float | None = None,
    below: float | None = None,
    wait: float = WAIT,
) -> Within:
    """What is left after the wait, of what was retained at its begin; `policy` is the allocator,
    its setting and what the program does meanwhile."""
    where: dict[str, Level] = dict(zip(("allocator", "setting", "meanwhile"), policy, strict=True))
    return Within(
        id=id,
        text=text,
        metric="waited_share",
        where=where | {"wait": wait},
        above=above,
        below=below,
        published=published,
        timed=False,
    )


DECAY: list[Claim] = [
    decays(
        "jemalloc-idle",
        "in an idle program jemalloc retains over nine tenths after twice its decay time of 1 s",
        ("jemalloc", "decay_1s", "idle"),
        TUNING,
        above=0.9,
    ),
    decays(
        "jemalloc-background",
        "with a background thread jemalloc retains under a tenth after twice its decay time of 1 s",
        ("jemalloc", "background_1s", "idle"),
        JEMALLOC,
        below=0.1,
    ),
    decays(
        "jemalloc-background-10s",
        "with a background thread jemalloc retains under a tenth after 12 s (default: 10)",
        ("jemalloc", "background", "idle"),
        f"{JEMALLOC}; 'the default decay time is 10 seconds'",
        wait=LONG_WAIT,
        below=0.1,
    ),
    decays(
        "jemalloc-busy",
        "in a busy program jemalloc retains under a tenth after twice its decay time of 1 s",
        ("jemalloc", "decay_1s", "busy"),
        JEMALLOC,
        below=0.1,
    ),
    decays(
        "mimalloc-idle",
        "in an idle program mimalloc retains over nine tenths for 2 s",
        ("mimalloc", "default", "idle"),
        LEVIATH,
        above=0.9,
    ),
    decays(
        "mimalloc-busy",
        "in a busy program mimalloc retains under half after 2 s",
        ("mimalloc", "default", "busy"),
        LEVIATH,
        below=0.5,
    ),
    decays(
        "tcmalloc-busy",
        "in a busy program tcmalloc gives memory back: under nine tenths are retained after 2 s",
        ("tcmalloc", "default", "busy"),
        RELEASE,
        below=0.9,
    ),
    *(
        Within(
            id=f"jemalloc-{name}-half",
            text=f"{phrase} half of it is back at half of jemalloc's decay time of 1 s",
            metric="half_time",
            where={"allocator": "jemalloc", "setting": setting, "meanwhile": meanwhile}
            | {"wait": WAIT},
            above=0.3,
            below=0.7,
            published="jemalloc(3), opt.dirty_decay_ms: purged 'according to a sigmoidal decay "
            "curve that starts and ends with zero purge rate'",
        )
        for name, phrase, setting, meanwhile in (
            ("busy", "in a busy program", "decay_1s", "busy"),
            (
                "background",
                "with a background thread, in an idle program,",
                "background_1s",
                "idle",
            ),
        )
    ),
    Count(
        id="retaken-faults",
        text="what was given back in the wait costs a page fault per page when it is taken again",
        metric="faults_per_page",
        where={"allocator": "jemalloc", "setting": "background_1s", "wait": WAIT},
        equals=1,
        within=0.05,
        published="memlab's own: the kernel gives a page back at its first touch",
    ),
]

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
        where={"setting": "default"},
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
        where={"setting": "default"},
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
    so=[
        Decision(
            "large-two-arenas",
            "set MALLOC_ARENA_MAX=2 if a glibc program keeps large objects after a peak: {number} "
            "of what stays by default",
            "MALLOC_ARENA_MAX=2 saves under a tenth of what large objects leave behind ({number} "
            "stays)",
            if_holds=(0, 0.9),
            if_fails=(0.9, inf),
        ),
        Decision(
            "large-threshold",
            "pin the mmap threshold to 1 MiB: under a tenth stays",
            "pinning the mmap threshold does not help ({number} stays)",
            if_holds=(0, 0.1),
            if_fails=(0.9, inf),
            between="pin the mmap threshold to 1 MiB: {number} stays",
        ),
    ],
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
            quick=OF_GLIBC,
            help="setting; of glibc: one_arena, two_arenas: MALLOC_ARENA_MAX; map_1m: "
            "MALLOC_MMAP_THRESHOLD_ of 1 MiB; trim_128k: MALLOC_TRIM_THRESHOLD_ of 128 KiB; of "
            "jemalloc: decay_1s: dirty_decay_ms of 1,000, 10,000 by default; background: "
            "background_thread, off by default; background_1s: both",
            host=True,
            level_labels={
                "one_arena": "1 arena",
                "two_arenas": "2 arenas",
                "map_1m": "mmap threshold 1 MiB",
                "trim_128k": "trim threshold 128 KiB",
                "decay_1s": "decay in 1 s",
                "background": "background thread",
                "background_1s": "background thread, decay in 1 s",
            },
        ),
        Factor("object", BYTES, quick=[SMALL, MIDDLE, LARGE], help="object size", least=16),
        Factor(
            "threads",
            ENUM,
            quick=["kept"],
            plain="kept",
            help="threads; kept: a pool; per_round: made for each round",
            level_labels={"kept": "kept threads", "per_round": "new threads per round"},
        ),
        Factor("at_once", COUNT, quick=[16], help="threads at once", least=1, most=256),
        Factor("held", BYTES, quick=[4 * MIB], help="memory of a thread; at the peak", least=16),
        Factor(
            "survivors",
            COUNT,
            quick=[0],
            plain=0,
            help="one survivor in; so many objects, which lives until the next round; 0: none",
        ),
        Factor("rounds", COUNT, quick=[8], help="rounds; of allocating and freeing", least=1),
        Factor(
            "wait",
            SECONDS,
            quick=[0.0],
            help="wait; after the last round, in which what is resident is read. 0: none",
            most=60,
        ),
        Factor(
            "meanwhile",
            ENUM,
            quick=["idle"],
            help="threads in the wait; busy: each allocates and frees 1,001 objects per 10 ms",
            level_labels={"idle": "idle", "busy": "busy threads"},
        ),
    ],
    excludes=[
        Exclude(
            lambda at: (
                at["setting"] != "default"
                and at["allocator"] != ("jemalloc" if at["setting"] in OF_JEMALLOC else "glibc")
            ),
            "each setting is glibc's or jemalloc's",
        ),
        Exclude(
            lambda at: at["meanwhile"] != "idle" and (at["threads"] != "kept" or not at["wait"]),
            "kept threads can be busy, in a wait",
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
                confirmed="a threshold trims only an arena's end, and the call what is between",
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
                    where={"allocator": "glibc", "setting": "default"},
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
        control(
            "decay",
            "The program waits: idle, or with threads that allocate a little, which gives their "
            "allocator occasions to give memory back.",
            {
                "wait": WAIT,
                "meanwhile": ["idle", "busy"],
                "object": [MIDDLE],
                "setting": ["default", "decay_1s", "background_1s"],
            },
            *(
                Explanation(
                    Within(
                        metric="waited_share",
                        where={
                            "allocator": "jemalloc",
                            "setting": "decay_1s",
                            "meanwhile": meanwhile,
                        },
                        below=0.1,
                        timed=False,
                    ),
                    f"{phrase} jemalloc retains a share of {{value}} after its decay time",
                    confirmed=confirmed,
                    refuted=refuted,
                )
                for meanwhile, phrase, confirmed, refuted in (
                    (
                        "idle",
                        "in an idle program",
                        "the delay is a timer",
                        "the delay is not a timer: some call of the allocator has to follow",
                    ),
                    (
                        "busy",
                        "in a busy program",
                        "calls of the allocator give memory back once the delay is over",
                        "calls of the allocator do not give it back",
                    ),
                )
            ),
            presets=("paper", "full"),
        ),
        control(
            "decay-default",
            "jemalloc's default decay time of 10 s.",
            {
                "allocator": "jemalloc",
                "wait": LONG_WAIT,
                "object": [MIDDLE],
                "setting": ["background"],
            },
            presets=("paper", "full"),
        ),
    ],
    metrics=[
        Metric("peak", "B", "resident at the peak; beyond that before", of=F.peak_bytes),
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
            of=SHARE,
        ),
        Metric(
            "waited",
            "B",
            "retained after the wait; resident, and of no object that lives",
            of=WAITED,
        ),
        Metric(
            "waited_share",
            "1",
            "retained after the wait / before; not given where that is under 1 MiB",
            of=WAITED_SHARE,
        ),
        *(
            Metric(
                f"after_{name}",
                "B",
                f"retained after {phrase}; of the wait, not given where it is shorter",
                of=left_after(wait_s),
            )
            for name, phrase, wait_s in (
                ("100ms", "0.1 s", 0.1),
                ("1s", "1 s", 1.0),
                ("10s", "10 s", 10.0),
            )
        ),
        Metric(
            "half_time",
            "s",
            "time until half is given back; not given where half is there to the wait's end",
            of=HALF_TIME,
        ),
        Metric(
            "retaken_faults",
            "faults",
            "page faults of the round after the wait",
            of=F.retaken_fault_count.where(_WAITED),
        ),
        Metric(
            "faults_per_page",
            "faults",
            "page faults per page given back; of the round after the wait",
            of=FAULTS_PER_PAGE,
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
            of=GIVEN_SHARE,
            lower_is_better=False,
        ),
        Metric(
            "page_tables",
            "B",
            "page tables after the peak; VmPTE",
            of=F.after_table_bytes.optional,
        ),
        Metric(
            "page_tables_left",
            "B",
            "page tables after giving back; VmPTE. Linux 6.14 and later (x86-64) frees those that "
            "madvise empties",
            of=F.given_table_bytes.optional,
        ),
        Metric("give_back_time", "s", "time to give back; one call", of=F.give_back_ns),
        Metric("last_time", "s", "time of the last round; before that", of=F.last_ns),
        Metric("again_time", "s", "time of the next round; after that", of=F.again_ns),
        Metric(
            "last_faults",
            "faults",
            "page faults of the last round",
            of=F.last_fault_count,
        ),
        Metric("again_faults", "faults", "page faults of the next round", of=F.again_fault_count),
        Metric("arenas", "count", "arenas; by glibc's malloc_info(3)", of=F.arena_count),
        Metric(
            "free_in_malloc",
            "B",
            "free by malloc's own count; taken from the kernel and not in use, touched or not",
            of=FREE_IN_MALLOC,
        ),
    ],
    cost=Cost(
        memory=lambda at: 2 * int(at["at_once"]) * int(at["held"]) + 64 * MIB,
        time=lambda at: (
            0.3
            + float(at["wait"])
            + int(at["rounds"]) * int(at["at_once"]) * int(at["held"]) / (800 * MIB)
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
    claims=[*CLAIMS, *DECAY],
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
        "decay": Timeline(
            "waited",
            over="allocator",
            by=["setting", "meanwhile"],
            series="resident",
            quantity="resident memory",
            where={"wait": WAIT},
            controls=["decay"],
            claims=["jemalloc-background", "mimalloc-idle"],
        ),
    },
    budget_s={"quick": 210.0, "paper": 600.0, "full": 1200.0},
)
