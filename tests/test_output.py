"""What -o names: written whole, written through, or refused; never replaced by mistake."""

import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from memlab.errors import CannotWrite
from memlab.files import output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.mkdir()
    return path


@pytest.fixture
def device(folder: Path) -> Path:
    """A null device of this test's own."""
    path = folder / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"")
    except PermissionError:
        pytest.skip("this user may not make or open a device node")
    return path


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_mode_that_the_umask_leaves(folder: Path) -> None:
    path = folder / "new"
    before = os.umask(0o027)
    try:
        output.write({path: b"here"})
    finally:
        os.umask(before)
    assert path.read_bytes() == b"here"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert listed(folder) == ["new"]


def test_a_file_is_replaced_and_keeps_its_mode(folder: Path) -> None:
    path = folder / "old"
    path.write_bytes(b"a longer text than the new one")
    path.chmod(0o604)
    before = path.stat().st_ino
    output.write({path: b"new"})
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert path.stat().st_ino != before


def test_a_device_is_written_to_and_stays(device: Path) -> None:
    output.write({device: b"gone"})
    assert stat.S_ISCHR(device.stat().st_mode)
    assert listed(device.parent) == ["null"]


def test_a_full_device_is_an_error_with_the_files_name() -> None:
    with pytest.raises(CannotWrite, match="cannot write /dev/full: No space left on device"):
        output.write({Path("/dev/full"): b"too much"})


def test_a_fifo_is_written_to_its_reader(folder: Path) -> None:
    fifo, heard, long = folder / "fifo", [], b"x" * 200_000  # more than a pipe holds
    os.mkfifo(fifo)
    reader = Thread(target=lambda: heard.append(fifo.read_bytes()))
    reader.start()
    output.write({fifo: iter([long, b"", b"end"])})
    reader.join()
    assert heard == [long + b"end"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_what_comes_in_pieces_is_written_as_it_comes(folder: Path) -> None:
    written = []

    def pieces() -> Iterator[bytes]:
        for number in range(3):
            yield bytes([65 + number]) * 100_000  # more than Python's buffer holds
            (part,) = folder.glob(".*.part")
            written.append(part.stat().st_size)

    output.write({folder / "new": pieces()})
    assert (folder / "new").read_bytes() == b"".join(bytes([n]) * 100_000 for n in b"ABC")
    assert written == [100_000, 200_000, 300_000]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed_and_stays(folder: Path, there: bool) -> None:
    (folder / "below").mkdir()
    target = folder / "below" / "target"
    if there:
        target.write_bytes(b"old")
    (folder / "link").symlink_to("below/between")
    (folder / "below" / "between").symlink_to("target")
    output.write({folder / "link": b"new"})
    assert target.read_bytes() == b"new"
    assert (folder / "link").is_symlink()
    assert (folder / "below" / "between").is_symlink()
    assert listed(folder / "below") == ["between", "target"]


def test_a_link_to_itself_is_an_error(folder: Path) -> None:
    (folder / "link").symlink_to("link")
    with pytest.raises(CannotWrite, match="Too many levels of symbolic links"):
        output.write({folder / "link": b"new"})


def test_a_planted_link_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if somebody could foresee the name."""
    victim = folder / "victim"
    victim.write_bytes(b"kept")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0badc0de")
    (folder / ".0badc0de.part").symlink_to(victim)
    with pytest.raises(CannotWrite, match="File exists"):
        output.write({folder / "out": b"new"})
    assert victim.read_bytes() == b"kept"
    assert listed(folder) == [".0badc0de.part", "victim"]


@pytest.mark.needs("root")
def test_another_users_link_in_a_folder_of_everybodys_is_not_followed(folder: Path) -> None:
    victim, link = folder.parent / "victim", folder / "out.html"
    victim.write_bytes(b"kept")
    link.symlink_to(victim)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    folder.chmod(0o1777)
    os.chown(folder, 0, 0)
    with pytest.raises(CannotWrite, match="another user's link"):
        output.write({link: b"new"})
    assert victim.read_bytes() == b"kept"
    os.chown(link, 0, 0, follow_symlinks=False)
    output.write({link: b"new"})  # one's own is followed
    assert victim.read_bytes() == b"new"


def test_no_name_can_be_foreseen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    replace = os.replace

    def noted(part: str, target: str, **folders: int) -> None:
        seen.append(part)
        replace(part, target, **folders)

    monkeypatch.setattr(os, "replace", noted)
    for _ in range(3):
        output.write({folder / "out": b"new"})
    assert len(set(seen)) == 3
    assert all(len(name) >= 16 for name in seen)


def test_none_appears_where_one_cannot_be_written(folder: Path) -> None:
    good, bad = folder / "good", folder / "nosuch" / "bad"
    good.write_bytes(b"old")
    with pytest.raises(CannotWrite, match="nosuch/bad: No such file"):
        output.write({good: b"new", bad: b"new"})
    assert good.read_bytes() == b"old"
    assert listed(folder) == ["good"]


def test_a_folder_is_refused(folder: Path) -> None:
    with pytest.raises(CannotWrite, match="Is a directory"):
        output.write({folder: b"new"})


def test_standard_output_by_its_name() -> None:
    code = "from pathlib import Path; from memlab.files.output import write"
    code += "; write({Path(P): b'said'})"
    for name in ("/dev/stdout", "/proc/self/fd/1"):
        done = subprocess.run(
            [sys.executable, "-c", f"P = {name!r}; {code}"], capture_output=True, check=False
        )
        assert (done.stdout, done.stderr) == (b"said", b"")
