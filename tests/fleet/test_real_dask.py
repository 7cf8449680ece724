"""A Dask scheduler with TLS and four hosts with a worker and a store of their own: two clients
measure at once, while a worker, its host, the scheduler and a link fail."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command import process
from four_hosts import (
    NAMES,
    end,
    host,
    run,
    started,
    taken_one_at_a_time,
    theirs,
    until,
)
from pretended_hosts import held

pytestmark = [
    pytest.mark.slow,
    pytest.mark.changes_host,
    pytest.mark.needs(
        "host root", "a mount namespace", "a network namespace", "ip", "openssl", "dask"
    ),
]
with socket.create_server(("", 0)) as free:
    PORT = free.getsockname()[1]
HERE = f"dask:tls://127.0.0.1:{PORT}"
HOLDING = """
import time
from memlab.run.machine_lock import machine_lock
with machine_lock():
    print("held", flush=True)
    time.sleep(300)
"""
BLOCKS = 25  # of two points by four hosts: 200 trials for each client
HOW = ["-p", "slice=20ms", "--blocks", str(BLOCKS)]


@pytest.fixture
def certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all three roles, in this environment, which every process inherits. A dead link is
    found after 11 s, which is the least that Dask takes."""
    key, cert = tmp_path / "tls.key", tmp_path / "tls.crt"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    run(*words, "-nodes", "-subj", "/CN=memlab", "-days", "2", "-keyout", key, "-out", cert)
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__CA_FILE", str(cert))
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT", str(cert))
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY", str(key))
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP", "11s")


class Cluster:
    """A scheduler, and a host for each name, whose first program is a worker."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.hosts: dict[str, subprocess.Popen[bytes]] = {}
        self.start_scheduler()

    def start_scheduler(self) -> None:
        words = ["scheduler", "--host", "tls://0.0.0.0", "--port", str(PORT), "--no-dashboard"]
        with (self.folder / "scheduler").open("ab") as log:
            self.scheduler = subprocess.Popen(
                [sys.executable, "-m", "dask", *words], stdout=log, stderr=log
            )
        self.stack.callback(self.scheduler.wait)
        self.stack.callback(self.scheduler.kill)

    def start(self, name: str) -> None:
        """A worker that its host starts again when it ends, as systemd would."""
        (self.folder / name).mkdir()
        address = f"tls://10.9.{NAMES.index(name) + 1}.1:{PORT}"
        words = f"{sys.executable} -m memlab hosts worker {address}"
        serve = f"bash -c 'while :; do {words} --name {name}; sleep 0.5; done'"
        self.hosts[name] = self.stack.enter_context(host(self.folder / name, name, serve))

    def worker(self, name: str) -> int:
        """The pid of a host's worker."""
        (pid,) = children(self.hosts[name].pid, "worker")
        return pid

    def said(self, name: str) -> str:
        return (self.folder / name / "log").read_text()

    def joined(self, name: str, count: int) -> bool:
        return self.said(name).count(f"worker {name} of tls") == count

    def trials(self, name: str) -> int:
        store = theirs(self.folder, name)
        return sum(len(one[1]) for one in held(store, None).values()) if store.exists() else 0

    def sweeps(self, name: str) -> int:
        """How many run on a host, waiting ones among them."""
        return len(children(self.hosts[name].pid, "sweep"))


def children(host: int, word: str) -> list[int]:
    """The processes of memlab in a host's network that were given this command."""
    its, found = os.readlink(f"/proc/{host}/ns/net"), []  # noqa: PTH115
    for place in Path("/proc").glob("[0-9]*"):
        try:
            here = os.readlink(place / "ns/net")  # noqa: PTH115
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        words = [one for one in words if not one.startswith(b"--")]  # those before a command
        if here == its and {(b"memlab", word.encode()), (b"hosts", word.encode())} & {
            *pairwise(words[:5])
        }:
            found.append(int(place.name))
    return found


