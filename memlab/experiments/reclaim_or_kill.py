"""reclaim-or-kill: at the limit, reclaim, stall or death?

A process takes twice the memory that its memory cgroup may have. Page cache can be dropped or
written back, anonymous memory and tmpfs need swap, and locked memory can go nowhere.
"""

import errno

from memlab.experiment import *
from memlab.experiments._file_io import FILE_STATES, MIB, ON_DISK
from memlab.experiments._reclaim import (
    ONLY_SPARSE,
    OUTSIDE_KILLED,
    dirty_settings,
    mglru,
    reclaim_settings,
    swap,
    zswap_settings,
)

BUDGET = 256 * MIB
SWAP_BYTES = 128 * MIB
LIMIT = 48 * MIB
TAKEN = 96 * MIB

V2 = "admin-guide/cgroup-v2.rst"
V1 = "cgroup-v1/memory.rst"
COREOS = "fedora-coreos-tracker#2094"
NOT_REDUCED = f"{V2}: where usage 'can't be reduced, the OOM killer is invoked in the cgroup'"
RECLAIMED = f"{V1}: 'we first try to reclaim memory from the cgroup'"
HIGH = f"{V2}, memory.high: 'Going over the high limit never invokes the OOM killer'"
OOM_GROUP = f"{V2}, memory.oom.group: all tasks of the group 'are killed together or not at all'"
LOCKED = "mlock(2): locked pages stay in RAM, so swap does not help"
DIRTY_LIMIT = 8 * MIB

DONE, KILLED, REFUSED, STALLED = "survives", "OOM-killed", "refused", "stalls"
GROUP_KILLED, PSI_KILLED = "killed with its group", "killed by PSI"


def word(raw: Raw, at: At) -> str:
    if raw["refused_errno"]:
        return f"{REFUSED}: {errno.errorcode.get(raw['refused_errno'], '?')}"
    if raw["killed_by_probe"] and raw["killed"]:
        return PSI_KILLED if at["killer"] == "psi" else STALLED
    if raw["killed"]:
        return GROUP_KILLED if raw["bystander_killed"] else KILLED
    return DONE if raw["done_bytes"] == at["file_size"] else STALLED


# As `word` has it: who was refused memory was not killed for it.
NOT_REFUSED = F.refused_errno.one_of(0)
TOOK_ALL = (F.done_bytes - F.at.file_size).one_of(0)
SURVIVED = when(NOT_REFUSED & ~F.killed & TOOK_ALL, 1, 0)
OOM_KILLED = when(NOT_REFUSED & F.killed & ~F.killed_by_probe, 1, 0)


def needs(at: At) -> list[str]:
    if at["bound"] == "soft":
        return ["memory cgroup v1"]
    return ["memory cgroup v2"] if at["bound"] == "high" or at["killer"] != "process" else []


def pages(field: str) -> Expression:
    return F[field].optional * F.page_bytes  # zswap: of newer samples


def ends(id: str, text: str, metric: str, equals: int, published: str, **where: Level) -> Count:
    return Count(
        id=id,
        text=text,
        metric=metric,
        where=where,
        equals=equals,
        published=published,
    )


KINDS = {
    "anonymous": "anonymous memory",
    "locked": "locked memory",
    "tmpfs": "a file on tmpfs",
    "clean_file": "a file that is read",
    "mapped_file": "a mapped file that is read",
    "dirty_file": "a file that is written",
}


