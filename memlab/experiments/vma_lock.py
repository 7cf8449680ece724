"""vma-lock: what locking memory does to mappings, limits, children and threads, exactly."""

from collections.abc import Callable

from memlab.experiment import At, Checks, Cost, Experiment, Factor, Metric, Raw, choice
from memlab.experiments._lock_claims import CLAIMS
from memlab.experiments._scene import evidence

CHECKS = (
    *("mlock", "mlock_middle", "mlock_neighbour", "mlock_overlap"),
    *("mlock_over_exec", "map_over_exec", "mlock_unaligned", "mlock_hole"),
    *("mlock_onfault", "touch_onfault"),
    *("munlock", "munlock_middle", "munlock_twice_locked", "munmap_middle"),
    *("current_present", "current_later", "future_present", "future_later"),
    *("both_present", "both_later", "current_onfault", "future_onfault", "onfault_alone"),
    *("munlockall", "munlockall_later"),
    *("fork_child", "fork_parent", "fork_child_future", "thread", "thread_stack"),
    *("limit_zero", "limit_reached", "limit_exceeded", "limit_overlap", "limit_current"),
    *("limit_future_reached", "limit_future_exceeded", "limit_mlockall"),
    *("limit_munlock", "limit_munlockall", "max_map_count"),
)
MIB = 2**20


def vma_limit_evidence(raw: Raw, at: At) -> str:
    limit = f"{raw['process_vma_count']} lines of /proc/self/maps, vm.max_map_count "
    return f"{evidence(raw, at)}\n{limit}{raw['max_map_count']}"


def seen(field: str, side: str = "after") -> Callable[[Raw, At], float | None]:
    return lambda raw, _: float(raw[side][field])


def pages(field: str) -> Callable[[Raw, At], float | None]:
    return lambda raw, _: float(raw["after"][f"{field}_bytes"] / raw["page_bytes"])


def page_flag(field: str) -> Callable[[Raw, At], float | None]:
    return lambda raw, _: raw["after"][field]["count"]


EXPERIMENT = Experiment(
    name="vma-lock",
    question="What do mlock, munlock and mlockall do to mappings, limits, children and threads?",
    probe="vma_lock",
    factors=[
        Factor(
            "check",
            choice(*CHECKS),
            quick=CHECKS,
            help="the call that is checked, and what led up to it; a limit_ check gives up "
            "CAP_IPC_LOCK first, as an ordinary user has none",
        ),
    ],
    metrics=[
        Metric(
            "vma_count",
            "count",
            "VMAs in the range after the call",
            of=seen("vma_count"),
            evidence=evidence,
        ),
        Metric(
            "vma_count_before",
            "count",
            "VMAs in the range before the call",
            of=seen("vma_count", "before"),
            evidence=evidence,
        ),
        Metric(
            "locked_vma_count",
            "count",
            "VMAs in the range with VM_LOCKED (lo)",
            of=seen("locked_vma_count"),
            evidence=evidence,
        ),
        Metric(
            "lockonfault_vma_count",
            "count",
            "VMAs in the range with VM_LOCKONFAULT (lf)",
            of=seen("lockonfault_vma_count"),
            evidence=evidence,
        ),
        Metric(
            "resident_pages", "count", "pages present in the range", pages("rss"), evidence=evidence
        ),
        Metric(
            "locked_pages",
            "count",
            "pages present and locked in the range",
            pages("locked"),
            evidence=evidence,
        ),
        Metric(
            "vm_lck_pages",
            "count",
            "pages of all locked VMAs of the process, VmLck",
            pages("vm_locked"),
            evidence=evidence,
        ),
        Metric(
            "mlocked_pages",
            "count",
            "pages with PG_mlocked, /proc/kpageflags",
            page_flag("mlocked_pages"),
            evidence=evidence,
        ),
        Metric(
            "unevictable_pages",
            "count",
            "pages on the unevictable list, /proc/kpageflags",
            page_flag("unevictable_pages"),
            evidence=evidence,
        ),
        Metric(
            "call_errno",
            "count",
            "errno of the call, 0 where it succeeded",
            of=lambda raw, at: float(raw["call_errno"]),
            evidence=evidence,
        ),
        Metric(
            "vma_room",
            "count",
            "VMAs that the process may still have",
            of=lambda raw, at: float(raw["max_map_count"] - raw["process_vma_count"]),
            evidence=vma_limit_evidence,
        ),
    ],
    # A mapping costs the kernel some 250 B: vm_area_struct and its share of the tree.
    cost=Cost(
        memory=lambda at: 256 * MIB if at["check"] == "max_map_count" else 16 * MIB,
        time=lambda at: 1.0 if at["check"] == "max_map_count" else 0.01,
    ),
    tiny={"check": ["mlock", "mlock_middle", "fork_child"]},
    judges={"miao-2021": ["1"]},
    claims=CLAIMS,
    figure=Checks("vma_count", over="check", by=()),
)
