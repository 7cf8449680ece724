"""vma-lock: what locking memory does to mappings, limits, children and threads, exactly.

The paper's sentences are claimed as they are printed, and those of mlock(2) beside them.
"""

import errno
from dataclasses import replace

from memlab.experiment import *
from memlab.experiments._vm_script import *

UNKNOWN = 8  # the lowest bit that is not a flag of mlockall
READ_EXEC = Prot.READ | Prot.EXEC
KIB, MIB = 2**10, 2**20

TABLE_1 = "Table 1"
TABLE_3 = "Table 3, faults with mlock"
ROOT_ALONE = "Table 1, note: these are root's alone"
FLAGS = "section 1, on vm_flags and VM_LOCKED"
FIGURE_2 = "Figure 2 and its text"
LRU = "section 1, on the unevictable list and PG_mlocked"
LISTS = "section 1, on the two lists, PG_active and PG_referenced"
TASKS = "section 1, on fork and threads"
PURPOSE = "section 1, the three functions of mlock"
MAN = "mlock(2)"
UNEVICTABLE = "mm/unevictable-lru.rst"
MADVISE = "madvise(2)"
SECRET = "memfd_secret(2)"
SEAL = "userspace-api/mseal.rst"
DROP = "commit 9651fcedf7b9, MAP_DROPPABLE"
DROP_LATER = "commit d239462787b0, droppable mappings and MCL_FUTURE"
OWN = "memlab's own"

COLD_FILE = mmap(0, 7, READ_WRITE, Map.SHARED), load(0, 7), madvise(0, 7, Madv.COLD)

