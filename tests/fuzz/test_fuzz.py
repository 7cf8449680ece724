"""Everything that comes from outside, damaged at random: command lines, stores, exported files,
machines, studies. FUZZ_TRIES=5000 FUZZ_SEED=2 by hand."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import click
import damage
import pytest
from rule import TRIES, Rule, seeded

from memlab import experiments, published, recorded
from memlab.cli import cli
from memlab.present import exports
from memlab.run import journal
from memlab.store import Store, database, lines, travel

pytestmark = pytest.mark.slow

EXPERIMENT = "page-fault"


# Command lines


def word(draw: Random, parameter: click.Parameter, path: str) -> str:
    """A value of an option or argument: a good one, another's, or anything."""
    kind = parameter.type
    if draw.random() < 0.25 and not isinstance(kind, click.Path):  # which may be written to
        return draw.choice(damage.TEXTS).replace("\x00", "")
    if isinstance(kind, click.Choice):
        return draw.choice([*kind.choices, "other"])
    if isinstance(kind, click.IntRange):
        return str(draw.choice((kind.min, kind.max, 0, 1, 7, 2**64)))
    if isinstance(kind, click.Path):
        return draw.choice([path, "new", "new/er", ".", "x.svg", "x" * 300, "", "a\nb", "\udcff"])
    names = [*experiments.names(), *published.ids(), "last", "all"]
    levels = ["size=1..4k*4", "size=1", "chunk=256k", "lock=all", "touched=0,7", "method=mmap"]
    numbers = ["1", "2%", "10s", "0-3", "1m", "1..5", "7f0d0642", "metric", "minor_faults"]
    return draw.choice([draw.choice(names), draw.choice(levels), draw.choice(numbers)])


def command_line(draw: Random, path: str) -> list[str]:
    context = click.Context(cli)
    names = cli.list_commands(context)
    name = draw.choice(names)
    command = cli.get_command(context, name)
    assert command is not None
    if draw.random() < 0.03:
        name = draw.choice([*damage.TEXTS, name[:-1]]).replace("\x00", "")
    words = []
    for parameter in draw.sample(command.params, draw.randrange(len(command.params) + 1)):
        if isinstance(parameter, click.Argument):
            words.append([word(draw, parameter, path)])
            continue
        flag = getattr(parameter, "is_flag", False)
        option = draw.choice(parameter.opts)
        words.append([option] if flag else [option, word(draw, parameter, path)])
        if draw.random() < 0.05:
            words.append([option])
    draw.shuffle(words)
    return [name, *(part for pair in words for part in pair)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Two runs with the samples of two blocks each, in one file."""
    folder = tmp_path / "store"
    folder.mkdir()
    path = folder / "r.db"
    experiment = getattr(request, "param", EXPERIMENT)
    with Store(recorded.store(experiment)) as source, Store(path, create=True) as made:
        row = source.find("last")
        points = source.points(row.id)
        samples = [sample for sample in source.samples(row.id) if sample.block < 2]
        for id in ("0123abcd", "4567cdef"):
            made.add_run(database_row(row, id), points)
            session = made.begin_session(id)
            for sample in samples:
                made.add_sample(id, session, 1.0, sample)
            made.end_session(id, session, 1.0, "blocks")
    plain = sqlite3.connect(path)
    plain.execute("PRAGMA journal_mode = DELETE")
    plain.close()
    monkeypatch.setenv("MEMLAB_STORE", str(path))
    return path


def database_row(row: Any, id: str) -> Any:
    return replace(row, id=id, name=f"run-{id}")


def test_command_lines(rule: Rule, store: Path) -> None:
    draw = seeded(1)
    for _ in range(5 * TRIES):
        rule(*command_line(draw, str(store)))


# Stores

READ = (
    "show", "show --json", "runs", "claims", "claims --json", "export", "export --format jsonl",
    "compare 0123abcd 4567cdef", "compare 0123abcd 4567cdef --format junit", "show 4567cdef",
    "compare last --baseline chunk=256k", "claims -v",
)  # fmt: skip
DRAWN = ("report -o r.html", "plot -o figures")
ALONE = ("show", "show --json", "claims", "claims --json", "claims -v", "export")  # of one run


def test_stores_with_damaged_bytes(rule: Rule, store: Path) -> None:
    draw, whole = seeded(2), store.read_bytes()
    for _ in range(2 * TRIES):
        store.write_bytes(damage.bytes_of(draw, whole))
        for log in ("-wal", "-shm"):
            store.with_name(store.name + log).unlink(missing_ok=True)
        rule(*draw.choice(READ).split())


COLUMNS = {
    "samples": ("raw", "raw", "raw", "context", "outcome", "detail", "block", "point", "cpu"),
    "points": ("levels", "levels", "control"),
    "runs": ("request", "environment", "environment", "name", "seed", "created_at", "memlab"),
    "sessions": ("wall_s", "ended"),
}
_JSON = ("raw", "context", "levels", "request", "environment")


def loosened(path: Path) -> None:
    """Tables that take any type, as a foreign store may have them."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA foreign_keys = OFF")
    for table in COLUMNS:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        key = [f"{name} INTEGER PRIMARY KEY" if name == "id" and table == "samples" else name
               for name in columns]  # fmt: skip
        db.execute(f"CREATE TABLE loose ({', '.join(key)})")
        db.execute(f"INSERT INTO loose SELECT * FROM {table}")
        db.execute(f"DROP TABLE {table}")
        db.execute(f"ALTER TABLE loose RENAME TO {table}")
    db.close()


