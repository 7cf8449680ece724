"""madvise-refault: what madvise, munmap and mprotect leave, and what a touch then meets.

The last step of a check is the touch, and the one before it is the call that is checked.
"""

import errno
import signal

from memlab.experiment import *
from memlab.experiments._vm_script import *
from memlab.text.printable import signal_name

MIB = 2**20
PROT_NONE = Prot(0)
MAPERR, ACCERR = 1, 2  # si_code of SIGSEGV, sigaction(2)
_CODES = {MAPERR: "SEGV_MAPERR", ACCERR: "SEGV_ACCERR"}

ALLOCATION = "the steps of allocation"
STATE_0 = "state 0"
STATE_1 = "state 1"
STATE_2 = "state 2"
STATE_3 = "state 3"
MAN = "madvise(2)"
MMAP = "mmap(2)"
MPROTECT = "mprotect(2)"
SMAPS = "proc(5), LazyFree"
SEAL = "userspace-api/mseal.rst"
DROP = "commit 9651fcedf7b9, MAP_DROPPABLE"
OWN = "memlab's own"


def faults(count: int, source: str, sentence: str) -> list[Claim]:
    """By rusage and as exceptions: a touch takes no fault without one."""
    how = "by exceptions" if count else "no exception"
    return [
        reads("minor_faults", count, source, sentence),
        reads("trapped", count, source, f"{sentence}, {how}"),
    ]


def segv(code: int, source: str, after: str) -> list[Claim]:
    """Every touch of the 23 pages is one."""
    why = "SEGV_MAPERR" if code == MAPERR else "SEGV_ACCERR"
    return [
        reads("signal_count", 23, source, f"after {after} every touch is a SIGSEGV"),
        reads("signal", signal.SIGSEGV, source, f"after {after} a touch is signal 11"),
        reads("signal_code", code, "sigaction(2)", f"after {after} its code is {why}"),
    ]


WRITTEN = mmap(0, 23), fill(0, 23)
TWO_VMAS = mmap(0, 23), mmap(25, 5), fill(0, 23)
PRIVATE_FILE = mmap(0, 23, READ_WRITE, Map.PRIVATE), fill(0, 23)
SHARED_FILE = mmap(0, 23, READ_WRITE, Map.SHARED), fill(0, 23)
DROPPABLE_WRITTEN = mmap(0, 23, READ_WRITE, DROPPABLE), fill(0, 23)
LOCKED = mmap(0, 7), fill(0, 7), mlock(0, 7)

