"""What every test gets: a home of its own, the same draws every time, and an honest last line."""

import gc
import os
import secrets
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import needs
import pytest
from host_lock import host_lock
from hypothesis import settings
from quick import COLLECTED, changes_host, nightly, place, pure, shuffled, takes_seconds
from still_measuring import still_measuring

from memlab.run.machine_lock import TEST_LOCK

settings.register_profile("memlab", derandomize=True, deadline=None, database=None)
settings.load_profile("memlab")

NESTED = TEST_LOCK in os.environ  # a test of another session runs this one

TOLD = "told"  # the property of a test's report that holds such a line
XDG = {"XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "run the files, and the tests of each, in the order that this number gives"
    parser.addoption("--shuffle", type=int, metavar="SEED", help=said)


def pytest_configure(config: pytest.Config) -> None:
    """A machine lock of this process's own, so that a sweep beside it is no reason to fail. What
    `make bench` times has the machine to itself; of several processes the first runs no test."""
    if config.getoption("markexpr") != "bench" and not config.getoption("numprocesses", None):
        os.environ[TEST_LOCK] = f"{os.getpid()}/{secrets.token_hex(4)}"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what ends in `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as nohup(1) does
        signal.signal(signal.SIGHUP, lambda *_: None)  # ignored here, the default in children


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Thousands of tests are there to the end: to look through them for cycles was a third of the
    time in which they are collected, and some per cent of that of every test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[COLLECTED] = list(items)
    for item in items:
        if nightly(item):
            item.add_marker("nightly")
        if takes_seconds(item):
            item.add_marker("slow")
    items.sort(key=lambda item: place(item.path))
    seed = config.getoption("shuffle")
    if seed is not None:
        items[:] = shuffled(items, seed)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A process takes a file at a time, in their order, and one takes all that change the host."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, _ = nodeid.partition("::")
            return "host" if changes_host(config.rootpath / file) else file

    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        needs.of(*marker.args)


@pytest.fixture(autouse=True)
def _host(request: pytest.FixtureRequest) -> Iterator[None]:
    # Where a test of another session runs this one, that has the lock.
    if NESTED or pure(request.path):
        yield
        return
    with host_lock(changes=request.node.get_closest_marker("changes_host") is not None):
        yield
        if left := still_measuring():
            pytest.fail(f"the test has left a sweep running, pid {left}, which is ended")


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
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist's processes have it
    monkeypatch.setenv("HOME", str(folder))
    for name, its in XDG.items():
        monkeypatch.setenv(name, str(folder / its))
    return folder


@pytest.fixture
def store_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that does not exist yet, and that every command here uses."""
    path = tmp_path / "store" / "results.db"
    monkeypatch.setenv("MEMLAB_STORE", str(path))
    return path


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """A line for the end of the session's output, whether or not output is captured."""
    return partial(record_property, TOLD)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests tell; then the skips by reason: a test that did not run has not passed."""
    for report in terminalreporter.stats.get("", []):  # of setup and teardown
        for name, line in report.user_properties if report.when == "teardown" else ():
            if name == TOLD:
                terminalreporter.write_line(line)
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} not run here: {reason}")
