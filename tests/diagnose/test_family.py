"""What a process's file descriptors say of it, where /proc is a folder of files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from memlab.diagnose import diagnosis, family, flow, output, subject, waits, watching
from memlab.errors import CannotLook
from memlab.observe import process

from .live import Compiled, await_rest, running
from .looks import look, rates

PID = 4711
HELD = {3: "socket:[71]", 4: "socket:[72]", 5: "pipe:[8]", 6: "pipe:[8]", 7: "/memfd:a (deleted)",
        8: "anon_inode:[userfaultfd]", 9: "/memfd:a (deleted)", 10: "/etc/passwd"}  # fmt: skip
# Of proc_pid_net(5), as Linux 6.18 writes it: 0A is LISTEN.
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout ino
   0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 72 1 0
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 71 1 0
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 99 1 0
   3: 0100007F:0017 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 71 1 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / f"proc/{PID}"
    (made / "net").mkdir(parents=True)
    (made / "net/tcp").write_text(TCP)
    monkeypatch.setattr(family, "ROOT", tmp_path)
    return made


def test_the_port_is_the_lowest_of_its_own_listening_sockets(folder: Path) -> None:
    assert (folder / "net/tcp").exists()
    assert family.port(PID, HELD) == 0x1F90
    assert family.port(PID, {3: "socket:[72]"}) == 0x1F91
    assert family.port(PID, {3: "socket:[5]", 4: "pipe:[71]"}) is None


def test_a_process_without_a_socket_listens_on_none(folder: Path) -> None:
    """Its table of connections is not read, which takes long."""
    (folder / "net/tcp").unlink()
    (folder / "net/tcp").mkdir()
    assert family.port(PID, {5: "pipe:[8]"}) is None


def test_descriptors_are_counted_by_what_they_are() -> None:
    assert waits.userfaultfds(HELD) == 1


def test_descriptors_are_read_by_number() -> None:
    read, write = os.pipe()
    try:
        held = process.descriptors(os.getpid())
        assert held[read] == held[write] == str(Path(f"/proc/self/fd/{read}").readlink())
    finally:
        os.close(read)
        os.close(write)


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """100 children of a process and their one child each, the last of which hold most."""
    children = list(range(100, 200))
    grandchildren = list(range(200, 300))
    for child, parent in (*((n, PID) for n in children), *((n + 100, n) for n in children), (7, 1)):
        below = [n for n in (child + 100,) if child in children]
        folder = tmp_path / f"proc/{child}/task/{child}"
        folder.mkdir(parents=True)
        (folder / "children").write_text(" ".join(map(str, below)))
        (tmp_path / f"proc/{child}/stat").write_text(f"{child} (a) b) S {parent} 1 1 0 -1")
        (tmp_path / f"proc/{child}/statm").write_text(f"9999 {child} 1 1 0 1 0")
    own = tmp_path / f"proc/{PID}/task/{PID}"
    own.mkdir(parents=True)
    (own / "children").write_text(" ".join(map(str, children)))
    monkeypatch.setattr(family, "ROOT", tmp_path)
    monkeypatch.setattr(process, "tasks", lambda pid: [pid])
    return [*children, *grandchildren]


def test_of_many_children_those_that_hold_most_are_read(many: list[int]) -> None:
    found = family.descendants(PID)
    assert sorted(found) == many
    assert family.those_with_most(found) == list(range(299, 235, -1))
    assert family.those_with_most(found[:3]) == found[:3]
    assert family.descendants(150) == [250]


@pytest.mark.seconds(but="vfork")
@pytest.mark.needs("comparisons of processes")
@pytest.mark.parametrize("call", ["vfork", "fork"])
def test_a_child_of_vfork_holds_nothing_of_its_own(call: str, binary: Compiled) -> None:
    with running(binary("shares"), call) as program:
        (child,) = family.descendants(program.pid)
        assert process.shares_memory(program.pid, child) == (call == "vfork")
        found = diagnosis.of(program.pid, 0.1)
    assert "children-hold" not in {one.name for one in found.findings}


def test_what_processes_of_one_address_space_hold_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "shares_memory", lambda one, other: {one, other} <= {1, 2, 3})
    sizes = {1: 80 << 20, 4: 80 << 20, 2: 79 << 20, 5: 79 << 20, 6: 8 << 20, 3: 7 << 20}
    members = [
        family.Member(pid, "worker", size, 4096, 4096, 4096, 5) for pid, size in sizes.items()
    ]
    counted = {one.pid: one for one in family._counted_once(members)}
    held = {pid: one.anonymous_bytes for pid, one in counted.items()}
    assert held == sizes | {2: 0}  # 3 holds far less than 1, and so is not compared
    assert (counted[2].growth_bytes, counted[2].unshared_bytes, counted[2].faults) == (0, 0, 5)


def test_faults_of_children_are_those_of_who_waits_for_them() -> None:
    script = (
        "import mmap, os, sys\n"
        "for line in sys.stdin:\n"
        "    for _ in range(3):\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            memory = mmap.mmap(-1, 4096 * 500, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "            memory.madvise(mmap.MADV_NOHUGEPAGE)\n"
        "            for at in range(0, 4096 * 500, 4096): memory[at] = 1\n"
        "            os._exit(0)\n"
        "        os.waitpid(child, 0)\n"
        "    print('done', flush=True)"
    )
    command, pipe = [sys.executable, "-c", script], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdin
        assert program.stdout
        started = family.first([program.pid])
        program.stdin.write("go\n")
        program.stdin.flush()
        assert program.stdout.readline() == "done\n"
        waited = family.waited_faults(started, family.lives(started))
        program.stdin.close()
    assert waited >= 1500
    assert family.waited_faults(started, family.lives(started)) == 0, "it has ended"


@pytest.mark.parametrize(
    ("ignored", "made", "is_said"), [(1 << 16, 2.0, True), (1 << 16, 0.0, False), (0, 2.0, False)]
)
def test_children_that_nobody_waits_for_are_said_not_to_be_read(
    ignored: int, made: float, is_said: bool
) -> None:
    said = family.not_waited_for({"SigIgn": f"{ignored:016x}"}, made)
    assert [line.partition(":")[0] for line in said] == (
        ["page faults of its children that ended"] if is_said else []
    )


def test_of_children_that_end_the_faults_of_each_are_said() -> None:
    counted = rates(children_waited=1280.0, processes_made=1281.0)
    seen = look(waited_faults_per_s=64_000.0, per_s=counted, cpu_share=0.01, waited_cpu_share=0.5)
    (found,) = (one for one in flow.findings(seen) if one.name == "children-fault")
    assert found.title == (
        "children that it waited for took 64 k page faults per second in their lives: 1.28 k "
        "children per second, 50 faults each; it took 0 per second"
    )
    (found,) = (
        one for one in flow.findings(replace(seen, per_s=rates())) if one.name == "children-fault"
    )
    assert found.title.endswith("in their lives; it took 0 per second")
    # By waitid(2), without a wait (SIGCHLD ignored), or of children that are not new: not counted.
    for waited, made in ((1280.0, 2560.0), (1280.0, 0.0), (1280.0, None), (None, 1280.0)):
        by_others = replace(seen, per_s=counted | {"children_waited": waited,
                                                   "processes_made": made})  # fmt: skip
        (found,) = (one for one in flow.findings(by_others) if one.name == "children-fault")
        assert found.title.endswith("in their lives; it took 0 per second")
    (line,) = (one for one in flow.of(seen).lines if one.name == flow.OF_CHILDREN)
    assert (line.value, line.part_of) == (64_000.0, "none")


def test_a_process_whose_main_thread_has_ended_is_read_by_another_thread(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(binary("shares"), "leader") as program:
        while process.stat(program.pid).state not in "ZX":
            time.sleep(0.01)
        (thread,) = subject.other_threads(program.pid)
        await_rest(thread)
        seen = diagnosis.of(program.pid, 0.1)
        assert seen.look
        assert (seen.look.subject.pid, seen.look.subject.thread) == (program.pid, thread)
        assert seen.look.memory.anonymous_bytes >= 32 << 20
        assert seen.look.heap
        assert seen.look.heap.used_bytes + seen.look.heap.mapped_bytes >= 32 << 20
        assert seen.look.stacks
        assert seen.look.stacks.count == 1
        assert f"whose main thread has ended (read by thread {thread})" in output._subject(seen)
        sample = watching.Watcher(program.pid, None, None, None).look()
        assert sample
        assert sample.values["rss"] >= 32 << 20
        with monkeypatch.context() as patched, subject.held(program.pid) as (found, pidfd):
            subject.wait(found, pidfd, 0)
            patched.setattr(subject, "other_threads", lambda _: [program.pid])
            with pytest.raises(CannotLook, match=f"in it thread {thread}, by which it was read"):
                subject.wait(found, pidfd, 0)
        ended = "ended while it was looked at"
        with ExitStack() as opened:
            found, pidfd = opened.enter_context(subject.held(program.pid))
            program.kill()
            while subject.other_threads(program.pid):
                time.sleep(0.01)
            with pytest.raises(CannotLook, match=ended):
                subject.wait(found, pidfd, 0)
            with pytest.raises(CannotLook, match=ended):
                opened.__exit__(FileNotFoundError, FileNotFoundError(), None)
        with pytest.raises(CannotLook, match="its parent has yet to reap it"):
            subject._find(program.pid)
