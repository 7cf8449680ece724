"""The files of a tmpfs, as they are said of one that holds much."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from memlab.diagnose import group_limits, machine, machine_account, tmpfs_files
from memlab.diagnose.room import TmpfsUse
from memlab.text import units

from .looks import MiB, charge
from .test_machine import seen


def write(path: Path, pages: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(b"x" * 4096 * pages)
        file.flush()
        os.fsync(file.fileno())  # some file systems count blocks only then


def test_files_are_counted_and_the_largest_is_named(tmp_path: Path) -> None:
    assert tmpfs_files.described(str(tmp_path)) == ""
    write(tmp_path / "first", 1)
    size = (tmp_path / "first").stat().st_blocks * 512
    assert tmpfs_files.described(str(tmp_path)).startswith("1 file, the largest first (")
    write(tmp_path / "pool/7\n", 64)
    (tmp_path / "link").symlink_to("/usr/bin")
    words = tmpfs_files.described(str(tmp_path))
    assert words.startswith("2 files, the largest pool/7")
    assert "\n" not in words
    assert size < (tmp_path / "pool/7\n").stat().st_blocks * 512
    write(tmp_path / "pool" / ("x" * 200), 99)
    assert f" ...{'x' * 33} (" in tmpfs_files.described(str(tmp_path))
    (tmp_path / "away").symlink_to(tmp_path / "pool")
    assert tmpfs_files.described(str(tmp_path / "away")) == "", "no link is followed"


def test_of_very_many_files_only_the_first_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mount"
    monkeypatch.setattr(tmpfs_files, "_ENTRIES_MAX", 3)
    for n in range(5):
        write(folder / str(n), 1)
        some = "at least 3 files" if n > 2 else f"{n + 1} file{'s' if n else ''}"
        assert tmpfs_files.described(str(folder)).startswith(f"{some}, the largest ")
    monkeypatch.setattr(tmpfs_files, "_DEPTH_MAX", 1)
    write(folder / "a/b/c/deep", 9)
    monkeypatch.setattr(tmpfs_files, "_ENTRIES_MAX", 9)
    assert tmpfs_files.described(str(folder)).startswith("5 files, ")


def test_folders_count_among_what_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a tmpfs of a million folders would take seconds."""
    for n in range(9):
        (tmp_path / f"mount/{n}").mkdir(parents=True)
    listed = []
    entries = tmpfs_files._entries
    monkeypatch.setattr(tmpfs_files, "_ENTRIES_MAX", 3)
    monkeypatch.setattr(
        tmpfs_files, "_entries", lambda at: (listed.append(one) or one for one in entries(at))
    )
    assert tmpfs_files.described(str(tmp_path / "mount")) == ""
    assert len(listed) == 4


