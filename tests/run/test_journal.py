"""The journal: written before each change, undone newest first, kept while it cannot be."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import with_any_setting

from memlab.errors import CannotRun
from memlab.observe import proc
from memlab.run import cleanup, journal
from memlab.run.guardian import Guardian
from memlab.run.journal import Journal

SETTINGS = cleanup.SETTINGS
THP = "always [madvise] never\n"


@pytest.fixture(autouse=True)
def _any_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    with_any_setting(monkeypatch)


def of_a_dead_driver(run: str = "0123abcd", *entries: dict[str, Any], tail: str = "") -> Path:
    """A journal as a killed driver leaves it: this process's pid, but another start."""
    head = {"run": run, "driver": os.getpid(), "start": 1} | journal._here()
    journal.folder().mkdir(parents=True, exist_ok=True)
    path = journal.folder() / f"{run}-1.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in (head, *entries)) + tail)
    return path


def folder_entry(path: Path) -> dict[str, Any]:
    return {"undo": "folder", "path": str(path)}


def test_closing_removes_folders_and_the_journal(tmp_path: Path) -> None:
    opened = Journal("0123abcd")
    made = opened.make_folder(tmp_path, "0123abcd-dir")
    (made / "file").write_text("x")
    opened.close()
    assert not made.exists()
    assert list(journal.folder().iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
def test_one_that_is_interrupted_as_it_begins_is_removed(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptors = sorted(Path("/proc/self/fd").iterdir())

    def fsync(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises((KeyboardInterrupt, CannotRun)):
        Journal("0123abcd")
    assert list(journal.folder().iterdir()) == []
    assert sorted(Path("/proc/self/fd").iterdir()) == descriptors


@pytest.mark.parametrize(("text", "old"), [(THP, "madvise"), ("60\n", "60"), ("0", "0")])
def test_a_setting_gets_its_old_value_back(tmp_path: Path, text: str, old: str) -> None:
    setting = tmp_path / "setting"
    setting.write_text(text)
    opened = Journal("0123abcd")
    opened.set_value(setting, "new")
    assert setting.read_text() == "new"
    opened.close()
    assert setting.read_text() == old


def test_newest_change_is_undone_first(tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    setting.write_text("first")
    opened = Journal("0123abcd")
    opened.set_value(setting, "second")
    opened.set_value(setting, "third")
    opened.close()
    assert setting.read_text() == "first"


def test_an_entry_is_on_disk_before_its_change(tmp_path: Path) -> None:
    opened = Journal("0123abcd")
    (tmp_path / "memlab-0123abcd-dir").mkdir()
    with pytest.raises(FileExistsError):
        opened.make_folder(tmp_path, "0123abcd-dir")
    *_, last = opened.path.read_text().splitlines()
    assert json.loads(last) == folder_entry(tmp_path / "memlab-0123abcd-dir")
    opened.close()
    assert not opened.path.exists()


def test_a_live_driver_is_not_stale() -> None:
    opened = Journal("0123abcd")
    assert list(journal.stale()) == []
    opened.close()


def test_no_journal_folder_is_no_stale_journal() -> None:
    assert list(journal.stale()) == []
    assert not journal.folder().exists()


@pytest.mark.parametrize(
    "change", [{}, {"boot": "another", "start": proc.start_ticks()}, {"driver": 2**22 + 1}]
)
def test_a_driver_is_known_by_pid_start_and_boot(change: dict[str, Any]) -> None:
    path = of_a_dead_driver()
    path.write_text(json.dumps(json.loads(path.read_text()) | change) + "\n")
    (left,) = journal.stale()
    assert (left.path, left.run) == (path, "0123abcd")


def test_a_dead_drivers_changes_are_named_and_undone(tmp_path: Path) -> None:
    made, setting = tmp_path / "memlab-0123abcd-dir", tmp_path / "setting"
    made.mkdir()
    setting.write_text("new")
    value = {"undo": "value", "path": str(setting), "value": "old"}
    path = of_a_dead_driver("0123abcd", folder_entry(made), value)
    (left,) = journal.undo_stale()
    assert (left.run, left.failures) == ("0123abcd", [])
    assert left.changes == [f"value {setting}", f"folder {made}"]
    assert (made.exists(), setting.read_text(), path.exists()) == (False, "old", False)


def test_a_torn_last_line_tells_of_no_change(tmp_path: Path) -> None:
    made = tmp_path / "memlab-0123abcd-dir"
    made.mkdir()
    path = of_a_dead_driver("0123abcd", folder_entry(made), tail='{"undo": "folder", "pa')
    assert journal.undo(path) == []
    assert not made.exists()


@pytest.mark.parametrize("text", ["", '{"run": "0123a'])
def test_a_journal_without_a_head_goes_once_it_is_old(text: str) -> None:
    """It names no change: its run begins just now, or was killed as it began."""
    path = of_a_dead_driver()
    old = path.with_name("old.jsonl")
    for one in (path, old):
        one.write_text(text)
    os.utime(old, (0, 0))
    assert (list(journal.stale()), list(journal.left_alone())) == ([], [])
    assert (path.exists(), old.exists()) == (True, False)


def test_what_is_undone_already_is_no_failure(tmp_path: Path) -> None:
    path = of_a_dead_driver("0123abcd", folder_entry(tmp_path / "memlab-gone"))
    assert journal.undo(path) == []
    assert not path.exists()


def test_a_journal_that_somebody_else_undid_is_no_failure() -> None:
    """A guardian and the next sweep may come to it at the same time."""
    path = of_a_dead_driver()
    path.unlink()
    assert journal.undo(path) == []


def test_a_journal_that_vanishes_while_looked_for_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = of_a_dead_driver()
    path.unlink()
    monkeypatch.setattr(Path, "iterdir", lambda _: iter([path]))
    assert list(journal.stale()) == []


def test_only_folders_of_a_run_are_removed(tmp_path: Path) -> None:
    """A damaged journal cannot take another folder, nor what a link points to."""
    precious, link = tmp_path / "precious", tmp_path / "memlab-link"
    precious.mkdir()
    link.symlink_to(precious)
    journal.undo(of_a_dead_driver("0123abcd", folder_entry(precious), folder_entry(link)))
    assert precious.is_dir()
    assert link.is_symlink()


def test_what_cannot_be_undone_keeps_the_journal(tmp_path: Path) -> None:
    busy, made = tmp_path / "setting", tmp_path / "memlab-0123abcd-dir"
    busy.mkdir()
    made.mkdir()
    setting = {"undo": "value", "path": str(busy), "value": "old"}
    path = of_a_dead_driver("0123abcd", setting, folder_entry(made))
    assert journal.undo(path) == [
        f"value {busy}: Is a directory; write 'old' to it yourself, then remove {path}"
    ]
    assert path.exists()
    assert not made.exists()  # the rest was undone


def test_a_setting_whose_file_is_gone_needs_no_value(tmp_path: Path) -> None:
    """The cgroup of a session that has logged out; it would be a failure for ever."""
    gone = {"undo": "value", "path": str(tmp_path / "nosuch" / "setting"), "value": "old"}
    assert journal.undo(of_a_dead_driver("0123abcd", gone)) == []


def test_folder_of_journals(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert journal.folder() == home / "state" / "memlab" / "journal"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert journal.folder() == home / ".local" / "state" / "memlab" / "journal"


def test_a_home_that_cannot_be_written_is_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As HOME=/nonexistent of a service: what is in the way is a file, which stops root too."""
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    with pytest.raises(CannotRun) as refused:
        journal.Journal("0123abcd")
    assert str(refused.value).startswith(
        f"cannot write the journal {tmp_path}/file/.local/state/memlab/journal/0123abcd-"
    )
    assert str(refused.value).endswith(
        ".jsonl: Not a directory; set XDG_STATE_HOME to the path of a folder that can be written"
    )


def test_of_another_boot_only_folders_are_left(tmp_path: Path) -> None:
    """The kernel has its own values again, and a zram's number may be another's."""
    setting, made = tmp_path / "setting", tmp_path / "memlab-0123abcd-dir"
    setting.write_text("of this boot")
    made.mkdir()
    value = {"undo": "value", "path": str(setting), "value": "old"}
    group = {"undo": "cgroup", "path": "/sys/fs/cgroup"}
    path = of_a_dead_driver("0123abcd", value, group, folder_entry(made))
    path.write_text(path.read_text().replace(proc.boot_id(), "another"))
    (left,) = journal.undo_stale()
    assert (left.changes, left.failures) == ([f"folder {made}"], [])
    assert (setting.read_text(), made.exists(), path.exists()) == ("of this boot", False, False)


def test_what_runs_goes_before_what_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group may be made before the swap that its processes use, or after it."""
    undone: list[str] = []
    kinds = ("folder", "cgroup", "swap", "session", "value")
    for kind in kinds:
        undo = (frozenset[str](), lambda entry, _: bool(undone.append(entry["undo"])))
        monkeypatch.setitem(journal._KINDS, kind, undo)
    entries = ({"undo": kind, "path": ""} for kind in kinds)
    assert journal.undo(of_a_dead_driver("0123abcd", *entries)) == []
    assert undone == ["session", "cgroup", "value", "swap", "folder"]


def test_a_kind_that_this_memlab_does_not_know_is_told() -> None:
    path = of_a_dead_driver("0123abcd", {"undo": "later", "path": "/x"})
    (failure,) = journal.undo(path)
    assert failure == (
        f"later /x: this memlab cannot undo it; {path} is for "
        "`memlab clean` of the one that made it"
    )
    assert path.exists()


def test_a_setting_that_the_kernel_refuses_is_tried_once_and_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every sweep waited two seconds for it, for ever."""
    setting = Path("/proc/sys/vm/overcommit_memory")
    before = setting.read_text()
    path = of_a_dead_driver("0123abcd", {"undo": "value", "path": str(setting), "value": "7"})
    tried: list[str] = []
    restore = cleanup.restore
    monkeypatch.setattr(cleanup, "restore", lambda *of: tried.append("once") or restore(*of))
    (first,), (second,) = list(journal.undo_stale()), list(journal.undo_stale())
    assert tried == ["once", "once"]  # by each sweep
    assert re.fullmatch(
        rf"value {setting}: .*; write '7' to it yourself, then remove {path}", *first.failures
    )
    assert (first.reported, second.reported, first.failures) == (False, True, second.failures)
    assert (setting.read_text(), path.exists()) == (before, True)


def test_that_it_was_told_is_no_part_of_a_line_that_was_cut_short(tmp_path: Path) -> None:
    value = {"undo": "value", "path": str(tmp_path), "value": "old"}
    path = of_a_dead_driver("0123abcd", value, tail='{"undo": "folder", "pa')
    assert [left.reported for left in journal.undo_stale()] == [False]
    assert [left.reported for left in journal.undo_stale()] == [True]
    assert list(journal.left_alone()) == []
    path.write_text(path.read_text().replace(proc.boot_id(), "before"))
    assert [left.failures for left in journal.undo_stale()] == [[]]  # the kernel's own again
    assert not path.exists()


# Whose journal it is


OTHERS = {
    "another machine": {"boot": "another", "machine": "another"},
    "an unknown machine": {"boot": "another", "machine": ""},
    "another container": {"pids": 1},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_a_run_that_may_live_elsewhere_is_left_alone(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """A second machine with the same home, a second container: its run may be at work."""
    made = tmp_path / "memlab-0123abcd-dir"
    made.mkdir()
    path = of_a_dead_driver("0123abcd", folder_entry(made))
    head, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(head) | change), *rest, ""]))
    assert list(journal.undo_stale()) == []
    (left,) = journal.left_alone()
    assert (left.path, left.damaged) == (path, False)
    assert "memlab clean` there" in left.why
    assert (made.exists(), path.exists()) == (True, True)


@pytest.mark.parametrize("machine_id", ["0123456789abcdef\n", "", None])
def test_of_a_machine_that_was_booted_again_folders_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine_id: str | None
) -> None:
    """Without an id too: a container's /etc/machine-id is empty or is not there."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    if machine_id is not None:
        (root / "etc/machine-id").write_text(machine_id)
    monkeypatch.setattr(proc, "ROOT", root)
    made = tmp_path / "memlab-0123abcd-dir"
    made.mkdir()
    path = of_a_dead_driver("0123abcd", folder_entry(made))
    path.write_text(path.read_text().replace(proc.boot_id(), "before"))
    (left,) = journal.undo_stale()
    assert (left.changes, path.exists()) == ([f"folder {made}"], False)


def test_without_an_id_of_machine_and_disk_a_run_before_the_boot_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc, "ROOT", tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((0,) * 11))
    made = tmp_path / "memlab-0123abcd-dir"
    made.mkdir()
    path = of_a_dead_driver("0123abcd", folder_entry(made))
    path.write_text(path.read_text().replace(proc.boot_id(), "before"))
    assert list(journal.undo_stale()) == []
    assert (made.exists(), path.exists()) == (True, True)


def test_a_driver_that_its_parent_does_not_reap_is_dead() -> None:
    """PID 1 of a container may never."""
    with subprocess.Popen([sys.executable, "-c", ""]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        path = of_a_dead_driver()
        head = json.loads(path.read_text())
        head |= {"driver": zombie.pid, "start": proc.start_ticks(zombie.pid)}
        path.write_text(json.dumps(head) + "\n")
        (left,) = journal.stale()
    assert left.path == path


def test_a_live_run_whose_journal_is_lost_undoes_its_changes(tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    setting.write_text("old")
    opened = Journal("0123abcd")
    guardian = Guardian(opened)
    opened.set_value(setting, "new")
    made = opened.make_folder(tmp_path, "0123abcd-dir")
    opened.path.unlink()
    guardian.dismiss()
    assert (setting.read_text(), made.exists()) == ("old", False)
    setting.write_text("another program's")  # what is undone is not undone again
    opened.close()
    assert setting.read_text() == "another program's"


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("more", [True, False])
def test_a_live_run_undoes_what_another_boot_emptied_its_journal_of(
    tmp_path: Path, guarded: bool, more: bool
) -> None:
    """`clean` of a machine of the same id and name, which shares the home: it removes folders and
    the journal, and leaves settings, which it holds for lost with the boot."""
    setting = tmp_path / "setting"
    setting.write_text("old")
    opened = Journal("0123abcd")
    guardian = Guardian(opened) if guarded else None
    opened.set_value(setting, "new")
    made = opened.make_folder(tmp_path, "0123abcd-dir")
    other = journal._open(opened.path)
    text = opened.path.read_text()
    opened.path.write_text(text.replace(proc.boot_id(), "another"))
    assert journal.undo(opened.path) == []
    os.close(other)
    assert (setting.read_text(), made.exists(), opened.path.exists()) == ("new", False, False)
    if more:
        made = opened.make_folder(tmp_path, "0123abcd-more")
    if guardian:
        guardian.dismiss()
        assert (setting.read_text(), made.exists()) == ("old", False)
        setting.write_text("another program's")
    opened.close()
    assert (setting.read_text(), made.exists()) == (
        "another program's" if guarded else "old",
        False,
    )


def test_the_guardian_undoes_what_came_after_a_journal_was_emptied(tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    setting.write_text("old")
    opened = Journal("0123abcd")
    opened.set_value(setting, "new")
    os.ftruncate(opened.fd, 0)
    opened.make_folder(tmp_path, "0123abcd-dir")
    assert journal.undo_whole(
        opened.fd, opened.path, journal.RETRY_S
    )  # as the guardian, once the driver is dead
    assert setting.read_text() == "old"
    assert not journal.undo_whole(opened.fd, opened.path, journal.RETRY_S)
    opened.forget()
    opened.close()


def test_what_is_undone_is_not_undone_again_where_the_rest_has_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run may begin, and change the setting, while a dead run's guardian still tries."""
    setting, remove, tried = tmp_path / "setting", cleanup.remove_folder, []
    setting.write_text("old")
    opened = Journal("0123abcd")
    made = opened.make_folder(tmp_path, "0123abcd-dir")
    opened.set_value(setting, "new")

    def busy_once(path: Path) -> bool:
        tried.append(setting.read_text())
        if len(tried) > 1:
            return remove(path)
        setting.write_text("another run's")
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(cleanup, "remove_folder", busy_once)
    assert journal.undo_whole(opened.fd, opened.path, journal.ALONE_S)
    assert tried == ["old", "another run's"]
    assert (setting.read_text(), made.exists()) == ("another run's", False)
    os.close(opened.fd)


def test_a_write_cut_short_damages_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, write = Journal("0123abcd"), os.write

    def full(fd: int, text: bytes) -> int:
        write(fd, text[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            opened.make_folder(tmp_path, "first")
    made = opened.make_folder(tmp_path, "second")
    assert len(journal._lines(opened.fd)) == 3
    opened.close()
    assert not made.exists()


def test_a_lost_journal_is_undone_without_a_guardian_too(tmp_path: Path) -> None:
    opened = Journal("0123abcd")
    made = opened.make_folder(tmp_path, "0123abcd-dir")
    opened.path.unlink()
    opened.close()
    assert not made.exists()


# Planted and damaged journals


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Path]:
    """A run that is over beside the journals of a test: it has to be undone all the same."""
    made = tmp_path / "memlab-beside-dir"
    made.mkdir()
    of_a_dead_driver("beside", folder_entry(made))
    yield made
    assert [left.run for left in journal.undo_stale()] == ["beside"]
    assert not made.exists()


HEAD = {"run": "r", "driver": 1, "start": 1, "boot": "b", "machine": "m", "pids": 1}
DAMAGED = [
    b"\0" * 100 + b"\n",
    b"\xff\xfe\n",
    b"[]\n",
    b"3\n",
    b'{"run": "r"}\n',
    json.dumps({name: HEAD[name] for name in HEAD if name != "pids"}).encode() + b"\n",
    json.dumps(HEAD | {"driver": "1"}).encode() + b"\n",
    json.dumps(HEAD | {"run": "../../x"}).encode() + b"\n",
    json.dumps(HEAD).encode() + b"\n[]\n",
    json.dumps(HEAD).encode() + b'\n{"undo": "folder"}\n',
    json.dumps(HEAD).encode() + b'\n{"undo": "folder", "path": 3}\n',
    json.dumps(HEAD).encode() + b'\n{"undo": "folder", "path": "/\\u0000"}\n',
    json.dumps(HEAD).encode() + b'\n{"undo": "value", "path": "/x"}\n',
    b"[" * 100_000 + b"\n",
    *(
        json.dumps(HEAD).encode() + b"\n" + change + b"\n"
        for change in (
            b'{"undo": [], "path": "x"}',
            b'{"undo": {}, "path": "x"}',
            b'{"undo": "folder", "path": "/tmp/memlab-\\ud800"}',
            b'{"undo": "value", "path": "/proc/sys/vm/\\ud800", "value": "1"}',
            b'{"undo": "value", "path": "/proc/sys/vm/overcommit_memory", "value": "\\ud800"}',
            b'{"undo": "value", "path": "/proc/sys/vm/overcommit_memory", "value": "\\udcff"}',
            b'{"undo": "swap", "path": "/tmp/memlab-\\ud800/swap"}',
            b'{"undo": "zram", "path": "/sys/block/zram0", "node": "/dev/\\ud800"}',
            b'{"undo": "session", "path": "/proc/1", "mark": "\\ud800", "start": "1"}',
            b'{"undo": "folder", "path": "/' + b"x" * 5000 + b'"}',
            b'{"undo": "session", "path": "/proc/1", "mark": "m", "start": "' + b"1" * 5000 + b'"}',
            b'{"undo": "folder", "path": "/x", "more": ' + b"1" * 5000 + b"}",
        )
    ),
    *(
        json.dumps(HEAD | changed).encode() + b"\n"
        for changed in (
            {"driver": 10**30},
            {"start": 2**64},
            {"run": "\ud800"},
            {"run": "x" * 5000},
            {"machine": "\ud800"},
            {"boot": "\ud800"},
        )
    ),
]


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_journal_is_named_and_stops_no_other(text: bytes) -> None:
    path = of_a_dead_driver()
    path.write_bytes(text)
    (left,) = journal.left_alone()
    assert (left.path, left.damaged) == (path, True)
    assert left.why == "it is not one memlab wrote"
    assert journal.undo(path) == [f"{path}: it is not one memlab wrote"]
    aside = left.set_aside()
    assert (aside.path.exists(), aside.reported, left.reported) == (True, True, False)
    (again,) = journal.left_alone()  # it is still named to whoever asks
    assert again == aside


def test_a_start_that_is_no_number_of_the_kernels_is_refused() -> None:
    session = {"undo": "session", "path": "/proc/1", "mark": "m"}
    for start in ("", "-1", "1" * 21, "\u0661"):
        path = of_a_dead_driver("0123abcd", session | {"start": start})
        (failure,) = journal.undo(path)
        assert failure.startswith("session /proc/1: not a session that memlab began; look at it")


def test_what_one_change_meets_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: a boundary lists no exceptions that it expects."""

    def meets(*_: object) -> bool:
        raise TypeError("unheard of")

    made = tmp_path / f"{cleanup.PREFIX}a"
    made.mkdir()
    swap = {"undo": "swap", "path": str(tmp_path / "swap")}
    path = of_a_dead_driver("0123abcd", folder_entry(made), swap)
    monkeypatch.setattr(cleanup, "remove_swap_file", meets)
    (undone,) = journal.undo_stale()
    assert undone.changes == [f"folder {made}"]
    assert undone.failures == [
        f"swap {tmp_path}/swap: TypeError: unheard of; look at it, then remove {path}"
    ]
    assert not made.exists()


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to("/etc/passwd"), "Too many levels of symbolic links"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.touch(0o666) or path.chmod(0o666), "others may write to it"),
        (lambda path: path.touch(0o600) or os.truncate(path, 2**40), "it is too long"),
    ],
)
def test_what_is_no_journal_of_ours_is_not_read(make: Any, why: str) -> None:
    path = of_a_dead_driver()
    path.unlink()
    make(path)
    (left,) = journal.left_alone()
    assert (left.why, left.damaged) == (why, True)


@pytest.mark.needs("root")
@pytest.mark.usefixtures("others")
def test_root_does_not_undo_another_users_journal(tmp_path: Path) -> None:
    """sudo -E, su -m: the journals of a user's home."""
    setting = tmp_path / "setting"
    setting.write_text("root's")
    path = of_a_dead_driver("0123abcd", {"undo": "value", "path": str(setting), "value": "theirs"})
    os.chown(path, 65534, 65534)
    assert {left.run for left in journal.stale()} == {"beside"}
    assert journal.undo(path) == [f"{path}: it is another user's: they run `memlab clean`"]
    assert setting.read_text() == "root's"


REFUSED = [
    {"undo": "value", "path": "/sys/devices/virtual/bdi/0:0/max_ratio", "value": "1"},
    {"undo": "value", "path": "/proc/sys/kernel/core_pattern", "value": "|/tmp/x"},
    {"undo": "value", "path": "/proc/sys/vm/../kernel/core_pattern", "value": "|/tmp/x"},
    {"undo": "value", "path": "/etc/hostname", "value": "x"},
    {"undo": "value", "path": "/etc/cgroup.subtree_control", "value": "-memory"},
    {"undo": "session", "path": "/proc/self", "start": "1", "mark": "x"},
    {"undo": "session", "path": "/proc/1", "start": "x", "mark": "x"},
    {"undo": "session", "path": "/proc/1", "start": "1", "mark": ""},
]


@pytest.mark.parametrize("entry", REFUSED)
def test_what_memlab_never_changes_is_not_undone(
    entry: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "SETTINGS", SETTINGS)
    monkeypatch.setattr(proc, "filesystem_of", lambda _: "ext4")
    (failure,) = journal.undo(of_a_dead_driver("0123abcd", entry))
    assert failure.startswith(f"{entry['undo']} {entry['path']}: not a ")


def test_no_other_setting_is_changed_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "SETTINGS", ("/proc/sys/vm/",))
    opened = Journal("0123abcd")
    with pytest.raises(cleanup.NotOurs, match="not a setting that memlab changes"):
        opened.set_value(Path("/etc/hostname"), "x")
    opened.close()


def test_a_journal_is_this_users_alone() -> None:
    opened = Journal("0123abcd")
    assert opened.path.stat().st_mode & 0o777 == 0o600
    assert journal.folder().stat().st_mode & 0o777 == 0o700
    opened.close()


def test_many_journals_take_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen group kept `clean` for over a minute: each try had a patience of its own."""
    patience = set()

    def waits(entry: Any, until: float) -> bool:
        patience.add(until)
        raise OSError(16, "processes inside do not end")

    monkeypatch.setitem(journal._KINDS, "cgroup", (frozenset(), waits))
    monkeypatch.setattr(journal, "_ALL_S", 0.2)
    for number in range(5):
        of_a_dead_driver(f"run{number}", {"undo": "cgroup", "path": "/memlab-x"})
    assert sum(len(left.failures) for left in journal.undo_stale()) == 5
    assert len(patience) == 1  # the same end for all, and not as much more for each


# Processes of a run that is over


def test_a_session_is_known_by_its_leaders_start() -> None:
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleeps, start_new_session=True) as begun:
        leader, start = Path(f"/proc/{begun.pid}"), proc.start_ticks(begun.pid)
        assert not cleanup.end_session(leader, start + 1, "import time")
        assert begun.poll() is None
        assert cleanup.end_session(leader, start, "import time")
        assert begun.wait() == -9


ORPHAN = "import os, time; os.fork() and os._exit(0); time.sleep(60)"


def test_what_outlives_its_leader_is_known_by_its_mark() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN], start_new_session=True) as begun:
        start = proc.start_ticks(begun.pid)
        begun.wait()
        leader = Path(f"/proc/{begun.pid}")
        assert not cleanup.end_session(leader, start, "another program")
        assert cleanup.end_session(leader, start, "os.fork() and")
        assert not cleanup.end_session(leader, start, "os.fork() and")
