"""Causes that the arguments of a failing call tell: each with a call that fails so, and with one
that fails otherwise."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import mmap
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from memlab.diagnose import (
    call_arguments,
    call_causes,
    call_facts,
    call_places,
    call_sockets,
    counters,
    diagnosis,
    kernel_numbers,
    refusals,
    refused,
    sockets,
)
from memlab.diagnose.call_arguments import Called
from memlab.diagnose.call_facts import EarlierFacts, Facts
from memlab.diagnose.finding import NOTE, Finding
from memlab.diagnose.refusals import Refusal
from memlab.observe import files, proc, process, system_calls
from memlab.text import units

from .live import Compiled, running
from .looks import look
from .test_counters import tell

PID = os.getpid()
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.sbrk.restype = ctypes.c_void_p
KiB, MiB = 1 << 10, 1 << 20
TIMES = 7


def explained(act: Callable[[], object]) -> list[Refusal]:
    """What is said of calls of this thread that fail, first in a look and then in the moment after
    it."""

    def again() -> None:
        for _ in range(TIMES):
            act()

    with refusals.recording(PID, [threading.get_native_id()], datagrams=True) as seen:
        assert not seen.why
        again()
        failing = seen.result(1.0)
        of_task = seen.failing
    called = call_arguments.read(
        seen.events, of_task, call_causes.needs_arguments, lambda _: again()
    )
    return list(call_causes.explained(PID, proc.status(PID), failing, called))


@pytest.mark.needs("recording")
def test_calls_that_come_in_bursts_are_waited_for() -> None:
    """However often they fail on average."""
    at, waits = ctypes.c_void_p(unmapped()), list[float]()
    with refusals.recording(PID, [threading.get_native_id()]) as seen:
        for _ in range(TIMES):
            LIBC.msync(at, 4096, 1)
        seen.result(0.001)
    call_arguments.read(seen.events, seen.failing, call_causes.needs_arguments, waits.append)
    assert waits == [call_arguments._BRIEF_S]


@pytest.mark.needs("recording")
def test_a_want_of_one_thread_is_recorded_however_often_others_fail() -> None:
    at, ended, rounds = ctypes.c_void_p(4096), threading.Event(), Counter[int]()

    def fails(often: int) -> None:
        while not ended.wait(0.01):
            for _ in range(often):
                assert LIBC.dup2(0, 1 << 30) == -1
            if not often:
                LIBC.msync(at, 4096, 1)
            rounds[threading.get_native_id()] += 1

    def go_round(_: float) -> None:
        """Until each thread has begun a round and ended it."""
        least = {task: rounds[task] + 2 for task in rounds}
        while any(rounds[task] < least[task] for task in rounds):
            ended.wait(0.01)

    threads = [threading.Thread(target=fails, args=(often,)) for often in (0, 9, 9, 9, 9, 9)]
    for thread in threads:
        thread.start()
    try:
        while len(rounds) < len(threads):
            ended.wait(0.01)
        with refusals.recording(PID, list(rounds)) as seen:
            go_round(0.2)
            seen.result(0.2)
        called = call_arguments.read(
            seen.events, seen.failing, call_causes.needs_arguments, go_round
        )
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert called["msync", "ENOMEM"].arguments
    assert called["dup2", "EBADF"].arguments


def only(act: Callable[[], object]) -> tuple[Refusal, Finding]:
    """The one refusal, and its finding."""
    (one,) = explained(act)
    (said,) = refused.findings(look(refused=(one,)))
    assert one.per_s == pytest.approx(TIMES)
    assert said.kind == f"{one.call} {one.errno}"
    return one, said


def unmapped() -> int:
    at: int = LIBC.mmap(None, MiB, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    LIBC.munmap(ctypes.c_void_p(at), MiB)
    return at


@pytest.mark.needs("recording")
def test_addresses_that_are_not_mapped_are_no_want_of_memory() -> None:
    at = ctypes.c_void_p(unmapped())
    one, said = only(lambda: LIBC.msync(at, 4096, 1))
    assert (one.call, one.errno) == ("msync", "ENOMEM")
    assert "the addresses are not mapped" in said.title
    assert said.severity is NOTE  # a program probes so


@pytest.mark.needs("recording", "queues of System V")
def test_what_a_call_without_a_known_cause_was_called_with_is_said() -> None:
    (one,) = explained(lambda: LIBC.semget(0, 0, 0o1600))  # a new set of no semaphores
    (said,) = refused.findings(look(refused=(one,)))
    assert (one.call, one.errno, one.cause) == ("semget", "EINVAL", "")
    assert said.title.endswith("the cause was not read (a call: key 0, nsems 0, semflg 896)")


def test_arguments_have_the_names_of_their_tracepoint(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened() -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(fields={"syscalls:sys_enter_mmap": {
            "common_type": (0, 2), "__syscall_nr": (8, 4), "addr": (16, 8), "len": (24, 8),
            "fd": (32, 8)}}.__getitem__)  # fmt: skip

    monkeypatch.setattr(call_arguments.tracefs, "opened", opened)
    for value, words in ((2**32 - 100, "-100"), (2**64 - 1, "-1"), ((1 << 20) - 1, "1048575")):
        assert call_arguments._shown(value) == words
    arguments = (0x7F0000000000, 1 << 20, 2**32 - 1, 5)
    assert call_arguments.described("mmap", arguments) == "addr 0x7f0000000000, len 0x100000, fd -1"

    def refused() -> None:
        raise PermissionError

    monkeypatch.setattr(call_arguments.tracefs, "opened", refused)
    assert call_arguments.described("mmap", arguments) == ""


def of(call: str, errno: str, *arguments: int, facts: Facts | None = None) -> str:
    """What is said of one call."""
    facts = facts or Facts(PID, proc.status(PID))
    cause = call_causes._cause(facts, Refusal(call, errno, 3.0), Called([arguments], 1))
    return cause.words if cause else ""


@pytest.mark.parametrize("errno", ["EINVAL", "EOPNOTSUPP", "ENODEV"])
def test_a_device_that_has_no_such_value_is_no_finding(errno: str, tmp_path: Path) -> None:
    """As /sys/class/net/lo/speed; of another file the same is one, and of one that is closed."""
    with Path("/sys/kernel/notes").open("rb") as of_device, (tmp_path / "a").open("wb") as other:
        assert of("read", errno, of_device.fileno(), 0, 4096) == "as ordinary"
        assert of("read", errno, other.fileno(), 0, 4096) == ""
        earlier = EarlierFacts(PID, {})
        assert of("read", errno, of_device.fileno(), 0, 4096, facts=earlier) == ""
    assert of("read", errno, 1 << 20, 0, 4096) == ""
    ordinary = Refusal("read", errno, 50.0, cause="as ordinary", harmless=True)
    assert [*refused.findings(look(refused=(ordinary,)))] == []
    assert [*refused.findings(look(refused=(replace(ordinary, cause=""),)))] != []


@pytest.mark.parametrize("errno", ["ENODEV", "ENXIO"])
def test_what_is_asked_of_a_network_is_no_finding(errno: str) -> None:
    """SIOCGARP, and not what is asked of a device that is gone (TCGETS2)."""
    assert of("ioctl", errno, 14, 0x8954, 0) == "as ordinary"
    assert of("ioctl", errno, 14, 0x802C542A, 0) == ""


@pytest.mark.needs("recording")
def test_the_page_of_a_family_is_named_only_for_a_socket(tmp_path: Path) -> None:
    facts = Facts(PID, {})
    with socket.socket() as client, (tmp_path / "a").open("wb") as file:
        for file_like, is_socket in ((client, True), (file, False)):
            called = Called([(file_like.fileno(), 0, 0)], 1, 1)
            failing = call_causes._explained(facts, Refusal("write", "EINVAL", 3.0), called)
            assert failing.of_socket is is_socket
            (finding,) = refused.findings(look(refused=(failing,)))
            assert ("of a socket" in finding.setting) is is_socket
    for call, is_socket in (("recvmsg", True), ("write", False), ("sendfile", False)):
        (finding,) = refused.findings(look(refused=(Refusal(call, "EINVAL", 3.0),)))
        assert ("of a socket" in finding.setting) is is_socket


@pytest.mark.parametrize("call", ["mlock", "mlock2", "mprotect"])
def test_what_a_limit_may_have_refused_and_is_unmapped_since_is_not_blamed(call: str) -> None:
    """RLIMIT_MEMLOCK and vm.max_map_count say ENOMEM too, and who is refused unmaps."""
    at, facts = unmapped(), Facts(PID, {"CapEff": "0"})
    facts.__dict__["limits"] = "Max locked memory         65536                65536    bytes\n"
    assert "are not mapped" in of("msync", "ENOMEM", at, MiB, 0)
    assert of(call, "ENOMEM", at, MiB, 0, facts=facts) == ""


def test_a_lock_that_no_limit_refuses_is_of_addresses_that_are_not_mapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at, facts = unmapped(), Facts(PID, {"CapEff": "0"})
    facts.__dict__["limits"] = "Max locked memory         unlimited            unlimited    bytes\n"
    said = of("mlock", "ENOMEM", at, MiB, facts=facts)
    assert said.startswith("a part of the 1 MiB that it locks is not mapped: ")
    with mmap.mmap(-1, 8192) as memory:
        start = ctypes.addressof(held := ctypes.c_char.from_buffer(memory))
        later = Facts(PID, {"CapEff": "0"})
        later.__dict__["limits"] = facts.limits
        said = of("mlock", "ENOMEM", start, 8192, facts=later)
        del held
    assert said == ""
    monkeypatch.setattr(call_causes, "sysctl", lambda name: [len(facts.mappings)])
    assert of("mlock", "ENOMEM", at, MiB, facts=facts) == "", "vm.max_map_count says so too"


@pytest.mark.needs("recording")
def test_locked_memory_is_not_given_back() -> None:
    size = 2 * mmap.PAGESIZE
    at = LIBC.mmap(None, size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    try:
        assert LIBC.mlock(ctypes.c_void_p(at), size) == 0
        one, said = only(lambda: LIBC.madvise(ctypes.c_void_p(at), size, mmap.MADV_DONTNEED))
    finally:
        LIBC.munmap(ctypes.c_void_p(at), size)
    assert (one.call, one.errno) == ("madvise", "EINVAL")
    assert f"MADV_DONTNEED of {units.format_size(size)} of locked memory, of which" in said.title


def test_advice_that_fails_otherwise_is_not_blamed_on_a_lock() -> None:
    size = mmap.PAGESIZE
    facts = Facts(PID, {"VmLck": "64 kB"})
    with (
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as private,
        mmap.mmap(-1, size) as shared,
    ):
        at, other = (
            ctypes.addressof(ctypes.c_char.from_buffer(one)) for one in (private, shared)
        )  # fmt: skip
        assert "of locked memory" in of("madvise", "EINVAL", at, size, 4, facts=facts)
        for arguments in ((at + 8, size, 4), (at, 0, 4), (at, size, 14), (at, size, 9),
                          (other, size, 8), (unmapped(), size, 4)):  # fmt: skip
            later = Facts(PID, facts.status)
            assert "locked" not in of("madvise", "EINVAL", *arguments, facts=later)
        assert of("madvise", "EINVAL", at, size, 4, facts=Facts(PID, {"VmLck": "0 kB"})) == ""
        gc.collect()


def test_a_segment_in_huge_pages_needs_a_right_or_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_causes, "sysctl", lambda _: [7])

    def said(flags: int, *, is_contained: bool = False, **status: str) -> str:
        facts = Facts(PID, {"CapEff": "0", "Groups": "", "Gid": "1 1 1 1"} | status)
        facts.__dict__["is_contained"] = is_contained
        return of("shmget", "EPERM", 0, 16 * MiB, flags, facts=facts)

    assert "16 MiB in huge pages (SHM_HUGETLB) is requested, without CAP_IPC_LOCK " in said(0o4600)
    assert "outside of the group vm.hugetlb_shm_group (7)" in said(0o4600)
    assert said(0o600) == ""
    assert said(0o4600, CapEff=f"{1 << 14:x}") == ""
    assert said(0o4600, Groups="3 7 ") == said(0o4600, Gid="1 1 1 7") == ""
    assert said(0o4600, is_contained=True, Groups="7")


def refusal_of(program: subprocess.Popen[str]) -> Refusal:
    """The only failing call, with its cause, of a program that makes it once for each line on its
    standard input and then prints "done"."""

    def repeat(_: float = 0.0) -> None:
        assert program.stdin
        assert program.stdout
        print("go", file=program.stdin, flush=True)
        assert program.stdout.readline() == "done\n"

    with refusals.recording(program.pid, [program.pid]) as recorded:
        repeat()
        failing = recorded.result(1.0)
    called = call_arguments.read(
        recorded.events, recorded.failing, call_causes.needs_arguments, repeat
    )
    status = proc.status(program.pid)
    (refusal,) = call_causes.explained(program.pid, status, failing, called)
    return refusal


@pytest.mark.needs("recording", "a policy against executable memory")
def test_a_policy_that_forbids_to_execute_memory() -> None:
    """prctl(PR_SET_MDWE) of Linux 6.3, in a program of its own: it cannot be undone."""
    code = (
        "import ctypes, mmap, sys; c = ctypes.CDLL(None); m = mmap.mmap(-1, 8192, flags=34)\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(m)); m[0] = 1\n"
        "print('ready' if c.prctl(65, 1, 0, 0, 0) == 0 else 'none', flush=True)\n"
        "for _ in sys.stdin:\n"
        "    for _ in range(7): c.mprotect(ctypes.c_void_p(at), 8192, 5)\n"
        "    print('done', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == "ready\n"
        refusal = refusal_of(program)
        program.stdin.close()
    assert (refusal.call, refusal.errno) == ("mprotect", "EACCES")
    assert refusal.cause.startswith("8 KiB of anonymous memory may not be executed")
    (said,) = refused.findings(look(refused=(refusal,)))
    assert "(PR_SET_MDWE, which MemoryDenyWriteExecute= of a unit sets" in said.title


def test_only_of_memory_without_a_file_the_policy_is_known() -> None:
    private = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    shared = mmap.mmap(-1, 8192)
    at, other = (ctypes.addressof(ctypes.c_char.from_buffer(one)) for one in (private, shared))
    assert "may not be executed" in of("mprotect", "EACCES", at, 8192, 5)
    assert of("mprotect", "EACCES", at, 8192, 3) == of("mprotect", "EACCES", other, 8192, 5) == ""
    assert "may not be executed" in of("mmap", "EACCES", 0, 8192, 7, 0x22, -1 & 0xFFFFFFFF, 0)
    assert of("mmap", "EACCES", 0, 8192, 3, 1, 5, 0) == "", "a file that is open to read"
    assert of("mmap", "EACCES", 0, 8192, 5, 2, 5, 0) == "", "a file on a mount that is noexec"
    gone = of("mprotect", "EACCES", unmapped(), 8192, 5)
    assert gone.startswith("8 KiB of memory that is unmapped by now may not be executed")
    assert gone.endswith("; of a file, a mount that is noexec)")


def test_a_write_that_a_right_or_a_seal_refuses() -> None:
    facts = Facts(PID, {"CapEff": "0"})
    facts.__dict__["is_contained"] = False
    facts.__dict__["link"] = lambda _: f"/proc/{PID}/oom_score_adj"
    said = of("write", "EACCES", 3, 0, 4, facts=facts)
    assert said.startswith("oom_score_adj (now ")
    assert said.endswith("lower than its least value so far, without CAP_SYS_RESOURCE")
    facts.__dict__["link"] = lambda _: "/srv/oom_score_adj"
    assert of("write", "EACCES", 3, 0, 4, facts=facts) == ""
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    assert of("write", "EPERM", fd, 0, 4) == ""
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert "/memfd:sealed (deleted), which is sealed (F_SEAL_WRITE)" in of(
        "write", "EPERM", fd, 0, 4
    )
    os.close(fd)


@pytest.mark.parametrize("call", ["execve", "execveat"])
def test_a_string_that_is_too_long_for_a_new_program(call: str) -> None:
    """To the byte, with the zero at its end."""
    most = 32 * mmap.PAGESIZE
    for length in (most - 1, most):
        try:
            subprocess.run(["true", "x" * length], check=True)
            fits = True
        except OSError:
            fits = False
        short, long = (
            ctypes.create_string_buffer(text) for text in (b"a", b"LIST=" + b"x" * (length - 5))
        )
        strings = (ctypes.c_void_p * 3)(*map(ctypes.addressof, (short, long)), None)
        none = (ctypes.c_void_p * 1)(None)
        at, empty = ctypes.addressof(strings), ctypes.addressof(none)
        first = (0, 0) if call == "execveat" else (0,)
        of_arguments = of(call, "E2BIG", *first, at, empty, 0, 0)
        of_variables = of(call, "E2BIG", *first, empty, at, 0, 0)
        assert (of_arguments == "") is (of_variables == "") is fits
        if not fits:
            assert of_arguments.startswith("an argument has 128 KiB or more")
            assert of_variables.startswith("a variable (LIST) has 128 KiB or more")


def test_a_signal_is_refused_by_the_limit_of_who_is_to_receive_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = Facts(PID, proc.status(PID))
    for queue, words in (
        (
            "100/100",
            "process 1 (init) may have 100 signals queued (its RLIMIT_SIGPENDING), and 100",
        ),
        ("99/100", ""),
        ("", ""),
    ):
        monkeypatch.setattr(
            call_causes.proc, "status", lambda _, queue=queue: {"SigQ": queue, "Name": "init"}
        )
        said = of("rt_sigqueueinfo", "EAGAIN", 1, 34, 0, facts=facts)
        assert said.startswith(words)
        assert bool(said) == bool(words)
        assert of("rt_sigqueueinfo", "EAGAIN", PID, 34, 0, facts=facts) == ""


@pytest.mark.parametrize("count", [253, 254, 300])
def test_more_open_files_than_a_message_may_pass(count: int) -> None:
    sending, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    rights = struct.pack(f"={count}i", *[receiving.fileno()] * count)
    try:
        sending.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        fits = True
    except OSError:
        fits = False
    control = ctypes.create_string_buffer(struct.pack("=Qii", 16 + len(rights), 1, 1) + rights)
    head = ctypes.create_string_buffer(
        struct.pack("=QIxxxxQQQQI4x", 0, 0, 0, 0, ctypes.addressof(control), len(control) - 1, 0)
    )
    said = of("sendmsg", "EINVAL", sending.fileno(), ctypes.addressof(head), 0)
    assert (said == "") is fits is (count <= 253)
    assert fits or said.startswith(
        f"{count} open files are passed in one message, and the kernel allows 253"
    )
    sending.close()
    receiving.close()


def test_ports_that_are_all_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of connections by who is called, of a bind if any port would do."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        client = socket.create_connection(server.getsockname())
        port = client.getsockname()[1]
        monkeypatch.setattr(call_sockets, "sysctl", lambda _: [port, port])

        def said(call: str, errno: str, to: int) -> str:
            raw = (
                struct.pack("=H", socket.AF_INET)
                + struct.pack(">H", to)
                + bytes([127, 0, 0, 1])
                + bytes(8)
            )
            held = ctypes.create_string_buffer(raw)
            return of(call, errno, 3, ctypes.addressof(held), 16)

        words = "1 of the 1 ports that the kernel may choose (net.ipv4.ip_local_port_range: "
        called, another = server.getsockname()[1], other.getsockname()[1]
        assert said("connect", "EADDRNOTAVAIL", called).startswith(words)
        assert said("connect", "EADDRNOTAVAIL", called).endswith(
            f"have TCP sockets to port {called}"
        )
        assert said("connect", "EADDRNOTAVAIL", another).endswith("have TCP sockets")
        assert said("bind", "EADDRINUSE", 0).endswith("have TCP sockets")
        assert said("bind", "EADDRINUSE", 80) == ""
        gone = of("bind", "EADDRINUSE", 3, 0, 16)
        assert gone.endswith("that is the cause if any port would do (0), which was not read")
        monkeypatch.setattr(call_sockets, "sysctl", lambda _: [port, port + 1])
        assert said("connect", "EADDRNOTAVAIL", called) == "", "one is free"
        client.close()


def test_a_range_that_is_mapped_is_not_said_to_be_missing() -> None:
    facts = Facts(PID, proc.status(PID))
    with mmap.mmap(-1, 8192) as memory:
        start = ctypes.addressof(held := ctypes.c_char.from_buffer(memory))
        assert call_causes._unmapped(facts, "msync", (start, 8192)) is None
        del held


def test_only_memory_that_is_resident_is_read() -> None:
    """To read the rest would bring it in."""
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as memory:
        with suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory[mmap.PAGESIZE - 4 : mmap.PAGESIZE] = b"abcd"
        start = ctypes.addressof(held := ctypes.c_char.from_buffer(memory))
        second = start + mmap.PAGESIZE
        facts = Facts(PID, {})
        assert facts.memory(second - 4, 8) == b"abcd"
        assert facts.memory(second, 8) == b""
        assert facts.memory((1 << 64) - 1, 8) == b""
        del held


@contextmanager
def receiver(kind: int, path: Path) -> Iterator[socket.socket]:
    """A socket that takes nothing."""
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.bind(str(path))
        if kind == socket.SOCK_STREAM:
            one.listen(3)
        yield one


@pytest.mark.needs("recording")
def test_a_listener_whose_queue_is_full(tmp_path: Path) -> None:
    waiting: list[socket.socket] = []
    address = ctypes.create_string_buffer(unix_address(str(tmp_path / "a")))

    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.setblocking(False)
            if LIBC.connect(one.fileno(), address, len(address)) == 0:
                waiting.append(one.dup())

    with receiver(socket.SOCK_STREAM, tmp_path / "a"):
        for _ in range(8):  # four fit
            connect()
        _, said = only(connect)
    assert f"4 connections to the Unix socket {tmp_path / 'a'}" in said.title
    assert "its backlog is 3, and net.core.somaxconn" in said.title
    for one in waiting:
        one.close()


def unix_address(path: str) -> bytes:
    return socket.AF_UNIX.to_bytes(2, sys.byteorder) + path.encode()


@pytest.mark.parametrize(
    ("address", "expected"),
    [(unix_address("/run/1"), "/run/1"), (unix_address("/run/2"), ""), (b"", ""),
     (socket.AF_INET.to_bytes(2, sys.byteorder) + b"/run/1", "")],
)  # fmt: skip
def test_a_listener_is_named_only_by_the_address(address: bytes, expected: str) -> None:
    """What connect was called with is behind a pointer, and may have changed."""
    facts = Facts(PID, {})
    full = [
        sockets.UnixSocket(n, 1, 10, name, 0, 4, 3, 0, 0) for n, name in enumerate(("", "/run/1"))
    ]
    facts.__dict__["unix"] = full
    facts.__dict__["memory"] = lambda *_: address
    words = of("connect", "EAGAIN", 3, 4096, 110, facts=facts)
    assert bool(words) == bool(expected)
    assert f"the Unix socket {expected} wait" in words or not expected


@pytest.mark.needs("recording")
@pytest.mark.parametrize("is_connected", [True, False])
def test_a_receiver_whose_queue_is_full(tmp_path: Path, is_connected: bool) -> None:
    path = str(tmp_path / "log")
    with (
        receiver(socket.SOCK_DGRAM, tmp_path / "log"),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one,
    ):
        one.setblocking(False)
        if is_connected:
            one.connect(path)

        def send() -> None:
            with suppress(BlockingIOError):
                one.send(b"x") if is_connected else one.sendto(b"x", path)

        for _ in range(1000):
            send()
        _, said = only(send)
    name = f" {path}" if is_connected else ""  # else it is behind a pointer
    assert f"the queue of the receiver{name} or the send buffer was full: " in said.title
    assert "the buffer is not now, " in said.title
    assert "the kernel does not show the queue (net.unix.max_dgram_qlen, " in said.title


@pytest.mark.needs("recording")
def test_a_send_buffer_that_is_full_is_no_queue_of_a_receiver(tmp_path: Path) -> None:
    with (
        receiver(socket.SOCK_DGRAM, tmp_path / "log"),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one,
    ):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
        one.setblocking(False)
        one.connect(str(tmp_path / "log"))

        def send() -> None:
            with suppress(BlockingIOError):
                one.send(b"x" * 2000)

        for _ in range(8):
            send()
        _, said = only(send)
    assert "the send buffer of its Unix datagram socket is full" in said.title
    assert "SO_SNDBUF" in said.setting


@pytest.mark.needs("recording")
def test_a_stream_that_is_full_is_no_failure() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)

        def send() -> None:
            with suppress(BlockingIOError):
                one.send(b"x" * 65536)

        for _ in range(50):
            send()
        assert explained(send) == []


@pytest.mark.needs("recording")
@pytest.mark.needs("arguments of calls that end")
def test_a_call_that_rarely_fails_is_explained() -> None:
    """What succeeds begins too, and would fill the ring."""
    at = ctypes.c_void_p(unmapped())

    def probe() -> None:
        for _ in range(400):
            LIBC.msync(None, 0, 1)
        LIBC.msync(at, 4096, 1)

    one, _ = only(probe)
    assert "the addresses are not mapped" in one.cause


@pytest.mark.needs("recording")
def test_a_message_that_is_larger_than_the_send_buffer() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        message = bytes(one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))

        def send() -> None:
            with suppress(OSError):
                one.send(message)

        _, said = only(send)
        assert said.kind == "sendto EMSGSIZE"
        assert "a message of" in said.title
        assert said.line == "SO_SNDBUF"

        def datagram() -> None:
            with suppress(OSError):
                udp.sendto(bytes(70_000), ("127.0.0.1", 9))

        assert explained(datagram) == []  # what a path carries is no limit of memory


@pytest.mark.needs("recording", "queues of System V")
def test_a_set_or_a_message_of_system_v_that_is_too_large() -> None:
    most = int(Path("/proc/sys/kernel/sem").read_text().split()[0])
    _, said = only(lambda: LIBC.semget(0, most + 1, 0o600))
    assert f"a set of {most + 1:,} semaphores is requested" in said.title
    assert said.line == "kernel.sem"
    most = int(Path("/proc/sys/kernel/msgmax").read_text())
    message = ctypes.create_string_buffer(b"\1", 16)  # its text is not read
    _, said = only(lambda: LIBC.msgsnd(0, message, ctypes.c_size_t(most + 1), 0))
    assert said.line == "kernel.msgmax"
    assert of("semget", "EINVAL", 0, 1, 0o600) == ""


@pytest.mark.needs("recording", "queues of System V")
def test_an_identifier_of_system_v_that_nothing_has() -> None:
    """A name or a page that does not fit comes with an identifier that is there."""
    number = LIBC.shmget(0, 4096, 0o600)
    LIBC.shmctl(number, 0, None)  # IPC_RMID
    _, said = only(lambda: LIBC.shmat(number, None, 0))
    words = "no shared memory segment of its IPC namespace has the identifier"
    assert f"{words} {number} now" in said.title
    assert said.severity is NOTE
    assert "no set of semaphores of its IPC namespace has" in of("semop", "EINVAL", 1 << 30, 0, 1)
    assert "the identifier -1 now" in of("msgrcv", "EINVAL", 2**64 - 1, 0, 1, 0, 0)
    number = LIBC.msgget(0, 0o600)
    try:
        assert of("msgrcv", "EINVAL", number, 0, 2**64 - 1, 0, 0) == ""
        assert of("msgsnd", "EINVAL", number, 0, 1, 0) == ""
    finally:
        LIBC.msgctl(number, 0, None)
    earlier = EarlierFacts(PID, {})
    assert of("msgrcv", "EINVAL", number, 0, 1, 0, 0, facts=earlier) == ""


@pytest.mark.parametrize(
    ("count", "length", "rights", "words"),
    [
        (20, 1024, "0", "mq_maxmsg 20 is requested, and without CAP_SYS_RESOURCE fs.mqueue.msg"),
        (10, 8193, "0", "mq_msgsize 8,193 is requested, and without CAP_SYS_RESOURCE"),
        (10, 8192, "0", ""),
        (0, 1024, "0", ""),  # an argument that is for nothing
        (20, 1024, "1000000", ""),
        (65_537, 1024, "1000000", "and the kernel allows nobody more than 65,536"),
    ],
)
def test_a_posix_queue_that_is_larger_than_it_may_be(
    monkeypatch: pytest.MonkeyPatch, count: int, length: int, rights: str, words: str
) -> None:
    limits = {"fs/mqueue/msg_max": [10], "fs/mqueue/msgsize_max": [8192]}
    monkeypatch.setattr(call_causes, "sysctl", lambda name, pid: limits[name])
    facts = Facts(PID, {"CapEff": rights})
    facts.__dict__["is_contained"] = False
    asked = (ctypes.c_long * 8)(0, count, length)
    at = ctypes.addressof(asked)
    said = of("mq_open", "EINVAL", 0, os.O_CREAT | os.O_RDWR, 0o600, at, 0, 0, facts=facts)
    assert words in said
    assert bool(said) == bool(words)
    assert of("mq_open", "EINVAL", 0, os.O_RDWR, 0, at, 0, 0, facts=facts) == ""
    cause = call_causes._queue(facts, "mq_open", (0, os.O_CREAT, 0o600, at, 0, 0))
    assert cause is None or ("sysctl" in cause.setting) == (count <= 65_536)


@pytest.mark.needs("recording")
def test_more_open_files_than_the_kernel_allows_anybody() -> None:
    most = int(Path("/proc/sys/fs/nr_open").read_text())

    def raised() -> None:
        with suppress(OSError, ValueError):
            resource.prlimit(0, resource.RLIMIT_NOFILE, (64, most + 1))

    _, said = only(raised)
    assert f"more than fs.nr_open ({most:,}), which is refused to root too" in said.title


def test_a_hard_limit_is_raised_only_with_a_right() -> None:
    arguments = 0, resource.RLIMIT_FSIZE, 0, 0
    status = dict(proc.status(PID)) | {"CapEff": "0"}
    facts = Facts(PID, status)
    facts.__dict__["limits"] = "Max file size             4096                 8192         bytes"
    cause = call_causes._limit_raised(facts, "prlimit64", arguments)
    assert cause is not None
    assert "above the present one (8,192) without CAP_SYS_RESOURCE" in cause.words
    other = call_causes._limit_raised(facts, "prlimit64", (1, *arguments[1:]))
    assert other is None
    able = Facts(PID, status | {"CapEff": f"{1 << 24:x}"})
    able.__dict__.update(limits=facts.limits, is_contained=False)
    assert call_causes._limit_raised(able, "prlimit64", arguments) is None


@pytest.mark.parametrize(
    ("space", "words"),
    [("user:[4026531837]", ""),
     ("user:[4026532009]", "without CAP_SYS_RESOURCE of the first user namespace")],
)  # fmt: skip
def test_root_of_another_user_namespace_has_no_right_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: str, words: str
) -> None:
    """do_prlimit() asks the first one."""
    folder = tmp_path / f"proc/{PID}/ns"
    folder.mkdir(parents=True)
    (folder / "user").symlink_to(space)
    limits = "Max file size             4096                 8192         bytes"
    (folder.parent / "limits").write_text(limits)
    for module in (call_facts, kernel_numbers):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    facts = Facts(PID, {"CapEff": "1ffffffffff"})
    said = of("prlimit64", "EPERM", 0, resource.RLIMIT_FSIZE, 0, 0, facts=facts)
    assert said.endswith(words)
    assert bool(said) == bool(words)


def test_a_pipe_may_not_be_larger_than_the_kernel_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below that, and without a right, all pipes of the user have a limit together."""
    most, pages = 1 << 20, 16384
    limits = {"fs/pipe-max-size": [most], "fs/pipe-user-pages-soft": [pages]}
    limits["fs/pipe-user-pages-hard"] = [0]
    monkeypatch.setattr(call_causes, "sysctl", limits.__getitem__)
    ordinary = Facts(PID, {"CapEff": "0"})
    allowed = units.format_quantity(pages * mmap.PAGESIZE, "B")
    for wanted, words in (
        (most + 1, "and fs.pipe-max-size allows 1 MiB"),
        (most, f"all pipes of a user may have {allowed} (fs.pipe-user-pages-soft)"),
    ):
        cause = call_causes._pipe_size(ordinary, "fcntl", (3, 1031, wanted))
        assert cause
        assert words in cause.words
    assert call_causes._pipe_size(ordinary, "fcntl", (3, 1033, most + 1)) is None
    limits["fs/pipe-user-pages-hard"] = [pages // 2]
    cause = call_causes._pipe_size(ordinary, "fcntl", (3, 1031, most))
    assert cause
    assert "(fs.pipe-user-pages-hard)" in cause.words
    limits["fs/pipe-user-pages-soft"] = limits["fs/pipe-user-pages-hard"] = [0]
    assert call_causes._pipe_size(ordinary, "fcntl", (3, 1031, most)) is None
    root = Facts(PID, {"CapEff": f"{1 << 24:x}"})
    root.__dict__["is_contained"] = False
    assert call_causes._pipe_size(root, "fcntl", (3, 1031, most + 1)) is None


@pytest.mark.needs("recording")
def test_a_heap_that_cannot_grow_says_what_is_behind_it() -> None:
    """The kernel returns the old end, and no errno."""
    number, fixed = system_calls.NUMBERS["brk"], 0x100000  # MAP_FIXED_NOREPLACE
    at = -(-LIBC.sbrk(0) // MiB) * MiB + 16 * MiB
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | fixed
    assert LIBC.mmap(ctypes.c_void_p(at), MiB, 0, flags, -1, 0) == at

    def grow() -> None:
        wanted = at + 16 * MiB
        assert LIBC.syscall(number, ctypes.c_void_p(wanted)) != wanted

    try:
        one, said = only(grow)
    finally:
        LIBC.munmap(ctypes.c_void_p(at), MiB)
    assert (one.call, one.errno) == ("brk", "ENOMEM")
    assert 16 * MiB < one.asked_bytes < 48 * MiB
    behind = r"a mapping lies in the way: anonymous, 1[5-7][.0-9]* MiB behind the heap"
    assert re.search(rf"{behind}, which is to grow by 3[1-3][.0-9]* MiB", said.title)


@pytest.mark.needs("recording")
def test_a_heap_over_its_limit_is_refused_by_that() -> None:
    script = (
        "import ctypes, resource; libc = ctypes.CDLL(None); libc.sbrk.restype = ctypes.c_void_p\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))\n"
        "print('ready', flush=True); input()\n"
        "for _ in range(23): libc.sbrk(512 << 20)\n"
        "print('ready', flush=True); input()\n"
    )
    with (
        running(sys.executable, "-c", script) as program,
        refusals.recording(program.pid, [program.pid]) as seen,
    ):
        tell(program, "\n")
        (one,) = (one for one in seen.result(1.0) if one.call == "brk")
        facts = Facts(program.pid, proc.status(program.pid))
        (heap,) = (m for m in facts.mappings if m.path == "[heap]")
        cause = call_causes._heap_end(facts, "brk", (heap.end + (512 << 20),))
    assert one.per_s == pytest.approx(23)
    assert cause is not None
    assert cause.words.endswith("256 MiB may be (RLIMIT_DATA)")


@pytest.mark.parametrize(
    ("locked", "grows", "capable", "named"),
    [(5, 4, False, True), (5, 2, False, False), (0, 9, False, False), (5, 4, True, False)],
)
def test_a_heap_that_grows_counts_against_the_locked_limit(
    monkeypatch: pytest.MonkeyPatch, locked: int, grows: int, *, capable: bool, named: bool
) -> None:
    """After mlockall(MCL_FUTURE), as an ordinary user."""
    monkeypatch.setattr(Facts, "limit", lambda _, number, **__: 8 * MiB if number == 8 else None)
    monkeypatch.setattr(Facts, "is_capable", lambda _, *__: capable)
    heap = process.Mapping(64 * MiB, 65 * MiB, "rw-p", "[heap]")
    monkeypatch.setattr(Facts, "mappings", [heap])
    facts = Facts(os.getpid(), {"VmLck": f"{locked << 10} kB"})
    cause = call_causes._heap_end(facts, "brk", (heap.end + grows * MiB,))
    assert (cause is not None and cause.line == "RLIMIT_MEMLOCK") == named
    if cause and named:
        assert cause.words.startswith("the heap is to grow by 4 MiB, 5 MiB of 8 MiB are locked")


@pytest.mark.needs("recording")
def test_what_says_no_space_is_named() -> None:
    with open("/dev/full", "wb", buffering=0) as full:

        def write() -> None:
            with suppress(OSError):
                full.write(b"x")

        _, said = only(write)
    assert "/dev/full, which is always full" in said.title


@pytest.mark.needs("root", "a mount namespace")
def test_the_file_system_of_the_call_is_the_cause_and_no_other_one(tmp_path: Path) -> None:
    """Another tmpfs is full too; a link is not followed."""
    script = (
        "import os, subprocess, sys, ctypes, struct\n"
        "from memlab.diagnose import call_places\n"
        "def mount(at, options):\n"
        "    os.makedirs(at); subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'x', at])\n"
        "os.chdir(sys.argv[1])\n"
        "mount('few', 'nr_inodes=3,size=1m'); mount('small', 'size=64k')\n"
        "open('few/a', 'w').close(); open('few/b', 'w').close()\n"
        "file = open('small/a', 'wb', buffering=0); os.symlink('few', 'link')\n"
        "try: file.write(b'x' * 100_000)\n"
        "except OSError: pass\n"
        "path = ctypes.create_string_buffer(4096); known = call_places.mounts(os.getpid())\n"
        "memory = lambda at, count: path.raw\n"
        "def of(text):\n"
        "    path.value = text; here = 2 ** 32 - 100\n"
        "    print(call_places.of_call(os.getpid(), 'openat', (here, 0, 0), memory, known))\n"
        "print(call_places.of_call(os.getpid(), 'write', (file.fileno(), 0, 1), memory, known))\n"
        "of(b'few/c'); of(os.getcwd().encode() + b'/small/b'); of(b'c'); of(b'link/c')\n"
    )
    words = ["unshare", "-m", sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    written, few, small, here, link = done.stdout.splitlines()
    assert f"64 KiB of 64 KiB (the file system {tmp_path}/small (tmpfs))" in written
    assert f"3 of 3 inodes are used of the file system {tmp_path}/few (tmpfs)" in few
    assert "64 KiB of 64 KiB" in small
    assert here == link == "None"


def mounted(fd: int, filesystem: str) -> dict[int, proc.Mount]:
    """The mounts of this process, of which that of a descriptor is of this kind."""
    text = Path(f"/proc/self/fdinfo/{fd}").read_text()
    (number,) = (int(line.split()[1]) for line in text.splitlines() if line.startswith("mnt_id:"))
    known = dict(call_places.mounts(PID))
    its = known.get(number) or next(iter(known.values()))  # a chroot's own mount is not listed
    return known | {number: replace(its, filesystem=filesystem)}


@pytest.mark.parametrize(
    ("cpus", "mems", "words"),
    [("", "", "cpuset.cpus and cpuset.mems are empty"), ("0", "", "cpuset.mems is empty"),
     ("0", "0", "a file of the kernel (cgroup), which is on no disk")],
)  # fmt: skip
def test_a_cpuset_without_nodes_takes_no_process(
    tmp_path: Path, cpus: str, mems: str, words: str
) -> None:
    (tmp_path / "cpuset.cpus").write_text(f"{cpus}\n")
    (tmp_path / "cpuset.mems").write_text(f"{mems}\n")
    with (tmp_path / "cgroup.procs").open("w") as file:
        number = file.fileno()
        told = call_places.of_call(
            PID, "write", (number, 0, 1), lambda *_: b"", mounted(number, "cgroup")
        )
    assert told is not None
    assert told[0].startswith(f"descriptor {number} is now ")
    assert told[0].endswith(words)


def test_a_folder_that_is_no_cgroup_is_not_read_as_one(tmp_path: Path) -> None:
    """A process may have made a FIFO there, which waits, or a link to a file without an end."""
    os.mkfifo(tmp_path / "cpuset.cpus")
    (tmp_path / "cpuset.mems").symlink_to("/dev/zero")
    group = call_places.mounts(PID)[min(call_places.mounts(PID))]
    path = str(tmp_path / "cgroup.procs")
    told = call_places._of_group(PID, 3, path, group, call_places.mounts(PID))
    assert "empty" not in told[0]
    folder = os.open(tmp_path, os.O_PATH)
    assert not call_places._is_empty(folder, "cpuset.cpus")
    assert not call_places._is_empty(folder, "cpuset.mems")
    os.close(folder)


def test_a_descriptor_that_becomes_another_file_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of a local file as its mount is read, and of a remote one at the next look."""
    number = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    remote = os.open("/proc/self/status", os.O_RDONLY)
    known = mounted(remote, "fuse.sshfs")
    text, stated = files.text, os.fstatvfs

    def meanwhile(path: Path) -> str | None:
        result = text(path)
        if str(path) == f"/proc/{PID}/fdinfo/{number}":
            os.dup2(remote, number)
        return result

    def local(fd: int) -> os.statvfs_result:
        assert "/proc/" not in os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        return stated(fd)

    monkeypatch.setattr(files, "text", meanwhile)
    for name in ("fstat", "fstatvfs", "statvfs"):
        monkeypatch.setattr(os, name, local)
    asked = call_places.of_call(PID, "write", (number, 0, 1 << 62), lambda *_: b"", known)
    monkeypatch.undo()
    assert os.readlink(f"/proc/self/fd/{number}").startswith("/proc/")  # noqa: PTH115
    assert asked is None
    os.close(number)
    os.close(remote)


@pytest.mark.parametrize(
    ("blocks", "left", "inodes", "wanted", "creates", "words"),
    [
        (1 << 20, 0, 9, 1, False, "4 GiB of 4 GiB (the file system /m (x))"),
        (1 << 20, 1 << 12, 9, 0, False, ""),  # under a hundredth of it, 16 MiB
        (1 << 20, 1, 9, 1 << 20, False, "1 MiB are written at once, and"),
        (1 << 20, 1, 9, 1, False, ""),  # the number may be of another file by now
        (1 << 20, 9, 0, 0, True, "9 of 9 inodes are used"),
        (1 << 20, 9, 0, 0, False, ""),  # to write takes no inode
        (0, 0, 9, 1, False, ""),  # of hugetlbfs: the pool has its own bound
    ],
)
def test_a_file_system_is_the_cause_only_if_it_is_full(
    blocks: int, left: int, inodes: int, wanted: int, creates: bool, words: str
) -> None:
    mount = proc.Mount(1, "/", "/m", frozenset(), "x", "x", frozenset())
    about = os.statvfs_result((4096, 4096, blocks, left, left, 9, inodes, inodes, 0, 255))
    told = call_places._of_mount(mount, about, wanted, creates=creates)
    assert (told is not None) == bool(words)
    assert told is None or told[0].startswith(words)


def test_mounts_are_read_once_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"proc/{PID}").mkdir(parents=True)
    line = "30 20 0:40 / /huge rw - tmpfs x rw\n"
    monkeypatch.setattr(call_places, "ROOT", tmp_path)
    facts = Facts(PID, {})
    for count, expected in ((1, [30]), (20_001, [])):
        (tmp_path / f"proc/{PID}/mountinfo").write_text(line * count)
        assert list(call_places.mounts(PID)) == expected
        assert list(facts.mounts) == [30]


@pytest.mark.needs("recording")
def test_a_filter_of_system_calls_is_seen_because_nothing_begins(binary: Compiled) -> None:
    with (
        running(binary("refused_calls")) as program,
        refusals.recording(program.pid, [program.pid]) as seen,
    ):
        tell(program, "u")
        failing = seen.result(1.0)
        called = call_arguments.read(
            seen.events, seen.failing, lambda *_: True, lambda _: tell(program, "u")
        )
        filters = call_causes.filtered(program.pid, [program.pid])
        (one,) = call_causes.explained(program.pid, {}, failing, called, filters=filters)
        (other,) = call_causes.explained(program.pid, {}, failing, called)
    assert one.cause == "a filter of system calls refuses it (seccomp), not a limit"
    assert other.cause == ""


def test_a_call_that_begins_is_not_filtered() -> None:
    assert {*Called(by_task={7: [5, 0]}).unbegun} == {7}
    assert not Called(by_task={7: [5, 5]}).unbegun
    assert not Called(by_task={7: [5, 0], 8: [1, 5]}).unbegun
    assert not Called(by_task={7: [1, 0]}).unbegun  # it began before the record did


def test_it_is_said_whose_a_filter_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that each thread has, nothing; with a tracer it may be either."""
    monkeypatch.setattr(call_causes, "tracer_of", lambda _: "")
    filters = {7: "thread 7 (db)", 8: "thread 8 (io)"}
    for tasks, whose in (((7,), "thread 7 (db)"), ((7, 8), "thread 7 (db) and thread 8 (io)")):
        called = Called(by_task={task: [5, 0] for task in tasks})
        one = call_causes.of_filter(Refusal("mbind", "EPERM", 3.0), called, filters)
        assert one
        assert one.cause == (
            f"a filter of system calls of {whose} refuses it (seccomp), not a limit"
        )
    for tasks in ((), (7, 6)):  # 6 has none
        called = Called(by_task={task: [5, 0] for task in tasks})
        assert not call_causes.of_filter(Refusal("mbind", "EPERM", 3.0), called, filters)
    monkeypatch.setattr(call_causes, "tracer_of", lambda _: "gdb (9)")
    one = call_causes.of_filter(Refusal("mbind", "EPERM", 3.0), Called(by_task={7: [5, 0]}), {})
    assert one
    assert one.cause == (
        "gdb (9), which traces it, or a filter (seccomp) refuses it before it begins"
    )


@pytest.mark.parametrize(
    ("option", "line"),
    [((0, 35), "net.ipv4.igmp_max_memberships"), ((1, 26), "net.core.optmem_max"), ((1, 7), "")],
)
def test_the_option_of_a_socket_tells_its_limit(option: tuple[int, int], line: str) -> None:
    cause = call_sockets._option(Facts(PID, {}), "setsockopt", (3, *option, 0, 8))
    assert (cause.line if cause else "") == line


@pytest.mark.parametrize("is_capable", [True, False])
def test_a_send_without_a_copy_pins_what_it_sends(is_capable: bool) -> None:
    facts = Facts(PID, {"CapEff": f"{is_capable << 14:x}"})
    facts.__dict__["is_contained"] = False
    facts.__dict__["limits"] = "Max locked memory         65536                65536        bytes"
    sent = (3, 0, 256 * KiB, 0x4000000, 0, 0)
    cause = call_sockets._zero_copy(facts, "sendto", sent)
    if is_capable:
        assert cause is None
        return
    assert cause is not None
    assert "256 KiB is to be pinned, and RLIMIT_MEMLOCK is 64 KiB" in cause.words
    little = call_sockets._zero_copy(facts, "sendto", (3, 0, KiB, 0x4000000, 0, 0))
    assert little is not None
    assert little.words.endswith("was not read")
    assert call_sockets._zero_copy(facts, "sendto", (3, 0, 256 * KiB, 0, 0, 0)) is None


@pytest.mark.parametrize(
    ("read", "file", "value", "words"),
    [
        (call_causes._ring, "io_uring_disabled", "2", "allowed to nobody"),
        (call_causes._ring, "io_uring_disabled", "1", "allowed to CAP_SYS_ADMIN and"),
        (call_causes._ring, "io_uring_disabled", "0", ""),
        (call_causes._bpf, "unprivileged_bpf_disabled", "2", "it has no CAP_BPF"),
        (call_causes._bpf, "unprivileged_bpf_disabled", "0", ""),
    ],
)
def test_a_policy_of_the_machine_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: call_causes.Reader, file: str,
    value: str, words: str,
) -> None:  # fmt: skip
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel" / file).write_text(value)
    monkeypatch.setattr(kernel_numbers, "ROOT", tmp_path)
    cause = read(Facts(PID, {"CapEff": "0"}), "", (0, 0))
    assert bool(cause) == bool(words)
    assert cause is None or words in cause.words


def test_only_a_file_in_memory_is_opened_for_its_seals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To close a file of a server waits for it."""
    memory = os.memfd_create("m", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(memory, 1033, 0x8)  # F_ADD_SEALS, F_SEAL_WRITE
    other = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    opened, open_ = [], os.open

    def listed(path: Path, how: int) -> int:
        opened.append(str(path))
        return open_(path, how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", listed)
        patch.setattr(process, "take_descriptor", lambda *_: pytest.fail("closed after it"))
        for number, at in ((memory, f"/proc/{PID}/fd/{memory}"), (other, None)):
            opened.clear()
            words = of("mmap", "EPERM", 0, 4096, 3, mmap.MAP_SHARED, number, 0)
            assert (at in opened) == (at is not None)
            assert f"/proc/{PID}/fd/{other}" not in opened
            said = f"descriptor {number} is now /memfd:m (deleted), which is sealed"
            assert (said in words) == (at is not None)
    os.close(memory)
    os.close(other)


KERNEL, NO_KERNEL = (bits.to_bytes(8, sys.byteorder) for bits in (0, 1 << 5 | 1 << 58))


@pytest.mark.parametrize(
    ("value", "whose", "flags", "words"),
    [
        ("2", "0", KERNEL, "an event of the kernel is requested, kernel.perf_event_paranoid is 2"),
        ("2", "own", KERNEL, "an event of the kernel"),
        ("2", "0", NO_KERNEL, ""),  # ptrace(2) refuses it, if anything
        ("2", "1", KERNEL, ""),
        ("2", "0", b"", ""),
        ("1", "0", KERNEL, ""),
        ("1", "-1", b"", "an event of all processes"),
        ("0", "-1", b"", ""),
    ],
)
def test_an_event_is_refused_by_the_sysctl_only_if_it_is_of_the_kernel_or_of_all(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    whose: str,
    flags: bytes,
    words: str,
) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/perf_event_paranoid").write_text(value)
    monkeypatch.setattr(kernel_numbers, "ROOT", tmp_path)
    facts = Facts(PID, {"CapEff": "0"})
    pid = PID if whose == "own" else int(whose)
    facts.__dict__["memory"] = lambda at, count: flags if (at, count) == (4136, 8) else b""
    said = of("perf_event_open", "EACCES", 4096, pid % (1 << 64), 0, 0, 0, facts=facts)
    assert said.startswith(words)
    assert bool(said) == bool(words)
    assert of("perf_event_open", "EPERM", 4096, pid % (1 << 64), 0, 0, 0, facts=facts) == ""


def test_a_size_of_huge_pages_without_a_pool_is_not_why_memory_is_refused() -> None:
    """It is refused with EINVAL."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000 | 13 << 26
    assert "pool" not in of("mmap", "ENOMEM", 0, 1 << 60, 3, flags, 0, 0)


def test_of_very_many_sockets_none_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"proc/{PID}/net").mkdir(parents=True)
    (tmp_path / f"proc/{PID}/net/sockstat").write_text("sockets: used 20001\n")
    monkeypatch.setattr(sockets, "ROOT", tmp_path)
    with socket.socket(socket.AF_UNIX):
        assert sockets.unix(PID) == []


def test_calls_without_known_numbers_are_said_to_be_not_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system_calls, "NUMBERS", {})
    with refusals.recording(PID, [PID]) as seen:
        assert seen.why == "the numbers of system calls are not known on this architecture"
        assert seen.result(1.0) == []


