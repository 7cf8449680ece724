"""The replayer on traces made up record by record: every count is known."""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import needs
import pytest
import unprivileged

from memlab.experiment import tried as command
from memlab.trace import account, file

from .made import (
    ADVISE,
    AT,
    EXEC,
    EXIT,
    FORK,
    HAS_ALLOCATIONS,
    LOCK_ALL,
    MACHINE,
    PAGE,
    PRIVATE,
    PROTECT,
    READ,
    REMAP,
    SHARED,
    START,
    STATE_END,
    TASK,
    THP_DISABLE,
    THREAD,
    TIME,
    UNMAP,
    VFORK,
    WAS_CACHED,
    Made,
    limited_processes,
    replay,
)  # fmt: skip

pytestmark = pytest.mark.skipif(not MACHINE, reason="replays are of x86-64 and arm64")

MAPPED, TOUCHED, FREED, AGAIN, COPIED = 1009, 401, 97, 61, 83  # prime numbers of pages
HUGE = 2 << 20
DONTNEED, HUGEPAGE, NOHUGEPAGE = 4, 14, 15


def lockable() -> None:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if os.geteuid() and limit < 3 * MAPPED * PAGE:
        pytest.skip(f"RLIMIT_MEMLOCK is {limit} bytes: raise `ulimit -l` to 12,000")


def touching() -> Made:
    return Made().add(START).map(AT, MAPPED).touch(AT, TOUCHED)


def test_each_touch_is_a_fault_and_each_call_is_made(tmp_path: Path) -> None:
    made = touching().touch(AT, TOUCHED).add(UNMAP, AT, MAPPED * PAGE, 0)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.status, found.touches, found.calls) == (0, 2 * TOUCHED, 2)
    assert (found.faults, found.refused, found.passed) == (TOUCHED, 0, 0)


@pytest.mark.parametrize(
    ("lock", "faults"),
    [("off", TOUCHED), ("current", TOUCHED), ("future", MAPPED), ("future_onfault", TOUCHED)],
)
def test_a_lock_is_set_where_constructors_began(tmp_path: Path, lock: str, faults: int) -> None:
    lockable()
    assert replay(touching().write(tmp_path / "a.trace"), lock=lock).faults == faults


def test_what_was_there_before_is_locked_by_current_and_not_by_future_alone(tmp_path: Path) -> None:
    lockable()
    made = Made().map(AT, MAPPED).add(START).map(AT + HUGE * 8, COPIED)
    path = made.write(tmp_path / "a.trace")
    assert replay(path).faults == 0
    assert replay(path, lock="current").faults == MAPPED
    assert replay(path, lock="future").faults == MAPPED + COPIED
    assert replay(path, lock="future_onfault").faults == 0


def test_giving_back_locked_memory_is_refused_as_in_the_program(tmp_path: Path) -> None:
    lockable()
    made = touching().add(ADVISE, AT, FREED * PAGE, DONTNEED).touch(AT, AGAIN)
    path = made.write(tmp_path / "a.trace")
    found = replay(path)
    assert (found.faults, found.refused) == (TOUCHED + AGAIN, 0)
    found = replay(path, lock="future")
    assert (found.faults, found.refused) == (MAPPED, 1)


OF_FILE = 67  # windows of 16 pages, which a read of a file maps
IN_COMMON = 89


def everything() -> Made:
    """Pages touched, untouched, given back, copied after a fork, read through a file, and shared by
    two processes, in small pages; then three huge pages' worth for which these are asked."""
    memory, disk = (1 << 20, True, b"/memfd:x"), (16 * OF_FILE * PAGE, False, b"/x")
    shared, of_file, huge = AT + 4 * HUGE, AT + 8 * HUGE, AT + 16 * HUGE
    made = Made(tasks=2, files=[memory, disk]).add(START)
    made.map(AT, MAPPED).add(ADVISE, AT, MAPPED * PAGE, NOHUGEPAGE).touch(AT, TOUCHED)
    made.add(ADVISE, AT, FREED * PAGE, DONTNEED).touch(AT, AGAIN)
    made.map(shared, IN_COMMON, flags=SHARED, file=1).touch(shared, IN_COMMON)
    made.map(of_file, 16 * OF_FILE, flags=PRIVATE, rights=1, file=2)
    made.touch(of_file, OF_FILE, READ, step=16)
    made.number(TASK, 1, what=FORK).touch(AT + (TOUCHED - COPIED) * PAGE, COPIED, task=1)
    made.touch(shared, IN_COMMON, task=1).add(EXIT, task=1)
    made.map(huge, 3 * 512).add(ADVISE, huge, 3 * HUGE, HUGEPAGE)
    return made.touch(huge, 3 * 512)


