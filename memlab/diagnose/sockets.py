"""Memory in the queues of a process's sockets, which is in no process's resident memory.

NETLINK_SOCK_DIAG lists the sockets of a network namespace with what the kernel has charged to each
(sock_diag(7); include/uapi/linux/inet_diag.h, unix_diag.h, netlink_diag.h, sock_diag.h:
SK_MEMINFO_*).
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from memlab.diagnose.kernel_numbers import target_of
from memlab.diagnose.memory_files import PAGE
from memlab.observe import files, namespaces, process
from memlab.observe.proc import ROOT

_NETLINK_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_DONE, _ERROR = 3, 2
_MESSAGE = struct.Struct("=IHHII")
_INET, _UNIX = struct.Struct("=BBBBI48x"), struct.Struct("=BBHIIIII")
_INET_BACKLOG_AT, _INET_BYTES, _INET_SKMEMINFO = 56, 72, 7
_UNIX_INODE_AT, _UNIX_BYTES, _UNIX_MEMINFO = 4, 16, 5
_SHOW_MEMINFO = 0x20  # UDIAG_SHOW_MEMINFO
_SHOW_ALL = _SHOW_MEMINFO | 0x15  # names, peers, and how long queues are
_UNIX_NAME, _UNIX_PEER, _UNIX_RQLEN = 0, 2, 4
_SHOW_QUEUE = 0x10  # UDIAG_SHOW_RQLEN
_DATAGRAM = 2  # SOCK_DGRAM
_LISTENS, _CONNECTED = 10, (1, 8)  # TCP_LISTEN; TCP_ESTABLISHED and TCP_CLOSE_WAIT
_ANY = bytes(16)
_PACKET, _PACKET_BYTES = struct.Struct("=BBHIIII"), 16
_SHOW_RINGS, _PACKET_SHOW_MEMINFO = 4, 0x10
_PACKET_RINGS = 2, 3
_NETLINK = struct.Struct("=BBHIIII")
_ALL_PROTOCOLS, _NETLINK_SHOW_MEMINFO = 0xFF, 1
# Where an answer has the inode, how long its head is, and which attribute has the memory.
_OF_INET = 68, _INET_BYTES, _INET_SKMEMINFO
_OF_UNIX = _UNIX_INODE_AT, _UNIX_BYTES, _UNIX_MEMINFO
_OF_NETLINK, _OF_PACKET = (16, 28, 0), (4, _PACKET_BYTES, 6)
_SPACES_MAX = 16  # network namespaces of a machine
_EACH_MAX, _MANY = 20, 20_000
"""A list of over so many sockets, of which the process has under a 20th, is not read."""
_WAIT_S = 2.0
UDP, NETLINK, UNIX_DATAGRAM = "UDP", "netlink", "Unix datagram"
_DROP = (UDP, NETLINK, "raw", "packet")  # what a full buffer has no room for
_MESSAGE_BYTES = 4352  # charged for one of up to a page
_ALONE_MAX = 64
_SO_MEMINFO = 55  # include/uapi/asm-generic/socket.h


class Queue(NamedTuple):
    """Of one socket, in bytes."""

    received: int
    sent: int
    other: int
    buffer: int = 0
    """What it may have received (SO_RCVBUF); 0 if it was not read."""
    drops: int | None = None
    """Messages to it that were dropped since it was made; None if they were not read."""
    kind: str = ""
    place: bytes = b""
    """Its port and address, of one of TCP that listens or that nobody has accepted."""
    waiting: int = 0
    """Of one of Unix that listens: connections that it has not accepted."""
    ring_bytes: int = 0
    """Of one of packet(7)."""
    backlog: tuple[int, ...] = (0, 0)
    """Of one of TCP that listens: connections that it has not accepted, and how many may wait."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Of a process at one moment."""

    queues: Mapping[int, Queue]
    """By inode, those that were read."""
    count: int
    why: str = ""
    """Why some were not read."""
    unaccepted: Sequence[Queue] = ()
    """Connections that wait at its sockets of TCP."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Messages to sockets of one kind that were dropped in a look."""

    kind: str
    count: int
    buffer_bytes: int
    """The receive buffer of the socket that dropped most; 0 if it was not read."""
    is_full: bool
    """Whether the buffer of each of them was read full: others drop by checksums and filters."""


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """One Unix socket of a network namespace."""

    inode: int
    kind: int
    """SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET."""
    state: int
    name: str
    """Its path, or `@` and its abstract name; else empty."""
    peer: int
    """The inode of the other end; 0 without one that is read."""
    queued: int
    """Of one that listens: connections that it has not accepted."""
    queue_max: int
    sent: int
    """In bytes, charged for what receivers have not taken."""
    send_buffer: int


