"""The account of page faults: where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memlab.diagnose import account, file_reads, growth, inside, malloc_options, sites, started
from memlab.diagnose.account import Account, Line
from memlab.diagnose.file_reads import severity_of, threads_of
from memlab.diagnose.finding import (
    COSTLY,
    NOTE,
    Fact,
    Finding,
    FindingRow,
    Severity,
    facts,
    per_second,
    share,
    size,
)
from memlab.diagnose.look import Look
from memlab.diagnose.pages import Sampled
from memlab.diagnose.started import Policies
from memlab.text import units

_PAGE = 4096
_SAMPLES_LEAST = 5
_FORK_WAIT_S = 1e-3  # a fork takes some 0.1 ms beside its page tables
_PURGERS = ("jemalloc", "tcmalloc", "mimalloc")
_OPTIONS = (
    "dirty_decay_ms", "muzzy_decay_ms", "purge", "decay_time", "lg_dirty_mult", "trim_threshold",
    "mmap_threshold", "TCMALLOC_AGGRESSIVE_DECOMMIT", "TCMALLOC_RELEASE_RATE",
    "MIMALLOC_PURGE_DELAY", "MIMALLOC_DECOMMIT_DELAY",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flow:
    """Faults per second by cause; they add up to `total` with `rest`."""

    total: float
    first: float
    """On new memory, by which it grew."""
    again: float
    """On memory that was given back before."""
    unmapped: float
    """That may be on new shared memory, which it has unmapped: that of its group grew so."""
    copies: float
    """Writes to pages that are there: copied after a fork, or made writable again."""
    files: float
    """Mapped from files that are in memory, as far as they grew."""
    zeros: float
    """Reads of memory that nobody wrote: the page of zeros is mapped."""
    served: float
    """By userfaultfd."""
    read: float
    """Major: from swap or a file."""
    rest: float


def split(look: Look) -> Flow:
    """From counts and the balance; copies are counted where tracepoints are."""
    minor, major = look.rate("minor_faults") or 0.0, look.rate("major_faults") or 0.0
    present = sum(look.rate(f"present_faults_{who}") or 0.0 for who in ("user", "kernel"))
    copies = min(minor, present)
    total, left_over, parts = minor + major, minor - copies, list[float]()
    for at_most in (
        look.growth_bytes_per_s / _PAGE,
        look.files_growth_bytes / _PAGE / look.seconds,
        look.zeros_growth_bytes / _PAGE / look.seconds,
        _unmapped_growth(look) / _PAGE,
    ):
        parts.append(min(left_over, max(0.0, at_most)))
        left_over -= parts[-1]
    first, files, zeros, unmapped = parts
    calls = give_backs(look)
    fell = look.fell_bytes / _PAGE / look.seconds
    # What remains was given back before, where that was seen: by calls, or resident memory fell.
    again = left_over if (calls or 0) >= 0.5 else min(left_over, fell)
    left_over -= again
    served = 0.0
    if look.waits and look.waits.by_kind.get("userfaultfd"):
        # Memory that a handler has to fill, new or given back; some count as major.
        served, first, again, major = first + again + major, 0.0, 0.0, 0.0
    return Flow(total, first, again, unmapped, copies, files, zeros, served, major, left_over)


def _unmapped_growth(look: Look) -> float:
    """Bytes per second by which shared memory of its group grew, beyond what it has mapped; none of
    a process that unmapped nothing (segments of System V apart, whose calls are not counted)."""
    if look.rate("munmap") == 0:
        return 0.0
    grew = look.group.shared_growth_bytes_per_s if look.group else 0.0
    return grew - max(0.0, look.growth_bytes_per_s)


def of(look: Look) -> Account:
    """Faults per second."""
    flow = split(look)
    grew = f"it grew by {size(max(0, look.growth_bytes_per_s))}/s"
    forks = look.rate("processes_forked") or _shares(look)
    lines = [
        Line("first touches", flow.first, note=grew),
        Line("touched again after it was given back", flow.again),
        Line("first touches of shared memory, unmapped since", flow.unmapped, 0, flow.unmapped,
             "or given back: that of its group grew so"),
        Line("writes to pages that are there", flow.copies,
             note="copies after a fork" if forks else "made writable again"),
        Line("pages of files in memory", flow.files),
        Line("reads of memory never written", flow.zeros, note="the page of zeros: no memory"),
        Line("answered by userfaultfd", flow.served),
        Line("read from swap or a file", flow.read),
        Line("filled without a fault", look.rate("populated") or 0.0, part_of="none",
             note="mlock, MAP_POPULATE"),
        Line(OF_CHILDREN, look.waited_faults_per_s, part_of="none", note="in their lives"),
    ]  # fmt: skip
    counted = look.rate("present_faults_user") is not None and give_backs(look) is not None
    whole = counted or flow.total < 1000
    return account.made("flow", "page faults", "1/s", flow.total, lines, whole=whole)


def _shares(look: Look) -> bool:
    return bool(look.pages and look.pages.shared_bytes) or bool(look.unshared_bytes)


def give_backs(look: Look) -> float | None:
    """Calls per second that give memory back to the kernel; None where none is seen."""
    seen = [look.rate(name) for name in ("madvise_dontneed", "munmap", "brk")]
    return None if None in seen else sum(filter(None, seen))


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of where the faults come from."""
    flow = split(look)
    yield from _forks(look, flow)
    yield from _uffd(look, flow)
    yield from file_reads.findings(look, flow.read)
    returns = list(_returns(look, flow))
    yield from returns
    yield from _first(look, flow)
    yield from of_children(
        look.waited_faults_per_s, flow.total, _children_ended(look), look.waited_cpu_share
    )
    if not any(one.name == "malloc-set-to-give-back" for one in returns):  # the rest is its
        yield from _rest(look, flow)
    for one in _calls(look):
        # What follows of memory that is given back is not found again.
        if one.name != "shootdowns" or all(one.severity > other.severity for other in returns):
            yield one