@pytest.mark.parametrize("huge", [False, True], ids=["small", "huge"])
@pytest.mark.parametrize("lock", ["off", "current", "future", "future_onfault"])
def test_every_known_answer_under_every_lock(tmp_path: Path, lock: str, huge: bool) -> None:
    if lock != "off":
        needs.of("lock any amount")
    path = everything().write(tmp_path / "a.trace")
    found = replay(path, lock=lock, huge=huge)
    of_main = {
        "off": TOUCHED + AGAIN,
        "current": TOUCHED + AGAIN,  # it locks what was there before the first mapping
        "future": MAPPED,
        "future_onfault": TOUCHED,
    }[lock]
    small = of_main + OF_FILE + COPIED + 2 * IN_COMMON + 3 * 512
    assert (found.status, found.passed) == (0, 0)
    assert found.refused == (lock.startswith("future"))  # MADV_DONTNEED, of locked memory
    if huge:  # one fault in place of 512 where the host had a huge page to give
        assert found.faults <= small
        assert (small - found.faults) % 511 == 0
    else:
        assert found.faults == small
    counted = account.of(file.read(path))
    assert counted.writes["anonymous"] == TOUCHED + AGAIN + COPIED + 3 * 512
    assert (counted.reads["file"], counted.writes["shared"]) == (OF_FILE, 2 * IN_COMMON)
    assert counted.given_back["anonymous"] == FREED
    assert counted.touched_again["anonymous"] == AGAIN
    assert counted.copied["anonymous"] == COPIED
    assert counted.mapped_peak_bytes == (MAPPED + IN_COMMON + 16 * OF_FILE) * 2 * PAGE


def test_a_read_and_a_write_of_a_page_are_a_fault_each(tmp_path: Path) -> None:
    made = Made().map(AT, MAPPED).touch(AT, FREED, READ).touch(AT, COPIED)
    assert replay(made.write(tmp_path / "a.trace")).faults == FREED + COPIED


def test_a_fork_copies_what_either_writes(tmp_path: Path) -> None:
    made = Made(tasks=2).map(AT, MAPPED).touch(AT, TOUCHED).number(TASK, 1, what=FORK)
    made.touch(AT, COPIED, task=1).touch(AT, FREED).add(EXIT, task=1).add(EXIT)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.status, found.faults) == (0, TOUCHED + COPIED + FREED)


def test_a_forked_child_holds_no_lock(tmp_path: Path) -> None:
    lockable()
    made = Made(tasks=2).add(START).map(AT, COPIED).number(TASK, 1, what=FORK)
    made.map(AT + HUGE, FREED, task=1).touch(AT + HUGE, AGAIN, task=1)
    assert replay(made.write(tmp_path / "a.trace"), lock="future").faults == COPIED + AGAIN


@pytest.mark.parametrize("how", [THREAD, VFORK])
def test_threads_and_vforked_children_share_the_memory(tmp_path: Path, how: int) -> None:
    made = Made(tasks=2).map(AT, MAPPED).touch(AT, TOUCHED).number(TASK, 1, what=how)
    made.touch(AT, TOUCHED, task=1).touch(AT + TOUCHED * PAGE, FREED, task=1).add(EXIT, task=1)
    found = replay(made.touch(AT, TOUCHED + FREED).write(tmp_path / "a.trace"))
    assert (found.status, found.faults) == (0, TOUCHED + FREED)


def test_threads_go_on_where_the_first_has_ended(tmp_path: Path) -> None:
    made = Made(tasks=2).map(AT, MAPPED).touch(AT, TOUCHED).number(TASK, 1, what=THREAD).add(EXIT)
    made.touch(AT, TOUCHED + FREED, task=1)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.status, found.faults, found.passed) == (0, TOUCHED + FREED, 0)


