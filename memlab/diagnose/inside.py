"""What anonymous memory that is not malloc's holds, as far as it is recognised, and sockets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlab.diagnose import allocator_marks, growth, inner_heap, mapped_forms, refused, started
from memlab.diagnose.account import Line
from memlab.diagnose.finding import NOTE, Fact, Finding, FindingRow, facts, per_second, share, size
from memlab.diagnose.group import Charge
from memlab.diagnose.heap import Heap
from memlab.diagnose.inner_heap import InnerHeap
from memlab.diagnose.kernel_held import KernelHeld
from memlab.diagnose.look import Look
from memlab.diagnose.mapped_forms import MappedForm
from memlab.diagnose.sockets import QueuesOfProcesses, Sockets
from memlab.diagnose.stacks import Stacks
from memlab.diagnose.static_data import FileMemory
from memlab.observe.process import DELETED
from memlab.text import units

MiB = units.MiB
_WORTH_SHARE = 0.25
_FILES_NAMED = 3
_FORM_BYTES_LEAST, _FORM_SHARE_LEAST = 1 << 20, 0.05
_STACK_BYTES_LEAST = 8 << 10  # its control block's page, and that of its deepest call


def beside_malloc(look: Look) -> float:
    """Anonymous memory that is not of malloc's heaps: the program's own mappings, or a heap that a
    runtime has beside it. At least what of it has a name: the heaps of a process that grows are
    read when they are larger than its memory was."""
    of_malloc = look.heap.resident_bytes + look.heap.mapped_bytes if look.heap else 0
    return max(named_bytes(look), look.memory.anonymous_bytes - of_malloc)


def beside_malloc_line(look: Look) -> Line:
    """With its bounds, if a part of malloc's objects was not read."""
    heap, low, high = look.heap, None, None
    if heap and heap.mapped_bounds:
        least, most = heap.mapped_bounds
        rest = look.memory.anonymous_bytes - heap.resident_bytes
        named = named_bytes(look)
        low, high = max(named, rest - most), max(named, rest - least)
    return Line("beside malloc", beside_malloc(look), low, high, part_of="anonymous")


def in_objects(look: Look, heap: Heap) -> Line:
    """What is in malloc's objects, and how much of it in such as have a mapping each: a runtime may
    keep its heap in these, and what of one is free inside no reader knows."""
    used = heap.used_bytes
    low, high = heap.mapped_bounds or (None, None)
    if low is not None and high is not None:
        low, high = used + low, used + high
    note = "{} in {} mapped alone".format(*_alone(heap)) if heap.mapped_bytes else ""
    if used + heap.mapped_bytes > look.memory.anonymous_bytes and look.growth_bytes_per_s > 0:
        note = "; ".join(filter(None, (note, "read a moment later than the rest: it grows")))
    if heap.mapped_bytes > max(MiB, look.memory.anonymous_bytes / 2):
        note += ": what lies in them was not read"
    return Line(
        "in malloc's objects", used + heap.mapped_bytes, low, high, note, part_of="anonymous"
    )


def _alone(heap: Heap) -> tuple[str, str]:
    """How much is in objects with a mapping each, and in how many: of an estimate at least those
    that were read."""
    about, over = ("about ", "over ") if heap.mapped_bounds else ("", "")
    return f"{about}{size(heap.mapped_bytes)}", f"{over}{heap.mapped_count:,}"


def named_bytes(look: Look) -> int:
    """Of it what has a name: stacks, heaps that were read, memory of files. A form alone does not
    say whose memory it is."""
    stacks = look.stacks.resident_bytes if look.stacks else 0
    stacks += look.of_files.resident_bytes if look.of_files else 0
    stacks += mapped_forms.bytes_of([*_forms(look)], mapped_forms.MAIN_STACK)
    return stacks + sum(one.resident_bytes for one in look.inner_heaps)


