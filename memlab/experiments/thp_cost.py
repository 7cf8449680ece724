"""thp-cost: are huge pages good or bad for this access?

The claims are those of guides that ask for huge pages to be switched off, and of the kernel's own
documentation. Until Linux 5.7 a store to a shared huge page copied 2 MiB; since 5.8 it splits the
mapping and copies one small page (commit 3917c80280c9).
"""

from contextlib import suppress
from functools import cache
from pathlib import Path

from memlab.experiment import *

KIB, MIB = 2**10, 2**20
PAGE_BYTES = 4 * KIB  # for what a point needs; a sample says its own
HUGE_BYTES = 2 * MIB
ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled"
SIZES = "/sys/kernel/mm/transparent_hugepage/hugepages-{}kB/enabled"

KERNEL = "Documentation/admin-guide/mm/transhuge.rst"
REDIS = "Netdata, Redis and Transparent Huge Pages (2026)"
MONGODB = "MongoDB 4.0, Disable Transparent Huge Pages"

SMALL: dict[str, Level] = {"pages": "small"}
HUGE: dict[str, Level] = {"pages": "huge"}
ALL: dict[str, Level] = {"used": "all"}
SPARSE: dict[str, Level] = {"used": "sparse"}
PMD: dict[str, Level] = {"folio": HUGE_BYTES}


def expected_faults(raw: Raw, at: At) -> float:
    """One per folio that a touch brings in; what found no huge page takes one per small page."""
    if at["pages"] != "huge" or at["used"] == "sparse":
        return float(raw["touch_count"])
    if at["folio"] != HUGE_BYTES:
        return int(at["size"]) / int(at["folio"])
    huge = int(raw["huge_bytes"])
    return huge / HUGE_BYTES + (int(at["size"]) - huge) / int(raw["page_bytes"])


@cache  # of the host as it was before the first trial
def switched_off() -> bool:
    """As a kernel does by itself on a machine of under 512 MiB."""
    with suppress(OSError):  # a kernel without huge pages has no such file
        return "[never]" in Path(ENABLED).read_text()
    return False


