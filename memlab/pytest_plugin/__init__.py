"""memlab in a user's own tests: the fixture `memlab`, its options, and a section of the summary.

pytest loads this in every session where memlab is installed, so it imports nothing heavy: what
measures and compares is imported by the first sweep of a test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memlab.pytest_plugin.account import SessionTally
from memlab.pytest_plugin.context import Context
from memlab.pytest_plugin.lab import Memlab
from memlab.pytest_plugin.settings import POLICIES, MemlabInconclusive, PluginSettings

__all__ = ["Memlab", "MemlabInconclusive"]

_SETTINGS = pytest.StashKey[PluginSettings]()
_ACCOUNT = pytest.StashKey[SessionTally]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("memlab", "memlab: how memory behaves")
    group.addoption("--memlab-skip", action="store_true", help="skip the tests that measure")
    group.addoption("--memlab-only", action="store_true", help="run only the tests that measure")
    group.addoption(
        "--memlab-save",
        metavar="PATH",
        help="store each test's run as a baseline in this folder, a file of rows by the test's "
        "node id, without the host's name and folders",
    )
    group.addoption(
        "--memlab-compare",
        metavar="PATH",
        help="compare each test's run with the baseline of the same node id in this folder",
    )
    group.addoption("--memlab-budget", metavar="TIME", help="budget of every sweep, such as 10s")
    group.addoption(
        "--memlab-wait",
        metavar="TIME",
        help="wait at most this long for another memlab that measures, such as 10min; "
        "else the test is skipped",
    )
    group.addoption(
        "--memlab-store", metavar="FILE", help="store of the runs (default: memlab's own)"
    )
    group.addoption(
        "--memlab-inconclusive",
        choices=POLICIES,
        help="what becomes of a test whose samples decide nothing (ini: memlab_inconclusive; warn)",
    )
    parser.addini(
        "memlab_inconclusive",
        "warn, fail or skip: what becomes of a test whose samples decide nothing",
        default="warn",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SETTINGS] = PluginSettings.of(config)
    config.stash[_ACCOUNT] = SessionTally()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    settings = config.stash[_SETTINGS]
    measuring = [item for item in items if "memlab" in getattr(item, "fixturenames", ())]
    if settings.skip:
        for item in measuring:
            item.add_marker(pytest.mark.skip(reason="--memlab-skip"))
            config.stash[_ACCOUNT].not_measured("--memlab-skip")
    if settings.only:
        others = [item for item in items if item not in measuring]
        config.hook.pytest_deselected(items=others)
        items[:] = measuring


@pytest.fixture(name="memlab")
def _memlab(request: pytest.FixtureRequest) -> Iterator[Memlab]:
    """`memlab.sweep(...)` measures; its run has `assert_claim` and `assert_not_slower_than`."""
    config = request.config
    if hasattr(config, "workerinput"):  # one of pytest-xdist's processes
        why = (
            "memlab measures alone on a machine, and pytest-xdist runs tests side by side: "
            "run these with -n0 or -p no:xdist"
        )
        if config.stash[_SETTINGS].inconclusive == "fail":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    lab = Memlab(Context(request.node.nodeid, config.stash[_SETTINGS], config.stash[_ACCOUNT]))
    yield lab
    lab.close()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    lines = config.stash[_ACCOUNT].lines()
    if lines:
        terminalreporter.section("memlab")
    for line in lines:
        terminalreporter.write_line(line)