@dataclass(frozen=True, slots=True)
class Sockets:
    """The sockets of a process: TCP, UDP, raw, packet, Unix and netlink."""

    count: int
    """Of all kinds."""
    read: int
    """Of these, those whose queues were read."""
    receiving_bytes: int
    """Received, and not yet read by the process."""
    sending_bytes: int
    """Written by it, and not yet taken by the other side."""
    other_bytes: int
    """Reserved for what comes next."""
    why: str = ""
    """Why some were not read."""
    unaccepted_count: int = 0
    unaccepted_bytes: int = 0
    """Of TCP connections that it has not accepted; none of `count`."""
    unix_waiting: int = 0
    """Connections that wait at its Unix sockets."""
    ring_bytes: int = 0
    """Of its packet sockets, mapped or not; none of `bytes`."""

    @property
    def bytes(self) -> int:
        return self.receiving_bytes + self.sending_bytes + self.other_bytes + self.unaccepted_bytes


def read(pid: int, held: Mapping[int, str]) -> Sockets | None:
    """Of the descriptors that it holds; None of a process without a socket."""
    return sums(readings(pid, held))


def sums(seen: Readings) -> Sockets | None:
    """What all queues hold; None of a process without a socket."""
    if not seen.count:
        return None
    queues = seen.queues.values()
    return Sockets(
        seen.count, len(queues), sum(queue.received for queue in queues),
        sum(queue.sent for queue in queues), sum(queue.other for queue in queues), seen.why,
        len(seen.unaccepted), sum(q.received + q.sent + q.other for q in seen.unaccepted),
        sum(queue.waiting for queue in queues), sum(queue.ring_bytes for queue in queues),
    )  # fmt: skip


def readings(pid: int, links: Mapping[int, str]) -> Readings:
    """The sockets among the descriptors that it holds."""
    inodes = {int(link[8:-1]) for link in links.values() if link.startswith("socket:[")}
    if not inodes:
        return Readings({}, 0)
    total = count_of_machine(pid)
    if total > max(_MANY, _EACH_MAX * len(inodes)):
        why = f"the machine has {total:,} sockets, which would all be listed"
        return Readings({}, len(inodes), why)
    seen: list[tuple[int, Queue]] = []
    waiting: list[Queue] = []
    why = (
        "they are in no table of the kernel (never bound or connected, or of another kind than "
        "TCP, UDP, raw, packet, Unix and netlink)"
    )
    try:
        with namespaces.inside(pid, "net", _netlink) as asked:
            seen, waiting = _of_process(_listed(asked), inodes)
    except OSError as error:
        why = error.strerror or str(error)
    by_inode = dict(_tables(pid)) | dict(seen)
    by_inode = {inode: queue for inode, queue in by_inode.items() if inode in inodes}
    missing = [number for number, link in links.items()
               if link.startswith("socket:[") and int(link[8:-1]) not in by_inode]  # fmt: skip
    now = files.known(process.descriptors, pid) or {} if missing else {}
    inodes -= {int(links[number][8:-1]) for number in missing if now.get(number) != links[number]}
    by_inode |= {int(links[number][8:-1]): queue for number, queue in _alone(pid, missing)}
    why = why if len(by_inode) < len(inodes) else ""
    return Readings(by_inode, len(inodes), why, waiting)


def _of_process(
    listed: Iterable[tuple[int, Queue]], inodes: Set[int]
) -> tuple[list[tuple[int, Queue]], list[Queue]]:
    """Its sockets, and connections that wait at one of these that listens alone at its place."""
    mine: list[tuple[int, Queue]] = []
    others: list[Queue] = []
    shared: set[bytes] = set()
    for inode, queue in listed:
        if inode in inodes:
            mine.append((inode, queue))
        elif not inode and queue.place:
            others.append(queue)
        elif queue.place:
            shared.add(queue.place)
    places = {queue.place for _, queue in mine if queue.place} - shared
    waiting = [q for q in others if q.place not in shared]
    return mine, [q for q in waiting if q.place in places or q.place[:2] + _ANY in places]


def count_of_machine(pid: int) -> int:
    """The sockets of its network namespace; 0 if it is not read."""
    first = next(iter(files.rows(ROOT / f"proc/{pid}/net/sockstat")), [])
    return int(first[2]) if len(first) > 2 and first[2].isdigit() else 0


