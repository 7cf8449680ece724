"""What descriptors hold in the kernel, to the byte, of this process itself."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import bpf_maps
import pytest

from memlab.diagnose import call_limits, inside, kernel_held, memory_held_open, mqueue_files, stacks
from memlab.diagnose.kernel_held import KernelHeld
from memlab.diagnose.look import _not_read_descriptors, _not_read_operations
from memlab.diagnose.stacks import Stacks
from memlab.observe import proc, process

from .live import running
from .looks import look

MiB = 1 << 20
PID = os.getpid()


def links(*numbers: int) -> dict[int, str]:
    return {number: os.readlink(f"/proc/self/fd/{number}") for number in numbers}  # noqa: PTH115


@pytest.mark.parametrize("count", [8, 16])
def test_data_in_pipes_is_counted_once_for_both_ends(count: int) -> None:
    ends = [end for _ in range(count) for end in os.pipe()]
    try:
        for end in ends[1::2]:
            os.write(end, b"x" * 10_000)
        assert kernel_held.read(PID, links(*ends)) == KernelHeld(
            count, count * 10_000, count * 65536, 0, 0, 0, filled_count=count
        )
        assert kernel_held.read(PID, {0: "/dev/null"}) is None
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize("count", [8, 16])
def test_data_in_pipes_of_several_processes_is_counted_once(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [end for _ in range(count) for end in os.pipe()]
    try:
        for end in ends[1::2]:
            os.write(end, b"x" * 10_000)
        both = {PID: links(*ends[::2]), os.getppid(): links(*ends[1::2])}
        assert kernel_held.in_pipes(both) == ({PID: count * 10_000}, True)
        monkeypatch.setattr(kernel_held, "_PIPES_MAX", count - 1)
        assert kernel_held.in_pipes(both) == ({PID: (count - 1) * 10_000}, False)
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize("count", [8, 16])
def test_data_in_pipes_of_a_group_is_named_by_the_process_that_has_most(count: int) -> None:
    """A process that has ended has none; of one that may not be read that is not known."""
    ends = [end for _ in range(count) for end in os.pipe()]
    mine = links(*ends)
    try:
        for end in ends[3::2]:
            os.write(end, b"x" * 10_000)
        read = kernel_held.of_group({PID: mine, 1 << 30: None})
        assert (read.bytes, read.is_whole) == ((count - 1) * 10_000, True)
        name = Path("/proc/self/comm").read_text().strip()
        assert read.place == f"pipes of its processes, most of {PID} ({name})"
        in_part = kernel_held.of_group({PID: mine, os.getppid(): None})
        assert (in_part.bytes, in_part.is_whole) == ((count - 1) * 10_000, False)
        assert kernel_held.of_group({}) == kernel_held.PipeData()
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize("count", [2, 4])
def test_packets_in_pipes_may_take_more_than_their_data(count: int) -> None:
    """Of pipes in packet mode each packet has a page. Other pipes and empty ones are not such."""
    ends = []
    try:
        for flags, written in ((os.O_DIRECT, 5), (os.O_DIRECT, 0), (0, 5)):
            for _ in range(count):
                ends += os.pipe2(flags)
                for _ in range(written):
                    os.write(ends[-1], b"x")
        found = kernel_held.read(PID, links(*ends))
        assert found is not None
        assert (found.pipe_count, found.pipe_bytes) == (3 * count, 2 * count * 5)
        assert found.filled_count == 2 * count
        (line,) = (line for line in inside.of_kernel(found) if line.value)
        assert line.note.startswith(f"in {2 * count} of {3 * count} pipes, with room for ")
        assert (found.packet_count, found.packet_bytes) == (count, count * (65536 - 5))
    finally:
        for end in ends:
            os.close(end)
    assert list(_not_read_descriptors(found)) == []
    (said,) = _not_read_descriptors(replace(found, packet_bytes=64 * MiB))
    assert said.startswith(f"what packets in {count} pipes take beyond their data: ")


@pytest.mark.parametrize("count", [2, 4])
def test_pipes_that_have_a_name_are_pipes_and_other_files_are_not(
    count: int, tmp_path: Path
) -> None:
    ends = []
    for i in range(count):
        os.mkfifo(tmp_path / f"{i}")
        ends.append(os.open(tmp_path / f"{i}", os.O_RDWR | os.O_NONBLOCK))
        os.write(ends[-1], b"x" * 10_000)
    again, file = os.dup(ends[0]), os.open(tmp_path / "pipe:[7]", os.O_RDWR | os.O_CREAT)
    os.write(file, b"x" * 10_000)
    try:
        found = kernel_held.read(PID, links(*ends, again, file))
        assert found == KernelHeld(
            count, count * 10_000, count * 65536, 0, 0, 0, filled_count=count
        )
        assert kernel_held.read(PID, links(file)) is None
    finally:
        for end in (*ends, again, file):
            os.close(end)


@pytest.mark.parametrize("count", [1, 2])
def test_programs_of_bpf_are_counted_by_their_number(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program that is open twice, and a map; from texts of fdinfo."""
    monkeypatch.setattr(kernel_held, "ROOT", tmp_path)
    folder = tmp_path / f"proc/{PID}/fdinfo"
    folder.mkdir(parents=True)
    held = {}
    for i in range(2 * count):
        held[900 + i] = "anon_inode:bpf-prog"
        (folder / f"{900 + i}").write_text(
            f"pos:\t0\nprog_type:\t1\nmemlock:\t{20 * MiB}\nprog_id:\t{i // 2}\nrun_cnt:\t0\n"
        )
    held[990], held[991] = "anon_inode:bpf-map", "/anon_inode:bpf-prog"
    (folder / "990").write_text(f"map_type:\t2\nmemlock:\t{MiB}\nmap_id:\t1\n")
    (folder / "991").write_text(f"memlock:\t{MiB}\nprog_id:\t1000\n")
    found = kernel_held.read(PID, held)
    assert found is not None
    assert (found.program_count, found.program_bytes) == (count, count * 20 * MiB)
    assert (found.map_count, found.map_bytes) == (1, MiB)
    (said,) = inside._kernel_holds(look(kernel_held=found))
    assert f"{20 * count} MiB are {count} BPF program" in said.title