OF_CHILDREN = "of children that it waited for"
_CHILDREN_FAULT = FindingRow(
    "children-fault", "flow", OF_CHILDREN, "1/s",
    "1,000 faults per second of ended children, and fewer itself",
    "fewer children that live longer (a pool of workers, a builtin of the shell), as each takes "
    "its first faults once; programs with fewer libraries; huge pages for a child that touches "
    "much",
    experiments=("page-fault",),
)  # fmt: skip


def _children_ended(look: Look) -> float | None:
    """Children per second whose faults were added to it; None where that is not known: wait4(2) is
    counted and waitid(2) is not, so that about as many have to be made. One may be on its way."""
    waited, made = look.rate("children_waited"), look.rate("processes_made")
    if not waited or made is None or abs(made - waited) > max(waited / 10, 1.5 / look.seconds):
        return None
    return waited


def of_children(
    waited: float,
    itself: float,
    children: float | None = None,
    cpu_share: float = 0.0,
    *,
    whose: str = "it",
) -> Iterator[Finding]:
    """Children that were waited for, where they take more faults than who waits; `children` ended
    so per second."""
    severity = severity_of(waited, 1000, 10_000)
    if severity is None or waited < itself:
        return
    each = ""
    if children:
        count = f"{waited / children:,.0f}"
        each = f": {per_second(children, 'children')}, {count} faults each"
    yield _CHILDREN_FAULT.found(
        severity,
        f"children that {whose} waited for took {per_second(waited, 'page faults')} in their "
        f"lives{each}; {whose} took {per_second(itself)}",
        waited,
        facts(
            Fact("children that ended", children, "1/s") if children else None,
            Fact("CPU that they used", f"{cpu_share:.2g} of a CPU") if cpu_share else None,
        ),
    )


_COPIES_AFTER_FORK = FindingRow(
    "copies-after-fork", "flow", "writes to pages that are there", "1/s",
    "it forks: 1,000 copies per second, or 2 ms per fork",
    "where it starts programs: posix_spawn or vfork, which copy nothing; where it takes a "
    "snapshot: huge pages shorten the fork (the child's write still copies 4 KiB since Linux "
    "5.8), a smaller process forks sooner, MADV_DONTFORK for memory that no child needs",
    experiments=("page-fault", "reserved-copy"),
)  # fmt: skip


