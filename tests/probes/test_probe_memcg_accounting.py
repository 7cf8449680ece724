"""memcg_accounting: every row of the checks, in groups as a sweep makes them; and its steps against
plain processes that do the same."""

import ctypes
import errno
import json
import mmap
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import rows
from held import GROUPS, RUN, is_unavailable
from quick import mostly_slow

from memlab import probe
from memlab.experiment import Check, Step
from memlab.experiment.points import Point
from memlab.experiments import memcg_accounting as declared
from memlab.experiments.memcg_accounting import FIRST, SECOND, A, B
from memlab.observe import cgroup
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor
from memlab.run.journal import Journal
from memlab.run.trial_setup import TrialSetup

ROWS = {check.name: check for check in declared.CHECKS}
EXACT = [
    check for check in declared.CHECKS if check.name != "batch"
]  # which is of the kernel's age
VERSION = cgroup.locate().memory_version
FLUSHED_S = 60.0  # the kernel adds a group's counts up every 2 s, and later where it is busy


@pytest.fixture
def new_folder(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Makes a new group with the groups 0 and 1 inside, by what a sweep makes each trial's with."""
    if not GROUPS:
        pytest.skip("no memory cgroup can be made here")
    journal = Journal(RUN)
    setup = TrialSetup(declared.EXPERIMENT, journal, RUN, tmp_path)

    def new(check: str = "first_touch") -> Path:
        trial = setup.prepare({"check": check})
        setup.contained(trial)  # closes the descriptor of the group's peak
        assert trial.group
        return Path(trial.group["folder"])

    yield new
    journal.close()


@pytest.fixture
def folder(new_folder: Callable[..., Path]) -> Path:
    return new_folder()


def call(folder: Path, steps: list[Step]) -> dict[str, Any]:
    return probe.call("memcg_accounting", {"check_steps": steps, "group": str(folder)})


def result(folder: Path, check: Check) -> dict[str, Any]:
    if needs := set(declared.needs({"check": check.name})) - {f"memory cgroup v{VERSION}"}:
        if check.name == "swappiness":  # v2 has no such file, and reads no value
            pytest.skip(f"needs {needs}")
        with pytest.raises(probe.ProbeError, match="unavailable"):
            call(folder, list(check.steps))
        pytest.skip(f"needs {needs}")
    return call(folder, list(check.steps))


@pytest.mark.parametrize(
    "check", mostly_slow(EXACT, *map(ROWS.get, declared.OF_V2)), ids=lambda check: check.name
)
def test_a_row_holds_every_time(new_folder: Callable[..., Path], check: Check) -> None:
    """Changes that the kernel had not yet added up would show here. What the paper says of the
    release by the first, no kernel does. A process that was killed pays until whoever reads it
    (/proc/PID/status, say) lets go of its memory, so each call has a group of its own."""
    for _ in range(3):
        found = result(new_folder(check.name), check)
        wrong = rows.wrong(declared.EXPERIMENT, check, found)
        printed = [claim for claim in check.expected if claim.published == declared.RELEASE]
        assert wrong == printed, {name: found[name] for name in ("start", "before", "after")}


ADDR_NO_RANDOMIZE = 0x0040000  # linux/personality.h
IN_ANOTHER_PYTHON = """
import json, sys
import numpy
from memlab import probe
from memlab.experiments import memcg_accounting as declared
steps = list(next(check.steps for check in declared.CHECKS if check.name == "leader"))
found = probe.call("memcg_accounting", {"check_steps": steps, "group": sys.argv[1]})
print(json.dumps(found["after"]["first"]["own_pages"]))
"""


@pytest.mark.slow
@pytest.mark.needs("memory cgroup v1")
def test_where_the_stack_begins_changes_no_count(new_folder: Callable[..., Path]) -> None:
    """Where a worker needs one page of its stack more than it has touched before the start, that
    page is counted, or not, by the place of the stack in its page. After numpy is imported, to
    enter a group by a thread takes 16,944 bytes of stack; before that 14,512."""
    found = []
    for longer in range(0, mmap.PAGESIZE, 256):
        command = [sys.executable, "-c", IN_ANOTHER_PYTHON, str(new_folder("leader"))]
        environment = {**os.environ, "LONGER": "x" * longer}
        result = subprocess.run(
            command, env=environment, preexec_fn=keep_addresses, capture_output=True, check=True
        )
        found.append(json.loads(result.stdout))
    assert set(found) == {0}, found


def keep_addresses() -> None:
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def serve(pipe: Connection, group: Path, memory: mmap.mmap) -> None:
    """A process in a group that stores to pages, removes them, and unmaps the memory."""
    (group / "cgroup.procs").write_text("0")
    for name, first, count in iter(pipe.recv, None):
        if name == "unmap":
            memory.close()
        elif name == "remove":
            memory.madvise(mmap.MADV_REMOVE, first * mmap.PAGESIZE, count * mmap.PAGESIZE)
        else:
            for page in range(first, first + count):
                memory[page * mmap.PAGESIZE] = 1
        pipe.send("done")


def shared_pages(folder: Path, expected: list[int]) -> list[int]:
    """Of the groups 0 and 1, by memory.stat, once they are these or after a while."""
    deadline = time.monotonic() + FLUSHED_S
    while True:
        texts = [(folder / name / "memory.stat").read_text().split() for name in ("0", "1")]
        found = [int(text[text.index("shmem") + 1]) // mmap.PAGESIZE for text in texts]
        if found == expected or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


@pytest.mark.slow
def test_steps_are_charged_as_plain_processes_are(new_folder: Callable[..., Path]) -> None:
    """A probe that played other steps, or miscounted, would show here: 31 pages, 13 of them
    touched by A first, 7 of which B frees and touches anew when A has unmapped all."""
    folder = new_folder()
    fork, pipes, processes = multiprocessing.get_context("fork"), [], []
    with mmap.mmap(-1, 31 * mmap.PAGESIZE) as memory:
        for name in ("0", "1"):
            near, far = fork.Pipe()
            process = fork.Process(target=serve, args=(far, folder / name, memory), daemon=True)
            process.start()
            pipes.append(near)
            processes.append(process)

        def do(who: int, *step: Any) -> None:
            pipes[who].send(step)
            assert pipes[who].recv() == "done"

        do(0, "store", 0, 13)
        do(1, "store", 0, 31)
        touched = shared_pages(folder, [13, 18])
        do(0, "unmap", 0, 31)
        do(1, "remove", 0, 7)
        do(1, "store", 0, 7)
        freed = shared_pages(folder, [6, 25])
        for pipe, process in zip(pipes, processes, strict=True):
            pipe.send(None)
            process.join()
            process.close()
            pipe.close()
    start = [declared.start(A, FIRST), declared.start(B, SECOND)]
    store = [*start, declared.store_shared(A, 0, 13), declared.store_shared(B, 0, 31)]
    free = [declared.munmap_shared(A), declared.remove_shared(B, 0, 7)]
    for steps, expected in (
        (store, touched),
        ([*store, *free, declared.store_shared(B, 0, 7)], freed),
    ):
        after = call(new_folder(), steps)["after"]
        assert [after[name]["shared_pages"] for name in ("first", "second")] == expected
    assert (touched, freed) == ([13, 18], [6, 25])


def test_usage_rises_by_more_than_the_page(folder: Path) -> None:
    """MEMCG_CHARGE_BATCH: 64 pages, and 32 before 6.0."""
    found = result(folder, ROWS["batch"])
    assert found["batch_bytes"] in (32 * mmap.PAGESIZE, 64 * mmap.PAGESIZE)


def test_the_steps_and_the_counts_are_told(folder: Path) -> None:
    lines = declared.evidence(result(folder, ROWS["moved_touches"]), {}).splitlines()
    assert [line for line in lines if "memory.stat" not in line] == [
        "A starts in group 0",
        "A writes to private pages 0 to 22",
        "A moves to group 1",
        "A writes to private pages 23 to 29 = 0",
    ]
    of_second = [int(line.split()[-2]) for line in lines if "1, memory.stat" in line]
    assert of_second[2] - of_second[0] == 7


def test_nothing_is_left_in_the_groups(folder: Path) -> None:
    """A group beside them that a check made is removed, and no process stays."""
    result(folder, ROWS["group_removed"])
    inside = sorted(path for path in folder.rglob("*") if path.is_dir())
    assert [path.name for path in inside] == ["0", "1"]
    assert all(not (path / "cgroup.procs").read_text() for path in inside)


def test_without_a_group_there_is_nothing_to_look_at() -> None:
    with pytest.raises(probe.ProbeError, match="group must be the folder of a memory cgroup"):
        probe.call("memcg_accounting", {"check_steps": list(ROWS["moved"].steps), "group": ""})


def test_a_host_that_gives_no_group_gets_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an ordinary user finds it: every group's folder refuses to be written to."""

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Journal, "make_group", refuse)
    monkeypatch.setattr(Journal, "enable_memory", refuse)
    cpu = max(os.sched_getaffinity(0))
    with LocalExecutor(RUN, declared.EXPERIMENT, Directories(tmp_path), [cpu]) as opened:
        reply = opened.trial(Point(0, {"check": "moved"}, None))
    assert is_unavailable(reply, "a memory cgroup")
    if GROUPS:
        assert ": Permission denied: " in reply["detail"]
        assert reply["detail"].endswith(("run as root", "outside the container"))
