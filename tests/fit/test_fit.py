"""memlab fit on programs with a known need. What is kept is the number of page faults, which no
busy machine changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import unprivileged
from command import memlab

from memlab.observe import cgroup

MIB = 1 << 20
SOURCE = Path(__file__).with_name("known.c")
OWN_MIB = 1.5  # of the program's beside what it is asked to use, at most
FILE_MIB = 12
FAULTS = ["--keep-within", "faults: 5%"]
LOOP = ["loop", "53", "3"]
needs_groups = pytest.mark.needs("root", "memory cgroup")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program whose need is known, beside a file of FILE_MIB."""
    folder = tmp_path_factory.mktemp("known")
    subprocess.run(["gcc", "-O1", "-o", folder / "known", SOURCE], check=True)
    (folder / "file").write_bytes(os.urandom(FILE_MIB * MIB))
    return str(folder / "known")


@pytest.fixture
def how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("MEMLAB_STORE", str(tmp_path / "fit.db"))
    monkeypatch.setenv("MEMLAB_WAIT", "5min")
    return ["-o", str(tmp_path), "--budget", "4min"]


def fitted(*words: str, code: int = 0) -> dict[str, Any]:
    done = memlab("fit", "--json", *words)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


KNOWN = {  # the words, the metric that is exact, and the MiB that it needs
    "touches 17 MiB in a loop": ("loop 17 5", "faults", 17),
    "reads 11 MiB once, then 5 in a loop": ("once FILE 11 5 3", "read", 5),
    "half of it is page cache that it reads once": ("half FILE 12", "read", 12),
    "half of it is page cache that it reads again": ("again FILE 12 4", "read", 24),
    "its need changes by phase": ("phases 6 19 9", "faults", 19),
    "its memory swings": ("swing 16 4", "faults", 16),
    "all of it is cold": ("cold FILE", "read", 0),
}


@pytest.mark.slow
@needs_groups
@pytest.mark.parametrize(("words", "metric", "mib"), KNOWN.values(), ids=KNOWN.keys())
def test_a_known_need_is_the_answer(
    words: str, metric: str, mib: int, known: str, how: list[str]
) -> None:
    """The largest limit that is shown too small lies below the need, the smallest that is shown to
    fit within two steps of the grid above it."""
    asked = words.replace("FILE", str(Path(known).with_name("file"))).split()
    found = fitted(*how, "--keep-within", f"{metric}: 5%", "--", known, *asked)
    assert found["state"] == "answered"
    assert (found["above_bytes"] or 0) < (mib + OWN_MIB) * MIB
    assert mib * MIB <= found["fits_bytes"] < 1.11 * (mib + OWN_MIB) * MIB
    assert found["setting_bytes"] > found["fits_bytes"]
    row = next(row for row in found["limits"] if row["limit_bytes"] == found["fits_bytes"])
    assert row["outcomes"] == {"ok": row["blocks"]}
    assert found["broken_share_most"] == pytest.approx(1 - 0.05 ** (1 / row["blocks"]))
    broken = [row for row in found["limits"] if row["word"] == "broken"]
    assert all(row["outcomes"].get("oom-killed") == 1 for row in broken)
    assert all(row["limit_bytes"] < found["fits_bytes"] for row in broken)
    cache = found["page_cache_bytes"] / MIB
    read_mib = {"once": 11, "half": FILE_MIB, "again": FILE_MIB, "cold": FILE_MIB}
    assert cache == pytest.approx(read_mib.get(asked[0], 0), abs=1)
    assert len(list(Path(how[how.index("-o") + 1]).glob("fit-*.png"))) == 1


