"""The delivery of a cgroup's notification by memlab beside that of a plain C program.

The kernel's own sample, cgroup_event_listener.c, has no clock, so that a program of ours is the
peer: it blocks in read(2), memlab in poll(2) on three descriptors, which costs a little more.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from held import RUN

from memlab import experiments
from memlab.observe import capabilities, cgroup, proc
from memlab.run.containment import Group, Shape
from memlab.run.fork_server import ForkServer
from memlab.run.journal import Journal
from memlab.run.machine_lock import machine_lock

from .bare import compiler
from .interleaved import Comparison, interleave, table

pytestmark = pytest.mark.bench

EXPERIMENT = experiments.load("memcg-notify")
CROSSINGS = 200
AGREES = (0.8, 1.25)
SHAPE = Shape(128 * 2**20, swap=False, fresh=True)
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    found = capabilities.memory_cgroup(proc.ROOT)
    if not found.available or cgroup.locate().memory_version != "1":
        pytest.skip("thresholds are of cgroup v1, and no group of it may be made here")
    journal = Journal(RUN)
    try:
        yield Group(journal, f"{RUN}-bench")
    finally:
        journal.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with machine_lock():
        started = ForkServer()
        try:
            yield started
        finally:
            started.stop()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bare_notify.c, compiled."""
    cc = compiler()
    if cc is None:
        pytest.skip("no C compiler named cc")
    binary = tmp_path_factory.mktemp("bare") / "bare_notify"
    source = Path(__file__).with_name("bare_notify.c")
    subprocess.run([cc, "-O2", "-pthread", "-Wall", "-Werror", "-o", binary, source], check=True)
    return binary


def delivery_ns(server: ForkServer, group: Group, cpu: int) -> float:
    at = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors}
    at |= {"crossings": CROSSINGS}
    held = group.hold(SHAPE)
    trial = {
        "probe": EXPERIMENT.probe,
        "params": EXPERIMENT.params(at, {"group": held["folder"]}),
        "file": None,
        "cpus": [cpu],
        "limit_s": LIMIT_S,
        "group": held,
    }
    reply = server.run(trial)
    assert reply["outcome"] == "ok", reply["detail"]
    value = EXPERIMENT.metric("delivery").of(reply["result"], at)
    assert value is not None
    return value * 1e9


def bare_ns(bare: Path, group: Group, cpu: int) -> float:
    folder = group.hold(SHAPE)["folder"]
    words = [str(word) for word in (bare, folder, CROSSINGS, cpu)]
    return float(subprocess.check_output(words))


def test_a_notification_is_delivered_as_to_a_plain_program(
    server: ForkServer, group: Group, bare: Path, cpu: int
) -> None:
    measured = interleave(
        {
            "bare": lambda: bare_ns(bare, group, cpu),
            "memlab": lambda: delivery_ns(server, group, cpu),
        }
    )
    row = Comparison("same CPU, up", measured["memlab"], measured["bare"])
    print("\n" + table("ns, signal to waiter", "memlab", "plain C", [row]))
    low, high = AGREES
    assert low <= row.ratio.estimate <= high
