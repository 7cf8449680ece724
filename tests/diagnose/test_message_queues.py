"""Messages that nobody has received, to the byte, and the limits on them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import needs
import pytest

from memlab.diagnose import (
    call_limits,
    inside,
    machine,
    message_queues,
    mqueue_files,
    refusals,
    stock,
)
from memlab.diagnose.held import accounts, findings
from memlab.diagnose.kernel_held import KernelHeld
from memlab.diagnose.message_queues import Messages
from memlab.diagnose.refusals import Refusal
from memlab.observe import namespaces, proc, process

from .live import running
from .looks import MiB, charge, look
from .test_refused import said
from .test_when import _of_group

PID = os.getpid()
LIBC = ctypes.CDLL(None, use_errno=True)
NO_WAIT, REMOVE = 0o4000, 0


@contextmanager
def system_v(messages: int, size: int) -> Iterator[int]:
    """A queue of System V with so many messages."""
    needs.of("queues of System V")
    number = LIBC.msgget(0, 0o1600)
    assert number >= 0, os.strerror(ctypes.get_errno())
    try:
        text = ctypes.create_string_buffer(8 + size)
        text[0] = b"\1"
        for _ in range(messages):
            assert LIBC.msgsnd(number, text, size, NO_WAIT) == 0
        yield number
    finally:
        LIBC.msgctl(number, REMOVE, None)


@contextmanager
def posix(messages: int, size: int, most: int) -> Iterator[int]:
    """A POSIX queue that no name leads to, with so many messages."""
    attributes = (ctypes.c_long * 8)(0, most, size)
    name = b"/memlab-%d" % PID
    needs.of("POSIX queues")
    fd = LIBC.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600, attributes)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    try:
        LIBC.mq_unlink(name)
        for _ in range(messages):
            assert LIBC.mq_send(fd, b"x" * size, size, 1) == 0
        yield fd
    finally:
        os.close(fd)


def links(*numbers: int) -> dict[int, str]:
    every = process.descriptors(PID)
    return {number: every[number] for number in numbers}


@pytest.mark.parametrize("count", [3, 6])
def test_messages_are_those_of_the_process_that_used_the_queue_last(count: int) -> None:
    with system_v(count, 1000), system_v(1, 500), system_v(0, 0):
        text = count * 1000 + 500
        assert message_queues.read(PID, {}) == Messages(2, text, text)
        assert message_queues.read(os.getppid(), {}) == Messages()
        assert message_queues.sent_by([PID, os.getppid()]) == text
        assert message_queues.sent_by([os.getppid()]) == 0


@pytest.mark.parametrize("count", [2, 4])
def test_messages_of_a_posix_queue_are_counted_once_for_two_descriptors(count: int) -> None:
    with posix(count, 700, 4) as fd:
        other = os.dup(fd)
        held = links(fd, other) | {0: "/dev/null", 1: "/nowhere"}
        assert message_queues.read(PID, held) == Messages(1, count * 700, 0)
        assert [room[1:] for room in message_queues.posix_rooms(PID, links(fd))] == [(count, 4)]
        os.close(other)


TEXT = "QSIZE:16000000000  NOTIFY:0     SIGNO:0     NOTIFY_PID:0".ljust(79) + "\n"


def in_namespaces(script: str) -> str:
    """What a script prints in a mount and an IPC namespace of its own."""
    words = ["unshare", "-m", "-i", sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.needs("root", "a mount namespace")
def test_a_file_that_says_what_a_queue_says_is_none() -> None:
    """Its mount was detached: its name has no folder, as that of a queue."""
    script = (
        "import ctypes, os, subprocess\n"
        "subprocess.run(['mount', '-t', 'tmpfs', 'x', '/mnt'], check=True)\n"
        f"open('/mnt/note', 'w').write({TEXT!r}); file = open('/mnt/note')\n"
        "subprocess.run(['umount', '-l', '/mnt'], check=True)\n"
        "libc = ctypes.CDLL(None); attributes = (ctypes.c_long * 8)(0, 4, 700)\n"
        "fd = libc.mq_open(b'/left', 0o102, 0o600, attributes)\n"
        "libc.mq_send(fd, b'x' * 700, 700, 1); libc.mq_unlink(b'/left')\n"
        "links = {one: os.readlink(f'/proc/self/fd/{one}') for one in (file.fileno(), fd)}\n"
        "print(*links.values(), read(os.getpid(), links).bytes)\n"
        "print([room[0] for room in posix_rooms(os.getpid(), links)])\n"
    )
    imports = "from memlab.diagnose.message_queues import posix_rooms, read\n"
    assert in_namespaces(imports + script) == "/note /left (deleted) 700\n['/left (deleted)']\n"


def test_no_file_of_a_mount_that_the_process_sees_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be remote, and wait for a server."""
    (tmp_path / "note").write_text(TEXT)
    with (tmp_path / "note").open() as file:
        fd = file.fileno()
        text = Path(f"/proc/self/fdinfo/{fd}").read_text()
        (mount,) = (int(line.split()[1]) for line in text.splitlines() if "mnt_id" in line)
        device = os.fstat(fd).st_dev
        expected = f"{os.major(device)}:{os.minor(device)}"
        assert mqueue_files._device(PID, fd, set()) == expected
        assert mqueue_files._device(PID, fd, {mount}) == ""
        # In a chroot the mount of its root is not in the list.
        mounts = process.mounts(PID)
        listed = [*mounts, replace(mounts[0], mount_id=mount, filesystem="ext4")]
        monkeypatch.setattr(process, "mounts", lambda *_: listed)
        assert message_queues.read(PID, {fd: "/note"}) == Messages()