def test_threads_of_two_processes_do_all_that_these_did(tmp_path: Path) -> None:
    """A thread forks, the child has a thread, and its first ends before it."""
    made = Made(tasks=5).map(AT, MAPPED).number(TASK, 1, what=THREAD).touch(AT, FREED, task=1)
    made.number(TASK, 2, task=1, what=FORK).number(TASK, 3, task=2, what=THREAD)
    made.touch(AT, COPIED, task=3).touch(AT + FREED * PAGE, AGAIN).touch(AT, COPIED, task=2)
    made.add(EXIT, task=1).add(EXIT, task=2).number(TASK, 4, what=FORK).add(EXIT, task=4)
    made.touch(AT + FREED * PAGE, AGAIN, task=3).add(EXIT, task=3).touch(AT, FREED)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.status, found.refused, found.passed) == (0, 0, 0)
    assert found.touches == 2 * (FREED + AGAIN + COPIED)
    assert found.faults == 2 * (FREED + AGAIN) + COPIED


def test_an_exec_has_memory_of_its_own(tmp_path: Path) -> None:
    made = Made(tasks=2).map(AT, MAPPED).touch(AT, TOUCHED).number(TASK, 1, what=VFORK)
    made.add(EXEC, task=1).map(AT, MAPPED, task=1).touch(AT, FREED, task=1).add(EXIT, task=1)
    made.touch(AT, TOUCHED).add(EXEC).map(AT, MAPPED).touch(AT, COPIED)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.status, found.faults, found.refused) == (0, TOUCHED + FREED + COPIED, 0)


def test_many_tasks_one_after_another(tmp_path: Path) -> None:
    number = 211
    made = Made(tasks=number + 1).map(AT, MAPPED).touch(AT, AGAIN)
    for task in range(1, number + 1):
        made.number(TASK, task, what=FORK).touch(AT, 3, task=task).add(EXIT, task=task)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.status, found.faults) == (0, AGAIN + 3 * number)


def test_shared_memory_stays_shared_and_a_file_is_made(tmp_path: Path) -> None:
    memory, disk = (64 << 20, True, b"/memfd:x"), (64 << 20, False, b"/no/such/file")
    made = Made(tasks=2, files=[memory, disk]).map(AT, MAPPED, flags=SHARED, file=1)
    made.touch(AT, TOUCHED).number(TASK, 1, what=FORK)
    # Not copied: the child's page tables alone are new, a page at a time where it writes.
    made.touch(AT, COPIED, task=1).touch(AT, TOUCHED)
    # A read maps what is in the page cache around it too, 16 pages: one fault each.
    other = AT + HUGE * 8
    made.map(other, 16 * FREED, flags=PRIVATE, rights=1, file=2).touch(other, FREED, READ, step=16)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.status, found.refused) == (0, 0)
    assert found.faults == TOUCHED + COPIED + FREED


def test_what_was_cached_is_mapped_as_a_program_is(tmp_path: Path) -> None:
    """64 KiB a fault. What is read in sequence has large folios, and Linux 6.18 maps all of one."""
    windows = 256
    made = Made(files=[(16 * windows * PAGE, WAS_CACHED, b"/usr/lib/x.so")])
    made.map(AT, 16 * windows, flags=PRIVATE, rights=1, file=1)
    path = made.touch(AT, windows, READ, step=16).write(tmp_path / "a.trace")
    with (tmp_path / "cached").open("w+b") as cached:
        subprocess.run([file.tool("cache"), path], stdout=cached, check=True)
    found = replay(path, f"cached={tmp_path}/cached")
    assert (found.status, found.touches, found.faults) == (0, windows, windows)


def test_the_same_memory_at_two_places_is_one(tmp_path: Path) -> None:
    files = [(1 << 20, True, b"/dev/shm/x")]
    made = Made(files=files).map(AT, COPIED, flags=SHARED, file=1).touch(AT, COPIED)
    made.map(AT + HUGE, COPIED, flags=SHARED, file=1).touch(AT + HUGE, COPIED)
    assert replay(made.write(tmp_path / "a.trace")).faults == 2 * COPIED


