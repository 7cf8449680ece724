"""Messages that the sockets of a process lose: what comes while the receive buffer is full.

UDP, raw and packet sockets drop it without an error. Netlink says ENOBUFS to the next read
(netlink(7)).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlab.diagnose import sockets
from memlab.diagnose.finding import COSTLY, Finding, FindingRow, per_second, size
from memlab.diagnose.kernel_numbers import is_largest_buffer, larger_buffer, sysctl
from memlab.diagnose.look import Look
from memlab.diagnose.sockets import Dropped

LOST = "messages-lost"
"""The row of calls that say so."""
_LEAST_PER_S = 1.0
_BUFFER = "receive buffers"
_OPTION, _MAXIMUM = "SO_RCVBUF", "net.core.rmem_max"

_SOCKETS_DROP = FindingRow(
    "sockets-drop", "limits", _BUFFER, "1/s",
    "its UDP, raw, packet or netlink sockets drop 1 message per second",
    "a reader that keeps up; a larger SO_RCVBUF",
)  # fmt: skip


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
            setting=_setting(one) if one.is_full else "",
        )
        return


def why(drops: Dropped) -> str:
    """The cause, if it was read."""
    buffer = f" of {size(drops.buffer_bytes)}" if drops.buffer_bytes else ""
    if not drops.is_full:
        return f"a full receive buffer{buffer}, a filter or a bad checksum; which was not read"
    most = next(iter(sysctl("net/core/rmem_max")), None)
    bound = _OPTION
    if most and is_largest_buffer(_MAXIMUM, drops.buffer_bytes):
        bound = f"twice {_MAXIMUM} of {size(most)}, the most that {_OPTION} gets"
    elif most:
        bound = f"{_OPTION}, at most twice {_MAXIMUM} of {size(most)}"
    return f"a receive buffer{buffer} was full ({bound})"


def _setting(drops: Dropped) -> str:
    return f"a reader that keeps up; {larger_buffer(_OPTION, _MAXIMUM, drops.buffer_bytes)}"


def setting_of_netlink(look: Look) -> str:
    """What to try for ENOBUFS of a read; empty if no message was counted."""
    drops = next((drops for drops in look.dropped if drops.kind == sockets.NETLINK), None)
    return f"of a netlink socket: {_setting(drops)}" if drops else ""


def of_netlink(look: Look) -> str:
    """What explains ENOBUFS of a read."""
    drops = next((drops for drops in look.dropped if drops.kind == sockets.NETLINK), None)
    if drops is None:
        return (
            "no limit that is read here explains it; a netlink socket says so if its receive "
            "buffer was full"
        )
    return f"{drops.count:,} messages to its netlink sockets are dropped: {why(drops)}"
