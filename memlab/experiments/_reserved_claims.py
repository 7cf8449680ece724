"""What reserved-copy claims: the article's numbers, and what of them has another explanation."""

from memlab.experiment import Control, Count, Explanation, Ratio
from memlab.experiments._reserved_points import COPIED, MALLOC, PLAIN, WITHIN

NOT_LOCKED = "VmLck: 0 kB, though mlock returned 0"
CLEANED = "43,951 us against 17,313 us for 32M"
CLEANERS = ("clflush", "clflushopt", "clwb")

CLAIMS = (
    Count(
        text="reserved memory is not locked, though mlock returns 0: VmLck stays 0",
        metric="vm_lck",
        where=WITHIN | {"lock": "mlock"},
        equals=0,
        published=NOT_LOCKED,
        controls=("ring",),
    ),
    Count(
        text="nor is a perf_event ring, which needs no reserved memory",
        metric="vm_lck",
        where={"memory": "perf_ring", "lock": "mlock"},
        equals=0,
        published=NOT_LOCKED + ", of reserved memory",
    ),
    Count(
        text="without O_SYNC, reserved memory is mapped without the cache",
        metric="write_back",
        where=WITHIN | PLAIN,
        equals=0,
        published="section on the cache: memory above mem= is mapped with the cache off",
    ),
    Count(
        text="with O_SYNC, reserved memory is mapped without the cache",
        metric="write_back",
        where=WITHIN | {"cache": "uncached", "lock": "none"},
        equals=0,
        published="section on the cache, which names uncached_access of drivers/char/mem.c",
    ),
    Ratio(
        text="a copy within uncached memory takes over 10 times as long as within cached",
        metric="copy_time",
        where=WITHIN | {"clean": "none", "lock": "none"},
        of={"cache": "uncached"},
        to={"cache": "cached"},
        above=10.0,
        published="364,115 us against 17,313 us for 32M",
        controls=("imitated",),
    ),
    *(
        Ratio(
            text=f"cleaning the destination by {cleaner} makes the copy take 2 to 3 times as long",
            metric="copy_time",
            where=WITHIN | {"cache": "cached", "lock": "none"},
            of={"clean": cleaner},
            to={"clean": "none"},
            above=2.0,
            below=3.0,
            published=CLEANED,
        )
        for cleaner in CLEANERS
    ),
    Ratio(
        text="cached reserved memory is copied within 1.3 times of malloc's first copy",
        metric="copy_time",
        where={"size": COPIED} | PLAIN,
        of={"memory": "reserved"},
        to={"memory": "malloc"},
        below=1.3,
        published="17,313 us against 14,173 us for 32M",
    ),
)

CONTROLS = (
    Control(
        "ring",
        "A perf_event ring, which is the kernel's own memory and no reserved one, locked: if mlock "
        "leaves VmLck at 0 there too, it is the kind of mapping that is not locked.",
        levels={
            "memory": ["perf_ring"],
            "cache": ["cached"],
            "clean": ["none"],
            "lock": ["mlock"],
        },
        explanations=[
            Explanation(
                predicts=Count(
                    text="a perf_event ring is not locked either, though mlock returns 0",
                    metric="vm_lck",
                    where={"memory": "perf_ring", "lock": "mlock"},
                    equals=0,
                ),
                confirmed="of a perf_event ring, which needs no reserved memory, mlock returns 0 "
                "and VmLck is {value}: the kernel passes over every mapping of this kind "
                "(VM_SPECIAL in mlock_fixup), whose pages reclaim never takes",
                refuted="of a perf_event ring, which needs no reserved memory, mlock returns 0 and "
                "VmLck is {value}: what is not locked is particular to reserved memory",
                undecided="of a perf_event ring VmLck is {value}: whether it is locked is not "
                "shown",
            ),
        ],
    ),
    Control(
        "imitated",
        "Ordinary memory, cached, whose lines are dropped one by one, the source's before it is "
        "read and the destination's after it is written: what is lost with the caches alone. "
        "Locked, so that no page fault is in it. It is not uncached memory.",
        levels={
            "memory": ["malloc"],
            "cache": ["imitated"],
            "clean": ["none"],
            "lock": ["mlock"],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="ordinary memory whose lines are dropped is copied over 10 times slower",
                    metric="copy_time",
                    where=MALLOC | {"clean": "none", "lock": "mlock"},
                    of={"cache": "imitated"},
                    to={"cache": "cached"},
                    above=10.0,
                ),
                confirmed="in ordinary memory whose lines are dropped as they are used the copy "
                "takes {of} against {to}: the caches alone are worth that much",
                refuted="in ordinary memory whose lines are dropped as they are used the copy "
                "takes {of} against {to}: losing the caches alone does not explain it",
                undecided="in ordinary memory whose lines are dropped as they are used the copy "
                "takes {of} against {to}: what the caches are worth is not shown",
            ),
        ],
    ),
)