@dataclass(frozen=True, slots=True)
class OfMachine:
    """Sockets that no counter of the machine has: Unix, netlink and packet."""

    queue_bytes: int = 0
    ring_bytes: int = 0
    why: str = ""
    """Why some were not read."""


def of_machine(pids: Iterable[int]) -> OfMachine:
    """Of the network namespaces of these processes."""
    queued = rings = 0
    whys: list[str] = []
    spaces: set[str] = set()
    for pid in pids:
        try:
            space = str((ROOT / f"proc/{pid}/ns/net").readlink())
        except PermissionError:
            who = ": run as root" if os.geteuid() else ""
            whys.append(f"the network namespaces of some processes may not be read{who}")
            continue
        except OSError:
            continue  # it has ended, or this kernel has none
        if space in spaces:
            continue
        spaces.add(space)
        if len(spaces) > _SPACES_MAX:
            whys.append(f"over {_SPACES_MAX} network namespaces")
            break
        if (count := count_of_machine(pid)) > _MANY:
            whys.append(f"to list {count:,} sockets takes long")
            continue
        try:
            listed = namespaces.inside(pid, "net", _uncounted)
        except OSError as error:
            whys.append(error.strerror or str(error))
            continue
        queued += sum(queue.received + queue.sent for queue in listed)
        rings += sum(queue.ring_bytes for queue in listed)
    return OfMachine(queued, rings, next(iter(whys), ""))


def _uncounted() -> list[Queue]:
    with _netlink() as asked:
        return [queue for _, queue in _listed_beside_inet(asked)]


def unix(pid: int) -> list[UnixSocket]:
    """Those of its network namespace; none of so many that to list them takes long. Raises
    `OSError`."""
    if count_of_machine(pid) > _MANY:
        return []

    def ask() -> list[UnixSocket]:
        request = _UNIX.pack(socket.AF_UNIX, 0, 0, 0xFFFF_FFFF, 0, _SHOW_ALL, 0, 0)
        with _netlink() as asked:
            return [_unix(body) for body in _bodies(asked, request, _UNIX_BYTES)]

    return namespaces.inside(pid, "net", ask)


def _unix(body: bytes) -> UnixSocket:
    (inode,) = struct.unpack_from("=I", body, _UNIX_INODE_AT)
    attributes = body[_UNIX_BYTES:]

    def words(wanted: int, form: str) -> tuple[int, ...]:
        raw = _attribute(attributes, wanted)
        count = struct.calcsize(form)
        return struct.unpack_from(form, raw) if len(raw) >= count else (0,) * (count // 4)

    (peer,), (queued, most) = words(_UNIX_PEER, "=I"), words(_UNIX_RQLEN, "=II")
    memory = words(_UNIX_MEMINFO, "=4I")
    name = unix_name(_attribute(attributes, _UNIX_NAME))
    return UnixSocket(inode, body[1], body[2], name, peer, queued, most, memory[2], memory[3])


def unix_name(raw: bytes) -> str:
    """A path, or `@` and the abstract name of an address of a Unix socket."""
    if raw.startswith(b"\0"):
        return "@" + raw[1:].decode("utf-8", "surrogateescape")
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def dropped(before: Readings, after: Readings) -> tuple[Dropped, ...]:
    """Messages that were dropped between two moments, by kind of socket."""
    by_kind: dict[str, list[tuple[int, Queue]]] = {}
    for inode, queue in after.queues.items():
        former = before.queues.get(inode)
        more = (queue.drops or 0) - ((former.drops or 0) if former else 0)
        if queue.kind in _DROP and more > 0:
            by_kind.setdefault(queue.kind, []).append((more, queue))
    result = []
    for kind, those in by_kind.items():
        count, (_, most) = sum(more for more, _ in those), max(those, key=lambda one: one[0])
        is_full = kind == NETLINK or all(_is_full(queue) for _, queue in those)
        result.append(Dropped(kind, count, most.buffer, is_full))
    return tuple(sorted(result, key=lambda one: -one.count))


def _is_full(queue: Queue) -> bool:
    """Whether its buffer had no room for one more message: counters of a whole network namespace
    do not say so of one socket."""
    message = min(_MESSAGE_BYTES, queue.buffer // 8)
    return queue.buffer > 0 and queue.received + message >= queue.buffer


def _alone(pid: int, numbers: Sequence[int]) -> Iterator[tuple[int, Queue]]:
    """Those that no table has, as of a socket that is bound to nothing yet: a few are read by a
    descriptor of our own, for some microseconds (pidfd_getfd(2), SO_MEMINFO)."""
    with suppress(OSError), process.handle(pid) as pidfd:
        for number in numbers[:_ALONE_MAX]:
            with suppress(OSError):
                with socket.socket(fileno=process.take_descriptor(pidfd, number)) as one:
                    raw = one.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36)
                    kind = "packet" if one.family == socket.AF_PACKET else ""
                yield number, _queue(raw, kind)


# Tables of /proc/PID/net, for kernels without a module of sock_diag: the columns of what is
# received and sent, in hex as one word or as two, of drops, and of the inode.
_PAIRS = {"udp": UDP, "udp6": UDP, "raw": "raw", "raw6": "raw"}
_COLUMNS: dict[str, tuple[int, int | None, int | None, int]] = {
    NETLINK: (4, 5, 8, 9), "packet": (6, None, None, 8),
}  # fmt: skip


def _tables(pid: int) -> Iterator[tuple[int, Queue]]:
    """As `_listed`, without what is reserved."""
    for name in (*_PAIRS, *_COLUMNS):
        for words in files.rows(ROOT / f"proc/{pid}/net/{name}")[1:]:
            try:
                if name in _PAIRS:
                    sent, received = (int(word, 16) for word in words[4].split(":"))
                    drops = int(words[12]) if len(words) > 12 else None
                    yield int(words[9]), Queue(received, sent, 0, 0, drops, _PAIRS[name])
                else:
                    first, second, lost, inode = _COLUMNS[name]
                    sent = int(words[second]) if second else 0
                    drops = int(words[lost]) if lost else None
                    yield int(words[inode]), Queue(int(words[first]), sent, 0, 0, drops, name)
            except (IndexError, ValueError):
                break


def _netlink() -> socket.socket:
    asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC,
                          _NETLINK_SOCK_DIAG)  # fmt: skip
    asked.settimeout(_WAIT_S)
    return asked