@pytest.mark.needs("root")
def test_a_queue_of_another_ipc_namespace_is_read_inside_it() -> None:
    """As in a container; the limits of that namespace are its own."""
    script = (
        "import ctypes, pathlib, time; libc = ctypes.CDLL(None); queue = libc.msgget(0, 0o1600)\n"
        "pathlib.Path('/proc/sys/kernel/msgmni').write_text('7')\n"
        "assert libc.msgsnd(queue, ctypes.create_string_buffer(b'\\1', 2008), 2000, 0) == 0\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    with running("unshare", "-i", sys.executable, "-c", script) as program:
        assert not namespaces.is_shared(program.pid, "ipc")
        assert message_queues.read(program.pid, {}) == Messages(1, 2000, 2000)
        rooms = call_limits.read(program.pid, proc.status(program.pid), {"queues"})
        assert [(room.name, room.used, room.limit) for room in rooms] == [("kernel.msgmni", 1, 7)]


def test_the_bound_of_the_fullest_queue_is_read() -> None:
    usual = int(Path("/proc/sys/kernel/msgmnb").read_text())

    def rooms() -> list[tuple[str, float, float]]:
        read = call_limits.read(PID, proc.status(PID), {"messages"})
        return [(room.name, room.used, room.limit) for room in read]

    assert rooms() == []
    with system_v(2, 1000) as number, system_v(1, 1000):
        assert rooms() == [("kernel.msgmnb, of a queue", 2000, usual)]
        status = ctypes.create_string_buffer(256)
        assert LIBC.msgctl(number, 2, status) == 0
        ctypes.c_ulong.from_buffer(status, 88).value = 2500
        assert LIBC.msgctl(number, 1, status) == 0
        assert rooms() == [("msg_qbytes of a queue", 2000, 2500)]


@pytest.mark.needs("recording")
def test_a_full_queue_is_the_cause_of_the_failing_call() -> None:
    full, times = int(Path("/proc/sys/kernel/msgmnb").read_text()), 23
    text = ctypes.create_string_buffer(b"\1", 4008)
    with (
        system_v(full // 4000, 4000) as number,
        refusals.recording(PID, [threading.get_native_id()]) as seen,
    ):
        assert not seen.why
        for _ in range(times):
            assert LIBC.msgsnd(number, text, 4000, NO_WAIT) < 0
        failing = seen.result(1.0)
        rooms = call_limits.of(PID, proc.status(PID), failing)
    assert {(one.call, one.errno): round(one.per_s) for one in failing} == {
        ("msgsnd", "EAGAIN"): times
    }
    (one,) = said(*failing, rooms=tuple(rooms))
    assert one.name == "messages-wait"
    assert "a queue is full: " in one.title
    assert "(kernel.msgmnb, of a queue)" in one.title
    (other,) = said(Refusal("mq_timedsend", "EAGAIN", 4.0))
    assert (other.name, "no limit that is read" in other.title) == ("messages-wait", True)


def test_messages_are_a_line_and_a_finding_of_a_process() -> None:
    messages = KernelHeld(1, 4096, 65536, 0, 0, 0, "", 3000, 48 * MiB, 46 * MiB)
    seen = look(kernel_held=messages)
    (line,) = [one for one in stock.of(seen).lines if one.name == "messages in its queues"]
    assert (line.value, line.part_of) == (48 * MiB, "none")
    (one,) = [one for one in inside.findings(seen) if one.name == "kernel-holds"]
    assert "48 MiB are messages that nobody has received from 3000 queues (46 MiB" in one.title
    assert "pipe" not in one.title
    all_of_one = KernelHeld(0, 0, 0, 0, 0, 0, "", 8, 48 * MiB, 48 * MiB)
    (other,) = inside.findings(look(kernel_held=all_of_one))
    assert "from 8 queues of System V, which stay when it ends: the kernel's" in other.title
    assert (one.line, "ipcrm -q" in one.setting) == (line.name, True)
    few = look(kernel_held=KernelHeld(0, 0, 0, 0, 0, 0, "", 1, 15 * MiB, 0))
    assert not [one for one in inside.findings(few) if one.name == "kernel-holds"]


def test_messages_are_a_line_and_a_finding_of_a_group() -> None:
    seen = _of_group(message_bytes=20 * MiB, charge=charge(kernel_bytes=24 * MiB))
    (line,) = [one for one in accounts(seen)[0].lines if "messages" in one.name]
    assert (line.value, line.part_of) == (20 * MiB, "other memory of the kernel")
    (one,) = [one for one in findings(seen) if one.name == "group-messages"]
    assert "20 MiB of the group's 32 MiB are messages" in one.title


def test_the_machine_counts_all_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all queues but those of other programs, which come and go."""
    every = message_queues.system_v
    monkeypatch.setattr(
        message_queues,
        "system_v",
        lambda pid: [queue for queue in every(pid) or () if queue.sender == PID],
    )
    before = machine.at(0.01).message_bytes
    with system_v(3, 1000):
        assert machine.at(0.01).message_bytes == before + 3000


@pytest.mark.needs("root", "a mount namespace")
def test_the_machine_counts_posix_queues_if_they_are_mounted() -> None:
    script = (
        "import ctypes, os, subprocess\n"
        "libc = ctypes.CDLL(None)\n"
        "subprocess.run(['mount', '-t', 'mqueue', 'x', '/mnt'], check=True)\n"
        "before = of_machine()\n"
        "fd = libc.mq_open(b'/left', 0o102, 0o600, (ctypes.c_long * 8)(0, 4, 700))\n"
        "libc.mq_send(fd, b'x' * 700, 700, 1); os.close(fd)\n"
        "print(of_machine() - before)\n"
    )
    imports = "from memlab.diagnose.message_queues import of_machine\n"
    assert in_namespaces(imports + script) == "700\n"
