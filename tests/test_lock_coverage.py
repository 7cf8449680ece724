"""Whether a lock was in force in processes that are too short to be looked at is not known."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unprivileged import without_capabilities

import memlab
from memlab.command.lock_coverage import unread_share
from memlab.judging import lock_coverage, reproduce, user_faults
from memlab.judging.compare import compare_runs
from memlab.judging.compare_levels import compare_levels
from memlab.present.documents.run import Show
from memlab.present.screens.answer import sentences
from memlab.text import units

TOUCHES = """
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void touch(long pages)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	volatile char *at = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
	for (long i = 0; i < pages; i++)
		at[i * 4096] = 1;
}
int main(int count, char **words)
{
	/* PAGES of its own, and how often each program is started; "" for a fork of this one. */
	touch((count == 2 ? 1 : 3) * atol(words[1]));
	for (int i = 2; i + 1 < count; i += 2)
		for (int often = atoi(words[i]); often; often--) {
			if (!fork()) {
				if (*words[i + 1])
					execl(words[i + 1], words[i + 1], words[1], NULL);
				touch(atol(words[1]));
				_exit(0);
			}
			wait(NULL);
		}
	return 0;
}
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "touches.c").write_text(TOUCHES)
    for words in (["-o", "dynamic"], ["-static", "-o", "static"]):
        subprocess.run(["cc", "-O1", *words, "touches.c"], cwd=folder, check=True)
    return folder


@pytest.mark.seconds(but="words1-20")
@pytest.mark.needs("lock any amount")
@pytest.mark.parametrize(
    ("words", "share"),
    [
        (["{}/dynamic", "1009"], 0),
        (["{}/dynamic", "1009", "1", "{}/static"], 20),
        (["{}/dynamic", "1009", "1", ""], 20),
        (["{}/dynamic", "1009", "9", "{}/static"], 70),
        (["{}/dynamic", "1009", "9", ""], 70),
    ],
)
def test_a_lock_that_short_processes_lack_is_not_answered_without_a_word(
    words: list[str], share: int, programs: Path, store_path: Path
) -> None:
    command = [word.format(programs) for word in words]
    run = memlab.trial(command, blocks=1, store=store_path, lock=["off", "future_onfault"])
    outcomes = {run.points[one.point].at["lock"]: one for one in run.samples}
    assert outcomes["off"].outcome == "ok"
    lines = [*lock_coverage.lines(run)]
    if (tried := outcomes["future_onfault"]).outcome != "ok":
        # On a busy host these processes live long enough to be seen without their lock.
        assert share
        assert tried.outcome == "unavailable"
        assert re.match("not in force: |no memory was locked in ", tried.detail or "")
        assert not lines
        return
    assert len(lines) == bool(share)
    for line in lines:
        found = re.match(r"lock=future_onfault: not known to be in force for (\d\d) %", line)
        assert found
        assert share <= int(found[1]) < share + 10
        assert line in [one.text for one in sentences(reproduce.of_run(run), verbose=False)]
        assert line in Show.made_of(run).remarks


@pytest.mark.needs("lock any amount")
def test_short_programs_that_are_locked_are_answered(programs: Path, store_path: Path) -> None:
    """Whether one was seen locked is by chance: what was not read refuses nothing."""
    command = [f"{programs}/dynamic", "101", "101", f"{programs}/dynamic"]
    run = memlab.trial(command, blocks=1, store=store_path, lock=["future_onfault"])
    (tried,) = run.samples
    assert tried.outcome == "ok", tried.detail
    share = (tried.raw or {})["lock_unread"]
    lines = [*lock_coverage.lines(run)]
    assert len(lines) == (share >= 0.1)
    assert all(units.format_percent(share) in line for line in lines)


@pytest.mark.needs("host root", "tracing of a CPU", "lock any amount")
@pytest.mark.parametrize(("kind", "least"), [("dynamic", 0), ("static", 60), ("", 60)])
def test_what_perf_counts_bounds_what_is_not_known(
    kind: str, least: int, programs: Path, store_path: Path
) -> None:
    """Nine short processes with three quarters of the page faults, which a lock brings in."""
    command = [f"{programs}/dynamic", "2003", "9", f"{programs}/{kind}" if kind else ""]
    run = memlab.trial(command, blocks=1, store=store_path, lock=["off", "future"], thp=["never"])
    outcomes = {run.points[one.point].at["lock"]: one for one in run.samples}
    if (tried := outcomes["future"]).outcome != "ok":
        assert least  # seen without its lock, on a busy host
        return
    lines = [*lock_coverage.lines(run)]
    assert len(lines) == bool(least)
    for line in lines:
        found = re.match(r"lock=future: not known to be in force for (\d\d) %", line)
        assert found
        assert least <= int(found[1]) < least + 20
        said = f"run {run.id}: {line}"
        assert said in compare_levels(run, {"lock": "off"}, metric="peak_rss").remarks
        assert said in compare_runs(run, run, metric="peak_rss").remarks
    faults = user_faults.of(tried)
    assert faults
    assert faults.counted / faults.all_of < 0.1 or least


def test_a_forged_share_of_a_run_without_a_lock_is_passed_over() -> None:
    sample = SimpleNamespace(outcome="ok", raw={"lock_unread": 0.9}, point=0)
    run: Any = SimpleNamespace(
        experiment=SimpleNamespace(starts_programs=True),
        samples=SimpleNamespace(read=lambda function, _: [function(sample)]),
        points=[SimpleNamespace(at={})],
    )
    assert [*lock_coverage.lines(run)] == []


LIMIT = 8 << 20  # RLIMIT_MEMLOCK's default: a shell has less, this program more
LARGE = f"static char large[{4 * LIMIT}]; int main(void) {{ return large[0]; }}"
TRIES = """
import sys, memlab
words = ["sh", "-c", f"{sys.argv[1]}; true"]
run = memlab.trial(words, blocks=1, store=sys.argv[2], lock=["future"])
print(run.samples[0].outcome, run.samples[0].detail)
"""


def test_a_lock_that_is_refused_to_a_program_of_a_shell_is_said(
    tmp_path: Path, store_path: Path
) -> None:
    """The shell itself has room for its lock, and ends well."""
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    if hard != resource.RLIM_INFINITY and hard < LIMIT:
        pytest.skip(f"RLIMIT_MEMLOCK is {hard} B: raise `ulimit -Hl` to 8192")
    (tmp_path / "large.c").write_text(LARGE)
    subprocess.run(["cc", "-o", "large", "large.c"], cwd=tmp_path, check=True)
    words = [sys.executable, "-c", TRIES, str(tmp_path / "large"), str(store_path)]
    done = subprocess.run(
        [*without_capabilities(), *words],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (LIMIT, LIMIT)),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    refused = "unavailable the lock was refused in a program that it started; it said: memlab: "
    assert done.stdout.startswith(refused)


@pytest.mark.parametrize(
    ("waited", "seen", "share"),
    [
        (400, {}, 0.4),
        (900, {7: 900}, 0.9),  # it had its lock, and what it started is unknown
        (900, {7: 50, 8: 300, 9: 100}, 0.5),
        (900, {7: 50, 8: 2000}, 0.0),
        (0, {7: 50}, 0.0),
    ],
)
def test_what_was_seen_locked_is_known(waited: int, seen: dict[int, int], share: float) -> None:
    page = os.sysconf("SC_PAGESIZE")
    report = {"minor": 1100, "minor_before": 100, "major": 0, "minor_waited": waited}
    locked = {pid: pages * page for pid, pages in seen.items()}
    assert unread_share(report, 7, locked) == share
