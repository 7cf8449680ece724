"""What anonymous memory that is not malloc's holds, as far as it is recognised, and sockets."""

from __future__ import annotations

from collections.abc import Iterator

from memlab.diagnose import growth, inner_heap, started
from memlab.diagnose.account import Line
from memlab.diagnose.finding import (
    NOTE,
    Fact,
    Finding,
    FindingRow,
    facts,
    share,
    size,
)
from memlab.diagnose.inner_heap import InnerHeap
from memlab.diagnose.look import Look
from memlab.diagnose.sockets import Sockets
from memlab.text import units

MiB = units.MiB
_WORTH_SHARE = 0.25


def beside_malloc(look: Look) -> float:
    """Anonymous memory that is not of malloc's heaps: the program's own mappings, or a heap that a
    runtime has beside it."""
    held = look.heap.held_bytes + look.heap.mapped_bytes if look.heap else 0
    return max(0, look.memory.anonymous_bytes - held)


def named_bytes(look: Look) -> int:
    """Of it what has a name: stacks, and heaps that were read."""
    stacks = look.stacks.resident_bytes if look.stacks else 0
    return stacks + sum(one.resident_bytes for one in look.inner_heaps)


def lines(look: Look) -> Iterator[Line]:
    """Parts of the line `beside malloc`, or of anonymous memory if malloc was not read."""
    of = "beside malloc" if look.heap else "anonymous"
    for one in look.inner_heaps:
        yield _line(f"in {one.name}", one.used_bytes, one, of, one.note)
        yield _line(f"free in {one.name}", one.free_bytes, one, of, "")
    if look.stacks:
        count = units.counted(look.stacks.count, "thread")
        yield Line("stacks of threads", look.stacks.resident_bytes, part_of=of, note=f"of {count}")
    rest = max(0.0, beside_malloc(look) - (named := named_bytes(look)))
    unread = _not_read(look)
    if (named and look.heap) or unread:
        yield Line("other mappings", rest, part_of=of, note=unread)


def _not_read(look: Look) -> str:
    """Allocators whose heaps may lie in the other mappings."""
    malloc = look.allocator
    names = list(look.within[:3])
    if malloc and look.heap is None and malloc.name != "glibc":
        names = [malloc.name, *(one for one in names if malloc.name not in one)][:3]
    if any(one.name == inner_heap.MIMALLOC for one in look.inner_heaps):
        names = [one for one in names if one != "mimalloc"]
    return f"{' or '.join(names)} was not read" if names else ""


def _line(name: str, value: int, one: InnerHeap, of: str, note: str) -> Line:
    """With the interval of what was read in a sample."""
    low = high = None
    if one.error_bytes:
        low = max(0, value - one.error_bytes)
        high = min(one.resident_bytes, value + one.error_bytes)
    return Line(name, value, low, high, note, part_of=of)


def of_sockets(seen: Sockets) -> Line:
    """The kernel's memory, in no process's resident memory."""
    count = units.counted(seen.read, "socket")
    return Line("queues of its sockets", seen.bytes, part_of="none", note=f"of {count}")


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of it."""
    yield from _free_inside(look)
    yield from _beside(look)
    yield from _in_malloc(look)
    yield from _stacks(look)
    yield from _sockets(look)


_RETAINED_INSIDE = FindingRow(
    "retained-inside",
    "stock",
    "free in a heap beside malloc",
    "B",
    "a quarter of anonymous memory is free in Python's pools, mimalloc's arenas or V8's heap",
    setting="what gives back is by the heap: a worker that ends gives all back",
    experiments=("retained-memory",),
)


def _free_inside(look: Look) -> Iterator[Finding]:
    """The largest first; what is free in a Java heap is the JVM's to keep (-Xms)."""
    for one in sorted(look.inner_heaps, key=lambda heap: -heap.free_bytes):
        part = one.free_bytes / max(1, look.memory.anonymous_bytes)
        large = growth.worth(one.free_bytes, 0) and part >= _WORTH_SHARE
        if one.name != inner_heap.JAVA and large and not growth.is_growing(look):
            yield _free_in(look, one, part)


