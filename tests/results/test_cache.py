"""A cache is never the answer: what `show` says is the same with and without what is kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import memlab

from memlab.store import Store


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's cache, not yet there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


EXAMPLE = ("show", "example:stack-map", "--json")  # the smallest


@pytest.mark.parametrize("rubbish", [b"", b"rubbish" * 5000, None])
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
