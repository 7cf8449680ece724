"""memlab's rate of thread creation beside a plain C loop's, and beside stress-ng's stressor."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlab import experiments
from memlab.run.fork_server import ForkServer
from memlab.run.machine_lock import machine_lock

from .bare import compiler
from .interleaved import Comparison, interleave, table
from .peers import Missing, debian
from .stress_ng import StressNg

pytestmark = pytest.mark.bench

EXPERIMENT = experiments.load("thread-create")
LIVE_THREADS = [1, 4]
THREADS = 4000
STRESS_LIVE_THREADS = 16
STRESS_THREADS = 1600
AGREES = (0.95, 1.05)
PRECISION = 0.02
LIMIT_S = 60.0


class Creator:
    """memlab's side: one process without a lock, on one CPU."""

    def __init__(self, server: ForkServer, cpu: int) -> None:
        self._server = server
        self._cpu = cpu

    def metric(self, name: str, live_threads: int, threads: int) -> float:
        at = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors}
        at |= {"live_threads": live_threads, "threads": threads, "slice": 0.0}
        trial = {
            "probe": EXPERIMENT.probe,
            "params": EXPERIMENT.params(at, {}),
            "file": None,
            "cpus": [self._cpu],
            "limit_s": LIMIT_S,
            "group": None,
        }
        reply = self._server.run(trial)
        assert reply["outcome"] == "ok", reply["detail"]
        assert reply["result"]["thread_count"] == threads
        value = EXPERIMENT.metric(name).of(reply["result"], at)
        assert value is not None
        return value * 1e9


@pytest.fixture(scope="module")
def creator(cpu: int) -> Iterator[Creator]:
    with machine_lock():
        server = ForkServer()
        try:
            yield Creator(server, cpu)
        finally:
            server.stop()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bare_threads.c, compiled."""
    cc = compiler()
    if cc is None:
        pytest.skip("no C compiler named cc")
    binary = tmp_path_factory.mktemp("bare") / "bare_threads"
    source = Path(__file__).with_name("bare_threads.c")
    subprocess.run([cc, "-O2", "-pthread", "-Wall", "-Werror", "-o", binary, source], check=True)
    return binary


@pytest.fixture(scope="module")
def stress_ng(tmp_path_factory: pytest.TempPathFactory, cpu: int) -> StressNg:
    try:
        return StressNg(debian("stress-ng"), cpu, tmp_path_factory.mktemp("stress"))
    except Missing as missing:
        pytest.skip(str(missing))


def compare(live_threads: int, creator: Creator, bare: Path, cpu: int) -> Comparison:
    words = [str(word) for word in (bare, live_threads, THREADS, cpu)]
    measured = interleave(
        {
            "bare": lambda: float(subprocess.check_output(words)),
            "memlab": lambda: creator.metric("thread_time", live_threads, THREADS),
        },
        precision=PRECISION,
    )
    return Comparison(f"{live_threads} live", measured["memlab"], measured["bare"])


def test_a_thread_costs_what_it_costs_in_a_plain_loop(
    creator: Creator, bare: Path, cpu: int
) -> None:
    """Held to one live thread: with more, memlab's wait until all run, which takes switches."""
    rows = [compare(live_threads, creator, bare, cpu) for live_threads in LIVE_THREADS]
    print("\n" + table("ns per thread", "memlab", "plain C", rows))
    low, high = AGREES
    assert low <= rows[0].ratio.estimate <= high


def test_a_thread_of_stress_ng_costs_more_for_it_does_more(
    creator: Creator, stress_ng: StressNg
) -> None:
    measured = interleave(
        {
            "stress-ng": lambda: stress_ng.thread_cpu_ns(STRESS_LIVE_THREADS, STRESS_THREADS),
            "memlab": lambda: creator.metric("thread_cpu", STRESS_LIVE_THREADS, STRESS_THREADS),
        }
    )
    label = f"{STRESS_LIVE_THREADS} live"
    row = Comparison(label, measured["memlab"], measured["stress-ng"])
    print("\n" + table("processor ns per thread", "memlab", "stress-ng", [row]))
    print(StressNg.__doc__)
    assert row.ratio.high is not None
    assert row.ratio.high < 1
