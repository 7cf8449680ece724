"""Memory cgroups that were removed and that the kernel still has: whatever is charged to one keeps
it. It costs slab and per-CPU memory, of no process.

v1 counts them among num_cgroups of /proc/cgroups, v2 in cgroup.stat. /proc/kpagecgroup gives for
their pages the nearest group above that exists (mm/memcontrol.c, page_cgroup_ino()), so it does not
tell them from that group's. The kernel's sums do: of v1 a total_ counter is that of the group, of
those below it that exist, and of the removed ones; of v2 a group above others has no process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memlab.diagnose import group, tree
from memlab.diagnose.call_facts import shown
from memlab.diagnose.finding import NOTE, Fact, Finding, FindingRow, facts, size
from memlab.observe import cgroup, files
from memlab.observe.proc import ROOT

_FOLDERS_MAX = 5000
LEAST_COUNT = 1000
_BATCHES_BYTES = 1 << 20  # the sums of groups are brought together in batches
_PAGES = {"1": ("cache", "rss"), "2": ("file", "anon")}  # cache and file are with shared memory


@dataclass(frozen=True, slots=True)
class RemovedGroups:
    """Those of this machine."""

    count: int
    existing: int
    version: str
    charged_bytes: int = 0
    """Page cache, shared and anonymous memory; of v2 that of the groups above is among it."""
    most_below: str = ""
    """The group below which most of it, of v2 most of them, are."""
    slab_each_bytes: int | None = None
    """What one takes at least: its object in the kernel's cache mem_cgroup (Linux 6.16)."""


def read() -> tuple[RemovedGroups | None, str]:
    """None without memory cgroups, or if they were not counted: then why."""
    groups = cgroup.locate()
    mount, version = groups.memory_mount, groups.memory_version
    if mount is None or version is None:
        return None, ""
    if not group.has_host_paths():
        return None, "this program sees a part of the cgroups"
    listed = _number("cgroups", "memory", 2) if version == "1" else None  # removed ones too
    below, whole = tree.folders(mount, _FOLDERS_MAX)
    if not whole and len(below) < _FOLDERS_MAX:
        return None, "this user may not list all memory cgroups"
    if not whole:
        return None, f"there are over {_FOLDERS_MAX:,} memory cgroups"
    dying = _dying(mount) if version == "2" else None
    count = dying if listed is None else listed - len(below) - 1
    if count is None:
        return None, "this kernel does not count them"
    result = RemovedGroups(max(0, count), len(below) + 1, version)
    if count < LEAST_COUNT:
        return result, ""
    above = _children(mount, below)
    charged = {path: _charged(path, own, version) for path, own in above.items()}
    if version == "2":
        charged.pop(mount, None)  # processes of no group are charged to it
    charged = {path: value for path, value in charged.items() if value >= _BATCHES_BYTES}
    by = charged
    if version == "2":  # removed ones directly below: no existing group lies between
        counts = {path: _dying(path) or 0 for path in above}
        by = {path: counts[path] - sum(map(counts.__getitem__, own)) for path, own in above.items()}
    most = max(by, key=lambda path: by[path], default=mount)
    where = "" if most == mount else str(most.relative_to(mount))
    slab_each = _number("slabinfo", "mem_cgroup", 3)
    return replace(
        result, charged_bytes=sum(charged.values()), most_below=where, slab_each_bytes=slab_each
    ), ""


def _number(file: str, name: str, column: int) -> int | None:
    """Of the row of this name, in a table of /proc."""
    rows = (words for words in files.rows(ROOT / "proc" / file) if words[:1] == [name])
    numbers = (words[column] for words in rows if len(words) > column)
    return next((int(number) for number in numbers if number.isdecimal()), None)


def _dying(path: Path) -> int | None:
    """Of v2, below a group; since Linux 6.12 those of the memory controller are counted."""
    counts = group.pairs(path / "cgroup.stat")
    return counts.get("nr_dying_subsys_memory", counts.get("nr_dying_descendants"))


def _children(mount: Path, below: Sequence[Path]) -> Mapping[Path, Sequence[Path]]:
    result: dict[Path, list[Path]] = {path: [] for path in (mount, *below)}
    for path in below:
        result[path.parent].append(path)
    return result


def _charged(path: Path, below: Sequence[Path], version: str) -> int:
    """What is charged to removed groups below this one, and of v2 what is charged to it."""
    if version == "2":
        controls = (files.text(path / "cgroup.subtree_control") or "").split()
        if "memory" not in controls:  # its own processes are charged to it
            return 0
    total = "total_" if version == "1" else ""
    counts = group.pairs(path / "memory.stat")
    whole = _in_pages(counts, version, total)
    rest = whole - (_in_pages(counts, version) if version == "1" else 0)
    for child in below:
        rest -= _in_pages(group.pairs(child / "memory.stat"), version, total)
    if rest >= _BATCHES_BYTES:  # subtract what the children dropped while they were read
        rest -= max(0, whole - _in_pages(group.pairs(path / "memory.stat"), version, total))
    return rest


def _in_pages(counts: Mapping[str, int], version: str, begin: str = "") -> int:
    return sum(counts.get(f"{begin}{name}", 0) for name in _PAGES[version])


REMOVED_GROUPS = FindingRow(
    "machine-removed-groups", "stock", "per-CPU memory", "count",
    "1,000 memory cgroups that were removed and that something keeps",
    experiments=("memcg-accounting",),
)  # fmt: skip
_TRIED = {
    "1": "echo 0 > memory.force_empty in a group before its rmdir",
    "2": "echo SIZE > memory.reclaim in a group before its rmdir (Linux 5.19; SIZE: its "
    "memory.current)",
}


def finding(seen: RemovedGroups, per_cpu_bytes: int | None) -> Finding:
    """`per_cpu_bytes`: of the machine."""
    costs = []
    if seen.slab_each_bytes:
        costs.append(f"{size(seen.slab_each_bytes)} of slab at least")
    if per_cpu_bytes is not None:
        each = per_cpu_bytes / (seen.count + seen.existing)
        costs.append(f"{size(each)} of per-CPU memory at most, on average")
    takes = f"each takes {' and '.join(costs)}" if costs else "what each takes was not read"
    below = f" (most below {shown(seen.most_below)})" if seen.most_below else ""
    keeps = "what keeps them was not read"
    if seen.charged_bytes:
        most, whose = ("", "") if seen.version == "1" else ("at most ", ", or to groups above them")
        keeps = (
            f"{most}{size(seen.charged_bytes)} of page cache, shared or anonymous memory are "
            f"charged to them{whose}: each page keeps its group"
        )
    return REMOVED_GROUPS.found(
        NOTE,
        f"{seen.count:,} memory cgroups that were removed{below} are still in the kernel, beside "
        f"{seen.existing:,} that exist: {takes}; {keeps}",
        seen.count,
        facts(
            Fact("memory cgroups that exist", seen.existing, "count"),
            None
            if seen.slab_each_bytes is None
            else Fact("slab of all that were removed, at least", seen.count * seen.slab_each_bytes,
                      "B"),
            None if per_cpu_bytes is None else Fact("per-CPU memory of all", per_cpu_bytes, "B"),
        ),
        setting=f"{_TRIED[seen.version]}; as a test sync, then echo 1 > "
        "/proc/sys/vm/drop_caches: what stays is kept by shared or anonymous memory, or by swap",
    )  # fmt: skip