def test_a_mapping_is_moved_with_its_pages(tmp_path: Path) -> None:
    made = Made().map(AT, MAPPED).touch(AT, TOUCHED)
    made.add(REMAP, AT, MAPPED * PAGE, 2 * MAPPED * PAGE, AT + HUGE * 16, 0)
    made.touch(AT + HUGE * 16, TOUCHED + FREED)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.refused, found.faults) == (0, TOUCHED + FREED)


def test_a_touch_that_is_refused_is_passed_over(tmp_path: Path) -> None:
    made = Made().map(AT, MAPPED).add(PROTECT, AT, AGAIN * PAGE, 0)
    made.touch(AT, AGAIN).touch(AT, AGAIN, READ).touch(AT + AGAIN * PAGE, FREED)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.status, found.passed, found.faults) == (0, 2 * AGAIN, FREED)


def test_advice_that_takes_memory_from_the_machine_is_not_given(tmp_path: Path) -> None:
    made = touching()
    for advice in (100, 101):  # MADV_HWPOISON, MADV_SOFT_OFFLINE
        made.add(ADVISE, AT, PAGE, advice)
    found = replay(made.write(tmp_path / "a.trace"))
    assert (found.passed, found.calls, found.refused) == (2, 1, 0)


def test_huge_pages_are_those_of_the_mapping(tmp_path: Path) -> None:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[never]" in enabled.read_text():
        pytest.skip("transparent huge pages are off here")
    places = 3
    made = Made().map(AT, places * 512).add(ADVISE, AT, places * HUGE, HUGEPAGE)
    faults = replay(made.touch(AT, places * 512).write(tmp_path / "a.trace"), huge=True).faults
    # A huge page that was not to be had is 512 faults instead of one.
    assert (faults - places) % 511 == 0
    assert faults <= 512 * places
    small = Made().map(AT, places * 512).add(ADVISE, AT, places * HUGE, 15)  # MADV_NOHUGEPAGE
    assert replay(small.touch(AT, 512).write(tmp_path / "b.trace"), huge=True).faults == 512


def test_a_program_that_disables_huge_pages_does_so_in_the_replay(tmp_path: Path) -> None:
    made = Made().number(THP_DISABLE, 1).map(AT, 512).add(ADVISE, AT, HUGE, HUGEPAGE).touch(AT, 512)
    found = replay(made.write(tmp_path / "a.trace"), huge=True)
    assert (found.status, found.calls, found.faults) == (0, 3, 512)


def test_the_state_of_a_live_process_is_there_before_its_lock(tmp_path: Path) -> None:
    lockable()
    made = Made(flags=1).map(AT, MAPPED).touch(AT, TOUCHED).add(STATE_END)
    path = made.map(AT + HUGE * 8, FREED).write(tmp_path / "a.trace")
    assert replay(path).faults == TOUCHED
    assert replay(path, lock="current").faults == MAPPED
    assert replay(path, lock="future").faults == MAPPED + FREED


def test_a_lock_of_the_programs_own_is_repeated(tmp_path: Path) -> None:
    lockable()
    made = Made().map(AT, MAPPED).number(LOCK_ALL, 3).map(AT + HUGE * 8, FREED)
    assert replay(made.write(tmp_path / "a.trace")).faults == MAPPED + FREED


def test_recorded_times_are_kept(tmp_path: Path) -> None:
    made = Made().map(AT, MAPPED)
    made.number(1, 300_000_000).touch(AT, FREED)  # TIME
    path = made.write(tmp_path / "a.trace")
    before = time.monotonic()
    assert replay(path, "pace=recorded").faults == FREED
    assert time.monotonic() - before >= 0.3


