"""Which cgroup hierarchies this process is in, which one rules memory, and the limit there.

Sources: cgroups(7), and the kernel's admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath

from memlab.observe import files, proc

_V1_UNLIMITED = 1 << 60  # v1 writes no limit as the largest whole page below 2**63
_LIMITS = {"1": ("memory.limit_in_bytes",), "2": ("memory.max", "memory.high")}
_USED = {"1": "memory.usage_in_bytes", "2": "memory.current"}


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One memory limit of a group, by the file that holds it."""

    group: Path
    version: str
    name: str
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessLimit:
    """How many processes and threads a group may have together (pids.max), and how many it has."""

    group: Path
    limit: int
    used: int
    below: Path
    """The process's group: this one, or one below it."""
    used_below: int | None
    """Of `used` in that group; None where it counts none, as the root."""


@dataclass(frozen=True, slots=True)
class Cgroups:
    """What is mounted, and where this process stands in the hierarchy that accounts memory."""

    version: str | None
    """``1``, ``2``, ``hybrid`` (both mounted) or None."""
    memory_version: str | None
    """Which of ``1`` and ``2`` has the memory controller; None where neither has."""
    memory_mount: Path | None
    memory_dir: Path | None
    """This process's own group; None where the mount does not show it."""


def locate(root: Path = proc.ROOT, pid: int | str = "self") -> Cgroups:
    """The cgroups of this process, or of another one; all None where there are none."""
    mounts = files.known(lambda: proc.mounts(root)) or []
    v1 = [mount for mount in mounts if mount.filesystem == "cgroup"]
    v2 = [mount for mount in mounts if mount.filesystem == "cgroup2"]
    version = "hybrid" if v1 and v2 else "1" if v1 else "2" if v2 else None
    paths = parse_membership(files.text(root / f"proc/{pid}/cgroup") or "")
    for mount in v1:
        if "memory" in mount.super_options:
            return _placed(root, version, "1", mount, paths.get("memory"))
    for mount in v2:
        point = _under(root, mount.mount_point)
        directory = _directory(root, mount, paths.get(""))
        if "memory" in (files.text((directory or point) / "cgroup.controllers") or "").split():
            return _placed(root, version, "2", mount, paths.get(""))
    return Cgroups(version, None, None, None)


NONE = Cgroups(None, None, None, None)


def chain(
    controller: str, root: Path = proc.ROOT, pid: int | str = "self"
) -> tuple[str | None, list[Path]]:
    """The version that may have a controller, and the groups of this process, or of another one,
    there, its own first. An empty name: those of v2, whatever v1 has."""
    mounts = files.known(lambda: proc.mounts(root)) or []
    text = files.text(root / f"proc/{pid}/cgroup") or ""
    paths = files.known(lambda: parse_membership(text)) or {}
    v1 = [
        item for item in mounts if item.filesystem == "cgroup" and controller in item.super_options
    ]
    for mount in v1 or (item for item in mounts if item.filesystem == "cgroup2"):
        version = "1" if v1 else "2"
        directory = _directory(root, mount, paths.get(controller if v1 else ""))
        return version, list(_upwards(directory, _under(root, mount.mount_point)))
    return None, []


def v1_dir(controller: str, root: Path = proc.ROOT) -> Path | None:
    """This process's own group in the hierarchy of a v1 controller; None where it has none."""
    version, groups = chain(controller, root)
    return groups[0] if version == "1" and groups else None


def parse_membership(text: str) -> dict[str, str]:
    """Group path by v1 controller from /proc/PID/cgroup; the v2 path is under the empty name."""
    paths = {}
    for line in proc.lines(text):
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def homes(groups: Cgroups) -> list[Path]:
    """Where a group may be made below: this process's own group, then those above it."""
    return list(_ancestry(groups))


def group_limit_bytes(groups: Cgroups, group: Path) -> int | None:
    """What may be charged to one of this process's groups before it is reclaimed from: its own
    limit and, in v1, those of the groups above it that cannot be seen here; None if none."""
    version = groups.memory_version
    result = [limit.limit_bytes for limit in limits(group, version)] if version else []
    if version == "1":
        above = _stat(group).get("hierarchical_memory_limit", _V1_UNLIMITED)
        result += [above] if above < _V1_UNLIMITED else []
    return min(result, default=None)


