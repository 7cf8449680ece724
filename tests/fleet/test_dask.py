"""What a worker refuses, and which workers of a cluster measure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command import Command, process
from four_hosts import until
from pretended_hosts import TINY, held

from memlab.errors import BadRequest, CannotRun
from memlab.machines.fleet import cluster
from memlab.run.machine_lock import machine_lock

MEMLAB = [sys.executable, "-m", "memlab"]


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "tcp://example.org:8786"])
def test_without_tls_only_this_machine_is_reached(address: str, command: Command) -> None:
    for words in (["hosts", "worker", address], ["hosts", "pull", f"dask:{address}"]):
        done = command(*words)
        assert done.returncode == 2
        assert "without TLS whoever reaches the scheduler can start commands" in done.stderr
    cluster.check_address("tcp://127.0.0.1:8786")
    cluster.check_address("tls://10.0.0.1:8786")


@pytest.mark.parametrize("address", ["", "host", "http://a:1", "tcp://", "tcp://a", "tcp://a:b"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(BadRequest, match="is not a scheduler's address"):
        cluster.check_address(address)


@pytest.mark.parametrize(
    "name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD", "MIMALLOC_PURGE_DELAY"]
)
def test_what_would_change_a_measurement_is_refused(name: str) -> None:
    with pytest.raises(CannotRun, match=f"{name} is set"):
        cluster.check_environment({"HOME": "/", name: "1"})
    cluster.check_environment({"HOME": "/"})


def test_a_worker_starts_no_other_command() -> None:
    commands = cluster._WorkerCommands({}, [])
    assert "a worker starts sweep" in commands.start("1", ["clean", "--yes"])["refused"]
    assert "a worker starts sweep" in commands.start("2", [])["refused"]
    assert commands.running == {}


def test_dask_goes_alone_in_a_file_of_hosts(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text('[hosts.a]\ndask = "tls://h:1"\nmemlab = "/bin/memlab"\n')
    done = command("hosts", "pull", str(file))
    assert (done.returncode, done.stderr) == (
        2,
        "memlab: a: dask takes no other option; its worker has the rest\n",
    )


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    file = tmp_path / "scheduler.json"
    words = ["scheduler", "--host", "tcp://127.0.0.1", "--port", "0", "--no-dashboard"]
    with subprocess.Popen(
        [sys.executable, "-m", "dask", *words, "--scheduler-file", str(file)],
        stderr=subprocess.DEVNULL,
    ) as made:
        while not file.exists():
            assert made.poll() is None
            time.sleep(0.05)
        time.sleep(0.2)
        yield json.loads(file.read_text())["address"]
        made.kill()


@pytest.mark.slow
@pytest.mark.needs("dask")
def test_the_workers_of_a_cluster(scheduler: str, tmp_path: Path) -> None:
    """A worker of Dask's own is passed over; a name has one worker, and a machine too. Told to end,
    a worker ends its sweep first."""
    done = process("hosts", "pull", f"dask:{scheduler}")
    assert done.returncode == 3
    assert (
        f"has no worker that measures; on each host: memlab hosts worker {scheduler}" in done.stderr
    )
    plain = subprocess.Popen(
        [sys.executable, "-m", "dask", "worker", scheduler, "--no-nanny", "--no-dashboard"],
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    there = tmp_path / "there.db"
    mine = subprocess.Popen(
        [*MEMLAB, "--store", str(there), "hosts", "worker", scheduler, "--name", "a"],
        stderr=subprocess.PIPE,
    )
    other = long = None
    try:
        assert mine.stderr
        assert b"worker a of" in mine.stderr.readline()
        store = str(tmp_path / "home.db")
        on, home = ("--on", f"dask:{scheduler}"), ("--store", store)
        done = process(*home, "sweep", *TINY, "--blocks", "2", *on)
        assert done.returncode == 0, done.stderr
        assert held(Path(store), "a") == held(there, None)
        assert "a: nothing new" in process(*home, "hosts", "pull", *on[1:]).stdout
        done = process(*home, "sweep", "mmap-write", "-p", "size=-4", *on)
        assert (done.returncode, done.stderr[:10]) == (3, "memlab: a:"), done.stderr
        done = process("hosts", "worker", scheduler, "--name", "a")
        assert done.returncode == 3
        assert "a worker a is there already: --name NAME" in done.stderr
        other = subprocess.Popen(
            [*MEMLAB, "hosts", "worker", scheduler, "--name", "b"], stderr=subprocess.PIPE
        )
        assert other.stderr
        assert b"worker b of" in other.stderr.readline()
        done = process("sweep", *TINY, *on)
        assert done.returncode == 3
        assert "are on one machine, where they would measure each other" in done.stderr
        other.terminate()
        other.communicate(timeout=300)
        assert other.returncode == 0
        asked = ["sweep", *TINY, "--blocks", "90000", "-q", *on]
        long = subprocess.Popen([*MEMLAB, *home, *asked])
        until(lambda: last_session(Path(store), "a") == [None])
        mine.terminate()
        assert mine.wait(300) == 0
        assert long.wait(300) == 3
        assert last_session(there, None) == ["interrupted"]
        words = ["--store", str(tmp_path / "b.db"), "hosts", "worker", scheduler, "--name", "b"]
        other = subprocess.Popen([*MEMLAB, *words], stderr=subprocess.PIPE)
        assert other.stderr
        assert b"worker b of" in other.stderr.readline()
        pulled = process(*home, "hosts", "pull", *on[1:])
        *_, unfinished = held(Path(store), "a")
        assert pulled.stderr.splitlines()[0] == (
            "memlab: unfinished here, of hosts that are not workers of this scheduler: "
            f"a (run {unfinished})"
        )
    finally:
        for one in (plain, mine, other, long):
            if one:
                one.terminate()  # a worker ends its sweep first
                one.communicate(timeout=300)


def last_session(store: Path, origin: str | None) -> list[str | None]:
    """How the last session of the newest run ended; nothing where none has begun."""
    *_, (_, _, sessions) = held(store, origin).values()
    return [ended for _, ended, _ in sessions[-1:]]


@pytest.mark.slow
@pytest.mark.needs("dask")
def test_a_worker_lost_before_its_first_row(scheduler: str, tmp_path: Path) -> None:
    """Its sweep was started, and waits for its turn: nobody here can say that it did not go on."""
    there, home = ["--store", str(tmp_path / "there.db")], ["--store", str(tmp_path / "home.db")]
    words = [*MEMLAB, *there, "hosts", "worker", scheduler, "--name", "a"]
    on = ("--on", f"dask:{scheduler}")
    with machine_lock(), subprocess.Popen(words, stderr=subprocess.PIPE) as worker:
        assert worker.stderr
        assert b"worker a of" in worker.stderr.readline()
        asked = [*MEMLAB, *home, "--wait=10s", "sweep", *TINY, "-q", *on]
        client = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True)
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
        try:
            while not children.read_text().strip():
                assert client.poll() is None
                time.sleep(0.1)
            time.sleep(1.0)  # that the answer comes back
            started = [int(pid) for pid in children.read_text().split()]
            worker.kill()
            _, said = client.communicate(timeout=300)
        finally:
            worker.kill()
            client.kill()
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert client.returncode == 3
    fetch = f"memlab --store {home[1]} hosts pull dask:{scheduler} fetches it"
    assert said == f"memlab: a: lost before its first row, and may go on there: {fetch}\n"
