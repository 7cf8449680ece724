"""The numbers of a command: those that memlab measures, and its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memlab.errors import BadRequest
from memlab.experiment.expressions import Expression, F, each
from memlab.experiment.latency import longest, percentile
from memlab.experiment.metric import Metric
from memlab.experiment.tried.subject import OwnMetric, Tried

_SHARED_IN_A_DUET = ("elapsed", "peak_group", "stalled")
UNITS_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


def read_latencies(text: str) -> tuple[str, str]:
    """The file and its unit: `latencies.txt[us]`, or in seconds `latencies.txt`."""
    match = re.fullmatch(r"(.*?)(?:\[(\w*)\])?", text, re.DOTALL)
    return (match[1], match[2] or "s") if match else ("", "s")


_METRIC = re.compile(
    r"(?P<name>[A-Za-z_][\w.]*)(\[(?P<unit>[^\],]*)(?P<higher>,higher)?\])?(=(?P<pattern>.+))?"
)


_IN_FILE = re.compile(r"(?P<metric>[^=@]+)@(?P<file>.+)")


def read_metrics(texts: Sequence[str]) -> tuple[list[OwnMetric], str]:
    """The metrics, and the JSON file that has those without a pattern; empty if all have one."""
    parts = [_IN_FILE.fullmatch(text) for text in texts]
    files = dict.fromkeys(part["file"] for part in parts if part)
    if len(files) > 1:
        raise BadRequest(f"--metric: all metrics come from one file, not from {', '.join(files)}")
    metrics = [
        _read_metric(text, part["metric"] if part else text, in_file=part is not None)
        for text, part in zip(texts, parts, strict=True)
    ]
    return metrics, next(iter(files), "")


def _read_metric(text: str, named: str, *, in_file: bool) -> OwnMetric:
    """`rate[1/s]=Throughput: ([0-9.]+)`; of a file `rate[1/s]`."""
    metric = named_metric(named)
    if not metric or bool(metric.pattern) == in_file:
        raise BadRequest(
            f"--metric {text!r}: write NAME[UNIT]=REGEX, as in 'rate[1/s]=([0-9.]+) req/s', or "
            "NAME[UNIT]@FILE.json"
        )
    check_pattern(metric.pattern, f"--metric {text!r}")
    if any(metric.name == other.name for other in METRICS):
        raise BadRequest(
            f"--metric {metric.name}: memlab has a metric of that name; choose another"
        )
    return metric


def named_metric(text: str) -> OwnMetric | None:
    """What NAME[UNIT] or NAME[UNIT]=REGEX names; None if it is neither."""
    parts = _METRIC.fullmatch(text)
    if not parts:
        return None
    unit, pattern = parts["unit"] or "1", parts["pattern"] or ""
    return OwnMetric(parts["name"], unit, pattern, not (parts["higher"] or unit.endswith("/s")))


def metric_text(metric: OwnMetric, file: str) -> str:
    """As --metric reads it; `file` has the metrics without a pattern."""
    is_rate = metric.unit.endswith("/s")
    higher = ",higher" if not (metric.lower_is_better or is_rate) else ""
    source = f"={metric.pattern}" if metric.pattern else f"@{file}"
    return f"{metric.name}[{metric.unit}{higher}]{source}"


def check_pattern(pattern: str, where: str) -> None:
    """BadRequest where it cannot search what a program prints, which is bytes."""
    try:
        re.compile(pattern.encode())
    except Exception as error:  # not re.error if too large, too deep or in no encoding
        raise BadRequest(f"{where}: {error}") from None


def _peak(series: Expression) -> Expression:
    return each("peak", lambda values: float(max(values["values"], default=0)), series)


def own_metric(metric: OwnMetric) -> Metric:
    return Metric(
        metric.name,
        metric.unit,
        f"{metric.name}; the command's own: {metric.pattern or metric.name}",
        F.metrics[metric.name].optional,
        lower_is_better=metric.lower_is_better,
    )


METRICS = (
    Metric(
        "elapsed",
        "s",
        "elapsed time; from execve(2) to the command's end",
        F.window.elapsed_ns,
    ),
    Metric(
        "empty_elapsed",
        "s",
        "elapsed time of a program that does nothing; started in the same way",
        F.floor.elapsed_ns,
    ),
    Metric(
        "cpu_time",
        "s",
        "processor time; user and system",
        F.window.user_ns + F.window.system_ns,
    ),
    Metric("peak_rss", "B", "peak resident memory; of one process, ru_maxrss", F.rss_peak_bytes),
    Metric(
        "peak_pss",
        "B",
        "peak proportional memory; Pss of all processes, read for at most 1 % of the time",
        F.pss_peak_bytes.optional,
    ),
    Metric(
        "peak_group",
        "B",
        "peak memory of the cgroup; page cache included",
        F.group_peak_bytes,
    ),
    Metric(
        "faults",
        "faults",
        "page faults; of all processes, from execve(2) on, by perf",
        F.window.counters.trapped,
    ),
    Metric("peak_locked", "B", "peak locked memory; VmLck every 10 ms", _peak(F.locked_bytes)),
    Metric("peak_swapped", "B", "peak swapped memory; VmSwap every 10 ms", _peak(F.swapped_bytes)),
    Metric("read", "B", "bytes read from storage; proc_pid_io(5)", F.io.read_bytes.optional),
    Metric("written", "B", "bytes written to storage; proc_pid_io(5)", F.io.write_bytes.optional),
    Metric(
        "stalled",
        "s",
        "time in which a task waited for memory; PSI of the cgroup (v2), else of the host",
        F.stalled_ns,
    ),
    Metric(
        "refaults",
        "pages",
        "pages that the kernel took and had to bring back; workingset_refault of the cgroup",
        F.refault_count.optional,
    ),
    Metric("processes", "processes", "processes at a time", F.process_count),
)


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
_OF_FILE = "latency; of the numbers in the command's file"
LATENCIES = (
    *(Metric(n, "s", f"{n} {_OF_FILE}", percentile("latency", of)) for n, of in _SHARES.items()),
    Metric("longest", "s", f"longest {_OF_FILE}", longest("latency")),
)


END_RSS = Metric(
    "end_rss",
    "B",
    "resident memory at the end; VmRSS of all processes, before SIGTERM",
    F.end_rss_bytes,
)


READY = Metric(
    "ready",
    "s",
    "time until the service was ready; from its execve(2)",
    F.ready_ns,
)


def metrics_of(subject: Tried) -> list[Metric]:
    if subject.for_s:
        return [END_RSS, *(metric for metric in METRICS if metric.name != "elapsed")]
    shared = _SHARED_IN_A_DUET if subject.duet else ()
    return [metric for metric in METRICS if metric.name not in shared]
