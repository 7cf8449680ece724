"""Where memcpy's claims are made, its metrics, and what its points need."""

from collections.abc import Mapping

from memlab.experiment import At, CostTerm, CostTerms, Level, Metric, Raw

KIB, MIB, GIB = 2**10, 2**20, 2**30
PAGE_BYTES = 4 * KIB  # for what a point needs
HUGE_BYTES = 2 * MIB
WORKER_BYTES = 32 * MIB
STEP_RATE = 3 * GIB  # bytes a second of a trial's steps, a guess: for the plan's time

HUGE_POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

COPIED = 32 * MIB  # the published copy
LARGE = 256 * MIB  # beyond the caches, as mbw's 5000 MiB are
FROM_MALLOC: dict[str, Level] = {
    "src": "malloc",
    "dst": "malloc",
    "content": "pattern",
    "clean": "none",
}
ALONE: dict[str, Level] = {**FROM_MALLOC, "threads": 1}
FIRST: dict[str, Level] = {"size": COPIED, "method": "libc", **ALONE}
STEADY: dict[str, Level] = {"size": LARGE, "dst_state": "cold", **ALONE}

KINDS = ("malloc", "mmap", "populate", "map_locked", "memfd", "tmpfs", "thp", "hugetlb")
LOCK_STATES = ("touched", "mlocked", "mlock_onfault", "unlocked")
KIND_HELP = (
    "malloc (below 128 KiB of the heap), an anonymous mapping, that with MAP_POPULATE or "
    "MAP_LOCKED, a shared mapping of a memfd or of a file on tmpfs, transparent huge pages, huge "
    "pages that the host reserves (MAP_HUGETLB)"
)


def memory_bytes(at: At) -> int:
    """Both sides in whole pages, huge where they may be, 8 bytes of page table a page, and the
    worker."""
    unit = HUGE_BYTES if {"thp", "hugetlb"} & _kinds(at) else PAGE_BYTES
    side = _whole(int(at["size"]), unit) + PAGE_BYTES  # malloc's header
    return 2 * (side + side // 512) + WORKER_BYTES


def tmpfs_bytes(at: At) -> int:
    return _whole(int(at["size"]), PAGE_BYTES) * [at["src"], at["dst"]].count("tmpfs")


def host_settings(at: At) -> Mapping[str, str]:
    """Huge pages beside those that the host has, which others may be using."""
    sides = [at["src"], at["dst"]].count("hugetlb")
    pages = _whole(int(at["size"]), HUGE_BYTES) // HUGE_BYTES * sides
    return {HUGE_POOL: f"+{pages}"} if pages else {}


def _kinds(at: At) -> set[Level]:
    return {at["src"], at["dst"]}


def _whole(size_bytes: int, unit_bytes: int) -> int:
    return -(-size_bytes // unit_bytes) * unit_bytes


def trial_time(at: At) -> float:
    """Filling, making room, bringing in, the first copy, one more at least, comparing."""
    step_s = int(at["size"]) / STEP_RATE * (1 if at["clean"] == "none" else 2)
    return 0.01 + 6 * step_s + (float(at["slice"]) or int(at["passes"]) * step_s)


def first_s(raw: Raw, _: At) -> float:
    return float(raw["window"]["elapsed_ns"] * 1e-9)


def steady_bandwidth(raw: Raw, at: At) -> float:
    """Before there were threads a sample had no `steady_bytes`: all copies were of the whole."""
    copied_bytes = raw.get("steady_bytes", raw["steady_count"] * int(at["size"]))
    return float(copied_bytes / (raw["steady"]["elapsed_ns"] * 1e-9))


def steady_s(raw: Raw, at: At) -> float:
    return int(at["size"]) / steady_bandwidth(raw, at)


def floor_s(raw: Raw, _: At) -> float:
    return float(raw["floor_ns"] * 1e-9 / raw["floor_count"])


def prepare_s(raw: Raw, _: At) -> float:
    return float(raw["prepare_ns"] * 1e-9)


def smaps(raw: Raw, _: At) -> str:
    """What /proc/self/smaps said of both sides, in samples that have it."""
    return "".join(f"{side}: {raw.get(f'{side}_smaps', '')}\n" for side in ("src", "dst"))


METRICS = [
    Metric(
        "steady_bandwidth",
        "B/s",
        "bytes copied a second, after the first copy",
        of=steady_bandwidth,
        lower_is_better=False,
    ),
    Metric("first_copy", "s", "time of the first copy", of=first_s, floor=floor_s),
    Metric("steady_copy", "s", "time of a copy after the first", of=steady_s, floor=floor_s),
    Metric(
        "first_bandwidth",
        "B/s",
        "bytes copied a second in the first copy",
        of=lambda raw, at: int(at["size"]) / first_s(raw, at),
        lower_is_better=False,
    ),
    Metric(
        "prepare_time",
        "s",
        "making the destination and bringing it into its state, before the window",
        of=prepare_s,
    ),
    Metric(
        "prepare_and_first",
        "s",
        "prepare_time and first_copy together: what a program waits that copies once",
        of=lambda raw, at: prepare_s(raw, at) + first_s(raw, at),
    ),
    Metric(
        "steady_faults",
        "faults",
        "minor faults by rusage in all copies after the first",
        of=lambda raw, at: float(raw["steady"]["minor_fault_count"]),
    ),
    Metric(
        "steady_copies",
        "copies",
        "copies after the first, of the first thread's part: a very large cache makes later ones "
        "faster",
        of=lambda raw, at: float(raw["steady_count"]),
        lower_is_better=False,
    ),
    Metric(
        "huge_pages",
        "B",
        "of the destination in huge pages, by smaps",
        of=lambda raw, at: raw["huge_bytes"]["count"],
        lower_is_better=False,
        evidence=smaps,
    ),
    Metric(
        "src_huge_pages",
        "B",
        "of the source in huge pages, by smaps",
        of=lambda raw, at: raw["src_huge_bytes"]["count"] if "src_huge_bytes" in raw else None,
        lower_is_better=False,
        evidence=smaps,
    ),
]

# What a first copy costs: its bytes, wherever they come from, and the page faults it takes. Later
# copies take none, and a cache decides what a byte costs.
COSTS = CostTerms(
    "first_copy",
    by=["method"],
    over="size",
    where=ALONE,
    terms=[
        CostTerm("first copy", lambda raw, at: 1.0),
        CostTerm("byte", lambda raw, at: float(at["size"])),
        CostTerm("fault", lambda raw, at: float(raw["window"]["minor_fault_count"])),
    ],
)
