"""Who else may replace a file: by the owner and the mode of everything on the way to it."""

import os
from pathlib import Path

import pytest

from memlab.errors import CannotRun
from memlab.observe import ownership
from memlab.run.journal import Journal
from memlab.run.prepare import check_directory

ROOT_ONLY = pytest.mark.skipif(not ownership.is_host_root(), reason="only root is refused")


def test_ones_own_folder_is_not_exposed(tmp_path: Path) -> None:
    assert ownership.exposed(tmp_path) is None
    assert ownership.exposed(Path("/dev/shm")) is None  # sticky


@pytest.mark.parametrize("mode", [0o777, 0o733])
def test_a_folder_that_others_may_rename_in_is(tmp_path: Path, mode: int) -> None:
    shared, below = tmp_path / "shared", tmp_path / "shared" / "below"
    below.mkdir(parents=True)
    shared.chmod(mode)
    assert ownership.exposed(below) == f"others may write to {shared}"
    (tmp_path / "link").symlink_to(below)
    assert ownership.exposed(tmp_path / "link") == f"others may write to {shared}"
    shared.chmod(mode | 0o1000)
    assert ownership.exposed(below) is None


@ROOT_ONLY
def test_root_is_refused_a_folder_that_another_user_owns(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    theirs.chmod(0o1777)  # the owner of a sticky folder may rename in it
    assert ownership.exposed(theirs) == f"{theirs} belongs to user nobody"
    with pytest.raises(CannotRun, match=r"root's files.*: .* belongs to user nobody; name another"):
        check_directory(theirs)
    opened = Journal("0123abcd")
    with pytest.raises(OSError, match="belongs to user nobody"):
        opened.make_folder(theirs, "0123abcd-dir")
    opened.close()
    assert list(theirs.iterdir()) == []


@ROOT_ONLY
def test_a_group_of_other_users_may_rename_too(tmp_path: Path) -> None:
    team = tmp_path / "team"
    team.mkdir()
    team.chmod(0o775)
    assert ownership.exposed(team) is None  # root's group
    os.chown(team, 0, 65534)
    assert ownership.exposed(team) == f"others may write to {team}"


def test_root_of_a_user_namespace_is_an_ordinary_user(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    for words, root in (("0 0 4294967295", os.geteuid() == 0), ("0 1000 1", False)):
        (tmp_path / "proc/self/uid_map").write_text(f"         {words}\n")
        assert ownership.is_host_root(tmp_path) == root
