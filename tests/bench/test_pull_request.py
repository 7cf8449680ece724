"""A pull request as CI meets it: the base measured and kept, the head held against it.

Ten times the head is the base again, and has to pass; ten times it has a slowdown put in (the
factor `handicap`: turns of an empty loop, wasted a call), and has to fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from .test_sensitivity import ONE_POINT, turns_for

pytestmark = pytest.mark.bench

REQUESTS = 10
SLOWDOWN = 0.15
TEST = f"""
import os

def test_small_writes(memlab):
    run = memlab.sweep(
        "mmap-write", **{ONE_POINT!r}, handicap=int(os.environ["HANDICAP"]),
        blocks=40, slice="20ms", controls=False,
    )
    run.assert_not_slower_than(by="5%")
"""
BASELINE = Path("base") / "test_io.py" / "test_small_writes.csv"


def session(folder: Path, handicap: int, *options: str) -> subprocess.CompletedProcess[str]:
    """One run of pytest in a project of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--memlab-store=results.db", *options],
        cwd=folder,
        env={**os.environ, "HANDICAP": str(handicap)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_regression_fails_and_a_clean_change_passes(tmp_path: Path) -> None:
    turns = turns_for(SLOWDOWN, tmp_path / "tuning.db")
    caught, passed = 0, 0
    for number in range(REQUESTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "test_io.py").write_text(TEST)
        base = session(folder, 0, "--memlab-save=base")
        assert base.returncode == 0, base.stdout
        clean = session(folder, 0, "--memlab-compare=base")
        passed += clean.returncode == 0
        # The handicap tells points apart: the baseline has to pretend that it had it.
        samples = pd.read_csv(folder / BASELINE)
        samples.assign(handicap=turns).to_csv(folder / BASELINE, index=False)
        slowed = session(folder, turns, "--memlab-compare=base")
        found = slowed.returncode == 1 and "slower" in slowed.stdout
        caught += found
        if not found:
            print(f"missed in request {number}:\n{slowed.stdout}")
    print(
        f"\n{REQUESTS} pull requests slower by {100 * SLOWDOWN:.0f} %: {caught} caught; "
        f"{REQUESTS} clean ones: {passed} passed"
    )
    assert (caught, passed) == (REQUESTS, REQUESTS)
