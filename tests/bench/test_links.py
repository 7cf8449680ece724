"""What a link costs a measurement: a sweep by itself, beside a worker that waits, over ssh and
through a Dask cluster with its rows coming home meanwhile. All of it on this machine, so that
scheduler, client and sshd take their part of it too: a host of a real fleet has less beside it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from memlab import api

from .interleaved import Comparison, interleave, table

pytestmark = pytest.mark.bench

ROUNDS = 12
LIMIT = 0.02  # within which the sides are to be equivalent
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
MEMLAB = [sys.executable, "-m", "memlab"]
SWEEP = [
    "--wait=1min",
    "sweep",
    "mmap-write",
    "-p",
    "size=4k",
    "-p",
    "method=write",
    "-p",
    "filesystem=tmpfs",
]
SWEEP += [
    "-p",
    "file_size=64m",
    "-p",
    "slice=20ms",
    "--no-controls",
    "--blocks",
    "40",
    "-q",
]


def _port() -> int:

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    with ExitStack() as stack:

        def start(*words: str | Path) -> subprocess.Popen[bytes]:
            made = stack.enter_context(subprocess.Popen(words, stderr=subprocess.DEVNULL))
            stack.callback(made.terminate)
            return made

        yield start


@pytest.mark.needs("root", "ssh", "sshd")
@pytest.mark.needs("dask")
def test_a_link_changes_no_measurement(
    tmp_path: Path, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    key, hosts, scheduler = tmp_path / "key", tmp_path / "hosts.toml", f"tcp://127.0.0.1:{_port()}"
    for file in (key, tmp_path / "host"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)]
        subprocess.run(words, check=True)
    port = _port()
    config = tmp_path / "config"
    config.write_text(
        f"HostKey {tmp_path}/host\nAuthorizedKeysFile {key}.pub\nStrictModes no\nUsePAM no\n"
        f"PidFile none\nListenAddress 127.0.0.1:{port}\n"
    )
    hosts.write_text(
        f'[hosts.here]\nssh = "root@127.0.0.1"\nstore = "{tmp_path}/ssh.db"\n'
        f'memlab = "{sys.executable} -m memlab"\n'
        f'options = ["-F", "none", "-i", "{key}", "-p", "{port}", "-o", "LogLevel=ERROR",'
        ' "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]\n'
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    assert SSHD
    started(SSHD, "-D", "-f", config)
    address = scheduler.rpartition("//")[2]
    started(
        *(sys.executable, "-m", "dask", "scheduler", "--no-dashboard"),
        *("--host", "tcp://127.0.0.1", "--port", address.rpartition(":")[2]),
    )

    def measured(*more: str) -> float:
        """The median time for 2 GiB, in s."""
        store = tmp_path / "home.db"
        subprocess.run(
            [*MEMLAB, "--store", str(store), *SWEEP, *more], check=True, stdout=subprocess.DEVNULL
        )
        with api.Store(store) as opened:
            run = api.Run(opened.runs()[-1], store)
        (point,) = run.points
        return float(np.median(run.values(run.metrics[0].name, point)))

    worker: list[subprocess.Popen[bytes]] = []

    def with_worker(*more: str) -> float:
        words = ["--store", f"{tmp_path}/dask.db"]
        words += ["hosts", "worker", scheduler, "--name", f"w{len(worker)}"]
        made = subprocess.Popen([*MEMLAB, *words], stderr=subprocess.PIPE)
        worker.append(made)
        assert made.stderr
        assert b"worker" in made.stderr.readline()
        try:
            return measured(*more)
        finally:
            made.terminate()
            made.communicate()

    time.sleep(3)
    sides = {
        "local": lambda: measured(),
        "local again": lambda: measured(),
        "beside a waiting worker": lambda: with_worker(),
        "over ssh": lambda: measured("--on", str(hosts)),
        "through Dask": lambda: with_worker("--on", f"dask:{scheduler}"),
    }
    found = interleave(sides, pairs=ROUNDS)
    rows = [Comparison(name, of, found["local"]) for name, of in found.items() if name != "local"]
    print("\n" + table("4 KiB write, s per 2 GiB", "with", "local", rows))
    for row in rows:
        low, high = row.ratio.low, row.ratio.high
        assert low is not None, row.label
        assert high is not None, row.label
        assert low > 1 / (1 + LIMIT), row.label
        assert high < 1 + LIMIT, row.label
