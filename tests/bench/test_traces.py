"""Replays of recorded traces beside the programs themselves, under the same policies: peak resident
memory, page faults, time in the kernel. The tables of README.md. What a row is held to is
marked in it: bold is farther off, and in italics is a time that was counted too coarsely to say.

Without CONFIG_VIRT_CPU_ACCOUNTING_GEN a process's own share of the kernel (ru_stime) is a count of
ticks, scaled to its whole time, which is exact. So a program's has the error of a sample of its
ticks; a replay, which computes nothing, is held by its whole time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlab
from memlab.results import Run

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]
BLOCKS = 8
POLICIES: Mapping[str, list[str]] = {"lock": ["off", "future"], "thp": ["never", "always"]}
PEAK, FAULTS, KERNEL = (0.05, 1.0), (0.02, 100), (0.25, 2.0)  # a share, or so many MiB, or ms
TICK_S = time.clock_getres(6)  # CLOCK_MONOTONIC_COARSE (clock_gettime(2)), which a tick moves
ORDERS = ["recorded", "free"]
SHOWN = {
    "peak": "{:.1f}", "faults": "{:,.0f}", "kernel_ms": "{:.1f}", "flushes": "{:,.0f}",
    "switches": "{:,.0f}",
}  # fmt: skip

REDIS = """\
redis-server --port 0 --unixsocket s --save '' --daemonize no >/dev/null & p=$!
until redis-cli -s s ping >/dev/null 2>&1; do :; done
redis-benchmark -s s -t set -n 20000 -d 512 -r 20000 -q >/dev/null
kill $p; wait $p"""
JAVA = """\
public class A {
    public static void main(String[] words) {
        byte[][] held = new byte[400][];
        for (int i = 0; i < held.length; i++) {
            held[i] = new byte[100_000];
            held[i][i] = 1;
        }
    }
}
"""
NODE = "const held = []; for (let i = 0; i < 200000; i++) held.push({i, s: 'x' + i})"
SQLITE = (
    "CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
    "WHERE i < 200000) INSERT INTO t SELECT i, 'row ' || i FROM n; SELECT count(*) FROM t"
)
THREADS = """\
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *churn(void *seed)
{
	void *held[64] = {0};
	unsigned state = (unsigned)(size_t)seed;
	for (int i = 0; i < 1200000; i++) {
		state = state * 1103515245 + 12345;
		unsigned at = state >> 16 & 63;
		free(held[at]);
		size_t bytes = 16 + (state >> 8 & 0xffff);
		held[at] = malloc(bytes);
		memset(held[at], 1, bytes < 64 ? bytes : 64);
	}
	return NULL;
}
int main(void)
{
	pthread_t made[4];
	for (size_t i = 0; i < 4; i++)
		pthread_create(&made[i], NULL, churn, (void *)(i + 1));
	for (size_t i = 0; i < 4; i++)
		pthread_join(made[i], NULL);
	return 0;
}
"""


def _lines(folder: Path) -> None:
    (folder / "lines").write_text("".join(f"{n * 7919 % 400_009:x} line\n" for n in range(400_000)))


def _java(folder: Path) -> None:
    (folder / "A.java").write_text(JAVA)
    subprocess.run(["javac", "A.java"], cwd=folder, check=True)


def _threads(folder: Path) -> None:
    (folder / "t.c").write_text(THREADS)
    subprocess.run(["cc", "-O1", "-pthread", "-o", "t", "t.c"], cwd=folder, check=True)


@dataclass(frozen=True)
class Program:
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    make: object = None


FILLS = "for _ in range(5): x = bytearray(40_000_000)"
PROGRAMS = {
    "python3, 40 MB five times": Program((sys.executable, "-I", "-S", "-c", FILLS)),
    "sort, 400,000 lines, -S 48M": Program(
        ("sort", "-S", "48M", "--parallel=1", "-o", "/dev/null", "lines"), ("sort",), _lines
    ),
    "sqlite3, 200,000 rows in memory": Program(("sqlite3", ":memory:", SQLITE), ("sqlite3",)),
    "redis-server, 20,000 sets of 512 B, with its load": Program(
        ("sh", "-c", REDIS), ("redis-server", "redis-benchmark")
    ),
    "java, 400 arrays of 100 kB": Program(
        ("java", "-XX:+UseSerialGC", "-cp", ".", "A"), ("java", "javac"), _java
    ),
    "node, 200,000 objects": Program(("node", "-e", NODE), ("node",)),
    "gcc -O2 -c launch.c": Program(
        ("gcc", "-O2", "-c", "-o", "/dev/null", str(ROOT / "memlab/command/launch.c")), ("gcc",)
    ),
    "malloc in four threads": Program(("./t",), ("cc",), _threads),
}


@dataclass(frozen=True)
class Seen:
    """Of one point: medians of peak in MiB, of faults and of flushes sent to other CPUs; means of
    milliseconds in the kernel, with a standard error of its ticks, and of switches; how it ended if
    not well."""

    peak: float
    faults: float
    flushes: float
    kernel_ms: float
    error_ms: float
    switches: float
    ended: str


def _seen(run: Run, replay: bool, **levels: str) -> Seen:
    point = next(run.matching(levels))
    of_point = [sample for sample in run.samples if sample.point == point.index]
    windows = [sample.raw["window"] for sample in of_point if sample.raw]
    names = ("user_ns", "system_ns", "voluntary_switch_count", "involuntary_switch_count")
    user, system, *switches = (float(np.mean([one[name] for one in windows])) for name in names)
    kernel = user + system if replay else system
    coarse = (
        0.0 if replay else np.sqrt(TICK_S * 1e9 * system * user / (user + system) / len(windows))
    )
    peak, faults, flushes = (
        float(np.median(values)) if len(values := run.values(name, point)) else np.nan
        for name in ("peak_rss", "faults", "tlb_remote_sent")
    )
    ended = " ".join({sample.outcome for sample in of_point} - {"ok"})
    return Seen(peak / 2**20, faults, flushes, kernel * 1e-6, coarse * 1e-6, sum(switches), ended)


def _pair(
    program: float, replay: float, bound: tuple[float, float], shown: str, error: float = 0
) -> str:
    share, least = bound
    words = f"{shown.format(program)} / {shown.format(replay)}"
    off, most = abs(replay - program), max(share * program, least)
    if off + 2 * error <= most:
        return words
    return f"*{words}*" if off - 2 * error <= most else f"**{words}**"


def _cells(ours: Seen, again: Seen) -> list[str]:
    return [
        _pair(ours.peak, again.peak, PEAK, "{:.1f}"),
        _pair(ours.faults, again.faults, FAULTS, "{:,.0f}"),
        _pair(ours.kernel_ms, again.kernel_ms, KERNEL, "{:.1f}", ours.error_ms),
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replay_beside_the_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[name]
    if os.geteuid() != 0:
        pytest.skip("run as root: recording needs tracefs")
    if missing := [one for one in program.needs if shutil.which(one) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    monkeypatch.chdir(tmp_path)
    if callable(program.make):
        program.make(tmp_path)
    said = subprocess.run(
        [sys.executable, "-m", "memlab", "record", "-o", "app.trace", "--", *program.command],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not re.search("incomplete|lost", said.stderr + said.stdout), said
    common: dict[str, Any] = {
        **POLICIES,
        "blocks": BLOCKS,
        "store": tmp_path / "results.db",
        "progress": False,
    }
    itself = memlab.trial(list(program.command), **common)
    replay = memlab.trial(["app.trace"], **common, order=ORDERS)
    print(f"\n| {name} | | peak resident memory, MiB | page faults | in the kernel, ms |")
    print("| --- | --- | --- | --- | --- |")
    lines = []
    for lock, thp in product(*POLICIES.values()):
        ours = _seen(itself, False, lock=lock, thp=thp)
        turns, free = (_seen(replay, True, lock=lock, thp=thp, order=one) for one in ORDERS)
        how = ours.ended or turns.ended
        print(f"| | {lock}, {thp} {how} | {' | '.join(_cells(ours, turns))} |")
        of_all = (
            " / ".join(shown.format(getattr(one, what)) for one in (ours, turns, free))
            for what, shown in SHOWN.items()
        )
        lines.append(f"| | {lock}, {thp} {free.ended} | {' | '.join(of_all)} |")
    print("\n| the program / order=recorded / order=free | | " + " | ".join(SHOWN) + " |")
    print("| --- | --- |" + " --- |" * len(SHOWN), *lines, sep="\n")
    assert len(itself.points) == 4
    assert len(replay.points) == 8