def _claims() -> list[Claim]:
    claims: list[Claim] = []
    for kind, message in KINDS.items():
        if kind.endswith("_file"):
            claims += [
                ends(
                    f"{kind.replace('_', '-')}-survives",
                    f"of {message} twice the limit is taken: the page cache is reclaimed",
                    "survived",
                    1,
                    RECLAIMED,
                    memory=kind,
                    swap="none",
                )
            ]
            continue
        claims += [
            ends(
                f"{kind}-killed",
                f"without swap, {message} of twice the limit ends with the OOM killer",
                "killed",
                1,
                NOT_REDUCED,
                memory=kind,
                swap="none",
            )
        ]
        for area in ("file", "zram", "zswap"):
            locked = kind == "locked"
            end = "still ends with the OOM killer" if locked else "is taken"
            claims += [
                ends(
                    f"{kind}-{area}",
                    f"with swap ({area}), {message} of twice the limit {end}",
                    "killed" if locked else "survived",
                    1,
                    LOCKED if locked else RECLAIMED,
                    memory=kind,
                    swap=area,
                )
            ]
    return [
        *claims,
        ends(
            "dirty-file-killed",
            "without memory.high, a process that writes files of more than the limit is killed",
            "killed",
            1,
            f"{COREOS}: 'Containers with file-heavy workloads OOM instantly without memory.high "
            "set'",
            memory="dirty_file",
            swap="none",
        ),
        ends(
            "high-kills-none",
            "with memory.high below the limit, anonymous memory of twice the limit stalls and is "
            "not killed",
            "killed",
            0,
            HIGH,
            memory="anonymous",
            swap="none",
            bound="high",
        ),
        ends(
            "high-dirty-file-survives",
            "with memory.high below the limit, a file of twice the limit is written",
            "survived",
            1,
            f"{V2}, memory.high: 'throttled and put under heavy reclaim pressure'",
            memory="dirty_file",
            swap="none",
            bound="high",
        ),
        ends(
            "process-killed-alone",
            "without memory.oom.group, a small process of the same group survives the kill",
            "bystander_killed",
            0,
            "mm/oom_kill.c, oom_badness: the largest is killed",
            memory="anonymous",
            swap="none",
        ),
        ends(
            "group-killed",
            "with memory.oom.group, a small process of the same group is killed too",
            "bystander_killed",
            1,
            OOM_GROUP,
            memory="anonymous",
            swap="none",
            killer="group",
        ),
        Within(
            id="anonymous-half-second",
            text="without swap, anonymous memory of twice the limit ends within half a second",
            metric="time",
            where={"memory": "anonymous", "swap": "none"},
            below=0.5,
            published=f"{COREOS}: killed 'within 0.5 seconds'",
        ),
    ]


def predicts(metric: str, equals: int, **where: Level) -> Count:
    return Count(
        metric=metric, where={"memory": "anonymous", "swap": "none"} | where, equals=equals
    )


