"""memcg-overhead: what does a memory cgroup cost a program that stays within its limit?

The study compares a kernel with thresholds to one without. Here thresholds are armed or not, in
the same kernel.
"""

from math import inf

from memlab.experiment import *

MIB = 2**20
PAGE_BYTES = 4096  # for what a point needs
ARM_S = 0.015
METRIC = {"fault": "fault_time", "read": "bandwidth"}
FIGURE = {
    "fault": "figure 5 and section 4.3: latency without a clear regression",
    "read": "figure 6 and section 4.3: bandwidth of mmap without a clear regression",
}
# The study compares a kernel with the mechanism to one without it, and counts no thresholds.
OWN = {
    "thresholds-16": "memlab's own: whether the cost grows with the number of thresholds",
    "thresholds-128": "memlab's own: whether the cost grows with the number of thresholds",
    "nested": "memlab's own: each level of a hierarchy is charged",
}
FAULT = {"work": "fault"}
BARE: dict[str, Level] = {"cgroup": "inside", "thresholds": 0, "depth": 1}


def same(work: str, id: str, text: str, of: dict[str, Level], to: dict[str, Level]) -> Claim:
    """Within 5 %, in the figure that the work stands for."""
    return Equivalent(
        id=f"{work}-{id}",
        text=text,
        metric=METRIC[work],
        where={"work": work, "place": "within"},
        of=of,
        to=to,
        within=0.05,
        published=OWN.get(id, FIGURE[work]),
        controls=("beyond",) if of["thresholds"] == 128 and work == "fault" else (),
    )


def unchanged(work: str, does: str, levels: dict[str, Level], where: str) -> Explanation:
    """That thresholds leave what the figure shows within 5 %."""
    return Explanation(
        Equivalent(
            metric=METRIC[work],
            where={"work": work, "place": "within"},
            of=BARE | levels,
            to=BARE,
            within=0.05,
        ),
        f"{does} {{of}} {where} and {{to}} without",
        confirmed="the change is under 5 %",
        refuted="the change is over 5 %",
    )


def claims(work: str, what: str) -> list[Claim]:
    armed = [
        same(
            work,
            f"thresholds-{count}",
            f"{'1 armed threshold changes' if count == 1 else f'{count} armed thresholds change'} "
            f"{what} by less than 5 %",
            BARE | {"thresholds": count},
            BARE,
        )
        for count in (1, 16, 128)
    ]
    return [
        *armed,
        same(
            work,
            "cgroup",
            f"a memory cgroup changes {what} by less than 5 %",
            BARE,
            BARE | {"cgroup": "outside"},
        ),
        same(
            work,
            "nested",
            f"four nested groups change {what} by less than 5 %",
            BARE | {"depth": 4},
            BARE,
        ),
    ]


