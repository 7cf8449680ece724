"""Messages that sockets lose: counted to the message, with the cause if it was read."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import needs
import pytest

from memlab.diagnose import call_sockets, kernel_numbers, limits, refusals, room, sockets
from memlab.diagnose.call_facts import Facts
from memlab.diagnose.finding import COSTLY, NOTE
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.sockets import NETLINK, UDP, Dropped, Queue, Readings

from .looks import look

PID = os.getpid()
Send = Callable[[], object]
Made = Callable[[], AbstractContextManager[tuple[socket.socket, Send]]]
NETLINK_USERSOCK, GROUP, SO_ATTACH_FILTER = 2, 1, 26
MESSAGE = struct.pack("=IHHII", 516, 16, 0, 1, 0) + b"x" * 500


@contextmanager
def of_netlink() -> Iterator[tuple[socket.socket, Send]]:
    """A reader, and what sends a message to it."""
    needs.of("netlink groups")
    with (
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_USERSOCK) as reader,
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_USERSOCK) as writer,
    ):
        writer.bind((0, 0))
        reader.bind((0, GROUP))
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setblocking(False)
        here = writer.getsockname()[0], GROUP  # a copy comes back
        yield reader, lambda: (writer.sendto(MESSAGE, here), writer.recv(1000))


@contextmanager
def of_udp() -> Iterator[tuple[socket.socket, Send]]:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reader,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as writer,
    ):
        reader.bind(("127.0.0.1", 0))
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setblocking(False)
        here = reader.getsockname()
        yield reader, lambda: writer.sendto(MESSAGE, here)


def reading(reader: socket.socket) -> Readings:
    fd = reader.fileno()
    return sockets.readings(PID, {fd: os.readlink(f"/proc/self/fd/{fd}")})  # noqa: PTH115


@pytest.mark.parametrize("times", [40, 80])
@pytest.mark.parametrize(("kind", "made"), [(NETLINK, of_netlink), (UDP, of_udp)])
def test_what_a_full_buffer_has_no_room_for_is_counted(kind: str, made: Made, times: int) -> None:
    with made() as (reader, send):
        send()
        before = reading(reader)
        assert sockets.dropped(before, reading(reader)) == ()
        for _ in range(times - 1):
            send()
        (one,) = sockets.dropped(before, reading(reader))
        buffer = reader.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        if kind == NETLINK:
            with pytest.raises(OSError, match="No buffer space"):
                reader.recv(1000)
        assert one == Dropped(kind, times - arrived(reader), buffer, is_full=True)


def arrived(reader: socket.socket) -> int:
    """How many messages can be read."""
    count = 0
    with suppress(BlockingIOError):
        while reader.recv(1000):
            count += 1
    return count


def test_the_tables_say_the_same_without_sock_diag(monkeypatch: pytest.MonkeyPatch) -> None:
    with of_udp() as (reader, send):
        for _ in range(50):
            send()
        ((_, listed),) = reading(reader).queues.items()
        monkeypatch.setattr(sockets, "_listed", lambda _: iter(()))
        ((_, of_table),) = reading(reader).queues.items()
    assert listed.drops
    assert (of_table.drops, of_table.kind) == (listed.drops, listed.kind)


BUFFER = 212_992


@pytest.mark.parametrize(
    ("received", "buffer", "is_full"),
    [
        (BUFFER, BUFFER, True), (BUFFER - 4352, BUFFER, True), (BUFFER - 4353, BUFFER, False),
        (BUFFER // 2, BUFFER, False), (7168, 8192, True), (7167, 8192, False), (9000, 0, False),
    ],
)  # fmt: skip
def test_the_cause_is_a_full_buffer_only_if_that_was_read(
    received: int, buffer: int, is_full: bool
) -> None:
    """A filter or a bad checksum drops too."""
    before = Readings({7: Queue(0, 0, 0, buffer, 0, UDP)}, 1)
    after = Readings({7: Queue(received, 0, 0, buffer, 100, UDP)}, 1)
    assert sockets.dropped(before, after) == (Dropped(UDP, 100, buffer, is_full),)


def test_one_full_buffer_does_not_explain_what_another_socket_drops() -> None:
    full, other = Queue(8192, 0, 0, 8192, 90, UDP), Queue(0, 0, 0, 8192, 10, UDP)
    (one,) = sockets.dropped(Readings({}, 0), Readings({7: full, 8: other}, 2))
    assert one == Dropped(UDP, 100, 8192, is_full=False)
    stream = Readings({7: Queue(0, 0, 0, 8192, 100, "TCP")}, 1)
    assert sockets.dropped(Readings({}, 0), stream) == ()


def test_a_filter_is_not_called_a_full_buffer_while_another_socket_overflows() -> None:
    drop_all = struct.pack("HBBI", 6, 0, 0, 0)
    program = ctypes.create_string_buffer(drop_all)
    with of_udp() as (reader, send), of_udp() as (_, overflow):
        pointer = struct.pack("HL", 1, ctypes.addressof(program))
        reader.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, pointer)
        before = reading(reader)
        for _ in range(30):
            send()
            overflow()
        buffer = reader.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert sockets.dropped(before, reading(reader)) == (Dropped(UDP, 30, buffer, False),)


def said(*dropped: Dropped, refused: tuple[Refusal, ...] = ()) -> list[tuple[str, str]]:
    seen = look(dropped=dropped, refused=refused, seconds=10.0)
    return [(one.name, one.title) for one in limits.findings(seen)]


def test_what_is_lost_is_a_finding_once() -> None:
    lost = Dropped(NETLINK, 200, 212_992, is_full=True)
    ((name, title),) = said(lost)
    assert name == "sockets-drop"
    assert "20 messages per second to its netlink sockets are dropped" in title
    assert "are dropped: a receive buffer of 208 KiB was full (" in title
    ((name, title),) = said(lost, refused=(Refusal("recvmsg", "ENOBUFS", 15.0),))
    assert name == "messages-lost"
    assert "200 messages to its netlink sockets are dropped: a receive buffer of" in title
    ((name, title),) = said(Dropped(UDP, 200, 212_992, is_full=False))
    assert "a full receive buffer of 208 KiB, a filter or a bad checksum; which was not" in title
    ((name, title),) = said(refused=(Refusal("recvmsg", "ENOBUFS", 15.0),))
    assert "no limit that is read here explains it" in title
    assert said(Dropped(UDP, 9, 0, is_full=True)) == []


def _most_kib(monkeypatch: pytest.MonkeyPatch, root: Path, sysctl: str, most: int | None) -> None:
    """A machine with this setting of net.core; None of one that does not show it."""
    limit = root / "proc/sys/net/core" / sysctl
    limit.parent.mkdir(parents=True)
    if most is not None:
        limit.write_text(f"{most << 10}\n")
    monkeypatch.setattr(kernel_numbers, "ROOT", root)


@pytest.mark.parametrize(
    ("most", "bound", "larger"),
    [
        (None, "SO_RCVBUF", "SO_RCVBUF"),
        (104, "twice net.core.rmem_max of 104 KiB, the most that SO_RCVBUF gets",
         "net.core.rmem_max, then SO_RCVBUF"),
        (50, "twice net.core.rmem_max of 50 KiB, the most that SO_RCVBUF gets",
         "net.core.rmem_max, then SO_RCVBUF"),
        (105, "SO_RCVBUF, at most twice net.core.rmem_max of 105 KiB", "SO_RCVBUF"),
        (208, "SO_RCVBUF, at most twice net.core.rmem_max of 208 KiB", "SO_RCVBUF"),
    ],
)  # fmt: skip
def test_a_buffer_at_its_cap_needs_the_sysctl_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None, bound: str, larger: str
) -> None:
    """The kernel doubles what SO_RCVBUF asks for."""
    _most_kib(monkeypatch, tmp_path, "rmem_max", most)
    full = Dropped(UDP, 200, 208 << 10, is_full=True)
    (one,) = limits.findings(look(dropped=(full,)))
    assert one.title.endswith(f": a receive buffer of 208 KiB was full ({bound})")
    assert one.setting == f"a reader that keeps up; a larger {larger}"
    refused = (Refusal("recvmsg", "ENOBUFS", 15.0),)
    (one,) = limits.findings(look(dropped=(replace(full, kind=NETLINK),), refused=refused))
    assert one.title.endswith(f": a receive buffer of 208 KiB was full ({bound})")
    assert one.setting == f"of a netlink socket: a reader that keeps up; a larger {larger}"


@pytest.mark.parametrize(
    ("most", "larger"),
    [(104, "net.core.wmem_max, then SO_SNDBUF"), (105, "SO_SNDBUF"), (None, "SO_SNDBUF")],
)
def test_a_send_buffer_at_its_cap_needs_the_sysctl_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None, larger: str
) -> None:
    _most_kib(monkeypatch, tmp_path, "wmem_max", most)
    sender = sockets.UnixSocket(7, socket.SOCK_DGRAM, 1, "", 8, 0, 0, 208 << 10, 208 << 10)
    facts = Facts(PID, {})
    monkeypatch.setattr(Facts, "unix", [sender])
    monkeypatch.setattr(Facts, "link", lambda *_: "socket:[7]")
    full = call_sockets._receiver(facts, "sendto", (3, 0, 0, 0, 0, 0))
    large = call_sockets._datagram(facts, "sendto", (3, 0, 208 << 10, 0, 0, 0))
    assert full
    assert large
    assert full.setting == f"a receiver that keeps up; a larger {larger}"
    assert large.setting == f"smaller messages; a larger {larger}"


@pytest.mark.needs("recording")
def test_a_read_that_says_so_is_told_apart() -> None:
    times = 7
    with (
        of_netlink() as (reader, send),
        refusals.recording(PID, [threading.get_native_id()]) as seen,
    ):
        assert not seen.why
        for _ in range(times):
            for _ in range(50):
                send()
            with pytest.raises(OSError, match="No buffer space"):
                reader.recv(1000)
            arrived(reader)
        failing = seen.result(1.0)
    assert {(one.call, one.errno): round(one.per_s) for one in failing} == {
        ("recvfrom", "ENOBUFS"): times
    }


def test_a_socket_that_was_closed_meanwhile_is_not_of_another_kind() -> None:
    """As of a server under load."""
    with socket.socket() as closed:
        held = {closed.fileno(): os.readlink(f"/proc/self/fd/{closed.fileno()}")}  # noqa: PTH115
        assert sockets.readings(PID, held).count == 1
    seen = sockets.readings(PID, held)
    assert (seen.count, seen.queues, seen.why) == (0, {}, "")


@pytest.mark.parametrize(
    ("first", "last", "share", "severity"),
    [
        (17, 17, "17 of 16", COSTLY),
        (17, 2, "", None),
        (0, 17, "", None),
        (15, 16, "15 of 16", NOTE),
    ],
)
def test_a_backlog_that_is_full_in_both_readings_is_a_limit_that_nears(
    first: int, last: int, share: str, severity: int | None
) -> None:
    """Connections that nobody accepts: the next ones are dropped, and no call of it fails."""
    quiet = Queue(0, 0, 0, kind="TCP", place=b"\x00\x50" + bytes(16), backlog=(0, 128))

    def reading(waiting: int) -> dict[int, Queue]:
        mine = quiet._replace(place=b"\x1f\x90" + bytes(16), backlog=(waiting, 16))
        return {7: mine, 8: quiet, 9: Queue(5, 5, 5)}

    rooms = tuple(room.backlogs(reading(first), reading(last)))
    found = [one for one in limits.findings(look(rooms=rooms)) if one.name == "limit-nears"]
    assert [one.severity for one in found] == ([] if severity is None else [severity])
    for one in found:
        assert f"{share} (backlog of listen(2) of its socket at port 8080" in one.title
        assert "net.core.somaxconn" in one.setting
    assert list(room.backlogs({}, reading(17))) == [], "it began in the look"
    assert list(room.backlogs({9: Queue(5, 5, 5)}, {9: Queue(5, 5, 5)})) == []


def test_the_backlog_is_read_from_what_the_kernel_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """struct inet_diag_msg: of a listener the queues are counts of connections."""
    address = struct.pack("!HH", 8080, 0) + bytes(44)
    listens = struct.pack("=4B48s5I", 2, 10, 0, 0, address, 0, 17, 16, 0, 7)
    connected = struct.pack("=4B48s5I", 2, 1, 0, 0, address, 0, 4000, 3000, 0, 8)
    answers = [[listens, connected]]
    monkeypatch.setattr(sockets, "_bodies", lambda *_: answers.pop() if answers else [])
    with socket.socket() as unused:
        queues = dict(sockets._listed(unused))
    assert (queues[7].backlog, queues[8].backlog) == ((17, 16), (0, 0))
    (one,) = room.backlogs(queues, queues)
    assert (one.used, one.limit, one.place) == (17, 16, "its socket at port 8080")