@pytest.mark.parametrize("count", [3, 6])
def test_files_in_flight_are_counted_and_their_memory_is_not_looked_at(count: int) -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver, open("/dev/null") as file:
        for _ in range(count):
            socket.send_fds(sender, [b"x"], [file.fileno()])
        held = links(sender.fileno(), receiver.fileno())
        assert kernel_held.in_flight(PID, held) == count
        rooms = call_limits.read(PID, proc.status(PID), {"in flight"})
    assert [(one.name, one.used) for one in rooms] == [("files in flight of RLIMIT_NOFILE", count)]


@pytest.mark.needs("BPF maps")
@pytest.mark.parametrize("entries", [1024, 2048])
def test_memory_of_a_map_is_counted_once_for_two_descriptors(entries: int) -> None:
    with bpf_maps.opened(entries) as fd:
        other = os.dup(fd)
        seen = kernel_held.read(PID, links(fd, other))
        os.close(other)
    assert seen is not None
    assert seen.map_count == 1
    assert entries * 4096 <= seen.map_bytes <= entries * 4096 * 1.02


def test_what_is_held_is_said_by_its_kind() -> None:
    of_pipes = look(kernel_held=KernelHeld(41, 20 * MiB, 40 * MiB, 0, 0, 0, filled_count=40))
    (found,) = [one for one in inside.findings(of_pipes) if one.name == "kernel-holds"]
    assert "20 MiB are data that nobody has read from 40 pipes" in found.title
    assert "pipes" in found.setting
    of_maps = look(kernel_held=KernelHeld(0, 0, 0, 2, 48 * MiB, 0))
    (found,) = [one for one in inside.findings(of_maps) if one.name == "kernel-holds"]
    assert (found.line, "48 MiB are 2 BPF maps" in found.title) == ("BPF maps", True)
    assert "bpftool" in found.setting
    small = look(kernel_held=KernelHeld(40, 15 * MiB, 40 * MiB, 0, 0, 0))
    assert not [one for one in inside.findings(small) if one.name == "kernel-holds"]