def _forks(look: Look, flow: Flow) -> Iterator[Finding]:
    forks = look.rate("processes_forked") or 0.0
    if not forks:
        return
    fork_s = look.fork_s or 0.0
    if flow.copies < 1000 and fork_s < 2e-3:
        return
    copies = f"; {per_second(flow.copies, 'faults')} after it copy a page each"
    took = f", some {units.format_duration(fork_s)} in which it waits"
    yield _COPIES_AFTER_FORK.found(
        COSTLY if flow.copies >= 5000 or fork_s * forks >= 0.01 or fork_s >= 5e-3 else NOTE,
        f"it forks {per_second(forks, 'times')}: each copies the page tables of "
        f"{size(look.memory.anonymous_bytes)}{took if fork_s >= _FORK_WAIT_S else ''}"
        f"{copies if flow.copies else ''}",
        flow.copies,
        facts(
            Fact("its page tables", look.page_table_bytes, "B"),
            Fact("writes to pages that are there", flow.copies, "1/s"),
            _cost(look, flow.copies),
            threads_of(look, "processes_forked"),
            *(sites.facts(look.sites) if flow.copies >= 0.5 * flow.total else ()),
        ),
    )


_SERVED_BY_USERFAULTFD = FindingRow(
    "served-by-userfaultfd", "flow", "answered by userfaultfd", "1/s",
    "a thread waits for a handler of userfaultfd",
    "the handler answers ahead and in batches (UFFDIO_COPY of many pages, huge pages); "
    "MAP_POPULATE and mlock would ask the same handler",
    experiments=("guest-memory", "page-fault"),
)  # fmt: skip


def _uffd(look: Look, flow: Flow) -> Iterator[Finding]:
    waits = look.waits
    if waits is None or not (slept := waits.by_kind.get("userfaultfd", 0)):
        return
    slept_in = Sampled(waits.samples, slept)
    each = ""
    low, high = (bound * waits.threads for bound in slept_in.bounds)
    waiting = slept_in.value * waits.threads
    if flow.served >= 1 and slept >= _SAMPLES_LEAST:
        first, last = (units.format_duration(t / flow.served) for t in (low, high))
        each = f", {first} to {last} each, {share(waiting)} of a thread's time"
    yield _SERVED_BY_USERFAULTFD.found(
        COSTLY if waiting >= 0.05 else NOTE,
        "its page faults wait for a handler in user space (userfaultfd): "
        f"{per_second(flow.served, 'times')}{each}",
        flow.served,
        facts(
            Fact("samples that slept in handle_userfault", slept, "count"),
            Fact("of", waits.samples, "count"),
            Fact("userfaultfds of its own", look.userfaultfds, "count"),
        ),
    )


def _returns(look: Look, flow: Flow) -> Iterator[Finding]:
    """Memory that is given back and taken again. Calls alone are not a finding: something has to be
    touched again, or the calls themselves have to be many."""
    calls = give_backs(look)
    malloc = look.allocator
    name = malloc.name if malloc else "malloc"
    if calls is None:
        options = {option.name: option.value for option in malloc.options} if malloc else {}
        eager = malloc is not None and malloc_options.gives_back_at_once(malloc.name, options)
        fit = flow.again + flow.rest
        severity = severity_of(fit, 1000, 5000)
        if eager and severity is not None:
            yield _return(
                look, fit, "malloc-set-to-give-back", severity,
                f"{name} is set to give freed memory back at once, and "
                f"{per_second(fit, 'page faults')} fit that; its calls are not seen",
            )  # fmt: skip
        return
    many = severity_of(calls, 500, 2000)
    large = severity_of(flow.again, 5000, 20_000) if flow.again >= 0.3 * flow.total else None
    if name in _PURGERS:
        of_malloc = severity_of(calls, 200, 1000)
        if of_malloc is not None and (flow.again >= 0.3 * flow.total or many is not None):
            yield _return(
                look, flow.again, "malloc-gives-back", max(of_malloc, large or NOTE),
                f"{name} gives freed memory back to the kernel and takes it again: "
                f"{per_second(calls, 'calls')}, {per_second(flow.again, 'page faults')} on it",
            )  # fmt: skip
            return
    brk = look.rate("brk") or 0.0
    trims = severity_of(brk, 200, 1000)
    if name == "glibc" and trims is not None and flow.again >= brk:
        yield _return(
            look, flow.again, "glibc-trims", trims,
            f"glibc trims its heap and grows it again: {per_second(brk, 'calls of brk')}, "
            f"{per_second(flow.again, 'page faults')} on what was given back",
        )  # fmt: skip
        return
    severity = max((s for s in (many, large) if s is not None), default=None)
    if severity is None:
        return
    if large is not None and (many is None or large > many):
        yield _return(
            look, flow.again, "gives-back-large-pieces", severity,
            f"it gives memory back in large pieces and touches it again: "
            f"{per_second(calls, 'calls')}, {per_second(flow.again, 'page faults')} on it",
        )  # fmt: skip
    else:
        yield _return(
            look, flow.again, "gives-memory-back", severity,
            f"it gives memory back to the kernel all the time ({per_second(calls, 'calls')}) and "
            f"takes {per_second(flow.again, 'page faults')} on it again",
        )  # fmt: skip