def _listed(asked: socket.socket) -> Iterator[tuple[int, Queue]]:
    """The inode of each socket, and its queue."""
    kinds = {socket.IPPROTO_TCP: "TCP", socket.IPPROTO_UDP: UDP, socket.IPPROTO_RAW: "raw"}
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol, kind in kinds.items():
            wanted = 1 << (_INET_SKMEMINFO - 1)
            request = _INET.pack(family, protocol, wanted, 0, 0xFFFF_FFFF)
            for inode, body, queue in _answers(asked, request, kind, _OF_INET):
                wanted_states = (_LISTENS,) if inode else _CONNECTED
                if kind == "TCP" and body[1] in wanted_states:
                    queue = queue._replace(place=body[4:6] + body[8:24])
                if kind == "TCP" and body[1] == _LISTENS:
                    backlog = struct.unpack_from("=II", body, _INET_BACKLOG_AT)
                    queue = queue._replace(backlog=backlog)
                yield inode, queue
    yield from _listed_beside_inet(asked)


def _listed_beside_inet(asked: socket.socket) -> Iterator[tuple[int, Queue]]:
    show = _SHOW_MEMINFO | _SHOW_QUEUE
    request = _UNIX.pack(socket.AF_UNIX, 0, 0, 0xFFFF_FFFF, 0, show, 0, 0)
    for inode, body, queue in _answers(asked, request, "Unix", _OF_UNIX):
        if body[1] == _DATAGRAM:
            queue = queue._replace(kind=UNIX_DATAGRAM)
        length = _attribute(body[_UNIX_BYTES:], _UNIX_RQLEN)
        if body[2] == _LISTENS and len(length) >= 4:
            queue = queue._replace(waiting=struct.unpack_from("=I", length)[0])
        yield inode, queue
    request = _NETLINK.pack(socket.AF_NETLINK, _ALL_PROTOCOLS, 0, 0, _NETLINK_SHOW_MEMINFO, 0, 0)
    for inode, _, queue in _answers(asked, request, NETLINK, _OF_NETLINK):
        yield inode, queue
    # With rings (include/uapi/linux/packet_diag.h).
    request = _PACKET.pack(socket.AF_PACKET, 0, 0, 0, _SHOW_RINGS | _PACKET_SHOW_MEMINFO, 0, 0)
    for inode, body, queue in _answers(asked, request, "packet", _OF_PACKET):
        for kind in _PACKET_RINGS:
            ring = _attribute(body[_PACKET_BYTES:], kind)
            if len(ring) >= 8:
                block, count = struct.unpack_from("=II", ring)
                queue = queue._replace(ring_bytes=queue.ring_bytes + block * count)
        yield inode, queue


