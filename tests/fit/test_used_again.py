"""Which memory a program uses again, read beside it: of programs of which it is known."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE

import pytest

from memlab.command import used_pages as used_again
from memlab.command.used_pages import UsedPages, Window, _reused
from memlab.observe import proc, used_pages
from memlab.observe.used_pages import UsedMemory

MIB = 1 << 20
SOURCE = Path(__file__).with_name("known.c")
FOREVER = "1000000000"
OWN_MIB = 1.5
WITHIN_S = 300.0


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known")
    subprocess.run(["gcc", "-O1", "-o", folder / "known", SOURCE], check=True)
    (folder / "file").write_bytes(os.urandom(12 * MIB))
    return folder


def test_what_is_used_again_is_what_was_touched(known: Path) -> None:
    """In step with the program, which touches no page between."""
    words = ["./known", "steps", "file", "30", "7", "5"]
    with subprocess.Popen(words, cwd=known, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin
        assert process.stdout
        pid = process.pid
        for mib in ((7, 5), (0, 0)):
            assert process.stdout.read(1)
            used_pages.clear(pid)
            before = {pid: used_pages.read(pid)}
            if any(mib):
                process.stdin.write(b"x")
                process.stdin.flush()
                assert process.stdout.peek(1)
            now = {pid: used_pages.read(pid)}
            for kind, touched in enumerate(mib):
                reused, _ = _reused(before, now, kind)
                assert touched * MIB <= reused <= (touched + OWN_MIB) * MIB
        process.kill()


def _most(windows: Sequence[Window]) -> int:
    """The most anonymous memory that was used again in one of them."""
    return max(anonymous for _, anonymous, *_ in windows)


def test_windows_are_read_beside_a_program_that_runs_on(known: Path) -> None:
    """How much of a window it ran is not known: it may have used less than it would."""
    words = ["./known", "hot", "30", "7", FOREVER]
    with subprocess.Popen(words, cwd=known) as process:
        while (proc.status_bytes(proc.status(process.pid), "RssAnon") or 0) < 30 * MIB:
            time.sleep(0.01)
        used = UsedPages(lambda: [process.pid])
        used.start()
        until_s = time.monotonic() + WITHIN_S
        while not any(map(_most, used.readings()["episodes"])) and time.monotonic() < until_s:
            time.sleep(0.01)
        used.stop()
        process.kill()
    found = used.readings()
    assert found["why"] == ""
    for windows in found["episodes"]:
        for _, anonymous, resident, *_ in windows:
            assert 0 <= anonymous <= (7 + OWN_MIB) * MIB
            assert 30 * MIB <= resident <= (30 + OWN_MIB) * MIB
    assert any(map(_most, found["episodes"]))


def test_what_is_touched_first_is_not_used_again() -> None:
    before = {7: (UsedMemory(40, 0, 40), UsedMemory(10, 0, 10))}
    now = {
        7: (UsedMemory(90, 85, 57), UsedMemory(8, 8, 4)),  # 50 are new; 2 were given back
        8: (UsedMemory(60, 20, 20), UsedMemory(1, 1, 1)),  # has begun since
    }
    assert _reused(before, now, 0) == (7, 105)
    assert _reused(before, now, 1) == (4, 9)


def test_windows_stay_short_until_the_command_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """An episode that begins with it takes all that it touches for new, so the next one is to come
    while it still runs."""
    lengths_s: list[float] = []

    class Noted(UsedPages):
        def _has_read_episode(self, episode_s: float) -> bool:
            lengths_s.append(episode_s)
            return super()._has_read_episode(episode_s)

        def _memory(self) -> dict[int, used_again.Memory]:
            return {1: (UsedMemory(8, 8, 8), UsedMemory())} if len(lengths_s) > 4 else {}

    used = Noted(list)
    monkeypatch.setattr(used._stopped, "wait", lambda _: len(lengths_s) == 7)
    used._read()
    assert lengths_s == [0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.4]


def test_a_program_that_has_ended_has_no_windows() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    used = UsedPages(lambda: [process.pid])
    used.start()
    used.stop()
    assert used.readings() == {"episodes": [], "why": ""}
