"""What experiments share whose cgroup reclaims."""

from collections.abc import Sequence
from pathlib import Path

from memlab.experiment import *


def swap(
    *kinds: str, quick: Sequence[Level], help: str, full: Sequence[Level] | None = None
) -> Factor:
    """What the cgroup of a trial may swap to."""
    labels: dict[Level, str] = {
        "none": "no swap",
        "file": "swap file",
        "zram": "zram",
        "zswap": "zswap",
    }
    return Factor(
        "swap", choice(*kinds), help, quick=quick, full=full, host=True, level_labels=labels
    )


def dirty_settings(at: At) -> dict[str, str]:
    limit = int(at["dirty_limit"])
    folder = "/proc/sys/vm/dirty_"
    levels = {"bytes": limit, "background_bytes": limit // 2}
    return {f"{folder}{name}": str(level) for name, level in levels.items()} if limit else {}


def mglru(plain: Level | None = None) -> Factor:
    """Which of the kernel's two ways to choose what is reclaimed."""
    return Factor(
        "mglru",
        choice("host", "on", "off"),
        "multi-gen LRU; /sys/kernel/mm/lru_gen/enabled, host: as it is",
        quick=["host"],
        plain=plain,
        host=True,
        level_labels={"host": "reclaim as the host has it", "on": "MGLRU", "off": "no MGLRU"},
    )


def zswap() -> Factor:
    """Whether pages are kept compressed in memory before they go to the swap area. In experiments
    whose recorded runs have it as a factor; where the kinds of swap are compared, zswap is one of
    them (zswap_settings), so that no level of swap but a file has to be left out."""
    return Factor(
        "zswap",
        choice("host", "on", "off"),
        "zswap; /sys/module/zswap/parameters/enabled, host: as it is",
        quick=["host"],
        host=True,
        level_labels={"host": "zswap as the host has it", "on": "zswap", "off": "no zswap"},
    )


ONLY_SPARSE = Exclude(
    lambda at: at["file_state"] != "sparse",
    "a file written earlier is in the page cache, which is not charged to the run's cgroup",
)
OUTSIDE_KILLED = Metric(
    "outside_killed",
    "count",
    "process outside killed; 1: a process outside of the cgroup, as likely a victim, did not live "
    "to the end",
    of=F.host.outside_killed.optional,
)
NO_ZSWAP = Exclude(
    lambda at: at["zswap"] != "host" and at["swap"] != "file",
    "zswap holds pages on their way to a swap file, and there is none",
)

# Per factor: the host's file, and what it holds for each level.
_SETTINGS = {
    "mglru": ("/sys/kernel/mm/lru_gen/enabled", {"on": "0x0007", "off": "0x0000"}),
    "zswap": ("/sys/module/zswap/parameters/enabled", {"on": "Y", "off": "N"}),
}


def reclaim_settings(at: At) -> dict[str, str]:
    """The host's settings of a point."""
    return {
        file: values[str(at[name])]
        for name, (file, values) in _SETTINGS.items()
        if at.get(name, "host") != "host"
    }


def zswap_settings(at: At) -> dict[str, str]:
    """Of the swap level `zswap`, and of `file`, from which zswap is kept whatever the host has."""
    file, values = _SETTINGS["zswap"]
    if at["swap"] == "zswap":
        return {file: values["on"]}
    return {file: values["off"]} if at["swap"] == "file" and Path(file).exists() else {}
