"""What every test gets: a home of its own, the same draws every time, and an honest last line."""

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

from memlab.run.alone import Busy, alone

settings.register_profile("memlab", derandomize=True, deadline=None, database=None)
settings.load_profile("memlab")

TOLD = "told"  # the property of a test's report that holds such a line
XDG = {"XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}


@pytest.fixture(scope="session", autouse=True)
def _fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One matplotlib cache for all: an empty home would make it list the fonts every time."""
    os.environ.setdefault("MPLCONFIGDIR", str(tmp_path_factory.mktemp("matplotlib")))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home: no test reads or leaves anything in the user's own."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("MEMLAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    for name, place in XDG.items():
        monkeypatch.setenv(name, str(folder / place))
    return folder


@pytest.fixture
def store_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that does not exist yet, and that every command here uses."""
    path = tmp_path / "store" / "results.db"
    monkeypatch.setenv("MEMLAB_STORE", str(path))
    return path


@pytest.fixture
def free_machine() -> None:
    """For a test that measures: one memlab at a time measures on a machine."""
    try:
        with alone():
            pass
    except Busy as busy:
        pytest.skip(str(busy))


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """A line for the end of the session's output, whether or not output is captured."""
    return partial(record_property, TOLD)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests tell; then the skips by reason: a test that did not run has not passed."""
    for report in terminalreporter.stats.get("passed", []):
        for name, line in report.user_properties:
            if name == TOLD:
                terminalreporter.write_line(line)
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} not run here: {reason}")
