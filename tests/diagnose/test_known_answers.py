"""Programs that know how much they hold: a look says it, and twice as much of twice as much."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import unprivileged
from pids_group import pids_group

from memlab.diagnose import diagnosis
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.finding import Finding

from .live import running
from .test_live import small_group
from .test_message_queues import LIBC

MiB = 1 << 20
pytestmark = pytest.mark.seconds
# Each prints its number to standard error.
ENDS = "import sys; print('ready', flush=True); sys.stderr.write(f'{total}\\n'); sys.stderr.flush()"
PIPES = """
import fcntl, os
total, kept = 0, []
for _ in range(20 * TIMES):
    kept += os.pipe2(os.O_NONBLOCK)
    fcntl.fcntl(kept[-1], 1031, 1 << 20)  # F_SETPIPE_SZ
    total += os.write(kept[-1], bytes(1 << 20))
"""
MALLOC = """
import ctypes
kept = [bytearray(2000) for _ in range(12_000 * TIMES)]
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]
read = ctypes.CDLL(None).mallinfo2
read.restype = Info
info = read()
total = info.uordblks + info.hblkhd
"""
FILES = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (100 * TIMES, 100 * TIMES))
while len(os.listdir("/proc/self/fd")) < 95 * TIMES + 1:  # and the folder itself
    os.open("/dev/null", os.O_RDONLY)
total = 95 * TIMES
"""
LOCKED = """
import ctypes, mmap, resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (TIMES << 20, TIMES << 20))
total = TIMES * 240 * 4096
held = mmap.mmap(-1, total, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
at = ctypes.c_size_t(ctypes.addressof(ctypes.c_char.from_buffer(held)))
assert not ctypes.CDLL(None).mlock(at, ctypes.c_size_t(total))
"""
THREADS = """
import threading, time
open(PLACE, "w").write("0")
for _ in range(19 * TIMES - 1):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
total = 19 * TIMES
"""
TMPFS = """
import mmap, subprocess
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={20 * TIMES}M", "none", PLACE], check=True)
with open(f"{PLACE}/file", "w+b") as file:
    file.truncate(19 * TIMES << 20)
    held = mmap.mmap(file.fileno(), 0)
for at in range(0, len(held), 4096):
    held[at] = 1
total = len(held)
"""
MOVED_IN = """
import mmap
held = mmap.mmap(-1, 24 * TIMES << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(held), 4096):
    held[at] = 1
open(f"{PLACE}/cgroup.procs", "w").write("0")
total = len(held)
"""
MOVED_OUT = """
import os, mmap
open(f"{PLACE}/cgroup.procs", "w").write("0")
held = mmap.mmap(-1, 24 * TIMES << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(held), 4096):
    held[at] = 1
open(f"{os.path.dirname(PLACE)}/cgroup.procs", "w").write("0")
total = len(held)
"""


@contextmanager
def subject(
    code: str, times: int, *begins: str, place: Path | None = None
) -> Iterator[tuple[int, int]]:
    """Its process, and its number."""
    named = f"TIMES, PLACE = {times}, {str(place)!r}\n"
    text = f"{named}{code}\n{ENDS}\nsys.stdin.read()"
    with running(*begins, sys.executable, "-c", text) as program:
        assert program.stderr
        yield program.pid, int(program.stderr.readline())


def one_of(found: Diagnosis, name: str) -> Finding:
    names = [one.name for one in found.findings]
    assert names.count(name) == 1, (names, found.not_looked_at)
    return found.findings[names.index(name)]


def used_of(found: Diagnosis, line: str) -> float:
    return next(
        one.value for account in found.accounts for one in account.lines if one.name == line
    )


@pytest.mark.parametrize("times", [1, 2])
def test_data_in_pipes(times: int) -> None:
    with subject(PIPES, times) as (pid, total):
        found = one_of(diagnosis.of(pid, 0.05), "kernel-holds")
    assert found.measured == total


@pytest.mark.parametrize("times", [1, 2])
def test_objects_of_malloc_beside_the_heap_of_a_runtime(times: int) -> None:
    with subject(MALLOC, 2 * times) as (pid, total):
        found = one_of(diagnosis.of(pid, 0.05), "in-malloc")
    assert found.measured == pytest.approx(total, rel=0.02)


@pytest.mark.parametrize("times", [1, 2])
def test_open_files_near_their_limit(times: int) -> None:
    with subject(FILES, times) as (pid, total):
        seen = diagnosis.of(pid, 0.05)
    assert one_of(seen, "files-limit-nears").measured == 0.95
    assert used_of(seen, "RLIMIT_NOFILE") == total


