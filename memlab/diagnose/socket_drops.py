"""Messages that the sockets of a process lose: what comes while the receive buffer is full.

UDP, raw and packet sockets drop it without an error. Netlink says ENOBUFS to the next read
(netlink(7)).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlab.diagnose import sockets
from memlab.diagnose.finding import COSTLY, Finding, FindingRow, per_second, size
from memlab.diagnose.look import Look
from memlab.diagnose.sockets import Dropped
from memlab.observe import files
from memlab.observe.proc import ROOT

LOST = "messages-lost"
"""The row of calls that say so."""
_LEAST_PER_S = 1.0
_BUFFER = "receive buffers"

_SOCKETS_DROP = FindingRow(
    "sockets-drop",
    "limits",
    _BUFFER,
    "1/s",
    "its UDP, raw, packet or netlink sockets drop 1 message per second",
    setting="a reader that keeps up; a larger SO_RCVBUF",
)


def findings(look: Look) -> Iterator[Finding]:
    """What is dropped most; what failing calls say is not said again."""
    says_so = any(one.errno == "ENOBUFS" and one.call.startswith("rec") for one in look.refused)
    for one in look.dropped:
        per_s = one.count / look.seconds
        if per_s < _LEAST_PER_S or (says_so and one.kind == sockets.NETLINK):
            continue
        yield _SOCKETS_DROP.found(
            COSTLY,
            f"{per_second(per_s, 'messages')} to its {one.kind} sockets are dropped: {why(one)}",
            per_s,
            setting=None if one.is_full else "",
        )
        return


def why(one: Dropped) -> str:
    """The cause, if it was read."""
    buffer = f" of {size(one.buffer_bytes)}" if one.buffer_bytes else ""
    if not one.is_full:
        return f"a full receive buffer{buffer}, a filter or a bad checksum; which was not read"
    most = files.number(ROOT / "proc/sys/net/core/rmem_max")
    bound = f"SO_RCVBUF, at most net.core.rmem_max, {size(most)}" if most else "SO_RCVBUF"
    return f"a receive buffer{buffer} was full ({bound})"


def of_netlink(look: Look) -> str:
    """What explains ENOBUFS of a read."""
    one = next((one for one in look.dropped if one.kind == sockets.NETLINK), None)
    if one is None:
        return (
            "no limit that is read here explains it; a netlink socket says so if its receive "
            "buffer was full"
        )
    return f"{one.count:,} messages to its netlink sockets are dropped: {why(one)}"
