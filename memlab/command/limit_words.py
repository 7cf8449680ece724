"""The limits of a process that has ended, in words: which value, who set it, what raises it."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memlab.observe import files, proc
from memlab.observe.capabilities import effective, way_above
from memlab.observe.capabilities.privileges import CAP_SYS_RESOURCE
from memlab.text import units


@dataclass(frozen=True, slots=True)
class _Kind:
    letter: str  # of ulimit; "" of a limit that it does not have
    unit: str
    used: str = ""
    policy: str = ""


_KINDS = {
    "RLIMIT_AS": _Kind("v", "B", "mapped"),
    "RLIMIT_DATA": _Kind("d", "B", "of data"),
    "RLIMIT_MEMLOCK": _Kind("l", "B", "locked"),
    "RLIMIT_FSIZE": _Kind("f", "B"),
    "RLIMIT_CPU": _Kind("t", "s"),
    "RLIMIT_RTTIME": _Kind("", "us"),
    "RLIMIT_STACK": _Kind("s", "B", policy="stack"),
    "RLIMIT_NOFILE": _Kind("n", "1", policy="nofile"),
    "RLIMIT_NPROC": _Kind("u", "1"),
}


def value_of(name: str, value: int, used: int = 0) -> str:
    """`RLIMIT_AS is 195 MiB (5.53 MiB mapped when it was last read)`."""
    kind = _KINDS[name.removeprefix("hard ")]
    text = units.format_quantity(value, "B") if kind.unit == "B" else f"{value:,}"
    if kind.unit != "B" and kind.unit != "1":
        text = f"{value / 1e6:g} s" if kind.unit == "us" else f"{text} s"
    had = f" ({units.format_quantity(used, 'B')} {kind.used} when it was last read)" if used else ""
    return f"{text}{had}"


def remedy(
    name: str, limits: Mapping[str, int], policies: Sequence[str], *, is_raised: bool = False
) -> str:
    """What raises this limit: it was named as a policy, memlab has it too, or else it was set
    within the command. `is_raised`: the kernel may have added a second to it."""
    soft_name, value = name.removeprefix("hard "), limits[name]
    kind, limit = _KINDS[soft_name], getattr(resource, soft_name, None)
    if kind.policy and f"{kind.policy}={value}" in policies:
        return f"name a larger -p {kind.policy}="
    if soft_name == "RLIMIT_NPROC":
        counts = "it counts all threads of the user"
        if value == resource.getrlimit(resource.RLIMIT_NPROC)[0]:
            return f"{counts} (ulimit -u, LimitNPROC=)"
        return f"{counts}, and memlab, to bound what the command starts, or the command set it"
    second = (1_000_000 if kind.unit == "us" else 1) * is_raised
    inherited = () if limit is None else resource.getrlimit(limit)
    if limit is None or inherited[name != soft_name] not in (value, value - second):
        return "raise it where the command sets it"
    hard = resource.getrlimit(limit)[1]
    may_raise = hard == resource.RLIM_INFINITY or effective() >> CAP_SYS_RESOURCE & 1
    if kind.policy and value and (may_raise or value < hard):
        most = 2 * value if may_raise else min(2 * value, hard)
        text = units.format_size(most).replace(" ", "").removesuffix("iB")
        return f"-p {kind.policy}={text if kind.unit == 'B' else most} is larger"
    unit = f"Limit{soft_name.removeprefix('RLIMIT_')}="
    if kind.unit == "B":
        raised = way_above(limit, value + 1, kind.letter, unit[5:-1].lower(), unit)
    else:
        raised = ", ".join(filter(None, [kind.letter and f"ulimit -{kind.letter}", unit]))
    return f"memlab was started with it ({raised})"


def known(
    limits: Mapping[str, int],
    names: Sequence[str],
    uses: Mapping[str, int],
    policies: Sequence[str],
) -> list[str]:
    """A clause per limit that was read."""
    return [
        f"{name} is {value_of(name, limits[name], uses.get(name, 0))}: "
        f"{remedy(name, limits, policies)}"
        for name in names
        if name in limits
    ]


def unlimited(limits: Mapping[str, int], names: Sequence[str]) -> str:
    """That none of these limits bounds the process. Each process has one of open files."""
    if "RLIMIT_NOFILE" not in limits:
        return "its limits could not be read"
    return f"{', '.join(names)} {'does' if len(names) == 1 else 'do'} not bound it"


def of_machine() -> list[str]:
    """What else refuses memory by ENOMEM (mmap(2))."""
    names = ("max_map_count", "overcommit_memory")
    values = {name: files.number(proc.ROOT / "proc/sys/vm" / name) for name in names}
    words = [f"vm.{name} is {value:,}" for name, value in values.items() if value is not None]
    return [" and ".join(words)] if words else []
