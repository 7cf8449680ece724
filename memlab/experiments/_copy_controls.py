"""What separates memcpy's explanations: the lock, the page faults it takes early, the memory."""

from memlab.experiment import Control, Explanation, Ratio
from memlab.experiments._copy_points import (
    COPIED,
    FIRST,
    FROM_MALLOC,
    KIB,
    KINDS,
    LARGE,
    STEADY,
)

CONTROLS = (
    Control(
        "prefaulted",
        "A destination that is not locked, only touched or only populated. If the first copy "
        "is as fast as into a locked one, it is the page faults, not the lock. And what the "
        "lock itself costs, and whether later copies gain.",
        levels={"dst_state": ["populated"], "method": ["libc"], "size": [COPIED]},
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="the first copy into touched memory is as fast as into locked",
                    metric="first_copy",
                    where=FIRST,
                    of={"dst_state": "touched"},
                    to={"dst_state": "mlocked"},
                    above=0.8,
                    below=1.25,
                ),
                confirmed="into a destination that was only touched the first copy takes {of}, "
                "into a locked one {to}: it is the page faults that are saved, not the lock "
                "that helps",
                refuted="into a destination that was only touched the first copy takes {of}, "
                "into a locked one {to}: the lock does more than take the faults early",
                undecided="into a destination that was only touched the first copy takes {of}, "
                "into a locked one {to}: whether the two differ is not shown",
            ),
            Explanation(
                predicts=Ratio(
                    text="the first copy into populated memory is as fast as into locked",
                    metric="first_copy",
                    where=FIRST,
                    of={"dst_state": "populated"},
                    to={"dst_state": "mlocked"},
                    above=0.8,
                    below=1.25,
                ),
                confirmed="populated by MADV_POPULATE_WRITE and not locked it takes {of}: the "
                "same holds of faults that a call takes",
                refuted="populated by MADV_POPULATE_WRITE and not locked it takes {of} against "
                "{to}: who takes the faults matters",
                undecided="populated by MADV_POPULATE_WRITE and not locked it takes {of} "
                "against {to}: whether the two differ is not shown",
            ),
            Explanation(
                predicts=Ratio(
                    text="preparing and the first copy together gain less than a half",
                    metric="prepare_and_first",
                    where=FIRST,
                    of={"dst_state": "cold"},
                    to={"dst_state": "mlocked"},
                    below=1.5,
                ),
                confirmed="the lock's own time included, the copy takes {to}, and {of} without "
                "a lock: most of the gain is paid for before",
                refuted="the lock's own time included, the copy takes {to}, and {of} without a "
                "lock: the gain is real for a program that copies once",
                undecided="the lock's own time included, the copy takes {to}, and {of} without "
                "a lock: how much is gained is not shown",
            ),
            Explanation(
                predicts=Ratio(
                    text="later copies are as fast, locked or not, within 10 %",
                    metric="steady_copy",
                    where=FIRST,
                    of={"dst_state": "mlocked"},
                    to={"dst_state": "cold"},
                    above=0.9,
                    below=1.1,
                ),
                confirmed="a later copy takes {of} locked and {to} not locked: the gain is the "
                "first copy's alone",
                refuted="a later copy takes {of} locked and {to} not locked: the lock matters "
                "beyond the first copy",
                undecided="a later copy takes {of} locked and {to} not locked: whether they "
                "differ is not shown",
            ),
        ],
    ),
    Control(
        "onfault",
        "Locked by MLOCK_ONFAULT, which brings nothing in: the lock without the page faults.",
        levels={"dst_state": ["mlock_onfault"], "method": ["libc"], "size": [COPIED]},
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="locked on fault, the first copy is no faster than into cold memory",
                    metric="first_copy",
                    where=FIRST,
                    of={"dst_state": "mlock_onfault"},
                    to={"dst_state": "cold"},
                    above=0.8,
                ),
                confirmed="locked by MLOCK_ONFAULT, which brings nothing in, it takes {of}, "
                "and into cold memory {to}: a lock alone gains nothing",
                refuted="locked by MLOCK_ONFAULT, which brings nothing in, it takes {of}, and "
                "into cold memory {to}: a lock alone gains something",
                undecided="locked by MLOCK_ONFAULT, which brings nothing in, it takes {of}, "
                "and into cold memory {to}: whether a lock alone gains is not shown",
            ),
        ],
    ),
    Control(
        "unlocked",
        "Locked and unlocked again before the copy: the page faults taken, without the lock.",
        levels={"dst_state": ["unlocked"], "method": ["libc"], "size": [COPIED]},
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="unlocked again, the first copy is as fast as into locked memory",
                    metric="first_copy",
                    where=FIRST,
                    of={"dst_state": "unlocked"},
                    to={"dst_state": "mlocked"},
                    above=0.8,
                    below=1.25,
                ),
                confirmed="locked and unlocked again before the copy it takes {of} against "
                "{to}: the gain outlives the lock",
                refuted="locked and unlocked again before the copy it takes {of} against {to}: "
                "the gain needs the lock",
                undecided="locked and unlocked again before the copy it takes {of} against "
                "{to}: whether the gain needs the lock is not shown",
            ),
        ],
    ),
    Control(
        "mcblock",
        "What MCBLOCK of mbw 1.2.2 does: its source pointer stays at the first block, which the "
        "caches then hold. Not the speed of copying memory.",
        levels={"method": ["block_again"], "dst_state": ["cold"], "size": [LARGE]},
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="reading one block again and again is over 1.1 times as fast",
                    metric="steady_bandwidth",
                    where=STEADY,
                    of={"method": "block_again"},
                    to={"method": "block"},
                    above=1.1,
                ),
                confirmed="as mbw 1.2.2 does it, with the source's first block for all, MCBLOCK "
                "reaches {of}; a copy by blocks of the whole source reaches {to}: the printed "
                "figure may be that of a source in the caches",
                refuted="as mbw 1.2.2 does it, with the source's first block for all, MCBLOCK "
                "reaches {of}, and a copy by blocks of the whole source {to}: here the two are "
                "alike",
                undecided="as mbw 1.2.2 does it, with the source's first block for all, MCBLOCK "
                "reaches {of}, and a copy by blocks of the whole source {to}: whether they differ "
                "is not shown",
            ),
        ],
    ),
    Control(
        "threads",
        "Two threads, half of the copy each. Where source and destination lie in caches of the "
        "CPUs' own, two CPUs copy twice as much as one; what they cannot double is shared.",
        levels={
            "threads": [2],
            "dst_state": ["cold"],
            "method": ["libc"],
            "size": [256 * KIB, LARGE],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="within the caches two threads copy over 1.5 times as much as one",
                    metric="steady_bandwidth",
                    where={"size": 256 * KIB, "dst_state": "cold", "method": "libc", **FROM_MALLOC},
                    of={"threads": 2},
                    to={"threads": 1},
                    above=1.5,
                ),
                confirmed="within the caches two threads copy at {of} and one at {to}: the CPUs "
                "add up, and what falls short of that further out is the memory's limit",
                refuted="within the caches two threads copy at {of} and one at {to}: the CPUs "
                "share more than the memory",
                undecided="within the caches two threads copy at {of} and one at {to}: whether "
                "the CPUs add up is not shown",
            ),
        ],
    ),
    Control(
        "content",
        "A source of zeros, stored there and copied as anything else. What it is faster by is the "
        "machine's way with zeros, and an error of whoever fills a benchmark's source with them.",
        levels={
            "content": ["zeros"],
            "dst_state": ["cold"],
            "method": ["libc"],
            "size": [256 * KIB, LARGE],
        },
        explanations=[
            Explanation(
                predicts=Ratio(
                    text="zeros are copied over 1 % faster than anything else",
                    metric="steady_bandwidth",
                    where={**STEADY, "method": "libc"},
                    of={"content": "zeros"},
                    to={"content": "pattern"},
                    above=1.01,
                ),
                confirmed="a source of zeros is copied at {of}, and one of other bytes at {to}: "
                "what is copied matters",
                refuted="a source of zeros is copied at {of}, and one of other bytes at {to}: what "
                "is copied matters little",
                undecided="a source of zeros is copied at {of}, and one of other bytes at {to}: "
                "whether what is copied matters is not shown",
            ),
        ],
    ),
    Control(
        "kinds",
        "Destinations of every kind: whether what holds of malloc's memory holds of files, of "
        "memory that is made populated or locked, and of huge pages, which fault 512 times less.",
        levels={"dst": KINDS, "size": [COPIED, LARGE], "method": ["libc"]},
        presets=("full",),
    ),
    Control(
        "sources",
        "Sources of every kind, all of them written before: a copy reads them alike.",
        levels={"src": KINDS, "size": [COPIED], "method": ["libc"], "dst_state": ["touched"]},
        presets=("full",),
    ),
)
