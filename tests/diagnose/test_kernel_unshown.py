"""What the kernel keeps without a size is counted and said as not looked at, from made-up texts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from memlab.diagnose import kernel_unshown, sysvipc

STATUS = {"Uid": "0\t0\t0\t0", "SigQ": "0/96365"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernel_unshown, "ROOT", tmp_path)
    monkeypatch.setattr(sysvipc, "rows", lambda *_: [])
    (tmp_path / "proc/7/fdinfo").mkdir(parents=True)
    (tmp_path / "proc/7/fd").mkdir()
    return tmp_path


def said(links: Mapping[int, str], status: Mapping[str, str] = STATUS) -> list[str]:
    return list(kernel_unshown.read(7, links, status, 60.0))


@pytest.mark.parametrize(
    ("link", "line", "count", "words"),
    [
        ("anon_inode:[eventpoll]", "tfd: 5\n", 90_000, "90,000 watches of epoll"),
        ("anon_inode:[fanotify]", "fanotify ino:1 sdev:2\n", 20_000, "20,000 marks of fanotify"),
    ],
)
def test_entries_of_fdinfo_are_counted(
    link: str, line: str, count: int, words: str, root: Path
) -> None:
    file = root / "proc/7/fdinfo/4"
    file.write_text("pos:\t0\n" + line * count)
    (found,) = said({4: link})
    assert found.startswith(f"what {words} keep in the kernel: /proc does not show it; some ")
    file.write_text("pos:\t0\n" + line * (count // 10))
    assert said({4: link}) == []
    file.write_text("pos:\t0\n" + line * count)
    assert said({4: "/tmp/" + link}) == [], "a file of that name is another thing"


def test_of_a_text_that_is_longer_the_count_is_the_least(root: Path) -> None:
    (root / "proc/7/fdinfo/4").write_text("fanotify ino:".ljust(100, "x") * 20_000)
    (found,) = said({4: "anon_inode:[fanotify]"})
    assert found.startswith("what 10,486 or more marks of fanotify")


def test_descriptors_are_judged_by_their_number(root: Path) -> None:
    assert said({i: f"socket:[{i}]" for i in range(4000)}) == []
    (found,) = said({i: f"socket:[{i}]" for i in range(6000)})
    assert found.startswith("what 6,000 sockets keep in the kernel")
    (found,) = said({i: f"/dev/pts/{i}" for i in range(200)})
    assert found.startswith("what 200 terminals keep in the kernel")
    (found,) = said(dict.fromkeys(range(10_000), "/data"))
    assert found.startswith("what 10,000 or more open files keep")


def test_timers_and_locks_are_those_of_the_process(root: Path) -> None:
    (root / "proc/7/timers").write_text("ID: 1\n" * 50_000)
    (root / "proc/locks").write_text(
        "1: POSIX  ADVISORY  WRITE 77 0:1:2 0 EOF\n" * 100 + "2: FLOCK  ADVISORY  READ  7 0 0 1\n"
    )
    assert said({}) == []  # no signal is reserved for a timer
    (found,) = said({}, {**STATUS, "SigQ": "50000/96365"})
    assert found.startswith("what 50,000 POSIX timers keep")
    (root / "proc/locks").write_text("2: F A  READ 7 0 0 1\n" * 60_000)
    (found,) = said({})
    assert found.startswith("what 49,932 or more locks of files keep")
    line = "1234567: POSIX  ADVISORY  WRITE 7 fe:00:12345678 123456 123456\n"
    (root / "proc/locks").write_text(line * 300_000)  # as the kernel writes them
    (found,) = said({})
    assert found.startswith("what 16,6")
    assert found.endswith("or more locks of files keep in the kernel: /proc does not show it; "
                          "some 3.17 MiB or more")  # fmt: skip


@pytest.mark.parametrize(
    ("uid", "ctime_s", "nsems", "is_said"),
    [("0", 0, "300000", True), ("0", -3600, "300000", False), ("5", 0, "300000", False),
     ("0", 0, "200000", False), ("0", 0, "x", False)],
)  # fmt: skip
def test_semaphores_count_that_its_user_made_since_it_began(
    uid: str, ctime_s: int, nsems: str, is_said: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ["0", "1", "600", nsems, uid, uid, uid, uid, "0", str(int(time.time()) + ctime_s)]
    monkeypatch.setattr(sysvipc, "rows", lambda *_: [row, ["short"]])
    assert any("300,000 semaphores" in one for one in said({})) == is_said


def test_keys_are_those_of_its_user(root: Path) -> None:
    (root / "proc/key-users").write_text("   0:   9 9/9 9/1000000 20000000/25000000\n    5: x\n")
    (found,) = said({})
    assert found.startswith("what its keys keep in the kernel: ")
    assert said({}, {"Uid": "5\t5\t5\t5"}) == []


def test_secret_memory_is_at_most_what_its_file_says(root: Path) -> None:
    (root / "proc/7/fd/3").write_bytes(b"")
    os.truncate(root / "proc/7/fd/3", 32 << 20)
    (found,) = said({3: "/secretmem"})
    assert found.startswith("secret memory (memfd_secret) that it does not map: /proc does not")
    assert found.endswith("at most 32 MiB")
    assert said({3: "/srv/secretmem"}) == []
    (found,) = kernel_unshown.read(7, {3: "/secretmem"}, STATUS, 60.0, 16 << 20)
    assert found.endswith("at most 16 MiB")
    assert not [*kernel_unshown.read(7, {3: "/secretmem"}, STATUS, 60.0, 32 << 20)]
