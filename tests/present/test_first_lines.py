"""The first screen: the answer, what disturbed it, and numbers that can be believed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looking import written
from made_up import Machine
from quick import mostly_slow
from synthetic import run_row, sample, window

from memlab import api, experiments
from memlab.analysis.intervals import Interval
from memlab.judging import claims, costs, reproduce
from memlab.present import figures, tables, verdicts, words
from memlab.present.answer import lines, of_most_rows
from memlab.present.key_table import key_tables, shortened
from memlab.present.screens import answer
from memlab.present.screens import claims as claims_screen
from memlab.present.screens import run as run_screen
from memlab.present.table import SCREEN_WITH_TABLE, Column, Table, console
from memlab.results import Run, beside
from memlab.results.run import _inside_ns
from memlab.store import PointRow, Store

NAMES = experiments.names()
# One of each kind of figure, and what has many checks or cost models.
QUICK = ("allocator", "device-pinning", "load-latency", "memcg-notify", "mmap-write")
QUICK += ("locked-latency", "reclaim-or-kill", "retained-memory", "vma-lock")


@pytest.mark.parametrize(
    ("low", "estimate", "high", "said"),
    [
        (0.99, 1.0, 1.01, "1 s ±1 %"),
        (5.2, 8.07, 810.0, "8.07 s (5.2 to 810 s)"),  # ±5000 % was meant by nobody
        (0.4, 1.0, 2.1, "1 s (400 ms to 2.1 s)"),
        (0.99, 1.0, 1.3, "1 s (990 ms to 1.3 s)"),  # narrow, and one side is much longer
        (0.9, 1.0, 1.2, "1 s ±15 %"),
    ],
)
def test_a_skew_or_wide_interval_is_said_by_its_ends(
    low: float, estimate: float, high: float, said: str
) -> None:
    assert words.median(Interval(low, estimate, high, 9, "order"), "s") == said


@pytest.mark.seconds(but="locked-latency")
@pytest.mark.parametrize("name", mostly_slow(NAMES, *QUICK))
def test_a_sweep_ends_on_one_screen_and_show_begins_with_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with a table of its numbers: none without an interval in it, but exact counts."""
    run = api.load(f"example:{name}")
    monkeypatch.setenv("COLUMNS", "80")
    last = ["figure: /root/.local/share/memlab/figures/it.png", f"next: memlab claims {run.id}"]
    run_screen.ended(run, last)
    ended = capsys.readouterr().out.splitlines()
    run_screen.show(run)
    shown = capsys.readouterr().out.splitlines()
    for screen in (ended, shown):
        assert len(screen) <= SCREEN_WITH_TABLE
        assert [line for line in screen if line and not line.strip("─")]
        assert not re.search(r"n=[1-5]\b", "\n".join(screen))
    assert ended[-2:] == last
    # The question, and how many claims hold or where a side becomes the cheaper one.
    assert " ".join(ended).startswith(f"run {run.id}")
    assert run.experiment.question in " ".join(ended[:3])
    first = " ".join(ended[:7])
    assert re.search(r"[0-9]+ of [0-9]+ claims? .*holds?|cheaper", first)
    wrong = (i for i, line in enumerate(ended) if line.startswith(("contradicted", "incon")))
    answer = next(wrong, 1)
    assert shown[:answer] == ended[:answer]


@pytest.mark.seconds
def test_a_published_number_stands_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = api.load("example:mmap-write")
    monkeypatch.setenv("COLUMNS", "120")
    every = [*beside.tables(run)]
    once = tables.published_once(run, every)
    assert [cell.text for one in once for row in one.cells for cell in row].count("22.1 s") == 1
    run_screen.show(run, verbose=True)
    settings = len(every)
    assert settings > 1
    assert capsys.readouterr().out.count("22.1 s") == settings  # whole: once for each


