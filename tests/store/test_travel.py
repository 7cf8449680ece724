"""Rows that travel: what comes in is what went out, once, whole or not at all."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filled import POINTS, fill
from synthetic import ok, run_row, sample, without_id

from memlab import recorded
from memlab.errors import BadExport, MemlabError, StoreError
from memlab.store import Store, lines, travel

RUN = "0123abcd"


def rows(store: Path, known: travel.Known | None = None) -> str:
    """What a store sends."""
    with Store(store) as opened:
        return "".join(
            f"{line}\n" for line in travel.outgoing(opened, opened.listed()[0], known or {})
        )


def take(store: Path, text: str, *, partial: bool = False, host: str | None = "b") -> travel.Taken:
    with Store(store, create=True) as opened:
        return travel.take_in(opened, io.BytesIO(text.encode()), "rows", host, partial=partial)


def everything(store: Path) -> list[Any]:
    """All that a store holds of its runs, but where they come from."""
    with Store(store) as opened:
        return [
            (
                replace(run, origin=None),
                opened.points(run.id),
                without_id(list(opened.samples(run.id))),
                opened.sessions(run.id),
            )
            for run in opened.runs()
        ]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The store of another host."""
    store = tmp_path / "theirs.db"
    with Store(store, create=True) as opened:
        fill(opened)
        fill(opened, "bbbb0000", created_at="2026-02-02")
        session = opened.begin_session(RUN)
        opened.add_sample(RUN, session, 1.0, sample(1, 1, ok(9)))
        opened.end_session(RUN, session, 2.0, "blocks")
    return store


def test_what_goes_out_comes_in_and_again_changes_nothing(path: Path, theirs: Path) -> None:
    first = take(path, rows(theirs))
    assert (first.runs, first.whole) == ({RUN: 4, "bbbb0000": 3}, True)
    assert everything(path) == everything(theirs)
    with Store(path) as opened:
        assert {run.origin for run in opened.runs()} == {"b"}
        assert opened.damaged() == {}
        assert not opened.listed()[1]
    again = take(path, rows(theirs) + rows(theirs))
    assert again.runs == {RUN: 0, "bbbb0000": 0}
    assert everything(path) == everything(theirs)


def test_a_store_comes_in_and_is_left_as_it_was(path: Path, theirs: Path) -> None:
    before = theirs.read_bytes()
    with Store(path, create=True) as opened:
        assert travel.is_store(theirs)
        assert travel.take_store_in(opened, theirs, "b").runs == {RUN: 4, "bbbb0000": 3}
    assert everything(path) == everything(theirs)
    assert theirs.read_bytes() == before


@pytest.mark.parametrize("experiment", ["page-fault", "vma-lock"])
def test_a_recorded_run_comes_in_both_ways(path: Path, experiment: str) -> None:
    store = recorded.store(experiment)
    with Store(path, create=True) as opened:
        (new,) = travel.take_store_in(opened, store, "b").runs.values()
    assert new > 0
    with Store(store) as opened:
        text = "".join(f"{line}\n" for line in travel.outgoing(opened, opened.listed()[0], {}))
    assert set(take(path, text).runs.values()) == {0}
    assert everything(path) == everything(store)


def test_only_what_is_not_known_is_sent(path: Path, theirs: Path) -> None:
    text = rows(theirs)
    cut = text[: text.index('"row":"end"') - 900]
    came = take(path, cut, partial=True)
    assert not came.whole
    with Store(path) as opened:
        have = travel.known(opened)
    assert have == {RUN: (4, "blocks"), "bbbb0000": (2, None)}
    rest = rows(theirs, have)
    assert rest.count('"row":"sample"') == 1
    assert take(path, rest).runs == {"bbbb0000": 1}
    assert everything(path) == everything(theirs)


def test_a_hole_in_the_first_session_is_filled(path: Path, theirs: Path) -> None:
    """A host fell before all its samples came home, and what was resumed there came live: a pull
    brings the rest, and each session has the samples that it took."""
    last = rows(theirs).splitlines()
    lost = next(at for at, line in enumerate(last) if '"row":"sample"' in line)
    with Store(path, create=True) as opened:
        arriving = travel.Arriving(opened, "b", live=True)
        for line in last[:lost] + last[lost + 1 :]:
            if '"row":"end"' not in line:
                arriving.take(line)
        arriving.flush()
        assert [one.samples for one in opened.sessions(RUN)] == [2, 1]
        first = rows(theirs, travel.known(opened))
    take(path, first)
    assert take(path, rows(theirs, {})).runs[RUN] == 1
    with Store(path) as here, Store(theirs) as there:
        assert here.sessions(RUN) == there.sessions(RUN)
        assert [one.samples for one in here.sessions(RUN)] == [3, 1]
        assert here.sample_count(RUN) == 4
        assert here.damaged() == {}


