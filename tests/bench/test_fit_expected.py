"""The refaults that a limit is expected to cost, beside those that it cost."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from memlab.fit.trials import FitRun
from memlab.results import Run
from memlab.store import Store

pytestmark = [pytest.mark.bench, pytest.mark.needs("root", "memory cgroup")]

MIB = 1 << 20
LIMITS_MIB = (56, 48, 40, 32)
READER = ["64", "1.0", "20000", "25"]
WITHIN = (0.5, 2.0)


def _memlab(store: Path, *words: str) -> Run:
    command = [sys.executable, "-m", "memlab", "--store", str(store), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with Store(store) as opened:
        return Run(opened.find("last"), store)


def test_refaults_expected_of_a_zipf_reader(tmp_path: Path) -> None:
    program = tmp_path / "zipf_reader"
    source = Path(__file__).with_name("zipf_reader.c")
    subprocess.run(["gcc", "-O1", "-o", program, source, "-lm"], check=True)
    reader, store = ["--", str(program), *READER], tmp_path / "fit.db"
    fit = ["fit", "-o", str(tmp_path), "--swap", "zram", "--budget", "75s"]
    expected = FitRun(_memlab(store, *fit, *reader)).expected
    limits = ",".join(f"{mib}M" for mib in LIMITS_MIB)
    policies = ["-p", f"memory_max={limits}", "-p", "swap=zram", "-p", "page_cache=dropped"]
    run = _memlab(store, "try", "-q", "--blocks", "1", *policies, *reader)
    rows = []
    for point in sorted(run.points, key=lambda one: -int(one.at["memory_max"])):
        limit = int(point.at["memory_max"])
        counted = float(run.valued("refaults", point).column("refaults")[0])
        seconds = float(run.valued("elapsed", point).column("elapsed")[0])
        rows.append((limit, (expected.refaults_per_s(limit) or 0) * seconds, counted))
    print("\n| limit | expected | counted |\n| ---: | ---: | ---: |")
    for limit, said, counted in rows:
        print(f"| {limit // MIB} MiB | {said:,.0f} | {counted:,.0f} |")
    for column in (1, 2):
        assert all(after[column] > before[column] for before, after in pairwise(rows))
    assert all(WITHIN[0] < said / counted < WITHIN[1] for _, said, counted in rows)
