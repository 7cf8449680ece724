"""What memcg-accounting claims: the paper's sentences on what is charged to whom, and beside them
the kernel's own documentation."""

import errno

from memlab.experiments._check_claims import of

PAGES = 23  # touched in a check
FIRST_PAGES = 11  # of them by A, where B touches the others
LATER_PAGES = 7  # touched in the group that a process has moved to

SHARED = "section 3.2, shared pages"
RELEASE = "section 3.2, release by the first"
THREADS = "section 3.2, threads in several groups"
MOVE = "section 3.2, a task that moves"
V1 = "cgroup-v1/memory.rst"
REMOVAL = "cgroup-v1/memory.rst, removing a cgroup"
MOVING = "cgroup-v1/memory.rst, move charges: -EINVAL"
BATCH = "MEMCG_CHARGE_BATCH of mm/memcontrol.c"
OWN = "memlab's own"


_SHARED = [
    of("first_touch", "first_shared_pages", PAGES, "the first to touch a shared page pays", SHARED),
    of("first_touch", "second_shared_pages", 0, "the second to touch it does not pay", SHARED),
    of(
        "first_touch_each",
        "first_shared_pages",
        FIRST_PAGES,
        "of a shared mapping the first pays for the pages that it touched, not for all",
        SHARED,
    ),
    of(
        "first_touch_each",
        "second_shared_pages",
        PAGES - FIRST_PAGES,
        "the second pays for those that it was the first to touch",
        SHARED,
    ),
]

_RELEASE = [
    of(
        check,
        "second_shared_pages",
        PAGES,
        f"{how}, and the charge moves to the group that still holds the pages",
        RELEASE,
    )
    for check, how in (
        ("first_unmaps", "the first unmaps shared pages"),
        ("first_ends", "the first process ends"),
        ("group_removed", "the first process ends and its group is removed"),
    )
] + [
    of(
        "first_unmaps",
        "first_shared_pages",
        PAGES,
        "the charge stays with a group that no longer maps the pages",
        OWN,
    ),
    of(
        "first_ends",
        "first_shared_pages",
        PAGES,
        "the charge stays with a group that has no process left",
        OWN,
    ),
    of("group_removed", "call_errno", 0, "a group that still has charges can be removed", REMOVAL),
    of(
        "group_removed",
        "whole_shared_pages",
        PAGES,
        "the charges of a removed group still count above it",
        REMOVAL,
    ),
    of(
        "group_removed",
        "directly_shared_pages",
        0,
        "but not as its parent's own: the removed group lives on until they are freed",
        OWN,
    ),
    of("dropped", "first_shared_pages", 0, "the charge ends when the page is freed", V1),
    of(
        "dropped",
        "second_shared_pages",
        PAGES,
        "who touches a freed page's place next pays for the new page",
        V1,
    ),
]

_THREADS = [
    of(
        "thread",
        "first_own_pages",
        PAGES,
        "what a thread touches is charged to its leader's group",
        THREADS,
    ),
    of("thread", "second_own_pages", 0, "and not to the group that the thread is in", THREADS),
    of(
        "leader",
        "second_own_pages",
        PAGES,
        "where the leader alone has moved, its new group pays for the threads",
        THREADS,
    ),
    of("leader", "first_own_pages", 0, "and not the group that the threads are in", THREADS),
]

_MOVE = [
    of("moved", "first_own_pages", PAGES, "what was charged stays with the old group", MOVE),
    of("moved", "second_own_pages", 0, "the new group takes over no charge", MOVE),
    of(
        "first_moves",
        "first_shared_pages",
        PAGES,
        "the charge of a shared page stays when its first toucher moves",
        MOVE,
    ),
    of(
        "moved_touches",
        "second_own_pages",
        LATER_PAGES,
        "what is touched after the move is charged to the new group",
        MOVE,
    ),
    of("moved_touches", "first_own_pages", PAGES, "while the old charge stays where it was", MOVE),
    of("moved_frees", "first_own_pages", 0, "freed later, it leaves the old group", MOVE),
    of("moved_frees", "second_own_pages", 0, "and what came later the new one", MOVE),
    of(
        "move_charges",
        "call_errno",
        errno.EINVAL,
        "charges can no longer be asked to move along",
        MOVING,
    ),
]

_GROUPS = [
    of("parent", "whole_own_pages", PAGES, "what a group is charged its parent counts too", V1),
    of("batch", "batch_pages", 64, "usage does not rise by a page but by 64 at a time", BATCH),
]

CLAIMS = [*_SHARED, *_RELEASE, *_THREADS, *_MOVE, *_GROUPS]
