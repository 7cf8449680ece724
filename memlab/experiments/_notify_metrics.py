"""What memcg-notify says of a run of crossings, and how long one takes."""

from memlab.experiment import At, Metric, Raw
from memlab.experiment.latency import longest, percentile

MIB = 2**20
PAGE_BYTES = 4096  # for what a point needs
STEP_S = 2e-6  # a slow guess: a page taken or given back, and looked at
ARM_S = 0.015
# Between two crossings nothing may be told: support/crossings.c. PSI: two windows of 2 s.
QUIET_S = {"threshold": 0.0, "pressure_level": 0.003, "psi": 4.0}


def is_threshold(at: At) -> bool:
    return at["mechanism"] == "threshold"


def trial_time(at: At) -> float:
    steps = 2.5 * int(at["swing"]) / PAGE_BYTES  # up, down, and half of one to be told plainly
    each = steps * STEP_S + QUIET_S.get(str(at["mechanism"]), 0.03)
    armed = ARM_S * (int(at["thresholds"]) + 1) if is_threshold(at) else 0.0
    return 0.05 + armed + (int(at["crossings"]) + 1) * each


def overshoots(at: At) -> bool:
    """Use is held at memory.max, and stalls and reclaim have no number of bytes."""
    return is_threshold(at) or str(at["mechanism"]).startswith("high")


def overshoot(raw: Raw, at: At) -> float | None:
    crossings = raw["latency"]["total"]
    return raw["overshoot_bytes"] / crossings if crossings and overshoots(at) else None


def late(raw: Raw, at: At) -> float | None:
    signals = raw["delivery"]["total"]
    return raw["late_bytes"] / signals if signals and overshoots(at) else None


def others_told(raw: Raw, at: At) -> float | None:
    others = int(at["thresholds"]) - 1
    return raw["other_count"] / (2 * int(at["crossings"]) * others) if others else None


def over_plain(raw: Raw, at: At) -> float | None:
    delivery, plain = (percentile(name, 0.5)(raw, at) for name in ("delivery", "plain"))
    return delivery / plain if delivery and plain else None


def told(name: str, text: str) -> Metric:
    return Metric(
        f"{name}_told",
        "notifications/crossing",
        f"notifications that the waiter took for each crossing {text}",
        of=lambda raw, at: raw[f"{name}_count"] / int(at["crossings"]),
    )


def counted(name: str, what: str, text: str) -> Metric:
    return Metric(name, what, text, of=lambda raw, _: float(raw[f"{name}_count"]))


METRICS = [
    Metric(
        "latency",
        "s",
        "median time from the charge that crossed the bound to the waiter running",
        of=percentile("latency", 0.5),
    ),
    Metric(
        "latency_p90",
        "s",
        "latency that one crossing in ten exceeds; not said of fewer than 100 crossings",
        of=percentile("latency", 0.9),
    ),
    Metric("longest", "s", "the longest latency", of=longest("latency")),
    Metric(
        "delivery",
        "s",
        "median time from the kernel's signal to the waiter running",
        of=percentile("delivery", 0.5),
    ),
    Metric(
        "plain",
        "s",
        "median time for the same waiter when a write to an eventfd tells it",
        of=percentile("plain", 0.5),
    ),
    Metric("delivery_over_plain", "1", "delivery over plain", of=over_plain),
    Metric(
        "overshoot",
        "B",
        "mean use beyond the bound when the waiter reads it",
        of=overshoot,
    ),
    Metric(
        "overshoot_most",
        "B",
        "the largest overshoot",
        of=lambda raw, at: float(raw["overshoot_most_bytes"]) if overshoots(at) else None,
    ),
    Metric(
        "late",
        "B",
        "mean use beyond the bound when the kernel signals",
        of=late,
    ),
    Metric(
        "arm_time",
        "s/notifier",
        "time to arm a threshold, or another notifier",
        of=lambda raw, at: raw["arm_ns"] * 1e-9 / int(at["thresholds"]),
    ),
    told("up", "upward"),
    told("down", "downward"),
    Metric(
        "others_told",
        "notifications/crossing",
        "notifications of each threshold that nobody waits for, for each of its crossings",
        of=others_told,
    ),
    counted("missed", "crossings", "crossings after which the waiter did not come"),
    counted("stale", "wakes", "wakes before the crossing: an earlier one's, or another's stall"),
    counted("outrun", "crossings", "crossings whose swing had ended before the waiter ran"),
]
