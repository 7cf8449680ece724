"""Memory in the queues of a process's sockets, which is in no process's resident memory.

NETLINK_SOCK_DIAG lists the sockets of a network namespace with what the kernel has charged to each
(sock_diag(7); include/uapi/linux/inet_diag.h, unix_diag.h, netlink_diag.h, sock_diag.h:
SK_MEMINFO_*).
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memlab.observe import files, proc
from memlab.observe.proc import ROOT

_NETLINK_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_DONE, _ERROR = 3, 2
_MESSAGE = struct.Struct("=IHHII")
_INET, _UNIX = struct.Struct("=BBBBI48x"), struct.Struct("=BBHIIIII")
_INET_SKMEMINFO, _UNIX_MEMINFO = 7, 5  # attributes of an answer
_INET_INODE_AT, _INET_BYTES, _UNIX_INODE_AT, _UNIX_BYTES = 68, 72, 4, 16
_SHOW_MEMINFO = 0x20  # UDIAG_SHOW_MEMINFO
_NETLINK = struct.Struct("=BBHIIII")
_ALL_PROTOCOLS, _NETLINK_SHOW_MEMINFO, _NETLINK_MEMINFO = 0xFF, 1, 0  # netlink_diag.h
_NETLINK_INODE_AT, _NETLINK_BYTES = 16, 28
_EACH_MAX, _MANY = 20, 20_000
"""A list of over so many sockets, of which the process has under a 20th, is not read."""
_CLONE_NEWNET = 0x4000_0000
_WAIT_S = 2.0


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

    @property
    def bytes(self) -> int:
        return self.receiving_bytes + self.sending_bytes + self.other_bytes


def read(pid: int, held: Mapping[int, str]) -> Sockets | None:
    """Of the descriptors that it holds; None of a process without a socket."""
    inodes = {int(link[8:-1]) for link in held.values() if link.startswith("socket:[")}
    if not inodes:
        return None
    text = files.text(ROOT / f"proc/{pid}/net/sockstat") or ""
    first = next(iter(proc.lines(text)), "").split()
    total = int(first[2]) if len(first) > 2 and first[2].isdigit() else 0
    if total > max(_MANY, _EACH_MAX * len(inodes)):
        why = f"the machine has {total:,} sockets, which would all be listed"
        return Sockets(len(inodes), 0, 0, 0, 0, why)
    seen: list[tuple[int, tuple[int, int, int]]] = []
    why = "they are of another kind than TCP, UDP, raw, packet, Unix and netlink"
    try:
        with _opened(pid) as asked:
            seen = [one for one in _listed(asked) if one[0] in inodes]
    except OSError as error:
        why = error.strerror or str(error)
    by_inode = dict(_tables(pid)) | dict(seen)
    by_inode = {inode: sizes for inode, sizes in by_inode.items() if inode in inodes}
    receiving, sending, other = (sum(one[i] for one in by_inode.values()) for i in range(3))
    missing = len(inodes) - len(by_inode)
    return Sockets(len(inodes), len(by_inode), receiving, sending, other, why if missing else "")


# Tables of /proc/PID/net, for kernels without a module of sock_diag: the columns of what is
# received and sent, in hex as one word or as two, and of the inode.
_PAIRS = ("udp", "udp6", "raw", "raw6")
_COLUMNS: dict[str, tuple[int, int | None, int]] = {"netlink": (4, 5, 9), "packet": (6, None, 8)}


def _tables(pid: int) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """As `_listed`, without what is reserved."""
    for name in (*_PAIRS, *_COLUMNS):
        for line in proc.lines(files.text(ROOT / f"proc/{pid}/net/{name}") or "")[1:]:
            words = line.split()
            try:
                if name in _PAIRS:
                    sent, received = (int(word, 16) for word in words[4].split(":"))
                    yield int(words[9]), (received, sent, 0)
                else:
                    first, second, inode = _COLUMNS[name]
                    sent = int(words[second]) if second else 0
                    yield int(words[inode]), (int(words[first]), sent, 0)
            except (IndexError, ValueError):
                break


def _opened(pid: int) -> socket.socket:
    """A socket of the process's network namespace: a thread of its own enters that."""
    links = [
        files.known(lambda one=one: (ROOT / f"proc/{one}/ns/net").readlink())  # type: ignore[misc]
        for one in ("self", pid)
    ]
    if None not in links and links[0] == links[1]:
        return _netlink()
    made: list[socket.socket | OSError] = []

    def enter() -> None:
        try:
            space = os.open(ROOT / f"proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(space, _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "its network namespace may not be entered")
                made.append(_netlink())
            finally:
                os.close(space)
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise OSError(made[0].errno, "they are of a network namespace that may not be entered")
    return made[0]


def _netlink() -> socket.socket:
    asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC,
                          _NETLINK_SOCK_DIAG)  # fmt: skip
    asked.settimeout(_WAIT_S)
    return asked


def _listed(asked: socket.socket) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """The inode of each socket, and its bytes: received, sent, other."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_RAW):
            wanted = 1 << (_INET_SKMEMINFO - 1)
            request = _INET.pack(family, protocol, wanted, 0, 0xFFFF_FFFF)
            yield from _answers(asked, request, _INET_INODE_AT, _INET_BYTES, _INET_SKMEMINFO)
    request = _UNIX.pack(socket.AF_UNIX, 0, 0, 0xFFFF_FFFF, 0, _SHOW_MEMINFO, 0, 0)
    yield from _answers(asked, request, _UNIX_INODE_AT, _UNIX_BYTES, _UNIX_MEMINFO)
    request = _NETLINK.pack(socket.AF_NETLINK, _ALL_PROTOCOLS, 0, 0, _NETLINK_SHOW_MEMINFO, 0, 0)
    yield from _answers(asked, request, _NETLINK_INODE_AT, _NETLINK_BYTES, _NETLINK_MEMINFO)


def _answers(
    asked: socket.socket, request: bytes, inode_at: int, head: int, attribute: int
) -> Iterator[tuple[int, tuple[int, int, int]]]:
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
                (inode,) = struct.unpack_from("=I", body, inode_at)
                yield inode, _memory(body[head:], attribute)
            at += -(-length // 4) * 4


def _memory(attributes: bytes, wanted: int) -> tuple[int, int, int]:
    at = 0
    while at + 4 <= len(attributes):
        length, kind = struct.unpack_from("=HH", attributes, at)
        if length < 4:
            break
        if kind == wanted and length >= 4 + 32:
            received, _, sent, _, ahead, queued, options, backlog = struct.unpack_from(
                "=8I", attributes, at + 4
            )
            # A TCP segment in flight is in both counts.
            return received + backlog, max(sent, queued), ahead + options
        at += -(-length // 4) * 4
    return 0, 0, 0
