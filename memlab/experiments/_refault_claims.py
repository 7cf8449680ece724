"""What madvise-refault claims: the article's states 0 to 3, and beside them madvise(2)'s words."""

import errno
import signal

from memlab.experiment import Claim, Outcome
from memlab.experiments._check_claims import of

PAGES = 23  # of VMA0, and of the range in most checks
PRESENT = 10  # of them written in states 0 and 1
ABSENT = PAGES - PRESENT
RELEASED = 11  # of them given back in state 2
LOCKED = 7
MAPERR, ACCERR = 1, 2  # si_code of SIGSEGV, sigaction(2)

ALLOCATION = "the steps of allocation"
STATE_0 = "state 0"
STATE_1 = "state 1"
STATE_2 = "state 2"
STATE_3 = "state 3"
MAN = "madvise(2)"
MMAP = "mmap(2)"
MPROTECT = "mprotect(2)"
SMAPS = "proc(5), LazyFree"
OWN = "memlab's own"


def faults(check: str, count: int, text: str, published: str) -> list[Claim]:
    """By rusage and as exceptions: a touch takes no fault without one."""
    how = "each fault an exception" if count else "and takes no exception"
    return [
        of(check, "minor_faults", count, text, published),
        of(check, "trapped", count, f"{text}, {how}", published),
    ]


def segv(check: str, code: int, after: str, published: str) -> list[Claim]:
    why = "SEGV_MAPERR, nothing is mapped" if code == MAPERR else "SEGV_ACCERR, no access"
    text = f"after {after} every touch is a segmentation fault"
    number = f"after {after} a touch is signal 11"
    return [
        of(check, "signal_count", PAGES, text, published),
        of(check, "signal", signal.SIGSEGV, number, published),
        of(check, "signal_code", code, f"after {after} its code is {why}", "sigaction(2)"),
    ]


_ARTICLE: list[Claim] = [
    of("state_0", "vma_count", 2, "mmap gives ranges of addresses, VMA0 and VMA1", STATE_0),
    of("state_0", "resident_pages", PRESENT, "some addresses have a page, others none", STATE_0),
    *faults("state_0", 0, "an address that has its page does not fault", ALLOCATION),
    *faults("state_1", ABSENT, "the first touch of an address without a page faults", STATE_1),
    of("state_1", "resident_pages_touched", PAGES, "the kernel gives it a page", STATE_1),
    of("state_2", "resident_pages", PAGES - RELEASED, "DONTNEED frees its pages at once", STATE_2),
    *faults("state_2", RELEASED, "the next touch of a released page faults, no other", STATE_2),
    of("state_2", "resident_pages_touched", PAGES, "it is given a page again", STATE_2),
    of("state_2", "vma_count", 2, "DONTNEED leaves the VMAs", STATE_2),
    of("state_2", "zero_pages", RELEASED, "a released page comes back as zeros", MAN),
    of("state_2", "kept_pages", PAGES - RELEASED, "the pages beside it keep their bytes", MAN),
    of("state_3", "vma_count", 1, "munmap takes away the VMA", STATE_3),
    of("state_3", "resident_pages", 0, "munmap frees its pages", STATE_3),
    *segv("state_3", MAPERR, "munmap", STATE_3),
    Outcome(
        text="a process that does not handle the signal is killed by it",
        metric="vma_count",
        where={"check": "state_3_unhandled"},
        outcome="sigsegv",
        published=STATE_3,
    ),
]

