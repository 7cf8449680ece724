"""What a look does to a process of 2 GiB whose requests map memory: redis-server, measured by
redis-benchmark. jemalloc is set to keep nothing, so that each large value is mapped and unmapped.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from memlab.observe import proc

from . import peers

ROUNDS, REQUESTS, VALUE_BYTES = 9, 3000, 1 << 20
HELD_BYTES = 2 << 30
LOOK = (sys.executable, "-m", "memlab", "diagnose")


@dataclass(frozen=True, slots=True)
class Redis:
    pid: int
    socket: Path

    def client(self, program: str, *words: object) -> str:
        command = [program, "-s", str(self.socket), *map(str, words)]
        return subprocess.check_output(command, text=True)

    def requests(self, *look: str) -> tuple[float, float]:
        """Requests per second, and the longest of them in ms, while `look` runs."""
        asked = ["-t", "set", "-c", 1, "-d", VALUE_BYTES, "-n", REQUESTS, "--csv"]
        beside = subprocess.Popen(look, stdout=subprocess.DEVNULL) if look else None
        header, row = csv.reader(self.client("redis-benchmark", *asked).splitlines())
        found = dict(zip(header, row, strict=True))
        assert beside is None or beside.wait() == 0
        return float(found["rps"]), float(found["max_latency_ms"])


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    try:
        peers.debian("redis-server")
        peers.debian("redis-benchmark", "redis-tools")
    except peers.Missing as missing:
        pytest.skip(str(missing))
    if proc.meminfo()["MemAvailable"] < 2 * HELD_BYTES:
        pytest.skip("less than 4 GiB of memory are free")
    path = tmp_path / "redis"
    options = ["--port", "0", "--unixsocket", path, "--save", "", "--enable-debug-command", "yes"]
    with subprocess.Popen(
        ["redis-server", *options],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "MALLOC_CONF": "retain:false,dirty_decay_ms:0,muzzy_decay_ms:0"},
        cwd=tmp_path,
    ) as server:
        try:
            while not path.exists():
                assert server.poll() is None
                time.sleep(0.01)
            made = Redis(server.pid, path)
            made.client("redis-cli", "debug", "populate", HELD_BYTES >> 20, "key", 1 << 20)
            yield made
        finally:
            server.kill()


@pytest.mark.bench
def test_a_look_holds_no_request_up_for_a_millisecond(redis: Redis) -> None:
    looks = {
        "alone": (),
        "diagnose": (*LOOK, str(redis.pid), "--seconds", "2"),
        "smaps": ("cat", f"/proc/{redis.pid}/smaps_rollup"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in looks}
    for _ in range(ROUNDS):
        for name, look in looks.items():
            found[name].append(redis.requests(*look))
    longest_ms = {}
    for name, rounds in found.items():
        # The least of the rounds: what others do adds to some, what the look does to all.
        longest_ms[name] = min(longest for _, longest in rounds)
        per_s = statistics.median(per_s for per_s, _ in rounds)
        print(f"\n{name}: longest request {longest_ms[name]:.2f} ms, {per_s:.0f} per s", end="")
    assert longest_ms["diagnose"] < longest_ms["alone"] + 1.0
    assert longest_ms["smaps"] > longest_ms["alone"] + 1.0  # so it would be seen
