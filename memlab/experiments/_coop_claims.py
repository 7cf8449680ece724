"""What coop-reclaim claims: the article's argument, and what its controls would show of it."""

from collections.abc import Mapping, Sequence

from memlab.experiment import (
    Claim,
    Control,
    Count,
    Equivalent,
    Explanation,
    Level,
    Ratio,
    Within,
)

TOLD = {"manager": "told"}
KERNEL = {"manager": "kernel"}
CHEAPER = (
    "sections 1 and 4: given back by the application it costs usually less; it knows what is cold"
)
JITTER = "section 4: giving back what is cold makes jitter less likely"
SWAPPING = "section 4: one I/O at least, two at most, for a page that the kernel swaps"
OOM = "section 4: where a group's own reclaim fails, its OOM killer comes"
# Where the controls stand: a middle of what the sweep varies.
AT: Mapping[str, Level] = {"skew": "zipf", "miss_cost": 100e-6}
MIDDLE: Mapping[str, Sequence[Level]] = {name: [level] for name, level in AT.items()}


def beats(swap: str) -> list[Claim]:
    """The argument, where the kernel can swap to that."""
    return [
        Ratio(
            text="told, and dropping its coldest entries, a cache needs less time for an "
            f"operation than the kernel's swapping ({swap}) leaves it",
            metric="operation_time",
            where={"swap": swap},
            of=TOLD,
            to=KERNEL,
            below=1,
            published=CHEAPER,
            controls=("counted", "random"),
        ),
        Ratio(
            text="where some entries are popular, its p99 is shorter than with the kernel's "
            f"swapping ({swap})",
            metric="p99",
            where={"swap": swap, "skew": "zipf"},
            of=TOLD,
            to=KERNEL,
            below=1,
            published=JITTER,
        ),
        Within(
            text="a page that the kernel brings back costs one I/O at least and two at most "
            f"({swap})",
            metric="io_per_page",
            where=KERNEL | {"swap": swap},
            above=0.99,
            below=2.1,
            published=SWAPPING,
            timed=False,
        ),
    ]


CLAIMS: list[Claim] = [
    *beats("file"),
    *beats("zram"),
    Count(
        text="left to the kernel without any swap, the cache is killed",
        metric="killed",
        where=KERNEL | {"swap": "none"},
        equals=1,
        published=OOM,
        controls=("no_swap",),
    ),
]

CONTROLS = [
    Control(
        "counted",
        "Told of nothing: it stops at the threshold by a count of its own. If it is as fast, it "
        "is the dropping that saves time, and the notification only says when.",
        levels={"manager": ["counted"], **MIDDLE},
        explanations=[
            Explanation(
                predicts=Equivalent(
                    text="a cache that counts for itself is as fast as one that is told",
                    metric="operation_time",
                    where=AT,
                    of={"manager": "counted"},
                    to=TOLD,
                    within=0.1,
                ),
                finding="a cache that counts for itself, told of nothing, needs {of} for an "
                "operation, and {to} told",
                confirmed="it is the dropping that saves time, not the notice",
                refuted="being told is more than one way to know when",
                undecided="whether the notice itself matters is not shown",
            )
        ],
    ),
    Control(
        "random",
        "Told too, but drops any entries. If it is slower, knowing which are cold is part of "
        "what the application has to give.",
        levels={"manager": ["random"], **MIDDLE},
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="dropping any entries costs more than dropping the coldest",
                    metric="operation_time",
                    where=AT,
                    of={"manager": "random"},
                    to=TOLD,
                    above=1.05,
                ),
                finding="dropping any entries leaves {of} for an operation, dropping the coldest "
                "{to}",
                confirmed="that the application knows what is cold is part of it",
                refuted="which ones are dropped hardly matters here",
                undecided="whether knowing the cold ones matters is not shown",
            )
        ],
    ),
    Control(
        "no_swap",
        "No swap at all: what the kernel cannot push out it has to kill for. If the cache that "
        "is told lives, being told replaces swap.",
        levels={"swap": ["none"], **MIDDLE},
        explanations=[
            Explanation(
                predicts=Count(
                    text="told, the cache lives without any swap",
                    metric="killed",
                    where={**TOLD, "swap": "none", **AT},
                    equals=0,
                ),
                finding="without swap the cache that is told is killed {value} times",
                confirmed="giving back in time replaces swap",
                refuted="it is told too late",
                undecided="whether it is told in time is not shown",
            )
        ],
    ),
]