# fmt: off
CHECKS = [
    check("mlock", [mmap(0, 7), mlock(0, 7)],
          reads("locked_vma_count", 1, FLAGS, "mlock sets VM_LOCKED on the VMA"),
          reads("resident_pages", 7, PURPOSE, "mlock brings in every page at once"),
          reads("mlocked_pages", 7, LRU, "a locked page is marked PG_mlocked"),
          reads("unevictable_pages", 7, LRU, "a locked page lies on the unevictable list"),
          reads("minor_faults", 1, TABLE_3, "mlock takes one page fault for the whole range"),
          reads("minor_faults", 7, MAN, "mlock takes one fault a page"),
          reads("trapped", 0, MAN, "mlock takes its faults without an exception")),
    check("mlock_middle", [mmap(0, 7), mlock(3, 1)],
          reads("vma_count", 3, FLAGS, "mlock of a VMA's middle splits it in three")),
    check("mlock_neighbour", [mmap(0, 7), mlock(0, 3), mlock(3, 4)],
          reads("vma_count", 1, FIGURE_2, "a range locked beside a locked VMA merges with it")),
    check("mlock_overlap", [mmap(0, 7), mlock(0, 5), mlock(2, 5)],
          reads("vma_count", 1, MAN, "a lock that overlaps another is one VMA with it")),
    check("mlock_over_exec", [mmap(0, 3), mmap(3, 4, READ_EXEC), mlock(0, 2), mlock(2, 3)],
          reads("vma_count", 2, FIGURE_2,
                "mlock that reaches into an executable VMA joins that part to the locked VMA"),
          reads("locked_vma_count", 2, MAN, "mlock over two protections leaves two locked VMAs"),
          reads("vma_count", 3, MAN,
                "mlock that ends inside an executable VMA splits it and merges neither part")),
    check("map_over_exec", [mmap(0, 2), mmap(3, 4, READ_EXEC), mlock(0, 2),
                            mmap(2, 3, READ_WRITE, ANONYMOUS | Map.LOCKED)],
          reads("vma_count", 2, FIGURE_2,
                "a locked mapping over an executable VMA's start joins the locked VMA before it")),
    check("mlock_unaligned", [mmap(0, 7), mlock_unaligned(2, 1)],
          reads("locked_pages", 2, MAN, "mlock locks every page that it touches")),
    check("mlock_hole", [mmap(0, 7), munmap(3, 1), mlock(0, 7)],
          reads("call_errno", errno.ENOMEM, MAN, "mlock over a hole fails with ENOMEM"),
          reads("locked_vma_count", 1, MAN, "mlock over a hole locks the pages before it"),
          reads("resident_pages", 0, MAN, "mlock over a hole brings in no page")),
    check("mlock_onfault", [mmap(0, 7), mlock_onfault(0, 7)],
          reads("lockonfault_vma_count", 1, MAN, "MLOCK_ONFAULT sets VM_LOCKONFAULT"),
          reads("resident_pages", 0, MAN, "MLOCK_ONFAULT brings in no page")),
    check("touch_onfault", [mmap(0, 7), mlock_onfault(0, 7), store(2, 3)],
          reads("locked_pages", 3, MAN, "under MLOCK_ONFAULT a page is locked when touched")),
    check("mlock_after_onfault", [mmap(0, 7), mlock_onfault(0, 7), mlock(0, 7)],
          reads("vm_lck_pages", 7, MAN, "mlock after MLOCK_ONFAULT counts its pages once in VmLck"),
          reads("lockonfault_vma_count", 0, MAN, "mlock after MLOCK_ONFAULT locks at once"),
          reads("resident_pages", 7, MAN, "mlock after MLOCK_ONFAULT brings in every page")),
    check("munlock_hole", [mmap(0, 7), mlock(0, 7), munmap(3, 1), munlock(0, 7)],
          reads("call_errno", errno.ENOMEM, MAN, "munlock over a hole fails with ENOMEM")),
    check("munlock_rest", [mmap(0, 7), mlock(0, 7), munlock(2, 3), munlock(0, 7)],
          reads("vma_count_before", 3, MAN, "munlock of a part splits the VMA in three"),
          reads("vma_count", 1, OWN, "munlock of the whole merges what a part had split")),
    check("munlock", [mmap(0, 7), mlock(0, 7), munlock(0, 7)],
          reads("locked_vma_count", 0, TABLE_1, "munlock takes VM_LOCKED off the VMA"),
          reads("resident_pages", 7, LRU, "munlock reclaims no page at once"),
          reads("unevictable_pages", 0, LRU, "munlock takes pages off the unevictable list"),
          reads("listed_pages", 7, LRU, "munlock puts pages back on a list that reclaim scans")),
    check("read_once", [*COLD_FILE, read_file(7)],
          reads("referenced_pages", 7, LISTS, "the first read of a page sets PG_referenced"),
          reads("active_pages", 0, LISTS, "the first read leaves a page on the inactive list"),
          reads("unevictable_pages", 7, LRU, "a page of a shared mapping lies on the unevictable "
                "list"),
          reads("unevictable_pages", 0, UNEVICTABLE,
                "a page of a shared mapping that is not locked lies on a list that is scanned")),
    check("read_twice", [*COLD_FILE, read_file(7), read_file(7)],
          reads("active_pages", 7, LISTS, "the second read moves a page to the active list"),
          reads("referenced_pages", 0, LISTS, "the move to the active list clears PG_referenced")),
    check("munlock_middle", [mmap(0, 7), mlock(0, 7), munlock(2, 3)],
          reads("vma_count", 3, MAN, "munlock of a locked VMA's middle splits it"),
          reads("locked_pages", 4, MAN, "munlock of a part leaves the rest locked")),
    check("munlock_twice_locked", [mmap(0, 7), mlock(0, 7), mlock(0, 7), munlock(0, 7)],
          reads("locked_vma_count", 0, MAN, "locks do not stack: one munlock ends two")),
    check("munmap_middle", [mmap(0, 7), mlock(0, 7), munmap(2, 3)],
          reads("locked_vma_count", 2, MAN, "munmap of a part leaves the rest locked"),
          reads("vm_lck_pages", 4, MAN, "munmap takes its pages off VmLck")),
    check("current_present", [mmap(0, 7), mlockall(Mcl.CURRENT)],
          reads("locked_pages", 7, TABLE_1, "MCL_CURRENT locks what is mapped")),
    check("current_later", [mlockall(Mcl.CURRENT), mmap(0, 7)],
          reads("locked_pages", 0, TABLE_1, "MCL_CURRENT does not lock what is mapped later")),
    check("future_present", [mmap(0, 7), mlockall(Mcl.FUTURE)],
          reads("locked_pages", 0, TABLE_1, "MCL_FUTURE does not lock what is mapped")),
    check("future_later", [mlockall(Mcl.FUTURE), mmap(0, 7)],
          reads("locked_pages", 7, TABLE_1, "MCL_FUTURE locks what is mapped later")),
    check("both_present", [mmap(0, 7), mlockall(Mcl.CURRENT | Mcl.FUTURE)],
          reads("locked_pages", 7, TABLE_1, "MCL_CURRENT | MCL_FUTURE locks what is mapped")),
    check("both_later", [mlockall(Mcl.CURRENT | Mcl.FUTURE), mmap(0, 7)],
          reads("locked_pages", 7, TABLE_1, "MCL_CURRENT | MCL_FUTURE locks what is mapped later")),
    check("current_onfault", [mmap(0, 7), mlockall(Mcl.CURRENT | Mcl.ONFAULT)],
          reads("lockonfault_vma_count", 1, MAN, "MCL_ONFAULT sets VM_LOCKONFAULT"),
          reads("resident_pages", 0, MAN, "MCL_CURRENT | MCL_ONFAULT brings in no page")),
    check("future_onfault", [mlockall(Mcl.FUTURE | Mcl.ONFAULT), mmap(0, 7)],
          reads("lockonfault_vma_count", 1, MAN, "MCL_ONFAULT holds for what is mapped later"),
          reads("resident_pages", 0, MAN, "MCL_FUTURE | MCL_ONFAULT brings in no page")),
    check("onfault_alone", [mmap(0, 7), mlockall(Mcl.ONFAULT)],
          reads("call_errno", errno.EINVAL, MAN, "MCL_ONFAULT alone is refused")),
    check("unknown_flag", [mmap(0, 7), mlockall(UNKNOWN)],
          reads("call_errno", errno.EINVAL, MAN, "a flag that mlockall does not have is refused"),
          reads("locked_pages", 0, MAN, "mlockall that is refused locks nothing")),
    check("munlockall", [mmap(0, 7), mlock(0, 7), munlockall()],
          reads("locked_pages", 0, MAN, "munlockall undoes mlock as well")),
    check("munlockall_later", [mlockall(Mcl.FUTURE), munlockall(), mmap(0, 7)],
          reads("locked_pages", 0, TABLE_1, "munlockall undoes mlockall")),
    check("fork_child", [mmap(0, 7), mlock(0, 7), in_child()],
          reads("vma_count", 1, TASKS, "a child has a copy of its parent's VMAs"),
          reads("locked_vma_count", 0, TASKS, "a child's VMAs are not locked"),
          reads("vm_lck_pages", 0, MAN, "a child has nothing locked")),
    check("fork_parent", [mmap(0, 7), mlock(0, 7), fork()],
          reads("locked_pages", 7, MAN, "fork leaves the parent locked")),
    check("fork_child_future", [mlockall(Mcl.FUTURE), mmap_in_child(10, 2)],
          reads("locked_vma_count", 0, MAN, "a child does not inherit MCL_FUTURE")),
    check("thread", [mmap(0, 7), mlock(0, 7), in_thread()],
          reads("locked_vma_count", 1, TASKS, "a thread has its process's locked VMAs")),
    check("thread_stack", [mlockall(Mcl.FUTURE), thread_stack()],
          reads("locked_vma_count", 1, MAN, "MCL_FUTURE locks a new thread's stack")),
    check("limit_zero", [mmap(0, 7), limit(0), mlock(0, 1)],
          reads("call_errno", errno.EPERM, MAN, "a limit of 0 is EPERM")),
    check("limit_reached", [mmap(0, 7), limit(5), mlock(0, 5)],
          reads("call_errno", errno.EPERM, ROOT_ALONE, "mlock is refused to any but root"),
          reads("locked_pages", 5, MAN, "a limit of 5 pages lets any user lock 5")),
    check("limit_exceeded", [mmap(0, 7), limit(5), mlock(0, 6)],
          reads("call_errno", errno.ENOMEM, MAN, "a limit of 5 pages refuses the sixth"),
          reads("locked_pages", 0, MAN, "a refused mlock locks nothing")),
    check("limit_overlap", [mmap(0, 7), limit(5), mlock(0, 3), mlock(0, 5)],
          reads("locked_pages", 5, MAN, "pages locked twice count once")),
    check("limit_current", [mmap(0, 7), limit(7), mlockall(Mcl.CURRENT)],
          reads("call_errno", errno.ENOMEM, MAN,
                "MCL_CURRENT of a process larger than the limit is refused")),
    check("limit_future_reached", [limit(5), mlockall(Mcl.FUTURE), mmap(0, 5)],
          reads("locked_pages", 5, MAN, "under MCL_FUTURE any user maps as much as the limit")),
    check("limit_future_exceeded", [limit(5), mlockall(Mcl.FUTURE), mmap(0, 6)],
          reads("call_errno", errno.EAGAIN, MAN,
                "under MCL_FUTURE mmap beyond the limit is EAGAIN")),
    check("limit_mlockall", [mmap(0, 7), limit(5), mlockall(Mcl.FUTURE)],
          reads("call_errno", errno.EPERM, ROOT_ALONE, "mlockall is refused to any but root"),
          reads("call_errno", 0, MAN, "any user may call mlockall(MCL_FUTURE)")),
    check("limit_munlock", [mmap(0, 7), mlock(0, 7), limit(0), munlock(0, 7)],
          reads("call_errno", errno.EPERM, ROOT_ALONE, "munlock is refused to any but root"),
          reads("locked_pages", 0, MAN, "munlock needs neither right nor limit")),
    check("limit_munlockall", [mmap(0, 7), mlock(0, 7), limit(0), munlockall()],
          reads("call_errno", errno.EPERM, ROOT_ALONE, "munlockall is refused to any but root"),
          reads("locked_pages", 0, MAN, "munlockall needs neither right nor limit")),
    check("pageout_of_locked", [mmap(0, 7), mlock(0, 7), madvise(0, 7, Madv.PAGEOUT)],
          reads("call_errno", errno.EINVAL, MADVISE, "MADV_PAGEOUT refuses locked pages"),
          reads("locked_pages", 7, MADVISE, "MADV_PAGEOUT that is refused leaves the pages")),
    check("populate_onfault", [mmap(0, 7), mlock_onfault(0, 7),
                               madvise(0, 7, Madv.POPULATE_WRITE)],
          reads("locked_pages", 7, MADVISE, "MADV_POPULATE_WRITE locks pages of MLOCK_ONFAULT")),
    check("guard_of_locked", [mmap(0, 7), mlock(0, 7), madvise(0, 7, Madv.GUARD_INSTALL)],
          reads("call_errno", errno.EINVAL, MADVISE, "MADV_GUARD_INSTALL refuses locked memory"),
          reads("locked_pages", 7, MADVISE, "a guard that is refused leaves the pages")),
    check("lock_of_guard", [mmap(0, 7), madvise(3, 1, Madv.GUARD_INSTALL), mlock(0, 7)],
          reads("call_errno", errno.ENOMEM, OWN, "mlock over a guard fails with ENOMEM"),
          reads("locked_vma_count", 1, OWN, "mlock over a guard locks the whole VMA"),
          reads("resident_pages", 3, OWN, "mlock brings in only the pages before a guard")),
    check("secret", [mmap_secret(0, 7)],
          reads("locked_vma_count", 1, SECRET, "memory of memfd_secret is locked without mlock"),
          reads("vm_lck_pages", 7, SECRET, "memory of memfd_secret counts in VmLck"),
          reads("resident_pages", 0, OWN, "memory of memfd_secret is not brought in at once")),
    check("munlock_secret", [mmap_secret(0, 7), munlock(0, 7)],
          reads("call_errno", 0, OWN, "munlock of memfd_secret's memory succeeds"),
          reads("locked_vma_count", 1, OWN, "munlock leaves memfd_secret's memory locked")),
    check("limit_secret", [limit(5), mmap_secret(0, 6)],
          reads("call_errno", errno.EAGAIN, SECRET,
                "mmap of memfd_secret beyond the limit is EAGAIN")),
    check("munlock_sealed", [mmap(0, 7), mlock(0, 7), mseal(0, 7), munlock(0, 7)],
          reads("call_errno", 0, SEAL, "mseal does not hold munlock back"),
          reads("locked_pages", 0, SEAL, "munlock of a sealed mapping unlocks it")),
    check("mlock_droppable", [mmap(0, 7, READ_WRITE, DROPPABLE), mlock(0, 7)],
          reads("call_errno", 0, DROP, "mlock of a MAP_DROPPABLE mapping succeeds"),
          reads("locked_vma_count", 0, DROP, "mlock does not lock a MAP_DROPPABLE mapping")),
    check("future_droppable", [mlockall(Mcl.FUTURE), mmap(0, 7, READ_WRITE, DROPPABLE)],
          reads("locked_vma_count", 0, DROP_LATER,
                "MCL_FUTURE does not lock a MAP_DROPPABLE mapping")),
    check("max_map_count", [use_up_vmas(8), mmap(1, 29), mlock_alternate(2, 27)],
          reads("call_errno", errno.ENOMEM, MAN, "mlock that needs one VMA too many fails"),
          reads("vma_room", 0, MAN, "mlock fails at vm.max_map_count and not before"),
          reads("locked_pages", 7, MAN, "what was locked before stays locked")),
]
# fmt: on


