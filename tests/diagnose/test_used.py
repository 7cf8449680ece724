"""What a process used of its memory in a window: of programs of which it is known."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from memlab.diagnose import diagnosis, used
from memlab.errors import CannotLook

from .live import Compiled, running
from .looks import MiB

HELD_MIB = 40


@pytest.mark.seconds
@pytest.mark.parametrize("mib", [0, 17, HELD_MIB])
def test_what_is_used_is_told_from_what_is_held(mib: int, binary: Compiled) -> None:
    with running(binary("part_used"), str(HELD_MIB), str(mib)) as process:
        found = diagnosis.of(process.pid, 1.0, tracks_use=True).used
    assert found
    largest = found.mappings[0]
    assert largest.resident_bytes == HELD_MIB * MiB
    assert mib * MiB <= largest.used_bytes <= mib * MiB + 64 * 1024 or found.at_least
    assert found.seconds == found.windows[-1].seconds >= 1.0
    assert found.used_bytes == found.windows[-1].used_bytes <= found.resident_bytes
    assert all(a.seconds < b.seconds for a, b in pairwise(found.windows))


@pytest.mark.seconds
def test_the_price_is_said_before_and_the_answer_once(binary: Compiled) -> None:
    with running(binary("part_used"), str(HELD_MIB), "17") as process:
        words = [sys.executable, "-m", "memlab", "diagnose", str(process.pid), "--used", "1s"]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=300)
        told = subprocess.run([*words, "--json"], capture_output=True, text=True, timeout=300)
    assert shown.stderr.startswith("memlab: --used clears the accessed bits of ")
    # A busy host ends the window late, and the line has its length as it was.
    assert len(re.findall(r"used in the last [\d.]+ s: ", shown.stdout)) == 1
    assert re.search(r" of +40 MiB  anonymous at ", shown.stdout)
    assert json.loads(told.stdout)["used"]["mappings"][0]["resident_bytes"] == HELD_MIB * MiB


def test_bits_that_may_not_be_cleared_are_a_line() -> None:
    tracker = used.Tracker(2**22 + 1, 1.0)
    with pytest.raises(CannotLook, match=r"may not be cleared .*: run as root"), tracker.running():
        pass


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--group", "self", "--used", "1s"], "--used reads a process"),
        (["1", "--used", "1s", "--watch", "end"], "without --watch"),
        (["1", "--used", "1s", "--seconds", "3"], "leave one out"),
        (["1", "--used", "0"], "'0' is not a time"),
    ],
)
def test_a_wrong_argument_is_one_line(words: list[str], said: str) -> None:
    command = [sys.executable, "-m", "memlab", "diagnose", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
