"""The rule as a fixture, with nothing measured and the folder around held to what it was."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rule import MEMORY_BYTES, Rule, too_long

from memlab import measure
from memlab.diagnose import diagnosis
from memlab.errors import CannotLook, CannotRun
from memlab.machines.fleet import links as fleet


def resident_bytes(which: str) -> int:
    """VmHWM, the most since it was last reset, or VmRSS of this process (proc_pid_status(5))."""
    found = re.search(rf"{which}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


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
    # Tests before this one in the same process may have held more: proc_pid_clear_refs(5).
    Path("/proc/self/clear_refs").write_text("5")
    resident_before = resident_bytes("VmRSS")
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
    assert resident_bytes("VmHWM") - resident_before < MEMORY_BYTES
