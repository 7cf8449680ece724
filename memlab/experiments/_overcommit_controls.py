"""mmap-overcommit's controls: what mmap holds a mapping against, and what ends the writing."""

from memlab.experiment import Control, Count, Equivalent, Explanation

CONTROLS = [
    Control(
        "whole_host",
        "The same mappings in parts of the whole host's memory and swap, never touched: which "
        "memory does mmap hold a mapping against, the host's or the cgroup's?",
        levels={"scope": ["host"]},
        presets=("quick", "paper"),
        explanations=[
            Explanation(
                predicts=Count(
                    text="a private mapping larger than its cgroup's memory is granted",
                    metric="mmap_refused",
                    where={
                        "scope": "group",
                        "scenario": "a",
                        "mapping": "private",
                        "overcommit": "0",
                    },
                    equals=0,
                ),
                finding="a mapping as much larger than its cgroup's memory is refused {value} "
                "times",
                confirmed="mmap asks for the whole host's memory and swap, and the limit of a "
                "cgroup is first met when the pages are written",
                refuted="mmap asks for more than the whole host's memory",
                undecided="what mmap asks for is not shown",
            )
        ],
    ),
    Control(
        "always",
        "vm.overcommit_memory 1. If the mapping larger than the host is then granted, it is "
        "the kernel's estimate that refused it, and not a lack of addresses.",
        levels={
            "overcommit": ["1"],
            "scope": ["host"],
            "scenario": ["a"],
            "mapping": ["private"],
        },
        presets=("paper", "full"),
        explanations=[
            Explanation(
                predicts=Count(
                    text="with vm.overcommit_memory 1 no mapping is refused",
                    metric="mmap_refused",
                    where={
                        "overcommit": "1",
                        "scope": "host",
                        "scenario": "a",
                        "mapping": "private",
                    },
                    equals=0,
                ),
                finding="with vm.overcommit_memory 1 it is refused {value} times",
                confirmed="the refusal is the kernel's estimate, not a lack of addresses",
                refuted="more than the kernel's estimate refuses it",
                undecided="what refuses it is not shown",
            )
        ],
    ),
    Control(
        "swap",
        "A quarter of the 16 parts on a swap file. If the process comes as far as without, "
        "it is the sum of memory and swap that ends it.",
        levels={"swap": ["file"], "scope": ["group"]},
        explanations=[
            Explanation(
                predicts=Equivalent(
                    text="memory and swap together decide how far the process comes",
                    metric="bytes_reached",
                    where={"scope": "group", "scenario": "a", "mapping": "private_noreserve"},
                    of={"swap": "file"},
                    to={"swap": "none"},
                    within=0.1,
                    timed=False,
                ),
                finding="with a quarter of the memory as swap the process wrote {of}, and "
                "{to} with memory alone",
                confirmed="their sum is what ends it",
                refuted="more than their sum is at work",
                undecided="whether their sum ends it is not shown",
            )
        ],
    ),
]
