"""Findings about lines of a group's account that no process holds: one row each."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from memlab.diagnose.finding import NOTE, Finding, FindingRow, LineRow, size
from memlab.diagnose.group import Charge
from memlab.text.units import MiB

_WORTH_BYTES = 16 * MiB
MESSAGES = "messages in queues of System V"


ROWS = (
    LineRow("group-page-tables", "page tables", 0.1, "page tables of its processes", "huge pages "
            "(one entry instead of 512); fewer processes that map the same memory",
            experiment="page-fault", field="page_tables_bytes"),
    LineRow("group-stacks", "kernel stacks", 0.1, "kernel stacks, 16 KiB of each thread",
            "fewer threads and processes", experiment="thread-create", field="stacks_bytes"),
    LineRow("group-sockets", "sockets", 0.1, "in queues of sockets", "ss -tmp shows whose; a "
            "reader that keeps up, smaller buffers (net.ipv4.tcp_wmem)", field="sockets_bytes"),
    LineRow("group-zswap", "zswap", 0.1, "compressed pages of zswap",
            "memory.zswap.max of the group", field="zswap_bytes"),
)  # fmt: skip


_GROUP_MESSAGES = FindingRow(
    "group-messages", "stock", MESSAGES, "B", "16 MiB and a tenth of the group are messages",
    "a reader that keeps up; ipcs -qp says who used a queue last, ipcrm -q ID removes it",
    experiments=("memcg-accounting",),
)  # fmt: skip


_CHARGED_ELSEWHERE = FindingRow(
    "charged-elsewhere",
    "stock",
    "anonymous",
    "B",
    "16 MiB and a tenth of anonymous memory are of a process of the group, and not charged to it",
    setting="start it in its group: memory stays charged where it was touched first, and a move to "
    "another group (cgroup.procs) takes none of it along",
    experiments=("memcg-accounting",),
)


def charged_elsewhere(
    charge: Charge, private_bytes: int, whose: str, line: str | None = None
) -> Iterator[Finding]:
    """Anonymous memory that processes of a group share with nobody, and more than it is charged."""
    more = private_bytes - charge.anonymous_bytes
    if more >= max(_WORTH_BYTES, private_bytes / 10):
        yield _CHARGED_ELSEWHERE.found(
            NOTE,
            f"{size(more)} or more of {whose} {size(private_bytes)} private anonymous memory are "
            "charged to other groups, as after a move into this one: its limit does not count them",
            more,
            line=line,
        )


def findings(charge: Charge) -> Iterator[Finding]:
    """Of each line that is large."""
    for row in ROWS:
        value = attrgetter(row.field)(charge)
        if value >= max(_WORTH_BYTES, row.least_share * charge.used_bytes):
            yield row.found(
                value,
                f"{size(value)} of the group's {size(charge.used_bytes)} are {row.what}: of no "
                "process's resident memory",
            )


def of_messages(charge: Charge, message_bytes: int) -> Iterator[Finding]:
    """Of messages that processes of the group sent."""
    if message_bytes >= max(_WORTH_BYTES, charge.used_bytes / 10):
        yield _GROUP_MESSAGES.found(
            NOTE,
            f"{size(message_bytes)} of the group's {size(charge.used_bytes)} are messages that "
            "nobody has received, in queues of System V to which its processes sent last: of no "
            "process's resident memory, and there when they have ended",
            message_bytes,
        )