_STACK = 256 * KIB  # STACK_BYTES of probes/support/vm_script.c


def locks(at: At) -> int:
    """LOCKED_PAGES of probes/vma_lock.c; MCL_CURRENT counts the whole address space, of which
    little is left (trim_address_space.h), and MCL_FUTURE the stack of a new thread."""
    (script,) = (item.steps for item in CHECKS if item.name == at["check"])
    current = any(s["call"] == "mlockall" and s["flags"] & Mcl.CURRENT for s in script)
    stack = thread_stack() in script
    return 16 * 4096 + (4 * MIB if current else 0) + (_STACK if stack else 0)


def evidence(raw: Raw, _: At) -> str:
    return call_evidence(raw, steps(raw))


def vma_limit_evidence(raw: Raw, at: At) -> str:
    limit = f"{raw['process_vma_count']} lines of /proc/self/maps, vm.max_map_count "
    return f"{evidence(raw, at)}\n{limit}{raw['max_map_count']}"


FLAGS_FILE = "/proc/kpageflags"

METRICS = (
    ("vma_count", "VMAs in the range; after the call", F.after.vma_count),
    ("vma_count_before", "VMAs in the range before the call", F.before.vma_count),
    ("locked_vma_count", "VMAs with VM_LOCKED (lo); in the range", F.after.locked_vma_count),
    (
        "lockonfault_vma_count",
        "VMAs with VM_LOCKONFAULT (lf); in the range",
        F.after.lockonfault_vma_count,
    ),
    ("resident_pages", "resident pages; of the range", pages("rss")),
    ("locked_pages", "resident and locked pages; of the range", pages("locked")),
    ("vm_lck_pages", "VmLck in pages; of all locked VMAs of the process", pages("vm_locked")),
    ("mlocked_pages", "pages with PG_mlocked; by /proc/kpageflags", F.after.mlocked_pages),
    (
        "unevictable_pages",
        "pages on the unevictable list; by /proc/kpageflags",
        F.after.unevictable_pages,
    ),
    (
        "listed_pages",
        "pages on a list of reclaim, PG_lru; by /proc/kpageflags",
        F.after.listed_pages,
    ),
    ("active_pages", "pages with PG_active; by /proc/kpageflags", F.after.active_pages),
    ("referenced_pages", "pages with PG_referenced; by /proc/kpageflags", F.after.referenced_pages),
    ("call_errno", "errno of the call; 0: it succeeded", F.call_errno),
)

