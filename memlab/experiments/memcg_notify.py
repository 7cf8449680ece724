"""memcg-notify: how fast, and how far too late, is a process notified of its cgroup's memory use?

Latency is what a program sees: from the charge that crosses the threshold until its waiter runs.
The kernel does not check at every charge. Delivery is the rest, from the signal on.
"""

from math import inf

from memlab.experiment import *

MIB = 2**20
PAGE_BYTES = 4096  # for what a point needs
STEP_S = 2e-6  # a slow guess: to take or release a page and to poll
ARM_S = 0.015
# After a rise, before a fall and after it none may come: memcg_notify/crossings.c. PSI: four
# windows of 2 s.
QUIET_S = {"threshold": 0.0, "pressure_level": 0.007, "psi": 8.0}


def is_threshold(at: At) -> bool:
    return at["mechanism"] == "threshold"


def needs(at: At) -> list[str]:
    version = "v1" if at["mechanism"] in ("threshold", "pressure_level") else "v2"
    return [] if at["mechanism"] == "psi" else [f"memory cgroup {version}"]


def trial_time(at: At) -> float:
    steps = 2.5 * int(at["swing"]) / PAGE_BYTES  # up, down, and half of one for the plain eventfd
    each = steps * STEP_S + QUIET_S.get(str(at["mechanism"]), 0.07)
    armed = ARM_S * (int(at["thresholds"]) + 1) if is_threshold(at) else 0.0
    return 0.05 + armed + (int(at["crossings"]) + 1) * each


OVERSHOOTS = F.at.mechanism.one_of("threshold", "high_poll", "high_inotify")
_OTHERS = F.at.thresholds - 1
OTHER_NOTIFICATIONS = F.other_count / (2 * F.at.crossings * _OTHERS)
_DELIVERY = percentile("delivery", 0.5)
OVER_EVENTFD = (_DELIVERY / percentile("eventfd_delivery", 0.5)).where(_DELIVERY > 0)


def notified(name: str, crossing: str) -> Metric:
    return Metric(
        f"{name}_notifications",
        "notifications/crossing",
        f"notifications per {crossing} crossing; taken by the waiter",
        of=F[f"{name}_count"] / F.at.crossings,
    )


METRICS = [
    Metric(
        "latency",
        "s",
        "latency; median time from the charge that crossed the threshold until the waiter runs",
        of=percentile("latency", 0.5),
    ),
    Metric(
        "latency_p90",
        "s",
        "p90 latency; exceeded by one crossing in ten, not given for fewer than 100 crossings",
        of=percentile("latency", 0.9),
    ),
    Metric("longest", "s", "longest latency", of=longest("latency")),
    Metric(
        "delivery",
        "s",
        "delivery time; median from the kernel's signal until the waiter runs",
        of=percentile("delivery", 0.5),
    ),
    Metric(
        "eventfd_delivery",
        "s",
        "delivery of a plain eventfd; median time for the same waiter after a write to an eventfd",
        of=percentile("eventfd_delivery", 0.5),
    ),
    Metric("delivery_over_eventfd", "1", "delivery / plain eventfd", of=OVER_EVENTFD),
    Metric(
        "overshoot",
        "B",
        "overshoot; mean usage beyond the threshold when the waiter reads it",
        of=(F.overshoot_bytes / F.latency.total).where(OVERSHOOTS),
    ),
    Metric(
        "overshoot_max",
        "B",
        "largest overshoot",
        of=F.overshoot_most_bytes.where(OVERSHOOTS),
    ),
    Metric(
        "overshoot_at_signal",
        "B",
        "overshoot at the signal; mean usage beyond the threshold when the kernel signals",
        of=(F.late_bytes / F.delivery.total).where(OVERSHOOTS),
    ),
    Metric(
        "arm_time",
        "s/notifier",
        "time to arm; a threshold or another notifier",
        of=F.arm_ns / F.at.thresholds,
    ),
    notified("up", "upward"),
    notified("down", "downward"),
    Metric(
        "other_notifications",
        "notifications/crossing",
        "notifications without a waiter; per crossing of each threshold that has none",
        of=OTHER_NOTIFICATIONS,
    ),
    Metric("missed", "crossings", "missed crossings; the waiter did not run", of=F.missed_count),
    Metric(
        "stale",
        "wakes",
        "wake-ups before the crossing; by an earlier one, or by another program's stall",
        of=F.stale_count,
    ),
    Metric(
        "outrun",
        "crossings",
        "outrun crossings; the swing ended before the waiter ran",
        of=F.outrun_count,
    ),
    *(
        Metric(f"{name}_descriptors", "descriptors", f"descriptors that {words} takes", of=of)
        for name, words, of in (
            ("eventfd", "an eventfd", F.descriptors.eventfd_count),
            ("pipe", "a pipe", F.descriptors.pipe_count),
        )
    ),
    Metric(
        "eventfd_buffer",
        "B",
        "eventfd's buffer; the smallest that read(2) accepts",
        of=F.descriptors.eventfd_read_bytes,
    ),
]


