"""What a sweep takes from a service beside it, with --gentle and without: redis-server, as
redis-benchmark sees it, and the processor time of the sweep's own processes."""

from __future__ import annotations

import csv
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import peers

ROUNDS, REQUESTS = 5, 400_000
SHARE = 0.25  # that --gentle keeps within, unless told otherwise
SWEEP = (sys.executable, "-m", "memlab", "sweep", "page-fault", "--budget", "10min", "-q")


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    try:
        peers.debian("redis-server")
        peers.debian("redis-benchmark", "redis-tools")
    except peers.Missing as missing:
        pytest.skip(str(missing))
    path = tmp_path / "redis"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tmp_path) as server:
        try:
            while not path.exists():
                assert server.poll() is None
                time.sleep(0.01)
            yield path
        finally:
            server.kill()


def requests(socket: Path) -> tuple[float, float]:
    """Requests per second, and the 99th percentile of their latencies in ms."""
    asked = ["-s", socket, "-t", "get", "-c", 8, "-n", REQUESTS, "--csv"]
    text = subprocess.check_output(["redis-benchmark", *map(str, asked)], text=True)
    header, row = csv.reader(text.splitlines())
    found = dict(zip(header, row, strict=True))
    return float(found["rps"]), float(found["p99_latency_ms"])


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """The processor time of a process that ends, with its children's."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


@pytest.mark.bench
def test_a_gentle_sweep_takes_its_share_from_a_service(socket: Path, tmp_path: Path) -> None:
    sweeps = {
        "alone": (),
        "beside a sweep": (*SWEEP, "--store", str(tmp_path / "plain.db")),
        "beside a sweep --gentle": (*SWEEP, "--store", str(tmp_path / "spared.db"), "--gentle"),
    }
    start_s = cpu_s(subprocess.Popen([*SWEEP, "--dry-run"], stdout=subprocess.DEVNULL))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sweeps}
    shares: dict[str, list[float]] = {name: [0.0] for name in sweeps}
    for _ in range(ROUNDS):
        for name, sweep in sweeps.items():
            if not sweep:
                found[name].append(requests(socket))
                continue
            began = time.monotonic()
            beside = subprocess.Popen(sweep, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(3.0)  # until it measures
            found[name].append(requests(socket))
            assert beside.poll() is None
            beside.send_signal(signal.SIGINT)
            shares[name].append((cpu_s(beside) - start_s) / (time.monotonic() - began))
    print("\n| | requests per second | 99th percentile | CPUs that the sweep used |")
    print("| --- | --- | --- | --- |")
    for name, rounds in found.items():
        per_s, p99_ms = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"| {name} | {per_s:,.0f} | {p99_ms:.2f} ms | {max(shares[name]):.2f} |")
    assert max(shares["beside a sweep --gentle"]) < SHARE + 0.05
    assert max(shares["beside a sweep"]) > 2 * SHARE  # so more would be seen
