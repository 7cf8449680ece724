"""tlb-shootdown's metrics: the releaser's operations, their shootdowns, the readers' latencies."""

from memlab.experiment import At, Metric, Raw
from memlab.experiment.attribution import metrics
from memlab.experiment.latency import longest, percentile
from memlab.experiments import _shootdowns


def operations(raw: Raw, _: At) -> float:
    return float(raw["operation_count"] / (raw["elapsed_ns"] * 1e-9))


def operation_time(raw: Raw, _: At) -> float | None:
    count = raw["operation_count"]
    return raw["elapsed_ns"] * 1e-9 / count if count else None


def floor_time(raw: Raw, _: At) -> float:
    return float(raw["floor_ns"] * 1e-9 / raw["floor_operation_count"])


def reader_rate(raw: Raw, _: At) -> float | None:
    readers = raw["reader_count"]
    seconds = raw["elapsed_ns"] * 1e-9
    return raw["latency"]["total"] / seconds / readers if readers else None


def system_share(raw: Raw, _: At) -> float | None:
    window = raw["window"]
    spent = window["user_ns"] + window["system_ns"]
    return window["system_ns"] / spent if spent else None


def faults(raw: Raw, _: At) -> float:
    window = raw["window"]
    return float(window["minor_fault_count"] + window["major_fault_count"])


def latency_metric(name: str, share: float, text: str) -> Metric:
    return Metric(
        name,
        "s",
        f"{text}; not said where fewer than 10 loads lie beyond it",
        of=percentile("latency", share),
        floor=percentile("floor_latency", share),
    )


METRICS = [
    Metric(
        "ops_per_s",
        "1/s",
        "operations a second: touch the ranges, release them",
        of=operations,
        lower_is_better=False,
    ),
    Metric(
        "op_time",
        "s",
        "time an operation takes, with the faults of its touches",
        of=operation_time,
        floor=floor_time,
        of_cost=lambda cost, _: cost,
    ),
    *_shootdowns.METRICS,
    latency_metric("p50", 0.5, "median latency of a load, from when it was due"),
    latency_metric("p90", 0.9, "latency that 1 load in 10 exceeds"),
    latency_metric("p99", 0.99, "latency that 1 load in 100 exceeds"),
    latency_metric("p999", 0.999, "latency that 1 load in 1000 exceeds"),
    latency_metric("p9999", 0.9999, "latency that 1 load in 10,000 exceeds"),
    Metric(
        "longest",
        "s",
        "the longest latency of a load",
        of=longest("latency"),
        floor=longest("floor_latency"),
    ),
    Metric(
        "reader_rate",
        "1/s",
        "loads a second of a reader",
        of=reader_rate,
        lower_is_better=False,
    ),
    Metric(
        "system_share",
        "1",
        "share of the processor time of all that is the kernel's",
        of=system_share,
    ),
    Metric(
        "system_per_op",
        "s",
        "kernel time of releaser and readers, an operation",
        of=lambda raw, at: (
            raw["window"]["system_ns"] * 1e-9 / raw["operation_count"]
            if raw["operation_count"]
            else None
        ),
    ),
    Metric(
        "faults_per_op",
        "faults/op",
        "page faults of the touches that follow a release",
        of=lambda raw, at: (
            faults(raw, at) / raw["operation_count"] if raw["operation_count"] else None
        ),
    ),
    *metrics("loads"),
]
