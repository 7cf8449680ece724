"""reserved-copy: what does copying cost within memory that is reserved from the kernel?

Reserved memory needs root and a boot parameter (mem=, memmap=). A guest has both
(docs/locking.md).
"""

import errno
import re

from memlab.experiment import *
from memlab.text import units

AUTO = "auto"  # of a range: the largest that may be opened
_RANGE = re.compile(r"(?P<start>[^+-]+)(?P<sign>[+-])(?P<end>[^+-]+)")
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")


def _address(text: str) -> int:
    return int(text, 16) if _HEX.fullmatch(text) else units.parse_size(text)


def _range(text: str) -> str:
    """As START+LENGTH in hexadecimal, whichever way it is written."""
    spelled = _RANGE.fullmatch(text)
    if text.strip() == AUTO:
        return AUTO
    try:
        if not spelled:
            raise ValueError
        start, end = (_address(spelled[name].strip()) for name in ("start", "end"))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a range of physical addresses; write START+LENGTH such as 1g+64m, or "
            "first and last byte as /proc/iomem does, 0x40000000-0x43ffffff"
        ) from None
    length = end if spelled["sign"] == "+" else end - start + 1
    if not 0 < length < 2**64 or start + length > 2**64:
        raise ValueError(f"{text!r} is not a range: it is empty, or ends beyond the last address")
    return f"0x{start:x}+0x{length:x}"


PHYSICAL_RANGE = Kind(
    "physical range",
    _range,
    str,
    lambda level: _range(str(level)),
)

KIB, MIB = 2**10, 2**20
PAGE_BYTES = 4 * KIB
WORKER_BYTES = 32 * MIB
# Bytes per second of a trial's steps, a guess: for the plan's time.
CACHED_RATE, UNCACHED_RATE = 1024 * MIB, 100 * MIB

COPIED = 32 * MIB  # the published copy
RESERVED = ("malloc_to_reserved", "reserved_to_malloc", "reserved")
WITHIN: dict[str, Level] = {"size": COPIED, "memory": "reserved"}
MALLOC: dict[str, Level] = {"size": COPIED, "memory": "malloc"}