@pytest.mark.parametrize(
    ("address", "pages"), [(0x2A0000000000, 1), (0x2A0040000000 - PAGE, 2), (AT, (1 << 46) // PAGE)]
)
def test_a_trace_that_needs_the_replayers_place_is_refused(
    tmp_path: Path, address: int, pages: int
) -> None:
    for kind in (UNMAP, ADVISE, PROTECT):
        made = Made().add(kind, address, pages * PAGE, DONTNEED)
        found = replay(made.write(tmp_path / "a.trace"))
        assert found.status == 1
        assert "where the replayer is" in found.said
        assert found.said.count("\n") == 1


def test_a_tebibyte_is_mapped_or_refused_and_nothing_is_left(tmp_path: Path) -> None:
    """Under a lock it would be brought in: see the trial of it in test_try.py."""
    made = Made().map(AT, (1 << 40) // PAGE).touch(AT, FREED)
    found = replay(made.write(tmp_path / "a.trace"))
    assert found.status == 0
    assert (found.refused, found.faults) in [(0, FREED), (1, 0)]


def test_a_replay_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    made = Made(tasks=3).map(AT, MAPPED).number(TASK, 1, what=FORK)
    made.number(TASK, 2, task=1, what=FORK).add(EXEC, task=2).map(AT, 1, task=2)
    made.number(TIME, 10**12, task=2).touch(AT, 1, task=2)
    path = made.write(tmp_path / "a.trace")
    with subprocess.Popen([file.tool("replay"), "pace=recorded", path]) as first:
        deadline, found = time.monotonic() + 300, [first.pid]
        while len(found) < 3:
            assert time.monotonic() < deadline
            found = below(first.pid)
        first.kill()
    while any(Path(f"/proc/{pid}").exists() for pid in found):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("order", ["order=recorded", "order=free"])
def test_a_replay_ends_if_a_process_of_it_has_failed(tmp_path: Path, order: str) -> None:
    """With its exit status: 121 says that a lock is refused."""
    made = Made(tasks=2).number(TASK, 1, what=FORK).map(AT, MAPPED, task=1).add(START, task=1)
    path = made.touch(AT, 1, task=1).map(AT, 1).write(tmp_path / "a.trace")
    limited = [*unprivileged.without_capabilities(), "prlimit", "--memlock=0"]
    done = subprocess.run(
        [*limited, file.tool("replay"), order, path],
        env={**os.environ, "MEMLAB_LOCK": "current"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (121, 1)
    assert "raise `ulimit -l`" in done.stderr


def test_a_killed_process_is_not_hidden_by_one_that_ended_before(tmp_path: Path) -> None:
    made = Made(tasks=3).number(TASK, 1, what=FORK).number(TASK, 2, what=FORK).add(EXIT, task=1)
    path = made.number(TIME, 10**12, task=2).map(AT, 1, task=2).write(tmp_path / "a.trace")
    replayer = [file.tool("replay"), "pace=recorded", path]
    deadline, states = time.monotonic() + 300, []
    with subprocess.Popen(replayer, stderr=subprocess.PIPE, text=True) as first:
        while sorted(states) != ["S", "Z"]:
            assert time.monotonic() < deadline
            children = below(first.pid)[1:]
            stats = [Path(f"/proc/{pid}/stat").read_text() for pid in children]
            states = [stat.rpartition(") ")[2][0] for stat in stats]
        os.kill(children[states.index("S")], signal.SIGKILL)
        with killed_at_last(first):
            _, said = first.communicate(timeout=300)
    assert (first.returncode, said) == (1, "memlab: a process of the trace was killed\n")


@contextmanager
def killed_at_last(process: subprocess.Popen[str]) -> Iterator[None]:
    """Or a test of one that does not end would not end either."""
    try:
        yield
    finally:
        process.kill()


def below(pid: int) -> list[int]:
    """A process and those that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in below(int(child)))]


def test_the_subject_of_a_trial_is_the_replayer(tmp_path: Path) -> None:
    made = command.declare(
        {"argv": ["a.trace"], "cwd": str(tmp_path), "levels": {"lock": ["off", "future"]},
         "trace": "a.trace"}
    )  # fmt: skip
    host = dict.fromkeys(("group", "processes"), "") | {"mark": "MARK=1"}
    host |= {"copy": "/proc/7/fd/9", "beside": "/proc/7/fd/10"}
    spec = made.params({"lock": "future"}, host)["spec"]
    assert file.tool("replay") in spec
    assert '"cached=/proc/7/fd/10", "/proc/7/fd/9"' in spec
    assert '"preload": []' in spec
    assert made.question == "What would other memory policies do to a.trace?"


OWN_PAGES, TASKS = 61, 7


def beside(kind: int) -> Made:
    """Tasks that have memory of their own, and touch what the first has touched before them."""
    made = Made(tasks=TASKS + 1).map(AT, MAPPED).touch(AT, FREED)
    for task in range(1, TASKS + 1):
        made.number(TASK, task, what=kind)
    for turn in range(OWN_PAGES):
        for task in range(1, TASKS + 1):
            place = AT + task * 8 * HUGE
            if not turn:
                made.map(place, OWN_PAGES, task=task)
            made.touch(place + turn * PAGE, 1, task=task).touch(AT, 1, READ, task=task)
    for task in range(1, TASKS + 1):
        made.add(EXIT, task=task)
    return made.touch(AT, FREED + AGAIN)


@pytest.mark.parametrize("kind", [FORK, THREAD, VFORK])
def test_free_tasks_do_all_that_is_theirs(tmp_path: Path, kind: int) -> None:
    path = beside(kind).write(tmp_path / "a.trace")
    for words in ([], ["order=free"], ["order=free", "pace=recorded"]):
        found = replay(path, *words)
        assert (found.status, found.refused, found.passed) == (0, 0, 0)
        assert found.touches == 2 * FREED + AGAIN + 2 * TASKS * OWN_PAGES
        if kind != FORK:  # there a page is copied where it is still common
            assert found.faults == FREED + AGAIN + TASKS * OWN_PAGES


def test_free_threads_begin_where_a_live_process_had_its_state(tmp_path: Path) -> None:
    made = Made(tasks=3, flags=1).number(TASK, 1, what=THREAD).number(TASK, 2, what=THREAD)
    made.map(AT, MAPPED).touch(AT, TOUCHED).add(STATE_END)
    made.touch(AT, TOUCHED, READ, task=1).touch(AT, TOUCHED, READ, task=2)
    found = replay(made.write(tmp_path / "a.trace"), "order=free")
    assert (found.status, found.faults, found.passed) == (0, TOUCHED, 0)


def test_free_tasks_are_refused_touches_each_for_itself(tmp_path: Path) -> None:
    """Signals of threads at the same time, each on a stack of its own."""
    made = Made(tasks=TASKS + 1).map(AT, MAPPED, rights=0)
    for task in range(1, TASKS + 1):
        made.number(TASK, task, what=THREAD)
    for task in range(1, TASKS + 1):
        made.touch(AT, MAPPED, task=task)
    found = replay(made.write(tmp_path / "a.trace"), "order=free")
    assert (found.status, found.passed, found.faults) == (0, TASKS * MAPPED, 0)


def test_an_exec_of_a_free_task_waits_for_the_threads_of_its_process(tmp_path: Path) -> None:
    made = Made(tasks=3).map(AT, MAPPED).number(TASK, 1, what=FORK)
    made.number(TASK, 2, task=1, what=THREAD).touch(AT, TOUCHED, task=2).add(EXIT, task=2)
    made.add(EXEC, task=1).map(AT, MAPPED, task=1).touch(AT, FREED, task=1).add(EXIT, task=1)
    found = replay(
        made.touch(AT + TOUCHED * PAGE, COPIED).write(tmp_path / "a.trace"), "order=free"
    )
    assert (found.status, found.touches) == (0, TOUCHED + FREED + COPIED)
    assert (found.faults, found.passed) == (TOUCHED + FREED + COPIED, 0)


@pytest.mark.parametrize(
    "words", [[], ["order=free", "pace=recorded"], None], ids=["turns", "free", "malloc"]
)
def test_more_processes_than_are_allowed_are_a_line(
    tmp_path: Path, words: list[str] | None
) -> None:
    made = Made(tasks=TASKS + 1, flags=HAS_ALLOCATIONS).map(AT, MAPPED)
    for task in range(1, TASKS + 1):
        made.number(TASK, task, what=FORK)
    made.number(TIME, 10**9).touch(AT, TOUCHED)
    for task in range(1, TASKS + 1):
        made.touch(AT, FREED, task=task)
    path = made.write(tmp_path / "a.trace")
    tool = [file.tool("replay"), *words] if words is not None else [file.tool("allocate")]
    with limited_processes(TASKS - 2) as enter:
        done = subprocess.run(
            [*enter, *tool, str(path)], capture_output=True, text=True, timeout=300, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"number {TASKS - 2} of {TASKS} could not begin" in done.stderr
