"""memcg-notify: how soon, and how far too late, is a program told of its memory cgroup's use?

Latency is what a program meets, from the charge that crossed the bound to its waiter running;
part of it is the kernel's, which does not look at every charge and takes as long as the program
takes to charge what lies between two looks. Delivery is the rest, from the signal on.
"""

from memlab.experiment import (
    BYTES,
    COUNT,
    Bars,
    Containment,
    Control,
    Cost,
    Count,
    Exclude,
    Experiment,
    Explanation,
    Factor,
    Nines,
    Ratio,
    choice,
)
from memlab.experiments._notify_metrics import METRICS, MIB, is_threshold, trial_time

CHECKED = "section 4.2: thresholds are checked at charge and uncharge"
RECLAIM = ("pressure_level", "psi")
SEVERAL = "section 4.2: several thresholds in one group, kept sorted"

EXPERIMENT = Experiment(
    name="memcg-notify",
    question="How soon is a program told that its memory cgroup's use crossed a bound?",
    probe="memcg_notify",
    factors=[
        Factor(
            "mechanism",
            choice(
                *("threshold", "pressure_level"),
                *("high_poll", "high_inotify", "max_poll", "max_inotify", "psi"),
            ),
            quick=["threshold", "high_poll", "high_inotify", "max_poll", "max_inotify"],
            help="v1: an eventfd at a number of bytes, or when reclaim has scanned 512 pages; v2: "
            "memory.high or memory.max, through memory.events by poll or by inotify; both: 100 us "
            "of stalls in a window of memory.pressure, the system's where the group has none",
        ),
        Factor(
            "waiter",
            choice("same_cpu", "other_cpu", "spinning"),
            quick=["same_cpu", "other_cpu"],
            help="blocked in poll(2) on the CPU that takes the memory; on another; on another, "
            "never blocked",
        ),
        Factor(
            "direction",
            choice("up", "down"),
            quick=["up", "down"],
            help="use rises beyond the bound, or falls below it; both are crossed in turn",
        ),
        Factor(
            "thresholds",
            COUNT,
            quick=[1, 16],
            full=[1, 2, 4, 16, 64],
            help="armed, all of them crossed in every swing; one is waited for",
            least=1,
            most=1024,
        ),
        Factor(
            "crossings",
            COUNT,
            quick=[40],
            paper=[200],
            help="of the bound, in each direction",
            least=1,
        ),
        Factor(
            "swing",
            BYTES,
            quick=[4 * MIB],
            full=[4 * MIB, 8 * MIB],
            help="memory that is taken and given back, a page a step; the bound is in its middle",
        ),
    ],
    excludes=[
        Exclude(
            lambda at: at["thresholds"] != 1 and not is_threshold(at),
            "only thresholds are armed at several places",
        ),
        Exclude(
            lambda at: at["direction"] == "down" and not is_threshold(at),
            "limits, levels and stalls tell of use that rises, thresholds alone of use that falls",
        ),
        Exclude(lambda at: int(at["swing"]) < 4 * MIB, "a swing is 1024 pages at least"),
        Exclude(
            lambda at: at["mechanism"] in RECLAIM and int(at["swing"]) < 8 * MIB,
            "half a swing must be more than the 512 pages after which reclaim is told, and long "
            "enough to stall",
        ),
    ],
    controls=[
        Control(
            "spinning",
            "A waiter that never sleeps. What it saves of the delivery is the waking of a CPU; "
            "the rest is the kernel telling.",
            levels={"waiter": ["spinning"], "mechanism": ["threshold"]},
            explanations=[
                Explanation(
                    predicts=Ratio(
                        text="most of the delivery to another CPU is its waking up",
                        metric="delivery",
                        where={"mechanism": "threshold", "thresholds": 1},
                        of={"waiter": "other_cpu"},
                        to={"waiter": "spinning"},
                        above=2,
                    ),
                    finding="a sleeping waiter on another CPU runs {of} after the signal, a "
                    "spinning one {to}",
                    confirmed="the wake-up, not the cgroup, is most of it",
                    refuted="waking up is not most of it",
                    undecided="what waking up has of it is not shown",
                )
            ],
        ),
        Control(
            "reclaim",
            "Told by reclaim at a limit, and not by use: memory.pressure_level. If nothing is said "
            "when memory is given back, it is the check at uncharge that makes thresholds tell.",
            levels={"mechanism": ["pressure_level"], "swing": [8 * MIB]},
            explanations=[
                Explanation(
                    predicts=Count(
                        text="reclaim's notification says nothing on the way down",
                        metric="down_told",
                        where={"mechanism": "pressure_level"},
                        equals=0,
                    ),
                    finding="memory.pressure_level tells {value} on the way down",
                    confirmed="it is the look at uncharge that thresholds have and it has not",
                    refuted="not only a look at uncharge tells there",
                    undecided="what tells there is not shown",
                )
            ],
        ),
        Control(
            "many",
            "128 thresholds. If arming each of them takes as long as arming one alone, it is paid "
            "anew for each: the kernel waits for an RCU grace period before it frees the old array "
            "(__mem_cgroup_usage_register_event).",
            levels={"mechanism": ["threshold"], "thresholds": [128], "waiter": ["same_cpu"]},
            explanations=[
                Explanation(
                    predicts=Ratio(
                        text="each of 128 thresholds takes as long to arm as one alone",
                        metric="arm_time",
                        where={"mechanism": "threshold", "waiter": "same_cpu"},
                        of={"thresholds": 128},
                        to={"thresholds": 1},
                        above=0.5,
                        below=2.0,
                    ),
                    finding="each of 128 takes {of} to arm, one alone {to}",
                    confirmed="the price is paid anew for each",
                    refuted="the price is not one paid anew for each",
                    undecided="whether it is paid anew for each is not shown",
                )
            ],
        ),
        Control(
            "psi",
            "Stalls of memory.pressure, which the kernel sums up over windows of half a second at "
            "least, or of 2 s for a program without CAP_SYS_RESOURCE: few crossings, and long ones",
            levels={"mechanism": ["psi"], "crossings": [2], "swing": [8 * MIB]},
            presets=("full",),
        ),
    ],
    metrics=METRICS,
    cost=Cost(memory=lambda at: 2 * int(at["swing"]) + 64 * MIB, time=trial_time),
    containment=Containment(limit=lambda at: 128 * MIB, told=True, fresh=True),
    cpus="all",
    budget_s={"quick": 90.0, "paper": 600.0, "full": 1800.0},
    tiny={
        "mechanism": ["threshold", "max_poll"],
        "thresholds": [1, 2],
        "direction": ["up"],
        "crossings": [23],
    },
    judges={"chen-2014": ["notification"]},
    claims=[
        Count(
            text="a threshold tells of each crossing upward, once: it is checked at charge",
            metric="up_told",
            where={"mechanism": "threshold", "direction": "up"},
            equals=1,
            published=CHECKED,
        ),
        Count(
            text="a threshold tells of each crossing downward, once: it is checked at uncharge",
            metric="down_told",
            where={"mechanism": "threshold"},
            equals=1,
            published=CHECKED,
            controls=("reclaim",),
        ),
        Count(
            text="several thresholds of one group each tell of each of their crossings, once",
            metric="others_told",
            where={"mechanism": "threshold", "direction": "up", "thresholds": 16},
            equals=1,
            published=SEVERAL,
            controls=("many",),
        ),
    ],
    figure=Nines(
        "latency",
        over="mechanism",
        by=["waiter"],
        panels=["thresholds", "direction"],
        histogram="latency",
    ),
    more_figures={
        "delivery": Nines(
            "delivery",
            over="mechanism",
            by=["waiter"],
            panels=["thresholds", "direction"],
            histogram="delivery",
        ),
        "overshoot": Bars(
            "overshoot", over="mechanism", by=["waiter"], panels=["thresholds", "direction"]
        ),
        "arming": Bars(
            "arm_time", over="mechanism", by=["thresholds"], panels=["waiter", "direction"]
        ),
    },
)
