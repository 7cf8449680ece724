"""What the open files of a process are: by folder, by kind, and of sockets by state and peer."""

from __future__ import annotations

import socket
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from memlab.diagnose import sockets
from memlab.observe import files, process
from memlab.observe.proc import ROOT
from memlab.text.printable import printable

_SHOWN = 3
_LEAST, _LEAST_SHARE, _MOST_SHARE = 2, 0.1, 0.8
_TABLES_FROM, _SOCKETS_MAX = 16, 20_000  # the tables take the kernel 5 ms or more
_STATES = ("", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT",
           "CLOSE", "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING")  # fmt: skip
_DELETED = process.DELETED
_MEMFD = "/memfd:"  # before the name of memfd_create(2), which several may have


@dataclass(frozen=True, slots=True)
class OpenKind:
    """Open files of one kind."""

    name: str
    """As `files under /var/log`, `pipe` or `TCP in CLOSE_WAIT to 10.0.0.5:5432`."""
    count: int
    of: int
    """Descriptors in all."""
    deleted: int = 0
    """How many of these are deleted files; memfds do not count."""
    more: int | None = None
    """Than at the beginning of the look; None if that was not read."""


def read(
    pid: int, held: Mapping[int, str], before: Mapping[int, str] | None
) -> tuple[OpenKind, ...]:
    """The largest kinds, each of a tenth of all descriptors or more."""
    least = max(_LEAST, _LEAST_SHARE * len(held))
    names = {number: f"{_kind(link)}s" for number, link in held.items() if link[:1] != "/"}
    if sum(link.startswith("socket:") for link in held.values()) >= max(least, _TABLES_FROM):
        names |= _of_sockets(pid, held)
    names |= _of_files(held, least)
    counts = Counter(names.values())
    deleted = Counter(
        names[number]
        for number, link in held.items()
        if link.endswith(_DELETED) and not link.startswith(_MEMFD)
    )
    return tuple(
        OpenKind(printable(name), count, len(held), deleted[name], _more(name, names, held, before))
        for name, count in counts.most_common(_SHOWN)
        if count >= least
    )


def words(kinds: Sequence[OpenKind]) -> str:
    """`880 of 1,000 are files under /var/log, 620 of them deleted; ...`; empty without any."""
    parts = []
    for place, kind in enumerate(kinds):
        read = " that were looked at" if kind.of >= process.DESCRIPTORS_READ else ""
        of = f" of {'the ' if read else ''}{kind.of:,}{read} are" if place == 0 else ""
        deleted = f", {kind.deleted:,} of them deleted" if kind.deleted else ""
        more = f", {kind.more:,} more than when the look began" if (kind.more or 0) > 0 else ""
        parts.append(f"{kind.count:,}{of} {kind.name}{deleted}{more}")
    return "; ".join(parts)


def _more(
    name: str, names: Mapping[int, str], held: Mapping[int, str], before: Mapping[int, str] | None
) -> int | None:
    """New descriptors of the kind, less those that are gone from what it is a part of."""
    if before is None:
        return None
    new = sum(before.get(number) != held[number] for number, of in names.items() if of == name)
    of_kind = next(held[number] for number, of in names.items() if of == name)
    folder = name.removeprefix("files under ").rstrip("/") + "/"
    gone = 0
    for number, link in before.items():
        if held.get(number) == link:
            continue
        if of_kind.startswith(_MEMFD):
            gone += link == of_kind or (name == "memfds" and link.startswith(_MEMFD))
        elif of_kind.startswith("/"):
            gone += link == of_kind or link.startswith(folder)
        else:
            gone += _kind(link) == _kind(of_kind)
    return new - gone


def _kind(link: str) -> str:
    """`socket`, `pipe`, `eventfd`, `memfd`."""
    return link.removeprefix("anon_inode:").partition(":")[0].strip("[]")