def lines(look: Look) -> Iterator[Line]:
    """Parts of the line `beside malloc`, or of anonymous memory if malloc was not read."""
    of = "beside malloc" if look.heap else "anonymous"
    for one in look.inner_heaps:
        yield _line(f"in {one.name}", one.used_bytes, one, of, one.note)
        yield _line(f"free in {one.name}", one.free_bytes, one, of, "")
    if look.stacks and look.stacks.count:
        yield _of_stacks(look, look.stacks, of)
    if look.of_files:
        for name, those in (
            ("static data", look.of_files.static),
            ("copies of pages of files, made by writes", look.of_files.copies),
        ):
            resident = sum(file.resident_bytes for file in those)
            yield Line(name, resident, part_of=of, note=_of_files(those))
    rest = max(0.0, beside_malloc(look) - (named := named_bytes(look)))
    for form in _forms(look):
        size = form.resident_bytes
        if form.name != mapped_forms.MAIN_STACK:
            size = min(size, int(rest))
            named, rest = named + size, rest - size
        yield Line(form.name, size, part_of=of, note=_of_form(look, form))
    who = _not_read(look)
    if not who and rest > look.memory.resident_bytes / 10:
        who = "what lies in them was not read"
    notes = (who, _stacks_elsewhere(look, rest), _largest(look, rest))
    unread = "; ".join(filter(None, notes))
    if named or unread:
        yield Line("other mappings", rest, part_of=of, note=unread)


def _of_stacks(look: Look, stacks: Stacks, of: str) -> Line:
    """With the addresses that virtual size counts, touched or not."""
    note = f"of {_whose_stacks(look, stacks)}; {size(stacks.mapped_bytes)} of addresses"
    return Line("stacks of threads", stacks.resident_bytes, part_of=of, note=note)


def _whose_stacks(look: Look, stacks: Stacks) -> str:
    """glibc keeps those of threads that ended or could not begin. Threads are counted before their
    stacks: while new ones are made, more stacks may be theirs."""
    more = max(0, stacks.count - (look.thread_count - 1))
    threads = units.counted(stacks.count - more, "thread")
    whose = "of newer threads or kept for new ones" if look.new_threads else "kept for new ones"
    return f"{threads}{f', and {more} or more that are {whose}' if more else ''}"


def _forms(look: Look) -> Iterator[MappedForm]:
    """Those of private memory that are large enough for a line, and no part of a heap that was
    read."""
    has_v8 = any(one.name == inner_heap.V8 for one in look.inner_heaps)
    for form in look.forms:
        is_of_malloc = form.name == mapped_forms.BREAK or form.name.startswith(
            mapped_forms.OF_MALLOC
        )
        is_read = (is_of_malloc and look.heap is not None) or (
            form.name == mapped_forms.CODE and has_v8
        )
        is_large = form.resident_bytes >= max(
            _FORM_BYTES_LEAST, look.memory.anonymous_bytes * _FORM_SHARE_LEAST
        )
        if not form.of_files and not is_read and is_large:
            yield form


def _of_form(look: Look, form: MappedForm) -> str:
    if form.name == mapped_forms.BREAK:
        return _of_break(look)
    if form.name == mapped_forms.GUARDED and look.guarded_stacks >= form.count:
        return f"{form.count:,} stacks of threads that have ended"
    return form.note


def new_stacks(look: Look) -> tuple[float, str]:
    """Bytes per second that it grows by in stacks of threads that have ended, at their mean, and
    what says so; 0 if most of its mappings are no such stacks, or their number does not grow."""
    ended = [one for one in _forms(look) if one.name == mapped_forms.GUARDED]
    more = next((one.growth_per_s for one in look.rooms if one.name == "vm.max_map_count"), 0.0)
    if not ended or not refused.keeps_stacks(look) or more <= 0:
        return 0.0, ""
    each, new = ended[0].resident_bytes / ended[0].count, more / 2  # each has a guard
    return new * each, f"{per_second(new, 'stacks')} of threads that have ended, {size(each)} each"


def _of_break(look: Look) -> str:
    """What may lie in memory that brk(2) makes, of which no heap was read."""
    is_glibc = look.allocator is not None and look.allocator.name == "glibc"
    return "malloc was not read" if is_glibc else _not_read(look)


def kernel_lines(look: Look) -> Iterator[Line]:
    """Memory of the kernel that it maps, which counts as that of files."""
    for form in look.forms:
        if form.of_files and form.resident_bytes >= _FORM_BYTES_LEAST:
            yield Line(form.name, form.resident_bytes, part_of="files", note=form.note)


