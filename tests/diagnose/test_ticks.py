"""What is read at each tick of a look, and what ends it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memlab.diagnose import look
from memlab.diagnose import ticks as of_ticks
from memlab.diagnose.ticks import Ticks
from memlab.errors import NotBuilt
from memlab.files import folders


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def descriptor(opened: ExitStack, folder: Path, text: str) -> int:
    path = folder / str(len([*folder.iterdir()]))
    path.write_text(text)
    fd = os.open(path, os.O_RDONLY)
    opened.callback(os.close, fd)
    return fd


def test_a_text_is_asked_about_until_it_may_be_counted(tmp_path: Path, opened: ExitStack) -> None:
    plain, waits = (descriptor(opened, tmp_path, text) for text in ("do_wait", "folio_wait_bit"))
    asked: list[tuple[int, bytes]] = []

    def ask(place: int, text: bytes) -> bool:
        asked.append((place, text))
        return text == b"do_wait"

    ticks = Ticks()
    assert ticks.run(3, 0.0, [plain, waits, -1, plain, waits, plain], ask)
    assert asked == [(0, b"do_wait"), (1, b"folio_wait_bit"), (4, b"folio_wait_bit")]
    assert list(ticks.counted()) == [(b"do_wait", 2)]
    assert ticks.run(1, 0.0, [plain], ask)
    assert list(ticks.counted()) == [(b"do_wait", 3)]
    assert ticks.readings == []


def test_of_very_many_texts_the_last_are_always_asked_about(
    tmp_path: Path, opened: ExitStack
) -> None:
    texts = [f"waits_{i}" for i in range(70)]
    threads = [descriptor(opened, tmp_path, text) for text in texts]
    asked: list[bytes] = []

    def ask(_: int, text: bytes) -> bool:
        asked.append(text)
        return True

    ticks = Ticks()
    assert ticks.run(2, 0.0, [*threads, *threads], ask)
    assert asked == [text.encode() for text in (*texts, *texts[64:])]
    assert sum(count for _, count in ticks.counted()) == 64


def test_files_are_read_at_every_so_many_ticks(tmp_path: Path, opened: ExitStack) -> None:
    files = [descriptor(opened, tmp_path, "VmRSS: 1"), -1]
    ticks = Ticks(files, every=3)
    ticks.read()
    assert len(ticks.readings) == 1
    for _ in range(7):
        assert ticks.run(1, 0.0, [], lambda _, __: False)
    assert ticks.run(5, 0.0, [], lambda _, __: False)
    assert len(ticks.readings) == 1 + 12 // 3
    assert {*ticks.readings} == {(b"VmRSS: 1", None)}


def test_a_long_look_keeps_no_texts(tmp_path: Path, opened: ExitStack) -> None:
    texts: list[bytes | None] = []
    status = descriptor(opened, tmp_path, "VmRSS: 1")
    ticks = Ticks([status], take=lambda one: texts.extend(one))
    kept = []
    for _ in range(1000):
        assert ticks.run(8, 0.0, [], lambda _, __: False)
        kept.append(len(ticks.readings))
    assert max(kept) < 256
    ticks.hand_over()
    assert (texts, ticks.readings) == ([b"VmRSS: 1"] * 8000, [])


@pytest.mark.parametrize("groups", [0, 500, 3000, 65_536])
def test_what_a_look_needs_of_a_status_is_read_behind_any_number_of_groups(
    groups: int, tmp_path: Path, opened: ExitStack
) -> None:
    """As of users of a directory service, whose groups have numbers of ten digits."""
    before = "Name:\tapp\nState:\tS (sleeping)\nGroups:\t" + "2000100000 " * groups
    after = "\nVmPeak:\t9 kB\nVmSize:\t8 kB\nThreads:\t1\n"
    status = descriptor(opened, tmp_path, before + after)
    ticks = Ticks([status], begins=[look._before_memory(status)])
    ticks.read()
    (content,) = ticks.readings[0]
    assert look._STATUS.findall(content or b"") == [(b"VmSize", b"8"), (b"Threads", b"1")]


def test_without_the_library_of_this_version_it_is_said_what_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an editable install Python may be newer than what is compiled."""
    whole = folders.compiled()
    (other,) = whole.glob("_probes*.so")
    monkeypatch.setattr(folders, "compiled", lambda: tmp_path)
    (tmp_path / "launch").mkdir()
    for library, why in ((None, ".*No such file.*"), (other, ".*undefined symbol.*")):
        if library:
            (tmp_path / "launch/ticks.so").symlink_to(library)
        with pytest.raises(NotBuilt, match=f"ticks.so: {why}; `pip install .` in the checkout"):
            of_ticks.library.__wrapped__()
    monkeypatch.setattr(folders, "compiled", lambda: whole)
    assert of_ticks.library.__wrapped__()
    monkeypatch.setattr("memlab.diagnose.ticks._Ticks", ctypes.c_int)
    with pytest.raises(NotBuilt, match=r"ticks.so: it is of another version; `pip install .`"):
        of_ticks.library.__wrapped__()


def test_the_end_of_the_process_is_the_end() -> None:
    with subprocess.Popen(["sleep", "600"]) as process, ExitStack() as ends:
        ends.callback(process.kill)
        fd = os.pidfd_open(process.pid)
        ends.callback(os.close, fd)
        ticks = Ticks(pidfd=fd)
        assert ticks.run(1, 0.0, [], lambda _, __: False)
        process.kill()
        assert not ticks.run(1, 600.0, [], lambda _, __: False)


def test_a_signal_is_handled_during_a_wait() -> None:
    class Came(Exception):
        pass

    handled = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def came(*_: object) -> None:
        if not handled.is_set():
            handled.set()
            raise Came

    def send() -> None:
        while not handled.wait(0.01):
            signal.pthread_kill(main, signal.SIGUSR1)

    sender = threading.Thread(target=send)

    def wait() -> None:
        sender.start()
        Ticks().run(1, 600.0, [], lambda _, __: False)

    before = signal.signal(signal.SIGUSR1, came)
    try:
        with pytest.raises(Came):
            wait()
    finally:
        handled.set()  # else the signal would end this process
        sender.join()
        signal.signal(signal.SIGUSR1, before)