_RETURNS = {
    name: FindingRow(
        name, "flow", "touched again after it was given back", "1/s", when,
        "keep the memory and use it again, or give it back in fewer, larger calls",
        experiments=("allocator", "tlb-shootdown", "madvise-refault"),
    )
    for name, when in (
        ("malloc-set-to-give-back",
         "malloc is set to give back at once, its calls are not seen, and 1,000 faults fit"),
        ("malloc-gives-back",
         "jemalloc, tcmalloc or mimalloc gives back 200 times per second, with three tenths of all "
         "faults on that; or 500 times"),
        ("glibc-trims", "200 calls of brk per second, with as many faults on what was given back"),
        ("gives-back-large-pieces",
         "5,000 faults per second on what was given back, three tenths of all"),
        ("gives-memory-back", "500 calls per second that give memory back"),
    )
}  # fmt: skip


def _return(look: Look, again: float, name: str, severity: Severity, title: str) -> Finding:
    malloc = look.allocator
    setting = _RETURNS[name].setting
    policies: dict[str, Sequence[str]] = {}
    if malloc is not None and not (name.startswith("gives-") and _beside_malloc_most(look)):
        policies = dict(_keeping(look))
        if policies:
            keep = malloc_options.keeping(malloc.name, malloc.numbers, malloc.variable)
            setting = keep if name.startswith(("malloc", "glibc")) else (
                f"{setting}; if it is malloc's: {keep}"
            )  # fmt: skip
        elif malloc.name == "glibc":
            setting = (
                f"{setting}; glibc is set to keep its heap already: what is left are mappings of "
                "their own and heaps of other arenas (MALLOC_ARENA_MAX=1, "
                "glibc.malloc.top_pad)"
            )
            policies = {
                "env.MALLOC_ARENA_MAX": [started.present(look.started, "MALLOC_ARENA_MAX"), "1"]
            }
    return _RETURNS[name].found(
        severity,
        title,
        again,
        facts(
            Fact("malloc", malloc.label) if malloc else None,
            *_options(look),
            growth.rate_fact(look, "madvise", "madvise"),
            growth.rate_fact(look, "madvise_dontneed", "of it MADV_DONTNEED"),
            growth.rate_fact(look, "munmap", "munmap"),
            growth.rate_fact(look, "brk", "brk"),
            threads_of(look, "madvise", "munmap", "brk"),
            _cost(look, again),
            growth.rate_fact(look, "shootdowns_asked", "TLB flushes asked of other CPUs"),
            growth.rate_fact(look, "shootdowns_taken", "its threads interrupted to flush"),
            *sites.facts(look.sites),
        ),
        setting=setting,
        policies=policies,
    )


def _beside_malloc_most(look: Look) -> bool:
    """Whether its malloc was read and holds the smaller part: then no setting of it is advised."""
    return look.heap is not None and inside.beside_malloc(look) > look.memory.anonymous_bytes / 2


def _keeping(look: Look) -> Policies:
    """The malloc's variables as the process has them, and with the setting added; none where it
    is in force already."""
    malloc = look.allocator
    if malloc is None:
        return {}
    policies = {}
    for name, wanted in malloc_options.kept(malloc.name, malloc.numbers, malloc.variable).items():
        now = started.present(look.started, name)
        new = malloc_options.changed(name, now, wanted)
        if set(new.split(":")) != set(now.split(":")):
            policies[f"env.{name}"] = [now, new]
    return policies


