"""memcg-accounting: which memory cgroup pays for a page, exactly.

What two groups are charged is read from memory.stat, which is exact. memory.usage_in_bytes
(memory.current) is not, since a CPU takes 64 pages from it at a time.
"""

import errno
from dataclasses import replace

from memlab.experiment import *

MIB = 2**20
MEMBER_LIMIT = 16 * MIB
LIMIT = 48 * MIB

A, B, T, C = "a", "b", "t", "c"  # T is a thread of A, C a child
FIRST, SECOND, SPARE, WHOLE = "first", "second", "spare", "whole"
_WHO = {A: "A", B: "B", T: "T, a thread of A", C: "C, a child of A"}
_GROUP = {
    FIRST: "group 0",
    SECOND: "group 1",
    SPARE: "a group beside 0 and 1",
    WHOLE: "the parent group",
}
_PAGES = ("who", "first", "count")

# Steps, as probes/memcg_accounting/memcg_script.h plays them.
mkdir = Call("mkdir", "mkdir {group}", ("group",))
rmdir = Call("rmdir", "rmdir {group}", ("group",))
start = Call("start", "{who} starts in {group}", ("who", "group"))
start_thread = Call("start_thread", "{who} starts T, a thread", ("who",))
fork = Call("fork", "{who} forks C, a child", ("who",))
enter = Call("enter", "{who} moves to {group}", ("who", "group"))
enter_thread = Call("enter_thread", "{who} moves to {group}, this thread alone", ("who", "group"))
store_shared = Call("store_shared", "{who} writes to shared pages {pages}", _PAGES)
store_own = Call("store_own", "{who} writes to private pages {pages}", _PAGES)
munmap_shared = Call("munmap_shared", "{who}: munmap(shared)", ("who",))
munmap_own = Call("munmap_own", "{who}: munmap(private)", ("who",))
remove_shared = Call("remove_shared", "{who}: madvise(shared pages {pages}, MADV_REMOVE)", _PAGES)
set_swappiness = Call(
    "set_swappiness", "write {count} to memory.swappiness of {group}", ("group", "count")
)
ask_move_charges = Call(
    "ask_move_charges", "write 1 to memory.move_charge_at_immigrate of {group}", ("group",)
)
page_out = Call("page_out", "{who}: madvise(private pages {pages}, MADV_PAGEOUT)", _PAGES)
set_low = Call("set_low", "write {count} pages to memory.low of {group}", ("group", "count"))
set_min = Call("set_min", "write {count} pages to memory.min of {group}", ("group", "count"))
reclaim = Call("reclaim", "write {count} pages to memory.reclaim of {group}", ("group", "count"))
end = Call("exit", "{who} ends", ("who",))
find_batch = Call(
    "find_batch",
    "{who} writes to private pages until the usage of {group} rises",
    ("who", "group"),
)
CALLS = {call.name: call for call in globals().values() if isinstance(call, Call)}

SHARED = "section 3.2, shared pages"
RELEASE = "section 3.2, release by the first"
THREADS = "section 3.2, threads in several groups"
MOVE = "section 3.2, a task that moves"
CHILD = "section 3.1, rule 5: a child begins in its parent's group and may be moved"
SWAPPINESS = "section 3.2, a swappiness of each group"
V1 = "cgroup-v1/memory.rst"
REMOVAL = "cgroup-v1/memory.rst, removing a cgroup"
MOVING = "cgroup-v1/memory.rst, move charges: -EINVAL"
BATCH = "mm/memcontrol.c, MEMCG_CHARGE_BATCH"
OWN = "memlab's own"
V2 = "cgroup-v2.rst"
LOW = f"{V2}, memory.low: not reclaimed unless unprotected groups have nothing reclaimable"
MIN = f"{V2}, memory.min: 'won't be reclaimed under any conditions'"
SWAP = f"{V2}, memory.swap.current"
DOMAIN = f"{V2}, threads: all threads of a process belong to one domain group"

PROTECTED = 4096  # pages, more than a member may have
A_AND_B = start(A, FIRST), start(B, SECOND)
BOTH_STORE = *A_AND_B, store_shared(A, 0, 23), store_shared(B, 0, 23)
ONE_OWN = *A_AND_B, store_own(A, 0, 211)
BOTH_OWN = *ONE_OWN, store_own(B, 0, 211)


def fewer(metric: str, than: int, source: str, sentence: str) -> Within:
    """A count that reclaim has lowered, by how much is the kernel's choice."""
    return Within(
        id=f"{metric}-fewer", text=sentence, metric=metric, below=than - 0.5, published=source,
        timed=False,
    )  # fmt: skip