def test_files_that_no_process_has_open_or_maps_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three are held: one by a descriptor whose path is another one, one by a mapping."""
    for name in ("open", "mapped", "left/behind"):
        write(tmp_path / "mount" / name, 4)
    listed = tmpfs_files.listed(str(tmp_path / "mount"))
    assert listed
    keys = {path: key for key, (path, _) in listed.items()}
    proc = tmp_path / "proc"
    (proc / "7/fd").mkdir(parents=True)
    (proc / "7/fd/3").symlink_to(tmp_path / "mount/open")
    device, inode = keys["mapped"]
    line = f"7f00-7f01 rw-s 00000000 {os.major(device):02x}:{os.minor(device):02x} {inode}   /m\n"
    (proc / "7/maps").write_text(line)
    (proc / "8").mkdir()
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    in_use = {*machine._opened({7: {3: "/elsewhere/open"}}, listed)}
    assert in_use == {keys["open"]}
    assert list(machine._mapped([7, 9], listed, in_use)) == [], "9 has ended"
    assert in_use == {keys["open"], keys["mapped"]}
    assert list(machine._mapped([8], listed, in_use)) == [8], "it may not be read"

    # Through an overlay, which has a device of major 0; on a disk the name says nothing.
    for major, expected in ((0, {keys["left/behind"]}), (os.major(device) + 1, set())):
        through: set[tuple[int, int]] = set()
        number = f"{major:02x}:{os.minor(device) + 1:02x}"
        line = f"7f00-7f01 rw-s 00000000 {number} 5    /m 1/behind (deleted)\n"
        (proc / "7/maps").write_text(line)
        assert list(machine._mapped([7], listed, through)) == []
        assert through == expected
    elsewhere = {(1 << 60, 5): ("open", 1), (1 << 60, 6): ("other", 1)}
    monkeypatch.setattr(os, "major", lambda _: 0)
    assert (1 << 60, 5) in {*machine._opened({7: {3: "/m/open"}}, elsewhere)}
    assert (1 << 60, 6) not in {*machine._opened({7: {3: "/m/open"}}, elsewhere)}
    monkeypatch.undo()

    monkeypatch.setattr(tmpfs_files, "_UNHELD_BYTES", 1)
    size = units.format_quantity(listed[keys["left/behind"]][1], "B")
    words = "no process has open or maps"
    assert tmpfs_files.unheld(listed, in_use) == f"{words} {size} in 1 file"
    assert tmpfs_files.unheld(listed, ()) == f"{words} any"
    assert tmpfs_files.unheld(listed, keys.values()) == ""
    monkeypatch.setattr(tmpfs_files, "_ENTRIES_MAX", 3)
    assert tmpfs_files.listed(str(tmp_path / "mount")) is None


def test_a_mount_whose_files_were_not_looked_for_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = (TmpfsUse("/nowhere", mib * MiB, 1 << 30, "9 files") for mib in (64, 63))
    unread = replace(large, unheld=tmpfs_files.UNREAD)
    assert machine._with_unheld(7, small, [7], {}) == small
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert machine._with_unheld(7, large, [7], {}) == unread
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "_sees_all", lambda: True)
    monkeypatch.setattr(tmpfs_files, "listed", lambda _: {(1, 2): ("a", 65 * MiB)})
    monkeypatch.setattr(machine, "_mapped", lambda *_: iter(()))
    assert machine._with_unheld(7, large, range(401), {}) == unread
    said = replace(large, unheld="no process has open or maps any")
    assert machine._with_unheld(7, large, [], {}) == said
    monkeypatch.setattr(machine, "_mapped", lambda *_: iter([7]))
    but = replace(said, unheld=f"{said.unheld} (not read: 1 process)")
    assert machine._with_unheld(7, large, [], {}) == but
    monkeypatch.setattr(machine, "_mapped", lambda *_: iter(()))
    for count, expected in ((9_999, said), (10_000, but)):
        links = {8: dict.fromkeys(range(count), "socket:[1]"), 9: {3: "/b"}}
        assert machine._with_unheld(7, large, [8, 9], links) == expected
    monkeypatch.setattr(machine, "_in_time", lambda _: False)
    assert machine._with_unheld(7, large, [], {}) == unread


def test_the_path_of_a_mount_is_cut_in_a_note_as_a_name_is() -> None:
    """Not in a sentence, from which it is copied."""
    path = f"/var/lib/{'pod/' * 30}tmp"
    mount = TmpfsUse(path, 3 << 30, 8 << 30, "9 files")
    whole = machine_account.of(replace(seen(Shmem=3 << 30), tmpfs=(mount,)))
    (note,) = [one.note for one in whole.lines if one.name == machine_account.SHMEM]
    assert note == f"...{path[-33:]} 3 GiB; ...{path[-33:]}: 9 files"
    charged = charge(used_bytes=301 * MiB, shmem_bytes=300 * MiB)
    (found,) = group_limits.of_files(charged, (), (mount,), None, {})
    assert found.title.endswith(f"; {path} holds 3 GiB in 9 files")
    (said,) = [one for one in machine_account.findings(replace(seen(Shmem=3 << 30), tmpfs=(mount,)))
               if one.name == "machine-tmpfs"]  # fmt: skip
    assert said.title.endswith(f"(most: {path} 3 GiB)")


def test_that_nobody_holds_the_files_stands_beside_their_size() -> None:
    mount = TmpfsUse("/dev/shm", 3 << 30, 8 << 30, "300 files", "no process has open or maps any")
    full = replace(seen(Shmem=3 << 30), tmpfs=(mount,))
    (note,) = [one.note for one in machine_account.of(full).lines
               if one.name == machine_account.SHMEM]  # fmt: skip
    assert note == "/dev/shm 3 GiB; /dev/shm: 300 files; no process has open or maps any"
    (said,) = [one for one in machine_account.findings(full) if one.name == "machine-tmpfs"]
    assert said.title.endswith("; /dev/shm: 300 files; no process has open or maps any")
    unread = replace(mount, path="/run", files="", unheld=tmpfs_files.UNREAD)
    full = replace(full, tmpfs=(unread,))
    (said,) = [one for one in machine_account.findings(full) if one.name == "machine-tmpfs"]
    assert said.title.endswith(f"; /run: its files were not read; {tmpfs_files.UNREAD}")


@pytest.mark.parametrize("files", ["300 files, the largest pool/7 (1 MiB)", ""])
def test_a_full_tmpfs_is_said_with_its_files(files: str) -> None:
    mount = TmpfsUse("/dev/shm", 300 * MiB, 900 * MiB, files)
    charged = charge(used_bytes=301 * MiB, shmem_bytes=300 * MiB)
    (found,) = group_limits.of_files(charged, (), (mount,), None, {})
    assert found.title.endswith(f"; /dev/shm holds 300 MiB{f' in {files}' if files else ''}")
    whole = machine_account.of(replace(seen(), tmpfs=(mount,)))
    (note,) = [one.note for one in whole.lines if one.name == machine_account.SHMEM]
    assert note == f"/dev/shm 300 MiB{f'; /dev/shm: {files}' if files else ''}"
