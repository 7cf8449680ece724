"""What vma-lock claims: the paper's sentences as they are printed, and beside them mlock(2)'s."""

import errno

from memlab.experiment import Count
from memlab.experiments._check_claims import of

PAGES = 7  # of the range, in most checks

TABLE_1 = "Table 1"
FLAGS = "section 1, on vm_flags and VM_LOCKED"
FIGURE_2 = "Figure 2 and its text"
LRU = "section 1, on the unevictable list and PG_mlocked"
TASKS = "section 1, on fork and threads"
PURPOSE = "section 1, the three functions of mlock"
MAN = "mlock(2)"


def table_1(check: str, locked: bool, text: str) -> Count:
    return of(check, "locked_pages", PAGES if locked else 0, text, TABLE_1)


def root_alone(check: str, call: str) -> Count:
    text = f"{call} is refused to any but root"
    return of(check, "call_errno", errno.EPERM, text, "Table 1, note: these are root's alone")


_PAPER = [
    of("mlock", "locked_vma_count", 1, "mlock sets VM_LOCKED on the VMA", FLAGS),
    of("mlock", "resident_pages", PAGES, "mlock brings in every page at once", PURPOSE),
    of("mlock", "mlocked_pages", PAGES, "a locked page is marked PG_mlocked", LRU),
    of("mlock", "unevictable_pages", PAGES, "a locked page lies on the unevictable list", LRU),
    of("munlock", "locked_vma_count", 0, "munlock takes VM_LOCKED off the VMA", TABLE_1),
    of("munlock", "resident_pages", PAGES, "munlock reclaims no page at once", LRU),
    of("munlock", "unevictable_pages", 0, "munlock takes pages off the unevictable list", LRU),
    of("mlock_middle", "vma_count", 3, "mlock of a VMA's middle splits it in three", FLAGS),
    of(
        "mlock_neighbour",
        "vma_count",
        1,
        "a range locked beside a locked VMA of its kind merges with it",
        FIGURE_2,
    ),
    of(
        "mlock_over_exec",
        "vma_count",
        2,
        "mlock that reaches into an executable VMA joins that part of it to the locked VMA before",
        FIGURE_2,
    ),
    of(
        "map_over_exec",
        "vma_count",
        2,
        "a new locked mapping over the start of an executable VMA joins the locked VMA before it",
        FIGURE_2,
    ),
    table_1("current_present", True, "MCL_CURRENT locks what is mapped"),
    table_1("current_later", False, "MCL_CURRENT does not lock what is mapped later"),
    table_1("future_present", False, "MCL_FUTURE does not lock what is mapped"),
    table_1("future_later", True, "MCL_FUTURE locks what is mapped later"),
    table_1("both_present", True, "MCL_CURRENT | MCL_FUTURE locks what is mapped"),
    table_1("both_later", True, "MCL_CURRENT | MCL_FUTURE locks what is mapped later"),
    of("munlockall_later", "locked_pages", 0, "munlockall undoes mlockall", TABLE_1),
    of("fork_child", "locked_vma_count", 0, "a child's VMAs are not locked", TASKS),
    of("thread", "locked_vma_count", 1, "a thread has its process's locked VMAs", TASKS),
    root_alone("limit_reached", "mlock"),
    root_alone("limit_munlock", "munlock"),
    root_alone("limit_mlockall", "mlockall"),
    root_alone("limit_munlockall", "munlockall"),
]

