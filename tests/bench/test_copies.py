"""memlab's copies beside mbw's and lmbench's, of the same size, from and to memory used before."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memlab import experiments
from memlab.experiment import Level
from memlab.experiment.huge_pages import ENABLED
from memlab.run.fork_server import ForkServer
from memlab.run.machine_lock import machine_lock

from .bare import compiler
from .copy_peers import BwMem, Mbw
from .interleaved import Comparison, interleave, table
from .peers import Missing, debian

pytestmark = pytest.mark.bench

EXPERIMENT = experiments.load("memcpy")
SIZE_BYTES = 512 << 20
COPIES = 3
AGREES = (0.95, 1.05)
PRECISION = 0.02
LIMIT_S = 120.0
BW_MEM = os.environ.get("LMBENCH_BW_MEM", "")

ENOUGH_S = 0.3  # of copies, for bw_mem and beside it
# Its source is zeros, which are copied faster (experiments/memcpy.md, the control `content`).
AS_BW_MEM: dict[str, Level] = {"content": "zeros", "passes": 1000, "slice": ENOUGH_S}

Copy = Callable[..., float]  # by method, kind of memory and levels besides, in ms


@pytest.fixture(scope="module")
def copy_ms(cpu: int) -> Iterator[Copy]:
    """memlab's side: the mean time of a copy after the first."""
    if "[always]" in Path(ENABLED).read_text():
        pytest.skip(f"the peers would have huge pages: write madvise or never to {ENABLED}")

    def ms(method: str, kind: str, **levels: Level) -> float:
        at: dict[str, Any] = {factor.name: factor.quick[0] for factor in EXPERIMENT.factors}
        at |= {"method": method, "src": kind, "dst": kind, "dst_state": "touched"}
        at |= {"size": SIZE_BYTES, "passes": COPIES, "slice": 0.0, **levels}
        trial = {"probe": EXPERIMENT.probe, "params": EXPERIMENT.params(at, {"folder": ""})}
        reply = server.run(trial | {"file": None, "cpus": [cpu], "limit_s": LIMIT_S})
        assert reply["outcome"] == "ok", reply["detail"]
        value = EXPERIMENT.metric("steady_copy").of(reply["result"], at)
        assert value is not None
        return value * 1e3

    with machine_lock():
        server = ForkServer()
        try:
            yield ms
        finally:
            server.stop()


@pytest.fixture(scope="module")
def mbw(cpu: int, tmp_path_factory: pytest.TempPathFactory) -> Mbw:
    cc = compiler()
    if cc is None:
        pytest.skip("no C compiler to see by what mbw's tests copy")
    library = tmp_path_factory.mktemp("mbw") / "count_memcpy.so"
    source = Path(__file__).with_name("count_memcpy.c")
    flags = ["-D_GNU_SOURCE", "-O2", "-fno-builtin", "-fPIC", "-shared", "-Wall", "-Werror"]
    subprocess.run([cc, *flags, "-o", library, source], check=True)
    try:
        return Mbw(debian("mbw"), cpu, library)
    except Missing as missing:
        pytest.skip(str(missing))


def disagreeing(rows: list[Comparison]) -> list[str]:
    low, high = AGREES
    return [row.label for row in rows if not low <= row.ratio.estimate <= high]


def test_mbw_and_memlab_agree(copy_ms: Copy, mbw: Mbw) -> None:
    """The loop over words is shown and not judged: how it is compiled is mbw's packager's."""
    rows = {}
    for method, test in mbw.tests().items():
        measured = interleave(
            {
                "memlab": lambda method=method: copy_ms(method, "malloc"),
                "mbw": lambda test=test: mbw.copy_ms(test, SIZE_BYTES, COPIES),
            },
            precision=PRECISION,
        )
        label = f"{method}, which mbw calls {mbw.label(test)}"
        rows[method] = Comparison(label, measured["memlab"], measured["mbw"])
    print("\n" + table("ms per copy of 512 MiB", "memlab", "mbw", list(rows.values())))
    assert disagreeing([row for method, row in rows.items() if method != "dumb"]) == []


def test_bw_mem_and_memlab_agree(copy_ms: Copy, cpu: int) -> None:
    if not BW_MEM:
        pytest.skip("LMBENCH_BW_MEM names no bw_mem; build it from github.com/intel/lmbench")
    peer = BwMem(BW_MEM, cpu, int(ENOUGH_S * 1e6))
    measured = interleave(
        {
            "memlab": lambda: copy_ms("libc", "mmap", **AS_BW_MEM),
            "bw_mem": lambda: peer.copy_ms(SIZE_BYTES),
        },
        precision=PRECISION,
    )
    row = Comparison("bcopy", measured["memlab"], measured["bw_mem"])
    print("\n" + table("ms per copy of 512 MiB", "memlab", "bw_mem", [row]))
    assert disagreeing([row]) == []