def with_a_wrong_value(draw: Random, path: Path) -> str:
    """One value of another kind in a row, or in all rows, with checksums that fit."""
    db = sqlite3.connect(path, isolation_level=None)
    db.create_function("memlab_checksum", -1, database.checksum, deterministic=True)
    table = draw.choice(("samples", "samples", "points", "runs", "sessions"))
    column = draw.choice(COLUMNS[table])
    rows = db.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    for rowid, value in rows if draw.random() < 0.2 else [draw.choice(rows)]:
        if column in _JSON and value is not None:
            value = json.dumps(damage.value_in(draw, json.loads(value)))
        else:
            value = draw.choice([None, -1, 2**40, 1.5, b"\xff", "x" * 20_000, *damage.UTF_8])
        db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, rowid))
    for sealed in COLUMNS:
        database.seal(db, sealed, "true")
    db.close()
    return f"{table}.{column}"


def test_stores_of_wrong_values(rule: Rule, store: Path) -> None:
    draw = seeded(3)
    loosened(store)
    whole = store.read_bytes()
    for number in range(3 * TRIES):
        store.write_bytes(whole)
        with_a_wrong_value(draw, store)
        rule(*draw.choice(DRAWN if number % 20 == 0 else READ).split())


# Readings


def with_wrong_readings(draw: Random, path: Path) -> None:
    """In the samples of a run one value, or one name, that no probe returns; in one of them or the
    same in all. The store is whole: only who reads the readings can say so."""
    db = sqlite3.connect(path, isolation_level=None)
    db.create_function("memlab_checksum", -1, database.checksum, deterministic=True)
    rows = db.execute("SELECT id, raw FROM samples WHERE raw IS NOT NULL").fetchall()
    seed, part = draw.random(), draw.random()
    for id, text in rows if draw.random() < 0.5 else [draw.choice(rows)]:
        raw, again = json.loads(text), Random(seed)
        change = damage.number_in if again.random() < 0.3 else damage.value_in
        # What the experiment itself reads lies beside the window, which has most of the values.
        kept = {"window": raw["window"]} if part < 0.8 else {}
        changed: Any = {name: raw[name] for name in raw if name not in kept} or raw
        for _ in range(again.choice((1, 1, 3, 9))):
            changed = change(again, changed) if changed else changed
        if isinstance(changed, dict):
            db.execute("UPDATE samples SET raw = ? WHERE id = ?", (json.dumps(kept | changed), id))
    database.seal(db, "samples", "true")
    db.close()


