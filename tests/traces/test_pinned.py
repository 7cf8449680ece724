"""What `try` measures stays what it was: a trace is copied and checked once, a program is known."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

import memlab
from memlab.cli import cli
from memlab.errors import BadTrace, SubjectChanged
from memlab.experiment.points import Point
from memlab.run.executor import LocalExecutor

from .made import AT, MACHINE, START, Made

pytestmark = pytest.mark.skipif(not MACHINE, reason="replays are of x86-64 and arm64")

TOUCHED = 401


def made(touched: int = TOUCHED) -> Made:
    return Made().add(START).map(AT, 1009).touch(AT, touched)


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    made(7).write(other)
    other.rename(path)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(200)
        file.write(os.urandom(400))


@pytest.mark.parametrize("change", [replaced, overwritten, Path.unlink])
def test_a_trace_that_is_changed_in_mid_run_is_replayed_as_it_was(
    change: object, tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made().write(tmp_path / "a.trace")
    renew, blocks = LocalExecutor.renew, 0

    def changed(self: LocalExecutor, points: list[Point]) -> None:
        nonlocal blocks
        if (blocks := blocks + 1) == 2:
            change(path)  # type: ignore[operator]
        renew(self, points)

    monkeypatch.setattr(LocalExecutor, "renew", changed)
    run = memlab.trial([str(path)], blocks=3, store=store_path, lock=["off"])
    assert [sample.outcome for sample in run.samples] == ["ok"] * 3
    said = [(sample.raw or {})["output"] for sample in run.samples]
    assert all(f"replayed {TOUCHED} touches" in text for text in said)


def test_a_trace_is_checked_before_any_of_it_is_replayed(tmp_path: Path, store_path: Path) -> None:
    path = made().write(tmp_path / "a.trace")
    overwritten(path)
    with pytest.raises(BadTrace, match=r"a\.trace: it is damaged") as raised:
        memlab.trial([str(path)], blocks=1, store=store_path, lock=["off"])
    assert "/proc/" not in str(raised.value)
    assert not memlab.load(store=store_path).samples


def test_a_trace_that_is_another_since_it_was_asked_for_is_said(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made().write(tmp_path / "a.trace")
    begin = LocalExecutor.__init__

    def changed(self: LocalExecutor, *given: object, **how: object) -> None:
        (lossy := made()).lost = 7
        lossy.write(path)
        begin(self, *given, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalExecutor, "__init__", changed)
    with pytest.raises(SubjectChanged, match=r"a\.trace was changed since it was asked for"):
        memlab.trial([str(path)], blocks=1, store=store_path, lock=["off"])


def test_a_program_that_is_replaced_ends_the_run_and_gives_no_sample(
    tmp_path: Path, store_path: Path
) -> None:
    """It replaces itself at its fourth run; and is not what a resumed run would go on with."""
    app = tmp_path / "app"
    app.write_text(
        f"#!/bin/sh\necho >>{tmp_path}/runs\n"
        f"[ $(wc -l <{tmp_path}/runs) -lt 4 ] || {{ cp {app} {app}.new; mv {app}.new {app}; }}\n"
    )
    app.chmod(0o755)
    with pytest.raises(SubjectChanged, match="app was replaced or changed while it was tried"):
        memlab.trial([str(app)], blocks=9, store=store_path, lock=["off"])
    run = memlab.load(store=store_path)
    assert [sample.outcome for sample in run.samples] == ["ok"] * 3
    resumed = CliRunner().invoke(cli, ["--store", str(store_path), "sweep", "--resume", run.id])
    assert isinstance(resumed.exception, SubjectChanged)
    assert "after the run began" in str(resumed.exception)