def _free_in(look: Look, one: InnerHeap, part: float) -> Finding:
    beside = f"between {size(one.used_bytes)} in objects that live"
    setting, policies = _WITHIN.get(one.name, ""), None
    if one.name == inner_heap.PYTHON:
        now = started.present(look.started, "PYTHONMALLOC")
        policies = {"env.PYTHONMALLOC": [now, "malloc"]} if now != "malloc" else None
    else:
        setting = _WITHIN["mimalloc" if one.name == inner_heap.MIMALLOC else "V8"]
        beside = f"beside {size(one.used_bytes)} in use ({one.note})"
    return _RETAINED_INSIDE.found(
        NOTE,
        f"retained, not leaked: {size(one.free_bytes)}, {share(part)} of its anonymous memory, are "
        f"free in {one.name}, {beside}",
        one.free_bytes,
        facts(
            Fact("resident", look.memory.resident_bytes, "B"),
            Fact("at its peak", look.memory.peak_resident_bytes, "B"),
        ),
        line=f"free in {one.name}",
        setting=setting,
        policies=policies,
    )


_IN_MALLOC = FindingRow(
    "in-malloc",
    "stock",
    "in malloc's objects",
    "B",
    "malloc's objects of a process with a heap of its own",
    setting="memlab record of the process",
    experiments=("allocator",),
)


def _in_malloc(look: Look) -> Iterator[Finding]:
    """Beside a runtime's own heap: what its monitoring does not count."""
    heap = look.heap
    runtimes = [*(one.name for one in look.inner_heaps), *look.within]
    if heap is None or not runtimes or growth.is_growing(look):
        return
    used = max(0, heap.held_bytes - heap.free_bytes) + heap.mapped_bytes
    if not growth.worth(used, look.memory.resident_bytes / 2.5):
        return
    alone = ""
    if heap.mapped_count and heap.mapped_bytes >= used / 2:
        alone = f", {size(heap.mapped_bytes)} of it in {heap.mapped_count} of their own mapping"
    yield _IN_MALLOC.found(
        NOTE,
        f"{size(used)} are objects of malloc that are in use{alone}: beside the heap of its "
        f"runtime ({runtimes[0]}), and not free",
        used,
        setting="what code outside of the runtime's heap allocates: extensions, direct buffers of "
        "a JVM (-XX:MaxDirectMemorySize, -Djdk.nio.maxCachedBufferSize), buffers of node; "
        f"memlab record {look.subject.pid}",
    )


_STACKS = FindingRow(
    "stacks",
    "stock",
    "stacks of threads",
    "B",
    "a quarter of anonymous memory is touched stacks",
    setting=(
        "fewer threads (a pool), or less on the stack; a limit below what is touched (ulimit "
        "-s) ends the program"
    ),
    experiments=("thread-create", "stack-map"),
)


def _stacks(look: Look) -> Iterator[Finding]:
    seen = look.stacks
    if seen is None or not growth.worth(seen.resident_bytes, look.memory.anonymous_bytes / 0.4):
        return
    each = seen.resident_bytes / seen.count
    yield _STACKS.found(
        NOTE,
        f"{size(seen.resident_bytes)} are the stacks of {units.counted(seen.count, 'thread')}, "
        f"{size(each)} each that its deepest calls have touched: a stack keeps that until its "
        "thread ends",
        seen.resident_bytes,
        facts(Fact("mapped for them", seen.mapped_bytes, "B")),
    )


_SOCKETS_HOLD = FindingRow(
    "sockets-hold",
    "stock",
    "queues of its sockets",
    "B",
    "16 MiB and a tenth of resident memory in queues",
    setting=(
        "a reader that keeps up; SO_SNDBUF and SO_RCVBUF, net.ipv4.tcp_wmem and tcp_rmem "
        "bound each queue; ss -tmp shows them"
    ),
    experiments=("memcg-accounting",),
)


