"""The journal: written before each change, undone newest first, kept while it cannot be."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memlab.observe import proc
from memlab.run import journal
from memlab.run.journal import Journal

THP = "always [madvise] never\n"


def of_a_dead_driver(run: str = "0123abcd", *entries: dict[str, Any], tail: str = "") -> Path:
    """A journal as a killed driver leaves it: this process's pid, but another start."""
    head = {"run": run, "driver": os.getpid(), "start": 1, "boot": proc.boot_id()}
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
    parent = tmp_path / "nosuch"
    with pytest.raises(FileNotFoundError):
        opened.make_folder(parent, "0123abcd-dir")
    *_, last = opened.path.read_text().splitlines()
    assert json.loads(last) == folder_entry(parent / "memlab-0123abcd-dir")
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
    assert (left.path, left.run, left.changes) == (path, "0123abcd", ())


def test_a_dead_drivers_changes_are_named_and_undone(tmp_path: Path) -> None:
    made, setting = tmp_path / "memlab-0123abcd-dir", tmp_path / "setting"
    made.mkdir()
    setting.write_text("new")
    value = {"undo": "value", "path": str(setting), "value": "old"}
    path = of_a_dead_driver("0123abcd", folder_entry(made), value)
    (left,) = journal.stale()
    assert left.changes == (f"folder {made}", f"value {setting}")
    assert journal.undo(left.path) == []
    assert (made.exists(), setting.read_text(), path.exists()) == (False, "old", False)


def test_a_torn_last_line_tells_of_no_change(tmp_path: Path) -> None:
    made = tmp_path / "memlab-0123abcd-dir"
    made.mkdir()
    path = of_a_dead_driver("0123abcd", folder_entry(made), tail='{"undo": "folder", "pa')
    assert journal.undo(path) == []
    assert not made.exists()


@pytest.mark.parametrize("text", ["", '{"run": "0123a'])
def test_a_journal_without_a_whole_line_is_stale_and_goes(text: str) -> None:
    path = of_a_dead_driver()
    path.write_text(text)
    (left,) = journal.stale()
    assert left.changes == ()
    assert journal.undo(left.path) == []
    assert not path.exists()


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
    monkeypatch.setattr(Path, "glob", lambda *_: [path])
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
    setting = {"undo": "value", "path": str(tmp_path / "nosuch" / "setting"), "value": "old"}
    made = tmp_path / "memlab-0123abcd-dir"
    made.mkdir()
    path = of_a_dead_driver("0123abcd", setting, folder_entry(made))
    assert journal.undo(path) == [f"value {setting['path']}: No such file or directory"]
    assert path.exists()
    assert not made.exists()  # the rest was undone


def test_folder_of_journals(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert journal.folder() == home / "state" / "memlab" / "journal"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert journal.folder() == home / ".local" / "state" / "memlab" / "journal"


def test_of_another_boot_only_folders_are_left(tmp_path: Path) -> None:
    """The kernel has its own values again, and a zram's number may be another's."""
    setting, made = tmp_path / "setting", tmp_path / "memlab-0123abcd-dir"
    setting.write_text("of this boot")
    made.mkdir()
    value = {"undo": "value", "path": str(setting), "value": "old"}
    group = {"undo": "cgroup", "path": "/sys/fs/cgroup"}
    path = of_a_dead_driver("0123abcd", value, group, folder_entry(made))
    path.write_text(path.read_text().replace(proc.boot_id(), "another"))
    assert journal.undo(path) == []
    assert (setting.read_text(), made.exists(), path.exists()) == ("of this boot", False, False)


def test_groups_go_before_what_they_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group may be made before the swap that its processes use, or after it."""
    undone: list[str] = []
    kinds = ("folder", "cgroup", "swap", "value")
    for kind in kinds:
        monkeypatch.setitem(journal._UNDO, kind, lambda entry: undone.append(entry["undo"]))
    assert journal.undo(of_a_dead_driver("0123abcd", *({"undo": kind} for kind in kinds))) == []
    assert undone == ["cgroup", "value", "swap", "folder"]


def test_a_kind_that_this_memlab_does_not_know_is_told() -> None:
    path = of_a_dead_driver("0123abcd", {"undo": "later", "path": "/x"})
    assert journal.undo(path) == ["later /x: this memlab cannot undo it; use the one that made it"]
    assert path.exists()