# What only one version of cgroups has, and what needs swap.
OF_V1 = ("thread", "leader", "swappiness", "move_charges")
RECLAIMS = ("unprotected", "low_spares", "low_gives", "min_keeps")
OF_V2 = ("thread_alone", *RECLAIMS)


def needs(at: At) -> list[str]:
    versions = {**dict.fromkeys(OF_V1, "1"), **dict.fromkeys(OF_V2, "2")}
    version = versions.get(str(at["check"]))
    return [f"memory cgroup v{version}"] if version else []


def swap_of(at: At) -> str:
    """zram takes a page at once. A page on its way to a swap file cannot be reclaimed yet, so the
    kernel would pass over memory.low although other groups have memory."""
    return "zram" if at["check"] in RECLAIMS else "file" if at["check"] == "paged_out" else "none"


# fmt: off
CHECKS = [
    check("first_touch", [*A_AND_B, store_shared(A, 0, 23), store_shared(B, 0, 23)],
          reads("first_shared_pages", 23, SHARED, "the first to touch a shared page pays"),
          reads("second_shared_pages", 0, SHARED, "the second to touch it does not pay")),
    check("first_touch_each", [*A_AND_B, store_shared(A, 0, 11), store_shared(B, 0, 23)],
          reads("first_shared_pages", 11, SHARED,
                "of a shared mapping the first pays only for the pages that it touched"),
          reads("second_shared_pages", 12, SHARED,
                "the second pays for the pages that it touched first")),
    check("first_unmaps", [*BOTH_STORE, munmap_shared(A)],
          reads("second_shared_pages", 23, RELEASE,
                "the first unmaps shared pages: their charge moves to a group that maps them"),
          reads("first_shared_pages", 23, OWN,
                "the charge stays with a group that no longer maps the pages")),
    check("first_ends", [*BOTH_STORE, end(A)],
          reads("second_shared_pages", 23, RELEASE,
                "the first process ends: the charge moves to a group that maps the pages"),
          reads("first_shared_pages", 23, OWN,
                "the charge stays with a group that has no process left")),
    check("first_moves", [*BOTH_STORE, enter(A, SECOND)],
          reads("first_shared_pages", 23, MOVE,
                "the charge of a shared page stays when its first toucher moves")),
    check("dropped", [*BOTH_STORE, remove_shared(A, 0, 23), store_shared(B, 0, 23)],
          reads("first_shared_pages", 0, V1, "the charge ends when the page is freed"),
          reads("second_shared_pages", 23, V1,
                "the next to touch the address of a freed page pays for the new page")),
    check("group_removed", [mkdir(SPARE), start(A, SPARE), start(B, SECOND),
                            store_shared(A, 0, 23), store_shared(B, 0, 23), end(A), rmdir(SPARE)],
          reads("second_shared_pages", 23, RELEASE,
                "the first group is removed: its charge moves to the one that maps the pages"),
          reads("call_errno", 0, REMOVAL, "a group that still has charges can be removed"),
          reads("whole_shared_pages", 23, REMOVAL,
                "the charges of a removed group still count above it"),
          reads("directly_shared_pages", 0, OWN,
                "they are not its parent's own: the removed group lives on until they are freed")),
    check("thread", [start(A, FIRST), start_thread(A), enter_thread(T, SECOND),
                     store_own(T, 0, 23)],
          reads("first_own_pages", 23, THREADS,
                "what a thread touches is charged to its leader's group"),
          reads("second_own_pages", 0, THREADS,
                "what a thread touches is not charged to the group that the thread is in")),
    check("leader", [start(A, FIRST), start_thread(A), enter_thread(A, SECOND),
                     store_own(T, 0, 23)],
          reads("second_own_pages", 23, THREADS,
                "where the leader alone has moved, its new group pays for the threads"),
          reads("first_own_pages", 0, THREADS,
                "where the leader alone has moved, the threads' group does not pay")),
    check("child", [start(A, FIRST), fork(A), store_own(C, 0, 23)],
          reads("first_own_pages", 23, CHILD, "a child begins in its parent's group, which pays")),
    check("child_moved", [start(A, FIRST), fork(A), enter(C, SECOND), store_own(C, 0, 23)],
          reads("second_own_pages", 23, CHILD, "a child may be moved: its new group pays"),
          reads("first_own_pages", 0, CHILD, "its parent's group does not pay for a moved child")),
    check("swappiness", [start(A, FIRST), set_swappiness(FIRST, 7), set_swappiness(SECOND, 11)],
          reads("first_swappiness", 7, SWAPPINESS, "a group has a swappiness of its own"),
          reads("second_swappiness", 11, SWAPPINESS, "the group beside it has another")),
    check("moved", [start(A, FIRST), store_own(A, 0, 23), enter(A, SECOND)],
          reads("first_own_pages", 23, MOVE, "what was charged stays with the old group"),
          reads("second_own_pages", 0, MOVE, "the new group takes over no charge")),
    check("moved_touches", [start(A, FIRST), store_own(A, 0, 23), enter(A, SECOND),
                            store_own(A, 23, 7)],
          reads("second_own_pages", 7, MOVE,
                "pages touched after the move are charged to the new group"),
          reads("first_own_pages", 23, MOVE,
                "pages touched before the move stay charged to the old group")),
    check("moved_frees", [start(A, FIRST), store_own(A, 0, 23), enter(A, SECOND),
                          store_own(A, 23, 7), munmap_own(A)],
          reads("first_own_pages", 0, MOVE,
                "pages touched before the move are freed off the old group"),
          reads("second_own_pages", 0, MOVE,
                "pages touched after the move are freed off the new group")),
    check("move_charges", [start(A, FIRST), store_own(A, 0, 23), ask_move_charges(SECOND)],
          reads("call_errno", errno.EINVAL, MOVING,
                "charges can no longer be asked to move along")),
    check("parent", [start(A, FIRST), store_own(A, 0, 23)],
          reads("whole_own_pages", 23, V1, "what a group is charged is counted by its parent too")),
    check("batch", [start(A, FIRST), find_batch(A, FIRST)],
          reads("batch_pages", 64, BATCH, "usage does not rise by a page but by 64 at a time")),
    check("paged_out", [start(A, FIRST), store_own(A, 0, 23), page_out(A, 0, 23)],
          reads("first_own_pages", 0, OWN,
                "a page that was paged out no longer counts as anonymous memory"),
          reads("first_swapped_pages", 23, SWAP,
                "a page that was paged out is charged as swap to the same group")),
    check("thread_alone", [start(A, FIRST), start_thread(A), enter_thread(T, SECOND)],
          reads("call_errno", errno.EOPNOTSUPP, DOMAIN,
                "a thread cannot leave the group of its process")),
    check("unprotected", [*BOTH_OWN, reclaim(WHOLE, 101)],
          fewer("first_own_pages", 211, OWN,
                "reclaim in the parent takes from a group without memory.low")),
    check("low_spares", [*BOTH_OWN, set_low(FIRST, PROTECTED), reclaim(WHOLE, 101)],
          replace(reads("first_own_pages", 211, LOW,
                        "a group within its memory.low loses no page"), exact=False),
          fewer("second_own_pages", 211, LOW, "the group without protection is reclaimed instead")),
    check("low_gives", [*ONE_OWN, set_low(FIRST, PROTECTED), reclaim(WHOLE, 499)],
          fewer("first_own_pages", 211, LOW,
                "a group within its memory.low is reclaimed when the others have nothing left")),
    check("min_keeps", [*ONE_OWN, set_min(FIRST, PROTECTED), reclaim(WHOLE, 499)],
          reads("first_own_pages", 211, MIN,
                "a group within its memory.min loses no page when the others have nothing left"),
          reads("call_errno", errno.EAGAIN, f"{V2}, memory.reclaim: -EAGAIN",
                "memory.reclaim fails rather than reclaim what memory.min protects")),
]
# fmt: on