def limits(group: Path, version: str) -> list[MemoryLimit]:
    """Its own memory limits, hard and (v2) soft; none where it has none, or none is seen."""
    read = [(name, files.number(group / name)) for name in _LIMITS[version]]
    return [
        MemoryLimit(group, version, name, limit)
        for name, limit in read
        if limit is not None and limit < _V1_UNLIMITED
    ]


def process_limits(root: Path = proc.ROOT, pid: int | str = "self") -> list[ProcessLimit]:
    """Of the groups of this process, or of another one, that have such a limit; its own first."""
    groups = chain("pids", root, pid)[1]
    read = [
        (group, files.number(group / "pids.max"), files.number(group / "pids.current"))
        for group in groups
    ]
    return [
        ProcessLimit(group, limit, used, groups[0], read[0][2])
        for group, limit, used in read
        if limit is not None and used is not None
    ]


def used_bytes(group: Path, version: str) -> int | None:
    """What is charged to a group now, page cache too; None of what accounts none."""
    return files.number(used_file(group, version))


def used_file(group: Path, version: str) -> Path:
    """The file that holds it."""
    return group / _USED[version]


def needed_bytes(groups: Cgroups, group: Path) -> int:
    """What is charged to a group and not dropped before anything is refused: all but the page
    cache of files."""
    first = groups.memory_version == "1"
    used = used_bytes(group, "1" if first else "2") or 0
    stat = _stat(group)
    cache = [f"{'total_' if first else ''}{name}_file" for name in ("active", "inactive")]
    return max(0, used - sum(stat.get(name, 0) for name in cache))


def _stat(group: Path) -> dict[str, int]:
    pairs = (line.split() for line in proc.lines(files.text(group / "memory.stat") or ""))
    return {words[0]: int(words[1]) for words in pairs if len(words) == 2 and words[1].isdecimal()}


def memory_limit_bytes(groups: Cgroups) -> int | None:
    """The hard limit on this process: the least of its group's and its ancestors'; None if none.

    Ancestors outside the mount (a container's) cannot be seen in v2; v1 counts them itself.
    """
    if groups.memory_version == "1" and groups.memory_dir is not None:
        limit = _stat(groups.memory_dir).get("hierarchical_memory_limit", _V1_UNLIMITED)
        return limit if limit < _V1_UNLIMITED else None
    return _least(groups, "memory.max")


def memory_high_bytes(groups: Cgroups) -> int | None:
    """v2's memory.high, above which allocation is throttled and not refused; None if none."""
    return _least(groups, "memory.high") if groups.memory_version == "2" else None


def _placed(
    root: Path, version: str | None, memory: str, mount: proc.Mount, path: str | None
) -> Cgroups:
    point = _under(root, mount.mount_point)
    return Cgroups(version, memory, point, _directory(root, mount, path))


def _directory(root: Path, mount: proc.Mount, path: str | None) -> Path | None:
    # A container often sees only its own group, mounted as the root of the hierarchy. A path
    # with ".." is a group outside this process's cgroup namespace.
    if path is None or ".." in path or not PurePosixPath(path).is_relative_to(mount.root):
        return None
    directory = _under(root, mount.mount_point) / PurePosixPath(path).relative_to(mount.root)
    return directory if directory.is_dir() else None


def _under(root: Path, absolute: str) -> Path:
    return root / absolute.lstrip("/")


def _least(groups: Cgroups, name: str) -> int | None:
    limits = (files.number(group / name) for group in _ancestry(groups))
    return min((limit for limit in limits if limit is not None), default=None)


def _ancestry(groups: Cgroups) -> Iterator[Path]:
    """The process's group and those above it, up to the mount."""
    if groups.memory_mount is not None:
        yield from _upwards(groups.memory_dir, groups.memory_mount)


def _upwards(group: Path | None, mount_point: Path) -> Iterator[Path]:
    if group is not None:
        yield group
        yield from takewhile(lambda above: above.is_relative_to(mount_point), group.parents)