@pytest.fixture
def cluster(tmp_path: Path, certificates: None) -> Iterator[Cluster]:
    with ExitStack() as stack:
        made = Cluster(tmp_path, stack)
        for name in NAMES:
            made.start(name)
        for name in NAMES:
            until(lambda at=name: made.joined(at, 1))
        yield made


def test_whatever_fails_nothing_is_lost_and_nothing_measured_twice(
    cluster: Cluster, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    stores = [tmp_path / "first.db", tmp_path / "second.db"]
    # d waits until a has ended, so that a's worker can be killed before the others end.
    d = str(cluster.hosts["d"].pid)
    holding = subprocess.Popen(
        ["nsenter", "-t", d, "-m", "-n", sys.executable, "-c", HOLDING], stdout=subprocess.PIPE
    )
    assert holding.stdout
    assert holding.stdout.readline()
    clients = [
        started(HERE, store, *HOW, "--name", name)
        for store, name in zip(stores, ("first", "second"), strict=True)
    ]
    for client in clients:
        cluster.stack.callback(client.communicate)
        cluster.stack.callback(client.kill)
    try:
        until(lambda: cluster.trials("c") > 5)
        run("ip", "link", "set", "c0", "down")
        until(lambda: cluster.trials("b") > 5)
        end(cluster.hosts["b"])
        all_of_a = 2 * 2 * BLOCKS
        until(lambda: sum(at_home(store, "a") for store in stores) == all_of_a)
        os.kill(cluster.worker("a"), 9)
        until(lambda: cluster.joined("a", 2))
        assert cluster.sweeps("d") == 2, [clients[0].poll(), cluster.said("d")]
    finally:
        holding.kill()
        holding.communicate()
    until(lambda: cluster.trials("d") > 5)
    cluster.scheduler.kill()
    said = [client.communicate(timeout=600)[1] for client in clients]
    assert [client.returncode for client in clients] == [3, 3], said
    for err in said:
        assert err.endswith("memlab: 3 of 4 hosts failed: b, c, d\n"), err
    # What fails of the cluster ends no sweep: c and d measure what they were asked by both.
    for name in ("c", "d"):
        until(lambda at=name: cluster.sweeps(at) == 0)
        assert cluster.trials(name) == all_of_a
    left = cluster.trials("b")
    assert 5 < left < all_of_a
    run("ip", "link", "set", "c0", "up")
    (tmp_path / "b").rename(tmp_path / "before")
    cluster.start_scheduler()
    cluster.start("b")
    (tmp_path / "before/data").rename(tmp_path / "b/data")
    for name, count in {"a": 3, "b": 1, "c": 2, "d": 2}.items():
        until(lambda at=name, want=count: cluster.joined(at, want))

    ((cut, _),) = held(theirs(tmp_path, "b"), None).items()
    (tmp_path / "b.toml").write_text(f'[hosts.b]\ndask = "{HERE.removeprefix("dask:")}"\n')
    words = ["--wait=1min", "sweep", "--resume", cut, "--on", str(tmp_path / "b.toml")]
    done = process("--store", str(stores[0]), *words)
    assert done.returncode == 0, done.stderr
    assert cluster.trials("b") == 2 * BLOCKS
    trials = 0
    for store in stores:
        done = process("--store", str(store), "hosts", "pull", HERE)
        assert done.returncode == 0, done.stderr
        for name in NAMES:
            assert by_time(store, name) == by_time(theirs(tmp_path, name), None)
    for name in NAMES:
        trials += len(taken_one_at_a_time(theirs(tmp_path, name)))
    assert trials == 2 * 4 * 2 * BLOCKS - 2 * BLOCKS  # b lost one that had not begun
    tell(f"{trials} trials of two clients on four hosts; b fell after {left}, and was resumed")


def by_time(store: Path, origin: str | None) -> dict[str, list[Any]]:
    """What came after what was resumed stands behind it."""
    return {
        run: [points, sorted(samples, key=lambda one: one.started_at), sessions]
        for run, (points, samples, sessions) in held(store, origin).items()
    }


def at_home(store: Path, name: str) -> int:
    if not store.exists():
        return 0
    return sum(len(one[1]) for one in held(store, name).values())
