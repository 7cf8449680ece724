"""Rules about memory that is given back to the kernel and taken again, and what follows of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from memlab.diagnose import malloc_options, started
from memlab.diagnose.evidence import (
    fact,
    fault_cost,
    give_backs,
    malloc,
    options,
    rate,
    share,
    size,
    who,
)
from memlab.diagnose.finding import Fact, Rule, Threshold
from memlab.diagnose.look import Look
from memlab.diagnose.started import Policies

_PURGERS = ("jemalloc", "tcmalloc", "mimalloc")
_OPTIONS = (
    "dirty_decay_ms", "muzzy_decay_ms", "purge", "decay_time", "lg_dirty_mult", "trim_threshold",
    "mmap_threshold", "TCMALLOC_AGGRESSIVE_DECOMMIT", "TCMALLOC_RELEASE_RATE",
    "MIMALLOC_PURGE_DELAY", "MIMALLOC_DECOMMIT_DELAY",
)  # fmt: skip
_CONSEQUENCES = ("gives-memory-back", "gives-back-large-pieces", "shootdowns", "page-faults")


def _purges(look: Look) -> float | None:
    """Of a malloc that purges; None where calls are not seen."""
    return give_backs(look) if _name(look) in _PURGERS else None


def _unseen_purges(look: Look) -> float | None:
    """Faults of a malloc that was told to purge at once, where its calls are not seen."""
    found = look.allocator
    if found is None or give_backs(look) is not None:
        return None
    told = {option.name: option.value for option in found.options}
    eager = malloc_options.gives_back_at_once(found.name, told)
    return look.rate("minor_faults") if eager else None


def _trims(look: Look) -> float | None:
    """glibc moves the end of its heap, and the pages are missed again."""
    if _name(look) != "glibc" or (look.rate("minor_faults") or 0) < (look.rate("brk") or 0):
        return None
    return look.rate("brk")


_PAGES_PER_CALL = 16  # faults per call from which the pieces are large


def _large_returns(look: Look) -> float | None:
    """Faults on what few calls gave back in large pieces, as the arenas of glibc's threads do."""
    calls, faults = give_backs(look), look.rate("minor_faults")
    if calls is None or faults is None or calls < 1 or faults < _PAGES_PER_CALL * calls:
        return None
    return faults


def _copies(look: Look) -> float | None:
    """Faults of a process that forks: parent and child copy the pages that they write."""
    forks = look.rate("processes_created")
    return look.rate("minor_faults") if forks is not None and forks >= _FORKS_PER_S else None


_FORKS_PER_S = 20


def _name(look: Look) -> str:
    return look.allocator.name if look.allocator else "malloc"


def _evidence_of_malloc(look: Look) -> Iterator[Fact | None]:
    yield malloc(look)
    yield from options(look, *_OPTIONS)
    yield from _evidence(look)


def _evidence(look: Look) -> Iterator[Fact | None]:
    """Whoever makes the calls: what is set of a malloc is no evidence of a program's own."""
    yield rate(look, "madvise", "madvise")
    yield rate(look, "madvise_dontneed", "of it MADV_DONTNEED")
    yield rate(look, "munmap", "munmap")
    yield rate(look, "brk", "brk")
    yield who(look, "madvise", "munmap", "brk")
    yield rate(look, "minor_faults", "page faults taken on it again")
    yield fault_cost(look)
    yield rate(look, "shootdowns_asked", "TLB flushes asked of other CPUs")
    yield rate(look, "shootdowns_taken", "its threads interrupted to flush")
    yield fact("TLB interrupts on its CPUs", look.shootdowns.interrupts_per_s, "1/s")


def _keep(look: Look) -> str:
    found = look.allocator
    if found is None:
        return "its malloc is not known here: look for the option that keeps freed memory"
    return malloc_options.keeping(found.name, found.numbers, found.variable)


def _proof_of_keeping(look: Look) -> Policies:
    """The malloc's variables as the process has them, and with the setting added."""
    found = look.allocator
    if found is None:
        return {}
    policies = {}
    for name, wanted in malloc_options.kept(found.name, found.numbers, found.variable).items():
        now = started.present(look.started, name)
        policies[f"env.{name}"] = [now, malloc_options.changed(name, now, wanted)]
    return policies


def _keep_or_reuse(look: Look) -> str:
    return (
        "keep the memory and use it again, or give it back in fewer, larger calls; if it is "
        f"malloc's: {_keep(look)}"
    )


def _sleeps_for_mappings(look: Look) -> float | None:
    """Where mappings change as well: other locks of the kernel are semaphores too."""
    sleeps = look.rate("lock_sleeps")
    if look.thread_count == 1 or not sleeps:
        return None
    calls = ("munmap", "mprotect", "mremap", "brk", "madvise")
    return sleeps if sum(look.rate(call) or 0 for call in calls) >= sleeps / 10 else None


