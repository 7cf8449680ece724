"""thread-create's controls: what its collapse is due to, and what not."""

from memlab.experiment import Control, Explanation, Ratio
from memlab.experiments._threads import KIB

OFF, FUTURE = {"lock": "off"}, {"lock": "future"}

CONTROLS = [
    Control(
        "small-stacks",
        "As many processes, and many more threads, with stacks of 64 KiB: locking has little "
        "to populate. If the rate holds, neither the processes nor the threads are what "
        "costs.",
        levels={
            "processes": [16],
            "live_threads": [64],
            "stack": [64 * KIB],
            "lock": ["off", "future"],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="with stacks of 64 KiB a lock takes less than half of the rate",
                    metric="threads_per_s",
                    where={"processes": 16, "live_threads": 64, "stack": 64 * KIB},
                    of=FUTURE,
                    to=OFF,
                    above=0.5,
                ),
                finding="16 processes with 64 live threads each, of 64 KiB stacks, create {of} "
                "locked and {to} not",
                confirmed="without large stacks there is no collapse, whatever the number of "
                "processes and threads",
                refuted="the rate falls without large stacks, too",
                undecided="whether small stacks keep the rate is open",
            )
        ],
    ),
    Control(
        "onfault",
        "MCL_ONFAULT locks a page when it is touched and populates none. If the rate holds, "
        "it is the populating that costs, not the lock.",
        levels={
            "processes": [16],
            "live_threads": [5],
            "lock": ["off", "future_onfault"],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="a lock that does not populate takes less than half of the rate",
                    metric="threads_per_s",
                    where={"processes": 16, "live_threads": 5},
                    of={"lock": "future_onfault"},
                    to=OFF,
                    above=0.5,
                ),
                confirmed="with MCL_ONFAULT, which locks and does not populate, 16 processes "
                "with 5 live threads create {of}, and {to} without a lock: populating "
                "the stacks is what costs, not locking them",
                refuted="even with MCL_ONFAULT, which does not populate, 16 processes with 5 "
                "live threads create {of} instead of {to}: locking costs by itself",
                undecided="with MCL_ONFAULT 16 processes with 5 live threads create {of}, and "
                "{to} without a lock: populating and locking are not told apart",
            )
        ],
    ),
    Control(
        "live-stacks",
        "One process whose live stacks are far beyond what glibc keeps. If its rate falls as "
        "that of 16 processes does, it is the live stacks of a process that count.",
        levels={"processes": [1], "live_threads": [16], "lock": ["off", "future"]},
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="one process with 16 live threads falls below a tenth",
                    metric="threads_per_s",
                    where={"processes": 1, "live_threads": 16},
                    of=FUTURE,
                    to=OFF,
                    below=0.1,
                ),
                finding="one process alone, with 16 live threads, creates {of} locked and {to} not",
                confirmed="live stacks beyond glibc's cache collapse the rate without any other "
                "process",
                refuted="live stacks of one process do not collapse the rate",
                undecided="whether live stacks alone collapse the rate is open",
            )
        ],
    ),
    Control(
        "no-cache",
        "glibc keeps no stack of a joined thread, so that each thread's is new. If the rate "
        "falls with one live thread, the cache is what kept it.",
        levels={
            "processes": [1],
            "live_threads": [1],
            "stack_cache": [0],
            "lock": ["off", "future"],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="without glibc's cache one live thread falls below a tenth",
                    metric="threads_per_s",
                    where={"processes": 1, "live_threads": 1, "stack_cache": 0},
                    of=FUTURE,
                    to=OFF,
                    below=0.1,
                ),
                finding="with glibc's stack cache off, one process with one live thread creates "
                "{of} locked and {to} not",
                confirmed="the cache of 40 MiB is what hides the cost of a new locked stack",
                refuted="the cache is not what keeps the rate",
                undecided="what the cache hides is not shown",
            )
        ],
    ),
    Control(
        "bystander",
        "One more thread in the process maps, touches and unmaps a page all the while. The "
        "kernel populates a new locked stack inside mprotect, which holds mmap_lock: if the "
        "bystander is held up, the cost is not the creating thread's alone.",
        levels={
            "processes": [1],
            "live_threads": [5],
            "bystander": [True],
            "lock": ["off", "future"],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="a bystander's page takes over twice as long while stacks are populated",
                    metric="bystander_mean",
                    where={"processes": 1, "live_threads": 5, "bystander": True},
                    of=FUTURE,
                    to=OFF,
                    above=2.0,
                ),
                finding="meanwhile a page of another thread of the process takes {of} on average "
                "with MCL_FUTURE and {to} without",
                confirmed="populating holds up every thread of the process that maps or faults",
                refuted="populating does not double what other threads pay",
                undecided="whether populating holds up other threads is open",
            )
        ],
    ),
]
