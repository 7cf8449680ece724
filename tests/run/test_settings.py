"""Host settings of a trial: written where they differ, put back, and named where they cannot be."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from held import RUN, with_any_setting
from synthetic import experiment

from memlab.experiment import BYTES, At, Experiment, Factor, Host, choice
from memlab.experiment.points import Point
from memlab.observe import capabilities, files
from memlab.run import journal
from memlab.run.admission import Directories
from memlab.run.cleanup import value_of
from memlab.run.executor import LocalExecutor
from memlab.run.settings import Settings, Unavailable, no_such_file, readahead_file

pytestmark = pytest.mark.changes_host

CPU = max(os.sched_getaffinity(0))
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MAY_NOT = f"it may not be written: {capabilities.as_root()}"
READ_ONLY = "/proc/sys/kernel/random/boot_id"  # root's mode bits count for sysctls too


@pytest.fixture(autouse=True)
def _any_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    with_any_setting(monkeypatch)


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    path = tmp_path / "setting"
    path.write_text("before\n")
    return path


def setting_by_level(path: Path) -> Experiment:
    """`own` wants nothing; any other level wants itself."""

    def settings(at: At) -> dict[str, str]:
        return {} if at["mode"] == "own" else {str(path): str(at["mode"])}

    mode = Factor("mode", choice("own", "before", "new", "newer"), "what", ["own"], host=True)
    return experiment(probe="noop", factors=[mode], host=Host(settings=settings))


def entries(bench_run: str = RUN) -> list[str]:
    (path,) = journal.folder().glob(f"{bench_run}-*.jsonl")
    lines = map(json.loads, path.read_text().splitlines()[1:])
    return [line["value"] for line in lines if line["undo"] == "value"]


def test_a_setting_follows_the_points_and_comes_back(setting: Path, tmp_path: Path) -> None:
    with LocalExecutor(RUN, setting_by_level(setting), Directories(tmp_path), [CPU]) as opened:
        for mode, seen in (("before", "before\n"), ("new", "new"), ("own", "before"),
                           ("newer", "newer"), ("new", "new")):  # fmt: skip
            assert opened.trial(Point(0, {"mode": mode}, None))["outcome"] == "ok"
            assert setting.read_text() == seen
        assert entries() == ["before"]  # once, however often it was written
    assert setting.read_text() == "before"


VM = Path("/proc/sys/vm")
DIRTY = [f"dirty_{name}" for name in ("bytes", "ratio", "background_bytes", "background_ratio")]


@pytest.fixture
def dirty_limits() -> Iterator[dict[str, str]]:
    """The host's own; of each pair one is 0, which the kernel takes from nobody."""
    before = {name: value_of(VM / name) for name in DIRTY}
    if not os.access(VM / "dirty_bytes", os.W_OK):
        pytest.skip("vm.dirty_bytes may not be written: needs root")
    yield before
    for name, value in before.items():
        if value != "0":
            (VM / name).write_text(value)
    assert {name: value_of(VM / name) for name in DIRTY} == before


@pytest.mark.parametrize("own", [{}, {"dirty_bytes": 256 << 20}, {"dirty_ratio": 0}])
def test_dirty_limits_come_back_as_a_ratio_or_as_bytes(
    dirty_limits: dict[str, str], own: dict[str, int]
) -> None:
    """Where the ratio is 0, the bytes are too: writing the same 0 again would not end the bytes."""
    for name, value in own.items():
        (VM / name).write_text(str(value))
    before = {name: value_of(VM / name) for name in DIRTY}
    journal_of_run = journal.Journal("0123abcd")
    settings = Settings(journal_of_run)
    for limit in (64 << 20, 32 << 20, 0, 64 << 20, 64 << 20, 0, 32 << 20):
        settings.apply({str(VM / "dirty_bytes"): str(limit)} if limit else {})
        found = {name: value_of(VM / name) for name in DIRTY}
        assert found == (
            before | {"dirty_bytes": str(limit), "dirty_ratio": "0"} if limit else before
        )
    journal_of_run.close()
    assert {name: value_of(VM / name) for name in DIRTY} == before


