"""A sweep that can measure nothing says so before and after, with what to do, and ends with 3."""

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import Command

from memlab import api
from memlab.cli import cli
from memlab.errors import CannotRun
from memlab.present import report, tables
from memlab.run import beforehand
from memlab.store import Store

# OpenVZ's beancounters were never in Linux itself.
NOWHERE = ["group-isolation", "-p", "controller=beancounters", "--no-controls"]
WHY = "/proc/user_beancounters"


@pytest.fixture
def swept(command: Command, store_path: Path) -> str:
    done = command("sweep", *NOWHERE)
    assert done.returncode == CannotRun.exit_code
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("memlab: nothing was measured: ")
    assert last.count(WHY) == 1
    assert "memlab doctor" in last
    assert "as precise as asked" not in done.stderr
    return last


def test_a_sweep_says_so_once_and_keeps_its_run(swept: str, store_path: Path) -> None:
    run = api.load(store=store_path)
    assert f"run {run.id}" in swept
    assert not run.measured
    assert run.sessions[-1].ended == "unmeasured"


def test_quiet_and_json_end_with_3_as_well(command: Command, store_path: Path) -> None:
    quiet = command("sweep", *NOWHERE, "-q", "--blocks", "1")
    assert (quiet.returncode, len(quiet.stdout.split())) == (CannotRun.exit_code, 1)
    assert "unmeasured" in command("runs").stdout
    as_json = command("sweep", *NOWHERE, "--json")
    assert (as_json.returncode, as_json.stdout[:1]) == (CannotRun.exit_code, "{")


@pytest.mark.seconds
def test_what_reads_the_run_begins_with_it(command: Command, swept: str, store_path: Path) -> None:
    for name in ("show", "claims"):
        done = command(name)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("nothing was measured: ")
    html = report.html([api.load(store=store_path)])
    found = html.partition('class="found">')[2]
    assert found.lstrip().startswith("<p>nothing was measured: ")


def test_claims_that_share_a_reason_give_it_once(
    command: Command, swept: str, store_path: Path
) -> None:
    text = command("claims", COLUMNS="400").stdout
    assert text.count(WHY) <= 2  # the headline, and the claims about it


@pytest.mark.seconds
def test_dry_run_and_doctor_say_it_beforehand(command: Command, store_path: Path) -> None:
    planned = command("sweep", *NOWHERE, "--dry-run")
    assert planned.returncode == 3
    assert planned.stderr.startswith(f"memlab: nothing can be measured here: needs {WHY}")
    assert "time" not in planned.stdout
    said = command("doctor").stdout.splitlines()
    count, _, rest = said[0].partition(" of ")
    assert int(count) < int(rest.partition(" experiments run here in full")[0])
    short = [line.partition(": ")[2] for line in said if line.startswith(("in part", "decide no"))]
    assert "group-isolation" in ", ".join(short).split(", ")  # the second without a cgroup, too
    every = command("doctor", "--verbose").stdout.splitlines()
    assert any(line.startswith("  group-isolation, ") and WHY in line for line in every)


@pytest.mark.parametrize("how", [["--dry-run"], ["--blocks", "1"]])
def test_a_try_of_one_level_that_is_left_is_refused_as_it_is_planned(
    how: list[str], monkeypatch: pytest.MonkeyPatch, store_path: Path
) -> None:
    monkeypatch.setattr(beforehand, "reasons", lambda *_, **__: {1: "needs a thing: get it"})
    done = CliRunner().invoke(cli, ["try", "-p", "lock=off,future", *how, "--", "true"])
    assert isinstance(done.exception, CannotRun)
    assert str(done.exception) == "nothing is left to compare: needs a thing: get it"


@pytest.mark.seconds
def test_a_try_ends_where_its_trials_leave_one_level(store_path: Path) -> None:
    """More open files than any process may have: only setrlimit(2) says so."""
    words = ["try", "-p", "nofile=inherit,2147483647", "--", "true"]
    done = CliRunner().invoke(cli, ["--store", str(store_path), *words])
    assert isinstance(done.exception, CannotRun)
    assert str(done.exception).startswith("nothing is left to compare: setrlimit")
    with Store(store_path) as store:
        trials = Counter(sample.point for sample in store.samples(store.find("last").id))
    assert trials[0] <= 1
    assert trials[1] == 1
    run = api.load(store=store_path)
    how = "nothing to compare" if trials[0] else "unmeasured"
    assert run.sessions[-1].ended == how
    assert "--resume" not in done.output
    for reason in ("budget", "interrupted"):  # a signal, or a budget of its one trial
        with Store(store_path) as store:
            store.end_session(run.id, 1, 1.0, reason)
        assert "--resume" not in " ".join(tables.ended(api.load(store=store_path)))
