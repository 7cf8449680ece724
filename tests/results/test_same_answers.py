"""A cache is never the answer, and neither is the form in which samples are held: what every reader
says of a run is the same with and without what is kept of it, read row by row or as columns."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest
from command import memlab
from quick import mostly_slow

from memlab import experiments, recorded
from memlab.results import samples
from memlab.store import Store

READERS = (
    "show last",
    "show last --json",
    "claims last --json",
    "export last -o {out}/run.csv",
    "plot last -o {out}/figure.svg",
)
MORE = (
    "export last --format rows -o {out}/rows.jsonl",
    "plot last --samples -o {out}/sampled.svg",
    "plot last --layers -o {out}/layers.svg",
    "plot last --against {out}/rows.jsonl -o {out}/against.svg",
    "compare {out}/rows.jsonl last --force --json",
    "report last -o {out}/report.html",
    "publish {out}/gallery last",
)
DRAWN = (".svg", ".parquet")  # of what the sidecars and the exported rows have


def answers(store: Path, out: Path, readers: Sequence[str]) -> dict[str, str]:
    """What each reader says of the store's last run, and the files that it writes."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    found = {}
    for reader in readers:
        done = memlab(*reader.format(out=out).split(), "--store", str(store))
        found[reader] = f"{done.returncode} {done.stdout} {done.stderr}"
        assert done.returncode == 0, found[reader]
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.suffix not in DRAWN:
            found[str(path.relative_to(out))] = path.read_text("utf-8")
    return found


def both_forms(
    store: Path, out: Path, readers: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers say the same of samples that are held and of samples of which columns are held."""
    with monkeypatch.context() as held:
        held.setattr(samples, "HELD", 1_000_000)
        expected = answers(store, out, readers)
    monkeypatch.setattr(samples, "HELD", 0)
    found = answers(store, out, readers)
    assert found.keys() == expected.keys()
    for name, text in found.items():
        assert text == expected[name], name


def repeated(experiment: str, path: Path, wanted: int) -> Path:
    """A store with so many samples of a recorded run, the same again in more and more blocks."""
    with Store(recorded.store(experiment)) as store:
        (run,) = store.runs()
        points, there = store.points(run.id), list(store.samples(run.id))
    blocks = max(sample.block for sample in there) + 1
    rows = (
        replace(sample, id=None, block=sample.block + again * blocks)
        for again in count()
        for sample in there
    )
    with Store(path, create=True) as store:
        store.add_run(run, points)
        session = store.begin_session(run.id)
        store.add_samples(run.id, session, list(islice(rows, wanted)))
        store.end_session(run.id, session, wanted * 0.1, "blocks")
    return path


@pytest.mark.parametrize("experiment", mostly_slow(recorded.names(), "memcg-accounting"))
def test_a_recorded_run_says_the_same_in_both_forms(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_forms(recorded.store(experiment), tmp_path / "out", READERS, monkeypatch)


FIGURES = {type(experiments.load(name).figure): name for name in recorded.names()}
# Those whose figure has crossings, of which a cache once kept what it could not: a minute each.
LONG = ("mmap-write", "coop-reclaim")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "wanted"),
    [*((name, 10) for name in FIGURES.values()), *((name, samples.HELD + 1) for name in LONG)],
)
def test_so_do_a_short_and_a_long_run_of_each_figure(
    experiment: str, wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = repeated(experiment, tmp_path / "results.db", wanted)
    both_forms(store, tmp_path / "out", READERS + MORE, monkeypatch)


@pytest.mark.parametrize("wanted", [10, samples.HELD + 1])
def test_a_run_of_more_samples_than_are_held_is_shown(wanted: int, tmp_path: Path) -> None:
    """As it is: a sweep of 5,100 samples could never be shown."""
    store = repeated("mmap-write", tmp_path / "results.db", wanted)
    assert f"{wanted} samples" in answers(store, tmp_path / "out", READERS[:2])["show last"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's cache, not yet there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


EXAMPLE = ("show", "--example", "mmap-write", "--json")


@pytest.mark.parametrize("rubbish", [b"", b"SQLite format 3\0", b"rubbish" * 5000, None])
def test_what_is_kept_may_be_damaged(cache: Path, rubbish: bytes | None) -> None:
    expected = memlab(*EXAMPLE).stdout
    (kept,) = (path for path in cache.rglob("*") if path.is_file())
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2] + b"\0" * 5000 if rubbish is None else rubbish)
    kept.with_name(f"{kept.name}-wal").write_bytes(b"rubbish" * 5000)
    assert memlab(*EXAMPLE).stdout == expected
    with Store(kept) as store:
        assert not store.damaged()


def test_what_is_kept_may_be_another_samples(cache: Path) -> None:
    expected = memlab(*EXAMPLE).stdout
    (kept,) = (path for path in cache.rglob("*") if path.is_file())
    with Store(kept) as store:
        store._db.execute("UPDATE samples SET raw = replace(raw, '1', '2')")
    assert memlab(*EXAMPLE).stdout == expected


@pytest.mark.parametrize("place", ["a file", "/proc/self", "read-only"])
def test_nothing_may_be_kept(cache: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = memlab(*EXAMPLE).stdout
    shutil.rmtree(cache)
    if place == "a file":
        cache.write_bytes(b"")
    elif place == "read-only":
        cache.mkdir(mode=0o500)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", place)
    found = memlab(*EXAMPLE).stdout
    assert _without_paths(found) == _without_paths(expected) != ""


def _without_paths(text: str) -> list[str]:
    """The lines of --json without the store's path, which is another one."""
    return [line for line in text.splitlines() if '"store"' not in line]
