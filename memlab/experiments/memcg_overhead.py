"""memcg-overhead: what does a memory cgroup cost a program that it does not stop?

The source compares a kernel with thresholds to one without; here thresholds are armed or not, in
the same kernel. What the kernel pays for accounting itself is outside against inside.
"""

from memlab.experiment import (
    BYTES,
    COUNT,
    Bars,
    Claim,
    Containment,
    Control,
    Cost,
    Equivalent,
    Exclude,
    Experiment,
    Explanation,
    Factor,
    Level,
    Metric,
    choice,
)

MIB = 2**20
PAGE_BYTES = 4096  # for what a point needs
ARM_S = 0.015
METRIC = {"fault": "fault_time", "read": "bandwidth"}
FIGURE = {
    "fault": "figure 5 and section 4.3: latency without a clear regression",
    "read": "figure 6 and section 4.3: bandwidth of mmap without a clear regression",
}
BARE: dict[str, Level] = {"cgroup": "inside", "thresholds": 0, "depth": 1}


def same(work: str, text: str, of: dict[str, Level], to: dict[str, Level]) -> Claim:
    """Within 5 %, in the figure that the work stands for."""
    return Equivalent(
        text=text,
        metric=METRIC[work],
        where={"work": work, "place": "within"},
        of=of,
        to=to,
        within=0.05,
        published=FIGURE[work],
        controls=("beyond",) if of["thresholds"] == 128 and work == "fault" else (),
    )


def claims(work: str, what: str) -> list[Claim]:
    armed = [
        same(
            work,
            f"thresholds armed, {count} of them, change {what} by less than 5 %",
            BARE | {"thresholds": count},
            BARE,
        )
        for count in (1, 16, 128)
    ]
    return [
        *armed,
        same(
            work,
            f"a memory cgroup changes {what} by less than 5 %",
            BARE,
            BARE | {"cgroup": "outside"},
        ),
        same(
            work,
            f"four groups one inside the other change {what} by less than 5 %",
            BARE | {"depth": 4},
            BARE,
        ),
    ]


EXPERIMENT = Experiment(
    name="memcg-overhead",
    question="What do a memory cgroup and thresholds in it cost a program that they do not stop?",
    probe="memcg_overhead",
    factors=[
        Factor(
            "work",
            choice("fault", "read"),
            quick=["fault", "read"],
            help="new memory touched a page at a time and given back, or a file that lies in "
            "memory mapped, read and unmapped",
        ),
        Factor(
            "cgroup",
            choice("outside", "inside"),
            quick=["outside", "inside"],
            help="at the top of the cgroups, where this user may go there, or in a group",
            host=True,
        ),
        Factor(
            "thresholds",
            COUNT,
            quick=[0, 1, 16, 128],
            help="armed on memory.usage_in_bytes (v1); nobody waits for them",
        ),
        Factor(
            "depth",
            COUNT,
            quick=[1, 4],
            help="groups one inside the other, the probe in the innermost",
            host=True,
        ),
        Factor(
            "place",
            choice("within", "beyond"),
            quick=["within"],
            help="thresholds that a pass crosses, or above all that it takes",
        ),
        Factor("size", BYTES, quick=[16 * MIB], paper=[64 * MIB], help="memory of a pass"),
        Factor("passes", COUNT, quick=[10], paper=[20], help="how often it is gone through"),
    ],
    excludes=[
        Exclude(
            lambda at: at["cgroup"] == "outside" and (at["thresholds"] != 0 or at["depth"] != 1),
            "outside there is nothing to arm and nothing to nest",
        ),
        Exclude(
            lambda at: int(at["depth"]) > 1 and at["thresholds"] != 0,
            "nesting and thresholds are compared with the bare group, each by itself",
        ),
        Exclude(
            lambda at: at["thresholds"] == 0 and at["place"] == "beyond",
            "no thresholds lie nowhere",
        ),
        Exclude(
            lambda at: at["thresholds"] != 0 and int(at["size"]) < 4 * MIB,
            "thresholds lie within 1024 pages at least",
        ),
        Exclude(
            lambda at: int(at["depth"]) < 1 or int(at["passes"]) < 1 or int(at["size"]) < 1,
            "there is one group, one pass and one page at least",
        ),
    ],
    controls=[
        Control(
            "beyond",
            "128 thresholds that are never crossed, and so never told. If they cost the same as "
            "those that every pass crosses, the price is not in the telling.",
            levels={"work": ["fault"], "thresholds": [128], "place": ["beyond"]},
            explanations=[
                Explanation(
                    predicts=Equivalent(
                        text="crossed thresholds cost no more than those that are not",
                        metric="fault_time",
                        where={**BARE, "work": "fault", "thresholds": 128},
                        of={"place": "within"},
                        to={"place": "beyond"},
                        within=0.05,
                    ),
                    finding="a fault costs {of} where 128 thresholds are crossed and {to} where "
                    "none is",
                    confirmed="telling costs nothing that shows",
                    refuted="telling shows",
                    undecided="whether telling shows is not decided",
                )
            ],
        ),
    ],
    metrics=[
        Metric(
            "page_time",
            "s/page",
            "time a page: a fault, or reading it through a new mapping",
            of=lambda raw, _: raw["work_ns"] * 1e-9 / raw["page_count"],
            floor=lambda raw, at: (
                raw["floor_ns"] * 1e-9 / raw["page_count"] if at["work"] == "fault" else None
            ),
        ),
        Metric(
            "fault_time",
            "s/fault",
            "time a page fault of new memory",
            of=lambda raw, at: (
                raw["work_ns"] * 1e-9 / raw["page_count"] if at["work"] == "fault" else None
            ),
            floor=lambda raw, at: (
                raw["floor_ns"] * 1e-9 / raw["page_count"] if at["work"] == "fault" else None
            ),
        ),
        Metric(
            "bandwidth",
            "B/s",
            "bytes a second read through a mapping, its making and its faults included",
            of=lambda raw, at: (
                raw["page_count"] * PAGE_BYTES / (raw["work_ns"] * 1e-9)
                if at["work"] == "read"
                else None
            ),
            lower_is_better=False,
        ),
        Metric(
            "release_time",
            "s/page",
            "time to give a page back, or to unmap it",
            of=lambda raw, _: raw["release_ns"] * 1e-9 / raw["page_count"],
        ),
        Metric(
            "told",
            "notifications",
            "notifications of all thresholds in all passes",
            of=lambda raw, _: float(raw["told_count"]),
        ),
        Metric(
            "arm_time",
            "s/threshold",
            "time to arm a threshold",
            of=lambda raw, at: (
                raw["arm_ns"] * 1e-9 / int(at["thresholds"]) if at["thresholds"] else None
            ),
        ),
        Metric(
            "groups_around",
            "groups",
            "groups that the probe was in, one inside the other; 0 at the top",
            of=lambda raw, _: float(raw["depth_count"]),
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
    containment=Containment(
        limit=lambda at: None if at["cgroup"] == "outside" else 2 * int(at["size"]) + 64 * MIB,
        depth=lambda at: int(at["depth"]),
        told=True,
        fresh=True,
    ),
    tiny={"size": [4 * MIB], "passes": [2], "thresholds": [0, 2]},
    judges={"chen-2014": ["figure-5", "figure-6"]},
    claims=[*claims("fault", "the time of a page fault"), *claims("read", "mmap's bandwidth")],
    budget_s={"quick": 120.0, "paper": 600.0, "full": 1800.0},
    figure=Bars("page_time", over="work", by=["cgroup", "depth", "thresholds"], base=BARE),
)