_FIRST_TOUCHES = FindingRow(
    "first-touches", "flow", "first touches", "1/s",
    "10,000 first touches per second, half of all faults",
    "huge pages (MADV_HUGEPAGE), or populate before it matters (MADV_POPULATE_WRITE)",
    experiments=("page-fault", "thp-cost"),
)  # fmt: skip


def _first(look: Look, flow: Flow) -> Iterator[Finding]:
    """First touches alone are a note: each page is paid for once."""
    if growth.is_growing(look) or flow.first < 10_000 or flow.first < 0.5 * flow.total:
        return
    yield _FIRST_TOUCHES.found(
        NOTE,
        f"{per_second(flow.total, 'page faults')}, {per_second(flow.first)} of them first touches: "
        f"it grows by {size(look.growth_bytes_per_s)}/s, as in a load or warm-up",
        flow.first,
        facts(_cost(look, flow.first), threads_of(look, "minor_faults"), *sites.facts(look.sites)),
        policies={"thp": ["inherit", "always"]},
    )


_MADE_WRITABLE_AGAIN = FindingRow(
    "made-writable-again", "flow", "writes to pages that are there", "1/s",
    "5,000 writes per second to pages that are there, without a fork",
    "fewer changes of protection (garbage collectors' write barriers, soft-dirty or userfaultfd "
    "write protection); fewer msync and fsync of a file mapping",
    experiments=("page-fault", "mmap-write"),
)  # fmt: skip
_PAGE_FAULTS = FindingRow(
    "page-faults", "flow", "rest", "1/s", "10,000 faults per second that no line explains",
    "where the calls are not seen, run as root; where an offset stands for a function, addr2line "
    "-f -e FILE OFFSET names it",
    experiments=("page-fault",),
)  # fmt: skip
_READS_ZEROS = FindingRow(
    "reads-zeros", "flow", "reads of memory never written", "1/s",
    "10,000 reads of untouched memory per second",
    "a sparse table is cheaper as a tree or a hash; MADV_HUGEPAGE maps 2 MiB of zeros per fault",
    experiments=("page-fault",),
)  # fmt: skip


def _rest(look: Look, flow: Flow) -> Iterator[Finding]:
    if flow.zeros >= 10_000:
        yield _READS_ZEROS.found(
            NOTE,
            f"{per_second(flow.zeros, 'page faults')} are reads of memory that nobody wrote: "
            "each maps the one page of zeros, and takes no memory",
            flow.zeros,
            facts(
                _cost(look, flow.zeros), threads_of(look, "minor_faults"), *sites.facts(look.sites)
            ),
        )
    copies = flow.copies if not (look.rate("processes_forked") or 0) else 0.0
    severity = severity_of(flow.rest, 10_000, 20_000)
    neither = "growth, memory given back, copies nor files"
    if give_backs(look) is None:
        neither = "growth, copies nor files; calls that give memory back were not seen"
    if severity is not None:
        yield _PAGE_FAULTS.found(
            severity,
            f"it takes {per_second(flow.total, 'page faults')}, of which {per_second(flow.rest)} "
            f"are explained by neither {neither}{_most(look)}",
            flow.rest,
            facts(
                _cost(look, flow.rest), threads_of(look, "minor_faults"), *sites.facts(look.sites)
            ),
        )
    severity = severity_of(copies, 5000, 20_000)
    if severity is not None and not _shares(look):
        yield _MADE_WRITABLE_AGAIN.found(
            severity,
            f"{per_second(copies, 'page faults')} are writes to pages that are there: pages of "
            "files that are written back, memory that is protected and opened again, or what a "
            "fork before the look had shared",
            copies,
            facts(
                growth.rate_fact(look, "mprotect", "mprotect"),
                _cost(look, copies),
                *sites.facts(look.sites),
            ),
        )


