"""kill -9: what was committed stays, the host is tidied up, and the run goes on."""

import os
import random
import signal
import subprocess
import time

import pytest
from tiny_sweep import POINTS, SHM, Lab, settled, until

pytestmark = pytest.mark.slow

KILLS, BLOCKS = 50, 150


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_killed_at_fifty_moments_a_run_loses_nothing(lab: Lab) -> None:
    """The moments lie in the start of a session as well as between, and inside, its trials. After
    some of them the run is resumed at once, while its guardian is still at work."""
    moments = random.Random(2026)
    seen = {}
    for _ in range(KILLS):
        sweep = lab.sweep(BLOCKS)
        if moments.random() < 0.3:
            time.sleep(moments.uniform(0, 0.3))
        else:
            lab.until_sampled(sweep)
            time.sleep(moments.uniform(0, 0.05))
        kill(sweep)
        if moments.random() < 0.7:
            settled(lab)
        if lab.run_ids():
            now = lab.samples()
            assert {pair: now[pair] for pair in seen} == seen
            seen = now
        if len(seen) > BLOCKS * POINTS * 3 // 4:
            break  # a machine this fast has no moment left before the end

    status, out, err = lab.finish(lab.sweep(BLOCKS))
    (run,) = lab.run_ids()
    assert (status, out.strip()) == (0, run), err
    done = lab.samples()
    assert {pair: done[pair] for pair in seen} == seen
    assert done.keys() == {(b, p) for b in range(BLOCKS) for p in range(POINTS)}
    assert lab.leftovers() == []


def test_guardian_tidies_up(lab: Lab) -> None:
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    assert len(lab.leftovers()) >= 1 + 2 + 3  # journal; folders; driver, guardian, parent
    kill(sweep)
    settled(lab)


def test_guardian_goes_on_where_a_folder_cannot_be_reached_for_a_while(lab: Lab) -> None:
    """It lies behind a link that leads to itself meanwhile; each change of it is atomic."""
    real = lab.files.rename(lab.files.with_name("real"))
    lab.files.symlink_to(real)
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    for leads_to in (lab.files, real):
        (link := lab.files.with_name("link")).symlink_to(leads_to)
        link.replace(lab.files)
        if leads_to == lab.files:
            kill(sweep)
            time.sleep(3.0)  # over the two seconds that somebody waits for
    settled(lab)


LONG = ["mmap-write", "-p", "size=1", "-p", "method=write", "-p", "file_size=512m"]
LONG += ["-p", "filesystem=tmpfs", "-p", "slice=0", "--no-controls", "--blocks", "1"]


def test_guardian_ends_a_trial_that_would_last_for_a_minute(lab: Lab) -> None:
    """A byte a call: the window alone would take over a minute."""
    sweep = lab.start("--store", str(lab.store), "sweep", *LONG, "--dir", str(lab.files))
    run = until(lab.run_ids)[0]
    until(lambda: list(SHM.glob(f"memlab-{run}-*/cached_4k-536870912")))  # made: now the window
    kill(sweep)
    settled(lab)
    assert lab.count() == 0


def test_guardian_does_not_take_what_a_resumed_run_has_made(lab: Lab) -> None:
    """The run is resumed while the guardian of its killed session has not come to act yet."""
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    guardian = lab.guardian()
    os.kill(guardian, signal.SIGSTOP)
    kill(sweep)
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    os.kill(guardian, signal.SIGCONT)
    lab.until_sampled(sweep, 4 * POINTS)
    outcomes = {raw is not None for _, raw in lab.samples().values()}
    assert outcomes == {True}
    kill(sweep)
    settled(lab)


def kill_with_guardian(lab: Lab, sweep: subprocess.Popen[str]) -> None:
    os.kill(lab.guardian(), signal.SIGKILL)
    kill(sweep)
    folders = [name for name in lab.leftovers() if "memlab-" in name]
    assert len(folders) == 2
    assert list(lab.files.iterdir())


def test_clean_does_what_a_killed_guardian_cannot(lab: Lab) -> None:
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    kill_with_guardian(lab, sweep)
    kept = lab.samples()
    status, out, err = lab.finish(lab.start("clean"))
    assert (status, err) == (0, "")
    (run,) = lab.run_ids()
    assert out.count(f"run {run}: folder ") == 2
    settled(lab)
    assert lab.samples() == kept
    assert lab.finish(lab.start("clean")) == (0, "nothing to clean\n", "")


def test_the_next_sweep_does_what_a_killed_guardian_cannot(lab: Lab) -> None:
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    kill_with_guardian(lab, sweep)
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    assert len([name for name in lab.leftovers() if "memlab-" in name]) == 2
    kill(sweep)
    settled(lab)
