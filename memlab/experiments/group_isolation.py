"""group-isolation: groups with equal loads side by side, one of which wants more memory.

After the paper's Figure 3, UnixBench in 16 containers of 1.5 GB each. Each group here is a process
with a mix of loads like UnixBench's. Shares are small: the question is who gets how much of all.
In a trial with a hog, groups without a cgroup of their own share one of the total size.
"""

import math
from collections.abc import Callable, Sequence
from math import inf

from memlab.experiment import *
from memlab.experiments._reclaim import swap

LOADS = ("arithmetic", "copy", "pipe", "switch", "spawn", "calls", "memory")  # enum mix_load
HOG_GROUP = 0  # the probe's: where a hog is

Statistic = Callable[[Sequence[float]], float | None]


def score(group: Raw, at: At) -> float:
    """The geometric mean of a group's loads in operations per second.

    UnixBench divides each load by a reference machine's first; in a geometric mean those cancel
    out of every comparison. A group that was killed has 0.
    """
    return 0.0 if group["killed"] else math.prod(rates(group, at)) ** (1 / len(LOADS))


def scores(raw: Raw, at: At) -> list[float]:
    """Of every group."""
    return [score(group, at) for group in raw["groups"][: raw["group_count"]]]


def rates(group: Raw, at: At) -> list[float]:
    return [count / float(at["slice"]) for count in group["done_count"]]


def has_hog(at: At) -> bool:
    return at["antagonist"] != "no_hog"


def behaving(at: At, values: Sequence[float]) -> Sequence[float]:
    """Without the value of the hog's group."""
    return values[HOG_GROUP + 1 :] if has_hog(at) else values


def over_groups(name: str, of: Callable[[Raw, At], float], statistic: Statistic) -> Expression:
    """A statistic of a value of every group but the hog's."""

    def value(groups: Sequence[Raw], count: float, at: At) -> float | None:
        return statistic(behaving(at, [of(group, at) for group in groups[: int(count)]]))

    return each(name, value, F.groups, F.group_count, F.at)


def of_scores(statistic: Statistic) -> Expression:
    return over_groups(f"{statistic.__name__}_of_scores", score, statistic)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def variation(values: Sequence[float]) -> float | None:
    """The coefficient of variation: standard deviation over mean."""
    middle = mean(values)
    deviation = math.sqrt(mean([(value - middle) ** 2 for value in values]))
    return deviation / middle if middle else None


def fairness(values: Sequence[float]) -> float | None:
    """Jain's index: 1 where all have the same, 1/n where one has all."""
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else None


def lowest(values: Sequence[float]) -> float | None:
    middle = mean(values)
    return min(values) / middle if middle else None


def killed(group: Raw, _: At) -> bool:
    return bool(group["killed"])


def rate_of(load: int) -> Expression:
    """Of one load: mean over the groups."""

    def rate(group: Raw, at: At) -> float:
        return rates(group, at)[load]

    return over_groups(f"mean_rate_of_{LOADS[load]}", rate, mean)


FIGURE_3 = "Figure 3 and its text"
COST = "section 3.2: memory cgroups cost relatively little"
RLIMIT = "section 3: rlimit is about one process and cannot limit a group of them"
LIMITS = "sections 1 and 3: limits keep a group from taking all of the memory"
OWN = "memlab's own"
NO_HOG = {"antagonist": "no_hog"}

_FIGURE: list[Claim] = [
    Ratio(
        id="mean-over-beancounters",
        text="the mean score is higher in memory cgroups than under beancounters",
        metric="score",
        where=NO_HOG,
        of={"controller": "v1"},
        to={"controller": "beancounters"},
        above=1,
        published=FIGURE_3,
    ),
    Ratio(
        id="spread-over-beancounters",
        text="the groups' scores vary more in memory cgroups than under beancounters",
        metric="score_variation",
        where=NO_HOG,
        of={"controller": "v1"},
        to={"controller": "beancounters"},
        above=1,
        published=FIGURE_3,
    ),
]