EXPERIMENT = Experiment(
    name="reclaim-or-kill",
    question="At a memory cgroup's limit: is memory reclaimed, does the process stall, or is it "
    "killed?",
    so=[
        Decision(
            "anonymous-killed",
            "give a group swap if its anonymous memory may pass the limit: without swap it is "
            "killed",
            "anonymous memory over the limit is not killed without swap here",
            if_holds=(1, 1),
            if_fails=(0, 0),
        ),
        Decision(
            "clean-file-survives",
            "do not fear page cache in a container's usage: it is reclaimed, not killed for",
            "page cache gets processes killed here: limit it",
            if_holds=(1, 1),
            if_fails=(0, 0.5),
        ),
        Decision(
            "group-killed",
            "set memory.oom.group if a program cannot go on without one of its processes: all are "
            "killed, and a restart is clean",
            "memory.oom.group left a process of the group alive here",
            if_holds=(1, 1),
            if_fails=(0, 0),
        ),
    ],
    probe="reclaim_or_kill",
    file=File(),
    factors=[
        Factor(
            "memory",
            ENUM,
            quick=list(KINDS),
            help="memory; anonymous, locked (mlock), of a file on tmpfs, or page cache: of a file "
            "that is read, mapped and read, or written; populated: anonymous, by "
            "MADV_POPULATE_WRITE",
            level_labels={
                "anonymous": "anonymous memory",
                "locked": "locked memory",
                "tmpfs": "file on tmpfs",
                "clean_file": "file, read",
                "mapped_file": "file, mapped",
                "dirty_file": "file, written",
                "populated": "populated memory",
            },
        ),
        swap(
            "none",
            "file",
            "zram",
            "zswap",
            quick=["none", "file", "zram", "zswap"],
            help="swap; of the cgroup, 128 MiB. zswap: a swap file behind zswap, which is off with "
            "a file",
        ),
        Factor(
            "bound",
            ENUM,
            quick=["none"],
            plain="none",
            help="bound below the limit; at 3/4 of it. high: memory.high (v2); soft: "
            "memory.soft_limit_in_bytes (v1)",
            level_labels={"none": "no bound", "high": "memory.high", "soft": "soft limit"},
        ),
        Factor("bound_at", BYTES, quick=[LIMIT * 3 // 4], help="size of the bound"),
        Factor(
            "killer",
            ENUM,
            quick=["process"],
            plain="process",
            help="killer; process: the kernel kills one process; group: memory.oom.group (v2); "
            "psi: a killer in user space, once the group has stalled for 0.1 s (v2)",
            level_labels={
                "process": "OOM killer",
                "group": "memory.oom.group",
                "psi": "killer by PSI",
            },
        ),
        Factor("limit", BYTES, quick=[LIMIT], help="memory limit; of the cgroup", host=True),
        Factor(
            "file_size", BYTES, quick=[TAKEN], least=4096, help="memory taken; also the file's size"
        ),
        ON_DISK,
        Factor(
            "file_state", FILE_STATES, quick=["sparse"], help="state of the file; sparse: empty"
        ),
        mglru(plain="host"),
        Factor(
            "dirty_limit",
            BYTES,
            quick=[0],
            plain=0,
            help="dirty limit; vm.dirty_bytes of the whole host, and half of it in "
            "vm.dirty_background_bytes, for the trial's time. 0: the host's own",
            most=BUDGET,
            host=True,
        ),
        Factor(
            "contents",
            ENUM,
            quick=["random"],
            plain="random",
            help="contents; of what is written: random bytes, or 64 of them repeated, which zram "
            "and zswap compress",
            level_labels={"random": "random bytes", "repeated": "repeated bytes"},
        ),
        Factor(
            "interval", SECONDS, quick=[0.0], plain=0.0, help="pause; after each 64 KiB, 0: none"
        ),
        Factor("slice", SECONDS, quick=[10.0], help="time to take the memory; at most"),
    ],
    excludes=[
        ONLY_SPARSE,
        Exclude(
            lambda at: not 8 * MIB <= int(at["limit"]) <= BUDGET // 2,
            "the limit is from 8 MiB to half of the budget of 256 MiB",
        ),
        Exclude(
            lambda at: int(at["file_size"]) > int(at["limit"]) + SWAP_BYTES,
            "what is taken must fit into the limit and the 128 MiB of swap",
        ),
    ],
    host=Host(
        containment=Containment(
            limit=lambda _: BUDGET,
            swap=lambda at: "file" if at["swap"] == "zswap" else str(at["swap"]),
            swap_bytes=SWAP_BYTES,
            members=lambda _: 1,
            member_limit=lambda at: int(at["limit"]),
            pass_group=True,
            fresh=True,
        ),
        settings=lambda at: reclaim_settings(at) | zswap_settings(at) | dirty_settings(at),
        swap_counts=True,
        needs=needs,
        locks=lambda at: int(at["file_size"]) if at["memory"] == "locked" else 0,
    ),
    controls=[
        control(
            "slow",
            "The memory is taken slowly, at 64 MiB per second at most: is it the rate that kills?",
            {"interval": [1e-3], "memory": ["anonymous", "dirty_file"], "swap": "none"},
            Explanation(
                predicts("killed", 1, interval=1e-3),
                "taken slowly, anonymous memory ends with {value} kills",
                confirmed="the limit kills at any rate of allocation",
                refuted="a slower process is not killed",
            ),
        ),
        control(
            "soft",
            "v1's soft limit below the limit.",
            {"bound": ["soft"], "memory": ["anonymous"], "swap": "none"},
            Explanation(
                predicts("killed", 1, bound="soft"),
                "with a soft limit below the limit there are {value} kills",
                confirmed="a soft limit saves nobody while the machine has memory",
                refuted="a soft limit saves the process",
            ),
        ),
        control(
            "high",
            "memory.high below the limit, which throttles.",
            {"bound": ["high"], "memory": ["anonymous", "dirty_file"], "swap": "none"},
            Explanation(
                predicts("killed", 0, bound="high"),
                "with memory.high below the limit there are {value} kills in the time given",
                confirmed="memory.high stalls a process that cannot be reclaimed and does not "
                "kill it",
                refuted="the limit is reached through memory.high all the same",
            ),
        ),
        control(
            "group-killed",
            "memory.oom.group: the kernel kills a whole group.",
            {"killer": ["group"], "memory": ["anonymous"], "swap": "none"},
            Explanation(
                predicts("bystander_killed", 1, killer="group"),
                "with memory.oom.group {value} bystanders are killed",
                confirmed="no process of the group is left",
                refuted="a process of the group is left",
            ),
        ),
        control(
            "mglru",
            "The other of the kernel's two ways to choose what is reclaimed.",
            {"mglru": ["on", "off"], "memory": ["anonymous", "clean_file"], "swap": "none"},
            *(
                Explanation(
                    predicts("killed", 1, mglru=level),
                    f"{phrase} MGLRU anonymous memory ends with {{value}} kills",
                    confirmed=f"the limit kills {phrase} MGLRU",
                    refuted=f"the limit does not kill {phrase} MGLRU",
                )
                for level, phrase in (("on", "with"), ("off", "without"))
            ),
        ),
        control(
            "dirty",
            "Dirty pages are bounded below the limit; the host's own bound is above it.",
            {"dirty_limit": DIRTY_LIMIT, "memory": ["dirty_file"], "swap": "none"},
            Explanation(
                Count(
                    metric="killed",
                    where={"memory": "dirty_file", "dirty_limit": DIRTY_LIMIT},
                    equals=0,
                ),
                "with 8 MiB of dirty pages at most, a file that is written ends with {value} kills",
                confirmed="dirty limits do not decide whether the process is killed",
                refuted="a bound on dirty pages kills",
            ),
        ),
        control(
            "zswap",
            "What is swapped can be compressed.",
            {"contents": "repeated", "memory": ["anonymous"], "swap": ["zswap", "file"]},
            Explanation(
                Within(
                    metric="zswapped",
                    where={"memory": "anonymous", "swap": "zswap"},
                    above=TAKEN - LIMIT,
                    timed=False,
                ),
                "{value} of compressible memory go to zswap",
                confirmed="zswap keeps all that does not fit",
                refuted="what does not fit goes to the file",
            ),
        ),
        control(
            "populated",
            "The memory is populated by the kernel, which marks each page as accessed.",
            {"memory": ["anonymous", "populated"], "swap": "file"},
            Explanation(
                Within(
                    metric="activated",
                    where={"memory": "populated", "swap": "file"},
                    above=LIMIT * 3 // 4,
                    timed=False,
                ),
                "{value} of populated memory are put on the active list",
                confirmed="reclaim passes over populated pages before it takes one, so that the "
                "limit may kill although there is swap",
                refuted="populated pages are reclaimed as stored ones are",
            ),
            Explanation(
                Within(
                    metric="activated",
                    where={"memory": "anonymous", "swap": "file"},
                    below=LIMIT // 4,
                    timed=False,
                ),
                "{value} of stored memory are put on the active list",
                confirmed="a page that was stored to once is reclaimed",
                refuted="pages that were stored to are passed over too",
            ),
        ),
        control(
            "psi",
            "A killer in user space that goes by the group's pressure.",
            {"killer": ["psi"], "memory": ["anonymous"], "swap": ["none", "file"]},
        ),
    ],
    metrics=[
        # First, for the stop rule: what counts here is exact, and the least blocks are enough.
        Metric("requested", "B", "memory asked for", of=F.at.file_size),
        Metric(
            "survived",
            "count",
            "processes that took all",
            of=SURVIVED,
            lower_is_better=False,
        ),
        Metric(
            "killed",
            "count",
            "processes killed; by the OOM killer",
            of=OOM_KILLED,
        ),
        Metric(
            "bystander_killed",
            "count",
            "bystanders killed; small processes of the same group",
            of=F.bystander_killed,
        ),
        Metric(
            "bytes_reached",
            "B",
            "memory taken; before the end",
            of=F.done_bytes,
            lower_is_better=False,
        ),
        Metric("time", "s", "time to the end", of=F.window.elapsed_ns),
        Metric("longest", "s", "longest step; of 64 KiB", of=F.longest_ns),
        Metric(
            "limit_hits",
            "count",
            "limit hits; charges that met the limit. v1 counts none where the group may not swap",
            of=F.limit_hit_count,
        ),
        Metric(
            "stalled",
            "s",
            "memory pressure; time that some process stalled, of the group (v2) or the host (v1)",
            of=F.stalled_ns,
        ),
        Metric(
            "reclaimed_anonymous",
            "B",
            "anonymous memory reclaimed; on the whole host",
            of=pages("reclaimed_anonymous_pages"),
        ),
        Metric(
            "reclaimed_file",
            "B",
            "page cache reclaimed; on the whole host",
            of=pages("reclaimed_file_pages"),
        ),
        Metric("swapped_out", "B", "swapped out; on the whole host", of=pages("swapped_out_pages")),
        Metric(
            "activated",
            "B",
            "put on the active list; on the whole host, which reclaim does not take next",
            of=pages("activated_pages"),
        ),
        Metric("zswapped", "B", "kept by zswap; on the whole host", of=pages("zswapped_pages")),
        OUTSIDE_KILLED,
    ],
    cost=Cost(
        memory=lambda _: BUDGET,
        time=lambda at: (
            0.15
            + int(at["file_size"]) / (300 * MIB)
            + float(at["interval"]) * int(at["file_size"]) / (64 * 2**10)
            + (float(at["slice"]) if at["bound"] == "high" else 0)
        ),
        limit_s=60.0,
    ),
    shrinks="file_size",
    tiny={"limit": [8 * MIB], "file_size": [16 * MIB], "bound_at": [6 * MIB], "swap": ["none"]},
    claims=_claims(),
    budget_s={"quick": 300.0, "paper": 600.0, "full": 1800.0},
    figure=Matrix(
        "time",
        over="swap",
        by=("memory",),
        panels=("bound", "killer", "interval", "mglru", "dirty_limit", "contents"),
        claims=["anonymous-killed", "dirty-file-killed"],
        word=word,
        calm=lambda phrase: phrase == DONE,
    ),
    more_figures={"checks": Checks("killed", over="memory", by=("swap",))},
)
