"""What group-isolation claims: Figure 3 in the words of its text, since the scan lacks the image,
and what the paper says of limits on processes and on groups of them."""

from memlab.experiment import Claim, Count, Equivalent, Ratio, Within

FIGURE_3 = "Figure 3 and its text"
COST = "section 3.2: memory cgroups cost relatively little"
RLIMIT = "section 3: rlimit is about a process and cannot hold a group of them"
LIMITS = "sections 1 and 3: limits keep a group from taking all that there is"
OWN = "memlab's own"
QUIET = {"neighbour": "quiet"}

_FIGURE: list[Claim] = [
    Ratio(
        text="the mean score in memory cgroups is higher than under beancounters",
        metric="score",
        where=QUIET,
        of={"controller": "v1"},
        to={"controller": "beancounters"},
        above=1,
        published=FIGURE_3,
    ),
    Ratio(
        text="the scores of groups differ more in memory cgroups than under beancounters",
        metric="score_variation",
        where=QUIET,
        of={"controller": "v1"},
        to={"controller": "beancounters"},
        above=1,
        published=FIGURE_3,
    ),
    Equivalent(
        text="a memory cgroup for each group costs less than 5 % of the mean score",
        metric="score",
        where=QUIET,
        of={"controller": "v1"},
        to={"controller": "none"},
        within=0.05,
        published=COST,
    ),
    Equivalent(
        text="groups fare as evenly in memory cgroups as without",
        metric="fairness",
        where=QUIET,
        of={"controller": "v1"},
        to={"controller": "none"},
        within=0.05,
        published=OWN,
    ),
]

_HOGS: list[Claim] = [
    Within(
        text="without a controller many small processes of one group have others' killed",
        metric="killed_groups",
        where={"controller": "none", "neighbour": "hogs", "swap": "none"},
        above=0.5,
        published=LIMITS,
        controls=("swap",),
        timed=False,
    ),
    Within(
        text="a limit of each process does not keep them from it",
        metric="killed_groups",
        where={"controller": "rlimit", "neighbour": "hogs"},
        above=0.5,
        published=RLIMIT,
        timed=False,
    ),
    Count(
        text="a memory cgroup does: no other group's process is killed",
        metric="killed_groups",
        where={"controller": "v1", "neighbour": "hogs"},
        equals=0,
        published=LIMITS,
    ),
    Ratio(
        text="under a memory cgroup others keep nine tenths of their score beside many processes",
        metric="score",
        where={"controller": "v1"},
        of={"neighbour": "hogs"},
        to=QUIET,
        above=0.9,
        published=LIMITS,
    ),
]

_HOG: list[Claim] = [
    Count(
        text="a limit of each process refuses a single one what is beyond it",
        metric="hog_refused",
        where={"controller": "rlimit", "neighbour": "hog"},
        equals=1,
        published=RLIMIT,
    ),
    Count(
        text="so that no other group's process is killed for it",
        metric="killed_groups",
        where={"controller": "rlimit", "neighbour": "hog"},
        equals=0,
        published=RLIMIT,
    ),
    Count(
        text="without a controller a single large process is killed itself",
        metric="hog_killed",
        where={"controller": "none", "neighbour": "hog"},
        equals=1,
        published="mm/oom_kill.c, oom_badness",
    ),
    Count(
        text="in a memory cgroup a single large process is killed itself",
        metric="hog_killed",
        where={"controller": "v1", "neighbour": "hog"},
        equals=1,
        published="mm/oom_kill.c, oom_badness",
    ),
]

CLAIMS = [*_FIGURE, *_HOGS, *_HOG]
