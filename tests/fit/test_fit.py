"""memlab fit on programs with a known need. What is kept is the number of page faults, which no
busy machine changes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import memlab

MIB = 1 << 20
HELD_MIB = 53  # a prime number
PROGRAM = """
#include <stdlib.h>
int main(int count, char **words)
{
    size_t bytes = (size_t)atoi(words[1]) << 20;
    volatile char *memory = malloc(bytes);
    for (size_t at = 0; at < bytes; at += 4096)
        memory[at] = 1;
    return count > 2 ? atoi(words[2]) : 0;
}
"""
needs_groups = pytest.mark.needs("root", "memory cgroup")


@pytest.fixture(scope="module")
def holds(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that holds so many MiB, and ends with a status."""
    folder = tmp_path_factory.mktemp("holds")
    (folder / "holds.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-o", folder / "holds", folder / "holds.c"], check=True)
    return str(folder / "holds")


@pytest.fixture
def how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("MEMLAB_STORE", str(tmp_path / "fit.db"))
    monkeypatch.setenv("MEMLAB_WAIT", "5min")
    return ["--keep-within", "faults: 5%", "-o", str(tmp_path), "--budget", "4min"]


def fitted(*words: str, code: int = 0) -> dict[str, Any]:
    done = memlab("fit", "--json", *words)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@needs_groups
def test_the_limit_lies_at_what_the_program_holds(holds: str, how: list[str]) -> None:
    found = fitted(*how, "--", holds, str(HELD_MIB))
    assert found["state"] == "answered"
    assert found["above_bytes"] < HELD_MIB * MIB + 2 * MIB
    assert HELD_MIB * MIB <= found["fits_bytes"] < 1.13 * HELD_MIB * MIB + 2 * MIB
    assert found["setting_bytes"] > found["fits_bytes"]
    killed = [row for row in found["limits"] if row["word"] == "broken"]
    assert all(set(row["outcomes"]) == {"oom-killed"} for row in killed)
    assert max(row["limit_bytes"] for row in killed) == found["above_bytes"]
    assert len(list(Path(how[how.index("-o") + 1]).glob("fit-*.png"))) == 1


@pytest.mark.slow
@needs_groups
def test_twice_the_memory_needs_twice_the_limit(holds: str, how: list[str]) -> None:
    one, two = (fitted(*how, "--", holds, str(mib))["fits_bytes"] for mib in (HELD_MIB, 106))
    assert 1.8 < two / one < 2.2


@pytest.mark.slow
@needs_groups
def test_a_gate_tries_its_limit_only(holds: str, how: list[str]) -> None:
    fits = fitted(*how, "--gate", "80M", "--", holds, str(HELD_MIB))
    assert [row["limit_bytes"] for row in fits["limits"]] == [80 * MIB]
    assert fits["state"] == "answered"
    small = fitted(*how, "--gate", "40M", "--", holds, str(HELD_MIB), code=1)
    assert small["state"] == "too small"
    assert small["limits"][0]["outcomes"] == {"oom-killed": 1}


@pytest.mark.slow
@needs_groups
def test_a_fit_that_ended_early_goes_on(holds: str, how: list[str]) -> None:
    """With what was measured: no limit is tried anew."""
    short = how[:-2]
    first = fitted(*short, "--budget", "2s", "--", holds, str(HELD_MIB))
    assert first["state"] == "open"
    rest = fitted(*short, "--budget", "4min", "--resume", "last")
    assert rest["run"] == first["run"]
    assert rest["state"] == "answered"
    assert rest["baseline_blocks"] > first["baseline_blocks"]


@needs_groups
def test_a_program_that_fails_without_a_limit_is_said_to(holds: str, how: list[str]) -> None:
    done = memlab("fit", "-q", *how, "--", holds, "1", "3")
    assert done.returncode == 3
    assert "does not end well without a limit either: failed (1): exit status 3" in done.stderr


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
        (["--resume", "x", "--", "true"], "without a command"),
    ],
)
def test_a_wrong_argument_is_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    done = memlab("--store", str(tmp_path / "fit.db"), "fit", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "fit.db").exists()