CLAIMS = [*claims("fault", "the time of a page fault"), *claims("read", "mmap's bandwidth")]
EXPERIMENT = Experiment(
    name="memcg-overhead",
    question="What do a memory cgroup and its thresholds cost a program that stays within its "
    "limit?",
    so=[
        Decision(
            "fault-cgroup",
            "limit a program by a memory cgroup without thinking of its page faults: they change "
            "by less than 5 %",
            "count a memory cgroup in: a page fault takes {number} times as long",
            if_holds=(1 / 1.05, 1.05),
            if_fails=(1.05, inf),
        ),
    ],
    probe="memcg_overhead",
    factors=[
        Factor(
            "work",
            ENUM,
            quick=["fault", "read"],
            help="work; fault: new memory is touched one page at a time and released; read: a "
            "cached file is mapped, read and unmapped",
            level_labels={"fault": "page faults", "read": "reads through a mapping"},
        ),
        Factor(
            "cgroup",
            choice("outside", "inside"),
            quick=["outside", "inside"],
            help="cgroup; outside: at the top of the cgroup tree, if this user may go there; "
            "inside: in a group",
            host=True,
            level_labels={"outside": "no cgroup", "inside": "in a cgroup"},
        ),
        Factor(
            "thresholds",
            COUNT,
            quick=[0, 1, 16, 128],
            help="armed thresholds; on memory.usage_in_bytes (v1), no process waits for them",
        ),
        Factor(
            "depth",
            COUNT,
            quick=[1, 4],
            help="nested groups; with the probe in the innermost",
            least=1,
            host=True,
        ),
        Factor(
            "place",
            ENUM,
            quick=["within"],
            help="thresholds; within: every pass crosses them; beyond: they lie above the memory "
            "of a pass",
            level_labels={"within": "crossed thresholds", "beyond": "thresholds never crossed"},
        ),
        Factor("size", BYTES, quick=[16 * MIB], paper=[64 * MIB], help="memory per pass", least=1),
        Factor("passes", COUNT, quick=[40], paper=[40], help="passes; over that memory", least=1),
    ],
    excludes=[
        Exclude(
            lambda at: at["cgroup"] == "outside" and (at["thresholds"] != 0 or at["depth"] != 1),
            "thresholds and nesting need a group",
        ),
        Exclude(
            lambda at: int(at["depth"]) > 1 and at["thresholds"] != 0,
            "nesting and thresholds are compared with the bare group separately",
        ),
        Exclude(
            lambda at: at["thresholds"] == 0 and at["place"] == "beyond",
            "place is about thresholds, and none is armed",
        ),
        Exclude(
            lambda at: at["thresholds"] != 0 and int(at["size"]) < 4 * MIB,
            "thresholds need at least 1024 pages",
        ),
    ],
    controls=[
        control(
            "beyond",
            "128 thresholds that are never crossed, and so never notify.",
            {"work": "fault", "thresholds": 128, "place": ["beyond"]},
            Explanation(
                Equivalent(
                    metric="fault_time",
                    where={**BARE, "thresholds": 128},
                    of={"place": "within"},
                    to={"place": "beyond"},
                    within=0.05,
                ),
                "a fault costs {of} where 128 thresholds are crossed and {to} where none is",
                confirmed="notifying has no visible cost",
                refuted="notifying has a visible cost",
            ),
        )
    ],
    metrics=[
        Metric(
            "page_time",
            "s/page",
            "time per page; a fault, or a read through a new mapping",
            of=F.work_ns / F.page_count,
            baseline_loop=(F.floor_ns / F.page_count).where(**FAULT),
        ),
        Metric(
            "fault_time",
            "s/fault",
            "time per page fault; of new memory",
            of=(F.work_ns / F.page_count).where(**FAULT),
            baseline_loop=(F.floor_ns / F.page_count).where(**FAULT),
        ),
        Metric(
            "bandwidth",
            "B/s",
            "bandwidth; bytes read per second through a mapping, its creation and faults included",
            of=(F.page_count * PAGE_BYTES / F.work_ns).where(work="read"),
            lower_is_better=False,
        ),
        Metric(
            "release_time",
            "s/page",
            "release time per page; to free or unmap it",
            of=F.release_ns / F.page_count,
        ),
        Metric(
            "notifications",
            "notifications",
            "notifications; of all thresholds in all passes",
            of=F.notification_count,
        ),
        Metric(
            "arm_time",
            "s/threshold",
            "time to arm a threshold",
            of=F.arm_ns / F.at.thresholds,
        ),
        Metric(
            "cgroup_depth",
            "groups",
            "nested groups; that the probe was in, 0: at the top",
            of=F.depth_count,
        ),
    ],
    cost=Cost(
        memory=lambda at: int(at["size"]) + 64 * MIB,
        time=lambda at: (
            0.05
            + ARM_S * int(at["thresholds"])
            + (int(at["passes"]) + 1) * int(at["size"]) / PAGE_BYTES * 1.5e-6
        ),
    ),
    host=Host(
        containment=Containment(
            limit=lambda at: None if at["cgroup"] == "outside" else 2 * int(at["size"]) + 64 * MIB,
            depth=lambda at: int(at["depth"]),
            pass_group=True,
            top=True,
            fresh=True,
        )
    ),
    tiny={"size": [4 * MIB], "passes": [2], "thresholds": [0, 2]},
    judges={"chen-2014": ["figure-5", "figure-6"]},
    claims=CLAIMS,
    budget_s={"quick": 120.0, "paper": 600.0, "full": 1800.0},
    figure=Bars(
        "page_time",
        over="work",
        by=["cgroup", "depth", "thresholds"],
        base=BARE,
        answers=[
            unchanged("fault", "a page fault takes", {"thresholds": 1}, "with one armed threshold"),
            unchanged("fault", "it takes", {"thresholds": 128}, "with 128"),
        ],
    ),
    more_figures={
        # The study's figure 6 is of bandwidth.
        "bandwidth": Bars(
            "bandwidth",
            over="work",
            by=["cgroup", "depth", "thresholds"],
            base=BARE,
            answers=[
                unchanged("read", "mappings are read at", {"thresholds": 1}, "with one threshold"),
                unchanged("read", "at", {"thresholds": 128}, "with 128"),
            ],
        )
    },
)
