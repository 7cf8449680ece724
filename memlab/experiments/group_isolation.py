"""group-isolation: groups at the same loads side by side, and one of them that wants more.

After the paper's Figure 3, UnixBench in 16 containers of 1.5 GB each. Each group here is a process
at a mix of loads like UnixBench's; a share is small, since what is at stake is who gets how much of
all shares together and not how much that is. Without a cgroup of their own the groups of a trial
with a hog are in one together, of the size of all shares: it stands for the machine.
"""

from collections.abc import Callable

from memlab.experiment import (
    BYTES,
    COUNT,
    SECONDS,
    At,
    Containment,
    Control,
    Cost,
    Count,
    Exclude,
    Experiment,
    Explanation,
    Factor,
    Members,
    Metric,
    Raw,
    choice,
)
from memlab.experiments import _isolation_scores as of
from memlab.experiments._isolation_claims import CLAIMS

MIB = 2**20
TAKEN_RATE = {"none": 200 * MIB, "file": 60 * MIB}  # slow guesses, bytes a second
LEAST_SHARE = 8 * MIB  # the processes themselves need some 3 MiB
SWAP_BYTES = 512 * MIB  # more than six shares, and all shares, in any preset
CONTROLLERS = ("none", "rlimit", "v1", "v2", "beancounters")
CGROUPS = ("v1", "v2")


def whole(at: At) -> int:
    """All shares together."""
    return int(at["groups"]) * int(at["share"])


def limit(at: At) -> int | None:
    """Outside of any cgroup where none is asked for and nobody wants more than there is."""
    controller = at["controller"]
    needed = controller in CGROUPS or (controller != "beancounters" and of.has_hog(at))
    return whole(at) if needed else None


def trial_time(at: At) -> float:
    """The slices, forking and entering the groups, and a hog that takes memory."""
    each = 0.03 * int(at["groups"])
    taking = 6 * int(at["share"]) / TAKEN_RATE[str(at["swap"])] if of.has_hog(at) else 0.0
    return len(of.LOADS) * float(at["slice"]) + each + taking


def number(field: str) -> Callable[[Raw, At], float | None]:
    """None where there is no hog to count."""
    return lambda raw, at: float(raw[field]) if of.has_hog(at) else None


EXPERIMENT = Experiment(
    name="group-isolation",
    question="How evenly do groups fare side by side, and what does a hog in one do to the others?",
    probe="group_isolation",
    factors=[
        Factor(
            "controller",
            choice(*CONTROLLERS),
            quick=CONTROLLERS,
            help="what holds a group to its share: nothing; RLIMIT_DATA of each process; a memory "
            "cgroup of its own, v1's or v2's, whichever the host has; beancounters, which "
            "OpenVZ's kernels have",
        ),
        Factor(
            "neighbour",
            choice("quiet", "hog", "hogs"),
            quick=["quiet", "hogs"],
            paper=["quiet", "hog", "hogs"],
            help="who else is in group 0: nobody; a process that wants six shares; 48 that want "
            "an eighth of a share each. They take memory before the loads start",
        ),
        Factor("groups", COUNT, quick=[16], help="groups side by side, up to 64"),
        Factor(
            "share",
            BYTES,
            quick=[16 * MIB],
            paper=[32 * MIB],
            help="memory that a group may have; its loads use five eighths of it",
        ),
        Factor(
            "operations",
            COUNT,
            quick=[0],
            help="operations of each load at most, 0: as many as the slice allows",
        ),
        Factor(
            "swap",
            choice("none", "file"),
            quick=["none"],
            help="what the cgroups of a trial may swap to",
            host=True,
        ),
        Factor("slice", SECONDS, quick=[0.2], paper=[1.0], help="time of each of the seven loads"),
    ],
    excludes=[
        Exclude(
            lambda at: at["swap"] != "none" and limit(at) is None,
            "who is in no cgroup of the run is given no swap by it",
        ),
        Exclude(
            lambda at: not 1 <= int(at["groups"]) <= 64 or int(at["share"]) < LEAST_SHARE,
            "there are 1 to 64 groups, of at least 8 MiB each",
        ),
        Exclude(
            lambda at: of.has_hog(at) and int(at["groups"]) < 2,
            "a hog's own group needs another beside it",
        ),
        Exclude(lambda at: float(at["slice"]) == 0, "a load needs a slice of time"),
    ],
    controls=[
        Control(
            "swap",
            "The same with a swap file that holds all that is wanted: is it for lack of memory "
            "that others are killed, and what do they lose where they are not?",
            levels={"swap": ["file"], "controller": ["none", "v1"], "neighbour": ["hogs"]},
            presets=("paper", "full"),
            explanations=[
                Explanation(
                    predicts=Count(
                        text="with swap nobody is killed",
                        metric="killed_groups",
                        where={"swap": "file", "controller": "none", "neighbour": "hogs"},
                        equals=0,
                    ),
                    finding="with swap for all that is wanted {value} other groups are killed",
                    confirmed="it is for lack of memory",
                    refuted="more than a lack of memory is at work",
                    undecided="why is not shown",
                )
            ],
        ),
    ],
    metrics=[
        Metric(
            "score",
            "1/s",
            "mean over the groups, without the hog's, of the geometric mean of operations a second",
            of=of.over_groups(of.mean),
            lower_is_better=False,
        ),
        Metric(
            "score_variation",
            "1",
            "coefficient of variation of the groups' scores",
            of=of.over_groups(of.variation),
        ),
        Metric(
            "fairness",
            "1",
            "Jain's index of the groups' scores: 1 is even, 1/n is all for one",
            of=of.over_groups(of.fairness),
            lower_is_better=False,
        ),
        Metric(
            "lowest",
            "1",
            "the lowest group's score over the mean",
            of=of.over_groups(of.lowest),
            lower_is_better=False,
        ),
        Metric(
            "killed_groups",
            "count",
            "groups without the hog's whose process was killed",
            of=of.killed,
        ),
        *(
            Metric(
                f"{load}_rate",
                "1/s",
                f"operations a second of the load {load}, mean over the groups",
                of=of.rate_of(number),
                lower_is_better=False,
            )
            for number, load in enumerate(of.LOADS)
        ),
        Metric(
            "hog_held",
            "B",
            "memory of the hog's processes that were not killed",
            of=number("hog_held_bytes"),
        ),
        Metric(
            "hog_refused",
            "count",
            "processes of the hog that were refused memory",
            of=number("hog_refused_count"),
        ),
        Metric(
            "hog_killed",
            "count",
            "processes of the hog that were killed",
            of=number("hog_killed_count"),
        ),
    ],
    cost=Cost(memory=whole, time=trial_time),
    containment=Containment(
        limit=limit,
        members=lambda at: int(at["groups"]) if at["controller"] in CGROUPS else 0,
        member_limit=lambda at: int(at["share"]),
        swap=lambda at: str(at["swap"]),
        swap_bytes=SWAP_BYTES,
        told=True,
    ),
    cpus="all",
    shrinks="groups",
    tiny={
        "controller": ["none", "rlimit"],
        "neighbour": ["quiet"],
        "groups": [2],
        "share": [LEAST_SHARE],
        "operations": [23],
        "slice": [2.0],
    },
    judges={"chen-2014": ["figure-3"]},
    claims=CLAIMS,
    budget_s={"quick": 90.0, "paper": 600.0, "full": 1800.0},
    figure=Members(
        "score",
        over="controller",
        by=("neighbour",),
        members=of.scores,
        apart=lambda at: of.HOG_GROUP if of.has_hog(at) else None,
        member_label="a group",
        apart_label="the group with the hog",
    ),
)
