"""The whole way, measured: a claim, a baseline, and a slowdown that is put in and caught."""

import pytest
from resealed import at_level

from memlab.judging.disturbed import Disturbed

HANDICAP = 100_000  # turns of an empty loop: tens of microseconds beside a call's one

TEST = """
import os

def test_write(memlab):
    run = memlab.sweep(
        "mmap-write", size=1, filesystem="tmpfs", file_size="64k", slice="1ms",
        file_state="cached_4k",
        handicap=int(os.environ["HANDICAP"]), blocks=8, controls=False,
    )
    run.assert_claim("write(2) reaches its full speed at 4096 bytes per call")  # not at one size
    run.assert_not_slower_than(by="50%")
"""


def test_a_slowdown_is_caught(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disturbed, "is_all", False)  # other tests run beside this one
    project.makepyfile(test_io=TEST)
    store = "--memlab-store=results.db"
    monkeypatch.setenv("HANDICAP", "0")
    first = project.runpytest_inprocess("--memlab-save=base", store)
    first.assert_outcomes(passed=1, warnings=1)
    first.stdout.fnmatch_lines(["test_io.py::test_write: *, 16 samples; claims: 1 inconclusive; *"])

    # The handicap is a factor, by which points are told apart: the baseline pretends to have it.
    file = project.path / "base" / "test_io.py" / "test_write.jsonl"
    at_level(file, "handicap", HANDICAP)
    monkeypatch.setenv("HANDICAP", str(HANDICAP))
    second = project.runpytest_inprocess("--memlab-compare=base", store)
    second.assert_outcomes(failed=1)
    second.stdout.fnmatch_lines(["E*size=1 B method=write *: slower: *", "*points: 2 slower*"])


NOWHERE = """
def test_groups(memlab):
    run = memlab.sweep(
        "group-isolation", controller=["v1", "beancounters"], antagonist="no_hog", blocks=1,
        slice="1ms", controls=False,
    )
    run.assert_claim("mean-over-beancounters")
"""


@pytest.mark.needs("memory cgroup")
def test_a_claim_that_cannot_be_tested_here_is_skipped(project: pytest.Pytester) -> None:
    """OpenVZ's beancounters were never in Linux itself."""
    project.makepyfile(NOWHERE)
    store = "--memlab-store=results.db"
    found = project.runpytest_inprocess(store, "-rs")
    found.assert_outcomes(skipped=1)
    found.stdout.fnmatch_lines(["SKIPPED*mean score*", "*not testable here*beancounters*"])
    found = project.runpytest_inprocess(store, "--memlab-inconclusive=fail")
    found.assert_outcomes(failed=1)


TRIAL = """
def test_faults(memlab):
    run = memlab.trial(
        ["sh", "-c", "exit 0"], expect=["faults: env.A=1 > 5", "peak_rss: env.A=2 < 1G"],
        blocks=6, **{"env.A": ["1", "2"]},
    )
    assert list(run.summary()["elapsed"] > 0) == [True, True]

def test_too_many(memlab):
    memlab.trial(["true"], expect=["faults < 5"], blocks=6)

def test_nothing_to_try(memlab):
    memlab.trial(["./nope"])
"""


@pytest.mark.slow
def test_a_command_is_held_to_its_expectations(project: pytest.Pytester) -> None:
    project.makepyfile(TRIAL)
    found = project.runpytest_subprocess("--memlab-store=results.db")
    found.assert_outcomes(passed=1, failed=2)
    found.stdout.fnmatch_lines(["*contradicted*", "*./nope: the command to try is not found"])


HOLDS = ["python3", "-c", "x = bytearray(20_000_000)"]
FITS = """
def test_fits(memlab):
    memlab.fits(["true"], "64M", keep_within="peak_rss: 1000%", budget="1min")

def test_is_killed(memlab):
    memlab.fits(["head", "-c", "1", "/dev/zero"], "1M", budget="1min", swap="none")

def test_is_not_decided(memlab):
    memlab.fits(["true"], "64M", budget="1ms")

def test_is_a_wrong_limit(memlab):
    memlab.fits(["true"], "5")
"""


@pytest.mark.seconds
@pytest.mark.needs("root", "memory cgroup")
def test_a_command_fits_or_does_not(project: pytest.Pytester) -> None:
    project.makepyfile(FITS.replace('"head", "-c", "1", "/dev/zero"', repr(HOLDS)[1:-1]))
    done = project.runpytest_inprocess("--memlab-store=results.db", "--memlab-wait=5min")
    done.assert_outcomes(passed=2, failed=2, warnings=1)
    done.stdout.fnmatch_lines(
        [
            "E*does not fit into 1 MiB: it is killed (1 of 1).",
            "E*limit: '5' is under 1 MiB: write a size such as 512M",
            "*test_fits: fit, run *keeps peak_rss within 1000 % in 64 MiB*",
        ]
    )
