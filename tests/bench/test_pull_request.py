"""A pull request as CI meets it. Ten times the head is the base again, and has to pass; ten times
it has a slowdown put in (the factor `handicap`: turns of an empty loop, wasted a call), and has to
fail.

Base and head are two levels of one sweep, which is what docs/ci.md tells to do. Held against a
baseline that was kept, they are a minute apart, and the machine itself may have moved by as much:
that way is told, and only what it calls a regression without one is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from resealed import at_level

from .test_sensitivity import ONE_POINT, turns_for

pytestmark = pytest.mark.bench

REQUESTS = 10
SLOWDOWN = 0.15
CLEAN = 1  # one turn a call: a level of its own, and no slowdown to speak of
HOW = f"""**{ONE_POINT!r}, blocks=30, slice="20ms", controls=False"""
TOGETHER = f"""
import os

def test_small_writes(memlab):
    run = memlab.sweep("mmap-write", {HOW}, handicap=[0, int(os.environ["HANDICAP"])])
    run.assert_not_slower_than({{"handicap": 0}}, by="5%")
"""
APART = f"""
import os

def test_small_writes(memlab):
    run = memlab.sweep("mmap-write", {HOW}, handicap=int(os.environ["HANDICAP"]))
    run.assert_not_slower_than(by="5%")
"""
SPREAD = APART.replace(HOW, HOW.replace("blocks=30", "blocks=30, sessions=10"))
BASELINE = Path("base") / "test_io.py" / "test_small_writes.jsonl"


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


def project(folder: Path, test: str) -> Path:
    folder.mkdir()
    (folder / "test_io.py").write_text(test)
    return folder


def caught(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 1 and ": slower: " in done.stdout


def test_base_and_head_in_one_sweep(tmp_path: Path) -> None:
    missed, alarms = [], []
    for number in range(REQUESTS):
        turns = turns_for(SLOWDOWN, tmp_path / f"tuning-{number}.db")  # of the machine as it is now
        folder = project(tmp_path / str(number), TOGETHER)
        slowed, clean = session(folder, turns), session(folder, CLEAN)
        missed += [] if caught(slowed) else [slowed.stdout]
        alarms += [] if clean.returncode == 0 else [clean.stdout]
    tell("in one sweep", missed, alarms)
    assert (missed, alarms) == ([], [])


@pytest.mark.parametrize(
    ("how", "test"),
    [("one after the other", APART), ("one after the other, ten sessions each", SPREAD)],
    ids=["one after the other", "ten sessions each"],
)
def test_head_against_a_baseline_that_was_kept(tmp_path: Path, how: str, test: str) -> None:
    missed, alarms = [], []
    for number in range(REQUESTS):
        turns = turns_for(SLOWDOWN, tmp_path / f"tuning-{number}.db")
        folder = project(tmp_path / str(number), test)
        base = session(folder, 0, "--memlab-save=base")
        assert base.returncode == 0, base.stdout
        clean = session(folder, 0, "--memlab-compare=base")
        # The handicap tells points apart: the baseline has to pretend that it had it.
        at_level(folder / BASELINE, "handicap", turns)
        slowed = session(folder, turns, "--memlab-compare=base")
        missed += [] if caught(slowed) else [slowed.stdout]
        alarms += [clean.stdout] if caught(clean) else []
    tell(how, missed, alarms)
    assert alarms == []


def tell(how: str, missed: list[str], alarms: list[str]) -> None:
    print(
        f"\n{REQUESTS} pull requests slower by {100 * SLOWDOWN:.0f} %, {how}: "
        f"{REQUESTS - len(missed)} caught; {REQUESTS} clean ones: {REQUESTS - len(alarms)} passed"
    )
    for said in (*missed, *alarms):
        print(said, file=sys.stderr)  # not for the page of figures