def test_a_model_that_is_far_off_is_not_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever experiment's it is: each line of a model that is left out is there with -v."""
    monkeypatch.setattr(costs, "_FAR_OFF", 0.1)  # no recorded run has one that is ten times off
    left_out = 0
    for name in ("mmap-read", "mmap-write"):
        run = api.load(f"example:{name}")
        every = costs.lines_for_show(run, every=True)
        good = costs.lines_for_show(run, every=False)
        assert {*good} <= {*every}
        left_out += len(every) - len(good)
        run_screen.show(run)
        said = " ".join(capsys.readouterr().out.split())
        assert all(line in said for line in good) or ", the cost models" in said
        assert not any(line in said for line in every if line not in good)
    assert left_out


@pytest.mark.seconds
def test_one_name_for_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the table, the crossing, the verdicts and the figure."""
    run = api.load("example:mmap-write")
    run_screen.show(run, verbose=True)
    said = " ".join(capsys.readouterr().out.split())
    assert "file system of --dir" not in said
    assert "(dir)" not in said
    assert "-p takes method=write for write(2), file_state=preallocated for preallocated" in said
    states = {
        "preallocated": "preallocated file",
        "cached_4k": "overwritten in the page cache",
        "sparse": "new file",
    }
    for state in states.values():
        assert f"ext4 at /var/tmp, {state}: " in said
    found = reproduce.of_run(run)
    claims_screen.in_full([found], [])
    said = " ".join(capsys.readouterr().out.split())
    assert {one.setting["file_state"] for one in found.judged} == states.keys()
    for one in found.judged:
        assert f"{one.word} ({states[str(one.setting['file_state'])]}): {one.evidence}" in said


@pytest.mark.parametrize("state", mostly_slow(["preallocated", "cached_4k"], "cached_4k"))
def test_a_crossing_whose_claim_falls_among_all_verdicts_says_so(
    state: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or the first line says what `so:` below it has as not decided yet."""
    run = api.load("example:mmap-write")
    found = [
        replace(one, adjusted_p=0.06)
        if one.claim.id == "crossover" and one.setting["file_state"] == state
        else one
        for one in claims.judge(run)
    ]
    for module in (reproduce, verdicts):
        monkeypatch.setattr(module, "judge", lambda _: found)
    run_screen.show(run)
    lines = re.sub(r"\s+", " ", capsys.readouterr().out).partition(" so: ")[0].split("ext4 at ")[1:]
    falls = [line for line in lines if "undecided with all of the run's verdicts" in line]
    assert len(lines) == 3
    (line,) = falls
    assert {"preallocated": "preallocated", "cached_4k": "overwritten"}[state] in line
    headline = written(figures.draw(run))  # its panels' words stay short, and say it once
    places = re.findall(r"(\w+ file|page cache): [^:]*undecided with all", headline)
    assert places == [{"preallocated": "Preallocated file", "cached_4k": "page cache"}[state]]
    assert headline.count("undecided with all of the run's verdicts") == 1


def busy_run(store: Path, ticks: int) -> Run:
    experiment = experiments.load("mmap-write")
    machine = Machine(store)
    machine.sweep("mmap-write", size=[1, 4096], controls=False)
    with Store(store) as opened:
        points = opened.points("00000001")
        opened.add_run(
            run_row(id="b", experiment=experiment.name, request={"experiment": experiment.name}),
            [PointRow(p.point, dict(p.levels), p.control) for p in points],
        )
        session = opened.begin_session("b")
        for block in range(6):
            for point in points:
                result: dict[str, Any] = {
                    "window": window(1_000_000 * (2 + block % 3)),
                    "call_count": 256,
                    "byte_count": 1 << 20,
                    "floor_ns": 1,
                    "floor_call_count": 10,
                    "prepare_ns": 1,
                    "sync_ns": 0,
                    "resident_before_bytes": 1 << 20,
                    "host": {"other_cpus_ticks": 100, "other_cpus_busy_ticks": ticks},
                }
                reply = {"outcome": "ok", "result": result, "probe_hash": "5eed"}
                opened.add_sample("b", session, 1.0, sample(point.point, block, reply))
        opened.end_session("b", session, 1.0, "blocks")
    return api.load("b", store=store)


