"""Verdicts and comparisons as a reader sees them, and the exit codes of their commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from synthetic import run_row, sample, window

from memlab import experiments, measure
from memlab.cli import cli
from memlab.errors import CannotRun
from memlab.experiment import At
from memlab.judging import summary
from memlab.present.screens import claims as claims_screen
from memlab.present.verdicts import ClaimVerdicts, ShownVerdict
from memlab.run import plan
from memlab.store import PointRow, Store

BYTES_NS = {"mmap": 0.1, "write": 0.02, "read": 0.2, "anon": 0.02}  # a byte
CALL_NS = {"mmap": 1, "write": 500, "read": 400, "anon": 0}
BYTES = 1 << 20


def raw(at: At, block: int) -> dict[str, Any]:
    """What a probe would return where calls and bytes cost as above, with 1 % noise."""
    size, method = int(at["size"]), str(at["method"])
    calls = BYTES // size
    byte_ns = 0.0 if at.get("touch") == "none" and method == "mmap" else BYTES_NS[method]
    if at["advice"] != "normal":
        byte_ns /= 10
    elapsed_ns = calls * CALL_NS[method] + byte_ns * BYTES
    return {
        "window": window(round(elapsed_ns * (1 + 0.01 * (block * 7 % 5 - 2) / 2))),
        "call_count": calls,
        "byte_count": calls * size,
        "floor_ns": 1,
        "floor_call_count": 10,
        "prepare_ns": 1,
        "sync_ns": 0,
        "resident_before_bytes": BYTES,
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run of each experiment on mmap, as a made-up machine would have it."""
    path = tmp_path_factory.mktemp("store") / "results.db"
    with Store(path, create=True) as store:
        for name in ("mmap-write", "mmap-read"):
            points = plan.build(experiments.load(name), "quick", {}).points
            row = run_row(id=f"{name}-run", experiment=name, request={"experiment": name})
            store.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
            session = store.begin_session(row.id)
            for block in range(9):
                for point in points:
                    reply = {"outcome": "ok", "result": raw(point.at, block), "probe_hash": "5eed"}
                    store.add_sample(row.id, session, 1.0, sample(point.index, block, reply))
            store.end_session(row.id, session, 1.0, "blocks")
    return path


def ask(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--store", str(store), "claims", *arguments])


def flat(text: str) -> str:
    """Without the line breaks of a narrow terminal."""
    return " ".join(text.split())


def test_the_first_line_is_for_a_reader_who_knows_no_statistics(run: Path) -> None:
    lines = ask(run, "mmap-read-run").output.splitlines()
    assert lines[0] == "2 of 3 claims hold on this machine; 1 is contradicted."
    words = [line.split(" ")[0] for line in lines if line.startswith(("contra", "repro"))]
    assert words == ["contradicted", *["reproduced"] * (len(words) - 1)]


def test_the_published_table_stands_beside_ours(run: Path) -> None:
    output = ask(run, "mmap-write-run", "--verbose").output
    row = next(line for line in output.splitlines() if line.strip().startswith("4 KiB"))
    assert row.split()[2:4] == ["2.48", "s"]
    assert "1.74 s" in row
    assert "here / published" in output


def test_under_it_stand_the_claims_with_word_evidence_and_controls(run: Path) -> None:
    text = flat(ask(run, "mmap-write-run", "--verbose").output)
    assert (
        "claim one-byte: at 1 byte per call a mapping is over 10 times faster than write(2)" in text
    )
    for state in ("preallocated file", "overwritten in the page cache", "new file"):
        assert f"reproduced ({state}): write(2) / mmap at 1 B: 455" in text
    assert "9 blocks" in text
    assert "Control faults: with the write faults taken before the window, and not counted" in text
    assert "to get it: memlab sweep mmap-write -p file_state=cached_4k,cached_1m." in text


def test_impossible_numbers_are_named(run: Path) -> None:
    text = flat(ask(run, "mmap-read-run", "--verbose").output)
    assert "Control memory: 2 GiB in 867.88 µs would be 2.25 TiB/s" in text
    assert "the published loop read nothing in its timed part" in text


def test_settings_that_agree_are_one_line_with_the_closest_call(run: Path) -> None:
    text = flat(ask(run, "mmap-read-run").output)
    assert "size 1 B to 10 KiB, 8 levels; the closest, 10 KiB" in text


def test_json_holds_the_numbers_and_the_rows_they_rest_on(run: Path) -> None:
    data = json.loads(ask(run, "mmap-write-run", "--json").output)
    (experiment,) = data["experiments"]
    assert experiment["run"] == "mmap-write-run"
    assert {table["table"] for table in experiment["published"]} == {"write"}
    claim = experiment["claims"][-1]
    assert claim["verdict"] == "reproduced"
    assert claim["low"] < claim["estimate"] < claim["high"]
    assert len(claim["samples"]) == 9 * len(claim["points"])


@pytest.mark.parametrize(("gate", "code"), [([], 0), (["--gate"], 1)])
def test_a_contradiction_closes_a_gate_that_was_asked_for(
    run: Path, gate: list[str], code: int
) -> None:
    assert ask(run, "mmap-read-run", *gate).exit_code == code


def test_a_host_that_can_carry_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise CannotRun("/nowhere is not a directory; name one with --dir")

    monkeypatch.setattr(measure, "prepare", refuse)
    store = str(tmp_path / "results.db")
    result = CliRunner().invoke(cli, ["--store", store, "reproduce", "logstore-mmap"])
    assert isinstance(result.exception, CannotRun)
    assert str(result.exception) == "/nowhere is not a directory; name one with --dir"


def test_a_short_line_says_that_a_verdict_needs_more_blocks() -> None:
    """Its interval alone would decide it, and a reader is to see why it does not."""
    number = "x308 (148 to 443)"
    evidence = f"{number}, claimed above 10; {summary.FALLEN}"
    verdict = ShownVerdict("", "inconclusive", number, evidence, (), (), 1, 6, 2.0)
    claim = ClaimVerdicts("id", "a claim", "", "not decided", [verdict])
    (line,) = claims_screen._short_lines(claim, 80)
    assert line == ("inconclusive", "a claim", f"{number}, claimed above 10; needs more blocks")
