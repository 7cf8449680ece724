"""How much of a plain sweep's time is measuring."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from memlab.store import Store

pytestmark = pytest.mark.bench

MEMLAB = Path(sys.executable).with_name("memlab")
# Every block makes its files anew, so that an interval holds for another run too; that and
# unmapping, 4 to 11 ms a trial, is what a sweep does beside measuring.
LEAST_SHARE = {"mmap-write": 0.8, "mmap-read": 0.6}


@pytest.mark.parametrize("experiment", LEAST_SHARE)
def test_a_plain_sweep_spends_its_time_inside_windows(experiment: str, tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    command = [MEMLAB, "--store", path, "sweep", experiment, "--quiet", "-o", tmp_path]
    began = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True)
    wall_s = time.perf_counter() - began
    with Store(path) as store:
        run = store.find("last")
        samples = list(store.samples(run.id))
        session_s = sum(session.wall_s for session in store.sessions(run.id))
    window_s = sum(s.raw["window"]["elapsed_ns"] * 1e-9 for s in samples if s.raw)
    share, share_of_all = window_s / session_s, window_s / wall_s
    print(
        f"\n{experiment}: {len(samples)} samples, {window_s:.1f} s inside windows, "
        f"{share:.0%} of {session_s:.1f} s measuring, {share_of_all:.0%} of {wall_s:.1f} s in all"
    )
    assert share >= LEAST_SHARE[experiment]
