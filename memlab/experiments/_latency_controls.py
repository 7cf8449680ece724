"""locked-latency's controls: whether it is the lock that helps, and what makes the tail."""

from memlab.experiment import Control, Explanation, Within
from memlab.experiment.attribution import traced

CONTROLS = [
    Control(
        "onfault",
        "Locked by MLOCK_ONFAULT, which brings nothing in; the fill did. If it takes no "
        "faults either, it is the lock that helps, and not the call that populates.",
        levels={"lock": ["onfault"]},
        explanations=[
            Explanation(
                predicts=Within(
                    text="memory locked on fault does not come back from swap",
                    metric="major_faults_per_touch",
                    where={"lock": "onfault"},
                    below=0.01,
                    timed=False,
                ),
                finding="locked on fault and filled, it takes {value}",
                confirmed="the lock on the pages is what helps, not how they came to be locked",
                refuted="more than the lock on the pages is at work",
                undecided="whether the call matters is not shown",
            )
        ],
    ),
    Control(
        "unlocked",
        "Locked, filled, and unlocked again before the neighbour came. If it comes back from "
        "swap like memory that never was locked, the lock must hold under the pressure. Over "
        "8 cycles: mlock leaves pages on the active list, which now and then outlasts fewer.",
        levels={"lock": ["unlocked"], "cycles": [8]},
        explanations=[
            Explanation(
                predicts=Within(
                    text="memory that was locked once comes back from swap all the same",
                    metric="major_faults_per_touch",
                    where={"lock": "unlocked", "cycles": 8},
                    above=0.5,
                    timed=False,
                ),
                finding="unlocked again before the neighbour came, it takes {value}",
                confirmed="a lock that is gone saves nothing",
                refuted="what mlock brought in outlasts this pressure without the lock",
                undecided="whether a lock that is gone saves anything is not shown",
            )
        ],
    ),
    Control(
        "kept_warm",
        "Never locked, but read all the time while the neighbour works. If it takes no "
        "faults, idleness is what loses memory, and a lock is one cure of two.",
        levels={"lock": ["kept_warm"]},
        presets=("full",),
        explanations=[
            Explanation(
                predicts=Within(
                    text="memory that is read all the time does not come back from swap",
                    metric="major_faults_per_touch",
                    where={"lock": "kept_warm"},
                    below=0.01,
                    timed=False,
                ),
                finding="read all the time, without a lock, it takes {value}",
                confirmed="what is in use stays, and the lock is for what lies idle",
                refuted="use alone does not keep memory from being pushed out",
                undecided="whether use alone keeps memory in is not shown",
            )
        ],
    ),
    traced(
        {"lock": ["off"], "cycles": [4]},
        explanations=[
            Explanation(
                predicts=Within(
                    text="the slowest touches of memory that is not locked met a major fault",
                    metric="p999_met_major_fault",
                    where={"lock": "off", "trace": True},
                    above=0.5,
                    timed=False,
                ),
                finding="of the touches over p99.9 a share of {value} met a major fault",
                confirmed="the tail is made of what comes back from swap",
                refuted="something else makes the tail",
                undecided="what makes the tail is not shown",
            )
        ],
    ),
]