@pytest.mark.slow
@needs_groups
def test_a_program_that_leaks_is_advised_no_limit(known: str, how: list[str]) -> None:
    words = ["--keep-within", "faults: 5%", "--", known, "leak", "40", "20"]
    found = fitted(*how, *words)
    assert found["state"] == "grows"
    assert found["setting_bytes"] is None
    assert found["grows_bytes_per_s"] > 0  # how fast is of the machine: test_growth.py has rates
    told = memlab("show", found["run"]).stdout
    assert "so a longer run needs more: no limit can be named." in " ".join(told.split())
    assert "Set memory.max" not in told


@pytest.mark.slow
@needs_groups
def test_a_gate_tries_its_limit_only(known: str, how: list[str]) -> None:
    fits = fitted(*how, *FAULTS, "--gate", "80M", "--", known, *LOOP)
    assert [row["limit_bytes"] for row in fits["limits"]] == [80 * MIB]
    assert fits["state"] == "answered"
    small = fitted(*how, *FAULTS, "--gate", "40M", "--", known, *LOOP, code=1)
    assert small["state"] == "too small"
    assert small["limits"][0]["outcomes"] == {"oom-killed": 1}


@pytest.mark.slow
@needs_groups
def test_a_fit_that_ended_early_goes_on(known: str, how: list[str]) -> None:
    """With what was measured: no limit is tried anew."""
    short = [*how[:-2], *FAULTS]
    first = fitted(*short, "--budget", "2s", "--", known, *LOOP)
    assert first["state"] == "open"
    rest = fitted(*how[:-2], "--budget", "4min", "--resume", "last")
    assert rest["run"] == first["run"]
    assert rest["state"] == "answered"
    assert rest["baseline_blocks"] > first["baseline_blocks"]


@needs_groups
def test_a_program_that_fails_without_a_limit_is_said_to(known: str, how: list[str]) -> None:
    done = memlab("fit", "-q", *how, "--", known, "nothing")
    assert done.returncode == 3
    assert "does not end well without a limit either: failed (1): exit status 2" in done.stderr


@needs_groups
def test_a_metric_that_is_zero_without_a_limit_has_no_bound(known: str, how: list[str]) -> None:
    done = memlab("fit", "-q", *how, "--keep-within", "refaults: 5%", "--", known, "loop", "1", "1")
    assert done.returncode == 3
    assert "refaults is 0 without a limit" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_memory_cgroup_a_line_says_what_to_do(tmp_path: Path) -> None:
    """Before anything is run or stored."""
    (place := tmp_path / "place").mkdir(mode=0o777)
    place.chmod(0o777)
    words = [sys.executable, "-m", "memlab", "--store", str(place / "x.db"), "fit", "true"]
    group = cgroup.v1_dir("memory")
    if not group or not subprocess.run([*unprivileged.reading(), "test", "-w", group]).returncode:
        pytest.skip("this user may make memory cgroups, or they are of v2")
    done = subprocess.run([*unprivileged.reading(), *words], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.startswith("memlab: fit needs a memory cgroup, and ")
    assert done.stderr.count("\n") == 1
    assert not (place / "x.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the command"),
        (["--", "/nonexistent"], "is not found"),
        (["--keep-within", "elapsed", "--", "true"], "write METRIC: PERCENT"),
        (["--keep-within", "elapsed: -3%", "--", "true"], "--keep-within"),
        (["--keep-within", "speed: 5%", "--", "true"], "no metric 'speed'"),
        (["--gate", "10k", "--", "true"], "'10k' is under 1 MiB"),
        (["--resume", "x", "--gate", "1G"], "not --gate"),
        (["--gate", "much", "--", "true"], "much"),
        (["--swap", "disk", "--", "true"], "'disk' is not one of"),
        (["--serve", "'", "--", "true"], "--serve"),
        (["--serve", "true", "--", "true"], "--ready"),
        (["--budget", "soon", "--", "true"], "soon"),
        (["--resume", "x", "--", "true"], "not a command"),
    ],
)
def test_a_wrong_argument_is_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    done = memlab("--store", str(tmp_path / "fit.db"), "fit", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "fit.db").exists()
