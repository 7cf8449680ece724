"""What every sample says of its counter window and its cgroup, as metrics: one list for all
experiments.

The window is filled in C (probes/support); a counter that is not there is None,
and the sample keeps the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from memlab.experiment.expressions import Expression, F, larger
from memlab.experiment.kinds import Raw
from memlab.experiment.metric import Metric

# Faults that the kernel took on itself (mlock, MADV_POPULATE): rusage less perf. perf's page-faults
# counts exceptions; a populating call walks the pages without one.
_POPULATED = larger(
    0,
    F.window.minor_fault_count + F.window.major_fault_count - F.window.counters.trapped,
)

# None outside of a group, and if the kernel cannot say it of a single trial.
PEAK_GROUP = F.contained.peak_bytes.optional

WINDOW_METRICS = (
    Metric("elapsed", "s", "time inside the window", F.window.elapsed_ns),
    Metric("user", "s", "processor time in user mode", F.window.user_ns),
    Metric("system", "s", "processor time in the kernel", F.window.system_ns),
    Metric("minor_faults", "faults", "minor faults by rusage", F.window.minor_fault_count),
    Metric("major_faults", "faults", "major faults by rusage", F.window.major_fault_count),
    Metric("trapped", "faults", "page-fault exceptions, by perf", F.window.counters.trapped),
    Metric("populated", "faults", "rusage faults less trapped: taken by a call", _POPULATED),
    Metric(
        "voluntary_switches",
        "switches",
        "times the probe slept",
        F.window.voluntary_switch_count,
    ),
    Metric(
        "involuntary_switches",
        "switches",
        "times the probe was preempted",
        F.window.involuntary_switch_count,
    ),
    Metric(
        "migrations",
        "migrations",
        "moves to another CPU, by perf",
        F.window.counters.migrations,
    ),
    Metric(
        "tlb_interrupts",
        "interrupts",
        "shootdown interrupts on all CPUs, /proc/interrupts",
        F.window.counters.tlb_interrupts,
    ),
    Metric(
        "tlb_remote_sent",
        "flushes",
        "shootdowns that the probe sent, tlb:tlb_flush",
        F.window.counters.tlb_remote_sent,
    ),
    Metric("stolen", "s", "time the hypervisor took from the CPU", F.window.counters.stolen_ns),
    Metric("rss_peak", "B", "VmHWM, reset before the window", F.window.counters.rss_peak_bytes),
    Metric("vm_locked", "B", "VmLck after the window", F.window.counters.vm_locked_bytes),
    Metric(
        "peak_group",
        "B",
        "most memory charged to the trial's cgroup; memory.peak (v2 since Linux 6.12, or a group "
        "of the trial's own) or memory.max_usage_in_bytes (v1)",
        PEAK_GROUP,
    ),
)

SYSTEM_SHARE = F.window.system_ns / (F.window.user_ns + F.window.system_ns)

STOLEN_SHARE = 0.01  # of the window, above which a sample is flagged
PREEMPTED_EVERY_S = 0.01  # more involuntary switches than one in this time are flagged
WRITTEN_PAGES = 256  # written back by the kernel during a trial, above which it is flagged
OTHERS_BUSY_SHARE = 0.25  # of the other CPUs' time, above which a sample is flagged
OTHERS_BUSY_TICKS = 3  # fewer of them are the clock's own coarseness


_ELAPSED = larger(1e-9, F.window.elapsed_ns)
# Several processes preempt one another, which is not noise.
_PREEMPTED = (F.window.cpu_at_open >= 0) & (
    F.window.involuntary_switch_count > 1 + _ELAPSED / PREEMPTED_EVERY_S
)
_BUSY = F.host.other_cpus_busy_ticks.or_(0)

# What may disturb a sample: whether it did. Samples are flagged, never dropped.
DISTURBANCES: Mapping[str, Expression] = {
    "stolen": F.window.counters.stolen_ns > STOLEN_SHARE * _ELAPSED,
    "preempted": _PREEMPTED,
    "migrated": F.window.cpu_at_open - F.window.cpu_at_close,
    "major faults": F.window.major_fault_count > 0,
    "writeback": F.host.nr_written.or_(0) > WRITTEN_PAGES,
    "other CPUs busy": (_BUSY > OTHERS_BUSY_TICKS)
    & (OTHERS_BUSY_SHARE * F.host.other_cpus_ticks.or_(0) < _BUSY),
    "memory reported to the hypervisor": F.host.reported_kib.or_(0) > 0,
}

OWN_DISTURBANCES = ("major faults", "writeback")  # which a trial's own work may cause


def noise(raw: Raw) -> list[str]:
    """What disturbed this sample, in words."""
    return [word for word, is_so in DISTURBANCES.items() if is_so(raw, {})]