def test_pipes_that_may_not_be_read_are_said_if_they_can_hold_much() -> None:
    few, many = (KernelHeld(n, 0, 0, 0, 0, 0, "Operation not permitted") for n in (15, 16))
    assert list(_not_read_descriptors(few)) == []
    assert list(_not_read_descriptors(many)) == ["what its 16 pipes hold: Operation not permitted"]
    flying = KernelHeld(0, 0, 0, 0, 0, 2)
    assert [line.partition(":")[0] for line in _not_read_descriptors(flying)] == [
        "the memory of 2 files in flight in its sockets"
    ]


@pytest.mark.needs("root", "a mount namespace")
def test_deleted_files_of_any_tmpfs_are_memory_that_is_held_open() -> None:
    script = (
        "mount -t tmpfs x /mnt && head -c 3145728 /dev/zero >/mnt/f && head -c 65536 /dev/zero "
        ">/mnt/g && exec 7</mnt/f 8</mnt/g && rm /mnt/f && echo ready && exec sleep 60"
    )
    with running("unshare", "-m", "sh", "-c", script) as program:
        held = memory_held_open.read(program.pid, process.descriptors(program.pid))
        sizes = {one.path: one.bytes for one in held.values()}
        assert sizes == {"/mnt/f (deleted)": 3 * MiB, "/mnt/g": 65536}
        assert list(memory_held_open.nameless(held).values()) == [3 * MiB]


@pytest.mark.needs("root", "a mount namespace")
def test_files_of_a_ramfs_are_memory_that_is_held_open() -> None:
    script = (
        "mount -t ramfs x /mnt && head -c 3145728 /dev/zero >/mnt/f && exec 7</mnt/f && "
        "echo ready && exec sleep 60"
    )
    with running("unshare", "-m", "sh", "-c", script) as program:
        held = memory_held_open.read(program.pid, process.descriptors(program.pid))
    assert {one.path: one.bytes for one in held.values()} == {"/mnt/f": 3 * MiB}


def test_threads_whose_stacks_have_no_guard_are_counted() -> None:
    """Their mapping is named, and not taken for stacks: it may hold other things too."""
    pointer = stack_pointer_of_a_thread()
    whole = process.Mapping(pointer & -4096, (pointer & -4096) + 4 * MiB, "rw-p", "")
    seen = stacks.read(PID, [whole], {whole.start: MiB})
    assert seen == Stacks(0, 0, 0, 1)
    named = process.Mapping(whole.start, whole.end, "rw-p", "/dev/zero")
    assert stacks.read(PID, [named], {whole.start: MiB}) is None


def stack_pointer_of_a_thread() -> int:
    """Of one that waits until the test's process ends."""
    begun, tid = threading.Event(), [0]

    def wait() -> None:
        tid[0] = threading.get_native_id()
        begun.set()
        threading.Event().wait()

    threading.Thread(target=wait, daemon=True).start()
    begun.wait()
    while True:
        words = proc.read(proc.ROOT / f"proc/self/task/{tid[0]}/syscall").split()
        if len(words) > 2:
            return int(words[-2], 16)


def test_watches_of_inotify_are_counted_and_said_as_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libc = ctypes.CDLL(None)
    fd = libc.inotify_init1(0)
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        assert libc.inotify_add_watch(fd, str(tmp_path / str(number)).encode(), 0x100) > 0
    seen = kernel_held.read(PID, {fd: "anon_inode:inotify"})
    os.close(fd)
    assert seen is not None
    assert seen.watches == 3
    assert [*_not_read_descriptors(seen)] == []
    (line,) = _not_read_descriptors(replace(seen, watches=9000))
    assert line.startswith("what 9,000 or more inotify watches keep in the kernel: ")
    for sizes, words in (((80, 24), "914 KiB by the sizes of its objects"), ((80,), "not read: ")):
        for name, size in zip(
            ("inotify_inode_mark", "fsnotify_mark_connector"), sizes, strict=False
        ):
            folder = tmp_path / f"root{len(sizes)}/sys/kernel/slab/{name}"
            folder.mkdir(parents=True)
            (folder / "object_size").write_text(f"{size}\n")
        monkeypatch.setattr(kernel_held, "ROOT", tmp_path / f"root{len(sizes)}")
        (line,) = _not_read_descriptors(replace(seen, watches=9000))
        assert words in line
        assert "an inode that each keeps in memory" in line


