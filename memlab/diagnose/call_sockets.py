"""Causes that the arguments of a failing call on a socket tell: ports, queues, buffers, options.

Sources: net/unix/af_unix.c, net/core/skbuff.c (mm_account_pinned_pages()), net/core/scm.c,
net/xdp/xdp_umem.c, net/ipv4/igmp.c, net/ipv4/af_inet.c, net/socket.c of Linux 6.18.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence

from memlab.diagnose import sockets
from memlab.diagnose.call_facts import MEMLOCK, PAGE, Cause, Facts, Reader, shown
from memlab.diagnose.call_ordinary import SENDS
from memlab.diagnose.call_table import LOCK
from memlab.diagnose.finding import size
from memlab.diagnose.kernel_numbers import larger_buffer, sysctl
from memlab.observe import files, namespaces
from memlab.observe.proc import ROOT

_IPC_LOCK = 14
_ZERO_COPY = 0x4000000
_PASSED_MAX = 253  # SCM_MAX_FD of net/scm.h
_CLOSED = "07"  # TCP_CLOSE
_DATAGRAM, _LISTENS = 2, 10
_PIECES_READ = 512


def _passed(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EINVAL of sendmsg: scm_fp_copy() of net/core/scm.c."""
    head = facts.memory(arguments[1], 56)  # struct msghdr
    if len(head) < 56:
        return None
    at, length = struct.unpack_from("=2Q", head, 32)
    raw = facts.memory(at, 16) if length >= 16 else b""  # struct cmsghdr
    if len(raw) < 16:
        return None
    whole, level, kind = struct.unpack("=Qii", raw)
    count = (whole - 16) // 4
    if (level, kind) != (1, 1) or not _PASSED_MAX < count <= length // 4:  # SCM_RIGHTS
        return None
    return Cause(
        f"{count:,} open files are passed in one message, and the kernel allows {_PASSED_MAX} "
        "(SCM_MAX_FD)",
        "SCM_MAX_FD", "several messages",
    )  # fmt: skip