def _answers(
    asked: socket.socket, request: bytes, kind: str, form: tuple[int, int, int]
) -> Iterator[tuple[int, bytes, Queue]]:
    """Of each socket its inode, the answer, and its queue."""
    inode_at, head, attribute = form
    for body in _bodies(asked, request, head):
        (inode,) = struct.unpack_from("=I", body, inode_at)
        yield inode, body, _queue(_attribute(body[head:], attribute), kind)


def _bodies(asked: socket.socket, request: bytes, head: int) -> Iterator[bytes]:
    """The answer about each socket."""
    asked.send(_MESSAGE.pack(_MESSAGE.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
    while True:
        text = asked.recv(1 << 16)
        at = 0
        while at + _MESSAGE.size <= len(text):
            length, kind, _, _, _ = _MESSAGE.unpack_from(text, at)
            if kind in (_DONE, _ERROR) or length < _MESSAGE.size:
                return  # an error is a kind of socket that this kernel does not list
            body = text[at + _MESSAGE.size : at + length]
            if len(body) >= head:
                yield body
            at += -(-length // 4) * 4


def _attribute(attributes: bytes, wanted: int) -> bytes:
    at = 0
    while at + 4 <= len(attributes):
        length, kind = struct.unpack_from("=HH", attributes, at)
        if length < 4:
            break
        if kind == wanted:
            return attributes[at + 4 : at + length]
        at += -(-length // 4) * 4
    return b""


def _queue(raw: bytes, kind: str) -> Queue:
    """Of SK_MEMINFO_*; before Linux 4.7 without drops."""
    if len(raw) < 32:
        return Queue(0, 0, 0, kind=kind)
    received, buffer, sent, _, ahead, queued, options, backlog = struct.unpack_from("=8I", raw)
    (drops,) = struct.unpack_from("=I", raw, 32) if len(raw) >= 36 else (None,)
    # A TCP segment in flight is in both counts.
    return Queue(received + backlog, max(sent, queued), ahead + options, buffer, drops, kind)


@dataclass(frozen=True, slots=True)
class QueuesOfProcesses:
    """The queues of several processes, each socket once."""

    bytes: int = 0
    count: int = 0
    most_of: str = ""
    """The process that holds most of it, as `7 (a)`."""
    why: str = ""
    """Why some were not read."""


def counted_bytes() -> int | None:
    """Charged to all sockets of TCP and UDP, in all network namespaces."""
    text = files.text(ROOT / "proc/net/sockstat")
    if text is None:
        return None
    return sum(map(int, re.findall(r"\bmem (\d+)", text))) * PAGE


def of_processes(descriptors: Mapping[int, Mapping[int, str] | None]) -> QueuesOfProcesses:
    """Of the descriptors that they hold, None of one that may not be read; a socket is that of whom
    is listed first."""
    owners: dict[str, dict[int, int]] = {}
    why = ""
    for pid, links in descriptors.items():
        if links is None:
            is_there = (ROOT / f"proc/{pid}").exists()
            why = why or (f"/proc/{pid}/fd may not be read" if is_there else "")
            continue
        if len(links) >= process.DESCRIPTORS_READ:
            why = why or f"of process {pid} only the first {len(links):,} descriptors are read"
        inodes = {int(link[8:-1]) for link in links.values() if link.startswith("socket:[")}
        space = target_of(ROOT / f"proc/{pid}/ns/net")
        of_space = owners.setdefault(space or f"of {pid}", {})
        of_space.update((inode, pid) for inode in inodes if inode not in of_space)
    sizes: dict[int, int] = {}
    count = 0
    for of_space in filter(None, owners.values()):
        first = next(iter(of_space.values()))
        if (total := count_of_machine(first)) > max(_MANY, _EACH_MAX * len(of_space)):
            why = why or f"the machine has {total:,} sockets, which would all be listed"
            continue
        try:
            with namespaces.inside(first, "net", _netlink) as asked:
                mine, waiting = _of_process(_listed(asked), of_space.keys())
        except OSError as error:
            why = why or error.strerror or str(error)
            continue
        count += len(mine)
        queues = [(of_space[inode], queue) for inode, queue in mine]
        listens = {queue.place: pid for pid, queue in queues if queue.place}
        for queue in waiting:  # for who listens there
            place = queue.place if queue.place in listens else queue.place[:2] + _ANY
            queues.append((listens[place], queue))
        for pid, queue in queues:
            sizes[pid] = sizes.get(pid, 0) + queue.received + queue.sent + queue.other
    most = max(sizes, key=lambda pid: sizes[pid], default=0)
    most_of = f"{most} ({process.command(most, ROOT)})" if most else ""
    return QueuesOfProcesses(sum(sizes.values()), count, most_of, why)