def words(step: Step) -> str:
    """The line of one step that the probe returned."""
    first, count = step["first"], step["count"]
    return CALLS[step["call"]].words.format(
        who=_WHO.get(step["who"]),
        group=_GROUP[step["group"]],
        count=count,
        pages=f"{first} to {first + count - 1}",
    )


def stat(raw: Raw, side: str) -> list[str]:
    """The groups' memory.stat: what was charged at the start, and since then."""
    v1 = raw["before"]["directly_shared_pages"]["error"] is None
    field, total = ("rss", "total_") if v1 else ("anon", "")
    keys = {"first": f"shmem and {field}", "second": f"shmem and {field}"}
    keys["whole"] = f"{total}shmem and {total}{field}"
    names = {"first": "0", "second": "1", "whole": "whole"}
    lines = []
    for group, key in keys.items():
        sides = [raw["start"][group]] + [raw[side][group]] * (side != "start")
        shared, private = (sum(at[f"{kind}_pages"] for at in sides) for kind in ("shared", "own"))
        lines.append(f"{names[group]}, memory.stat: {key} {shared} and {private} pages")
    if v1:
        alone = raw["start"]["directly"]["shared_pages"]
        alone += raw[side]["directly_shared_pages"]["count"] if side != "start" else 0
        lines.append(f"whole alone, memory.stat: shmem {alone} pages")
    return lines