def of_cgroups(version: str) -> list[Claim]:
    """What is claimed of memory cgroups, of one version; the study's are of v1."""
    id, cgroups = ("cgroup", "memory cgroups") if version == "v1" else (
        "v2", "memory cgroups of v2"
    )  # fmt: skip
    of: dict[str, Level] = {"controller": version}

    def source(study: str) -> str:
        return study if version == "v1" else f"memlab's own: the same of v2 ({study})"

    return [
        Equivalent(
            id=f"{id}-cost",
            text=f"{cgroups}, one per group, cost less than 5 % of the mean score",
            metric="score",
            where=NO_HOG,
            of=of,
            to={"controller": "none"},
            within=0.05,
            published=source(COST),
        ),
        Equivalent(
            id=f"{id}-fairness",
            text=f"{cgroups} change the fairness between groups by less than 5 %",
            metric="fairness",
            where=NO_HOG,
            of=of,
            to={"controller": "none"},
            within=0.05,
            published=OWN,
        ),
        Count(
            id=f"{id}-hogs-kill-none",
            text=f"with {cgroups} many small processes in one group get no other group's process "
            "killed",
            metric="killed_groups",
            where=of | {"antagonist": "hogs"},
            equals=0,
            published=source(LIMITS),
        ),
        Ratio(
            id=f"{id}-hogs-score",
            text=f"in {cgroups} the other groups keep nine tenths of their score while one group "
            "runs many processes",
            metric="score",
            where=of,
            of={"antagonist": "hogs"},
            to=NO_HOG,
            above=0.9,
            published=source(LIMITS),
        ),
        Count(
            id=f"{id}-hog-killed",
            text=f"with {cgroups} a single large process is itself killed",
            metric="hog_killed",
            where=of | {"antagonist": "hog"},
            equals=1,
            published="mm/oom_kill.c, oom_badness",
        ),
    ]


_HOGS: list[Claim] = [
    Within(
        id="none-hogs-kill",
        text="without a controller many small processes in one group get other groups' processes "
        "killed",
        metric="killed_groups",
        where={"controller": "none", "antagonist": "hogs", "swap": "none"},
        above=0.5,
        published=LIMITS,
        controls=("swap",),
        timed=False,
    ),
    Within(
        id="rlimit-hogs-kill",
        text="with a limit per process many small processes in one group still get others killed",
        metric="killed_groups",
        where={"controller": "rlimit", "antagonist": "hogs"},
        above=0.5,
        published=RLIMIT,
        timed=False,
    ),
]

_HOG: list[Claim] = [
    Count(
        id="rlimit-hog-refused",
        text="a limit per process refuses a single large process the memory beyond it",
        metric="hog_refused",
        where={"controller": "rlimit", "antagonist": "hog"},
        equals=1,
        published=RLIMIT,
    ),
    Count(
        id="rlimit-hog-kills-none",
        text="with a limit per process a single large process gets no other group's process killed",
        metric="killed_groups",
        where={"controller": "rlimit", "antagonist": "hog"},
        equals=0,
        published=RLIMIT,
    ),
    Count(
        id="none-hog-killed",
        text="without a controller a single large process is itself killed",
        metric="hog_killed",
        where={"controller": "none", "antagonist": "hog"},
        equals=1,
        published="mm/oom_kill.c, oom_badness",
    ),
]

CLAIMS = [*_FIGURE, *_HOGS, *_HOG, *of_cgroups("v1"), *of_cgroups("v2")]


MIB = 2**20
TAKEN_RATE = {"none": 200 * MIB, "file": 60 * MIB}  # slow guesses, bytes per second
LEAST_SHARE = 8 * MIB  # the processes themselves need some 3 MiB
SWAP_BYTES = 512 * MIB  # more than six shares, and all shares, in any preset
CGROUPS = ("v1", "v2")
_NEEDS = {
    "v1": ["memory cgroup v1"],
    "v2": ["memory cgroup v2"],
    "beancounters": ["/proc/user_beancounters"],
}


def whole(at: At) -> int:
    """All shares together."""
    return int(at["groups"]) * int(at["share"])


