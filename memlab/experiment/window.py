"""What every sample's counter window says, as metrics. One list for all experiments.

The window is filled in C (probes/support); a counter that is not there is None,
and the sample keeps the reason.
"""

from __future__ import annotations

from collections.abc import Callable

from memlab.experiment.vocabulary import At, Metric, Raw


def counter(name: str) -> Callable[[Raw, At], float | None]:
    def read(raw: Raw, _: At) -> float | None:
        count = raw["window"]["counters"][name]["count"]
        return None if count is None else float(count)

    return read


def field(name: str, scale: float = 1.0) -> Callable[[Raw, At], float | None]:
    return lambda raw, _: raw["window"][name] * scale


def populated(raw: Raw, _: At) -> float | None:
    """Faults that the kernel took on itself (mlock, MADV_POPULATE): rusage less perf.

    perf's page-faults counts exceptions; a populating call walks the pages without one.
    """
    trapped = raw["window"]["counters"]["trapped"]["count"]
    faults = raw["window"]["minor_fault_count"] + raw["window"]["major_fault_count"]
    return None if trapped is None else float(max(0, faults - trapped))


WINDOW_METRICS = (
    Metric("elapsed", "s", "time inside the window", field("elapsed_ns", 1e-9)),
    Metric("user", "s", "processor time in user mode", field("user_ns", 1e-9)),
    Metric("system", "s", "processor time in the kernel", field("system_ns", 1e-9)),
    Metric("minor_faults", "faults", "minor faults by rusage", field("minor_fault_count")),
    Metric("major_faults", "faults", "major faults by rusage", field("major_fault_count")),
    Metric("trapped", "faults", "page-fault exceptions, by perf", counter("trapped")),
    Metric("populated", "faults", "rusage faults less trapped: taken by a call", populated),
    Metric(
        "voluntary_switches",
        "switches",
        "times the probe slept",
        field("voluntary_switch_count"),
    ),
    Metric(
        "involuntary_switches",
        "switches",
        "times the probe was preempted",
        field("involuntary_switch_count"),
    ),
    Metric("migrations", "migrations", "moves to another CPU, by perf", counter("migrations")),
    Metric(
        "tlb_interrupts",
        "interrupts",
        "shootdown interrupts on all CPUs, /proc/interrupts",
        counter("tlb_interrupts"),
    ),
    Metric(
        "tlb_remote_sent",
        "flushes",
        "shootdowns that the probe sent, tlb:tlb_flush",
        counter("tlb_remote_sent"),
    ),
    Metric("stolen", "s", "time the hypervisor took from the CPU", counter("stolen_ns")),
    Metric("rss_peak", "B", "VmHWM, reset before the window", counter("rss_peak_bytes")),
    Metric("vm_locked", "B", "VmLck after the window", counter("vm_locked_bytes")),
)

STOLEN_SHARE = 0.01  # of the window, above which a sample is flagged
PREEMPTED_EVERY_S = 0.01  # more involuntary switches than one in this time are flagged
WRITTEN_PAGES = 256  # written back by the kernel during a trial, above which it is flagged


def noise(raw: Raw) -> list[str]:
    """What disturbed this sample, in words. Samples are flagged, never dropped."""
    window = raw["window"]
    elapsed_ns = max(1, window["elapsed_ns"])
    stolen_ns = window["counters"]["stolen_ns"]["count"] or 0
    one_process = window["cpu_at_open"] >= 0  # several preempt one another, which is no noise
    host = raw.get("host", {})
    disturbed = {
        "stolen": stolen_ns > STOLEN_SHARE * elapsed_ns,
        "preempted": one_process
        and window["involuntary_switch_count"] > 1 + elapsed_ns * 1e-9 / PREEMPTED_EVERY_S,
        "migrated": window["cpu_at_open"] != window["cpu_at_close"],
        "major faults": window["major_fault_count"] > 0,
        "writeback": host.get("nr_written", 0) > WRITTEN_PAGES,
        "memory reported to the hypervisor": host.get("reported_kib", 0) > 0,
    }
    return [word for word, is_so in disturbed.items() if is_so]
