"""memlab try --keep: a service that serves the loads of a block, and every way in which it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import unseen
from processes import processes

import memlab
from memlab import measure
from memlab.command import declare as command
from memlab.errors import Interrupted
from memlab.observe import capabilities
from memlab.observe.capabilities import Capability
from memlab.present import terminal
from memlab.run.fork_server import ForkServer
from memlab.run.watch import Progress, Silent
from memlab.store import SampleRow

PAGE = os.sysconf("SC_PAGESIZE")
TOUCHED = 1009  # a prime number, so that no multiple of anything gives it by accident
SERVICE = """
import mmap, os, pathlib, signal, socket, sys
def end(*_):
    with open("ended", "a") as file:
        print(os.getpid(), file=file)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    print("ready now", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            asked = connection.recv(1000)
            if asked == b"die":
                print("dying", flush=True)
                os._exit(9)
            if asked == b"grow":
                with mmap.mmap(-1, 4001 * 4096, flags=mmap.MAP_PRIVATE) as memory:
                    for page in range(1009):
                        memory[page * 4096] = 1
            if asked:
                connection.sendall(f"pid {os.getpid()} policy {os.environ.get('FOO', 0)}".encode())
"""
LOAD = """
import os, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(sys.argv[2].encode())
    print(connection.recv(100).decode())
    os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "6189")
"""
PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user who is not root has."""
    none = Capability("memory cgroup", False, "there is none", "make one")
    monkeypatch.setattr(capabilities, "memory_cgroup", lambda _: none)


def served(store: Path, **how: Any) -> memlab.Run:
    return memlab.trial(
        [*PYTHON, LOAD, "{port}", "{ask}"],
        serve=[*PYTHON, SERVICE, "{port}"],
        ready="tcp:{port}",
        keep=True,
        store=store,
        thp="never",
        metrics=["pid=pid ([0-9]+)", "policy=policy ([0-9]+)"],
        **how,
    )


def level(run: memlab.Run, sample: SampleRow, factor: str) -> str:
    return str(next(p.at[factor] for p in run.points if p.index == sample.point))


def pids(run: memlab.Run) -> list[tuple[int, str, int]]:
    """Block, policy of the service, and the process that served, of each trial in its order."""
    samples = sorted(run.samples, key=lambda s: (s.block, s.position))
    return [
        (s.block, level(run, s, "env.FOO"), int(s.raw["metrics"]["pid"])) for s in samples if s.raw
    ]


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 120
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@pytest.fixture(params=["with a group", "without"])
def grouped(request: pytest.FixtureRequest) -> None:
    if request.param == "without":
        request.getfixturevalue("no_group")


