"""memlab fit on programs with a known need. What is kept is the number of page faults, which no
busy machine changes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import unprivileged
from command import memlab

from memlab.experiment.tried import experiment as command
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
    broken = [row for row in found["limits"] if row["verdict"] == "broken"]
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
    assert found["growth_bytes_per_s"] > 0  # how fast is of the machine: test_growth.py has rates
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
    done = memlab("sweep", "--resume", "last", *how[:-2], "--budget", "4min", "--json")
    assert done.returncode == 0, done.stderr
    rest = json.loads(done.stdout)
    assert rest["run"] == first["run"]
    assert rest["state"] == "answered"
    assert rest["baseline"]["blocks"] > first["baseline"]["blocks"]


@pytest.mark.slow
@needs_groups
def test_one_run_that_is_not_measured_says_what_is_used_again(known: str, how: list[str]) -> None:
    """5 MiB of a file, in a loop that is long enough for some windows. What is used again is exact
    in tests/fit/test_used_again.py, in step: here a window may end amid a round."""
    file = str(Path(known).with_name("file"))
    words = ["--keep-within", "read: 5%", "--", known, "once", file, "11", "5", "150000"]
    found = fitted(*how[:-2], "--timeout", "30s", "--budget", "20s", *words)
    reused = found["expected_reused_bytes"]
    assert 0 < reused < (5 + OWN_MIB) * MIB
    assert reused < found["expected_bytes"] < reused + OWN_MIB * MIB
    exported = memlab("export", found["run"], "--format", "csv").stdout.splitlines()
    rows = [row for row in csv.DictReader(exported) if row["memory_max"] == "none"]
    reading = [row["used_pages"] for row in rows]
    assert reading.count("read") == 1
    assert reading.count("unread") == found["baseline"]["blocks"]


def test_a_trial_under_a_limit_ends_once_it_is_too_slow(tmp_path: Path) -> None:
    """Ten times as long as without a limit, and twice the bound if that is more."""
    levels = {"memory_max": ["none", 1 << 20], "swap": ["none"]}
    given = {"argv": ["true"], "cwd": str(tmp_path), "levels": levels}

    def timeout_s(limit: object, reference_s: float, within: float = 0.05) -> float:
        asked = command.declare(given | {"fit": {"within": within, "reads_used": True}})
        host = dict.fromkeys(("group", "processes", "mark"), "") | {"reference_s": reference_s}
        at = {"memory_max": limit, "swap": "none", "used_pages": "unread"}
        made = asked.params(at, host)
        found: float = json.loads(made["spec"])["timeout_s"]
        return found

    assert timeout_s(1 << 20, 0.0) == timeout_s("none", 3.0) == 600
    assert timeout_s(1 << 20, 3.0) == 40
    assert timeout_s(1 << 20, 3.0, within=9.0) == 70
    assert timeout_s(1 << 20, 100.0) == 600


@needs_groups
def test_a_program_that_fails_without_a_limit_is_said_to(known: str, how: list[str]) -> None:
    done = memlab("fit", *how, "--", known, "nothing")
    assert done.returncode == 3
    assert "does not end well even without a limit: failed (1): exit status 2" in done.stderr


@needs_groups
def test_a_metric_that_is_zero_without_a_limit_has_no_bound(known: str, how: list[str]) -> None:
    done = memlab(
        "fit", "--json", *how, "--keep-within", "refaults: 5%", "--", known, "loop", "1", "1"
    )
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
    assert "memlab ..." not in done.stderr
    assert done.stderr.endswith("; v1 is not delegated to users\n")
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
        (["--gate", "much", "--", "true"], "much"),
        (["--swap", "disk", "--", "true"], "'disk' is not one of"),
        (["--serve", "'", "--", "true"], "--serve"),
        (["--serve", "true", "--", "true"], "--ready"),
        (["--budget", "soon", "--", "true"], "soon"),
    ],
)
def test_a_wrong_argument_is_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    done = memlab("--store", str(tmp_path / "fit.db"), "fit", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "fit.db").exists()


@pytest.mark.slow
@needs_groups
def test_of_files_that_are_not_mapped_no_refaults_are_expected(known: str, how: list[str]) -> None:
    file = str(Path(known).with_name("file"))
    words = ["--keep-within", "read: 5%", "--", known, "again", file, "4", "1000"]
    found = fitted(*how[:-2], "--timeout", "30s", "--budget", "20s", *words)
    assert found["unmapped_cache_bytes"] / MIB == pytest.approx(FILE_MIB, abs=1)
    assert {limit["expected_refaults_per_s"] for limit in found["limits"]} <= {None}
    said = " ".join(memlab("show", found["run"]).stdout.split())
    assert "of page cache it is not known whether they are used again" in said


@pytest.mark.slow
@needs_groups
def test_used_files_that_are_charged_to_others_are_said(known: str, how: list[str]) -> None:
    """The command names a script, which names the file: it stays in the page cache."""
    script = Path(known).with_name("once.sh")
    file = Path(known).with_name("file")
    script.write_text(f"exec {known} once {file} 11 5 150000\n")
    file.read_bytes()
    words = ["--keep-within", "read: 5%", "--", "sh", str(script)]
    found = fitted(*how[:-2], "--timeout", "30s", "--budget", "20s", *words)
    assert found["expected_bytes"] > 1.1 * found["peak_bytes"]
    assert {limit["expected_refaults_per_s"] for limit in found["limits"]} <= {None}
    said = " ".join(memlab("show", found["run"]).stdout.split())
    assert "more than is charged to it, as others brought files of it into the page cache" in said