# fmt: off
CHECKS = [
    check("state_0", [mmap(0, 23), fill(0, 10), mmap(25, 5), load(0, 10)],
          reads("vma_count", 2, STATE_0, "mmap gives ranges of addresses, VMA0 and VMA1"),
          reads("resident_pages", 10, STATE_0, "some addresses have a page, others none"),
          *faults(0, ALLOCATION, "an address that has its page does not fault")),
    check("state_1", [mmap(0, 23), fill(0, 10), mmap(25, 5), store(10, 13)],
          *faults(13, STATE_1, "the first touch of an address without a page faults"),
          reads("resident_pages_touched", 23, STATE_1, "the kernel allocates a page")),
    check("state_2", [*TWO_VMAS, madvise(0, 11, Madv.DONTNEED), store(0, 23)],
          reads("resident_pages", 12, STATE_2, "DONTNEED frees its pages at once"),
          *faults(11, STATE_2, "the next touch of a released page faults, no other"),
          reads("resident_pages_touched", 23, STATE_2, "a touched page is present again"),
          reads("vma_count", 2, STATE_2, "DONTNEED leaves the VMAs"),
          reads("zero_pages", 11, MAN, "a released page comes back as zeros"),
          reads("kept_pages", 12, MAN, "the pages beside it keep their bytes")),
    check("state_3", [*TWO_VMAS, munmap(0, 23), load(0, 23)],
          reads("vma_count", 1, STATE_3, "munmap takes away the VMA"),
          reads("resident_pages", 0, STATE_3, "munmap frees its pages"),
          *segv(MAPERR, STATE_3, "munmap")),
    check("state_3_unhandled", [*TWO_VMAS, munmap(0, 23), load_unhandled(0, 23)],
          Outcome(id="killed", text="a process that does not handle the signal is killed by it",
                  metric="vma_count", outcome="sigsegv", published=STATE_3)),
    check("dontneed", [*WRITTEN, madvise(0, 23, Madv.DONTNEED), load(0, 23)],
          reads("resident_pages_before", 23, MMAP, "what is written is present"),
          reads("resident_pages", 0, MAN, "DONTNEED takes RSS to 0 at once"),
          reads("vma_count", 1, MAN, "DONTNEED of a whole VMA leaves it"),
          *faults(23, MAN, "a load from the range faults once a page"),
          reads("zero_pages", 23, MAN, "anonymous memory comes back as zeros"),
          reads("resident_pages_touched", 0, OWN, "the zero page does not count as resident")),
    check("dontneed_write", [*WRITTEN, madvise(0, 23, Madv.DONTNEED), store(0, 23)],
          *faults(23, MAN, "a store to the range faults once a page"),
          reads("resident_pages_touched", 23, MAN, "a store gives each page back")),
    check("dontneed_private_file", [*PRIVATE_FILE, madvise(0, 23, Madv.DONTNEED), store(0, 23)],
          reads("resident_pages", 0, MAN, "DONTNEED takes a private file mapping as well"),
          *faults(23, MAN, "a store to the private file faults once a page"),
          reads("file_pages", 23, MAN, "the file's bytes are back, private changes lost")),
    check("dontneed_shared_file", [*SHARED_FILE, madvise(0, 23, Madv.DONTNEED), store(0, 23)],
          reads("resident_pages", 0, MAN, "DONTNEED takes a shared file mapping as well"),
          *faults(23, MAN, "a store to the shared file faults once a page"),
          reads("kept_pages", 23, MAN, "what was written is in the file")),
    check("dontneed_of_locked", [*LOCKED, madvise(0, 7, Madv.DONTNEED), load(0, 7)],
          reads("call_errno", errno.EINVAL, MAN, "DONTNEED refuses locked pages"),
          reads("kept_pages", 7, MAN, "DONTNEED that is refused leaves the bytes")),
    check("dontneed_locked", [*LOCKED, madvise(0, 7, Madv.DONTNEED_LOCKED), store(0, 7)],
          reads("call_errno", 0, MAN, "MADV_DONTNEED_LOCKED takes locked pages"),
          reads("resident_pages", 0, MAN, "MADV_DONTNEED_LOCKED frees them at once"),
          *faults(7, MAN, "a store to what was locked faults once a page"),
          reads("zero_pages", 7, MAN, "locked pages come back as zeros")),
    check("free", [*WRITTEN, madvise(0, 23, Madv.FREE), load(0, 23)],
          reads("resident_pages", 23, MAN, "MADV_FREE leaves RSS until memory is short"),
          reads("lazy_free_pages", 23, SMAPS, "every page is marked, LazyFree"),
          reads("kept_or_zero_pages", 23, MAN, "a load gives the old bytes or zeros"),
          *faults(0, OWN, "without reclaim a load does not fault")),
    check("free_write", [*WRITTEN, madvise(0, 23, Madv.FREE), store(0, 23)],
          *faults(0, OWN, "without reclaim a store does not fault"),
          reads("lazy_free_pages", 23, SMAPS, "every page is marked before the store"),
          reads("lazy_free_pages_touched", 0, MAN, "a store takes the mark off"),
          reads("resident_pages_touched", 23, MAN, "a page that is written stays")),
    check("free_reclaimed", [*WRITTEN, madvise(0, 23, Madv.FREE), madvise(0, 23, Madv.PAGEOUT),
                             load(0, 23)],
          reads("resident_pages", 0, MAN, "reclaim drops what is marked, without swap"),
          *faults(23, OWN, "after reclaim a load faults once a page"),
          reads("zero_pages", 23, MAN, "after reclaim a load gives zeros")),
    check("free_private_file", [*PRIVATE_FILE, madvise(0, 23, Madv.FREE), load(0, 23)],
          reads("call_errno", errno.EINVAL, MAN, "MADV_FREE refuses a private file"),
          reads("kept_pages", 23, MAN, "private pages of a file are left alone")),
    check("free_shared_file", [*SHARED_FILE, madvise(0, 23, Madv.FREE), load(0, 23)],
          reads("call_errno", errno.EINVAL, MAN, "MADV_FREE refuses a shared file"),
          reads("kept_pages", 23, MAN, "a shared file is left alone")),
    check("cold", [*WRITTEN, madvise(0, 23, Madv.COLD), load(0, 23)],
          reads("resident_pages", 23, MAN, "MADV_COLD leaves RSS"),
          reads("kept_pages", 23, MAN, "MADV_COLD keeps the bytes"),
          *faults(0, OWN, "a cold page does not fault")),
    check("pageout", [*WRITTEN, madvise(0, 23, Madv.PAGEOUT), load(0, 23)],
          reads("kept_pages", 23, MAN, "MADV_PAGEOUT keeps the bytes, with and without swap")),
    check("populate_write", [mmap(0, 23), madvise(0, 23, Madv.POPULATE_WRITE), store(0, 23)],
          reads("resident_pages", 23, MAN, "MADV_POPULATE_WRITE brings in every page"),
          *faults(0, MAN, "after MADV_POPULATE_WRITE a store does not fault")),
    check("populate_read", [mmap(0, 23), madvise(0, 23, Madv.POPULATE_READ), store(0, 23)],
          reads("resident_pages", 0, OWN, "MADV_POPULATE_READ maps the zero page, not resident"),
          *faults(23, MAN, "after MADV_POPULATE_READ a store faults once a page")),
    check("guard", [*WRITTEN, madvise(0, 23, Madv.GUARD_INSTALL), load(0, 23)],
          reads("resident_pages", 0, MAN, "MADV_GUARD_INSTALL frees its pages at once"),
          reads("vma_count", 1, MAN, "a guard needs no VMA of its own"),
          *segv(MAPERR, MAN, "MADV_GUARD_INSTALL")),
    check("guard_removed", [*WRITTEN, madvise(0, 23, Madv.GUARD_INSTALL),
                            madvise(0, 23, Madv.GUARD_REMOVE), store(0, 23)],
          *faults(23, MAN, "after MADV_GUARD_REMOVE a store faults once a page"),
          reads("zero_pages", 23, MAN, "after MADV_GUARD_REMOVE the memory is zeros")),
    check("droppable_pageout", [*DROPPABLE_WRITTEN, madvise(0, 23, Madv.PAGEOUT), load(0, 23)],
          reads("resident_pages", 0, DROP, "reclaim drops a MAP_DROPPABLE mapping without swap"),
          reads("zero_pages", 23, DROP, "a dropped page comes back as zeros")),
    check("munmap_sealed", [*WRITTEN, mseal(0, 23), munmap(0, 23), load(0, 23)],
          reads("call_errno", errno.EPERM, SEAL, "munmap of a sealed mapping is refused"),
          reads("kept_pages", 23, SEAL, "a refused munmap leaves the bytes")),
    check("dontneed_sealed", [*WRITTEN, mseal(0, 23), madvise(0, 23, Madv.DONTNEED),
                              load(0, 23)],
          reads("zero_pages", 23, SEAL, "DONTNEED discards a sealed mapping that is writable")),
    check("dontneed_sealed_read", [*WRITTEN, mprotect(0, 23, Prot.READ), mseal(0, 23),
                                   madvise(0, 23, Madv.DONTNEED), load(0, 23)],
          reads("call_errno", errno.EPERM, SEAL, "DONTNEED of what is sealed and read-only is "
                "refused"),
          reads("kept_pages", 23, SEAL, "a refused DONTNEED leaves the bytes")),
    check("child_writes_shared", [mmap(0, 23, READ_WRITE, Map.SHARED), fill_in_child(0, 23),
                                  load(0, 23)],
          reads("kept_pages", 23, MMAP, "what a child writes to a shared mapping its parent "
                "reads")),
    check("child_writes_private", [mmap(0, 23, READ_WRITE, Map.PRIVATE), fill_in_child(0, 23),
                                   load(0, 23)],
          reads("file_pages", 23, MMAP, "what a child writes to a private mapping its parent does "
                "not read")),
    check("munmap_private_file", [*PRIVATE_FILE, munmap(0, 23), load(0, 23)],
          *segv(MAPERR, MMAP, "munmap of a private file mapping")),
    check("munmap_shared_file", [*SHARED_FILE, munmap(0, 23), load(0, 23)],
          *segv(MAPERR, MMAP, "munmap of a shared file mapping")),
    check("mprotect_none", [*WRITTEN, mprotect(0, 23, PROT_NONE), load(0, 23)],
          *segv(ACCERR, MPROTECT, "mprotect(PROT_NONE)")),
    check("mprotect_back", [*WRITTEN, mprotect(0, 23, PROT_NONE), mprotect(0, 23, READ_WRITE),
                            load(0, 23)],
          reads("resident_pages", 23, OWN, "PROT_NONE leaves the pages"),
          reads("kept_pages", 23, MPROTECT, "with access again the bytes are there"),
          *faults(0, OWN, "with access again a load does not fault")),
]
# fmt: on


