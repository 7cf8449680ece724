"""What a run must remember of its machine, and what makes two machines unlike.

`read` gives one flat dict with the same keys everywhere; what is missing or forbidden is None.
It takes some milliseconds, needs no privilege and changes nothing.
"""

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memlab.observe import cgroup, cpu, files, memory, proc, virtualization

# machine-id(5) asks for a salted hash where the id leaves the machine.
_MACHINE_ID_SALT = b"memlab environment 1: machine id "

# Two runs that differ here measured different things. The command line, the host's name, the
# machine and what is free right now are recorded and not compared.
_COMPARED = (
    "kernel_release",
    "machine",
    "page_size_bytes",
    "cpu_vendor",
    "cpu_model",
    "microcode",
    "cpus_online",
    "cpus_allowed",
    "cpus_isolated",
    "socket_count",
    "core_count",
    "smt_active",
    "tlb_broadcast",
    "caches",
    "frequency_driver",
    "frequency_governor",
    "turbo",
    "clocksource",
    "mitigations",
    "virtual_machine",
    "hypervisor",
    "emulated_time",
    "container",
    "shootdowns_hidden",
    "memory_total_bytes",
    "swap_total_bytes",
    "zswap",
    "numa_nodes",
    "numa_balancing",
    "thp_enabled",
    "thp_shmem",
    "thp_defrag",
    "thp_sizes",
    "overcommit_memory",
    "overcommit_ratio",
    "overcommit_kbytes",
    "swappiness",
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_ratio",
    "cgroup_version",
    "cgroup_memory_version",
    "cgroup_memory_limit_bytes",
    "cgroup_memory_high_bytes",
    "aslr",
    "libc_version",
)
EMULATED = "times in an emulated guest are not the machine's"
_SHORT = 100  # characters of what differs, up to which all of it is in one line
_TOPICS = {
    **dict.fromkeys(("cpu", "cpus", "core", "socket", "microcode"), "CPU"),
    **dict.fromkeys(("memory", "numa"), "memory"),
    "kernel": "kernel",
    "thp": "THP",
    "cgroup": "cgroups",
}
_SAME_MEMORY = 0.01  # kernels of one machine keep a little more or less for themselves


def read(root: Path = proc.ROOT) -> dict[str, Any]:
    """The environment, JSON-able. `root` is the file tree to read, for tests and images."""
    return (
        _kernel(root)
        | cpu.read(root)
        | memory.read(root)
        | _cgroup(root)
        | virtualization.read(root)
        | _software(root)
    )


def unlike(a: Mapping[str, Any], b: Mapping[str, Any], *, swap_counts: bool = True) -> list[str]:
    """What makes two environments not comparable, one line each; empty where they are alike.

    A key that one of them lacks altogether, because an older memlab wrote it, is not compared. Nor
    is the host's own swap where it does not count: another program's area may come and go; nor the
    clock of emulated guests, whose times are judged nowhere.
    """
    lines: list[str] = []
    # A guest whose emulated TSC lost time on a busy host boots with another clock, hpet.
    emulated = a.get("emulated_time") and b.get("emulated_time")
    for key in _COMPARED:
        if (key == "swap_total_bytes" and not swap_counts) or (key == "clocksource" and emulated):
            continue
        if key in a and key in b and not _alike(key, a[key], b[key]):
            lines.extend(_differences(key, a[key], b[key]))
    return lines


def in_short(differs: Sequence[str]) -> str:
    """Lines of `unlike` in one: short ones whole, else only what differs: `CPU, caches, 4
    mitigations`."""
    whole = "; ".join(differs)
    if len(whole) <= _SHORT:
        return whole
    keys = Counter(_topic(line.partition(":")[0]) for line in differs)
    several = (f"{count} {key}" if key == "mitigations" else key for key, count in keys.items())
    return ", ".join(several)


def _topic(key: str) -> str:
    words = key.split("_")
    return _TOPICS.get(words[0], " ".join(words))


def compared(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part that `unlike` looks at: no host's name, no identity, no command line."""
    return {key: environment[key] for key in _COMPARED if key in environment}


def _kernel(root: Path) -> dict[str, Any]:
    kernel = root / "proc/sys/kernel"
    return {
        "kernel_release": files.text(kernel / "osrelease"),
        "kernel_version": files.text(kernel / "version"),
        "kernel_command_line": files.text(root / "proc/cmdline"),
        "host_name": files.text(kernel / "hostname"),
        "boot_id": files.text(kernel / "random/boot_id"),
        "aslr": files.number(kernel / "randomize_va_space"),
        "perf_event_paranoid": files.number(kernel / "perf_event_paranoid"),
        "kptr_restrict": files.number(kernel / "kptr_restrict"),
        "io_uring_disabled": files.number(kernel / "io_uring_disabled"),
    }


def _cgroup(root: Path) -> dict[str, Any]:
    groups = files.known(lambda: cgroup.locate(root)) or cgroup.Cgroups(None, None, None, None)
    return {
        "cgroup_version": groups.version,
        "cgroup_memory_version": groups.memory_version,
        "cgroup_memory_limit_bytes": files.known(lambda: cgroup.memory_limit_bytes(groups)),
        "cgroup_memory_high_bytes": files.known(lambda: cgroup.memory_high_bytes(groups)),
    }


def _software(root: Path) -> dict[str, Any]:
    machine_id = files.text(root / "etc/machine-id")
    return {
        "libc_version": files.known(lambda: os.confstr("CS_GNU_LIBC_VERSION")),
        "python_version": sys.version.split()[0],
        "machine_id_hash": _hashed(machine_id) if machine_id else None,
    }


def _hashed(machine_id: str) -> str:
    return hashlib.sha256(_MACHINE_ID_SALT + machine_id.encode()).hexdigest()


def _alike(key: str, a: Any, b: Any) -> bool:
    if key == "memory_total_bytes" and a and b:
        return bool(abs(a - b) <= _SAME_MEMORY * max(a, b))
    if key == "numa_nodes" and a and b:
        return _shapes(a) == _shapes(b)
    if key == "shootdowns_hidden" and None in (a, b):
        return True  # root and an ordinary user of one machine may read more or less of its log
    return bool(a == b)


def _shapes(nodes: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """The nodes without their sizes, which memory_total_bytes compares."""
    return [(node.get("cpus"), node.get("distances")) for node in nodes]


def _differences(key: str, a: Any, b: Any) -> list[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        names = sorted(a.keys() | b.keys())
        return [
            f"{key}: {name}: {_shown(a.get(name))} and {_shown(b.get(name))}"
            for name in names
            if a.get(name) != b.get(name)
        ]
    return [f"{key}: {_shown(a)} and {_shown(b)}"]


def _shown(value: Any) -> str:
    """In words: `L 1, size 32768` of an item of a list, and not as Python writes it."""
    if isinstance(value, dict):
        return " ".join(f"{name} {_shown(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    return "unknown" if value is None else str(value)
