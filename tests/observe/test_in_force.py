"""What was asked of a process is watched while it runs: its lock, its group, its CPUs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlab.observe import cgroup, proc
from memlab.observe.in_force import InForce

MIB = 1 << 20
HELD = {b"VmRSS": 100 * MIB, b"VmLck": 120 * MIB}
BARE = {b"VmRSS": 100 * MIB, b"VmLck": 0}
PART = {b"VmRSS": 100 * MIB, b"VmLck": 30 * MIB}


SMALL = {b"VmRSS": 1 * MIB, b"VmLck": 0}  # a child of fork(2), which has no lock of its own


def seen(lock: str, *readings: dict[bytes, int], child: dict[bytes, int] = SMALL) -> str:
    held = InForce(lock)
    for reading in readings:
        held.look({7: reading, 8: child})
    return held.why


@pytest.mark.parametrize(
    ("lock", "readings", "is_covered"),
    [
        ("future", [HELD] * 9, True),  # too few to say it
        ("future", [BARE] * 50 + [HELD] * 9, True),  # nor are those before the lock
        ("future", [HELD] * 10, False),
        ("future_onfault", [HELD] * 10, False),
        ("current", [HELD] * 10, True),
    ],
)
def test_a_lock_that_covers_less_than_half_is_seen(
    lock: str, readings: list[dict[bytes, int]], is_covered: bool
) -> None:
    """A shell has its lock, and the static program that it starts has none."""
    static = {b"VmRSS": 150 * MIB, b"VmLck": 0}
    said = "40 % of the resident memory was locked: process 8 had 153600 KiB without a lock"
    assert seen(lock, *readings, child=static).startswith(said) is not is_covered


@pytest.mark.parametrize(
    ("lock", "readings", "undone"),
    [
        ("future", [BARE] * 5 + [HELD] * 50, False),
        ("future", ([HELD] * 15 + [BARE] * 9) * 2, False),  # execve(2)
        ("future", [HELD] + [{}] * 20, False),  # it has ended
        ("future", [BARE] * 50, False),  # never locked: said in other words
        ("future", [HELD] * 5 + [BARE] * 10, True),
        ("future_onfault", [HELD] + [PART] * 10 + [HELD], True),
        ("current", [HELD] + [PART] * 50, False),  # what came later is not locked
        ("current", [HELD] + [BARE] * 10, True),
        ("", [HELD] + [BARE] * 50, False),
    ],
)
def test_a_lock_that_the_program_undid_is_seen(
    lock: str, readings: list[dict[bytes, int]], undone: bool
) -> None:
    why = seen(lock, *readings)
    assert bool(why) is undone
    if undone:
        locked = min(reading[b"VmLck"] for reading in readings) >> 10
        assert f"process 7 had {locked} of 102400 KiB resident locked" in why


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def test_a_process_outside_of_its_group_is_seen(sleeper: int) -> None:
    groups = cgroup.locate()
    if groups.memory_dir is None or groups.memory_dir == groups.memory_mount:
        pytest.skip("needs a memory cgroup that is not the top one")
    inside, outside = InForce(group=str(groups.memory_dir)), InForce(group="/x/memlab-0123abcd")
    for _ in range(10):
        for held in (inside, outside):
            held.look({sleeper: BARE})
    assert inside.why == ""
    assert outside.why.startswith(f"the limit was left: process {sleeper} was in the cgroup /")


@pytest.mark.parametrize(("flags", "left"), [(0x400040, True), (0x400044, False)])
def test_a_process_that_is_exiting_has_not_left_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, left: bool
) -> None:
    """cgroup v1 says "/" of a process with PF_EXITING (0x4) that may hold its memory for long."""
    monkeypatch.setattr(proc, "ROOT", tmp_path)
    folder = tmp_path / "proc/7"
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text("4:memory:/\n0::/\n")
    (folder / "stat").write_text(f"7 (a b) D 1 7 7 0 -1 {flags} {'0 ' * 40}\n")
    held = InForce(group="/x/memlab-0123abcd")
    for _ in range(10):
        held.look({7: BARE})
    said = "the limit was left: process 7 was in the cgroup / in 10 readings in a row"
    assert held.why == (said if left else "")


def test_a_mask_that_was_widened_is_seen_and_one_that_was_narrowed_is_not(sleeper: int) -> None:
    own = os.sched_getaffinity(0)
    if len(own) < 2:
        pytest.skip("needs two CPUs")
    wide, narrow = InForce(cpus=frozenset(own)), InForce(cpus=frozenset({min(own)}))
    os.sched_setaffinity(sleeper, {max(own)})
    for _ in range(10):
        for held in (wide, narrow):
            held.look({sleeper: BARE})
    assert wide.why == ""
    assert narrow.why == (
        f"the CPU mask was changed: process {sleeper} might run on CPU {max(own)} in 10 readings "
        "in a row"
    )
