"""Programs that make what people opened threads about, and ones that look alike: what a look of
two seconds says of each. None of them is about to be killed unless it says so, and no look says
`critical` of any other."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pids_group import pids_group
from unseen import KIND_BYTES

from memlab.diagnose import diagnosis
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.finding import CRITICAL, Finding
from memlab.errors import CannotLook
from memlab.observe import files, proc

from .live import SOURCES, Compiled, first_on_a_cpu, kept_waiting_s, running
from .test_live import small_group

MiB = 1 << 20
ROOT = os.geteuid() == 0


@dataclass(frozen=True)
class Case:
    """A program, and what is to be said of it."""

    program: str
    arguments: tuple[str, ...] = ()
    group: int | None = None
    """The limit of a memory cgroup that it is put into."""
    pids: int | None = None
    """The limit of a cgroup of processes that it is put into."""
    said: str | None = None
    """The name of the finding; None where nothing is worth saying."""
    words: str = ""
    """A pattern of its title."""
    never: tuple[str, ...] = ()
    """Names of findings that would be wrong."""
    critical: bool = False
    needs_root: bool = False
    """Tracepoints, page flags, and what else a user does not see."""
    seconds: float = 2.0
    quick: bool = field(default=False)
    moves: bool = False
    """It may take and give back more while its page tables are read than a remainder may be."""

    @property
    def id(self) -> str:
        return "-".join((self.program, *self.arguments))


RETURNS = ("glibc-trims", "gives-memory-back", "gives-back-large-pieces", "malloc-gives-back")
FILLS = ("group-limit-nears", "growing")
CASES = (
    Case("names", group=64 * MiB, said="group-slab|group-full-of-droppable",
         words=r"directory entries and inodes of the kernel \(reclaimable slab\)",
         never=FILLS, needs_root=True),
    Case("lazyfree", said="lazyfree", words=r"of 6[45][.\d]* MiB resident are LazyFree",
         never=("growing", "retained"), needs_root=True, quick=True),
    Case("lazyfree", ("-", "2"), said="lazyfree", words=r"of 1(29|3[0-4])[.\d]* MiB resident",
         needs_root=True),
    Case("dontneed_once", never=("lazyfree", "growing", *RETURNS)),
    Case("snapshot", said="copies-after-fork", words="copies the page tables of 64",
         never=("page-faults", "growing", *RETURNS), needs_root=True),
    Case("lock_limit", said="lock-limit-refuses", words="EAGAIN.*of 8 MiB are locked",
         critical=True, needs_root=True, quick=True),
    Case("served", said="served-by-userfaultfd", words="wait for a handler in user space",
         never=("reads-files", "reads-swap", *RETURNS), needs_root=True),
    Case("uffd_unused", never=("served-by-userfaultfd",)),
    Case("sawtooth", ("-", "quick"), said="swings", words="between 1[.0-9]+ MiB and [45]",
         never=FILLS, moves=True),
    # The look is shorter than the swing: nothing that it cannot know is said.
    Case("sawtooth", group=96 * MiB, never=("group-limit-nears",), needs_root=True, moves=True),
    Case("prefork", said="unshared", words="becomes private by", never=("page-faults", "growing"),
         needs_root=True),
    Case("prefork", ("-", "reads"), never=("unshared", "growing")),
    Case("pin", ("-", "3"), said="locked", words="24 MiB are locked, 24 MiB of it resident, shared "
         "by about 4", needs_root=True),
    Case("pin", ("-", "0"), said="locked", words="24 MiB are locked, 24 MiB of it resident: ",
         needs_root=True),
    Case("loader", said="growing", words="first touches, nothing is given back", never=RETURNS,
         needs_root=True),
    Case("leak", said="growing", words="in every part of the look", never=("unshared", *RETURNS),
         seconds=4),
    Case("fills", (str(56 * MiB), str(40 * MiB)), group=96 * MiB, said="growing",
         words="its mappings have room for .* more", never=("group-limit-nears",), needs_root=True),
    # On a busy machine the group may stand still in a part of the look: then its process says so.
    Case("fills", (str(256 * MiB), str(46 * MiB)), group=52 * MiB,
         said="group-limit-nears|growing", words="the process can fill .* more, the group has room "
         "for|its group .* has room for", critical=True, needs_root=True),
    Case("page_cache", group=32 * MiB, said="group-limit-drops-files|group-full-of-droppable",
         never=(*FILLS, "group-nearly-full"), needs_root=True),
    Case("pingpong", said="gives-memory-back|gives-back-large-pieces",
         words="page faults per second on it",
         never=("growing", "page-faults", "copies-after-fork"), needs_root=True),
    Case("pingpong", ("-", "large"), said="gives-back-large-pieces|gives-memory-back|swings",
         never=("growing", "page-faults"), needs_root=True, moves=True),
    Case("mappings", ("-", "700"), said="mappings-limit-nears", words=r"vm.max_map_count"),
    Case("mappings", ("-", "994"), said="mappings-limit-nears", words="99 %", critical=True,
         quick=True),
    Case("mappings", ("-", "300"), never=("mappings-limit-nears",)),
    Case("shm", said="shared-memory", words="48 MiB are shared memory .memfd.*go when the last"),
    Case("meets_shared", said="touches-shared", words="there already .* of 128 MiB touched",
         never=("growing",), needs_root=True, quick=True),
    Case("meets_shared", ("-", "new"), said="growing", never=("touches-shared",), seconds=1),
    Case("meets_shared", ("-", "sysv"), said="segments-removed", words="24 MiB lie in 3 segments",
         never=("growing", "segments-left"), needs_root=True, quick=True),
    Case("shm", ("unmapped",), group=64 * MiB, said="group-tmpfs",
         words="48[.0-9]* MiB of the group's .* are tmpfs, shared memory or memfd",
         never=FILLS, needs_root=True),
    Case("sparse", said="page-tables", words="16[.0-9]* MiB are page tables"),
    Case("sparse", ("-", "dense"), never=("page-tables",)),
    Case("bloat", said="huge-pages-unused", words=r"of [1-4]\d(\.\d+)? MiB in huge pages are "
         "zeros"),
    Case("bloat", ("-", "used"), never=("huge-pages-unused",)),
    Case("files", said="files-refused", words="EMFILE.*64 of 64", needs_root=True),
    Case("address_space", said="memory-refused", words="ENOMEM.*RLIMIT_AS", needs_root=True),
    Case("processes", said="threads-refused", words="EAGAIN.*RLIMIT_NPROC", critical=True,
         needs_root=True),
    Case("main_stack", said="main-stack-grows", words="by page faults though memory is locked",
         needs_root=True),
    Case("write_protect", said="changes-protection", never=("copies-after-fork", *RETURNS),
         needs_root=True),
    # What is held lies in its children: the process itself has 1 MiB.
    Case("children", said="children-hold", words=r"96[.\d]* MiB of anonymous memory are held "
         "by its 2 descendant processes and not by it", never=("unshared", "growing"),
         needs_root=True, quick=True),
    Case("children", ("-", "leaks"), said="children-grow",
         words="its 2 descendant processes grew by", needs_root=True),
    Case("zeros", said="reads-zeros", words="reads of memory that nobody wrote",
         never=("page-faults", "growing", *RETURNS), needs_root=True),
    Case("arenas", said="retained", words="7[45][.0-9]* MiB, 9[0-9] % of its anonymous memory, "
         "are free in malloc's 5 arenas", never=("growing",)),
    Case("hugetlb", said="memory-refused", words=r"huge pages \(MAP_HUGETLB\),.* of which the "
         "pool has", needs_root=True, quick=True),
    Case("reads", group=48 * MiB, said="group-reads-again", words="are page cache: dropped",
         never=(*FILLS, "group-nearly-full"), needs_root=True),
    Case("fsync", never=("reads-files",)),
    Case("dirties", never=("waits-for-files", "copies-after-fork", *RETURNS)),
    Case("fills_lock", said="waits-for-mappings", words="wait for a kernel semaphore, as the "
         "mmap_lock", needs_root=True, moves=True),
    Case("pymalloc.py", said="retained-inside", words="are free in Python's pools, between",
         never=("growing", "retained"), needs_root=True),
    Case("pymalloc.py", ("-", "none"), never=("held-beside-malloc", "retained-inside", "growing")),
    Case("shm", ("-", "unmapped"), said="held-open", words="48 MiB lie in memfd", quick=True),
    Case("refused_forks", pids=8, said="threads-refused", words=r"EAGAIN: .*8 of 8 \(pids.max\)",
         critical=True, needs_root=True, quick=True),
    Case("refused_forks", ("vfork",), pids=8, said="threads-refused",
         words=r"EAGAIN: .*8 of 8 \(pids.max\)", critical=True, needs_root=True),
    Case("data_limit", said="memory-refused", words=r"ENOMEM: .*of 32 MiB \(RLIMIT_DATA\)",
         needs_root=True),
    Case("no_mappings_left", said="memory-refused", words=r"ENOMEM: .*\(vm.max_map_count\)",
         critical=True, needs_root=True),
    Case("mlocks", said="lock-refused", words="mlock is refused: .* of 64 KiB are locked",
         needs_root=True, quick=True),
    Case("truncated", said="bus-errors", words="is mapped up to 1 MiB and is 4 KiB long",
         needs_root=True, quick=True),
    Case("left_behind", said="segments-left", words="24 MiB lie in 1 segment of System V",
         quick=True),
    Case("left_behind", group=64 * MiB, said="group-tmpfs",
         words="System V segments? that no process attaches holds? ", never=FILLS, needs_root=True),
    Case("left_behind", ("posix",), group=64 * MiB, said="group-tmpfs",
         words="24[.0-9]* MiB of the group's .* are tmpfs", never=FILLS, needs_root=True),
    Case("reserved", group=96 * MiB, never=("swings", "limit-nears", "group-nearly-full", *FILLS),
         needs_root=True),
    Case("spawns", never=("copies-after-fork", "growing")),
    Case("short_lived", said="children-fault", words=r"children that it waited for took .* "
         r"faults each; it took", never=("page-faults", "first-touches"), needs_root=True),
    Case("never_closed", never=("growing", "retained", *RETURNS)),
    Case("floor", said="swings|growing", never=("group-limit-nears",), moves=True),
    Case("pipes", group=64 * MiB, never=("group-full-of-droppable", *FILLS), needs_root=True),
    Case("own_copy", never=("copies-after-fork", "page-faults", *RETURNS)),
    Case("recursion", said="limit-nears", words="RLIMIT_STACK, 9[0-9] %", quick=True),
)  # fmt: skip


@contextmanager
def started(case: Case, binary: Compiled) -> Iterator[int]:
    """The program of a case, in its group."""
    if case.needs_root and not ROOT:
        pytest.skip("run as root: an ordinary user sees neither tracepoints nor page flags")
    with ExitStack() as stack:
        words = list(case.arguments)
        if case.pids:
            pids = stack.enter_context(pids_group(case.pids))
            words = [str(pids / "cgroup.procs"), *words]
        if case.group:
            group = stack.enter_context(small_group(case.group))
            words = [str(group / "cgroup.procs"), *words]
        name = f"asked/{case.program}"
        python = (sys.executable, SOURCES / name)
        command = python if name.endswith(".py") else (binary(name),)
        program = stack.enter_context(running(*first_on_a_cpu(), *command, *(words or ["-"])))
        yield program.pid


def found_in(case: Case, found: Diagnosis) -> list[Finding]:
    return [one for one in found.findings if one.name in (case.said or "").split("|")]


def said(found: Diagnosis) -> str:
    return "; ".join(f"{f.severity.name.lower()} {f.name}: {f.title}" for f in found.findings)


def unseen(found: Diagnosis) -> str:
    return "; ".join(one.reason for one in found.not_looked_at)


@pytest.mark.seconds(but="meets_shared---sysv")
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.id, marks=() if c.quick else pytest.mark.slow) for c in CASES],
)
def test_what_a_look_says(case: Case, binary: Compiled) -> None:
    if case.program in ("bloat",) and files.choice(_THP) == "never":
        pytest.skip("this machine has huge pages turned off")
    seconds = 0.5 if case.quick else case.seconds
    with started(case, binary) as pid:
        before_s = kept_waiting_s(pid)
        try:
            found = diagnosis.of(pid, seconds)
        except CannotLook as refused:  # some programs become another user, to meet its limits
            if "CAP_SYS_PTRACE is needed" in str(refused):
                pytest.skip(str(refused))
            raise
        waited_s = kept_waiting_s(pid) - before_s
    if "run as root" in unseen(found) and case.needs_root:
        pytest.skip(unseen(found))
    critical = [one.name for one in found.findings if one.severity is CRITICAL]
    assert bool(critical) <= case.critical, said(found)
    wrong = {one.name for one in found.findings} & set(case.never)
    first = found_in(case, found)
    if wrong or (case.said and not (first and re.search(case.words, first[0].title))):
        if waited_s > 0.1 * seconds:
            pytest.skip(f"a busy machine: it waited {waited_s:.2f} s of {seconds} s for a CPU")
        pytest.fail(f"{sorted(wrong)} are wrong, {case.said} is right: {said(found)}")
    # Each account adds up: its lines and its rest are its total.
    for account in found.accounts:
        if account.total is not None:
            parts = sum(line.value for line in account.lines if line.part_of is None)
            assert parts + account.rest == pytest.approx(account.total)
    stock = found.accounts[0]
    assert case.moves or abs(stock.rest) <= 4 * MiB + 2 * KIND_BYTES, stock


_THP = proc.ROOT / "sys/kernel/mm/transparent_hugepage/enabled"


@pytest.mark.slow
def test_a_group_says_what_no_process_holds(binary: Compiled) -> None:
    """48 MiB of a memfd that nobody maps, and three workers that lose what they share."""
    if not ROOT:
        pytest.skip("run as root: a memory cgroup is made")
    with small_group(256 * MiB) as group, ExitStack() as stack:
        procs = str(group / "cgroup.procs")
        stack.enter_context(running(binary("asked/shm"), procs, "unmapped"))
        stack.enter_context(running(binary("asked/prefork"), procs))
        found = diagnosis.of_group(str(group), 2)
    lines = {line.name: line.value for line in found.accounts[0].lines}
    assert lines["tmpfs, shared memory"] == pytest.approx(48 * MiB, abs=4 * MiB)
    assert abs(found.accounts[0].rest) < 4 * MiB + 2 * KIND_BYTES
    names = [one.name for one in found.findings]
    assert {"unshared", "group-tmpfs"} <= set(names)
    assert not [one for one in found.findings if one.severity is CRITICAL]


@pytest.mark.needs("flags of pages")
def test_exact_pages_of_a_known_program(binary: Compiled) -> None:
    """Anonymous memory that three others share since a fork, to the page."""
    from memlab.diagnose import pages
    from memlab.observe import process

    with started(Case("prefork", ("-", "reads")), binary) as pid:
        seen, status = pages.read(pid, process.maps(pid))
    assert seen.shared_bytes is not None
    assert seen.shared_bytes == pytest.approx(64 * MiB, rel=0.02)
    assert seen.anonymous_bytes == pytest.approx(
        proc.status_bytes(status, "RssAnon"), abs=MiB + KIND_BYTES
    )


def test_a_name_that_fits_one_process_is_a_subject(binary: Compiled, tmp_path: Path) -> None:
    from memlab.diagnose.subject import named
    from memlab.errors import BadSubject

    name = f"only{os.getpid()}"  # another session may be at it too
    copy = tmp_path / name
    copy.write_bytes(binary("steady").read_bytes())
    copy.chmod(0o755)
    with running(copy, "1") as program:
        assert named(name) == program.pid
        with running(copy, "1") as other, pytest.raises(BadSubject) as refused:
            named(name)
        assert str(program.pid) in str(refused.value)
        assert str(other.pid) in str(refused.value)
    with pytest.raises(BadSubject, match="no process has that name"):
        named(name)