_CHANGES_PROTECTION = FindingRow(
    "changes-protection", "flow", "calls of mprotect", "1/s", "2,000 calls of mprotect per second",
    "fewer, larger ranges (a collector's write barrier, guard pages, a JIT's code pages)",
    experiments=("tlb-shootdown", "vma-lock"),
)  # fmt: skip
_SHOOTDOWNS = FindingRow(
    "shootdowns", "flow", "TLB flushes", "1/s", "500 TLB flushes per second between its threads",
    "fewer, larger changes of mappings; threads that change them in a process, or on CPUs, of "
    "their own; fewer CPUs",
    experiments=("tlb-shootdown",),
)  # fmt: skip


_MAKES_THREADS = FindingRow(
    "makes-threads", "flow", "threads made", "1/s", "100 new threads per second",
    "keep the threads (a pool), or smaller stacks", {"stack": ["inherit", "256K"]},
    ("thread-create", "stack-map"),
)  # fmt: skip
_THREADS_MADE_WHILE_LOCKED = FindingRow(
    "threads-made-while-locked", "flow", "threads made", "1/s",
    "10 new threads per second, with locked memory",
    "keep the threads (a pool), or smaller stacks, or MCL_ONFAULT",
    {"stack": ["inherit", "256K"]}, ("thread-create", "stack-map"),
)  # fmt: skip


def _calls(look: Look) -> Iterator[Finding]:
    """What changes of mappings and new threads cost."""
    taken = look.rate("shootdowns_taken") or 0.0
    severity = severity_of(taken, 500, 2000)
    # One thread interrupts none of its own: what it takes then, the kernel asked for.
    if look.thread_count > 1 and severity is not None:
        yield _SHOOTDOWNS.found(
            severity,
            f"its threads interrupt each other's CPUs to flush their TLBs: "
            f"{per_second(taken, 'times')}",
            taken,
            facts(
                growth.rate_fact(look, "shootdowns_asked", "flushes asked of other CPUs"),
                growth.rate_fact(look, "mprotect", "mprotect"),
                growth.rate_fact(look, "mremap", "mremap"),
                threads_of(look, "shootdowns_asked"),
            ),
            policies={"cpus": ["all", "1"]},
        )
    protects = look.rate("mprotect") or 0.0
    severity = severity_of(protects, 2000, 20_000)
    if severity is not None:
        yield _CHANGES_PROTECTION.found(
            severity,
            f"it changes the protection of its memory {per_second(protects, 'times')}: each call "
            "splits or joins mappings and flushes TLBs",
            protects,
            facts(
                threads_of(look, "mprotect"),
                growth.rate_fact(look, "shootdowns_asked", "TLB flushes asked"),
            ),
        )
    made = look.rate("threads_created") or 0.0
    locked = bool(look.memory.locked_bytes)
    severity = severity_of(made, 10, 100) if locked else severity_of(made, 100, 1000)
    if severity is not None:
        row = _THREADS_MADE_WHILE_LOCKED if locked else _MAKES_THREADS
        faults = look.rate("minor_faults")
        is_there = not locked and faults is not None and faults < made / 2
        yield row.found(
            severity,
            f"it makes {per_second(made, 'threads')}"
            + (" with locked memory: each waits for its stack to be filled" if locked else
               f", with {per_second(faults or 0, 'page faults')}: most use a stack that is there"
               if is_there else ": each is a stack to map and to fault in"),
            made,
            facts(
                threads_of(look, "threads_created"),
                growth.rate_fact(look, "populated", "pages filled"),
            ),
            setting="keep the threads (a pool)" if is_there else None,
            policies={} if is_there else None,
        )  # fmt: skip


def _options(look: Look) -> Iterator[Fact]:
    for option in look.allocator.options if look.allocator else ():
        if option.name in _OPTIONS:
            yield Fact(option.name, f"{option.value} ({option.source})")


def _cost(look: Look, faults: float) -> Fact | None:
    """What the faults cost, at the price of one on this machine: at most all of its system time."""
    if not faults or look.fault_s is None:
        return None
    cost = faults * look.fault_s
    if cost > look.system_share:
        return Fact("which take nearly all of its system time", f"{look.system_share:.2g} of a CPU")
    each = units.format_duration(look.fault_s)
    return Fact("which take about", f"{cost:.2g} of a CPU, at {each} per fault here")


def _most(look: Look) -> str:
    return "".join(f"; {fact.name} {fact.value}" for fact in [*sites.facts(look.sites)][:1])