def test_the_loads_of_a_block_share_a_service_of_their_policies(
    grouped: None, store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = served(store_path, blocks=3, seed=2, ask=["ask", "grow"], **{"env.FOO": ["41", "43"]})
    assert {s.outcome for s in run.samples} == {"ok"}
    # Each service has its two trials one after the other, and none serves in two blocks.
    runs = [(list(same), who) for who, same in groupby(pids(run))]
    assert [len(same) for same, _ in runs] == [2] * 6
    assert len({pid for _, (_, _, pid) in runs}) == 6
    for sample in run.samples:
        assert sample.raw is not None
        assert sample.raw["metrics"]["policy"] == int(level(run, sample, "env.FOO"))
    # Each was asked to end, and none lives on; no load's leftovers either.
    ended = (tmp_path / "ended").read_text().split()
    assert sorted(map(int, ended)) == sorted(pid for _, (_, _, pid) in runs)
    assert processes(r"^sleep 6189") == []
    terminal.show(run, verbose=True)
    said = " ".join(capsys.readouterr().out.split())
    assert "the service was kept for a block: started 6 times for 12 trials" in said
    assert "behave, kept for a block, under" in said


def test_counts_and_peaks_are_of_the_trial_and_not_of_the_services_life(
    grouped: None, store_path: Path
) -> None:
    run = served(store_path, blocks=3, seed=2, ask=["ask", "grow"])
    samples = sorted(run.samples, key=lambda s: (s.block, s.position))
    asked = [level(run, s, "ask") for s in samples]
    assert ("grow", "ask") in zip(asked[::2], asked[1::2], strict=True)  # one that has grown before
    raws: dict[str, list[dict[str, Any]]] = {"ask": [], "grow": []}
    for sample, what in zip(samples, asked, strict=True):
        assert sample.raw is not None
        assert sample.raw["loads_before"] == sample.position
        raws[what].append(sample.raw)
    for ask, grow in zip(raws["ask"], raws["grow"], strict=True):
        trapped = [raw["window"]["counters"]["trapped"]["count"] for raw in (ask, grow)]
        assert trapped[0] < 100  # of the interpreter's own
        assert TOUCHED <= trapped[1] < TOUCHED + 100
        handled = [raw["window"]["minor_fault_count"] for raw in (ask, grow)]
        assert TOUCHED - 64 <= handled[1] - handled[0] < TOUCHED + 164  # a batch of them is late
        for peak in ("rss_peak_bytes", "group_peak_bytes"):
            if ask[peak] is None:
                assert "peak_group" in ask["missing"]
                continue
            off = abs(grow[peak] - ask[peak] - TOUCHED * PAGE)
            assert off < 400 * PAGE + 4 * unseen.KIND_BYTES
        assert 0 < ask["window"]["voluntary_switch_count"] < 100
        assert ask["ready_ns"] > 0


@pytest.mark.needs("lock any amount")
def test_what_a_lock_of_the_service_populates_is_counted_without_a_group(
    no_group: None, store_path: Path
) -> None:
    run = served(store_path, blocks=1, ask=["grow"], lock=["off", "future"])
    populated = run.metric("populated")
    found = {level(run, s, "lock"): populated.of(s.raw or {}, {}) or 0 for s in run.samples}
    assert found["off"] < 100
    assert 4001 <= found["future"] < 4101


def test_a_service_that_dies_under_a_load_is_an_outcome_and_the_next_trial_has_a_new_one(
    store_path: Path,
) -> None:
    run = served(store_path, blocks=2, seed=1, ask=["a", "b", "die", "c"])
    samples = sorted(run.samples, key=lambda s: (s.block, s.position))
    died = [s for s in samples if level(run, s, "ask") == "die"]
    for sample in died:
        assert (sample.outcome, sample.detail) == (
            "service-ended",
            "the service: exit status 9 under the load; it said: ready now / dying",
        )
        assert (sample.raw or {})["service_output"] == "ready now\ndying\n"
    assert {s.outcome for s in samples if s not in died} == {"ok"}
    assert any(s.position < 3 for s in died)  # else nothing would follow one
    before = 0
    for sample in samples:
        before = 0 if sample.position == 0 else before
        assert (sample.raw or {})["loads_before"] == before
        before = 0 if sample in died else before + 1


def asking(server: ForkServer, words: list[str], **how: Any) -> dict[str, Any]:
    """A trial of a service that is kept, as the driver asks a fork server for it."""
    serve = ["sh", "-c", "echo up; exec sleep 6197"]
    subject = {"argv": words, "cwd": "/", "levels": {}, "serve": serve, "ready": "line:up"}
    declared = command.declare(subject | {"keep": True})
    params = declared.params({"lock": "off"}, {"group": "", "processes": ""})
    asked = {"file": None, "cpus": sorted(os.sched_getaffinity(0)), "limit_s": 30.0, "keep": True}
    return server.run({"probe": "command", "params": params} | asked | how)


def test_a_service_that_dies_between_two_trials_is_an_outcome_of_the_second() -> None:
    server = ForkServer()
    try:
        first = asking(server, ["true"])["result"]
        assert (first["kept"], first["loads_before"]) == (True, 0)
        (pid,) = processes(r"^sleep 6197")
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: processes(r"^sleep 6197") == [])
        found = asking(server, ["true"])
        assert found["outcome"] == "service-ended"
        assert found["detail"] == "the service: ended by SIGKILL after a load; it said: up"
        assert found["result"]["kept"] is False
        assert asking(server, ["true"])["result"]["loads_before"] == 0
        assert processes(r"^sleep 6197") != []
        # A load that takes too long takes the service with it, and so does a worker's own limit.
        assert asking(server, ["sleep", "6197"], limit_s=0.5)["outcome"] == "timeout"
        assert eventually(lambda: processes(r"^sleep 6197") == [])
        assert asking(server, ["false"])["outcome"] == "failed"  # of the load alone
        assert asking(server, ["true"])["result"]["loads_before"] == 1
        assert server.run({}) == {}
        assert processes(r"^sleep 6197") == []
        assert asking(server, ["true"])["result"]["loads_before"] == 0
    finally:
        server.stop()
    assert eventually(lambda: processes(r"^sleep 6197") == [])


def test_nothing_is_left_when_memlab_is_killed_while_a_service_is_kept(store_path: Path) -> None:
    words = [sys.executable, "-m", "memlab", "try", "--store", str(store_path), "-q", "--keep"]
    words += ["--serve", "sh -c 'echo up; setsid sleep 6193 & exec sleep 6193'"]
    words += [
        "--ready",
        "line:up",
        "-p",
        "n=1,2",
        "--",
        "sh",
        "-c",
        "setsid sleep 6193 & sleep {n}",
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as measuring:
        assert eventually(lambda: len(processes(r"^sleep 6193")) >= 3)
        measuring.kill()
    assert eventually(lambda: processes(r"^sleep 6193") == [])


class _Cut(Silent):
    """Ctrl-C once the first trial is stored."""

    def sampled(self, progress: Progress) -> None:
        raise KeyboardInterrupt(signal.SIGINT)


def test_a_run_that_was_cut_short_goes_on_with_a_new_service(store_path: Path) -> None:
    levels = {"ask": ["a", "b", "c"], "env.FOO": ["41", "43"]}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("memlab.run.watch.Silent", _Cut)
        with pytest.raises(Interrupted) as cut:
            served(store_path, blocks=2, **levels)
    measure.resume(cut.value.run, store_path, Silent())
    run = memlab.load(cut.value.run, store=store_path)
    assert [s.outcome for s in run.samples] == ["ok"] * 12
    services: dict[tuple[int, str], set[int]] = {}
    for block, policy, pid in pids(run):
        services.setdefault((block, policy), set()).add(pid)
    assert sorted(map(len, services.values())) == [1, 1, 1, 2]


def test_without_a_group_only_the_level_that_needs_one_is_unavailable(
    no_group: None, store_path: Path
) -> None:
    run = memlab.trial(
        ["true"], blocks=1, store=store_path, memory_max=["none", "8M"], memory_high=["none", "8M"]
    )
    said = {
        (level(run, s, "memory_max"), level(run, s, "memory_high")): (s.outcome, s.detail)
        for s in run.samples
    }
    needs = "needs a memory cgroup, and there is none: make one"
    assert said.pop(("none", "none")) == ("ok", "")
    assert set(said.values()) == {("unavailable", needs)}
