"""The machine that the comparisons share: one CPU to measure on, one file in memory, one worker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlab.run.executor import default_cpus
from memlab.run.fork_server import ForkServer
from memlab.run.machine_lock import machine_lock

from . import page
from .lab import FILE_BYTES, Lab, write_file

TMPFS = Path("/dev/shm")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bench-page", metavar="FILE", help="Write the figures into this page.")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the page's figures, if `make bench` asks for it: all of one run, or none."""
    if not (written := terminalreporter.config.getoption("bench_page", None)):
        return
    stats = terminalreporter.stats
    told = [
        page.Told(_title(report), report.passed, report.capstdout)
        for report in (*stats.get("passed", []), *stats.get("failed", []))
        if report.capstdout.strip()
    ]
    not_run = [f"{_title(r)} ({r.longrepr[2]})" for r in stats.get("skipped", [])]
    path = Path(written)
    text = page.renewed(path.read_text("utf-8"), page.head(path.parent), told, not_run)
    path.write_text(text, "utf-8")
    terminalreporter.write_line(f"figures: {path}")


def _title(report: pytest.TestReport) -> str:
    """`test_fio.py::test_a_call[read]` as `A call: read`."""
    name, _, case = report.nodeid.rpartition("::test_")[2].replace("_", " ").partition("[")
    return name[:1].upper() + name[1:] + (f": {case.removesuffix(']')}" if case else "")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out unless -m names them: their results are times."""
    if "bench" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("bench")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def cpu() -> Iterator[int]:
    """The CPU that measures, as in a sweep; this process stays off it."""
    (measuring,) = default_cpus()
    before = os.sched_getaffinity(0)
    if before == {measuring}:
        pytest.skip("one CPU alone: this process would be measured too")
    os.sched_setaffinity(0, before - {measuring})
    yield measuring
    os.sched_setaffinity(0, before)


@pytest.fixture(scope="session")
def file() -> Iterator[Path]:
    """A file on tmpfs, all of it in memory."""
    if not TMPFS.is_dir():
        pytest.skip(f"no tmpfs at {TMPFS}")
    space = os.statvfs(TMPFS)
    if space.f_bavail * space.f_frsize < 2 * FILE_BYTES:
        pytest.skip(f"{TMPFS} has less than {2 * FILE_BYTES >> 20} MiB free")
    with tempfile.TemporaryDirectory(prefix="memlab-bench-", dir=TMPFS) as folder:
        path = Path(folder) / "file"
        write_file(path)
        yield path


@pytest.fixture(scope="module")
def lab(cpu: int, file: Path) -> Iterator[Lab]:
    """A fork server with the machine to itself."""
    with machine_lock():
        server = ForkServer()
        try:
            yield Lab(server, cpu, file)
        finally:
            server.stop()