_MLOCK = [
    of("mlock", "minor_faults", PAGES, "mlock takes one fault a page", MAN),
    of("mlock", "trapped", 0, "mlock takes its faults without an exception", MAN),
    of("mlock_overlap", "vma_count", 1, "a lock that overlaps another is one VMA with it", MAN),
    of(
        "mlock_over_exec",
        "locked_vma_count",
        2,
        "mlock over two protections locks both and leaves them two VMAs",
        MAN,
    ),
    of(
        "mlock_over_exec",
        "vma_count",
        3,
        "mlock that ends inside an executable VMA splits it and merges neither part",
        MAN,
    ),
    of("mlock_unaligned", "locked_pages", 2, "mlock locks every page that it touches", MAN),
    of("mlock_hole", "call_errno", errno.ENOMEM, "mlock over a hole fails with ENOMEM", MAN),
    of(
        "mlock_hole",
        "locked_vma_count",
        1,
        "mlock over a hole leaves what lies before it locked",
        MAN,
    ),
    of("mlock_hole", "resident_pages", 0, "mlock over a hole brings in no page", MAN),
    of("mlock_onfault", "lockonfault_vma_count", 1, "MLOCK_ONFAULT sets VM_LOCKONFAULT", MAN),
    of("mlock_onfault", "resident_pages", 0, "MLOCK_ONFAULT brings in no page", MAN),
    of(
        "touch_onfault", "locked_pages", 3, "under MLOCK_ONFAULT a page is locked when touched", MAN
    ),
    of("munlock_middle", "vma_count", 3, "munlock of a locked VMA's middle splits it", MAN),
    of("munlock_middle", "locked_pages", 4, "munlock of a part leaves the rest locked", MAN),
    of(
        "munlock_twice_locked",
        "locked_vma_count",
        0,
        "locks do not stack: one munlock ends two",
        MAN,
    ),
    of("munmap_middle", "locked_vma_count", 2, "munmap of a part leaves the rest locked", MAN),
    of("munmap_middle", "vm_lck_pages", 4, "munmap takes its pages off VmLck", MAN),
]

_MLOCKALL = [
    of("current_onfault", "lockonfault_vma_count", 1, "MCL_ONFAULT sets VM_LOCKONFAULT", MAN),
    of("current_onfault", "resident_pages", 0, "MCL_CURRENT | MCL_ONFAULT brings in no page", MAN),
    of(
        "future_onfault",
        "lockonfault_vma_count",
        1,
        "MCL_ONFAULT holds for what is mapped later",
        MAN,
    ),
    of("future_onfault", "resident_pages", 0, "MCL_FUTURE | MCL_ONFAULT brings in no page", MAN),
    of("onfault_alone", "call_errno", errno.EINVAL, "MCL_ONFAULT alone is refused", MAN),
    of("munlockall", "locked_pages", 0, "munlockall undoes mlock as well", MAN),
    of("fork_parent", "locked_pages", PAGES, "fork leaves the parent locked", MAN),
    of("fork_child", "vm_lck_pages", 0, "a child has nothing locked", MAN),
    of("fork_child_future", "locked_vma_count", 0, "a child does not inherit MCL_FUTURE", MAN),
    of("thread_stack", "locked_vma_count", 1, "MCL_FUTURE locks a new thread's stack", MAN),
]

_LIMITS = [
    of("limit_reached", "locked_pages", 5, "a limit of 5 pages lets any user lock 5", MAN),
    of("limit_zero", "call_errno", errno.EPERM, "a limit of 0 is EPERM", MAN),
    of("limit_exceeded", "call_errno", errno.ENOMEM, "a limit of 5 pages refuses the sixth", MAN),
    of("limit_exceeded", "locked_pages", 0, "a refused mlock locks nothing", MAN),
    of("limit_overlap", "locked_pages", 5, "pages locked twice count once", MAN),
    of(
        "limit_current",
        "call_errno",
        errno.ENOMEM,
        "MCL_CURRENT of a process larger than the limit is refused",
        MAN,
    ),
    of(
        "limit_future_reached",
        "locked_pages",
        5,
        "under MCL_FUTURE any user maps as much as the limit",
        MAN,
    ),
    of(
        "limit_future_exceeded",
        "call_errno",
        errno.EAGAIN,
        "under MCL_FUTURE mmap beyond the limit is EAGAIN",
        MAN,
    ),
    of("limit_mlockall", "call_errno", 0, "any user may call mlockall(MCL_FUTURE)", MAN),
    of("limit_munlock", "locked_pages", 0, "munlock needs neither right nor limit", MAN),
    of("limit_munlockall", "locked_pages", 0, "munlockall needs neither right nor limit", MAN),
    of("max_map_count", "call_errno", errno.ENOMEM, "mlock that needs one VMA too many fails", MAN),
    of("max_map_count", "vma_room", 0, "it fails at vm.max_map_count and not before", MAN),
    of("max_map_count", "locked_pages", PAGES, "what was locked before stays locked", MAN),
]

CLAIMS = [*_PAPER, *_MLOCK, *_MLOCKALL, *_LIMITS]
