"""What allocator reads of a sample: processor time and its jitter, latency, memory, mechanism."""

from collections.abc import Callable
from statistics import fmean, stdev

from memlab.experiment import At, Metric, Raw
from memlab.experiment.latency import longest, percentile

_FEWEST = 3  # readings of the CPU that a jitter is said of


def cpu(raw: Raw, _: At) -> float | None:
    used = raw["cpu_ns"]["values"]
    return fmean(used) * 1e-9 if used else None


def jitter(raw: Raw, _: At) -> float | None:
    used = raw["cpu_ns"]["values"]
    return stdev(used) * 1e-9 if len(used) >= _FEWEST else None


def jitter_share(raw: Raw, at: At) -> float | None:
    mean, spread = cpu(raw, at), jitter(raw, at)
    return None if mean is None or spread is None else spread / mean


def rss(of: Callable[[list[int]], float]) -> Callable[[Raw, At], float | None]:
    def read(raw: Raw, _: At) -> float | None:
        held = raw["rss_bytes"]["values"]
        return float(of(held)) if held else None

    return read


def a_second(count: Callable[[Raw], float | None]) -> Callable[[Raw, At], float | None]:
    def read(raw: Raw, _: At) -> float | None:
        seen = count(raw)
        return None if seen is None else seen / (raw["window"]["elapsed_ns"] * 1e-9)

    return read


def cpu_per_operation(raw: Raw, _: At) -> float | None:
    used_ns = raw["window"]["user_ns"] + raw["window"]["system_ns"]
    return used_ns * 1e-9 / raw["operation_count"] if raw["operation_count"] else None


def faults_per_operation(raw: Raw, _: At) -> float | None:
    count = raw["operation_count"]
    return raw["window"]["minor_fault_count"] / count if count else None


def system_share(raw: Raw, _: At) -> float | None:
    user, system = raw["window"]["user_ns"], raw["window"]["system_ns"]
    return system / (user + system) if user + system else None


def identity(raw: Raw, _: At) -> str:
    """The malloc that really ran, as it named itself."""
    told = f", {raw['malloc_setting']}" if raw["malloc_setting"] else ""
    return f"malloc of {raw['malloc_file']}, version {raw['malloc_version'] or 'not told'}{told}"


def percentile_metric(name: str, share: float, text: str) -> Metric:
    return Metric(
        name,
        "s",
        f"{text}; not said where fewer than 10 operations lie beyond it",
        of=percentile("latency", share),
        floor=percentile("floor_latency", share),
    )


METRICS = (
    Metric("cpu", "s/s", "processor time a second, user and system", of=cpu, evidence=identity),
    Metric(
        "jitter",
        "s/s",
        "standard deviation of the processor time a second, from period to period",
        of=jitter,
        evidence=identity,
    ),
    Metric("jitter_share", "1", "the jitter as a share of the processor time", of=jitter_share),
    Metric(
        "cpu_per_operation",
        "s/operation",
        "processor time of all for one operation: the same where the rate is not kept up",
        of=cpu_per_operation,
    ),
    percentile_metric("p99", 0.99, "latency that 1 operation in 100 exceeds"),
    percentile_metric("p50", 0.5, "median latency of an operation: free, allocate, touch"),
    percentile_metric("p999", 0.999, "latency that 1 operation in 1000 exceeds"),
    Metric(
        "longest",
        "s",
        "the longest latency",
        of=longest("latency"),
        floor=longest("floor_latency"),
    ),
    Metric(
        "rate",
        "operations/s",
        "operations a second; bursty, the rate that was asked for where it is kept up",
        of=a_second(lambda raw: raw["operation_count"]),
        lower_is_better=False,
    ),
    Metric(
        "rss",
        "B",
        "resident bytes more than before the load, mean over the window",
        of=rss(fmean),
        evidence=identity,
    ),
    Metric("rss_most", "B", "the same, most of all readings", of=rss(max)),
    Metric(
        "rss_last",
        "B",
        "the same, last reading: bursty, of a process at rest",
        of=rss(lambda v: v[-1]),
    ),
    Metric(
        "system_share", "1", "share of the processor time that is the kernel's", of=system_share
    ),
    Metric(
        "faults_per_operation",
        "faults/operation",
        "faults of pages that had been given back, or were never there",
        of=faults_per_operation,
    ),
    Metric(
        "shootdowns",
        "flushes/s",
        "TLB shootdowns that the process sent, tlb:tlb_flush",
        of=a_second(lambda raw: raw["window"]["counters"]["tlb_remote_sent"]["count"]),
    ),
    Metric(
        "shootdown_interrupts",
        "interrupts/s",
        "shootdown interrupts of the whole machine, /proc/interrupts",
        of=a_second(lambda raw: raw["window"]["counters"]["tlb_interrupts"]["count"]),
    ),
    Metric(
        "purges",
        "count",
        "calls of madvise that give memory back, by jemalloc's own count",
        of=lambda raw, _: raw["purge_count"]["count"],
        evidence=identity,
    ),
)