def _of_files(held: Mapping[int, str], least: float) -> dict[int, str]:
    """By one path that is open often, else by the deepest folder that has so many."""
    links = {number: link for number, link in held.items() if link.startswith("/")}
    by_path = Counter(links.values())
    names = {
        number: _of_one_path(link)
        for number, link in links.items()
        if by_path[link] >= max(least, len(links) / 2)
    }
    names |= dict.fromkeys(
        (
            number
            for number, link in links.items()
            if link.startswith(_MEMFD) and number not in names
        ),
        "memfds",
    )
    rest = {number: link for number, link in links.items() if number not in names}
    inside: dict[str, list[int]] = defaultdict(list)
    for number, link in rest.items():
        for folder in _folders(link):
            inside[folder].append(number)
    for folder in sorted(inside, key=lambda folder: -folder.count("/")):
        numbers = [number for number in inside[folder] if number not in names]
        if len(numbers) >= least:
            names |= dict.fromkeys(numbers, f"files under {folder or '/'}")
    return {number: names.get(number, "other files") for number in links}


def _of_one_path(link: str) -> str:
    """Files that are deleted, and memfds, may share a path and be several files."""
    if link.startswith(_MEMFD):
        return f"memfds of the name {link.removeprefix(_MEMFD).removesuffix(_DELETED)}"
    path = link.removesuffix(_DELETED)
    return f"files of the path {path}" if path != link else f"one file, {link}"


def _folders(link: str) -> list[str]:
    """Those that a path lies in, of one that is deleted too."""
    return list(accumulate(link.split("/")[:-1], lambda above, name: f"{above}/{name}"))


def _of_sockets(pid: int, held: Mapping[int, str]) -> dict[int, str]:
    """By protocol, and of TCP by state and by the peer or the port that most have."""
    if sockets.count_of_machine(pid) > _SOCKETS_MAX:
        return {}
    numbers = {link: number for number, link in held.items() if link.startswith("socket:")}
    by_state: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    names: dict[int, str] = {}
    for protocol, inode, state, local, peer in _tables(pid):
        number = numbers.get(f"socket:[{inode}]")
        if number is None:
            continue
        if protocol == "TCP":
            by_state[f"TCP in {state}"].append((number, local, peer))
        else:
            names[number] = f"{protocol} sockets"
    for name, those in by_state.items():
        (peer, to), *_ = Counter(peer for _, _, peer in those).most_common(1)
        (port, at), *_ = Counter(port for _, port, _ in those).most_common(1)
        where = ""
        if to >= _MOST_SHARE * len(those) and "LISTEN" not in name:
            where = f" to {peer}"
        elif at >= _MOST_SHARE * len(those):
            where = f" at port {port}"
        names |= dict.fromkeys((number for number, _, _ in those), f"{name}{where}")
    return names


def _tables(pid: int) -> Iterator[tuple[str, str, str, str, str]]:
    """Of each socket of its network the protocol, inode, state, its port, and its peer
    (proc_pid_net(5))."""
    for protocol in ("TCP", "UDP"):
        for name in (protocol.lower(), f"{protocol.lower()}6"):
            for row in files.rows(ROOT / f"proc/{pid}/net/{name}")[1:]:
                if len(row) > 9 and int(row[3], 16) < len(_STATES):
                    port = str(int(row[1].rpartition(":")[2], 16))
                    yield protocol, row[9], _STATES[int(row[3], 16)], port, _address(row[2])
    for row in files.rows(ROOT / f"proc/{pid}/net/unix")[1:]:
        if len(row) > 6:
            yield "Unix", row[6], "", "", ""


def _address(text: str) -> str:
    """Of words of 32 bits, each in the order of this machine."""
    number, _, port = text.partition(":")
    raw = b"".join(
        struct.pack("=I", int(number[at : at + 8], 16)) for at in range(0, len(number), 8)
    )
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    host = socket.inet_ntop(family, raw).removeprefix("::ffff:")
    return f"[{host}]:{int(port, 16)}" if ":" in host else f"{host}:{int(port, 16)}"
