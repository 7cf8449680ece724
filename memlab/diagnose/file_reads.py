"""Page faults that read a device: from swap, or a file, and how much of what is read is used.

A fault on a page of a file maps at most 64 KiB around it (fault_around_bytes, mm/memory.c), so
that what is read beyond 64 KiB for each fault is used by none of them. /proc/PID/io counts what the
process reads from devices, readahead included.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

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
from memlab.diagnose.memory_files import PAGE
from memlab.diagnose.sites import Sites
from memlab.diagnose.started import whole_mib
from memlab.observe import files
from memlab.observe.proc import ROOT

_MAPPED_BYTES = 64 << 10  # around a fault, at most
_UNUSED_LEAST = 0.3
_LEAST_PER_S = 5.0
_COSTLY_WAIT = 0.1  # of a thread's time
_OF_FILES = 0.5  # of the sampled faults
_SAMPLED_LEAST, _IN_ORDER = 50, 0.8


_READS_FILES = FindingRow(
    "reads-files", "flow", "read from swap or a file", "1/s",
    "5 faults per second wait for a device",
    "MAP_POPULATE or MADV_WILLNEED before the memory is needed; mlock to keep it",
    experiments=("mmap-read", "locked-latency"),
)  # fmt: skip


def findings(look: Look, read_per_s: float) -> Iterator[Finding]:
    """Of faults that wait for a device."""
    severity = severity_of(read_per_s, _LEAST_PER_S, 50)
    if severity is None:
        return
    if waits_for_swap(look, read_per_s):
        yield _swap(look, read_per_s, severity)
        return
    unused = _unused_share(look, read_per_s)
    group = look.group
    is_full = group is not None and group.charge.used_bytes >= 0.9 * group.limit_bytes
    # What is read ahead in order would be used, if it was not dropped before.
    is_dropped = is_full and look.sites is not None and _goes_up(look.sites)
    if unused is not None and unused >= _UNUSED_LEAST and not is_dropped:
        yield _read_ahead(look, read_per_s, severity, unused)
        return
    if is_full:
        yield _dropped(look, read_per_s, severity)
        return
    if _is_in_order(look, read_per_s):
        yield _one_by_one(look, read_per_s, severity)
        return
    yield _READS_FILES.found(
        severity,
        f"it waits for mapped files to be read: {per_second(read_per_s, 'times')}",
        read_per_s,
        facts(_each(look, read_per_s), threads_of(look, "major_faults")),
        policies={"lock": ["off", "future"]},
    )


def _is_in_order(look: Look, read_per_s: float) -> bool:
    """Whether a file is read page by page in order, each by a fault of its own, though its device
    reads ahead: the kernel does so only after advice (do_sync_mmap_readahead(), mm/filemap.c)."""
    each = (look.read_bytes_per_s or 0.0) / read_per_s
    ahead = _read_ahead_kib(look, _file(look))
    return (
        look.sites is not None
        and _goes_up(look.sites)
        and PAGE / 2 <= each < 2 * PAGE
        and ahead is not None
        and ahead << 10 > PAGE
    )


def _goes_up(seen: Sites) -> bool:
    return seen.sampled >= _SAMPLED_LEAST and seen.in_order >= _IN_ORDER


def _one_by_one(look: Look, read_per_s: float, severity: Severity) -> Finding:
    name = _file(look)
    return _READS_FILES.found(
        severity,
        f"it reads {name} in order and waits for each page, {per_second(read_per_s, 'times')}, "
        f"though read_ahead_kb is {_read_ahead_kib(look, name):,}: nothing is read ahead, as after "
        "MADV_RANDOM or many faults at random",
        read_per_s,
        facts(_each(look, read_per_s), threads_of(look, "major_faults")),
        setting="MADV_SEQUENTIAL on what is read in order, in a mapping of its own if others read "
        "at random (the advice is per mapping)",
    )


def waits_for_swap(look: Look, read_per_s: float) -> bool:
    """Whether faults that read a device are waits for swap."""
    return read_per_s >= _LEAST_PER_S and look.memory.swapped_bytes > 0 and not _on_files(look)


_READS_SWAP = FindingRow(
    "reads-swap", "flow", "read from swap or a file", "1/s", "5 faults per second wait for swap",
    "mlock what has to answer in time; memory.swap.max=0 or a lower swappiness for its group; "
    "more memory",
    experiments=("locked-latency",),
)  # fmt: skip


def _swap(look: Look, read_per_s: float, severity: Severity) -> Finding:
    now, swapped = look.memory.resident_bytes, look.memory.swapped_bytes
    return _READS_SWAP.found(
        severity,
        f"it waits for its memory to come back from swap: {per_second(read_per_s, 'page faults')}",
        read_per_s,
        facts(Fact("in swap", swapped, "B"), threads_of(look, "major_faults")),
        policies={
            "lock": ["off", "future_onfault"],
            "memory_max": [whole_mib(now), whole_mib(now + swapped)],
            "swap": ["file"],
        },
    )


_READS_AHEAD_UNUSED = FindingRow(
    "reads-ahead-unused", "flow", "read from swap or a file", "1/s",
    "5 faults per second read a device, and none uses 30 % of what they read",
    "MADV_RANDOM for what is looked up at random ends the readahead; a smaller read_ahead_kb of "
    "the device",
    experiments=("mmap-read",),
)  # fmt: skip


def _read_ahead(look: Look, read_per_s: float, severity: Severity, unused: float) -> Finding:
    """Readahead that is not used: one advice, be the group full or not."""
    name = _file(look)
    ahead = _read_ahead_kib(look, name)
    setting = f" (read_ahead_kb {ahead:,})" if ahead is not None else ""
    each = (look.read_bytes_per_s or 0.0) / read_per_s
    waits = look.waits
    slept = waits.by_kind.get("a page of a file", 0) / max(1, waits.samples) if waits else 0.0
    if waits and slept * waits.threads >= _COSTLY_WAIT:
        severity = COSTLY
    return _READS_AHEAD_UNUSED.found(
        severity,
        f"each page fault on {name or 'mapped files'} that reads brings in {size(each)}{setting}: "
        f"{share(unused)} or more of what is read is used by no fault; it waits "
        f"{per_second(read_per_s, 'times')}",
        read_per_s,
        facts(
            Fact("read from devices", look.read_bytes_per_s or 0.0, "B/s"),
            Fact("page faults without a read", look.rate("minor_faults") or 0.0, "1/s"),
            threads_of(look, "major_faults"),
        ),
    )


_GROUP_LIMIT_DROPS_FILES = FindingRow(
    "group-limit-drops-files", "flow", "read from swap or a file", "1/s",
    "5 faults per second wait for files, and the group is 90 % full",
    "more memory for the group; MADV_COLD on pages that are not used again",
    experiments=("advice-reclaim", "mmap-read"),
)  # fmt: skip


def _dropped(look: Look, read_per_s: float, severity: Severity) -> Finding:
    group = look.group
    assert group is not None
    return _GROUP_LIMIT_DROPS_FILES.found(
        severity,
        f"it waits for mapped files to be read ({per_second(read_per_s, 'times')}): its group "
        "is full, and its page cache is dropped as it is read; nobody is killed for that",
        read_per_s,
        facts(
            Fact("page cache in the group", group.charge.file_clean_bytes, "B"),
            Fact(group.limit_name, group.limit_bytes, "B"),
            _each(look, read_per_s),
            threads_of(look, "major_faults"),
        ),
        policies={"memory_max": [whole_mib(group.limit_bytes), whole_mib(2 * group.limit_bytes)]},
    )


def _unused_share(look: Look, read_per_s: float) -> float | None:
    """The least share of what is read that no fault can use; None where reads are not seen."""
    if not look.read_bytes_per_s:
        return None
    used = (read_per_s + (look.rate("minor_faults") or 0.0)) * _MAPPED_BYTES
    return max(0.0, 1 - used / look.read_bytes_per_s)


def _each(look: Look, read_per_s: float) -> Fact | None:
    if look.read_bytes_per_s is None:
        return None
    return Fact("read for each", look.read_bytes_per_s / read_per_s, "B")


def _on_files(look: Look) -> bool:
    """Whether most sampled faults are on files: then they are not waits for swap."""
    seen = look.sites
    if seen is None or not seen.sampled:
        return False
    on_files = sum(one.count for one in seen.memory if one.where.startswith("/"))
    return on_files >= _OF_FILES * seen.sampled


def _file(look: Look) -> str | None:
    """The file that most sampled faults are on."""
    first = look.sites.memory[0] if look.sites and look.sites.memory else None
    return first.where if first and first.where.startswith("/") else None


def _read_ahead_kib(look: Look, name: str | None) -> int | None:
    """Of the device that the file is on; a partition has none of its own."""
    if name is None:
        return None
    path = ROOT / f"proc/{look.subject.number}/root" / name.lstrip("/")
    device = files.known(lambda: path.stat().st_dev)
    if device is None:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    places = (
        ROOT / f"sys/class/bdi/{number}/read_ahead_kb",
        Path(f"{ROOT}/sys/dev/block/{number}/../queue/read_ahead_kb"),
    )
    return next((found for one in places if (found := files.number(one)) is not None), None)


def severity_of(value: float, note: float, costly: float) -> Severity | None:
    """None below both."""
    return COSTLY if value >= costly else NOTE if value >= note else None


def threads_of(look: Look, *names: str) -> Fact | None:
    """The thread that does most of these, and its share."""
    sums = [(sum(t.per_s.get(name, 0) for name in names), t) for t in look.threads]
    total = sum(value for value, _ in sums)
    if not total:
        return None
    most, first = max(sums, key=lambda pair: pair[0])
    return Fact("most by thread", f"{first.tid} ({first.command}), {share(most / total)} of them")