EXPERIMENT = Experiment(
    name="vma-lock",
    question="What do mlock, munlock and mlockall do to mappings, limits, children and threads?",
    so=[
        Decision(
            "mlock-onfault-resident-pages-0",
            "use MLOCK_ONFAULT if only touched pages are to stay: it brings in none",
            "MLOCK_ONFAULT brings in pages here",
        ),
        Decision(
            "fork-child-locked-vma-count-0",
            "lock again after fork: a child has nothing locked",
            "a child keeps its parent's locks here",
        ),
    ],
    probe="vma_lock",
    factors=[
        check_factor(
            CHECKS,
            help="check; named by the call that is checked and the calls before it. A limit_ check "
            "first drops CAP_IPC_LOCK, which an ordinary user does not have",
        ),
    ],
    metrics=[
        *(
            replace(metric, needs=FLAGS_FILE) if metric.help.endswith(FLAGS_FILE) else metric
            for metric in counts(evidence, METRICS)
        ),
        Metric(
            "vma_room",
            "count",
            "VMAs that the process may still map",
            of=F.max_map_count - F.process_vma_count,
            evidence=vma_limit_evidence,
        ),
    ],
    host=Host(
        needs=lambda at: ["VMA limit in reach"] if at["check"] == "max_map_count" else [],
        locks=locks,
    ),
    # A mapping costs the kernel some 250 B: vm_area_struct and its share of the tree.
    cost=Cost(
        memory=lambda at: 256 * MIB if at["check"] == "max_map_count" else 16 * MIB,
        time=lambda at: 1.0 if at["check"] == "max_map_count" else 0.01,
    ),
    tiny={"check": ["mlock", "mlock_middle", "fork_child"]},
    judges={"miao-2021": ["1"]},
    claims=check_claims(CHECKS),
    figure=Checks("vma_count", over="check", by=()),
)
