"""What a command needs of its host at each point: groups, swap, settings, CPUs, allocators."""

from __future__ import annotations

import os

from memlab.experiment.host import Containment, Host, Malloc
from memlab.experiment.huge_pages import thp_settings
from memlab.experiment.kinds import At
from memlab.experiment.tried.subject import Tried

SWAP_BYTES = 1 << 30
MOST_PROCESSES = 4096  # at once: many for a program, few for one that forks for ever
_OVERCOMMIT = "/proc/sys/vm/overcommit_memory"


def host_of(subject: Tried, names: set[str]) -> Host:
    def memory_max(at: At) -> int | None:
        level = at.get("memory_max", "none")
        return None if level == "none" else int(level)

    def own_limit(at: At) -> int:
        return memory_max(at) or subject.cap_bytes

    def limit(at: At) -> int | None:
        """A load is beside the service in the group."""
        return max(own_limit(at), subject.cap_bytes if subject.serve else 0) or None

    def needs_group(at: At) -> bool:
        return any(at.get(name, "none") != "none" for name in ("memory_max", "memory_high"))

    def settings(at: At) -> dict[str, str]:
        overcommit = at.get("overcommit", "inherit")
        wanted = thp_settings(at.get("thp", "inherit"))
        return wanted | ({_OVERCOMMIT: str(overcommit)} if overcommit != "inherit" else {})

    def cpus(at: At) -> int:
        return len(os.sched_getaffinity(0)) if at["cpus"] == "all" else int(at["cpus"])

    def malloc(at: At) -> Malloc:
        level = str(at["malloc"])
        if level.startswith("/"):
            return Malloc("other", library=level)
        allocator, _, setting = level.partition(":")[0].partition("/")
        return Malloc(
            "glibc" if allocator == "system" else allocator,
            setting or "default",
            otherwise="-p env.LD_PRELOAD=,PATH",
        )

    return Host(
        containment=Containment(
            limit,
            swap=lambda at: str(at.get("swap", "none")),
            swap_bytes=SWAP_BYTES if "swap" in names else 0,
            required=needs_group,
            members=lambda _: 2 if subject.serve else 1,
            member_limit=own_limit,
            processes=MOST_PROCESSES,
            pass_group=True,
            fresh=True,
            keep_cache=True,
            counted=memory_max,
        ),
        cpus=(lambda _: 1) if subject.duet else cpus if "cpus" in names else "all",
        malloc=malloc if "malloc" in names else None,
        settings=settings,
        needs=lambda at: ["memory cgroup v2"] if at.get("memory_high", "none") != "none" else [],
        # By one worker, which keeps what the second took.
        kept=lambda _: "duet" if subject.duet else "",
    )