CHECKED = "section 4.2: thresholds are checked at charge and uncharge"
RECLAIM = ("pressure_level", "psi")
EVENTFD = "section 4.1: an eventfd takes one descriptor and an 8-byte buffer, a pipe two"
SEVERAL = "section 4.2: several thresholds in one group, kept sorted"
EVENTS = "cgroup-v2.rst, memory.events: a value change in this file generates a file modified event"
FALLING = (
    "cgroup-v2.rst, memory.events: high counts charges over the boundary, max those about to be"
)
PSI = "accounting/psi.rst: a trigger wakes poll(2) when stalls exceed its threshold in a window"
V2 = {
    "high_poll": ("memory.high", "a poll of memory.events"),
    "high_inotify": ("memory.high", "an inotify watch of memory.events"),
    "max_poll": ("memory.max", "a poll of memory.events"),
    "max_inotify": ("memory.max", "an inotify watch of memory.events"),
}
CHECK_BYTES = 128 * PAGE_BYTES  # v1 checks thresholds every 128 pages
WAITING: dict[str, Level] = {"mechanism": "threshold", "waiter": "same_cpu", "direction": "up"}
ONE = WAITING | {"thresholds": 1}


def by_waiter(metric: str, since: str) -> Explanation:
    """The answer of a figure of latencies, at one threshold that usage rises above."""
    return Explanation(
        Ratio(
            metric=metric,
            where={"mechanism": "threshold", "direction": "up", "thresholds": 1},
            of={"waiter": "other_cpu"},
            to={"waiter": "same_cpu"},
            above=1,
        ),
        f"the waiter runs {{to}} after {since} on the same CPU and {{of}} on another",
        confirmed="waking another CPU takes longer",
        refuted="waking another CPU takes no longer",
    )


