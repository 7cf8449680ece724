"""What thread-create reads from a sample."""

import errno

from memlab.experiment import At, Metric, Raw
from memlab.experiment.latency import percentile


def rate(raw: Raw, _: At) -> float:
    """The processes' own rates, summed."""
    own = zip(raw["thread_counts"], raw["elapsed_ns"], strict=True)
    return float(sum(count / (elapsed_ns * 1e-9) for count, elapsed_ns in own if elapsed_ns))


def faults(raw: Raw, _: At) -> float:
    """Without those of the bystander, which takes one for each page."""
    own = raw["window"]["minor_fault_count"] - raw["bystander_latency"]["total"]
    return float(own / raw["thread_count"])


def unfairness(raw: Raw, _: At) -> float:
    counts = raw["thread_counts"][: raw["process_count"]]
    return float((max(counts) - min(counts)) * len(counts) / sum(counts))


def bystander_mean(raw: Raw, _: At) -> float | None:
    rounds = raw["bystander_latency"]["total"]
    return sum(raw["elapsed_ns"]) * 1e-9 / rounds if rounds else None


def first_failure(raw: Raw, _: At) -> str:
    number = raw["failed_errno"]
    return f"pthread_create: {errno.errorcode.get(number, number)}" if number else ""


METRICS = [
    Metric(
        "threads_per_s",
        "threads/s",
        "threads created a second, by all processes",
        of=rate,
        lower_is_better=False,
    ),
    Metric("faults_a_thread", "faults/thread", "minor faults a thread, by rusage", of=faults),
    Metric(
        "thread_time",
        "s/thread",
        "time a thread in its process",
        of=lambda raw, at: sum(raw["elapsed_ns"]) * 1e-9 / raw["thread_count"],
        floor=lambda raw, at: raw["floor_ns"] * 1e-9 / raw["floor_thread_count"],
    ),
    Metric(
        "thread_cpu",
        "s/thread",
        "processor time a thread, of creator and thread",
        of=lambda raw, at: (
            (raw["window"]["user_ns"] + raw["window"]["system_ns"]) * 1e-9 / raw["thread_count"]
        ),
        floor=lambda raw, at: raw["floor_ns"] * 1e-9 / raw["floor_thread_count"],
    ),
    Metric(
        "created",
        "threads",
        "threads created in the window",
        of=lambda raw, at: float(raw["thread_count"]),
        lower_is_better=False,
    ),
    Metric(
        "alive",
        "threads",
        "threads that ran at once in one process, at most",
        of=lambda raw, at: float(raw["alive_peak_count"]),
        lower_is_better=False,
    ),
    Metric(
        "failed",
        "calls",
        "calls of pthread_create that failed",
        of=lambda raw, at: float(raw["failed_count"]),
        evidence=first_failure,
    ),
    Metric(
        "unfairness",
        "1",
        "the most threads of a process less the fewest, over their mean",
        of=unfairness,
    ),
    Metric(
        "bystander_p99",
        "s",
        "what the bystander's page takes, 99th percentile",
        of=percentile("bystander_latency", 0.99),
    ),
    Metric(
        "bystander_worst",
        "s",
        "what the bystander's page took, the longest",
        of=lambda raw, at: raw["bystander_latency"]["max_ns"] * 1e-9 if at["bystander"] else None,
    ),
    Metric(
        "bystander_mean",
        "s",
        "what the bystander's page takes on average, with the time between",
        of=bystander_mean,
    ),
]