def test_a_busy_machine_is_said_in_the_third_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run_screen.ended(busy_run(tmp_path / "busy.db", 93), [])
    third = capsys.readouterr().out.splitlines()[2]
    assert third.startswith("busy machine: the other CPUs were busy for 93 % of the time")
    assert "repeat it when quiet" in third
    run_screen.ended(busy_run(tmp_path / "quiet.db", 2), [])
    assert "busy machine" not in capsys.readouterr().out


def test_a_sweep_that_gave_up_says_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "s.db")
    machine.blocks = 2  # too few for any verdict
    run = machine.sweep("mmap-write", controls=False)
    with Store(machine.store) as store:
        store.end_session(run.id, 1, 1.0, "decided")
    (line, *_) = tables.ended(api.load(run.id, store=machine.store))
    assert re.search(r"the sweep ended: [0-9]+ of [0-9]+ verdicts left undecided$", line)


def test_a_services_load_is_counted_once() -> None:
    """Shares of time are under 100 %: the load is the window, and no second one."""
    raw = {"window": {"elapsed_ns": 7}, "load": {"started_ns": 1, "elapsed_ns": 7}, "steady": 1}
    assert _inside_ns(raw) == 7
    assert _inside_ns({**raw, "steady": {"started_ns": 9, "elapsed_ns": 3}}) == 10


def test_json_is_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """What programs read has the level and not the label, and `published` as its name."""
    from memlab.judging.reproduce import of_run
    from memlab.present import documents
    from memlab.present.documents.claims import Claims

    run = api.load("example:mmap-write")
    document = json.loads(documents.text(Claims.made_of([of_run(run)])))
    (found, *_) = document["experiments"]
    states = {one["levels"].get("file_state") for one in found["claims"]}
    assert states == {"preallocated", "cached_4k", "sparse"}
    assert all("published" in one for one in found["claims"])


def test_four_rows_with_too_little_room_stay_with_fewer_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two policies with two levels each: no row may be missing, and no table is none."""
    monkeypatch.setenv("COLUMNS", "80")
    columns = [Column("policy", "left"), *(Column(f"metric {n}") for n in range(1, 6))]
    rows = [[f"level {n}", *["1.25 s (1.01 to 1.52 s)"] * 5] for n in range(4)]
    whole, run, screen = Table("medians", columns, rows), api.load("example:thp-cost"), console()
    assert len(lines(screen, [whole])) > 15
    shown = of_most_rows(screen, whole, 15, lambda table, count: shortened(run, table, count))
    printed = lines(screen, [shown])
    assert len(printed) <= 15
    assert [line.split("  ")[0] for line in printed if line.startswith("level")] == [
        f"level {n}" for n in range(4)
    ]
    assert "metric 2" in "".join(printed)
    assert "2 of 5 columns\n" in printed


def test_one_claim_that_holds_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = busy_run(tmp_path / "one.db", 2)
    first = next(item for item in claims.judge(run) if not item.absent)
    held = replace(first, verdict=replace(first.verdict, word="reproduced"), adjusted_p=None)
    monkeypatch.setattr(reproduce, "judge", lambda _: [held])
    assert (
        answer._counted(reproduce.of_run(run))
        == f"1 of 1 claim holds on this machine: {first.claim.text}"
    )


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (
            "RLIMIT_MEMLOCK is 8 MiB, 16 MiB to 392 MiB needed (ulimit -l, LimitMEMLOCK=)",
            "RLIMIT_MEMLOCK is 8 MiB",
        ),
        ("needs swap, and CAP_SYS_ADMIN is not held: run as root", "needs swap"),
        ("exit status 1", "exit status 1"),
    ],
)
def test_a_remedy_stands_once_where_the_sweep_begins(text: str, short: str) -> None:
    assert words.cause(text) == short


def test_the_table_of_the_first_recommendation_stands_first() -> None:
    """Of a log that is flushed: the second one, of no flush, needs two points of one table."""
    run = api.load("example:log-append")
    shown = key_tables(run, [])
    assert [item.title.partition(", ext4")[0] for item in shown[:3]] == [
        "time per record (s): a flush per record",
        "time per record (s): a flush per 100 records",
        "time per record (s): a flush at the end",
    ]
