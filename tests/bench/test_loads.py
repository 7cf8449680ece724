"""memlab's dependent loads beside a plain program's and multichase's, by size and page size."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memlab import experiments
from memlab.run.fork_server import ForkServer
from memlab.run.machine_lock import machine_lock

from .bare import compiler
from .interleaved import Comparison, interleave, table

pytestmark = pytest.mark.bench

EXPERIMENT = experiments.load("load-latency")
KIB, MIB = 1 << 10, 1 << 20
# Within the first cache, within a middle one, and beyond them with and without misses of the TLB;
# with loads for a third of a second, as much as multichase takes at least.
PLACES = {
    (16 * KIB, "small"): 1 << 28,
    (256 * KIB, "small"): 1 << 26,
    (256 * MIB, "small"): 1 << 21,
    (256 * MIB, "huge"): 1 << 21,
}
AGREES = (0.9, 1.1)  # each run has other physical pages
PRECISION = 0.03
LIMIT_S = 60.0
MULTICHASE = os.environ.get("MULTICHASE", "")

Load = Callable[[int, str], float]  # of a size and a page size, in ns


@pytest.fixture(scope="module")
def load_ns(cpu: int) -> Iterator[Load]:
    """memlab's side."""

    def ns(size: int, pages: str) -> float:
        at = {"size": size, "pages": pages, "loads": PLACES[size, pages]}
        trial = {"probe": EXPERIMENT.probe, "params": EXPERIMENT.params(at, {})}
        reply = server.run(trial | {"file": None, "cpus": [cpu], "limit_s": LIMIT_S})
        assert reply["outcome"] == "ok", reply["detail"]
        value = EXPERIMENT.metric("load_time").of(reply["result"], at)
        assert value is not None
        return value * 1e9

    with machine_lock():
        server = ForkServer()
        try:
            yield ns
        finally:
            server.stop()


def compare(load_ns: Load, name: str, theirs: Load) -> None:
    rows = []
    for size, pages in PLACES:
        measured = interleave(
            {
                "memlab": lambda size=size, pages=pages: load_ns(size, pages),
                name: lambda size=size, pages=pages: theirs(size, pages),
            },
            precision=PRECISION,
        )
        label = f"{size // KIB:,} KiB, {pages} pages"
        rows.append(Comparison(label, measured["memlab"], measured[name]))
    print("\n" + table("ns per load", "memlab", name, rows))
    low, high = AGREES
    assert [row.label for row in rows if not low <= row.ratio.estimate <= high] == []


def test_a_plain_program_and_memlab_agree(load_ns: Load, cpu: int, tmp_path: Path) -> None:
    cc = compiler()
    if cc is None:
        pytest.skip("no C compiler for the plain program")
    source, binary = Path(__file__).with_name("bare_chase.c"), tmp_path / "bare_chase"
    subprocess.run([cc, "-O2", "-Wall", "-Werror", "-o", binary, source], check=True)

    def theirs(size: int, pages: str) -> float:
        command = [binary, str(size), pages, str(PLACES[size, pages]), str(cpu)]
        return float(subprocess.check_output(command, timeout=LIMIT_S))

    compare(load_ns, "plain C", theirs)


def test_multichase_and_memlab_agree(load_ns: Load, cpu: int) -> None:
    """Its average (-a) over a chain through all of the memory (-T) in steps of a cache line."""
    if not MULTICHASE:
        pytest.skip("MULTICHASE names no multichase; build it from github.com/google/multichase")

    def theirs(size: int, pages: str) -> float:
        place = ["-m", str(size), "-T", str(size), "-s", "64", "-F", "0"]
        huge = ["-H"] if pages == "huge" else []
        command = ["taskset", "-c", str(cpu), MULTICHASE, "-X", "-a", "-n", "1", *place, *huge]
        said = subprocess.check_output(command, text=True, timeout=LIMIT_S)
        numbers = re.findall(r"^\s*([\d.]+)\s*$", said, re.MULTILINE)
        assert numbers, f"multichase printed no time: {said!r}"
        return float(numbers[-1])

    compare(load_ns, "multichase", theirs)
