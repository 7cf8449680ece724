"""The memory: size, huge pages, overcommit, swap, writeback, NUMA, and free page reporting."""

import os
import re
from pathlib import Path
from typing import Any

from memlab.observe import files, proc

_SYSCTLS = (
    "overcommit_memory",
    "overcommit_ratio",
    "overcommit_kbytes",
    "swappiness",
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_ratio",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
    "max_map_count",
    "min_free_kbytes",
    "nr_hugepages",
    "nr_overcommit_hugepages",
    "zone_reclaim_mode",
)
_THP = "sys/kernel/mm/transparent_hugepage"


def read(root: Path) -> dict[str, Any]:
    """Everything here about the memory, JSON-able, None where unknown."""
    meminfo = files.known(lambda: proc.meminfo(root)) or {}
    huge = root / _THP
    sysctls = {name: files.number(root / "proc/sys/vm" / name) for name in _SYSCTLS}
    return sysctls | {
        "page_size_bytes": os.sysconf("SC_PAGE_SIZE"),
        "memory_total_bytes": meminfo.get("MemTotal"),
        "memory_available_bytes": meminfo.get("MemAvailable"),
        "swap_total_bytes": meminfo.get("SwapTotal"),
        "swaps": files.known(lambda: proc.parse_swaps(proc.read(root / "proc/swaps"))),
        "zswap": files.flag(root / "sys/module/zswap/parameters/enabled"),
        "hugetlb_page_bytes": meminfo.get("Hugepagesize"),
        "hugetlb_total_count": meminfo.get("HugePages_Total"),
        "hugetlb_free_count": meminfo.get("HugePages_Free"),
        "thp_enabled": files.choice(huge / "enabled"),
        "thp_shmem": files.choice(huge / "shmem_enabled"),
        "thp_defrag": files.choice(huge / "defrag"),
        "thp_size_bytes": files.number(huge / "hpage_pmd_size"),
        "thp_sizes": _sizes(huge),
        "numa_nodes": _nodes(root / "sys/devices/system/node"),
        "numa_balancing": files.number(root / "proc/sys/kernel/numa_balancing"),
        "page_reporting": _page_reporting(root),
    }


def _sizes(huge: Path) -> dict[str, str | None] | None:
    """The setting of each huge page size of its own (Linux 6.8), by its folder's name."""
    sizes = [name for name in files.names(huge) if name.startswith("hugepages-")]
    return {name: files.choice(huge / name / "enabled") for name in sizes} or None


def _nodes(directory: Path) -> list[dict[str, Any]] | None:
    nodes = [name for name in files.names(directory) if name.removeprefix("node").isdigit()]
    return [_node(directory / name, int(name.removeprefix("node"))) for name in nodes] or None


def _node(directory: Path, node: int) -> dict[str, Any]:
    # "Node 0 MemTotal:       24684096 kB"
    total = re.search(r"MemTotal: +([0-9]{1,15}) kB", files.text(directory / "meminfo") or "")
    return {
        "node": node,
        "cpus": files.text(directory / "cpulist"),
        "memory_total_bytes": int(total[1]) * 1024 if total else None,
        "distances": files.text(directory / "distance"),
    }


def _page_reporting(root: Path) -> dict[str, int | str | None] | None:
    """Free page reporting: a guest that gives free pages back pays to touch them again."""
    directory = root / "sys/module/page_reporting/parameters"
    results = {}
    for name in files.names(directory):
        value = files.number(directory / name)
        results[name] = files.text(directory / name) if value is None else value
    return results or None
