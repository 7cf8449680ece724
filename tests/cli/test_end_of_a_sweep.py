"""What a finished sweep ends with: its verdicts, and what it still lacks."""

import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Command
from made_up import Machine

from memlab import api
from memlab.cli import _sweeping
from memlab.present import tables
from memlab.present.answer import Block, fit, not_shown, open_blocks
from memlab.present.table import SCREEN_WITH_TABLE, console
from memlab.store import Store


def test_a_budget_that_was_too_short_is_said_with_what_would_do(store_path: Path) -> None:
    machine = Machine(store_path)
    machine.blocks = 2
    run = machine.sweep("mmap-write", size=[4096], controls=False)
    assert not any("--resume" in line for line in tables.ended(run))
    assert tables.going_on(run) == ""
    with Store(store_path) as store:
        store.end_session(run.id, 1, 1.0, "budget")
    ended = api.load(store=store_path)
    assert tables.going_on(ended) == f"memlab sweep --resume {run.id} --budget 3s"
    (line,) = (s for s in tables.ended(ended) if "--resume" in s)
    count = len(run.points)
    # 1 s for 2 samples of each point: the 4 that are missing take 2 s, and a fifth is added.
    assert line == (
        f"0 of {count} points have the 6 samples of an interval; the others get them by: "
        f"memlab sweep --resume {run.id} --budget 3s"
    )


def test_a_budget_that_left_claims_open_is_followed_by_the_one_that_decides(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(store_path)
    machine.blocks = 7
    run = machine.sweep("mmap-write", size=[4096], controls=False)
    trials_s = float(run.samples.taken("trial_s").sum())
    with Store(store_path) as store:
        store.end_session(run.id, 1, trials_s, "budget")
    ended = api.load(store=store_path)
    assert tables.going_on(ended) == ""  # nothing says what decides what is open
    monkeypatch.setattr(tables, "deciding_s", lambda _: 9.0)
    assert tables.going_on(ended) == f"memlab sweep --resume {run.id} --budget 10s"


def test_a_first_screen_has_no_number_without_an_interval(store_path: Path) -> None:
    machine = Machine(store_path)
    machine.blocks = 2
    run = machine.sweep("mmap-write", size=[4096], controls=False)
    for shown in tables.medians(run, settled=True):
        assert {str(cell) for row in shown.cells for cell in [c.text for c in row[1:]]} == {
            "not yet"
        }
    assert all("n=2" in row[1].text != "n=2" for one in tables.medians(run) for row in one.cells)


def test_a_claim_is_not_cut_in_the_middle_and_what_has_no_room_is_counted() -> None:
    """The first three lines of claims come before a table, the others after it."""
    claims, screen = [["a"], ["b", "c"], ["d"]], console()
    blocks = [
        Block(["x"]),
        *open_blocks(screen, claims, "open claim"),
        Block(["t", "u"], "table", rank=1),
        Block(["m"] * 4, "the cost models", rank=3),
    ]
    shown = {room: ("".join(lines).split(), dict(left)) for room in (1, 4, 6, 7, 11)
             for lines, left in [fit(screen, blocks, room)]}  # fmt: skip
    models = {"the cost models": 1}
    assert shown[1] == (["x"], {"open claim": 3, "table": 1} | models)
    assert shown[4] == (["x", "a", "b", "c"], {"open claim": 1, "table": 1} | models)
    assert shown[6] == (["x", "a", "b", "c", "t", "u"], {"open claim": 1} | models)
    assert shown[7] == (["x", "a", "b", "c", "d", "t", "u"], models)
    assert shown[11][1] == {}
    # The line that names what is left out takes some.
    assert fit(screen, blocks, 11, reserved=2)[1] == {}
    assert fit(screen, blocks, 10, reserved=2)[1] == models
    assert fit(screen, blocks, 8, reserved=2)[1] == {"open claim": 1} | models
    shorter = [Block(["a"] * 9, "table", shorter=lambda room: ["b"] * room), *blocks]
    assert "".join(fit(screen, shorter, 4)[0]).split() == ["b", "b", "b", "x"]
    (line,) = not_shown(shown[1][1], "memlab show -v", "the rest")
    assert line == "not shown: 3 open claims, 1 table, the cost models, the rest: memlab show -v"
    assert not_shown({}, "memlab show -v") == []


def test_a_long_claim_comes_before_a_table_and_leaves_room_to_short_ones() -> None:
    long, short = ["a"] * 4, ["b"]
    for entries, ranks in (([long, short], [0, 2]), ([short, long, short], [0, 2, 0])):
        assert [block.rank for block in open_blocks(console(), entries, "open claim")] == ranks


def test_a_sweep_ends_with_its_verdicts(
    swept: subprocess.CompletedProcess[str], measured: Path
) -> None:
    *answer, figure, last = swept.stdout.splitlines()
    run = api.load(store=measured)
    said = " ".join(answer)
    assert said.startswith(f"run {run.id} (small): {run.experiment.question} ")
    assert re.search(r": write (not )?cheaper |: mmap cheaper ", said)
    assert re.search(r"[0-9] of [0-9] claims? holds? on this machine", said)
    assert len(swept.stdout.splitlines()) <= SCREEN_WITH_TABLE
    assert figure.startswith("figure: ")
    assert re.fullmatch(rf"next: memlab --store \S+ claims {run.id}", last)


@pytest.mark.seconds
def test_a_run_whose_blocks_are_all_done_says_so(
    command: Command, measured: Path, tmp_path: Path
) -> None:
    """More blocks of it would be chosen by its result."""
    store = Path(shutil.copy(measured, tmp_path / "results.db"))
    resumed = command("--store", str(store), "sweep", "--resume", "small")
    assert resumed.returncode == 0
    done = "done: all of its blocks had been measured; to measure more of them, begin a new sweep"
    assert done in resumed.stderr


def test_no_thread_is_in_a_write_when_python_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else it ends with a fatal error: could not acquire lock at interpreter shutdown."""
    at_the_end: list[Callable[[], None]] = []
    beating = threading.Event()
    monkeypatch.setattr(_sweeping.atexit, "register", at_the_end.append)
    rows = _sweeping.Rows()
    with monkeypatch.context() as patched:
        patched.setattr(_sweeping.threading.Thread, "start", lambda _: None)
        _sweeping.on_a_link(rows)
    (end,) = at_the_end
    end()
    late = threading.Thread(target=lambda: (beating.set(), rows("")), daemon=True)
    late.start()
    assert beating.wait(60)
    late.join(0.05)
    assert late.is_alive()
    assert capsys.readouterr().out == ""
    rows._turn.release()
    late.join()
    assert capsys.readouterr().out == "\n"
