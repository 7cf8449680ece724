"""Counting shootdowns: which of the two counters is complete, and what the complete one says.

tlb:tlb_flush counts a flush that is sent, once, whatever the number of CPUs it goes to, and also
where a hypervisor then does it without an interrupt. /proc/interrupts counts what interrupts, on
every CPU, for every program of the host.
"""

from memlab.experiment import At, Metric, Raw

KNOWN = 23  # flushes of the known answer, probes/support/known_flushes.c


def _seen(counter: Raw) -> str:
    return counter["error"] or f"{counter['count']:,}"


def _complete(known: Raw, counter: str) -> bool:
    count = known[counter]["count"]
    return known["flush_count"] > 0 and count is not None and count >= known["flush_count"]


def source(raw: Raw) -> str:
    """The counter that shootdowns are read from, or what is missing of both."""
    if _complete(raw["known"], "remote_sent"):
        return "tlb:tlb_flush"
    if _complete(raw["known"], "interrupts"):
        return "/proc/interrupts"
    return ""


def shootdowns(raw: Raw) -> float | None:
    """Flushes sent to other CPUs in the window; None where no counter is complete."""
    if raw["operation_count"] == 0:
        return None
    counters, readers = raw["window"]["counters"], raw["reader_count"]
    if source(raw) == "tlb:tlb_flush":
        count: int = counters["tlb_remote_sent"]["count"]
        return float(count)
    if source(raw) == "/proc/interrupts":
        interrupts: int = counters["tlb_interrupts"]["count"]
        return float(interrupts / max(1, readers))
    return None


def per_operation(raw: Raw, _: At) -> float | None:
    count = shootdowns(raw)
    return None if count is None else count / raw["operation_count"]


def interrupts_per_operation(raw: Raw, _: At) -> float | None:
    count = raw["window"]["counters"]["tlb_interrupts"]["count"]
    operations = raw["operation_count"]
    return None if count is None or not operations else count / operations


def hidden(raw: Raw, _: At) -> float | None:
    """The share of flushes that no interrupt shows: the hypervisor did them for a CPU that it had
    taken away (arch/x86/kernel/kvm.c, kvm_flush_tlb_multi)."""
    sent = raw["window"]["counters"]["tlb_remote_sent"]["count"]
    interrupts = raw["window"]["counters"]["tlb_interrupts"]["count"]
    wanted = (sent or 0) * raw["reader_count"]
    return None if not wanted or interrupts is None else max(0.0, 1 - interrupts / wanted)


def evidence(raw: Raw, _: At) -> str:
    """The known answer, which counter is complete by it, and what both said of the window."""
    known, counters = raw["known"], raw["window"]["counters"]
    said = "no second CPU to ask"
    if known["flush_count"]:
        said = (
            f"of {known['flush_count']} known flushes /proc/interrupts counted "
            f"{_seen(known['interrupts'])}, tlb:tlb_flush {_seen(known['remote_sent'])}; "
            f"complete here: {source(raw) or 'neither'}"
        )
    return (
        f"{said}\nin the window /proc/interrupts TLB {_seen(counters['tlb_interrupts'])}, "
        f"tlb:tlb_flush reason 4 {_seen(counters['tlb_remote_sent'])}, "
        f"{raw['operation_count']:,} operations"
    )


def _known(counter: str, raw: Raw) -> float | None:
    count = raw["known"][counter]["count"]
    return None if count is None or not raw["known"]["flush_count"] else float(count)


METRICS = (
    Metric(
        "shootdowns_per_op",
        "shootdowns/op",
        "flushes sent to other CPUs, by the counter that is complete here",
        of=per_operation,
        evidence=evidence,
    ),
    Metric(
        "interrupts_per_op",
        "interrupts/op",
        "shootdown interrupts on all CPUs, by /proc/interrupts",
        of=interrupts_per_operation,
        evidence=evidence,
    ),
    Metric(
        "hidden_flushes",
        "1",
        "share of the flushes to readers that no interrupt shows",
        of=hidden,
        evidence=evidence,
    ),
    Metric(
        "known_by_interrupts",
        "flushes",
        f"of {KNOWN} known flushes, those in /proc/interrupts (other programs' count as well)",
        of=lambda raw, _: _known("interrupts", raw),
        lower_is_better=False,
        evidence=evidence,
    ),
    Metric(
        "known_by_tracepoint",
        "flushes",
        f"of {KNOWN} known flushes, those that tlb:tlb_flush counted as sent",
        of=lambda raw, _: _known("remote_sent", raw),
        lower_is_better=False,
        evidence=evidence,
    ),
)