_DONTNEED: list[Claim] = [
    of("dontneed", "resident_pages_before", PAGES, "what is written is present", MMAP),
    of("dontneed", "resident_pages", 0, "DONTNEED takes RSS to 0 at once", MAN),
    of("dontneed", "vma_count", 1, "DONTNEED of a whole VMA leaves it", MAN),
    *faults("dontneed", PAGES, "a load from the range faults once a page", MAN),
    of("dontneed", "zero_pages", PAGES, "anonymous memory comes back as zeros", MAN),
    of("dontneed", "resident_pages_touched", 0, "the shared page of zeros is not counted", OWN),
    *faults("dontneed_write", PAGES, "a store to the range faults once a page", MAN),
    of("dontneed_write", "resident_pages_touched", PAGES, "and is given a page each time", MAN),
    of(
        "dontneed_private_file",
        "resident_pages",
        0,
        "DONTNEED takes a private file mapping as well",
        MAN,
    ),
    *faults("dontneed_private_file", PAGES, "a store to the private file faults once a page", MAN),
    of(
        "dontneed_private_file",
        "file_pages",
        PAGES,
        "the file's bytes are back, private changes lost",
        MAN,
    ),
    of(
        "dontneed_shared_file",
        "resident_pages",
        0,
        "DONTNEED takes a shared file mapping as well",
        MAN,
    ),
    *faults("dontneed_shared_file", PAGES, "a store to the shared file faults once a page", MAN),
    of("dontneed_shared_file", "kept_pages", PAGES, "what was written is in the file", MAN),
    of("dontneed_of_locked", "call_errno", errno.EINVAL, "DONTNEED refuses locked pages", MAN),
    of("dontneed_of_locked", "kept_pages", LOCKED, "and leaves their bytes", MAN),
    of("dontneed_locked", "call_errno", 0, "MADV_DONTNEED_LOCKED takes locked pages", MAN),
    of("dontneed_locked", "resident_pages", 0, "MADV_DONTNEED_LOCKED frees them at once", MAN),
    *faults("dontneed_locked", LOCKED, "a store to what was locked faults once a page", MAN),
    of("dontneed_locked", "zero_pages", LOCKED, "locked pages come back as zeros", MAN),
]

_FREE: list[Claim] = [
    of("free", "resident_pages", PAGES, "MADV_FREE leaves RSS until memory is short", MAN),
    of("free", "lazy_free_pages", PAGES, "every page is marked, LazyFree", SMAPS),
    of("free", "kept_or_zero_pages", PAGES, "a load gives the old bytes or zeros", MAN),
    *faults("free", 0, "without reclaim a load does not fault", OWN),
    *faults("free_write", 0, "without reclaim a store does not fault", OWN),
    of("free_write", "lazy_free_pages", PAGES, "every page is marked before the store", SMAPS),
    of("free_write", "lazy_free_pages_touched", 0, "a store takes the mark off", MAN),
    of("free_write", "resident_pages_touched", PAGES, "a page that is written stays", MAN),
    of("free_reclaimed", "resident_pages", 0, "reclaim drops what is marked, without swap", MAN),
    *faults("free_reclaimed", PAGES, "then a load faults once a page", OWN),
    of("free_reclaimed", "zero_pages", PAGES, "then a load gives zeros", MAN),
    of("free_private_file", "call_errno", errno.EINVAL, "MADV_FREE refuses a private file", MAN),
    of("free_private_file", "kept_pages", PAGES, "private pages of a file are left alone", MAN),
    of("free_shared_file", "call_errno", errno.EINVAL, "MADV_FREE refuses a shared file", MAN),
    of("free_shared_file", "kept_pages", PAGES, "a shared file is left alone", MAN),
]

_NEIGHBOURS: list[Claim] = [
    of("cold", "resident_pages", PAGES, "MADV_COLD leaves RSS", MAN),
    of("cold", "kept_pages", PAGES, "MADV_COLD keeps the bytes", MAN),
    *faults("cold", 0, "a cold page does not fault", OWN),
    of("pageout", "kept_pages", PAGES, "MADV_PAGEOUT keeps the bytes, with and without swap", MAN),
    *segv("munmap_private_file", MAPERR, "munmap of a private file mapping", MMAP),
    *segv("munmap_shared_file", MAPERR, "munmap of a shared file mapping", MMAP),
    *segv("mprotect_none", ACCERR, "mprotect(PROT_NONE)", MPROTECT),
    of("mprotect_back", "resident_pages", PAGES, "PROT_NONE leaves the pages", OWN),
    of("mprotect_back", "kept_pages", PAGES, "with access again the bytes are there", MPROTECT),
    *faults("mprotect_back", 0, "with access again a load does not fault", OWN),
]

CLAIMS = [*_ARTICLE, *_DONTNEED, *_FREE, *_NEIGHBOURS]
