"""The environment of a worker: a fork server for each, and the guardian ends them all."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from held import PYTHON_PROBE, RUN, at, saying

from memlab.run import fork_server
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor
from memlab.run.fork_server import ForkServer
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal

CPU = max(os.sched_getaffinity(0))
SHOW = "os.environ.get('MEMLAB_POINT'), os.environ['HOME'], os.getppid()"


def by_swap(level: Mapping[str, object]) -> dict[str, str]:
    """One environment a level of a factor that is at hand; `none` adds nothing."""
    return {} if level["swap"] == "none" else {"MEMLAB_POINT": str(level["swap"])}


def test_each_environment_has_a_parent_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fork_server, "_BOOT", fork_server._BOOT.replace("main()", PYTHON_PROBE + "main()")
    )
    declared = saying(
        containment=None,
        environ=by_swap,
    )
    with LocalExecutor(RUN, declared, Directories(tmp_path), [CPU]) as opened:
        kinds = ("none", "file", "zram", "file", "none")
        said = [opened.trial(at(do=SHOW, swap=kind))["result"]["said"] for kind in kinds]
        parents = [parent for _, _, parent in said]
    assert [point for point, _, _ in said] == [None, "file", "zram", "file", None]
    assert {home for _, home, _ in said} == {os.environ["HOME"]}
    assert len(set(parents)) == 3
    assert (parents[1], parents[0]) == (parents[3], parents[4])
    assert "MEMLAB_POINT" not in os.environ
    assert not any(Path(f"/proc/{parent}").exists() for parent in parents)


def test_an_environment_is_there_when_the_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As GLIBC_TUNABLES and LD_PRELOAD need it: what the kernel was given at exec (proc(5))."""
    monkeypatch.setattr(
        fork_server, "_BOOT", fork_server._BOOT.replace("main()", PYTHON_PROBE + "main()")
    )
    started = ForkServer({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"})
    trial = {"probe": "noop", "file": None, "cpus": [CPU], "limit_s": 60.0}
    try:
        reply = started.run(trial | {"params": {"do": "open('/proc/self/environ').read()"}})
    finally:
        started.stop()
    assert "GLIBC_TUNABLES=glibc.malloc.arena_max=1\0" in reply["result"]["said"]


def work(pid: int) -> tuple[str, ...]:
    """What a process has done so far: utime and stime, and its switches."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (*fields[11:13], *Path(f"/proc/{pid}/status").read_text().splitlines()[-2:])


def test_an_idle_parent_sleeps(tmp_path: Path) -> None:
    started = ForkServer()
    trial = {"probe": "noop", "params": {}, "file": None, "cpus": [CPU], "limit_s": 60.0}
    try:
        started.run(trial)
        deadline = time.monotonic() + 120
        before = None
        while (now := work(started.group)) != before:  # its next worker is forked first
            assert time.monotonic() < deadline, "it does not rest"
            before = now
            time.sleep(0.3)
    finally:
        started.stop()


def test_a_guardian_ends_every_session_of_the_journal(tmp_path: Path) -> None:
    """The driver is a process of its own here: a child that names three sessions and is killed."""
    servers = [ForkServer() for _ in range(3)]
    pid = os.fork()
    if pid == 0:
        opened = Journal(RUN)
        Guardian(opened)
        for server in servers:
            opened.note_session(server.group, fork_server.MARK)
        opened.forget_session(servers[1].group)
        os._exit(0)
    os.waitpid(pid, 0)
    try:
        for server in (servers[0], servers[2]):
            assert server._process.wait(120) == -9
        assert servers[1]._process.poll() is None
    finally:
        for server in servers:
            server.stop()
