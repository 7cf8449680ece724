"""The five experiments of docs/production.md beside peers that do the same work.

advice-reclaim beside fio, mmap-lock beside `perf stat`, reclaim-or-kill beside stress-ng, thp-cost
and retained-memory beside a plain C program: no packaged tool touches memory with and without huge
pages or says what malloc retains.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlab
from memlab import experiments
from memlab.run.fork_server import ForkServer
from memlab.run.machine_lock import machine_lock

from .bare import compiler
from .interleaved import Comparison, interleave, table
from .peers import Missing, debian

pytestmark = pytest.mark.bench

KIB, MIB = 2**10, 2**20
LIMIT_S = 60.0
FILE_BYTES = 32 * MIB
OBJECTS = {"64 KiB": 64 * KIB, "4 MiB": 4 * MIB}
THREADS, HELD_BYTES, ROUNDS = 16, 4 * MIB, 8
CALLS = {
    "sequential": "libc.madvise(at, 65536, 2)",
    "mprotect": "libc.mprotect(at, 65536, 1 + i % 2 * 2)",
    "dontneed": "libc.madvise(at, 65536, 4)",
}
TIMES, SIZES = (0.9, 1.1), (0.95, 1.05)

Trial = Callable[..., dict[str, Any]]


@pytest.fixture
def trial(cpu: int) -> Iterator[Trial]:
    """One trial at the quick levels but for those given, outside of any cgroup."""
    with machine_lock(wait_s=LIMIT_S):
        server = ForkServer()

        def run(name: str, file: dict[str, Any] | None = None, **levels: Any) -> dict[str, Any]:
            declared = experiments.load(name)
            at = {factor.name: factor.quick[0] for factor in declared.factors} | levels
            made = {"path": str(file["path"]) if file else "", "group": "", "folder": ""}
            asked = {"file": file, "limit_s": LIMIT_S, "group": None}
            cpus = [cpu] if declared.host.cpus == "one" else sorted(os.sched_getaffinity(0) | {cpu})
            params = declared.params(at, made)
            reply = server.run({"probe": declared.probe, "params": params, "cpus": cpus, **asked})
            assert reply["outcome"] == "ok", reply["detail"]
            found: dict[str, Any] = reply["result"]
            return found

        try:
            yield run
        finally:
            server.stop()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., float]:
    """bare_production.c, compiled and called."""
    cc = compiler()
    if cc is None:
        pytest.skip("no C compiler named cc")
    binary = tmp_path_factory.mktemp("bare") / "bare_production"
    source = Path(__file__).with_name("bare_production.c")
    subprocess.run([cc, "-O2", "-pthread", "-Wall", "-Werror", "-o", binary, source], check=True)
    return lambda *words: float(subprocess.check_output([str(w) for w in (binary, *words)]))


def tool(name: str, package: str = "") -> str:
    try:
        return debian(name, package)
    except Missing as missing:
        pytest.skip(str(missing))


def say(title: str, peer: str, rows: list[Comparison], limits: tuple[float, float]) -> None:
    print("\n" + table(title, "memlab", peer, rows))
    low, high = limits
    assert [row.label for row in rows if not low <= row.ratio.estimate <= high] == []


def test_a_miss_with_madv_random_takes_as_long_as_fios(trial: Trial, cpu: int) -> None:
    """fio advises its mapping itself, and reads each page of the file once. Its time is the mean
    latency, memlab's that of the accesses that missed."""
    fio = tool("fio")
    path = Path("/var/tmp") / f"memlab-bench-{os.getpid()}"
    file = {"path": str(path), "state": "dropped", "size_bytes": FILE_BYTES}
    options = {
        "name": "beside-memlab",
        "filename": path,
        "size": FILE_BYTES,
        "rw": "randread",
        "bs": 4096,
        "ioengine": "mmap",
        "cpus_allowed": cpu,
        "allow_file_create": 0,
        "disable_slat": 1,
        "output-format": "json",
    }
    words = [fio, "--thread", *(f"--{key}={value}" for key, value in options.items())]
    each: dict[str, list[float]] = {"memlab": [], "fio": []}

    def ours() -> float:
        raw = trial("advice-reclaim", file, advice="random", order="uniform", slice=0.0,
                    file_size=FILE_BYTES, operations=1000)  # fmt: skip
        each["memlab"].append(raw["window"]["major_fault_count"] / raw["absent_count"])
        return float(raw["operations_ns"] / raw["absent_count"]) / 1e3

    def theirs() -> float:
        job = json.loads(subprocess.check_output(words))["jobs"][0]
        each["fio"].append(job["majf"] / job["read"]["total_ios"])
        return float(job["read"]["clat_ns"]["mean"]) / 1e3

    try:
        ours()  # makes the file
        measured = interleave({"memlab": ours, "fio": theirs})
    finally:
        path.unlink(missing_ok=True)
    faults = Comparison("major faults", *(np.array(each[side][-15:]) for side in each))
    print("\n" + table("per miss", "memlab", "fio", [faults]))
    say("us per miss", "fio", [Comparison("mean", measured["memlab"], measured["fio"])], TIMES)
    assert faults.ratio.estimate == pytest.approx(1, abs=0.01)