EXPERIMENT = Experiment(
    name="memcg-notify",
    question="How fast is a process notified that its cgroup crossed a memory threshold?",
    so=[
        Decision(
            "threshold-up",
            "arm a threshold below the limit if a program is to give memory back in time: it is "
            "notified once per crossing",
            "do not rely on one notification per crossing",
            if_holds=(1, 1),
            if_fails=(0, inf),
        ),
        Decision(
            "high-poll-missed",
            "watch memory.events if a program is to give memory back in time: at memory.high it is "
            "notified at each crossing, and throttled, not killed",
            "do not rely on memory.events: crossings of memory.high were missed",
            if_holds=(0, 0),
            if_fails=(1, inf),
        ),
    ],
    probe="memcg_notify",
    factors=[
        Factor(
            "mechanism",
            ENUM,
            quick=["threshold", "high_poll", "high_inotify", "max_poll", "max_inotify"],
            help="notification; v1: an eventfd at a number of bytes (threshold), or when reclaim "
            "has scanned 512 pages (pressure_level); v2: memory.high or memory.max, through "
            "memory.events by poll or by inotify; both: 100 us of stalls in a window of "
            "memory.pressure, the system's where the group has none (psi)",
            level_labels={
                "threshold": "v1 threshold",
                "pressure_level": "v1 pressure level",
                "high_poll": "memory.high, poll",
                "high_inotify": "memory.high, inotify",
                "max_poll": "memory.max, poll",
                "max_inotify": "memory.max, inotify",
                "psi": "PSI",
            },
        ),
        Factor(
            "waiter",
            ENUM,
            quick=["same_cpu", "other_cpu"],
            help="waiter; blocked in poll(2) on the CPU that takes the memory (same_cpu) or on "
            "another (other_cpu); or on another without ever blocking (spinning)",
            level_labels={
                "same_cpu": "waiter on the same CPU",
                "other_cpu": "waiter on another CPU",
                "spinning": "spinning waiter",
            },
        ),
        Factor(
            "direction",
            ENUM,
            quick=["up", "down"],
            help="direction of the crossing; usage rises above the threshold or falls below it. "
            "Both are crossed in turn",
            level_labels={"up": "usage rises", "down": "usage falls"},
        ),
        Factor(
            "thresholds",
            COUNT,
            quick=[1, 16],
            full=[1, 2, 4, 16, 64],
            help="armed thresholds; every swing crosses all of them, and one of them has a waiter",
            least=1,
            most=1024,
        ),
        Factor(
            "crossings",
            COUNT,
            quick=[40],
            paper=[200],
            help="crossings; of the threshold, in each direction",
            least=1,
        ),
        Factor(
            "swing",
            BYTES,
            quick=[4 * MIB],
            full=[4 * MIB, 8 * MIB],
            help="usage swing; memory that is taken and released, one page at a time. The "
            "threshold lies in its middle",
            least=4 * MIB,
        ),
    ],
    excludes=[
        Exclude(
            lambda at: at["thresholds"] != 1 and not is_threshold(at),
            "only thresholds can be armed several times",
        ),
        Exclude(
            lambda at: at["direction"] == "down" and not is_threshold(at),
            "only thresholds notify of falling usage",
        ),
        Exclude(
            lambda at: at["mechanism"] in RECLAIM and int(at["swing"]) < 8 * MIB,
            "half a swing must exceed the 512 pages after which reclaim notifies, and last long "
            "enough to stall",
        ),
    ],
    controls=[
        control(
            "spinning",
            "A waiter that never sleeps: it saves the wake-up of a CPU, and the rest of the "
            "delivery is the kernel's notification.",
            {"waiter": ["spinning"], "mechanism": "threshold"},
            Explanation(
                Ratio(
                    metric="delivery",
                    where={"thresholds": 1},
                    of={"waiter": "other_cpu"},
                    to={"waiter": "spinning"},
                    above=2,
                ),
                "a sleeping waiter on another CPU runs {of} after the signal, a spinning one {to}",
                confirmed="most of the delivery is the wake-up, not the cgroup",
                refuted="the wake-up is not most of the delivery",
            ),
        ),
        control(
            "reclaim",
            "memory.pressure_level: a notification by reclaim at a limit, not by usage.",
            {"mechanism": "pressure_level", "swing": [8 * MIB]},
            Explanation(
                Count(metric="down_notifications", equals=0),
                "when memory is released memory.pressure_level sends {value}",
                confirmed="thresholds notify of falling usage because they are checked at uncharge",
                refuted="not only a check at uncharge notifies of falling usage",
            ),
        ),
        control(
            "many",
            "128 thresholds: the kernel waits for an RCU grace period before it frees the old "
            "array (__mem_cgroup_usage_register_event).",
            {"mechanism": "threshold", "thresholds": [128], "waiter": "same_cpu"},
            Explanation(
                Ratio(
                    metric="arm_time",
                    of={"thresholds": 128},
                    to={"thresholds": 1},
                    above=0.5,
                    below=2.0,
                ),
                "each of 128 takes {of} to arm, one alone {to}",
                confirmed="each threshold takes as long to arm as one alone",
                refuted="each of many takes another time to arm than one alone",
            ),
        ),
        control(
            "psi",
            "Stalls of memory.pressure, which the kernel sums up over windows of at least half a "
            "second, or of 2 s for a program without CAP_SYS_RESOURCE: few crossings, and long "
            "ones.",
            {"mechanism": "psi", "crossings": [2], "swing": [8 * MIB]},
            presets=("full",),
        ),
    ],
    metrics=METRICS,
    cost=Cost(memory=lambda at: 2 * int(at["swing"]) + 64 * MIB, time=trial_time),
    host=Host(
        containment=Containment(limit=lambda at: 128 * MIB, pass_group=True, fresh=True),
        cpus="all",
        needs=needs,
    ),
    budget_s={"quick": 150.0, "paper": 600.0, "full": 1800.0},
    tiny={
        "mechanism": ["threshold", "max_poll"],
        "thresholds": [1, 2],
        "direction": ["up"],
        "crossings": [23],
    },
    judges={"chen-2014": ["notification"]},
    claims=[
        Count(
            id="threshold-up",
            text="a threshold notifies once per upward crossing: it is checked at charge",
            metric="up_notifications",
            where={"mechanism": "threshold", "direction": "up"},
            equals=1,
            published=CHECKED,
        ),
        Count(
            id="threshold-down",
            text="a threshold notifies once per downward crossing: it is checked at uncharge",
            metric="down_notifications",
            where={"mechanism": "threshold"},
            equals=1,
            published=CHECKED,
            controls=("reclaim",),
        ),
        Count(
            id="several-thresholds",
            text="each of several thresholds of one group notifies once per crossing",
            metric="other_notifications",
            where={"mechanism": "threshold", "direction": "up", "thresholds": 16},
            equals=1,
            published=SEVERAL,
            controls=("many",),
        ),
        *(
            Count(
                id=f"{name.replace('_', '-')}-{metric.partition('_')[0]}",
                text=text.format(limit=limit, waiter=waiter),
                metric=metric,
                where={"mechanism": name, "thresholds": 1, "direction": "up"},
                equals=0,
                published=source,
            )
            for name, (limit, waiter) in V2.items()
            for metric, text, source in (
                ("missed", "usage that rises to {limit} always wakes {waiter}", EVENTS),
                (
                    "down_notifications",
                    "usage that falls below {limit} never wakes {waiter}",
                    FALLING,
                ),
            )
        ),
        Count(
            id="psi-missed",
            text="a swing that stalls always wakes who polls a trigger of memory.pressure",
            metric="missed",
            where={
                "mechanism": "psi",
                "thresholds": 1,
                "direction": "up",
                "swing": 8 * MIB,
            },
            equals=0,
            published=PSI,
        ),
        *(
            Count(
                id=name.replace("_", "-"),
                text=text,
                metric=name,
                where={"mechanism": "threshold"},
                equals=count,
                published=EVENTFD,
            )
            for name, count, text in (
                ("eventfd_descriptors", 1, "an eventfd takes one descriptor"),
                ("pipe_descriptors", 2, "a pipe takes two descriptors"),
                ("eventfd_buffer", 8, "an eventfd's buffer has 8 bytes"),
            )
        ),
    ],
    figure=Percentiles(
        "latency",
        over="mechanism",
        by=["waiter"],
        panels=["thresholds", "direction"],
        histogram="latency",
        answers=[by_waiter("latency", "the crossing")],
    ),
    more_figures={
        "delivery": Percentiles(
            "delivery",
            over="mechanism",
            by=["waiter"],
            panels=["thresholds", "direction"],
            histogram="delivery",
            answers=[by_waiter("delivery", "the kernel's signal")],
        ),
        "overshoot": Bars(
            "overshoot",
            over="mechanism",
            by=["waiter"],
            panels=["thresholds", "direction"],
            answers=[
                Explanation(
                    Within(metric="overshoot", where=ONE, below=CHECK_BYTES),
                    "usage is {value} beyond a v1 threshold when the waiter reads it",
                    confirmed="less than the 128 pages between two checks of the kernel",
                    refuted="more than the 128 pages between two checks of the kernel",
                )
            ],
        ),
        "arming": Bars(
            "arm_time",
            over="mechanism",
            by=["thresholds"],
            panels=["waiter", "direction"],
            answers=[
                Explanation(
                    Within(metric="arm_time", where=WAITING | {"thresholds": 16}, above=0.001),
                    "arming 16 v1 thresholds takes {value}",
                    confirmed="each waits for a grace period of the kernel (RCU)",
                    refuted="they do not wait for a grace period of the kernel (RCU)",
                )
            ],
        ),
    },
)
