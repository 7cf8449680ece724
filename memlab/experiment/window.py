"""What every sample says of its counter window and its cgroup, as metrics: one list for all
experiments.

The window is filled in C (probes/support); a counter that is not there is None,
and the sample keeps the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlab.experiment.kinds import At
from memlab.experiment.metric import Metric, Raw
from memlab.experiment.readings import read


def populated(raw: Raw, _: At) -> float | None:
    """Faults that the kernel took on itself (mlock, MADV_POPULATE): rusage less perf.

    perf's page-faults counts exceptions; a populating call walks the pages without one.
    """
    trapped = raw["window"]["counters"]["trapped"]["count"]
    faults = raw["window"]["minor_fault_count"] + raw["window"]["major_fault_count"]
    return None if trapped is None else float(max(0, faults - trapped))


def peak_group(raw: Raw, _: At) -> float | None:
    """None outside of a group, and where the kernel cannot say it of one trial alone."""
    contained = raw.get("contained")
    return contained.get("peak_bytes") if contained else None


WINDOW_METRICS = (
    Metric("elapsed", "s", "time inside the window", read("window.elapsed_ns")),
    Metric("user", "s", "processor time in user mode", read("window.user_ns")),
    Metric("system", "s", "processor time in the kernel", read("window.system_ns")),
    Metric("minor_faults", "faults", "minor faults by rusage", read("window.minor_fault_count")),
    Metric("major_faults", "faults", "major faults by rusage", read("window.major_fault_count")),
    Metric("trapped", "faults", "page-fault exceptions, by perf", read("window.counters.trapped")),
    Metric("populated", "faults", "rusage faults less trapped: taken by a call", populated),
    Metric(
        "voluntary_switches",
        "switches",
        "times the probe slept",
        read("window.voluntary_switch_count"),
    ),
    Metric(
        "involuntary_switches",
        "switches",
        "times the probe was preempted",
        read("window.involuntary_switch_count"),
    ),
    Metric(
        "migrations",
        "migrations",
        "moves to another CPU, by perf",
        read("window.counters.migrations"),
    ),
    Metric(
        "tlb_interrupts",
        "interrupts",
        "shootdown interrupts on all CPUs, /proc/interrupts",
        read("window.counters.tlb_interrupts"),
    ),
    Metric(
        "tlb_remote_sent",
        "flushes",
        "shootdowns that the probe sent, tlb:tlb_flush",
        read("window.counters.tlb_remote_sent"),
    ),
    Metric(
        "stolen", "s", "time the hypervisor took from the CPU", read("window.counters.stolen_ns")
    ),
    Metric(
        "rss_peak", "B", "VmHWM, reset before the window", read("window.counters.rss_peak_bytes")
    ),
    Metric("vm_locked", "B", "VmLck after the window", read("window.counters.vm_locked_bytes")),
    Metric(
        "peak_group",
        "B",
        "most memory charged to the trial's cgroup; memory.peak (v2 since Linux 6.12, or a group "
        "of the trial's own) or memory.max_usage_in_bytes (v1)",
        peak_group,
    ),
)

STOLEN_SHARE = 0.01  # of the window, above which a sample is flagged
PREEMPTED_EVERY_S = 0.01  # more involuntary switches than one in this time are flagged
WRITTEN_PAGES = 256  # written back by the kernel during a trial, above which it is flagged
OTHERS_BUSY_SHARE = 0.25  # of the other CPUs' time, above which a sample is flagged
OTHERS_BUSY_TICKS = 3  # fewer of them are the clock's own coarseness


def _stolen(raw: Raw) -> Any:
    stolen_ns = raw["window"]["counters"]["stolen_ns"]["count"]
    return stolen_ns is not None and stolen_ns > STOLEN_SHARE * _elapsed_ns(raw)


def _preempted(raw: Raw) -> Any:
    """Several processes preempt one another, which is no noise."""
    window = raw["window"]
    most = 1 + _elapsed_ns(raw) * 1e-9 / PREEMPTED_EVERY_S
    return window["cpu_at_open"] >= 0 and window["involuntary_switch_count"] > most


def _others_busy(raw: Raw) -> Any:
    host = raw.get("host", {})
    busy_ticks = host.get("other_cpus_busy_ticks", 0)
    share = OTHERS_BUSY_SHARE * host.get("other_cpus_ticks", 0)
    return (busy_ticks > OTHERS_BUSY_TICKS) & (busy_ticks > share)


def _elapsed_ns(raw: Raw) -> Any:
    return max(1, raw["window"]["elapsed_ns"])


# What may disturb a sample: whether it did. Samples are flagged, never dropped.
DISTURBANCES: Mapping[str, Callable[[Raw], Any]] = {
    "stolen": _stolen,
    "preempted": _preempted,
    "migrated": lambda raw: raw["window"]["cpu_at_open"] != raw["window"]["cpu_at_close"],
    "major faults": lambda raw: raw["window"]["major_fault_count"] > 0,
    "writeback": lambda raw: raw.get("host", {}).get("nr_written", 0) > WRITTEN_PAGES,
    "other CPUs busy": _others_busy,
    "memory reported to the hypervisor": lambda raw: raw.get("host", {}).get("reported_kib", 0) > 0,
}


def noise(raw: Raw) -> list[str]:
    """What disturbed this sample, in words."""
    return [word for word, is_so in DISTURBANCES.items() if is_so(raw)]
