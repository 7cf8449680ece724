"""Who else may replace a file: by the owner and the mode of everything on the way to it."""

import os
import pwd
from contextlib import ExitStack
from pathlib import Path

import pytest

from memlab.errors import CannotRun
from memlab.files import folders, ownership
from memlab.run.journal import Journal
from memlab.run.prepare import check_directory
from memlab.store import database, travel

ROOT_ONLY = pytest.mark.needs("host root")


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


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Another user's folder; the owner of a sticky one may rename in it."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    folder.chmod(0o1777)
    return folder


@ROOT_ONLY
def test_root_is_refused_a_folder_that_another_user_owns(theirs: Path) -> None:
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


@ROOT_ONLY
def test_a_link_that_another_user_made_may_name_another_folder_tomorrow(
    tmp_path: Path, theirs: Path
) -> None:
    (tmp_path / "roots").mkdir()
    link = theirs / "link"
    link.symlink_to(tmp_path / "roots")
    assert ownership.exposed(link) == f"{theirs} belongs to user nobody"
    os.chown(theirs, 0, 0)
    assert ownership.exposed(link) is None  # root's, in a sticky folder
    os.chown(link, 65534, 65534, follow_symlinks=False)
    assert ownership.exposed(link) == f"{link} belongs to user nobody"
    (tmp_path / "second").symlink_to(link / "..")
    assert ownership.exposed(tmp_path / "second") == f"{link} belongs to user nobody"


@ROOT_ONLY
def test_root_makes_no_temporary_folder_where_another_user_may_replace_it(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are imported, and copies of stores, would be taken from what that user puts there:
    they are merged into root's store."""
    store = tmp_path / "store.db"
    store.write_bytes(b"x")
    monkeypatch.setenv("TMPDIR", str(theirs))
    words = rf"{theirs} is no place for root's files.* nobody; set TMPDIR to another folder"
    with pytest.raises(CannotRun, match=words), travel._staged():
        pass
    with pytest.raises(CannotRun, match=words), ExitStack() as closing:
        database.copied(store, closing)
    with pytest.raises(CannotRun, match=words), folders.temporary("recorded"):
        pass
    assert list(theirs.iterdir()) == []


def test_a_temporary_folder_is_this_users_alone_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with folders.temporary("import") as made:
        assert (made.parent, made.name.startswith("memlab-import-")) == (tmp_path, True)
        assert made.stat().st_mode & 0o777 == 0o700
    assert not made.exists()
    monkeypatch.setenv("TMPDIR", "/nosuch")
    with pytest.raises(CannotRun, match="in /nosuch: No such file or directory; set TMPDIR"):
        folders.temporary("import").__enter__()


@ROOT_ONLY
@pytest.mark.parametrize("by", ["HOME", "XDG"])
def test_under_another_users_home_root_keeps_journal_and_caches_in_its_own(
    theirs: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """sudo -E. What that user puts there would be undone, loaded and removed as root."""
    for kind in ("DATA", "STATE", "CACHE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
        if by == "XDG":
            monkeypatch.setenv(f"XDG_{kind}_HOME", str(theirs / "new"))
    monkeypatch.setenv("HOME", str(theirs))
    own = Path(pwd.getpwuid(0).pw_dir)
    assert folders.user("state") == own / ".local/state/memlab"
    assert folders.user("cache") == own / ".cache/memlab"
    assert theirs in folders.user("data").parents  # the store is where the user looks for it


def test_root_of_a_user_namespace_is_an_ordinary_user(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    for words, root in (("0 0 4294967295", os.geteuid() == 0), ("0 1000 1", False)):
        (tmp_path / "proc/self/uid_map").write_text(f"         {words}\n")
        assert ownership.is_host_root(tmp_path) == root


@pytest.mark.parametrize("kind", ["data", "state", "cache"])
def test_a_relative_path_of_an_xdg_variable_is_ignored(
    kind: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the XDG Base Directory Specification says: `clean` elsewhere would never see it."""
    monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", "rel")
    assert folders.user(kind).is_relative_to(home)
    monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(home / "abs"))
    assert folders.user(kind) == home / "abs" / "memlab"