@pytest.mark.parametrize("where", range(0, 100, 7))
def test_a_file_cut_anywhere_is_refused_and_taken_in_part_on_request(
    path: Path, theirs: Path, where: int
) -> None:
    text = rows(theirs)
    cut = text[: len(text) * where // 100]
    with pytest.raises(BadExport, match=r"it ends before its last row|it is empty"):
        take(path, cut)
    with Store(path) as opened:
        assert opened.runs() == []
    take(path, cut, partial=True)
    with Store(path) as opened:
        assert opened.damaged() == {}
        have = travel.known(opened)
    take(path, rows(theirs, have))
    assert everything(path) == everything(theirs)


def resealed(line: str, change: Callable[[dict[str, Any]], None]) -> str:
    """A row of somebody who can compute a checksum."""
    values = json.loads(line)
    del values["sha256"]
    change(values)
    return lines._sealed(values.pop("row"), values.pop("run"), values)


def put(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values.update(changes)


NEWER = f"memlab {run_row('0123abcd').memlab} wrote it: upgrade memlab here"
FORGED = [
    ("run", put(format=2), f"does not know rows of format 2, only of 1; {NEWER}"),
    ("run", put(colour=3), f"does not know the field 'colour' of a run; {NEWER}"),
    ("point", put(colour=3), f"does not know the field 'colour' of a point; {NEWER}"),
    ("session", put(colour=3), f"does not know the field 'colour' of a session; {NEWER}"),
    ("sample", put(colour=3), f"does not know the field 'colour' of a sample; {NEWER}"),
    ("run", put(id="x/../../y", run="x/../../y"), "id is not 'x/../../y'"),
    ("run", put(points=-1), "points is not -1"),
    ("run", put(points=3), "1 points of its run are missing"),
    ("run", put(points=1), "more points than its run has"),
    ("run", put(origin="-oProxyCommand=x"), "origin is not '-oProxyCommand=x'"),
    ("run", put(request={"blocks": "many"}), "request is not"),
    ("point", put(levels={"size": [1]}), "levels is not"),
    ("point", put(point=-1), "point is not -1"),
    ("sample", put(block=10**9), "block is not 1000000000"),
    ("sample", put(point=7), "a sample of point 7, which its run does not have"),
    ("sample", put(started_at="yesterday"), "started_at is not 'yesterday'"),
    ("sample", put(raw=[1]), "raw is not"),
    ("sample", put(raw='{"a":1}'), "raw is not an object"),
    ("sample", put(run="ffff0000"), "a row of run ffff0000 does not follow"),
    ("sample", put(row="view"), f"does not know rows of the kind 'view'; {NEWER}"),
    ("end", put(samples=2), "7 samples came before it, and it counts 2"),
    # What neither SQLite, nor a float, nor UTF-8 can be
    ("run", put(seed=2**63), "seed is not 9223372036854775808"),
    ("run", put(request={"levels": {"size": [10**400]}}), "request is not"),
    ("run", put(name="\ud800"), "name is not '\\ud800'"),
    ("point", put(levels={"size": 10**400}), "levels is not"),
    ("point", put(levels={"size": "\ud800"}), "levels is not"),
    ("session", put(started_at=10**400), "started_at is not"),
    ("session", put(samples=2**63), "samples is not 9223372036854775808"),
    ("sample", put(started_at=10**400), "started_at is not"),
    ("sample", put(started_at=1e300), "started_at is not 1e+300"),
    ("sample", put(trial_s=10**400), "trial_s is not"),
    ("sample", put(cpu=10**30), "cpu is not"),
    ("sample", put(detail="\udcff"), "detail is not"),
    ("sample", put(raw={"window": {"elapsed_ns": -5}}), "its window is not"),
    ("sample", put(raw={"window": {"elapsed_ns": 1e-320}}), "its window is not"),
    ("sample", put(raw={"window": {"elapsed_ns": 2**63}}), "its window is not"),
]


@pytest.mark.parametrize(("kind", "change", "said"), FORGED, ids=[said for *_, said in FORGED])
def test_of_a_file_with_a_forged_row_nothing_is_taken(
    path: Path, theirs: Path, kind: str, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    found = rows(theirs).splitlines()
    number = max(i for i, line in enumerate(found) if line.startswith(f'{{"row":"{kind}"'))
    found[number] = resealed(found[number], change)
    with pytest.raises(BadExport) as refused:
        take(path, "\n".join(found) + "\n")
    assert said in str(refused.value)
    assert "near line" in str(refused.value)
    assert "\n" not in str(refused.value)
    with Store(path) as opened:
        assert opened.runs() == []


def test_whatever_a_row_meets_nothing_is_taken(
    path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A boundary lists no exceptions that it expects."""

    def meets(*_: object) -> None:
        raise TypeError("unheard of")

    monkeypatch.setattr(lines, "checked", meets)
    with pytest.raises(BadExport, match=r"line 1: .*TypeError: unheard of.*nothing is imported"):
        take(path, rows(theirs))
    monkeypatch.undo()
    monkeypatch.setattr(travel.Arriving, "_add", meets)
    with pytest.raises(BadExport, match=r"unheard of; nothing is imported"):
        take(path, rows(theirs))
    with pytest.raises(BadExport, match=r"unheard of; nothing is imported"), Store(path) as opened:
        travel.take_store_in(opened, theirs, "b")
    assert everything(path) == []


BAD = {
    "": "it is empty",
    "run,sample\n1,2\n": "it is not a row of memlab: 'run,sample'",
    "Welcome to b!\n": "it is not a row of memlab: 'Welcome to b!'",
    "\xff\n": "it is not a row of memlab",
    "[" * 100_000 + "\n": "it is not a row of memlab",
}


@pytest.mark.parametrize(("text", "said"), BAD.items(), ids=BAD.values())
def test_what_is_no_rows_is_refused_in_a_line(path: Path, text: str, said: str) -> None:
    with pytest.raises(BadExport) as refused:
        take(path, text)
    assert said in str(refused.value)


def test_a_session_that_claims_more_than_came_harms_no_run(path: Path, theirs: Path) -> None:
    """As where a link's other end was killed between a row and its line; live, not from a file."""
    found = rows(theirs).splitlines()
    sample_at = max(i for i, line in enumerate(found) if line.startswith('{"row":"sample"'))
    with Store(path, create=True) as opened:
        arriving = travel.Arriving(opened, "b", live=True)
        for number, line in enumerate(found[:-1]):
            if number != sample_at:
                arriving.take(line)
        arriving.flush()
        assert opened.damaged() == {}
    take(path, rows(theirs))
    with Store(path) as opened:
        assert opened.damaged() == {}
        assert opened.sample_count("bbbb0000") == 3


def test_a_changed_row_is_refused(path: Path, theirs: Path) -> None:
    text = rows(theirs)
    changed = text.replace('"elapsed_ns":7', '"elapsed_ns":8', 1)
    assert changed != text
    with pytest.raises(BadExport, match="it is not as it was written"):
        take(path, changed)


def test_deep_json_and_endless_lines_are_refused(
    path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = '{"row":"run","run":"a","request":' + "[" * 50_000 + "]" * 50_000
    with pytest.raises(BadExport, match="recursion"):
        take(path, f'{head},"sha256":"{lines._digest(head)}"}}\n')
    monkeypatch.setattr(lines, "LONGEST", 1 << 20)
    with pytest.raises(BadExport, match="it has more than 1 MiB"):
        take(path, "x" * (2 << 20))


def test_two_hosts_with_one_identity(path: Path, tmp_path: Path) -> None:
    """Of a cloned disk each host goes on with the same run: the second's samples are refused."""
    stores = [tmp_path / "a.db", tmp_path / "b.db"]
    for number, store in enumerate(stores):
        with Store(store, create=True) as opened:
            opened.add_run(run_row(), POINTS)
            session = opened.begin_session(RUN)
            opened.add_sample(RUN, session, 1.0, sample(0, 0, ok(10 + number)))
            opened.end_session(RUN, session, 1.0, "blocks")
    take(path, rows(stores[0]))
    before = everything(path)
    with pytest.raises(StoreError, match=f"run {RUN} has another sample of block 0, point 0"):
        take(path, rows(stores[1]))
    both = rows(stores[0]) + rows(stores[1])
    with pytest.raises(BadExport, match="has another sample of block 0, point 0"):
        take(tmp_path / "new.db", both)
    assert everything(path) == before


def test_a_run_of_this_host_takes_nothing_from_others(path: Path, tmp_path: Path) -> None:
    """Its own rows may come back; more of them, or another end, may not."""
    with Store(path, create=True) as opened:
        fill(opened)
    before = everything(path)
    assert take(path, rows(path)).runs == {RUN: 0}
    other = tmp_path / "other.db"
    with Store(other, create=True) as opened:
        fill(opened)
        opened.end_session(RUN, 1, 99.0, "failed")
    assert take(path, rows(other)).runs == {RUN: 0}
    assert everything(path) == before
    with Store(other) as opened:
        opened.add_sample(RUN, 1, 100.0, sample(1, 1, ok(3)))
    with pytest.raises(StoreError, match=f"run {RUN} is this host's own, and it took no such"):
        take(path, rows(other))
    with Store(path) as opened:
        arriving = travel.Arriving(opened, "b")
        run, *points = rows(other).splitlines()[:3]
        arriving.take(run)
        arriving.take(points[0])
        with pytest.raises(StoreError, match="is this host's own"):
            arriving.take(points[1])
        assert opened.damaged() == {}
        assert opened.runs()[0].origin is None
    assert everything(path) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 8}, "is there already, and is another one"),
        ({"environment": {"kernel_release": "6.1"}}, "is there already, and is another one"),
    ],
)
def test_another_run_of_the_same_id_is_refused(
    path: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    other = tmp_path / "other.db"
    with Store(path, create=True) as opened:
        fill(opened)
    with Store(other, create=True) as opened:
        fill(opened, **change)
    with pytest.raises(StoreError, match=said):
        take(path, rows(other))


def test_points_that_differ_are_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    for store, points in ((path, POINTS), (other, POINTS[:1])):
        with Store(store, create=True) as opened:
            opened.add_run(run_row(), points)
            opened.begin_session(RUN)
    with pytest.raises(StoreError, match="has other points"):
        take(path, rows(other))


def test_a_damaged_store_is_refused_whole(path: Path, theirs: Path) -> None:
    db = sqlite3.connect(theirs, isolation_level=None)
    db.execute("UPDATE samples SET raw = '{}' WHERE id = 5")
    db.close()
    with Store(path, create=True) as opened:
        with pytest.raises(BadExport, match=r"is damaged.*nothing is imported"):
            travel.take_store_in(opened, theirs, "b")
        assert opened.runs() == []


def test_a_full_disk_leaves_nothing(
    path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> dict[str, int]:
        raise StoreError("cannot write to the store: database or disk is full")

    monkeypatch.setattr(Store, "merge", full)
    with pytest.raises(MemlabError):
        take(path, rows(theirs))
    assert everything(path) == []


def test_a_row_names_its_host_or_who_takes_it_in_does(path: Path, tmp_path: Path) -> None:
    store = tmp_path / "named.db"
    with Store(store, create=True) as opened:
        fill(opened, environment={"host_name": "\x1b]0;x\x07"})
    with pytest.raises(BadExport, match="names no host: --host NAME"):
        take(path, rows(store), host=None)
    take(path, rows(store), host="c")
    further = tmp_path / "further.db"
    taken = take(further, rows(path), host="d")  # a run keeps the host that measured it
    assert taken.own_names == ["c"]  # which the command says
    with Store(further) as opened:
        assert [run.origin for run in opened.runs()] == ["c"]


def test_last_is_a_run_of_this_host_whatever_others_clocks_say(path: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    with Store(theirs, create=True) as opened:
        fill(opened, "ffff0000", created_at="2099-01-01T00:00:00")
    with Store(path, create=True) as opened:
        fill(opened)
    take(path, rows(theirs))
    with Store(path) as opened:
        assert opened.find("last").id == RUN
        assert opened.find("b:last").id == "ffff0000"
        assert opened.find(f"b:{opened.runs()[0].experiment}").id == "ffff0000"
        assert opened.find("ffff").id == "ffff0000"
        with pytest.raises(MemlabError):
            opened.find("c:last")


def test_a_clock_ahead_is_seen(path: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    with Store(theirs, create=True) as opened:
        opened.add_run(run_row(), POINTS)
        session = opened.begin_session(RUN)
        opened.add_sample(RUN, session, 1.0, replace(sample(0, 0, ok(1)), started_at=4e9))
        fill(opened, "bbbb0000", created_at="2026-02-02")
    ahead = take(path, rows(theirs)).ahead_s
    assert ahead[RUN] > 1e9
    assert ahead["bbbb0000"] == 0  # another run's clock is another clock