def evidence(raw: Raw, _: At) -> str:
    """The steps, what the last one returned, and memory.stat at the start and around it."""
    if isinstance(raw["steps"], str):  # up to memlab 0.1 the probe returned the lines
        done = raw["steps"].splitlines()
        start, before, after = (
            text.splitlines()
            for text in (raw["stat_at_start"], raw["before"]["stat"], raw["after"]["stat"])
        )
    else:
        done = [words(step) for step in raw["steps"] if step["call"] != "end"]
        start, before, after = (stat(raw, side) for side in ("start", "before", "after"))
    number = raw["call_errno"]
    ended = f"-1 {errno.errorcode.get(number, number)}" if number else "0"
    lines = [f"at the start: {line}" for line in start]
    lines += [*done[:-1], *before, f"{done[-1]} = {ended}", *after]
    if raw["batch_bytes"]:
        lines.append(f"usage rose by {raw['batch_bytes']} B")
    return "\n".join(lines)


METRICS = (
    (
        "first_shared_pages",
        "shared pages charged to group 0",
        F.after.first.shared_pages,
    ),
    (
        "second_shared_pages",
        "shared pages charged to group 1",
        F.after.second.shared_pages,
    ),
    ("first_own_pages", "private pages charged to group 0", F.after.first.own_pages),
    ("second_own_pages", "private pages charged to group 1", F.after.second.own_pages),
    (
        "whole_shared_pages",
        "shared pages counted by the parent group",
        F.after.whole.shared_pages,
    ),
    (
        "whole_own_pages",
        "private pages counted by the parent group",
        F.after.whole.own_pages,
    ),
    (
        "directly_shared_pages",
        "shared pages charged to the parent group itself; in v1",
        F.after.directly_shared_pages,
    ),
    ("first_swappiness", "memory.swappiness of group 0; in v1", F.first_swappiness),
    ("second_swappiness", "memory.swappiness of group 1; in v1", F.second_swappiness),
    ("call_errno", "errno of the step; 0: it succeeded", F.call_errno),
    ("first_swapped_pages", "swapped pages charged to group 0", F.first_swapped_pages.optional),
    (
        "batch_pages",
        "pages by which usage rises at a time",
        (F.batch_bytes / F.page_bytes).where(check="batch"),
    ),
)

EXPERIMENT = Experiment(
    name="memcg-accounting",
    question="Which memory cgroup pays for a page that is shared, moved, or left behind?",
    so=[
        Decision(
            "moved-first-own-pages-23",
            "put a process in its cgroup before it touches memory: what it touched before stays "
            "charged to the old one",
            "a process may be moved later: its memory moves along",
        ),
        Decision(
            "first-touch-first-shared-pages-23",
            "do not read shared memory from a group's usage: the first to touch it pays for all",
            "shared memory is not charged to its first user",
        ),
        Decision(
            "low-spares-first-own-pages-211",
            "give memory.low to a group whose memory should stay: reclaim above it takes from "
            "others first (memory.min if never from it, even if a process is killed for that)",
            "memory.low did not protect a group from reclaim above it here",
            if_holds=(211, 211),
            if_fails=(0, 210),
        ),
    ],
    probe="memcg_accounting",
    factors=[
        check_factor(
            CHECKS,
            help="check; named by the step that is checked and the steps before it. Processes A "
            "and B are in groups 0 and 1; pages are private or shared (a shared mapping, so of "
            "tmpfs)",
        ),
    ],
    metrics=counts(evidence, METRICS),
    cost=Cost(memory=lambda _: LIMIT, time=lambda _: 0.1),
    host=Host(
        containment=Containment(
            limit=lambda _: LIMIT,
            members=lambda _: 2,
            member_limit=lambda _: MEMBER_LIMIT,
            swap=swap_of,
            swap_bytes=16 * MIB,
            pass_group=True,
            fresh=True,  # a group that was asked to move charges (v1 before 6.13) would stay so
        ),
        needs=needs,
    ),
    tiny={"check": ["first_touch", "first_unmaps"]},
    judges={"chen-2014": ["accounting"]},
    budget_s={"quick": 120.0, "paper": 600.0, "full": 1800.0},
    claims=check_claims(CHECKS),
    figure=Checks("first_shared_pages", over="check", by=()),
)