def test_more_is_counted_from_what_the_host_had(setting: Path, tmp_path: Path) -> None:
    setting.write_text("3\n")
    journal_of_run = journal.Journal("0123abcd")
    settings = Settings(journal_of_run)
    for wanted, seen in (("+2", "5"), ("+2", "5"), ("+7", "10"), ("+0", "3"), ("+x", "+x")):
        settings.apply({str(setting): wanted})
        assert setting.read_text().strip() == seen
    settings.apply({})
    assert setting.read_text() == "3"
    settings.apply({str(setting): "+2"})
    journal_of_run.close()
    assert setting.read_text() == "3"


def test_an_exception_puts_a_setting_back(setting: Path, tmp_path: Path) -> None:
    def fail(opened: LocalExecutor) -> None:
        with opened:
            opened.trial(Point(0, {"mode": "new"}, None))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail(LocalExecutor(RUN, setting_by_level(setting), Directories(tmp_path), [CPU]))
    assert setting.read_text() == "before"


@pytest.mark.parametrize(
    ("file", "detail"),
    [
        (READ_ONLY, f"needs {READ_ONLY} = new, and {MAY_NOT}"),
        (
            "/proc/nosuch",
            "needs /proc/nosuch = new, and there is no such file: use a kernel that has it",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_unavailable(tmp_path: Path, file: str, detail: str) -> None:
    with LocalExecutor(RUN, setting_by_level(Path(file)), Directories(tmp_path), [CPU]) as opened:
        reply = opened.trial(Point(0, {"mode": "new"}, None))
        assert opened._servers == {}  # nothing ran
    said = reply["detail"].replace("writing it fails: Read-only file system", MAY_NOT)  # /proc/sys
    assert (reply["outcome"], said) == ("unavailable", detail)
    assert list(journal.folder().iterdir()) == []


def test_a_setting_that_is_there_already_need_not_be_writable(tmp_path: Path) -> None:
    own = journal.Journal(RUN)
    Settings(own).apply({READ_ONLY: value_of(Path(READ_ONLY))})
    assert entries() == []
    own.close()


@pytest.mark.skipif(not THP.exists(), reason=f"{THP} does not exist on this kernel")
def test_a_file_with_brackets_is_its_marked_word() -> None:
    assert value_of(THP) == files.choice(THP)


def test_a_value_that_the_kernel_did_not_take_is_unavailable(
    setting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As nr_hugepages, which gives what there is."""
    own = journal.Journal(RUN)
    write_text = Path.write_text
    monkeypatch.setattr(Path, "write_text", lambda *_: 0)
    with pytest.raises(Unavailable, match=r"= new, and the kernel made it before: free memory"):
        Settings(own).apply({str(setting): "new"})
    monkeypatch.setattr(Path, "write_text", write_text)
    own.close()


def test_blanks_do_not_tell_values_apart(setting: Path) -> None:
    setting.write_text("4096\t87380\t6291456\n")
    own = journal.Journal(RUN)
    Settings(own).apply({str(setting): "4096 87380 6291456"})
    assert entries() == []
    own.close()


@pytest.mark.needs("writable settings")
def test_the_readahead_of_a_folders_device_is_set_for_a_trial(tmp_path: Path) -> None:
    try:
        file = Path(readahead_file(tmp_path))
    except Unavailable as none:
        pytest.skip(str(none))
    before = value_of(file)
    size = Factor("size", BYTES, "readahead", [0, 92 * 1024], host=True)
    declared = experiment(
        probe="noop", factors=[size], host=Host(readahead=lambda at: int(at["size"]))
    )
    with LocalExecutor(RUN, declared, Directories(tmp_path), [CPU]) as opened:
        for wanted in (0, 92 * 1024):
            assert opened.trial(Point(0, {"size": wanted}, None))["outcome"] == "ok"
            assert value_of(file) == str(wanted // 1024)
    assert value_of(file) == before


def test_a_folder_on_no_block_device_has_no_readahead() -> None:
    with pytest.raises(Unavailable, match="needs a file system on a block device, and /proc is on"):
        readahead_file(Path("/proc"))


@pytest.mark.parametrize(
    ("file", "kernel"),
    [
        ("/sys/kernel/mm/lru_gen/enabled", "Linux 6.1 with CONFIG_LRU_GEN"),
        ("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "Linux 6.8"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "a kernel that has it"),
    ],
)
def test_a_file_that_came_with_a_version_names_it(file: str, kernel: str) -> None:
    assert no_such_file(file, "1").endswith(f"use {kernel}")