def _of_files(those: Sequence[FileMemory]) -> str:
    """The largest three."""
    parts = []
    for file in those[:_FILES_NAMED]:
        name, largest = file.path.removesuffix(DELETED).rpartition("/")[2], file.variable[:40]
        variable = f" ({largest} has {size(file.variable_bytes)})" if largest else ""
        parts.append(f"{size(file.resident_bytes)} of {name[:40]}{variable}")
    return ", ".join(parts)


def _stacks_elsewhere(look: Look, rest: float) -> str:
    """Not if they lie in malloc's objects, because the other mappings have no room for them."""
    count = look.stacks.elsewhere if look.stacks else 0
    if rest < count * _STACK_BYTES_LEAST:
        return ""
    return f"stacks of {units.counted(count, 'thread')} lie in them" if count else ""


def _largest(look: Look, rest: float) -> str:
    """The largest mapping without a name, if a tenth of resident memory is in it beside all parts
    that have a name: the kernel joins what lies side by side, so that one may have an object of
    malloc and what the program mapped next to it. A form is of other mappings, or is this one."""
    heap = look.heap
    of_break = mapped_forms.bytes_of(look.forms, mapped_forms.BREAK)
    joined = [max(0, heap.resident_bytes - of_break), heap.mapped_bytes] if heap else []
    joined += [heap.resident_bytes for heap in look.inner_heaps]
    joined += [part.resident_bytes for part in (look.stacks, look.of_files) if part]
    forms = max((form.resident_bytes for form in _forms(look)), default=0)
    for use in look.largest:
        if not use.name.startswith("anonymous at ") or use.resident_bytes <= forms:
            continue
        least = use.resident_bytes - sum(joined)
        if look.memory.resident_bytes / 10 < least <= rest:
            bound = " or more" if sum(joined) else ""
            return f"{size(least)}{bound} of it {use.name.removeprefix('anonymous ')}"
    return ""


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
    note = f"of {units.counted(seen.read, 'socket')}"
    if seen.unaccepted_bytes:
        note += (
            f" and {units.counted(seen.unaccepted_count, 'connection')} that it has not accepted"
        )
    if seen.sending_bytes > seen.bytes / 2:
        note += f"; {size(seen.sending_bytes)} written by it and not taken by the other side"
    return Line("queues of its sockets", seen.bytes, part_of="none", note=note)


def ring_line(look: Look) -> Line:
    """Of packet sockets what it does not map."""
    whole = look.sockets.ring_bytes if look.sockets else 0
    mapped = mapped_forms.bytes_of(look.forms, mapped_forms.SOCKET_RINGS)
    return Line("rings of its sockets, not mapped", max(0, whole - mapped), part_of="none")


def of_kernel(seen: KernelHeld) -> Iterator[Line]:
    """Memory of the kernel behind its descriptors."""
    pipes, programs = (
        units.counted(count, noun)
        for count, noun in ((seen.pipe_count, "pipe"), (seen.program_count, "program"))
    )
    note = f"in {seen.filled_count:,} of {pipes}, with room for {size(seen.pipe_room_bytes)}"
    yield Line("data in its pipes", seen.pipe_bytes, part_of="none", note=note)
    note = f"of {units.counted(seen.queue_count, 'queue')}; slab takes more"
    yield Line(_MESSAGES, seen.message_bytes, part_of="none", note=note)
    note = f"of {units.counted(seen.map_count, 'map')}"
    yield Line("BPF maps", seen.map_bytes, part_of="none", note=note)
    note = f"of {programs}, without what they are compiled to"
    yield Line("BPF programs", seen.program_bytes, part_of="none", note=note)


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of it."""
    yield from _free_inside(look)
    yield from _beside(look)
    yield from _in_malloc(look)
    yield from _stacks(look)
    yield from _sockets(look)
    yield from _kernel_holds(look)


_RETAINED_INSIDE = FindingRow(
    "retained-inside", "stock", "free in a heap beside malloc", "B",
    "16 MiB and a quarter of anonymous memory are free in Python's pools, mimalloc's arenas or "
    "V8's heap",
    experiments=("retained-memory",),
)  # fmt: skip


def _free_inside(look: Look) -> Iterator[Finding]:
    """The largest first; what is free in a Java heap is the JVM's to keep (-Xms)."""
    for one in sorted(look.inner_heaps, key=lambda heap: -heap.free_bytes):
        part = one.free_bytes / max(1, look.memory.anonymous_bytes)
        large = growth.worth(one.free_bytes, 0) and part >= _WORTH_SHARE
        if (
            one.name not in (inner_heap.JAVA, inner_heap.CLASSES)
            and large
            and not growth.is_growing(look)
        ):
            yield _free_in(look, one, part)