def _sockets(look: Look) -> Iterator[Finding]:
    seen = look.sockets
    if seen is None or not growth.worth(seen.bytes, look.memory.resident_bytes):
        return
    parts = [
        text
        for value, text in (
            (seen.receiving_bytes, f"{size(seen.receiving_bytes)} received and not read by it"),
            (
                seen.sending_bytes,
                f"{size(seen.sending_bytes)} written by it and not taken by the other side",
            ),
        )
        if value >= seen.bytes / 20
    ]
    yield _SOCKETS_HOLD.found(
        NOTE,
        f"{size(seen.bytes)} lie in the queues of its {units.counted(seen.read, 'socket')}"
        f"{': ' if parts else ''}{', '.join(parts)}: the kernel's memory, in no process's resident "
        "memory",
        seen.bytes,
        facts(
            Fact("sockets", seen.count, "count"),
            Fact("reserved for what comes next", seen.other_bytes, "B"),
        ),
    )


# What to try for a heap that a runtime or a library has beside malloc, by its name.
_WITHIN = {
    inner_heap.PYTHON: "an arena of 1 MiB goes back when every object in it is gone; a worker that "
    "ends gives all back (max_requests)",
    "Python's pymalloc": "arenas go back when every object in them is gone: what lives on holds "
    "them; a worker that ends gives all back (max_requests), PYTHONMALLOC=malloc counts it in "
    "malloc",
    "V8": "--max-old-space-size; a heap snapshot says what lives",
    "the JVM": "-Xmx; jcmd PID GC.heap_info, VM.native_memory",
    "mimalloc": "mi_collect, MIMALLOC_PURGE_DELAY=0; the library's pool may have a call that "
    "gives back what is free, or a setting that takes the system's malloc",
    "jemalloc": "arena.0.purge by mallctl, dirty_decay_ms:0 in its MALLOC_CONF",
    "tcmalloc": "MallocExtension::ReleaseFreeMemory",
}


_HELD_BESIDE_MALLOC = FindingRow(
    "held-beside-malloc",
    "stock",
    "beside malloc",
    "B",
    "it does not fall after a peak, and malloc does not hold it",
    setting="by the allocator",
    experiments=("retained-memory",),
)


def _beside(look: Look) -> Iterator[Finding]:
    """RSS that does not fall after a peak, where malloc does not hold it."""
    memory, beside = look.memory, beside_malloc(look) - named_bytes(look)
    fell = memory.peak_resident_bytes - memory.resident_bytes
    if (
        look.heap is None
        or not growth.worth(beside, memory.anonymous_bytes / 0.2)
        or growth.is_growing(look)
    ):
        return
    moved = max(look.fell_bytes, look.highest_bytes - look.lowest_bytes)
    if fell < 4 * MiB or fell < memory.peak_resident_bytes / 50 or moved >= 4 * MiB:
        return  # one that still grows or falls is not at rest after its peak
    seen = look.pages
    if seen and seen.lazyfree and seen.lazyfree.value >= 0.1:
        return
    names = list(look.within)
    who = "its own mappings, or a heap that it keeps in them"
    if names:
        who += f" ({' or '.join(names[:3])}, not read)"
    settings = [text for name, text in _WITHIN.items() if any(name in one for one in names)]
    setting = "; ".join(settings[:2])
    policies = None
    if any("pymalloc" in one for one in names):
        now = started.present(look.started, "PYTHONMALLOC")
        policies = {"env.PYTHONMALLOC": [now, "malloc"]} if now != "malloc" else None
    yield _HELD_BESIDE_MALLOC.found(
        NOTE,
        f"{size(beside)} of {size(memory.anonymous_bytes)} anonymous memory are not malloc's "
        f"({size(look.heap.held_bytes)}) but of {who}; it was {size(fell)} larger at its peak, and "
        "what of it is free inside is not seen",
        beside,
        facts(
            Fact("resident", memory.resident_bytes, "B"),
            Fact("at its peak", memory.peak_resident_bytes, "B"),
        ),
        setting=setting,
        policies=policies,
    )
