"""What experiments share whose cgroup reclaims."""

from collections.abc import Sequence

from memlab.experiment import *


def swap(
    *kinds: str, quick: Sequence[Level], help: str, full: Sequence[Level] | None = None
) -> Factor:
    """What the cgroup of a trial may swap to."""
    labels: dict[Level, str] = {"none": "no swap", "file": "swap file", "zram": "zram"}
    return Factor(
        "swap", choice(*kinds), help, quick=quick, full=full, host=True, level_labels=labels
    )


def mglru() -> Factor:
    """Which of the kernel's two ways to choose what is reclaimed."""
    return Factor(
        "mglru",
        choice("host", "on", "off"),
        "multi-gen LRU; /sys/kernel/mm/lru_gen/enabled, host: as it is",
        quick=["host"],
        host=True,
        level_labels={"host": "reclaim as the host has it", "on": "MGLRU", "off": "no MGLRU"},
    )


def mglru_settings(at: At) -> dict[str, str]:
    """The host's settings of a point."""
    if at["mglru"] == "host":
        return {}
    return {"/sys/kernel/mm/lru_gen/enabled": "0x0007" if at["mglru"] == "on" else "0x0000"}
