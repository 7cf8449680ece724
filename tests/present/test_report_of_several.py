"""A report of several runs compares them, and says what they share once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_up import Machine
from report_runs import plain_figures

from memlab.cli import cli
from memlab.errors import UnknownRun
from memlab.present import report


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    machine = Machine(tmp_path_factory.mktemp("several") / "runs.db")
    machine.environment |= {"cpu_model": "one and only CPU"}
    base = machine.sweep("mmap-write", size=[4096, 16384], controls=False)
    machine.factor, machine.environment = 2.0, machine.environment | {"uptime_s": 77}
    run = machine.sweep("mmap-write", size=[4096, 16384], controls=False)
    with plain_figures():
        html = report.html([base, run])
    return re.sub(r"<svg.*?</svg>", "", html, flags=re.S)


def test_the_runs_are_compared_first(text: str) -> None:
    compared = text.partition('id="compared"')[2].partition("</section>")[0]
    assert "run 00000002 against run 00000001" in compared
    assert compared.count(">slower<") == 4
    assert "2 (1.97 to 2.03)" in compared


def test_the_machine_is_said_once(text: str) -> None:
    first, second = text.split('<dl class="environment">')[1:]
    assert "one and only CPU" in first
    assert "one and only CPU" not in second.partition("</dl>")[0]
    assert "<dt>uptime_s</dt><dd>77</dd>" in second
    assert "That of run 00000001, but for what follows." in text


@pytest.mark.slow
def test_a_study_is_the_newest_run_of_each_of_its_experiments(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "runs.db")
    for _ in range(2):
        run = machine.sweep("mmap-write", size=4096, controls=False)
    named = ["report", "logstore-mmap", "-o", str(tmp_path / "study.html")]
    done = CliRunner().invoke(cli, ["--store", str(machine.store), *named])
    assert done.exit_code == 0, done.output
    assert "no run of mmap-overcommit, mmap-read: not in the report" in done.stderr
    text = (tmp_path / "study.html").read_text("utf-8")
    assert f"run {run.id}" in text
    assert "run 00000001" not in text
    several = ["--store", str(machine.store), "report", "chen-2014", *named[1:]]
    with pytest.raises(UnknownRun, match=r"no run of chen-2014; .*reproduce chen-2014"):
        CliRunner().invoke(cli, several, catch_exceptions=False)