def limit(at: At) -> int | None:
    """Outside of any cgroup where none is asked for and nobody wants more than there is."""
    controller = at["controller"]
    needed = controller in CGROUPS or (controller != "beancounters" and has_hog(at))
    return whole(at) if needed else None


def trial_time(at: At) -> float:
    """The slices, forking and entering the groups, and a hog that takes memory."""
    each = 0.03 * int(at["groups"])
    taking = 6 * int(at["share"]) / TAKEN_RATE[str(at["swap"])] if has_hog(at) else 0.0
    return len(LOADS) * float(at["slice"]) + each + taking


HOG = ~F.at.antagonist.one_of("no_hog")  # there is one to count


EXPERIMENT = Experiment(
    name="group-isolation",
    question="How evenly do groups share a machine, and what does a memory hog in one do to the "
    "others?",
    so=[
        Decision(
            "cgroup-hogs-kill-none",
            "put each tenant in a memory cgroup if one may run away: the others' processes survive",
            "memory cgroups did not keep the others' processes alive here: reserve memory for "
            "them (memory.min)",
            if_holds=(0, 0),
            if_fails=(0, inf),
        ),
        Decision(
            "v2-hogs-kill-none",
            "put each tenant in a memory cgroup (v2) if one may run away: the others' processes "
            "survive",
            "memory cgroups of v2 did not keep the others' processes alive here",
            if_holds=(0, 0),
            if_fails=(0, inf),
        ),
        Decision(
            "rlimit-hogs-kill",
            "use no limit per process for a tenant: many small processes pass below it",
            "a limit per process was enough here: it got none killed",
            if_holds=(0.5, inf),
            if_fails=(0, 0),
        ),
    ],
    probe="group_isolation",
    factors=[
        Factor(
            "controller",
            ENUM,
            help="controller; what limits a group to its share. none; rlimit: RLIMIT_DATA of each "
            "process; v1, v2: a memory cgroup of its own, whichever the host has; beancounters, "
            "which OpenVZ's kernels have",
            level_labels={
                "none": "no controller",
                "rlimit": "RLIMIT_DATA",
                "v1": "memory cgroup (v1)",
                "v2": "memory cgroup (v2)",
            },
        ),
        Factor(
            "antagonist",
            ENUM,
            quick=["no_hog", "hogs"],
            paper=["no_hog", "hog", "hogs"],
            help="hogs in group 0; no_hog: none; hog: one process that wants six shares; hogs: 48 "
            "processes that want an eighth of a share each. They take memory before the loads "
            "start",
            level_labels={"no_hog": "no hog", "hog": "one large hog", "hogs": "48 small hogs"},
        ),
        Factor("groups", COUNT, quick=[16], help="groups; side by side", least=1, most=64),
        Factor(
            "share",
            BYTES,
            quick=[16 * MIB],
            paper=[32 * MIB],
            help="memory per group; its loads use five eighths of it",
            least=LEAST_SHARE,
        ),
        Factor(
            "operations",
            COUNT,
            quick=[0],
            help="operations per load; at most, 0: as many as the slice allows",
        ),
        swap("none", "file", quick=["none"], help="swap; of the trial's cgroups"),
        Factor("slice", SECONDS, quick=[0.2], paper=[1.0], help="time of each of the seven loads"),
    ],
    excludes=[
        Exclude(
            lambda at: at["swap"] != "none" and limit(at) is None,
            "a trial without a cgroup has no swap",
        ),
        Exclude(
            lambda at: has_hog(at) and int(at["groups"]) < 2,
            "a hog disturbs others only if there is another group",
        ),
        Exclude(lambda at: float(at["slice"]) == 0, "a load needs a slice of time"),
    ],
    controls=[
        control(
            "swap",
            "The same with a swap file that holds all the memory that is wanted: what do others "
            "lose where they are not killed?",
            {"swap": "file", "controller": ["none", "v1"], "antagonist": "hogs"},
            Explanation(
                Count(metric="killed_groups", where={"controller": "none"}, equals=0),
                "with swap for all the memory that is wanted, {value} other groups are killed",
                confirmed="other groups are killed for lack of memory",
                refuted="more than a lack of memory is at work",
            ),
            presets=("paper", "full"),
        )
    ],
    metrics=[
        Metric(
            "score",
            "1/s",
            "mean score; of the groups without the hog's. A score is the geometric mean of a "
            "group's operations per second",
            of=of_scores(mean),
            lower_is_better=False,
        ),
        Metric(
            "score_variation",
            "1",
            "variation of the scores; coefficient of variation over the groups",
            of=of_scores(variation),
        ),
        Metric(
            "fairness",
            "1",
            "fairness (Jain's index); of the groups' scores, 1: all alike, 1/n: one group has all",
            of=of_scores(fairness),
            lower_is_better=False,
        ),
        Metric(
            "lowest",
            "1",
            "lowest score / mean",
            of=of_scores(lowest),
            lower_is_better=False,
        ),
        Metric(
            "killed_groups",
            "count",
            "groups killed; other than the hog's",
            of=over_groups("killed", killed, math.fsum),
        ),
        *(
            Metric(
                f"{load}_rate",
                "1/s",
                f"operations per second of the load {load}; mean over the groups",
                of=rate_of(number),
                lower_is_better=False,
            )
            for number, load in enumerate(LOADS)
        ),
        Metric(
            "hog_held",
            "B",
            "memory held by the hog; by its processes that were not killed",
            of=F.hog_held_bytes.where(HOG),
        ),
        Metric(
            "hog_refused",
            "count",
            "hog processes refused; memory, by mmap",
            of=F.hog_refused_count.where(HOG),
        ),
        Metric(
            "hog_killed",
            "count",
            "hog processes killed",
            of=F.hog_killed_count.where(HOG),
        ),
    ],
    cost=Cost(memory=whole, time=trial_time),
    host=Host(
        containment=Containment(
            limit=limit,
            members=lambda at: int(at["groups"]) if at["controller"] in CGROUPS else 0,
            member_limit=lambda at: int(at["share"]),
            swap=lambda at: str(at["swap"]),
            swap_bytes=SWAP_BYTES,
            pass_group=True,
        ),
        cpus="all",
        needs=lambda at: _NEEDS.get(str(at["controller"]), []),
    ),
    shrinks="groups",
    tiny={
        "controller": ["none", "rlimit"],
        "antagonist": ["no_hog"],
        # All of them beside a hog that has reached its own share.
        "groups": [4],
        "share": [2 * LEAST_SHARE],
        "operations": [23],
        "slice": [2.0],
    },
    judges={"chen-2014": ["figure-3"]},
    claims=CLAIMS,
    budget_s={"quick": 150.0, "paper": 600.0, "full": 1800.0},
    figure=Bars(
        "score",
        over="controller",
        by=("antagonist",),
        base={"antagonist": "no_hog"},
        answers=[
            Explanation(
                Ratio(
                    metric="score",
                    where={"controller": "v1"},
                    of={"antagonist": "hogs"},
                    to=NO_HOG,
                    above=0.9,
                ),
                "in memory cgroups the other groups reach {of} beside small hogs and {to} without",
                confirmed="they keep nine tenths",
                refuted="they lose over a tenth",
            ),
            Explanation(
                Ratio(
                    metric="score",
                    where={"controller": "none"},
                    of={"antagonist": "hogs"},
                    to=NO_HOG,
                    below=0.9,
                ),
                "without a controller {of} and {to}",
                confirmed="they lose over a tenth",
                refuted="they keep nine tenths",
            ),
        ],
    ),
    more_figures={
        "spread": Bars(
            "score_variation",
            over="controller",
            by=("antagonist",),
            answers=[
                Explanation(
                    Ratio(
                        metric="score_variation",
                        where=NO_HOG,
                        of={"controller": "v1"},
                        to={"controller": "none"},
                        below=1,
                    ),
                    "the groups' scores vary by {of} in memory cgroups and by {to} without a "
                    "controller",
                    confirmed="the groups make them more alike",
                    refuted="the groups do not make them more alike",
                )
            ],
        ),
    },
)
