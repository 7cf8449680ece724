"""Mappings that are of no heap, thread or file, by what /proc/PID/maps shows of them.

A mapping of a socket or an anonymous inode holds memory of the kernel, which counts as that of a
file (proc_pid_status(5), RssFile). Names of files decide nothing here: only protections, and names
that the kernel gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memlab.diagnose.pages import Pages
from memlab.diagnose.stacks import Stacks
from memlab.observe import process

MAIN_STACK, BREAK = "the main thread's stack", "[heap], by brk(2)"
CODE = "executable memory of no file"
READ_ONLY, INACCESSIBLE = "memory that may only be read", "memory that may not be accessed"
GUARDED, NAMED = "mappings behind a guard each", "memory named"
OF_MALLOC = f"{NAMED} glibc: malloc"
"""Since 2.39 glibc names its arenas, and objects with a mapping each, if glibc.mem.decorate_maps is
set."""
MAPS, SECRET = "maps of BPF, mapped", "secret memory (memfd_secret)"
SOCKET_RINGS, URINGS = "rings of sockets, mapped", "rings of io_uring, mapped"
_GUARD_BYTES_MAX, _GUARDED_LEAST = 64 << 10, 8
_OF_KERNEL = {
    "anon_inode:[io_uring]": URINGS,
    "anon_inode:[perf_event]": "rings of perf events, mapped",
    "anon_inode:bpf-map": MAPS,
    "/[aio] (deleted)": "rings of AIO, mapped",
    "/secretmem (deleted)": SECRET,
}
_NOTES = {
    SECRET: "locked, and not in the kernel's own address space",
    CODE: "as a JIT compiler's code is",
    INACCESSIBLE: "written before mprotect(2) took it away",
    MAIN_STACK: "a stack keeps what its deepest calls have touched",
}


@dataclass(frozen=True, slots=True)
class MappedForm:
    """All mappings of one form."""

    name: str
    resident_bytes: int
    count: int
    of_files: bool = False
    """Whether it counts as memory of files."""

    @property
    def note(self) -> str:
        """What else is known."""
        if self.name == GUARDED:
            return f"{self.count:,} of them, as stacks of coroutines or an allocator's chunks are"
        return _NOTES.get(self.name, "the kernel's memory" if self.of_files else "")


def read(
    mappings: Sequence[process.Mapping], scan: Pages | None, of_threads: Stacks | None
) -> tuple[MappedForm, ...]:
    """The largest first; none if page tables were not read."""
    if scan is None:
        return ()
    sums: dict[tuple[str, bool], list[int]] = {}
    stacks = of_threads.starts if of_threads else frozenset[int]()
    before: process.Mapping | None = None
    for mapping in mappings:
        size = scan.by_mapping.get(mapping.start, 0)
        if size:
            files_bytes = min(size, scan.files_by_mapping.get(mapping.start, 0))
            name = _private(mapping, before, stacks)
            if name and size > files_bytes:
                sums.setdefault((name, False), []).append(size - files_bytes)
            name = _of_kernel(mapping.path)
            if name and files_bytes:
                sums.setdefault((name, True), []).append(files_bytes)
        before = mapping
    forms = [
        MappedForm(name, sum(sizes), len(sizes), of_files)
        for (name, of_files), sizes in sums.items()
        if name != GUARDED or len(sizes) >= _GUARDED_LEAST
    ]
    return tuple(sorted(forms, key=lambda form: -form.resident_bytes))


def _private(
    mapping: process.Mapping, before: process.Mapping | None, stacks: frozenset[int]
) -> str | None:
    """The form of private memory; None of a plain mapping, and of one that is named elsewhere."""
    if mapping.path in ("[stack]", "[heap]"):
        return MAIN_STACK if mapping.path == "[stack]" else BREAK
    if not mapping.is_nameless or mapping.start in stacks or mapping.permissions.endswith("s"):
        return None
    if "x" in mapping.permissions:
        return CODE
    if not mapping.permissions.startswith("rw"):
        return READ_ONLY if mapping.permissions.startswith("r") else INACCESSIBLE
    if before and _is_guard(before) and before.end == mapping.start:
        return GUARDED
    return f"{NAMED} {mapping.path[6:-1].strip()}" if mapping.path else None


def _is_guard(mapping: process.Mapping) -> bool:
    is_closed = mapping.permissions.startswith("---") and mapping.is_nameless
    return is_closed and mapping.size_bytes <= _GUARD_BYTES_MAX


def _of_kernel(path: str) -> str | None:
    """None of a file, and of memory that is named elsewhere."""
    if path in _OF_KERNEL:
        return _OF_KERNEL[path]
    if path.startswith("socket:["):
        return SOCKET_RINGS
    if path.startswith("anon_inode:"):
        return f"{path}, mapped"
    return None


def bytes_of(forms: Sequence[MappedForm], name: str) -> int:
    """Resident in mappings of this form."""
    return sum(form.resident_bytes for form in forms if form.name == name)
