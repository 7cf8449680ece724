"""What most open files of a process are."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

from memlab.diagnose import limits, open_kinds, refused, sockets
from memlab.diagnose.look import _not_listed
from memlab.diagnose.open_kinds import OpenKind
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.room import Room
from memlab.observe import process

from .looks import look

FULL = Room("RLIMIT_NOFILE", 100, 100, "count", "open fails with EMFILE", 10.0)
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout ino"


def kinds(held: dict[int, str], before: dict[int, str] | None = None) -> dict[str, OpenKind]:
    return {one.name: one for one in open_kinds.read(os.getpid(), held, before)}


def test_files_are_named_by_the_deepest_folder_that_has_a_tenth() -> None:
    logs = {n: f"/var/log/app/{n}{' (deleted)' if n < 60 else ''}" for n in range(80)}
    users = {100 + n: f"/home/{n}/a/b" for n in range(15)}
    found = kinds({**logs, **users, 200: "pipe:[8]", 201: "/etc/passwd"})
    assert [*found] == ["files under /var/log/app", "files under /home"]
    assert (found["files under /var/log/app"].count, found["files under /home"].count) == (80, 15)
    assert found["files under /var/log/app"].deleted == 60
    assert kinds({n: f"/{n}/a" for n in range(9)}) == {
        "files under /": OpenKind("files under /", 9, 9)
    }
    assert kinds({}) == {}
    one = kinds(dict.fromkeys(range(90), "/dev/shm/format (deleted)"))
    assert one["files of the path /dev/shm/format"].deleted == 90


def test_memfds_of_one_name_are_not_said_to_be_one_file_or_in_a_folder() -> None:
    """Each call of memfd_create(2) makes a file, whatever its name."""
    equal = dict.fromkeys(range(59), "/memfd:torch (deleted)")
    assert kinds({**equal, 59: "/dev/null"}) == {
        "memfds of the name torch": OpenKind("memfds of the name torch", 59, 60)
    }
    several = {n: f"/memfd:{n} (deleted)" for n in range(20)}
    assert kinds({**several, **{n: f"/srv/{n}" for n in range(50, 70)}}) == {
        "memfds": OpenKind("memfds", 20, 40),
        "files under /srv": OpenKind("files under /srv", 20, 40),
    }
    before = {n: f"/memfd:{n} (deleted)" for n in range(10, 25)}
    assert kinds(several, before)["memfds"].more == 5
    assert (
        kinds({**equal, 59: "/dev/null"}, dict(list(equal.items())[:40]))[
            "memfds of the name torch"
        ].more
        == 19
    )


def test_the_kind_that_grows_is_said() -> None:
    """A number that another file has now is one that came and one that went."""
    before = {n: f"/srv/{n}" for n in range(50)} | {n: f"pipe:[{n}]" for n in range(50, 60)}
    held = before | {n: f"/srv/{n}" for n in range(60, 100)} | {50: "pipe:[777]"}
    found = kinds(held, before)
    assert (found["files under /srv"].more, found["pipes"].more) == (40, 0)
    assert kinds(held)["pipes"].more is None
    words = open_kinds.words(tuple(found.values()))
    assert words == ("90 of 100 are files under /srv, 40 more than when the look began; 10 pipes")
    for seen in (
        look(rooms=(FULL,), open_kinds=tuple(found.values())),
        look(rooms=(FULL,), open_kinds=()),
    ):
        (near,) = limits.findings(seen)
        assert (words in near.title) == bool(seen.open_kinds)


@pytest.mark.parametrize(
    ("count", "of"), [(9_999, "of 9,999 are"), (10_000, "of the 10,000 that were looked at are")]
)
def test_descriptors_beyond_those_that_are_listed_were_not_looked_at(count: int, of: str) -> None:
    held = dict.fromkeys(range(count), "/srv/a")
    words = open_kinds.words(open_kinds.read(os.getpid(), held, None))
    assert words == f"{count:,} {of} one file, /srv/a"
    assert len(list(_not_listed(held))) == (count == process.DESCRIPTORS_READ)


def test_a_refused_descriptor_says_what_the_others_are() -> None:
    seen = look(
        refused=(Refusal("openat", "EMFILE", 9.0),), rooms=(FULL,),
        open_kinds=open_kinds.read(os.getpid(), dict.fromkeys(range(100), "/srv/a"), None),
    )  # fmt: skip
    (found,) = refused.findings(seen)
    assert found.title.endswith("100 of 100 (RLIMIT_NOFILE); 100 of 100 are one file, /srv/a")


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (open_kinds, sockets):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    folder = tmp_path / f"proc/{os.getpid()}/net"
    folder.mkdir(parents=True)
    (folder / "sockstat").write_text("sockets: used 200\n")
    return folder


def row(local: str, peer: str, state: str, inode: int) -> str:
    return f"   0: {local} {peer} {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1 0"


def test_sockets_are_named_by_state_and_by_what_most_share(tables: Path) -> None:
    local, peer = "0100007F", "0500000A:1538"
    rows = [row(f"{local}:{0x8000 + n:04X}", peer, "08", n) for n in range(40)]
    rows += [row(f"{local}:1F90", f"{local}:{0x9000 + n:04X}", "01", n) for n in range(40, 80)]
    (tables / "tcp").write_text("\n".join([HEAD, *rows]))
    wide = "0000000000000000FFFF00000500000A"
    more = [row(f"{wide}:0050", f"{wide}:0050", "07", n) for n in range(80, 100)]
    (tables / "udp6").write_text("\n".join([HEAD, *more]))
    held = {n: f"socket:[{n}]" for n in range(100)}
    found = kinds(held, {n: held[n] for n in range(30)})
    assert [*found] == [
        "TCP in CLOSE_WAIT to 10.0.0.5:5432", "TCP in ESTABLISHED at port 8080", "UDP sockets"
    ]  # fmt: skip
    assert [(one.count, one.more) for one in found.values()] == [(40, 10), (40, 40), (20, 20)]
    assert [*kinds({n: held[n] for n in range(9)})] == ["sockets"], "so few are not looked up"
    (tables / "sockstat").write_text("sockets: used 20001\n")
    assert [*kinds(held)] == ["sockets"]


def test_an_address_is_that_of_the_peer() -> None:
    """The kernel prints each 32 bits in the machine's order of bytes."""

    def printed(family: int, address: str) -> str:
        data = socket.inet_pton(family, address)
        words = struct.unpack(f"={len(data) // 4}I", data)
        return "".join(f"{word:08X}" for word in words)

    assert open_kinds._address(f"{printed(socket.AF_INET, '127.0.0.1')}:0050") == "127.0.0.1:80"
    wide = printed(socket.AF_INET6, "2001:db8::7")
    assert open_kinds._address(f"{wide}:1F90") == "[2001:db8::7]:8080"


def test_connections_of_this_process_are_read() -> None:
    """The other end of each has closed, and this one has not."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        port = listener.getsockname()[1]
        held: dict[int, str] = {}
        for _ in range(20):
            client = socket.create_connection(("127.0.0.1", port))
            accepted = stack.enter_context(listener.accept()[0])
            client.close()
            assert accepted.recv(1) == b""
            held[accepted.fileno()] = str(Path(f"/proc/self/fd/{accepted.fileno()}").readlink())
        found = kinds(held)
    assert found == {f"TCP in CLOSE_WAIT at port {port}": OpenKind(
        f"TCP in CLOSE_WAIT at port {port}", 20, 20)}  # fmt: skip
