"""`memlab try` beside the tools that each measure one thing of a command: elapsed time beside
hyperfine, peak resident memory beside GNU time, page faults beside `perf stat`; and what a trial
costs beside a bare fork and exec.

The commands run without address space randomisation, which both sides set before their execve(2),
and with the same environment, which takes pages of the stack: so their faults are the same each
time. perf's count starts with execve(2) on either side, and no fault of the harness is in it.
wait4(2) counts some more, of execve(2) itself: the pages that the command line and the environment
are copied to.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlab
from memlab.experiment import tried as command
from memlab.judging.compare_levels import compare_levels
from memlab.run.fork_server import ForkServer

from .interleaved import Comparison, interleave, table
from .peers import Missing, debian

pytestmark = pytest.mark.bench

FIXED = ["setarch", "-R"]
ENVIRON = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}  # a locale, or Python would set one
COMMANDS = {
    "python3": [sys.executable, "-I", "-S", "-c", "x = bytearray(30_000_000)"],
    "sort": ["sort", "--parallel=1", "-S", "16M", "-o", "/dev/null", "lines"],
    "sha256sum": ["sha256sum", "lines"],
}
NOTHING = ["true"]
PAIRS, RUNS = 21, 20
TRIAL_LIMIT_MS = 20.0
TIME_RATIOS, MEMORY_RATIOS, EXACT = (0.9, 1.1), (0.99, 1.01), (1.0, 1.0)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """With the environment that `perf stat` gives to a command: it adds variables of its own."""
    environ = ENVIRON
    with suppress(Missing):
        words = [debian("perf", "linux-perf"), "stat", "-o", "/dev/null", "env"]
        done = subprocess.run(words, env=ENVIRON, capture_output=True, text=True, check=True)
        environ = dict(line.split("=", 1) for line in done.stdout.splitlines())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "environ", environ)
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
        at = {"lock": "off", "aslr": "off"}
        asked = {"file": None, "cpus": sorted(os.sched_getaffinity(0)), "limit_s": 60.0}
        params = declared.params(at, {"group": "", "processes": "", "mark": "MARK=1"})
        reply = server.run({"probe": "command", "params": params, **asked})
        assert reply["outcome"] == "ok", reply
        found: dict[str, Any] = reply["result"]
        return found

    return run


def printed(words: list[str], folder: Path) -> str:
    """What a peer says of the command, whose own output it does not share."""
    done = subprocess.run(
        [*FIXED, *words],
        cwd=folder,
        env=ENVIRON,
        stdin=subprocess.DEVNULL,
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
    ("peer", "program", "package", "asked", "of", "limits"),
    [
        ("hyperfine, ms", "hyperfine", "hyperfine", hyperfine_ms,
         lambda raw: raw["window"]["elapsed_ns"] / 1e6, TIME_RATIOS),
        ("GNU time, MiB", "/usr/bin/time", "time", time_mib,
         lambda raw: raw["rss_peak_bytes"] / 2**20, MEMORY_RATIOS),
        ("perf stat, faults", "perf", "linux-perf", perf_faults,
         lambda raw: raw["window"]["counters"]["trapped"]["count"], EXACT),
    ],
    ids=["elapsed_as_hyperfine", "peak_memory_as_gnu_time", "faults_as_perf_stat"],
)  # fmt: skip
def test_try_agrees(
    peer: str,
    program: str,
    package: str,
    asked: Callable[[list[str], Path], float],
    of: Callable[[dict[str, Any]], float],
    limits: tuple[float, float],
    trial: Callable[[list[str]], dict[str, Any]],
    folder: Path,
) -> None:
    try:
        debian(program, package)
    except Missing as missing:
        pytest.skip(str(missing))
    rows = []
    for name, words in COMMANDS.items():
        sides = {"memlab": partial(_one, of, trial, words), "peer": partial(asked, words, folder)}
        for side in sides.values():  # its files are in memory then, and take no major fault
            side()
        measured = interleave(sides, pairs=PAIRS)
        rows.append(Comparison(name, measured["memlab"], measured["peer"]))
    print("\n" + table("command", "memlab try", peer, rows))
    for row in rows:
        if limits == EXACT:
            assert row.over.tolist() == row.under.tolist(), row.label
        assert limits[0] <= row.ratio.estimate <= limits[1], row.label


def _one(
    of: Callable[[dict[str, Any]], float],
    trial: Callable[[list[str]], dict[str, Any]],
    words: list[str],
) -> float:
    return of(trial(words))


SPIN = """
#include <stdlib.h>
int main(int argc, char **argv) {
    for (volatile long n = argc == 2 ? atol(argv[1]) : 0; n; n--)
        ;
}
"""
WORK = {"base": "10000000", "the same": "+10000000", "more": "11500000"}  # turns of the loop
SHORT_BLOCKS = 150


def test_15_percent_more_work_is_found_and_the_same_work_is_the_same(tmp_path: Path) -> None:
    """20 runs of a program of some 20 ms. A host whose speed changes within a second hides 15 % of
    20 long trials, and not of 150 short ones, which take as long."""
    (tmp_path / "spin.c").write_text(SPIN)
    spin = str(tmp_path / "spin")
    subprocess.run(["cc", "-O1", "-o", spin, tmp_path / "spin.c"], check=True)
    turns = {text: name for name, text in WORK.items()}
    words: Counter[tuple[str, str, str]] = Counter()
    for _ in range(RUNS):
        run = memlab.trial(
            [spin, "{work}"],
            blocks=SHORT_BLOCKS,
            store=tmp_path / "store.db",
            work=list(WORK.values()),
        )
        for metric in ("cpu_time", "elapsed"):
            for point in compare_levels(run, {"work": WORK["base"]}, metric=metric).points:
                words[metric, turns[str(point.at["work"])], point.comparison.word] += 1
    print("\n" + "\n".join(f"{' '.join(what)}: {n} of {RUNS}" for what, n in sorted(words.items())))
    wrong = {"more": ("same", "faster"), "the same": ("slower", "faster")}
    assert not [said for said in words if said[2] in wrong[said[1]]]
    assert all(words[metric, "more", "slower"] == RUNS for metric in ("cpu_time", "elapsed"))


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