def _free_in(look: Look, one: InnerHeap, part: float) -> Finding:
    beside = f"between {size(one.used_bytes)} in objects that live"
    setting = _WITHIN.get(one.name, "")
    if one.name != inner_heap.PYTHON:
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
    )


_IN_MALLOC = FindingRow(
    "in-malloc", "stock", "in malloc's objects", "B",
    "16 MiB and 4 % of resident memory are malloc's objects, beside a heap of its own",
    experiments=("allocator",),
)  # fmt: skip


def _in_malloc(look: Look) -> Iterator[Finding]:
    """Beside a runtime's own heap: what its monitoring does not count."""
    heap = look.heap
    runtimes = [*(one.name for one in look.inner_heaps), *look.within]
    runtimes = runtimes or [look.runtime] if look.runtime else runtimes
    if heap is None or not runtimes or growth.is_growing(look):
        return
    used = heap.used_bytes + heap.mapped_bytes
    if not growth.worth(used, look.memory.resident_bytes / 2.5):
        return
    alone = ""
    if heap.mapped_count and heap.mapped_bytes >= used / 2:
        alone = ", {} of it in {} of their own mapping".format(*_alone(heap))
    yield _IN_MALLOC.found(
        NOTE,
        f"{size(used)} are objects of malloc that are in use{alone}: beside the heap of its "
        f"runtime ({runtimes[0]}), and not free",
        used,
        setting=f"{_outside(runtimes[0])}; memlab record {look.subject.pid}",
    )


def mostly_malloc(look: Look) -> tuple[str, str]:
    """Of a process with a small heap beside malloc: that most is malloc's objects, and what takes
    these; both empty of another."""
    if look.heap is None or not (look.inner_heaps or look.runtime):
        return "", ""
    used = look.heap.used_bytes + look.heap.mapped_bytes
    beside = sum(inner.resident_bytes for inner in look.inner_heaps) or beside_malloc(look)
    if used < growth.WORTH_BYTES or used < look.memory.anonymous_bytes / 2 or beside > used / 4:
        return "", ""
    if not look.inner_heaps:
        return (
            f"most of its anonymous memory is malloc's objects, {size(used)}, and not of "
            f"{look.runtime}"
        ), _outside(look.runtime)
    largest = max(look.inner_heaps, key=lambda inner: inner.resident_bytes)
    return (
        f"most of its anonymous memory is malloc's objects, {size(used)}, and not {largest.name}, "
        f"{size(largest.resident_bytes)}"
    ), _outside(largest.name)


_PROFILES = {
    inner_heap.JAVA: "jcmd PID GC.heap_info, GC.class_histogram; -Xmx bounds it",
    inner_heap.V8: "a heap snapshot (--heapsnapshot-signal); --max-old-space-size bounds it",
    inner_heap.PYTHON: "tracemalloc",
    allocator_marks.GO: "its profiles of the heap and of goroutines (net/http/pprof)",
    "jemalloc": "a profile of its own (MALLOC_CONF=prof:true), or the program's counters",
}
"""Of what grows in a heap, by its name."""