_RETAINED_BYTES = 16 << 20  # less is not worth a setting


def _retained_share(look: Look) -> float | None:
    """Of its anonymous memory, where that is worth a setting."""
    heap = look.heap
    if heap is None or heap.retained_bytes < _RETAINED_BYTES:
        return None
    return min(1.0, heap.retained_bytes / max(look.memory.anonymous_bytes, 1))


def _retained(look: Look) -> float | None:
    """What grows is said to grow, whatever is free in it."""
    return None if look.grows_steadily else _retained_share(look)


def _at_the_ends(look: Look) -> bool:
    heap = look.heap
    return heap is not None and heap.ends_bytes >= heap.retained_bytes / 2


def _free_facts(look: Look) -> Iterator[Fact | None]:
    heap = look.heap
    if heap is None:
        return
    yield fact("free in malloc and resident", heap.retained_bytes, "B")
    yield fact("of it at the ends of heaps", heap.ends_bytes, "B")
    yield fact("in objects", heap.held_bytes - heap.free_bytes, "B")
    yield fact("arenas", heap.arenas, "count")


def _retained_facts(look: Look) -> Iterator[Fact | None]:
    yield malloc(look)
    yield from _free_facts(look)
    yield fact("resident", look.memory.resident_bytes, "B")
    yield fact("at its peak", look.memory.peak_resident_bytes, "B")
    yield fact("grew during the look by", look.growth_bytes_per_s, "B/s")
    yield from options(look, "arena_max", "trim_threshold", "mmap_threshold")


def _release(look: Look) -> str:
    if _at_the_ends(look):
        return (
            "MALLOC_TRIM_THRESHOLD_=131072 pins the threshold from which the end of a heap is "
            "given back; malloc_trim(0) shortens the main one alone"
        )
    return (
        "malloc_trim(0) after the peak: it lies between objects that live, where no setting of "
        "glibc gives it back"
    )


def _proof_of_release(look: Look) -> Policies:
    if not _at_the_ends(look):
        return {}
    name = "MALLOC_TRIM_THRESHOLD_"
    return {f"env.{name}": [started.present(look.started, name), "131072"]}


def _huge_page_facts(look: Look) -> Iterator[Fact | None]:
    yield fact("anonymous memory", look.memory.anonymous_bytes, "B")
    yield fact("of it in huge pages", look.memory.huge_bytes, "B")
    yield fact("huge pages on this machine", look.memory.thp_machine)


def _growing_facts(look: Look) -> Iterator[Fact | None]:
    yield fact("grows by", look.growth_bytes_per_s, "B/s")
    yield fact("steadily for", look.seconds, "s")
    yield fact("anonymous memory", look.memory.anonymous_bytes, "B")
    yield malloc(look)
    yield from _free_facts(look)
    yield rate(look, "minor_faults", "page faults")
    yield who(look, "minor_faults")


_of_any = partial(Rule, evidence=_evidence, setting=_keep_or_reuse, proof=_proof_of_keeping)
_of_malloc = partial(_of_any, evidence=_evidence_of_malloc, setting=_keep, explains=_CONSEQUENCES)

