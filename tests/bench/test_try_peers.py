"""`memlab try` beside the tools that each measure one thing of a command: elapsed time beside
hyperfine, peak resident memory beside GNU time, page faults beside `perf stat`; and what a trial
costs beside a bare fork and exec.

The commands run without address space randomisation, so that their faults are the same each time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memlab.experiment import command
from memlab.run.fork_server import ForkServer

from .interleaved import Comparison, interleave, table

pytestmark = pytest.mark.bench

FIXED = ["setarch", "-R"]
COMMANDS = {
    "python3": [*FIXED, sys.executable, "-I", "-S", "-c", "x = bytearray(30_000_000)"],
    "sort": [*FIXED, "sort", "--parallel=1", "-S", "16M", "-o", "/dev/null", "lines"],
    "sha256sum": [*FIXED, "sha256sum", "lines"],
}
NOTHING = ["true"]
PAIRS = 21
TRIAL_LIMIT_MS = 40.0
TIME_RATIOS, COUNT_RATIOS = (0.9, 1.1), (0.99, 1.01)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("commands")
    lines = (f"{number * 7919 % 200_003:x} {number}\n" for number in range(200_000))
    (made / "lines").write_text("".join(lines))
    return made


@pytest.fixture
def trial(server: ForkServer, folder: Path) -> Callable[[list[str]], dict[str, Any]]:
    """One trial of a command outside of any cgroup, as the sample keeps it."""

    def run(words: list[str]) -> dict[str, Any]:
        declared = command.declare({"argv": words, "cwd": str(folder), "levels": {}})
        asked = {"file": None, "cpus": sorted(os.sched_getaffinity(0)), "limit_s": 60.0}
        params = declared.params({"lock": "off"}, {"group": "", "processes": ""})
        reply = server.run({"probe": "command", "params": params, **asked})
        assert reply["outcome"] == "ok", reply
        found: dict[str, Any] = reply["result"]
        return found

    return run


def printed(words: list[str], folder: Path) -> str:
    """What a peer says of the command, whose own output it does not share."""
    done = subprocess.run(
        words,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stderr


def hyperfine_ms(words: list[str], folder: Path) -> float:
    out = folder / "hyperfine.json"
    line = " ".join(word if word.isalnum() else f"'{word}'" for word in words)
    printed(["hyperfine", "-N", "-r", "1", "--export-json", str(out), line], folder)
    return float(json.loads(out.read_text())["results"][0]["mean"]) * 1e3


def time_mib(words: list[str], folder: Path) -> float:
    said = printed(["/usr/bin/time", "-f", "%M", *words], folder)
    return float(said.splitlines()[-1]) / 1024


def perf_faults(words: list[str], folder: Path) -> float:
    said = printed(["perf", "stat", "-x,", "-e", "page-faults", *words], folder)
    return float(next(line for line in said.splitlines() if "page-faults" in line).split(",")[0])


@pytest.mark.parametrize(
    ("peer", "program", "asked", "of", "limits"),
    [
        ("hyperfine, ms", "hyperfine", hyperfine_ms,
         lambda raw: raw["window"]["elapsed_ns"] / 1e6, TIME_RATIOS),
        ("GNU time, MiB", "/usr/bin/time", time_mib,
         lambda raw: raw["rss_peak_bytes"] / 2**20, COUNT_RATIOS),
        ("perf stat, faults", "perf", perf_faults,
         lambda raw: raw["window"]["counters"]["trapped"]["count"], COUNT_RATIOS),
    ],
    ids=["elapsed_as_hyperfine", "peak_memory_as_gnu_time", "faults_as_perf_stat"],
)  # fmt: skip
def test_try_agrees(
    peer: str,
    program: str,
    asked: Callable[[list[str], Path], float],
    of: Callable[[dict[str, Any]], float],
    limits: tuple[float, float],
    trial: Callable[[list[str]], dict[str, Any]],
    folder: Path,
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    rows = []
    for name, words in COMMANDS.items():
        sides = {"memlab": partial(_one, of, trial, words), "peer": partial(asked, words, folder)}
        measured = interleave(sides, pairs=PAIRS)
        rows.append(Comparison(name, measured["memlab"], measured["peer"]))
    print("\n" + table("command", "memlab try", peer, rows))
    for row in rows:
        assert limits[0] <= row.ratio.estimate <= limits[1], row.label


def _one(
    of: Callable[[dict[str, Any]], float],
    trial: Callable[[list[str]], dict[str, Any]],
    words: list[str],
) -> float:
    return of(trial(words))


def test_a_trial_beside_a_bare_fork_and_exec(
    trial: Callable[[list[str]], dict[str, Any]],
) -> None:
    path = str(shutil.which(NOTHING[0]))

    def bare() -> float:
        began = time.perf_counter()
        os.waitpid(os.posix_spawn(path, NOTHING, os.environ), 0)
        return (time.perf_counter() - began) * 1e3

    def whole() -> float:
        began = time.perf_counter()
        trial(NOTHING)
        return (time.perf_counter() - began) * 1e3

    trial(NOTHING)  # the fork server imports the probe after the first
    measured = interleave({"trial": whole, "bare": bare}, pairs=PAIRS)
    row = Comparison("true", measured["trial"], measured["bare"])
    print("\n" + table("ms", "trial", "fork and exec", [row]))
    beside = float(np.median(measured["trial"] - measured["bare"]))
    print(f"a trial beside a bare fork and exec: {beside:.1f} ms")
    assert beside < TRIAL_LIMIT_MS
