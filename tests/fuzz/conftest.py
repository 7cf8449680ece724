"""The rule as a fixture, with nothing measured and the folder around held to what it was."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rule import MEMORY_BYTES, Rule, too_long

from memlab import measure
from memlab.diagnose import diagnosis
from memlab.errors import CannotLook, CannotRun
from memlab.machines.fleet import links as fleet


@pytest.fixture
def rule(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tell: Callable[[str], None],
) -> Iterator[Rule]:
    """Nothing is measured, and no process is looked at: only what is asked for is checked."""

    def refuse(*_: object, **__: object) -> None:
        raise CannotRun("not measured here")

    def look_away(*_: object, **__: object) -> None:
        raise CannotLook("not looked at here")

    for name in ("sweep", "resume", "reproduce"):
        monkeypatch.setattr(measure, name, refuse)
    for name in ("of", "of_group"):
        monkeypatch.setattr(diagnosis, name, look_away)
    monkeypatch.setattr(fleet, "_SSH", ("false",))  # no made-up host is looked for
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    canary = tmp_path / "canary"
    canary.write_text("sings")
    before = sorted(path.name for path in tmp_path.iterdir())
    usual = signal.signal(signal.SIGALRM, too_long)
    made = Rule(monkeypatch)
    try:
        yield made
    finally:
        signal.signal(signal.SIGALRM, usual)
    name, count = request.node.name.removeprefix("test_"), sum(made.ended.values())
    tell(f"fuzzed, {name}: {count} commands, by exit code {dict(made.ended)}")
    assert not made.broken
    assert canary.read_text() == "sings"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "store") == before
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert peak_bytes < MEMORY_BYTES