def mostly_runtime(look: Look) -> tuple[str, str]:
    """The heap beside malloc that most of anonymous memory is in, if that was read, and what shows
    what lies in it; both empty without such a heap."""
    half, words, name = look.memory.anonymous_bytes / 2, "", ""
    largest = max(look.inner_heaps, key=lambda inner: inner.resident_bytes, default=None)
    if largest is not None and largest.resident_bytes >= half:
        name, note = largest.name, f" ({largest.note})" if largest.note else ""
        words = f"most of its anonymous memory is in {name}, {size(largest.resident_bytes)}{note}"
    elif beside_malloc(look) - named_bytes(look) >= half:
        name = _not_read(look)
    return words, "; ".join(text for of, text in _PROFILES.items() if of in name)


# What a runtime takes from malloc, by a word of its heap's name.
_OF_JVM = (
    "direct buffers (-XX:MaxDirectMemorySize, -Djdk.nio.maxCachedBufferSize), and what libraries "
    "behind JNI allocate"
)
_OUTSIDE = {
    "Java": _OF_JVM,
    "JVM": _OF_JVM,
    "V8": "buffers of node, and what addons allocate",
    "Python": "objects over 512 bytes, such as long strings, lists and bytearrays, and what "
    "extensions allocate",
    "Go": "what C code behind cgo allocates (C.CString, C.malloc): a profile of Go has none of it",
    "Ruby": "strings, arrays and hashes that do not fit into a slot, and what extensions allocate",
}


def _outside(runtime: str) -> str:
    words = (text for name, text in _OUTSIDE.items() if name in runtime)
    return next(words, "what libraries outside of the runtime's heap allocate")


_STACKS = FindingRow(
    "stacks", "stock", "stacks of threads", "B",
    "16 MiB and a quarter of anonymous memory are touched stacks",
    "fewer threads (a pool), or less on the stack; a limit below what is touched (ulimit -s) ends "
    "the program",
    experiments=("thread-create", "stack-map"),
)  # fmt: skip


_LOCAL_VARIABLES = (
    "fewer threads (a pool), or smaller variables of this kind (readelf -lW names the TLS segment "
    "of a file); the size of the stacks does not change it"
)


def _stacks(look: Look) -> Iterator[Finding]:
    seen = look.stacks
    if seen is None or not growth.worth(seen.resident_bytes, look.memory.anonymous_bytes / 0.4):
        return
    each = seen.resident_bytes / seen.count
    whose = _whose_stacks(look, seen)
    touched, setting = "which its deepest calls touched", None
    if seen.local_bytes >= seen.resident_bytes / 4:
        part = size(seen.local_bytes / seen.count)
        touched = f"of which {part} are variables that are local to a thread (__thread)"
        setting = _LOCAL_VARIABLES
    yield _STACKS.found(
        NOTE,
        f"{size(seen.resident_bytes)} are the stacks of {whose}: {size(each)} each, {touched}; "
        "a stack keeps that until its thread ends",
        seen.resident_bytes,
        facts(Fact("mapped for them", seen.mapped_bytes, "B")),
        setting=setting,
    )


GROUP_QUEUES = "queues of sockets of its processes"
_SOCKETS_HOLD = FindingRow(
    "sockets-hold", "stock", "queues of its sockets", "B",
    "16 MiB and a tenth of resident memory in queues",
    "a reader that keeps up; SO_SNDBUF and SO_RCVBUF, net.ipv4.tcp_wmem and tcp_rmem bound each "
    "queue; ss -tmp shows them",
    experiments=("memcg-accounting",),
)  # fmt: skip


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
            (
                seen.unaccepted_bytes,
                f"{size(seen.unaccepted_bytes)} in "
                f"{units.counted(seen.unaccepted_count, 'connection')} that it has not accepted",
            ),
            (seen.other_bytes, f"{size(seen.other_bytes)} reserved for what comes next"),
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


def of_group_sockets(seen: QueuesOfProcesses, charge: Charge, version: str) -> Iterator[Finding]:
    """Queues of the sockets of a group's processes, beyond what the group is charged with."""
    if not growth.worth(seen.bytes - charge.sockets_bytes, charge.used_bytes):
        return
    counts = f"the group is charged with {size(charge.sockets_bytes)} for those of TCP and UDP"
    if version == "1":
        counts = (
            "cgroup v1 charges it nothing for those of TCP and UDP, and counts them only after "
            "memory.kmem.tcp.limit_in_bytes was set"
        )
    counts += "; those of Unix are among its other memory of the kernel"
    yield _SOCKETS_HOLD.found(
        NOTE,
        f"{size(seen.bytes)} lie in the queues of {units.counted(seen.count, 'socket')} of its "
        f"processes, most of {seen.most_of}: the kernel's memory, in no process's resident "
        f"memory; {counts}",
        seen.bytes,
        line=GROUP_QUEUES,
    )


