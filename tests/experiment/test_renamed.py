"""Names that were others before: on a command line the old name is answered with the new one; a
stored run and an exported file that hold it are read under the new one."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memlab import api, experiments
from memlab.errors import BadLevels
from memlab.experiment import renamed
from memlab.experiment.levels import check_levels, read_levels
from memlab.judging.compare import NotComparable, compare_runs
from memlab.results import Run
from memlab.store import Store, database


@pytest.fixture(scope="module")
def run() -> Run:
    return api.load("stack-map", example=True)


def names(value: Any) -> Iterator[str]:
    """Every key in what a probe returned."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from names(part)


@pytest.mark.parametrize("name", renamed.RENAMED)
def test_a_recorded_run_holds_the_new_names_and_none_of_the_old(name: str) -> None:
    recorded = api.load(name, example=True)
    held = {metric.name for metric in recorded.experiment.metrics}
    held |= {f"control={control.name}" for control in recorded.experiment.controls}
    for factor in recorded.experiment.factors:
        held |= {factor.name, *(f"{factor.name}={level}" for level in factor.kind.levels or ())}
    for sample in recorded.samples:
        held |= set(names(sample.raw))
    old, new = set(renamed.RENAMED[name]), set(renamed.RENAMED[name].values())
    assert new <= held
    assert not old & held
    controls = {control.name for control in recorded.experiment.controls}
    assert {point.control for point in recorded.points} <= controls | {None}


def test_an_old_metric_is_answered_with_the_new_one(run: Run) -> None:
    with pytest.raises(NotComparable, match="'faults_a_thread' is renamed to 'faults_per_thread'"):
        compare_runs(run, run, metric="faults_a_thread")


def test_an_old_factor_or_level_is_answered_with_the_new_one() -> None:
    assert BadLevels.exit_code == 2
    experiment = experiments.load("coop-reclaim")
    said = "^coop-reclaim: manager=told,kernel is renamed to eviction=notified,kernel$"
    with pytest.raises(BadLevels, match=said):
        read_levels(experiment, ["manager=told,kernel"])
    with pytest.raises(BadLevels, match="manager=told is renamed to eviction=notified"):
        check_levels(experiment, {"manager": "told"})
    assert read_levels(experiment, ["eviction=notified"]) == {"eviction": ["notified"]}


RAW = {"cache": {"notice_count": 7, "dropped_count": 23}, "notices": {"values": [7, 23]}}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store in format 3, with points of a grid and of a control."""
    path = tmp_path / "old.db"
    request = {"experiment": "coop-reclaim", "levels": {"manager": ["told", "kernel"]}}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as closing:
        patch.setattr(database, "MIGRATIONS", database.MIGRATIONS[:3])
        patch.setattr(database, "CHECKSUMS", database._BEFORE_ORIGIN)
        db = database.opened(path, True, closing)
        db.execute(
            "INSERT INTO runs VALUES ('0123abcd', 'coop-reclaim', NULL, '', 7, ?, '{}', '', NULL)",
            (json.dumps(request),),
        )
        for number, (level, control) in enumerate((("told", None), ("counted", "counted"))):
            db.execute(
                "INSERT INTO points VALUES ('0123abcd', ?, ?, ?, NULL)",
                (number, json.dumps({"manager": level, "swap": "file"}), control),
            )
            db.execute(
                "INSERT INTO samples VALUES"
                " (NULL, '0123abcd', ?, 0, 0, 'ok', NULL, 0, 0, 1, '', ?, NULL, NULL)",
                (number, json.dumps(RAW)),
            )
        db.execute("INSERT INTO sessions VALUES ('0123abcd', 1, 0, 1, 'blocks', NULL, 2)")
        for table in database.CHECKSUMS:
            database.seal(db, table, "true")
    return path


def test_an_old_store_is_read_under_the_new_names(old: Path) -> None:
    with Store(old) as opened:
        row = opened.find("0123abcd")
        points, samples = opened.points(row.id), list(opened.samples(row.id))
        assert opened.damaged() == {}
    assert row.request["levels"] == {"eviction": ["notified", "kernel"]}
    assert [(point.levels, point.control) for point in points] == [
        ({"eviction": "notified", "swap": "file"}, None),
        ({"eviction": "self_counted", "swap": "file"}, "self_counted"),
    ]
    assert [sample.raw for sample in samples] == [
        {
            "cache": {"notification_count": 7, "evicted_count": 23},
            "notifications": {"values": [7, 23]},
        }
    ] * 2
    with Store(old) as opened:  # as it is on the disk now
        assert opened.points(row.id) == points


def test_what_was_changed_in_an_old_store_stays_damaged(old: Path) -> None:
    with ExitStack() as closing, pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", database.MIGRATIONS[:3])
        db = database.opened(old, False, closing)
        db.execute("UPDATE points SET levels = replace(levels, 'file', 'zram') WHERE point = 1")
    with Store(old) as opened:
        assert list(opened.damaged()) == ["0123abcd"]