def settings(at: At) -> dict[str, str]:
    """Huge pages on advice, where the host has none at all; their size, where it is not the
    largest (Linux 6.8)."""
    if at["folio"] == HUGE_BYTES:
        return {ENABLED: "madvise"} if at["pages"] != "small" and switched_off() else {}
    return {SIZES.format(int(at["folio"]) // KIB): "madvise", SIZES.format(2048): "never"}


def ratio(
    id: str,
    text: str,
    metric: str,
    where: At,
    published: str,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Ratio:
    """Huge pages to small ones."""
    return Ratio(
        id=id,
        text=text,
        metric=metric,
        where={**where, **PMD},
        of=HUGE,
        to=SMALL,
        published=published,
        timed=metric.endswith("_time"),
        above=above,
        below=below,
    )


def count(id: str, text: str, metric: str, where: At, equals: int, published: str) -> Count:
    where = {**where, **PMD}
    return Count(id=id, text=text, metric=metric, where=where, equals=equals, published=published)


EXPERIMENT = Experiment(
    name="thp-cost",
    question="Are transparent huge pages good or bad: for the first touch, memory, loads and fork?",
    probe="thp_cost",
    factors=[
        Factor(
            "pages",
            ENUM,
            quick=["small", "huge"],
            help="pages; small: MADV_NOHUGEPAGE; huge: MADV_HUGEPAGE; collapsed: touched as small "
            "ones, then MADV_COLLAPSE",
            level_labels={"small": "4 KiB pages", "huge": "huge pages", "collapsed": "collapsed"},
        ),
        Factor(
            "used",
            ENUM,
            help="use of the memory; every page, or one page of each 2 MiB",
            level_labels={"all": "every page", "sparse": "one page of each 2 MiB"},
        ),
        Factor(
            "written",
            ENUM,
            quick=["sparse"],
            full=["sparse", "all"],
            help="pages that the child writes; one of each 2 MiB, or every used one",
            level_labels={"all": "every used page", "sparse": "one page of each 2 MiB"},
        ),
        Factor(
            "size",
            BYTES,
            quick=[64 * MIB],
            full=[64 * MIB, 256 * MIB],
            help="memory mapped; in huge pages of 2 MiB",
            least=HUGE_BYTES,
        ),
        Factor("loads", COUNT, quick=[200_000], help="loads; dependent, in random order"),
        Factor(
            "folio",
            BYTES,
            quick=[HUGE_BYTES],
            help="size of a huge page; below 2 MiB by the host's setting (needs root, Linux 6.8)",
            least=16 * KIB,
            most=HUGE_BYTES,
            host=True,
        ),
    ],
    host=Host(
        settings=settings,
        containment=Containment(
            lambda at: 2 * int(at["size"]) + 128 * MIB, required=lambda _: False
        ),
    ),
    controls=[
        control(
            "collapsed",
            "Touched as small pages, then made huge: the page size without the huge fault.",
            {"pages": ["collapsed"], "used": ["all", "sparse"]},
            Explanation(
                Equivalent(
                    metric="load_time",
                    where=ALL | PMD,
                    of={"pages": "collapsed"},
                    to=HUGE,
                    within=0.15,
                ),
                "a load takes {of} where small pages were collapsed and {to} where a fault brought "
                "the huge pages in",
                confirmed="loads gain by the size of the page, however it came to be",
                refuted="the size of the page alone does not explain what loads gain",
            ),
            Explanation(
                Count(
                    metric="resident_over_used",
                    where=SPARSE | PMD | {"pages": "collapsed"},
                    equals=512,
                ),
                "memory of which one small page in 512 was used is {value} times as large once it "
                "is collapsed",
                confirmed="what collapses pages costs the same memory as a huge fault",
                refuted="collapsing does not fill what was not used",
            ),
        ),
        control(
            "zeroed",
            "The memory is zeroed once more after its first touch: the part of a huge fault that "
            "no kernel can save.",
            {"pages": ["huge"], "used": "all", "size": [128 * MIB]},
            Explanation(
                Within(metric="touch_over_zeroing", where=HUGE | PMD, below=3),
                "the first touch of huge pages takes {value} times what zeroing them takes",
                confirmed="a huge fault is mostly zeroing, not compaction",
                refuted="more than zeroing is in it: compaction, or memory that the hypervisor "
                "has to find first",
            ),
        ),
        control(
            "smaller",
            "Folios between the two sizes: fewer faults than small pages, less unused memory than "
            "2 MiB.",
            {"pages": ["huge"], "folio": [64 * KIB, 256 * KIB], "used": ["all", "sparse"]},
            presets=("full",),
        ),
    ],
    metrics=[
        Metric(
            "touch_time",
            "s/page",
            "time per first touch; of one used page",
            of=read("window.elapsed_ns", per="touch_count"),
            floor=read("floor_ns", per="touch_count"),
        ),
        Metric(
            "load_time",
            "s/load",
            "time per load; from a random touched page",
            of=read("load_ns", per="at.loads"),
            floor=read("load_floor_ns", per="at.loads"),
        ),
        Metric(
            "resident_over_used",
            "1",
            "resident memory / used pages",
            of=lambda raw, at: raw["resident_bytes"] / (raw["touch_count"] * raw["page_bytes"]),
        ),
        Metric(
            "huge_share",
            "1",
            "share in huge pages; of the resident memory, those of 2 MiB",
            of=read("huge_bytes", per="resident_bytes"),
        ),
        Metric(
            "faults",
            "faults",
            "minor faults; of the first touch",
            of=read("window.minor_fault_count"),
        ),
        Metric(
            "faults_over_expected",
            "1",
            "minor faults / expected faults; expected is one per folio",
            of=lambda raw, at: raw["window"]["minor_fault_count"] / expected_faults(raw, at),
        ),
        Metric("fork_time", "s", "time of fork(2); in the parent", of=read("fork_ns")),
        Metric(
            "write_time",
            "s/write",
            "time per first write after fork; by the child, to one page",
            of=read("write_ns", per="write_count"),
            floor=read("write_floor_ns", per="write_count"),
        ),
        Metric(
            "write_faults",
            "faults/write",
            "faults per write after fork",
            of=read("write_fault_count", per="write_count"),
        ),
        Metric(
            "copied",
            "B/write",
            "copied bytes per write after fork; what is then the child's own",
            of=read("copied_bytes", per="write_count"),
        ),
        Metric(
            "collapse_time",
            "s",
            "time of MADV_COLLAPSE",
            of=read("collapse_ns", when={"pages": "collapsed"}),
        ),
        Metric(
            "touch_over_zeroing",
            "1",
            "first touch / zeroing again; of all of the memory",
            of=read("window.elapsed_ns", per="zero_ns", when=ALL),
        ),
    ],
    cost=Cost(
        memory=lambda at: 2 * int(at["size"]) + 64 * MIB,
        time=lambda at: 0.05 + int(at["size"]) / PAGE_BYTES * 4e-6 + int(at["loads"]) * 4e-7,
    ),
    tiny={"size": [4 * MIB], "loads": [101]},
    shrinks="size",
    claims=[
        ratio(
            "fewer-faults",
            "touching all of the memory takes 512 times fewer faults with huge pages",
            "faults",
            ALL,
            f"{KERNEL}: 'reducing the enter/exit kernel frequency by a 512 times factor'",
            above=1 / 512.5,
            below=1 / 511.5,
        ),
        count(
            "exact-faults-all",
            "the first touch of all of the memory takes exactly one fault per page, huge or small",
            "faults_over_expected",
            ALL,
            1,
            f"{KERNEL}: 'a single page fault for each 2M virtual region touched'",
        ),
        count(
            "exact-faults-sparse",
            "the first touch of one page of each 2 MiB takes exactly one fault per touch",
            "faults_over_expected",
            SPARSE,
            1,
            f"{KERNEL}: 'a single page fault for each 2M virtual region touched'",
        ),
        count(
            "unused-memory",
            "with one page of each 2 MiB in use, huge pages hold 512 times the memory",
            "resident_over_used",
            SPARSE | HUGE,
            512,
            f"{KERNEL}: 'only touch 1 byte of it, in that case a 2M page might be allocated'",
        ),
        ratio(
            "touch-all",
            "touching all of the memory is faster with huge pages",
            "touch_time",
            ALL,
            f"{KERNEL}: 'The first factor', which 'only matters the first time'",
            below=1,
        ),
        ratio(
            "touch-sparse",
            "one touch in each 2 MiB is over 10 times slower with huge pages",
            "touch_time",
            SPARSE,
            f"{KERNEL}: 'larger clear-page copy-page in page faults'; {MONGODB}: 'database "
            "workloads often perform poorly with THP enabled, because they tend to have sparse "
            "rather than contiguous memory access patterns'",
            above=10,
        ),
        ratio(
            "loads",
            "loads from random pages are faster with huge pages",
            "load_time",
            ALL,
            f"{KERNEL}: 'the TLB miss will run faster'",
            below=1,
        ),
        ratio(
            "fork",
            "huge pages make fork 10 to 100 times slower",
            "fork_time",
            ALL,
            f"{REDIS}: 'THP can increase fork latency by 10 to 100 times'",
            above=10,
        ),
        count(
            "copies-huge",
            "after fork, a write of one byte to a huge page copies all of its 2 MiB",
            "copied",
            ALL | HUGE,
            HUGE_BYTES,
            f"{REDIS}: 'the same single-byte write copies the entire 2MB page'",
        ),
        count(
            "copies-small",
            "after fork, a write of one byte to a huge page copies 4 KiB: the mapping is split",
            "copied",
            ALL | HUGE,
            PAGE_BYTES,
            "commit 3917c80280c9 (Linux 5.8)",
        ),
    ],
    figure=Bars("touch_time", over="used", by=["pages"], log="y", base=SMALL),
    more_figures={
        "loads": Bars("load_time", over="used", by=["pages"], base=SMALL),
        "memory": Bars("resident_over_used", over="used", by=["pages"], log="y", base=SMALL),
        "fork": Bars("fork_time", over="used", by=["pages"], log="y", base=SMALL),
        "write": Bars(
            "write_time",
            over="used",
            by=["pages"],
            log="y",
            base=SMALL,
            claims=["copies-huge", "copies-small"],
        ),
    },
)