def touch_ended(raw: Raw) -> str:
    """`23 faults by rusage, 23 trapped`, or the signal that every touch ended in."""
    if raw["signal_count"]:
        code = _CODES.get(raw["signal_code"], f"si_code {raw['signal_code']}")
        return f"{raw['signal_count']} x {signal_name(raw['signal'])}, {code}"
    window = raw["window"]
    faults = window["minor_fault_count"] + window["major_fault_count"]
    trapped = window["counters"]["trapped"]
    counted = trapped["error"] or f"{trapped['count']} trapped"
    return f"{faults} faults by rusage, {counted}"


def evidence(raw: Raw, at: At) -> str:
    """The calls and the lines of smaps around the last one, then the touch and those after it."""
    *calls, touch = steps(raw) + [raw[name] for name in ("touch",) if name in raw]
    ended = f"{touch}: {touch_ended(raw)}"
    return "\n".join([call_evidence(raw, calls), ended, smaps(raw, "touched")])


METRICS = (
    ("vma_count", "VMAs in the range; after the call", F.after.vma_count),
    ("vma_count_before", "VMAs in the range before the call", F.before.vma_count),
    ("resident_pages", "resident pages; after the call", pages("rss")),
    ("resident_pages_before", "resident pages before the call", pages("rss", "before")),
    ("resident_pages_touched", "resident pages after the touch", pages("rss", "touched")),
    ("lazy_free_pages", "pages marked by MADV_FREE; LazyFree in smaps", pages("lazy_free")),
    (
        "lazy_free_pages_touched",
        "pages marked by MADV_FREE after the touch",
        pages("lazy_free", "touched"),
    ),
    ("call_errno", "errno of the call; 0: it succeeded", F.call_errno),
    ("zero_pages", "touched pages that read zero", F.zero_count),
    ("kept_pages", "touched pages as written before the call", F.kept_count),
    ("file_pages", "touched pages as the file was", F.file_count),
    (
        "kept_or_zero_pages",
        "touched pages that read zero or are as written before the call",
        F.kept_count + F.zero_count,
    ),
    ("signal_count", "touches that ended in a signal", F.signal_count),
    ("signal", "signal number; of those touches", F.signal),
    ("signal_code", "si_code of the signal; 1 SEGV_MAPERR, 2 SEGV_ACCERR", F.signal_code),
)

EXPERIMENT = Experiment(
    name="madvise-refault",
    question="What do madvise, munmap and mprotect leave of memory, and does a touch then fault?",
    so=[
        Decision(
            "dontneed-resident-pages-0",
            "use MADV_DONTNEED if memory is to be free at once: each page faults again at its next "
            "touch",
            "MADV_DONTNEED does not free memory at once here",
        ),
        Decision(
            "free-resident-pages-23",
            "use MADV_FREE if pages may stay until memory is short: RSS does not fall meanwhile",
            "MADV_FREE frees memory at once here",
        ),
    ],
    probe="madvise_refault",
    factors=[
        check_factor(
            CHECKS,
            help="check; named by the call that is checked and the memory that it is made on. "
            "state_0 to state_3 are the published states; the others are on anonymous memory, "
            "unless a file is named",
        ),
    ],
    metrics=counts(evidence, METRICS),
    cost=Cost(memory=lambda _: 16 * MIB, time=lambda _: 0.01),
    tiny={"check": ["state_2", "dontneed", "free"]},
    judges={"jemalloc-madvise": ["states"]},
    claims=check_claims(CHECKS),
    figure=Checks("vma_count", over="check", by=()),
)
