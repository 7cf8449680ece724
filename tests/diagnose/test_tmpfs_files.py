"""The files of a tmpfs, as they are said of one that holds much."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from memlab.diagnose import group_limits, machine_account, tmpfs_files
from memlab.diagnose.room import TmpfsUse

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


@pytest.mark.parametrize("files", ["300 files, the largest pool/7 (1 MiB)", ""])
def test_a_full_tmpfs_is_said_with_its_files(files: str) -> None:
    mount = TmpfsUse("/dev/shm", 300 * MiB, 900 * MiB, files)
    charged = charge(used_bytes=301 * MiB, shmem_bytes=300 * MiB)
    (found,) = group_limits.of_files(charged, (), (mount,), None, {})
    assert found.title.endswith(f"; /dev/shm holds 300 MiB{f' in {files}' if files else ''}")
    whole = machine_account.of(replace(seen(), tmpfs=(mount,)))
    (note,) = [one.note for one in whole.lines if one.name == machine_account.SHMEM]
    assert note == f"/dev/shm 300 MiB{f'; /dev/shm: {files}' if files else ''}"