def test_a_first_touch_takes_as_long_as_in_plain_c(
    trial: Trial, bare: Callable[..., float], cpu: int
) -> None:
    rows = []
    for pages in ("small", "huge"):

        def ours(pages: str = pages) -> float:
            raw = trial("thp-cost", pages=pages, used="all", loads=1)
            return float(raw["window"]["elapsed_ns"] / (64 * MIB // 4096))

        def theirs(pages: str = pages) -> float:
            return bare("touch", pages, 64 * MIB, cpu)

        ours(), theirs()
        measured = interleave({"memlab": ours, "C": theirs}, pairs=21)
        rows.append(Comparison(f"{pages} pages", measured["memlab"], measured["C"]))
    say("first touch, ns per 4 KiB", "plain C", rows, TIMES)


def test_as_much_stays_after_a_peak_as_in_plain_c(trial: Trial, bare: Callable[..., float]) -> None:
    rows = []
    for label, size in OBJECTS.items():

        def ours(size: int = size) -> float:
            raw = trial("retained-memory", object=size, at_once=THREADS, held=HELD_BYTES)
            return float(raw["after_bytes"]) / MIB

        def theirs(size: int = size) -> float:
            return bare("retain", THREADS, size, HELD_BYTES, ROUNDS) / MIB

        measured = interleave({"memlab": ours, "C": theirs})
        rows.append(Comparison(f"objects of {label}", measured["memlab"], measured["C"]))
    say("MiB left", "plain C", rows, SIZES)


def test_a_call_takes_the_lock_as_often_as_perf_stat_counts(trial: Trial) -> None:
    """perf counts a whole program: 2,000 calls less 1,000."""
    perf = tool("perf", "linux-perf")

    def counted(call: str, times: int) -> int:
        text = (
            "import ctypes; libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p\n"
            "at = ctypes.c_void_p(libc.mmap(None, 65536, 3, 34, -1, 0))\n"  # private, anonymous
            f"for i in range({times}): {CALLS[call]}"
        )
        event = "mmap_lock:mmap_lock_acquire_returned"
        words = [perf, "stat", "-x,", "-e", event, sys.executable, "-ISc", text]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode or not done.stderr[:1].isdigit():
            pytest.skip(f"perf does not count {event} here")
        return int(done.stderr.split(",")[0])

    for call in CALLS:

        def ours(call: str = call) -> float:
            raw = trial("mmap-lock", caller=call, victim="mincore", operations=101)
            locks = raw["calls"]
            if any(locks[kind]["error"] for kind in ("writes", "reads")):
                pytest.skip("the lock's tracepoints are not counted here")
            takes = locks["writes"]["count"] + locks["reads"]["count"]
            return float(takes / raw["counted_call_count"])

        def theirs(call: str = call) -> float:
            return round((counted(call, 2000) - counted(call, 1000)) / 1000, 2)

        measured = interleave({"memlab": ours, "perf": theirs}, pairs=7)
        each = {side: sorted(set(found.tolist())) for side, found in measured.items()}
        print(f"lock takes per {call}, 7 times each: {each}")
        assert each["memlab"] == pytest.approx(each["perf"], abs=0.02)


def test_the_limit_kills_what_it_kills_of_stress_ng(tmp_path: Path) -> None:
    """Twice the limit of anonymous memory, without swap and with it. stress-ng's worker would be
    started again after a kill, but for --oomable. With swap it is killed where reclaim-or-kill
    is not, which takes its memory in steps of 64 KiB and not by MAP_POPULATE at once
    (README.md says why): that is printed and not judged."""
    stress = tool("stress-ng")
    store = tmp_path / "store.db"
    words = [stress, "--vm", "1", "--vm-bytes", "96M", "--vm-populate", "--vm-ops", "2",
             "--oomable", "--temp-path", str(tmp_path)]  # fmt: skip
    swaps = ["none", "file"]
    theirs = memlab.trial(words, blocks=6, store=store, memory_max=["48M"], swap=swaps)
    ours = memlab.sweep(
        "reclaim-or-kill", blocks=6, controls=False, store=store, directory=tmp_path,
        memory=["anonymous"], swap=swaps,
    )  # fmt: skip
    sides = {"memlab": ours, "stress-ng": theirs}
    killed: dict[str, dict[str, int]] = {side: {} for side in sides}
    for swap in swaps:
        at = {side: run.frame[run.frame["swap"] == swap] for side, run in sides.items()}
        killed["memlab"][swap] = int(at["memlab"]["killed"].sum())
        killed["stress-ng"][swap] = int((at["stress-ng"]["outcome"] == "oom-killed").sum())
    print(f"\nof 6 killed, by swap: {killed}")
    assert killed["memlab"] == {"none": 6, "file": 0}
    assert killed["stress-ng"]["none"] == 6