def _ports(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EADDRNOTAVAIL of connect of TCP, EAGAIN of UDP (inet_autobind() of net/ipv4/af_inet.c), and
    EADDRINUSE of bind, if any port would do. The address may be gone from memory by now."""
    address = facts.memory(arguments[1], min(arguments[2], 28))
    is_there = len(address) >= 4 and int.from_bytes(address[:2], sys.byteorder) in (2, 10)
    port = int.from_bytes(address[2:4], "big") if is_there else None
    if call == "bind" and port:
        return None

    def read() -> tuple[list[int], dict[str, list[tuple[int, int]]]]:
        """The bounds, and the local and the other port of each socket, by protocol."""
        return sysctl("net/ipv4/ip_local_port_range"), {
            kind: [
                (int(row[1].rpartition(":")[2], 16), int(row[2].rpartition(":")[2], 16))
                for name in (kind, f"{kind}6")
                for row in map(str.split, _table(name).splitlines())
                if len(row) > 3 and ":" in row[1] and (kind == "udp" or row[3] != _CLOSED)
            ]
            for kind in ("tcp", "udp")
        }

    bounds, by_kind = namespaces.inside(facts.pid, "net", read)
    if len(bounds) < 2:
        return None
    first, last = bounds[:2]
    most = last - first + 1
    inside = {
        kind: {mine for mine, _ in used if first <= mine <= last} for kind, used in by_kind.items()
    }
    kind = {"connect": "tcp", "connect of UDP": "udp"}.get(call) or max(
        inside, key=lambda kind: len(inside[kind])
    )
    to_port = len({mine for mine, other in by_kind[kind] if mine in inside[kind] and other == port})
    in_all = len(inside[kind])
    if in_all < 0.95 * most:
        return None
    to, met = "", in_all
    if kind == "tcp" and call == "connect" and to_port >= 0.95 * most:
        to, met = f" to port {port}", to_port
    elif call == "bind" and port is None:
        to = ": that is the cause if any port would do (0), which was not read"
    name = "net.ipv4.ip_local_port_range"
    return Cause(
        f"{met:,} of the {most:,} ports that the kernel may choose ({name}: {first} to {last}) "
        f"have {kind.upper()} sockets{to}",
        name, f"connections that are used again; sysctl {name}; more addresses",
    )  # fmt: skip


def _table(name: str) -> str:
    return files.text(ROOT / f"proc/thread-self/net/{name}") or ""


def _udp_port(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EAGAIN of connect, to an address of the internet."""
    family = facts.memory(arguments[1], 2)
    if len(family) < 2 or int.from_bytes(family, sys.byteorder) not in (2, 10):
        return None
    return _ports(facts, "connect of UDP", arguments)


def _backlog(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """Unix sockets only say so, if the listener has no room."""
    full = [s for s in facts.unix if s.state == _LISTENS and s.queued > s.queue_max]
    name = _unix_name(facts.memory(arguments[1], min(arguments[2], 110)))
    listener = next((s for s in full if name and s.name == name), None)
    if listener is None:
        return None
    somaxconn = next(iter(sysctl("net/core/somaxconn")), None)
    bound = f", and net.core.somaxconn {somaxconn:,}" if somaxconn is not None else ""
    return Cause(
        f"{listener.queued:,} connections to the Unix socket {shown(listener.name)} wait until it "
        f"accepts them: its backlog is {listener.queue_max:,}{bound}",
        "backlog of a Unix socket",
        "a listener that accepts sooner; a larger backlog of listen(2), up to net.core.somaxconn",
    )  # fmt: skip


def _receiver(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    if (sender := _datagram_socket(facts, arguments[0])) is None:
        return None
    if sender.sent + PAGE >= sender.send_buffer:
        return Cause(
            f"the send buffer of its Unix datagram socket is full: {size(sender.sent)} of "
            f"{size(sender.send_buffer)} (SO_SNDBUF) are not received yet",
            "SO_SNDBUF", f"a receiver that keeps up; {_larger(sender)}",
        )  # fmt: skip
    name = ""
    if call == "sendto" and arguments[4]:
        name = _unix_name(facts.memory(arguments[4], min(arguments[5], 110)))
        name = name if name in {s.name for s in facts.unix if s.kind == _DATAGRAM} else ""
    peer = next((s for s in facts.unix if s.inode == sender.peer), None)
    name = name or (peer.name if peer else "")
    most = next(iter(sysctl("net/unix/max_dgram_qlen")), None)
    bound = f", {most:,} for new sockets" if most is not None else ""
    return Cause(
        f"the queue of the receiver{f' {shown(name)}' if name else ''} or the send buffer was "
        f"full: the buffer is not now, {size(sender.sent)} of {size(sender.send_buffer)}, and the "
        f"kernel does not show the queue (net.unix.max_dgram_qlen{bound})",
        "net.unix.max_dgram_qlen",
        "a receiver that keeps up; sysctl net.unix.max_dgram_qlen before it makes its socket; a "
        "larger SO_SNDBUF",
    )  # fmt: skip


def _larger(sender: sockets.UnixSocket) -> str:
    return larger_buffer("SO_SNDBUF", "net.core.wmem_max", sender.send_buffer)


def _datagram_socket(facts: Facts, number: int) -> sockets.UnixSocket | None:
    """None if the descriptor is not a Unix datagram socket."""
    link = facts.link(number)
    return next(
        (s for s in facts.unix if link == f"socket:[{s.inode}]" and s.kind == _DATAGRAM), None
    )


def _datagram(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """EMSGSIZE of sendto and sendmsg."""
    sender = _datagram_socket(facts, arguments[0])
    length = arguments[2] if call == "sendto" else _length_of(facts, arguments[1])
    if sender is None or length <= sender.send_buffer - 32:
        return None
    return Cause(
        f"a message of {size(length)} is sent by a Unix datagram socket whose send buffer has "
        f"{size(sender.send_buffer)} (SO_SNDBUF)",
        "SO_SNDBUF", f"smaller messages; {_larger(sender)}",
    )  # fmt: skip


def _length_of(facts: Facts, at: int) -> int:
    """Of a message (struct msghdr); 0 of one that is gone."""
    head = facts.memory(at + 16, 16)  # msg_iov, msg_iovlen
    if len(head) < 16:
        return 0
    pieces, count = struct.unpack("=2Q", head)
    raw = facts.memory(pieces, 16 * min(count, _PIECES_READ))
    return sum(length for _, length in struct.iter_unpack("=2Q", raw[: len(raw) // 16 * 16]))


def _unix_name(address: bytes) -> str:
    """Of a Unix address: a path, or `@` and an abstract name; else empty."""
    if len(address) < 3 or int.from_bytes(address[:2], sys.byteorder) != 1:
        return ""
    return sockets.unix_name(address[2:])


_MEMBERSHIPS = {(0, 35), (0, 42)}  # IP_ADD_MEMBERSHIP, MCAST_JOIN_GROUP
_SOURCES = {(0, 39), (0, 46)}  # IP_ADD_SOURCE_MEMBERSHIP, MCAST_JOIN_SOURCE_GROUP
_FILTERS = {(1, 26), (1, 50), (1, 51), (1, 52)}  # SO_ATTACH_FILTER, _BPF, _REUSEPORT_*
_UMEM = (283, 4)  # SOL_XDP, XDP_UMEM_REG


def _option(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    option = arguments[1], arguments[2]
    most = next(iter(sysctl("net/core/optmem_max")), 0)
    if option in _MEMBERSHIPS:
        groups = next(iter(sysctl("net/ipv4/igmp_max_memberships")), 0)
        return Cause(
            "a multicast group is joined: by exclusion of other causes this socket is in as many "
            f"as it may be, net.ipv4.igmp_max_memberships ({groups:,})",
            "net.ipv4.igmp_max_memberships",
            "sysctl net.ipv4.igmp_max_memberships; more sockets, each with fewer groups",
        )  # fmt: skip
    if option in _SOURCES:
        names = "net.ipv4.igmp_max_memberships", "net.ipv4.igmp_max_msf"
        groups, sources = (next(iter(sysctl(name.replace(".", "/"))), 0) for name in names)
        return Cause(
            "a source of a multicast group is joined: by exclusion of other causes this socket is "
            f"in as many groups ({groups:,}, {names[0]}) or has as many sources of this one "
            f"({sources:,}, {names[1]}) as it may",
            names[1], "more sockets, each with fewer groups and sources; these sysctls",
        )  # fmt: skip
    if option in _FILTERS:
        return Cause(
            "a filter is attached: by exclusion of other causes it is larger than what "
            f"net.core.optmem_max ({size(most)}) leaves this socket",
            "net.core.optmem_max", "a shorter filter; sysctl net.core.optmem_max",
        )  # fmt: skip
    if option == _UMEM:
        return _pins(facts, None, "memory for packets is registered (XDP_UMEM_REG)")
    return None


def _pins(facts: Facts, wanted: int | None, what: str) -> Cause | None:
    """By the user of the process, whose pinned pages of this kind the kernel does not show."""
    limit = facts.limit(MEMLOCK)
    if limit is None or facts.is_capable(_IPC_LOCK):
        return None
    pins = "what it asks for" if wanted is None else size(wanted)
    words = f"{what}: {pins} is to be pinned, and RLIMIT_MEMLOCK is {size(limit)}"
    if wanted is None or wanted <= limit:
        words += "; what the user has pinned so already was not read"
    return Cause(words, "RLIMIT_MEMLOCK", LOCK)


def _zero_copy(facts: Facts, call: str, arguments: Sequence[int]) -> Cause | None:
    """ENOBUFS of a send."""
    length, flags = (arguments[2], arguments[3]) if call == "sendto" else (None, arguments[2])
    if not flags & _ZERO_COPY:
        return _control(facts, arguments[1]) if call == "sendmsg" else None
    return _pins(facts, length, "it sends without a copy (MSG_ZEROCOPY)")


def _control(facts: Facts, at: int) -> Cause | None:
    """____sys_sendmsg() of net/socket.c."""
    raw = facts.memory(at + 40, 8)  # msg_controllen
    length, most = int.from_bytes(raw, sys.byteorder), next(iter(sysctl("net/core/optmem_max")), 0)
    if len(raw) < 8 or not most or length <= most:
        return None
    return Cause(
        f"a message has {size(length)} of control data, and net.core.optmem_max allows "
        f"{size(most)}",
        "net.core.optmem_max", "several messages; sysctl net.core.optmem_max",
    )  # fmt: skip


READERS: tuple[tuple[str, str, Reader], ...] = (
    ("sendmsg", "EINVAL", _passed),
    ("connect", "EADDRNOTAVAIL", _ports),
    ("bind", "EADDRINUSE", _ports),
    ("connect", "EAGAIN", _backlog),
    ("connect", "EAGAIN", _udp_port),
    (" ".join(SENDS), "EAGAIN", _receiver),
    ("sendto sendmsg", "EMSGSIZE", _datagram),
    ("setsockopt", "ENOBUFS ENOMEM", _option),
    ("sendto sendmsg", "ENOBUFS", _zero_copy),
)
