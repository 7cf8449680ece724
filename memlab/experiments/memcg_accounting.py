"""memcg-accounting: which memory cgroup pays for a page, exactly.

Two groups lie beside one another. What they are charged is read from memory.stat, which is exact;
memory.usage_in_bytes (memory.current) is not, since a CPU takes 64 pages from it at a time.
"""

import errno
from collections.abc import Callable

from memlab.experiment import (
    At,
    Checks,
    Containment,
    Cost,
    Experiment,
    Factor,
    Metric,
    Raw,
    choice,
)
from memlab.experiments._accounting_claims import CLAIMS

CHECKS = (
    *("first_touch", "first_touch_each"),
    *("first_unmaps", "first_ends", "first_moves", "dropped", "group_removed"),
    *("thread", "leader"),
    *("moved", "moved_touches", "moved_frees", "move_charges"),
    *("parent", "batch"),
)
MIB = 2**20
MEMBER_LIMIT = 16 * MIB
LIMIT = 48 * MIB


def evidence(raw: Raw, _: At) -> str:
    """The steps, what the last one returned, and memory.stat at the start and around it."""
    number = raw["call_errno"]
    *lead, checked = raw["steps"].splitlines()
    ended = f"-1 {errno.errorcode.get(number, number)}" if number else "0"
    lines = [f"at the start: {line}" for line in raw["stat_at_start"].splitlines()]
    lines += [*lead, raw["before"]["stat"], f"{checked} = {ended}", raw["after"]["stat"]]
    if raw["batch_bytes"]:
        lines.append(f"usage rose by {raw['batch_bytes']} B")
    return "\n".join(lines)


def pages(side: str, group: str, kind: str) -> Callable[[Raw, At], float | None]:
    return lambda raw, _: float(raw[side][group][f"{kind}_pages"])


def directly(raw: Raw, _: At) -> float | None:
    count: float | None = raw["after"]["directly_shared_pages"]["count"]
    return count


def batch(raw: Raw, at: At) -> float | None:
    return raw["batch_bytes"] / raw["page_bytes"] if at["check"] == "batch" else None


# Name, what it is, how it is read. Each is a whole number.
_METRICS: tuple[tuple[str, str, Callable[[Raw, At], float | None]], ...] = (
    ("first_shared_pages", "shared pages that group 0 pays for", pages("after", "first", "shared")),
    (
        "second_shared_pages",
        "shared pages that group 1 pays for",
        pages("after", "second", "shared"),
    ),
    ("first_own_pages", "private pages that group 0 pays for", pages("after", "first", "own")),
    ("second_own_pages", "private pages that group 1 pays for", pages("after", "second", "own")),
    (
        "whole_shared_pages",
        "shared pages counted by the group around them",
        pages("after", "whole", "shared"),
    ),
    (
        "whole_own_pages",
        "private pages counted by the group around them",
        pages("after", "whole", "own"),
    ),
    ("directly_shared_pages", "shared pages that it counts as its own, in v1", directly),
    ("call_errno", "errno of the step, 0 where it succeeded", lambda raw, _: raw["call_errno"]),
    ("batch_pages", "pages by which usage rises at a time", batch),
)

EXPERIMENT = Experiment(
    name="memcg-accounting",
    question="Which memory cgroup pays for a page that is shared, moved, or left behind?",
    probe="memcg_accounting",
    factors=[
        Factor(
            "check",
            choice(*CHECKS),
            quick=CHECKS,
            help="the step that is checked, and what led up to it: processes A and B are in the "
            "groups 0 and 1; pages are shared ones (a shared mapping, so of tmpfs) or private",
        ),
    ],
    metrics=[Metric(name, "count", what, of=of, evidence=evidence) for name, what, of in _METRICS],
    cost=Cost(memory=lambda _: LIMIT, time=lambda _: 0.1),
    containment=Containment(
        limit=lambda _: LIMIT,
        members=lambda _: 2,
        member_limit=lambda _: MEMBER_LIMIT,
        told=True,
    ),
    tiny={"check": ["first_touch", "first_unmaps"]},
    judges={"chen-2014": ["accounting"]},
    claims=CLAIMS,
    figure=Checks("first_shared_pages", over="check", by=()),
)