@pytest.mark.parametrize("count", [12, 24])
def test_rings_of_io_uring_are_said_as_not_looked_at_by_their_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Of 16,384 submissions of 64 bytes and twice as many completions of 16 bytes."""
    monkeypatch.setattr(kernel_held, "ROOT", tmp_path)
    folder = tmp_path / f"proc/{PID}/fdinfo"
    folder.mkdir(parents=True)
    text = "pos:\t0\nSqMask:\t0x3fff\nSqHead:\t0\nCachedSqHead:\t0\nCqMask:\t0x7fff\nCqHead:\t0\n"
    for number in range(count):
        (folder / str(number)).write_text(text)
    (folder / "99").write_text("pos:\t0\n")  # of a kernel that does not print the masks
    seen = kernel_held.read(PID, dict.fromkeys([*range(count), 99], "anon_inode:[io_uring]"))
    assert seen is not None
    assert (seen.rings, seen.ring_bytes) == (count, count * 3 * MiB // 2)
    (line,) = _not_read_descriptors(seen)
    assert line.startswith(f"what {count} io_urings keep in the kernel: /proc does not show it")
    assert not [*_not_read_descriptors(replace(seen, ring_bytes=15 * MiB))]


def test_operations_of_io_uring_that_fail_are_said_as_not_looked_at_if_there_are_any() -> None:
    seen = KernelHeld(0, 0, 0, 0, 0, 0, rings=2)
    (unknown,) = _not_read_operations(seen, None)
    assert unknown == "which operations of 2 io_urings fail: their results are not counted"
    (counted,) = _not_read_operations(seen, 23.0)
    assert counted == (
        "which operations of 2 io_urings fail, 23 per second: their results are only counted"
    )
    assert not [*_not_read_operations(seen, 0.9)]
    assert not [*_not_read_operations(KernelHeld(0, 0, 0, 0, 0, 0), None)]
    assert not [*_not_read_operations(None, 23.0)]


def test_queues_that_cannot_be_looked_at_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an ordinary user if mqueue is not mounted: its file system may not be mounted to look. The
    numbers are not those of descriptors of this process."""

    def refuse() -> str:
        raise PermissionError

    monkeypatch.setattr(mqueue_files, "_device", lambda pid, number, others: "0:99")
    monkeypatch.setattr(mqueue_files, "_of_namespace", refuse)
    seen = kernel_held.read(PID, {901: "/queue", 902: "/other", 903: "/tmp/file"})
    assert seen is not None
    assert seen.queues_unread == 2
    (line,) = _not_read_descriptors(seen)
    assert line.startswith("messages in what may be 2 POSIX queues: ")
    monkeypatch.setattr(mqueue_files, "_of_namespace", lambda: "0:98")
    assert kernel_held.read(PID, {901: "/queue"}) is None


def test_the_bpf_objects_of_a_group_count_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two processes hold one map, one of them a second one and a program."""
    held = {PID: {5: "map", 6: "map", 7: "prog"}, 1 << 30: {5: "map"}}
    numbers = {(PID, 5): ("map", 1), (1 << 30, 5): ("map", 1), (PID, 6): ("map", 2),
               (PID, 7): ("prog", 1)}  # fmt: skip
    for (pid, number), (kind, name) in numbers.items():
        place = tmp_path / f"proc/{pid}/fdinfo/{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"pos:\t0\nmemlock:\t{name * MiB}\n{kind}_id:\t{name}\n")
    monkeypatch.setattr(kernel_held, "ROOT", tmp_path)
    descriptors = {
        pid: {number: f"anon_inode:bpf-{kind}" for number, kind in of.items()}
        for pid, of in held.items()
    }
    assert kernel_held.of_group(descriptors).bpf_bytes == (1 + 2 + 1) * MiB
    of_one = KernelHeld(0, 0, 0, 2, 3 * MiB, 0, program_bytes=MiB)
    assert (of_one.pipes.bpf_bytes, of_one.pipes.stays_bytes) == (4 * MiB, 19 * MiB // 5)
