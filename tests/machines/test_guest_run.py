"""A command in a guest: what it prints comes here as it is, and so does its exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import memlab
from test_guest_link import Beside

from memlab.errors import CannotRun
from memlab.machines.guest.machine import Ended
from memlab.machines.guest.running import follow


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    machine = Beside(tmp_path)
    yield machine
    machine.stop()


def ran(machine: Beside, *words: str) -> tuple[int, bytes, bytes]:
    printed: dict[str, list[bytes]] = {"out": [], "err": []}
    out, err = printed["out"].append, printed["err"].append
    code = follow(machine, 60, words, {"NO_COLOR": "1"}, out, err)
    return code, b"".join(printed["out"]), b"".join(printed["err"])


def test_a_command_prints_here_and_ends_with_its_own_code(beside: Beside) -> None:
    """One after another, and memlab is a program there."""
    assert ran(beside, "printf", "a\\377\\0b") == (0, b"a\xff\0b", b"")
    assert ran(beside, "sh", "-c", "echo no >&2; exit 7") == (7, b"", b"no\n")
    assert ran(beside, "sh", "-c", "kill -9 $$") == (137, b"", b"")
    assert ran(beside, "memlab", "--version")[:2] == (0, b"memlab, version 0.1.0\n")
    assert ran(beside, "sh", "-c", "echo $NO_COLOR; pwd") == (0, f"1\n{Path.cwd()}\n".encode(), b"")
    code, _, said = ran(beside, "no-such-program")
    assert (code, said) == (
        3,
        b"memlab: cannot start no-such-program in the guest: No such file or directory\n",
    )


def test_what_a_command_leaves_ends_with_it(beside: Beside) -> None:
    code, out, _ = ran(beside, "sh", "-c", "sleep 600 & echo $!")
    assert code == 0
    assert not Path(f"/proc/{int(out)}/exe").exists()


@pytest.mark.slow
def test_ctrl_c_ends_the_command(beside: Beside) -> None:
    """By the first line that it prints, so that it has begun."""

    def interrupt(piece: bytes) -> None:
        if piece.startswith(b"1"):
            signal.raise_signal(signal.SIGINT)

    words = [sys.executable, "-c", "print(1, flush=True); import time; time.sleep(600)"]
    assert follow(beside, 60, words, {}, interrupt, lambda _: None) == 130
    assert ran(beside, "true") == (0, b"", b"")


@pytest.mark.parametrize("note", [b"#1", b'#{"out":1}', b'#{"code":256,"said":""}', b"#{"])
def test_a_guest_that_lies(beside: Beside, note: bytes) -> None:
    beside.changed = lambda line: note if line.startswith(b'#{"code"') else line
    with pytest.raises(CannotRun, match="sent a note that says nothing"):
        ran(beside, "true")


def test_a_guest_that_goes_takes_the_command_with_it(beside: Beside) -> None:
    beside.left = 0
    with pytest.raises(CannotRun, match="kernel panic: Oops; the command went with it"):
        ran(beside, "true")
    assert isinstance(beside.gone, Ended)


@pytest.mark.slow
def test_memlab_looks_at_a_process_of_a_guest(guest_kernel: str) -> None:
    words = ["sh", "-c", "sleep 600 & memlab diagnose $! --seconds 1"]
    done = memlab("kernels", "run", guest_kernel, "--guest", "memory=512m", "--", *words)
    assert done.returncode == 0, done.stderr
    assert "(sleep) of root" in done.stdout