@pytest.mark.parametrize("store", recorded.names(), indirect=True)
def test_readings_that_no_probe_returns(
    rule: Rule, store: Path, request: pytest.FixtureRequest
) -> None:
    """Each experiment's own functions read them: metrics, evidence, figures."""
    draw, whole = seeded(f"9 {request.node.name}"), store.read_bytes()
    for number in range(max(3, TRIES // 15)):
        store.write_bytes(whole)
        with_wrong_readings(draw, store)
        rule(*draw.choice(DRAWN if number % 4 == 0 else ALONE).split())


# Rows of other hosts


def resealed(line: str, change: Callable[[Any], Any]) -> str:
    """A row of somebody who can compute a checksum."""
    values = json.loads(line)
    del values["sha256"]
    changed = change(values)
    if not isinstance(changed, dict):
        return json.dumps(changed)
    return lines._sealed(changed.pop("row", "?"), changed.pop("run", "?"), changed)


def test_rows_of_wrong_values(rule: Rule, store: Path) -> None:
    """One row, or a value in all rows of its kind; what is taken in is read by every reader."""
    draw = seeded(7)
    with Store(store) as opened:
        runs = [one for one in opened.listed()[0] if one.row.id == "0123abcd"]
        rows = list(travel.outgoing(opened, runs, {}))
    kinds = {kind: [n for n, row in enumerate(rows) if row.startswith(f'{{"row":"{kind}"')]
             for kind in ("run", "point", "session", "sample")}  # fmt: skip
    path = Path("rows.jsonl")
    for number in range(3 * TRIES):
        made, seed = list(rows), draw.random()
        there = kinds[draw.choice([*kinds, "sample", "sample"])]
        for at in there if draw.random() < 0.3 else [draw.choice(there)]:
            again = Random(seed)  # of all rows the same value
            change = damage.number_in if again.random() < 0.7 else damage.value_in
            made[at] = resealed(made[at], partial(change, again))
        path.write_text("\n".join(made) + "\n")
        Path("taken.db").unlink(missing_ok=True)
        if rule("--store", "taken.db", "hosts", "import", "rows.jsonl", "--host", "b") == 0:
            command, *words = draw.choice(DRAWN if number % 4 == 0 else ALONE).split()
            rule("--store", "taken.db", command, "b:last", *words)


# Journals of killed runs


def test_journals_of_wrong_values(rule: Rule, tmp_path: Path) -> None:
    """`clean` names each and undoes the others; no value here is one that would change the host."""
    draw, folder = seeded(8), journal.folder()
    folder.mkdir(parents=True)
    nothing = str(tmp_path / "work/memlab-none")
    gone = {"run": "0123abcd", "driver": os.getpid(), "start": 1, **journal._here()}
    changes = [
        {"undo": "folder", "path": nothing},
        {"undo": "value", "path": nothing, "value": "1"},
        {"undo": "cgroup", "path": nothing},
        {"undo": "swap", "path": f"{nothing}/swap"},
        {"undo": "zram", "path": "/sys/block/zram99999999", "node": "/dev/zram99999999"},
        {"undo": "session", "path": "/proc/99999999", "start": "1", "mark": "none"},
    ]
    for _ in range(2 * TRIES):
        lines = [damage.value_in(draw, line) if draw.random() < 0.4 else line
                 for line in (gone, *draw.sample(changes, 3))]  # fmt: skip
        text = "\n".join(map(json.dumps, lines)) + "\n"
        content = text.encode("utf-8", "surrogatepass")
        damaged = damage.bytes_of(draw, content) if draw.random() < 0.2 else content
        (folder / "0123abcd-1.jsonl").write_bytes(damaged)
        made = tmp_path / "work/memlab-beside"
        made.mkdir()
        beside = [gone | {"run": "beside"}, {"undo": "folder", "path": str(made)}]
        (folder / "beside-1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in beside))
        rule(*draw.choice((["clean"], ["clean", "--json"])))
        assert not made.exists()
        for left in folder.iterdir():
            left.unlink()


# Baselines


def test_baselines(rule: Rule, store: Path) -> None:
    draw = seeded(4)
    path = Path("base.jsonl")
    exports.write_rows(store, "0123abcd", None, path)
    whole = path.read_text()
    for number in range(TRIES):
        if number % 2:
            content = damage.text(draw, whole).encode("utf-8", "surrogateescape")
            path.write_bytes(content if draw.random() < 0.7 else damage.bytes_of(draw, content))
        else:  # sealed by whoever wrote it
            made = whole.splitlines()
            at = draw.randrange(len(made))
            made[at] = resealed(made[at], partial(damage.value_in, draw))
            path.write_text("\n".join(made) + "\n")
        rule("compare", str(path), "last", "--format", draw.choice(["text", "junit", "github"]))


def test_files_that_are_none(rule: Rule, store: Path) -> None:
    os.mkfifo("fifo.jsonl")
    Path("zero.jsonl").symlink_to("/dev/zero")
    Path("long.jsonl").write_text("run," + "x" * 5_000_000)
    Path("deep.jsonl").write_text("[" * 200_000)
    Path("folder.jsonl").mkdir()
    for name in ("fifo.jsonl", "zero.jsonl", "long.jsonl", "deep.jsonl", "folder.jsonl"):
        assert rule("compare", name, "last") in (2, 3)
        assert rule("--store", name, "show") in (2, 3)


# Studies


def test_studies(tmp_path: Path) -> None:
    """A study's file that makes no sense is a ValueError, or reads."""
    draw = seeded(5)
    sources = [path.read_text() for path in sorted(Path(published.__file__).parent.glob("*.toml"))]
    for _ in range(2 * TRIES):
        path = tmp_path / "study.toml"
        path.write_text(damage.text(draw, draw.choice(sources)), errors="replace")
        with suppress(ValueError):
            published.read(path)