def memory_bytes(at: At) -> int:
    """Source and destination. Reserved memory needs neither, but room for one is touched before."""
    side = int(at["size"]) + 2 * PAGE_BYTES
    return 2 * (side + side // 512) + WORKER_BYTES


def reserved(at: At) -> ReservedMemory | None:
    """Whole pages; within it, source and destination lie in one mapping."""
    if at["memory"] not in RESERVED:
        return None
    side_bytes = -(-int(at["size"]) // PAGE_BYTES) * PAGE_BYTES
    return ReservedMemory(
        range="" if at["range"] == AUTO else str(at["range"]),
        size_bytes=side_bytes * (2 if at["memory"] == "reserved" else 1),
        uncached=at["cache"] == "uncached",
    )


def trial_time(at: At) -> float:
    """Filling, the copy, comparing."""
    rate = CACHED_RATE if at["cache"] == "cached" else UNCACHED_RATE
    return 0.05 + 4 * int(at["size"]) / rate


def memory_type(raw: Raw) -> str:
    """In force for the reserved memory; "" where that is not to be read here."""
    return str(raw["memory_type"])


def evidence(raw: Raw, at: At) -> str:
    """What mlock returned, VmLck, the memory and its type, and the lines of smaps."""
    locked = raw["window"]["counters"]["vm_locked_bytes"]["count"]
    parts = ["mlock(memory) = 0" if at["lock"] == "mlock" else "(not locked)"]
    if locked is not None:
        parts.append(f"VmLck: {locked // KIB} kB")
    if raw["range_bytes"]:
        number = raw["memory_type_errno"]
        result = memory_type(raw) or f"unknown, {errno.errorcode.get(number, number)}"
        parts.append(f"memory type at 0x{raw['range_start_bytes']:x}: {result}")
    return "\n".join([*parts, raw["smaps"].rstrip()])


def _flags(smaps: str) -> set[str]:
    return set(smaps.rpartition("VmFlags:")[2].split())


METRICS = [
    Metric(
        "copy_time",
        "s",
        "copy time",
        of=F.window.elapsed_ns,
        baseline_loop=F.floor_ns,
        evidence=evidence,
    ),
    Metric(
        "bandwidth",
        "B/s",
        "bandwidth; bytes copied per second",
        of=F.at.size / F.window.elapsed_ns,
        lower_is_better=False,
    ),
    Metric(
        "vm_lck",
        "B",
        "VmLck; of the process, after the copy",
        of=F.window.counters.vm_locked_bytes,
        evidence=evidence,
    ),
    Metric(
        "pfn_mapped",
        "count",
        "VM_PFNMAP; 1: the mapping has it (pf in VmFlags)",
        of=each("pf_in_flags", lambda smaps: float("pf" in _flags(smaps)), F.smaps),
        evidence=evidence,
    ),
    Metric(
        "write_back",
        "count",
        "write-back memory type; 1: it is in force, 0: another is",
        of=when(F.memory_type.one_of("write-back"), 1, 0).where(~F.memory_type.one_of("")),
        evidence=evidence,
    ),
]


NOT_LOCKED = "VmLck: 0 kB, though mlock returned 0"
CLEANED = "43,951 us against 17,313 us for 32M"
CLEANERS = ("clflush", "clflushopt", "clwb")

CLAIMS = (
    Count(
        id="not-locked",
        text="mlock of reserved memory returns 0 and locks nothing: VmLck stays 0",
        metric="vm_lck",
        where=WITHIN | {"lock": "mlock"},
        judged_over=["cache"],
        equals=0,
        exact=True,
        published=NOT_LOCKED,
        controls=("ring",),
    ),
    Count(
        id="ring-not-locked",
        text="mlock of a perf_event ring, which is not reserved memory, locks nothing either",
        metric="vm_lck",
        where={"memory": "perf_ring", "lock": "mlock"},
        equals=0,
        exact=True,
        published="memlab's own: the lock follows from VM_PFNMAP, not from the memory's kind",
    ),
    Count(
        id="no-sync-uncached",
        text="without O_SYNC reserved memory is mapped uncached",
        metric="write_back",
        where=WITHIN,
        equals=0,
        exact=True,
        published="section on the cache: memory above mem= is mapped with the cache off",
    ),
    Count(
        id="sync-uncached",
        text="with O_SYNC reserved memory is mapped uncached",
        metric="write_back",
        where=WITHIN | {"cache": "uncached"},
        equals=0,
        exact=True,
        published="section on the cache, which names uncached_access of drivers/char/mem.c",
    ),
    Ratio(
        id="uncached-copy",
        text="a copy within uncached memory takes over 10 times as long as within cached memory",
        metric="copy_time",
        where=WITHIN,
        of={"cache": "uncached"},
        to={"cache": "cached"},
        above=10.0,
        published="364,115 us against 17,313 us for 32M",
        controls=("imitated",),
    ),
    *(
        Ratio(
            id=f"clean-{cleaner}",
            text=f"with write-back by {cleaner} of the destination the copy takes 2 to 3 times as "
            "long",
            metric="copy_time",
            where=WITHIN,
            of={"clean": cleaner},
            to={"clean": "none"},
            above=2.0,
            below=3.0,
            published=CLEANED,
        )
        for cleaner in CLEANERS
    ),
    Ratio(
        id="cached-copy",
        text="a copy within cached reserved memory takes at most 1.3 times as long as malloc's "
        "first copy",
        metric="copy_time",
        where={"size": COPIED},
        of={"memory": "reserved"},
        to={"memory": "malloc"},
        below=1.3,
        published="17,313 us against 14,173 us for 32M",
    ),
)

CONTROLS = (
    control(
        "ring",
        "A perf_event ring, which is the kernel's own memory and not reserved, is locked.",
        {"memory": "perf_ring", "cache": ["cached"], "clean": ["none"], "lock": "mlock"},
        Explanation(
            Count(metric="vm_lck", equals=0),
            "for a perf_event ring, which is not reserved memory, mlock returns 0 and VmLck is "
            "{value}",
            confirmed="the kernel passes over every mapping of this kind (VM_SPECIAL in "
            "mlock_fixup), whose pages are never reclaimed",
            refuted="only reserved memory is not locked",
        ),
    ),
    control(
        "imitated",
        "Ordinary memory, cached, whose lines are dropped one by one, the source's before they are "
        "read and the destination's after they are written: what is lost with the caches alone. "
        "Locked, so that it takes no page fault. It is not uncached memory.",
        {"memory": ["malloc"], "cache": ["imitated"], "clean": "none", "lock": "mlock"},
        Explanation(
            Ratio(
                metric="copy_time",
                where=MALLOC,
                of={"cache": "imitated"},
                to={"cache": "cached"},
                above=10.0,
            ),
            "in ordinary memory the copy takes {of} with each cache line dropped after its use and "
            "{to} with the caches",
            confirmed="losing the caches alone slows the copy that much",
            refuted="losing the caches alone does not explain it",
        ),
    ),
)


EXPERIMENT = Experiment(
    name="reserved-copy",
    question="What does a copy in memory reserved from the kernel cost, and does mlock lock it?",
    so=[
        Decision(
            "not-locked",
            "do not lock reserved memory: there is nothing to lock, and the kernel never reclaims "
            "it",
            "mlock does lock reserved memory here",
        ),
        Decision(
            "sync-uncached",
            "open /dev/mem without O_SYNC if copies must be fast: with it the mapping is uncached",
            "O_SYNC does not make the mapping uncached here",
        ),
    ],
    probe="reserved_copy",
    factors=[
        Factor("size", BYTES, quick=[COPIED], help="bytes per copy", least=1, most=2**40),
        Factor(
            "range",
            PHYSICAL_RANGE,
            quick=[AUTO],
            host=True,
            help="physical addresses of the reserved memory; as 1g+64m or 0x40000000-0x43ffffff. "
            "auto: the largest range that may be mapped. A range that the kernel uses is refused",
        ),
        Factor(
            "memory",
            ENUM,
            quick=["malloc", *RESERVED],
            help="source and destination; perf_ring: from a perf_event ring to malloc's memory",
            level_labels={
                "malloc_to_reserved": "malloc to reserved",
                "reserved_to_malloc": "reserved to malloc",
                "reserved": "within reserved",
                "malloc": "within malloc",
                "perf_ring": "perf ring to malloc",
            },
        ),
        Factor(
            "cache",
            ENUM,
            quick=["cached", "uncached"],
            plain="cached",
            help="caching; of reserved memory, mapped without O_SYNC (cached) or with it "
            "(uncached); imitated: ordinary memory whose cache lines are dropped as they are used",
            level_labels={"imitated": "cache lines dropped"},
        ),
        Factor(
            "clean",
            ENUM,
            quick=["none", "clflush", "clflushopt", "clwb"],
            plain="none",
            help="cache line write-back; of the destination, after the copy and within its time. "
            "dc_ is arm64's, the others are x86-64's",
            level_labels={"none": "no write-back"},
        ),
        Factor(
            "lock",
            ENUM,
            quick=["none", "mlock"],
            plain="none",
            help="mlock; of the reserved memory, the ring or the destination, before the copy",
            level_labels={"none": "no lock"},
        ),
    ],
    excludes=[
        Exclude(
            lambda at: at["cache"] == "uncached" and at["memory"] not in RESERVED,
            "only reserved memory can be mapped uncached",
        ),
        Exclude(
            lambda at: (
                at["cache"] == "imitated" and (at["memory"], at["lock"]) != ("malloc", "mlock")
            ),
            "imitated is about malloc's memory, locked, so that it takes no page fault",
        ),
        Exclude(
            lambda at: (
                at["clean"] != "none"
                and (at["memory"], at["cache"], at["lock"]) != ("reserved", "cached", "none")
            ),
            "write-back is measured within cached reserved memory; memcpy measures it in malloc's",
        ),
    ],
    controls=CONTROLS,
    metrics=METRICS,
    cost=Cost(memory=memory_bytes, time=trial_time),
    host=Host(
        containment=Containment(
            limit=lambda at: memory_bytes(at) * 5 // 4, required=lambda _: False
        ),
        needs=lambda at: ["reserved RAM"] if at["memory"] in RESERVED else [],
        reserved=reserved,
        locks=lambda at: int(at["size"]) + 2 * PAGE_BYTES if at["lock"] == "mlock" else 0,
    ),
    tiny={"size": [23 * 4 * KIB], "memory": ["malloc"], "cache": ["cached"], "clean": ["none"]},
    published=[
        Published(
            "phytium-reserved",
            "cache",
            "copy_time",
            columns={
                name: {"memory": "reserved", "cache": cache, "clean": clean, "lock": "none"}
                for name, cache, clean in (
                    ("uncached", "uncached", "none"),
                    ("cached", "cached", "none"),
                    ("cached_cleaned", "cached", "clflushopt"),
                )
            },
            rows={"32M": {"size": COPIED}},
            note="The study does not state which instruction wrote lines back, nor of which side; "
            "it was not clflushopt.",
        )
    ],
    judges={"phytium-reserved": ["locked", "cache-rate"]},
    claims=CLAIMS,
    budget_s={"quick": 120.0, "paper": 600.0, "full": 1800.0},
    figure=Bars(
        "copy_time",
        over="memory",
        by=["cache", "clean"],
        panels=["lock"],
        log="y",
        base={"cache": "cached", "clean": "none"},
        claims=["not-locked", "sync-uncached", "uncached-copy", "cached-copy"],
    ),
    more_figures={"locked": Checks("vm_lck", over="memory", by=())},
)