@pytest.mark.parametrize(("form", "size", "is_narrow"), [("=II", 32, True), ("=QQ", 56, False)])
def test_a_32_bit_program_is_known_by_its_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int, is_narrow: bool
) -> None:
    pairs = ((33, 0x7F00_0000), (3, 0x40), (4, size), (5, 9), (0, 0))
    (tmp_path / f"proc/{PID}").mkdir(parents=True)
    (tmp_path / f"proc/{PID}/auxv").write_bytes(
        b"".join(struct.pack(form, *pair) for pair in pairs)
    )
    monkeypatch.setattr(refusals, "ROOT", tmp_path)
    with refusals.recording(PID, []) as seen:
        assert seen.is_narrow == is_narrow


@pytest.mark.seconds
@pytest.mark.needs("recording")
def test_calls_of_a_32_bit_program_are_not_looked_at(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel counts none of them by name."""
    monkeypatch.setattr(refusals, "is_narrow", lambda pid: True)
    with running(binary("steady"), "1") as program:
        seen = diagnosis.of(program.pid, 0.1)
    (said,) = (one for one in seen.not_looked_at if one.reason == refusals.NARROW)
    assert said.name.startswith("madvise, ")
    assert not seen.whole
    with counters.counting(PID) as counted:
        of_calls = {one.name for one in counters.EVENTS if "syscalls:sys_" in str(one.tracepoint)}
        by_name = {name for name, why in counted.unseen.items() if why == refusals.NARROW}
    by_errno = {"enomem", "emfile", "enospc", "other_errnos", "unusual_errnos", "failing_calls"}
    assert by_name == of_calls - by_errno


def test_errors_of_reading_are_no_cause() -> None:
    gone = Facts(1 << 30, {})
    assert gone.memory(4096, 8) == b""
    assert gone.link(3) == ""
    called = {("write", "ENOSPC"): Called([(3, 0, 1, 0, 0, 0)], 1)}
    (one,) = call_causes.explained(1 << 30, {}, [Refusal("write", "ENOSPC", 3.0)], called)
    assert one.cause == ""


def test_a_path_of_a_thread_with_a_folder_of_its_own_is_not_read(tmp_path: Path) -> None:
    begun, done = threading.Event(), threading.Event()
    task: list[int] = []

    def enter(is_own: bool) -> None:
        if is_own:
            assert LIBC.unshare(0x200) == 0  # CLONE_FS
            assert LIBC.chdir(os.fsencode(tmp_path)) == 0
        task[:] = [threading.get_native_id()]
        begun.set()
        done.wait()

    for is_own in (False, True):
        begun.clear()
        done.clear()
        thread = threading.Thread(target=enter, args=(is_own,))
        thread.start()
        begun.wait()
        assert call_causes._has_its_folders(PID, task) != is_own
        done.set()
        thread.join()
    while Path(f"/proc/{PID}/task/{task[0]}").exists():  # the kernel's thread ends after join()
        time.sleep(0.001)
    assert call_causes._has_its_folders(PID, task)