@pytest.mark.parametrize("times", [1, 2])
def test_locked_memory_near_its_limit(times: int) -> None:
    with subject(LOCKED, times, *unprivileged.without_capabilities()) as (pid, total):
        seen = diagnosis.of(pid, 0.05)
    assert one_of(seen, "lock-limit-nears").measured == 240 / 256
    assert used_of(seen, "RLIMIT_MEMLOCK") == total


@pytest.mark.needs("root")
@pytest.mark.parametrize("times", [1, 2])
def test_threads_near_the_limit_of_their_group(times: int) -> None:
    with (
        pids_group(20 * times) as group,
        subject(THREADS, times, place=group / "cgroup.procs") as (pid, total),
    ):
        seen = diagnosis.of(pid, 0.05)
    assert one_of(seen, "threads-limit-nears").measured == 0.95
    assert used_of(seen, "pids.max") == total


@pytest.mark.needs("root", "a mount namespace")
@pytest.mark.parametrize("times", [1, 2])
def test_a_tmpfs_that_is_nearly_full(times: int, tmp_path: Path) -> None:
    with subject(TMPFS, times, "unshare", "-m", place=tmp_path) as (pid, total):
        found = one_of(diagnosis.of(pid, 0.05), "tmpfs-full")
    assert (found.measured, found.line) == (0.95, str(tmp_path))
    assert f"holds {total / MiB:.3g} MiB of {20 * times} MiB" in found.title


@pytest.mark.parametrize("times", [1, 2])
def test_memory_of_a_process_that_moved_out_of_its_group(times: int) -> None:
    with small_group(256 * MiB) as group, subject(MOVED_OUT, times, place=group) as (_, total):
        found = one_of(diagnosis.of_group(str(group), 0.05), "held-elsewhere")
    assert found.measured == pytest.approx(total, rel=0.02, abs=2 * MiB)


@pytest.mark.parametrize("times", [1, 2])
def test_memory_of_a_process_that_moved_into_a_group(times: int) -> None:
    """Said of the group in which it is not charged, and of the process."""
    with small_group(256 * MiB) as group, subject(MOVED_IN, times, place=group) as (pid, total):
        of_group = one_of(diagnosis.of_group(str(group), 0.05), "charged-elsewhere")
        of_process = one_of(diagnosis.of(pid, 0.05), "charged-elsewhere")
    for found, line in ((of_group, "anonymous"), (of_process, "anonymous, private")):
        assert found.measured == pytest.approx(total, rel=0.02, abs=8 * MiB)
        assert found.line == line


SENDS = """
import socket, threading
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind("")
kept, sent = [], 1
def sender():
    kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    kept[-1].connect(receiver.getsockname())
    return kept[-1]
while sent:  # until the receiver's queue is full, and not only a sender's buffer
    one, sent = sender(), 0
    one.setblocking(False)
    try:
        while True:
            sent += one.send(b"x")
    except BlockingIOError:
        pass
for _ in range(TIMES):
    threading.Thread(target=sender().send, args=(b"x",), daemon=True).start()
total = 0
"""
QUEUES = """
import ctypes, threading
system = ctypes.CDLL(None)
def fills():
    while not system.msgsnd(total, b"\\1" + bytes(1007), ctypes.c_size_t(1000), 0):
        pass
total = system.msgget(0, 0o1600)  # IPC_CREAT, IPC_PRIVATE
for _ in range(TIMES):
    threading.Thread(target=fills, daemon=True).start()
"""


def await_sleeps(pid: int, function: str, count: int) -> None:
    """Until so many of its threads sleep there."""
    seen: list[str] = []
    for _ in range(10_000):
        seen = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/wchan")]
        if sum(one.startswith(function) for one in seen) == count:
            return
        time.sleep(0.01)
    pytest.fail(f"{seen} are not {count} in {function}")


@pytest.mark.needs("places of sleep")
@pytest.mark.parametrize("times", [1, 2])
def test_threads_that_wait_for_a_receiver(times: int) -> None:
    """Beside one that waits for something else."""
    with subject(SENDS, times) as (pid, _):
        await_sleeps(pid, "unix_", times)
        found = one_of(diagnosis.of(pid, 0.3), "waits-for-receivers")
    assert found.measured == pytest.approx(times / (times + 1), rel=0.02)


@pytest.mark.needs("places of sleep")
@pytest.mark.parametrize("times", [1, 2])
def test_threads_that_wait_for_room_in_a_queue(times: int) -> None:
    with subject(QUEUES, times) as (pid, queue):
        try:
            await_sleeps(pid, "do_msgsnd", times)
            found = one_of(diagnosis.of(pid, 0.3), "waits-for-messages")
        finally:
            LIBC.msgctl(queue, 0, None)  # IPC_RMID
    assert found.measured == pytest.approx(times / (times + 1), rel=0.02)