RULES = (
    _of_malloc(
        "malloc-gives-back",
        measure=_purges,
        threshold=Threshold("1/s", note=200, costly=1000),
        title=lambda look: (
            f"{_name(look)} gives freed memory back to the kernel and takes it again"
        ),
        experiments=("allocator", "tlb-shootdown"),
    ),
    _of_malloc(
        "malloc-told-to-give-back",
        measure=_unseen_purges,
        threshold=Threshold("1/s", note=1000, costly=5000),
        title=lambda look: (
            f"{_name(look)} is told to give freed memory back at once, and the "
            "faults fit that; its calls are not seen"
        ),
        experiments=("allocator", "tlb-shootdown"),
    ),
    _of_malloc(
        "glibc-trims",
        measure=_trims,
        threshold=Threshold("1/s", note=200, costly=1000),
        title="glibc trims its heap and grows it again",
        experiments=("allocator", "page-fault"),
    ),
    _of_any(
        "gives-memory-back",
        measure=give_backs,
        threshold=Threshold("1/s", note=500, costly=2000),
        title="it gives memory back to the kernel all the time",
        experiments=("tlb-shootdown", "madvise-refault"),
        explains=("gives-back-large-pieces", "shootdowns", "page-faults"),
    ),
    _of_any(
        "gives-back-large-pieces",
        measure=_large_returns,
        threshold=Threshold("1/s", note=10_000, costly=20_000),
        title="it gives memory back in large pieces and takes page faults on it again",
        experiments=("allocator", "page-fault"),
        explains=("page-faults",),
    ),
    Rule(
        "copies-after-fork",
        measure=_copies,
        threshold=Threshold("1/s", note=10_000, costly=20_000),
        title="it forks all the time, and each side copies the pages that it writes",
        evidence=lambda look: (
            rate(look, "processes_created", "processes made"),
            rate(look, "minor_faults", "page faults, its children's among them"),
            fault_cost(look),
            who(look, "processes_created"),
        ),
        setting="start programs with posix_spawn or vfork, which copy nothing; fork from a small "
        "process; MADV_DONTFORK for memory that no child needs",
        experiments=("page-fault",),
        explains=("gives-back-large-pieces", "page-faults"),
    ),
    Rule(
        "shootdowns",
        # One thread interrupts none of its own: what it takes then, the kernel asked for.
        measure=lambda look: look.rate("shootdowns_taken") if look.thread_count > 1 else None,
        threshold=Threshold("1/s", note=500, costly=2000),
        title="its threads interrupt each other's CPUs to flush their TLBs",
        evidence=lambda look: (
            rate(look, "shootdowns_taken", "its threads interrupted to flush"),
            rate(look, "shootdowns_asked", "flushes asked of other CPUs"),
            rate(look, "mprotect", "mprotect"),
            rate(look, "mremap", "mremap"),
            who(look, "shootdowns_asked"),
        ),
        setting="fewer, larger changes of mappings; threads that change them in a "
        "process, or on CPUs, of their own; fewer CPUs",
        proof={"cpus": ["all", "1"]},
        experiments=("tlb-shootdown",),
    ),
    Rule(
        "waits-for-mappings",
        measure=_sleeps_for_mappings,
        threshold=Threshold("1/s", note=500, costly=2000),
        title="its threads sleep for each other's calls: most likely for the mmap_lock",
        evidence=lambda look: (
            rate(look, "lock_sleeps", "sleeps for a semaphore of the kernel"),
            rate(look, "munmap", "munmap"),
            rate(look, "mprotect", "mprotect"),
            rate(look, "mremap", "mremap"),
            rate(look, "madvise", "madvise"),
            who(look, "lock_sleeps"),
        ),
        setting="fewer and smaller calls that change mappings; filling memory (MAP_POPULATE, "
        "MADV_POPULATE_WRITE, mlock) in pieces; Linux 6.4 or later, where page faults take no "
        "mmap_lock",
        experiments=("mmap-lock",),
    ),
    Rule(
        "waits-for-compaction",
        measure=lambda look: look.rate("compactions"),
        threshold=Threshold("1/s", note=1, costly=10),
        title="its page faults wait until memory is compacted: most likely for huge pages",
        evidence=lambda look: (
            rate(look, "compactions", "allocations that compact memory themselves"),
            rate(look, "minor_faults", "minor page faults"),
            who(look, "compactions"),
            *_huge_page_facts(look),
        ),
        setting="transparent_hugepage/defrag of defer, and khugepaged makes huge pages later; or "
        "no huge pages (PR_SET_THP_DISABLE, MADV_NOHUGEPAGE) where the first touch may not wait",
        proof={"thp": ["inherit", "never"]},
        experiments=("thp-cost",),
    ),
    Rule(
        "page-faults",
        measure=lambda look: look.rate("minor_faults"),
        threshold=Threshold("1/s", note=10_000, costly=20_000),
        title="it takes page faults all the time",
        evidence=lambda look: (
            rate(look, "minor_faults", "minor page faults"),
            fault_cost(look),
            who(look, "minor_faults"),
            *_huge_page_facts(look),
        ),
        setting="touch the memory once and keep it (MAP_POPULATE, MADV_POPULATE_WRITE), "
        "or take it in huge pages (MADV_HUGEPAGE)",
        proof={"lock": ["off", "future"], "thp": ["inherit", "always"]},
        experiments=("page-fault", "thp-cost"),
    ),
    Rule(
        "retained",
        measure=_retained,
        threshold=Threshold("1", note=0.25),
        title=lambda look: (
            f"retained, not leaked: {share(_retained_share(look))} of its memory is free in "
            "malloc, which has not given it back"
        ),
        evidence=_retained_facts,
        setting=_release,
        proof=_proof_of_release,
        experiments=("retained-memory",),
    ),
    Rule(
        "growing",
        measure=lambda look: look.growth_bytes_per_s if look.grows_steadily else None,
        threshold=Threshold("B/s", note=100_000),
        title=lambda look: (
            f"growing: by {size(look.growth_bytes_per_s)} per second, in every part of the look"
        ),
        evidence=_growing_facts,
        setting="look for what it allocates and keeps (heaptrack, the profile of jemalloc or "
        "tcmalloc): what is free in malloc explains no growth; a cache needs a bound",
        experiments=("retained-memory",),
    ),
)