# What to try for a heap that a runtime or a library has beside malloc, by its name.
_WITHIN = {
    inner_heap.PYTHON: "no setting gives it back: an arena of 1 MiB goes when every object in it "
    "is gone; a worker that ends gives all back (max_requests)",
    "Python's pymalloc": "arenas go back when every object in them is gone: what lives on holds "
    "them; a worker that ends gives all back (max_requests), PYTHONMALLOC=malloc counts it in "
    "malloc",
    "V8": "--max-old-space-size; a heap snapshot says what lives",
    "the JVM": "-Xmx; jcmd PID GC.heap_info, VM.native_memory",
    "mimalloc": "mi_collect, MIMALLOC_PURGE_DELAY=0; the library's pool may have a call that "
    "gives back what is free, or a setting that takes the system's malloc",
    allocator_marks.GO: "debug.FreeOSMemory after a peak, GOMEMLIMIT; a heap profile (pprof)",
    "jemalloc": "arena.0.purge by mallctl, dirty_decay_ms:0 in its MALLOC_CONF",
    "tcmalloc": "MallocExtension::ReleaseFreeMemory",
}


_HELD_BESIDE_MALLOC = FindingRow(
    "held-beside-malloc", "stock", "beside malloc", "B",
    "16 MiB and half of anonymous memory are beside malloc, after a peak 4 MiB and 2 % higher",
    experiments=("retained-memory",),
)  # fmt: skip


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
    if seen and seen.lazy_bytes >= max(1, seen.anonymous_bytes / 10):
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


_MESSAGES = "messages in its queues"
_KERNEL_HOLDS = FindingRow(
    "kernel-holds", "stock", "data in its pipes", "B",
    "16 MiB and a tenth of resident memory in pipes, message queues and BPF objects",
    "a reader that keeps up with the pipes (ls -l /proc/PID/fd)",
    experiments=("memcg-accounting",),
)  # fmt: skip


def _kernel_holds(look: Look) -> Iterator[Finding]:
    in_kernel = look.kernel_held
    if in_kernel is None or not growth.worth(in_kernel.bytes, look.memory.resident_bytes):
        return
    kinds = sorted(_kinds(in_kernel), key=lambda kind: -kind[0])
    parts = [f"{size(value)} are {what}" for value, what, _, _ in kinds
             if value >= in_kernel.bytes / 20]  # fmt: skip
    _, _, line, setting = kinds[0]
    yield _KERNEL_HOLDS.found(
        NOTE,
        f"{' and '.join(parts)}: the kernel's memory, in no process's resident memory",
        in_kernel.bytes,
        line=line,
        setting=setting,
    )


def _kinds(seen: KernelHeld) -> Iterator[tuple[int, str, str | None, str | None]]:
    """Of each kind the bytes, what they are, the line of the account, and what to try."""
    count = units.counted(seen.filled_count, "pipe")
    yield seen.pipe_bytes, f"data that nobody has read from {count}", None, None
    count = units.counted(seen.queue_count, "queue")
    place = f" ({size(seen.system_v_bytes)} in those of System V, which stay when it ends)"
    if seen.system_v_bytes == seen.message_bytes:
        place = " of System V, which stay when it ends"
    yield (
        seen.message_bytes,
        f"messages that nobody has received from {count}{place if seen.system_v_bytes else ''}",
        _MESSAGES,
        "a reader that keeps up; ipcs -qp says who used a queue of System V last, ipcrm -q ID "
        "removes it",
    )
    count = units.counted(seen.map_count, "BPF map")
    yield seen.map_bytes, count, "BPF maps", "smaller or fewer maps (bpftool map)"
    count = units.counted(seen.program_count, "BPF program")
    yield seen.program_bytes, count, "BPF programs", "fewer or smaller programs (bpftool prog)"
