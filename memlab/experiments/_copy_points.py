"""Where memcpy's claims are made, its metrics, and what its points need."""

from memlab.experiment import At, Level, Metric, Raw

KIB, MIB, GIB = 2**10, 2**20, 2**30
PAGE_BYTES = 4 * KIB  # for what a point needs
HUGE_BYTES = 2 * MIB
WORKER_BYTES = 32 * MIB
STEP_RATE = 3 * GIB  # bytes a second of a trial's steps, a guess: for the plan's time

COPIED = 32 * MIB  # the published copy
FIRST: dict[str, Level] = {"size": COPIED, "method": "libc", "dst": "malloc", "clean": "none"}

KINDS = ("malloc", "mmap", "populate", "map_locked", "memfd", "thp")
LOCK_STATES = ("touched", "mlocked", "mlock_onfault", "unlocked")
KIND_HELP = (
    "malloc (below 128 KiB of the heap), an anonymous mapping, that with MAP_POPULATE or "
    "MAP_LOCKED, a shared mapping of a memfd, transparent huge pages"
)


def memory_bytes(at: At) -> int:
    """Both sides in whole pages, huge where they may be, 8 bytes of page table a page, and the
    worker."""
    unit = HUGE_BYTES if "thp" in (at["src"], at["dst"]) else PAGE_BYTES
    side = -(-int(at["size"]) // unit) * unit + PAGE_BYTES  # malloc's header
    return 2 * (side + side // 512) + WORKER_BYTES


def trial_time(at: At) -> float:
    """Filling, making room, bringing in, the first copy, one more at least, comparing."""
    step_s = int(at["size"]) / STEP_RATE * (1 if at["clean"] == "none" else 2)
    return 0.01 + 6 * step_s + (float(at["slice"]) or int(at["passes"]) * step_s)


def first_s(raw: Raw, _: At) -> float:
    return float(raw["window"]["elapsed_ns"] * 1e-9)


def steady_s(raw: Raw, _: At) -> float:
    return float(raw["steady"]["elapsed_ns"] * 1e-9 / raw["steady_count"])


def floor_s(raw: Raw, _: At) -> float:
    return float(raw["floor_ns"] * 1e-9 / raw["floor_count"])


def prepare_s(raw: Raw, _: At) -> float:
    return float(raw["prepare_ns"] * 1e-9)


METRICS = [
    Metric(
        "steady_bandwidth",
        "B/s",
        "bytes copied a second, after the first copy",
        of=lambda raw, at: int(at["size"]) / steady_s(raw, at),
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
        "copies after the first: a very large cache makes later ones faster",
        of=lambda raw, at: float(raw["steady_count"]),
        lower_is_better=False,
    ),
    Metric(
        "huge_pages",
        "B",
        "of the destination in transparent huge pages, by smaps",
        of=lambda raw, at: raw["huge_bytes"]["count"],
        lower_is_better=False,
    ),
]
