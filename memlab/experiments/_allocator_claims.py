"""What allocator claims: the service before and after the setting, what explains it, its price."""

from memlab.experiment import Control, Count, Explanation, Ratio, Within

SERVICE = "jitter of CPU about 6% before, below 4% after; about 2% less CPU; fewer spikes of PCT99"
SETTING = "MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1 ends the shootdowns"
OWN = "memlab's own"
BURSTY = {"allocator": "jemalloc", "objects": "large", "pattern": "bursty"}
STEADY = {"allocator": "jemalloc", "objects": "large", "pattern": "steady"}
NEVER, DEFAULT, AT_ONCE = ({"setting": level} for level in ("never", "default", "at_once"))
WHY = ("at_once", "small_objects")


def served(text: str, metric: str, below: float) -> Ratio:
    """The service after the setting, against before."""
    return Ratio(
        text=f"with the setting {text}",
        metric=metric,
        where=BURSTY,
        of=NEVER,
        to=DEFAULT,
        below=below,
        published=SERVICE,
        controls=WHY,
    )


CLAIMS = [
    served("the jitter of the CPU falls, from 6 to less than 4 as printed", "jitter", 4 / 6),
    served("the same work takes 2 % less CPU or better", "cpu_per_operation", 0.98),
    served("the p99 latency is no worse", "p99", 1),
    Count(
        text="with the setting jemalloc calls madvise no more",
        metric="purges",
        where={"allocator": "jemalloc", "setting": "never"},
        equals=0,
        published=SETTING,
    ),
    Within(
        text="without the setting a busy process sends shootdowns",
        metric="shootdowns",
        where=STEADY | DEFAULT,
        above=10,
        published="/proc/interrupts: the numbers rise steeply",
        timed=False,
    ),
    Within(
        text="with the setting it sends next to none",
        metric="shootdowns",
        where=STEADY | NEVER,
        below=10,
        published=SETTING,
        timed=False,
    ),
    Ratio(
        text="the price: with the setting the process holds more memory",
        metric="rss",
        where=BURSTY,
        of=NEVER,
        to=DEFAULT,
        above=1,
        published=OWN,
        timed=False,
    ),
]

CONTROLS = [
    Control(
        "at_once",
        "Every page goes back as soon as it is free. If giving back is what costs, this costs far "
        "more than the default, which gives back late.",
        levels={"allocator": ["jemalloc"], "setting": ["at_once"]},
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="giving back at once costs more CPU than giving back late",
                    metric="cpu_per_operation",
                    where=BURSTY,
                    of=AT_ONCE,
                    to=DEFAULT,
                    above=1.5,
                ),
                confirmed="given back at once it takes {of} of CPU, not {to}: what the setting "
                "saves is the giving back and the faults that follow",
                refuted="given back at once it takes {of} of CPU against {to}: giving back is "
                "not what costs",
                undecided="given back at once it takes {of} of CPU against {to}: whether "
                "giving back is what costs is not shown",
            )
        ],
    ),
    Control(
        "small_objects",
        "Objects of 64 B to 4 KiB. They come from pages that other objects keep alive, so that "
        "few pages become free; if the setting helps through them, here it changes nothing.",
        levels={
            "allocator": ["jemalloc"],
            "objects": ["small"],
            "setting": ["default", "never"],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="with small objects the setting changes the CPU taken by less than 10 %",
                    metric="cpu_per_operation",
                    where=BURSTY | {"objects": "small"},
                    of=NEVER,
                    to=DEFAULT,
                    above=1 / 1.1,
                    below=1.1,
                ),
                finding="with small objects it takes {of} of CPU with the setting and {to} without",
                confirmed="it is whole free pages that cost",
                refuted="the setting changes more than what whole free pages cost",
                undecided="whether it is whole free pages that cost is not shown",
            )
        ],
    ),
    Control(
        "steady",
        "The same objects without a pause: the threads are always there to be interrupted, and "
        "shootdowns can be counted by the second.",
        levels={
            "allocator": ["jemalloc"],
            "pattern": ["steady"],
            "setting": ["default", "never"],
        },
    ),
]
