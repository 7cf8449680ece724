"""What a trace's program had of memory: made up traces, in the order in which the kernel counts."""

from pathlib import Path

import pytest

from memlab.errors import BadLevels
from memlab.trace import account, file, recording, shown
from memlab.trace import replay as replaying

from .made import (
    ADVISE,
    ANONYMOUS,
    AT,
    EXEC,
    EXIT,
    FORK,
    LOCK,
    LOCK_ALL,
    MAP,
    PAGE,
    PRIVATE,
    READ,
    REMAP,
    SHARED,
    START,
    TASK,
    UNMAP,
    VFORK,
    Made,
    replay,
)

pytestmark = pytest.mark.needs("traces")

FAR = AT + (1 << 30)
FREE, REMOVE, DONTFORK, WIPEONFORK = 8, 9, 10, 18  # madvise(2)
DONTUNMAP, STACK = 4, 3  # mremap(2); enum trace_what
DISK, MEMORY = (1 << 30, False, b"/x"), (1 << 30, True, b"/memfd:x")


def counted(made: Made, folder: Path) -> account.TraceAccount:
    return account.of(file.read(made.write(folder / "a.trace")))


@pytest.mark.parametrize("of_file", [0, 1])
def test_shared_memory_counts_once_however_many_have_it(of_file: int, tmp_path: Path) -> None:
    """A write after a fork copies none of it, and it lies at another place of each process."""
    flags = SHARED if of_file else SHARED | ANONYMOUS
    made = Made(tasks=2, files=[MEMORY]).map(AT, 500, flags=flags, file=of_file).touch(AT, 101)
    made.number(TASK, 1, what=FORK).touch(AT + 31 * PAGE, 97, task=1).touch(AT + 101 * PAGE, 7)
    made.add(REMAP, AT, 500 * PAGE, 500 * PAGE, FAR, 0, task=1).touch(FAR, 11, task=1)
    found = counted(made, tmp_path)
    assert (found.copied["shared"], found.peak["shared"], found.peak_pages) == (0, 128, 128)
    assert [(one.anonymous, one.files) for one in found.by_process] == [(0, 108), (0, 97 + 11)]
    assert found.touched_pages == 101 + 97 + 7 + 11
    made.add(EXIT, task=1).map(2 * FAR, 100).touch(2 * FAR, 61)
    assert counted(made, tmp_path).peak_pages == 128 + 61  # what only the child touched stays


def test_pages_of_two_mappings_of_one_file_are_its_pages(tmp_path: Path) -> None:
    made = Made(files=[MEMORY]).map(AT, 100, flags=SHARED, file=1)
    made.map(FAR, 100, flags=SHARED, file=1, offset=50 * PAGE).touch(AT, 61).touch(FAR, 23)
    made.add(UNMAP, AT, 100 * PAGE).touch(FAR + 23 * PAGE, 7)
    found = counted(made, tmp_path)
    assert found.peak["shared"] == 50 + 23 + 7
    assert found.given_back["shared"] == 61  # by the process: they stay while any is mapped
    made.add(ADVISE, FAR, 20 * PAGE, REMOVE).add(UNMAP, FAR, 100 * PAGE)
    made.map(AT, 100).touch(AT, 79)
    assert counted(made, tmp_path).peak_pages == 80
    made.touch(AT + 79 * PAGE, 2)
    assert counted(made, tmp_path).peak_pages == 81


def test_whichever_process_writes_first_after_a_fork_copies(tmp_path: Path) -> None:
    """The parent 13 pages, which the child then has alone; the child 7 of others and 5 of these; a
    grandchild has what it met. Each page that is left to one process is written without a copy."""
    made = Made(tasks=3).map(AT, 500).touch(AT, 101).number(TASK, 1, what=FORK)
    made.touch(AT, 13).touch(AT + 8 * PAGE, 12, task=1)
    assert counted(made, tmp_path).copied["anonymous"] == 13 + 7
    assert counted(made, tmp_path).peak_pages == 101 + 13 + 7
    made.number(TASK, 2, task=1, what=FORK).touch(AT + 50 * PAGE, 3, task=2)
    made.add(EXIT, task=1).touch(AT + 8 * PAGE, 12, task=2).touch(AT + 20 * PAGE, 17)
    found = counted(made, tmp_path)
    assert found.copied["anonymous"] == 13 + 7 + 3 + 17
    assert found.peak_pages == 101 + 13 + 7 + 3 + 17
    assert {one.anonymous for one in found.by_process} == {101}


def test_a_page_that_a_fork_has_made_common_may_be_moved(tmp_path: Path) -> None:
    made = Made(tasks=2).map(AT, 500).touch(AT, 101).number(TASK, 1, what=FORK)
    made.add(REMAP, AT, 500 * PAGE, 600 * PAGE, FAR + 77 * PAGE, 0).touch(FAR + 77 * PAGE, 19)
    made.touch(AT + 10 * PAGE, 13, task=1).add(UNMAP, FAR, 700 * PAGE)
    found = counted(made, tmp_path)
    assert found.copied["anonymous"] == 19 + 4  # nine of the child's are its own by then
    assert found.peak_pages == 101 + 19 + 4
    assert found.given_back["anonymous"] == 101


def test_pages_of_a_file_count_once_and_a_written_one_is_a_copy(tmp_path: Path) -> None:
    made = Made(tasks=2, files=[DISK]).map(AT, 100, file=1, flags=PRIVATE).touch(AT, 61, READ)
    made.touch(AT, 5).number(TASK, 1, what=FORK).touch(AT, 40, READ, task=1)
    found = counted(made, tmp_path)
    assert (found.peak["file"], found.peak_pages) == (61, 61)
    assert [(one.anonymous, one.files) for one in found.by_process] == [(0, 61), (5, 35)]
    made.touch(AT, 3, task=1).touch(AT + 10 * PAGE, 7, task=1)
    found = counted(made, tmp_path)
    assert (found.peak["file"], found.copied["file"]) == (61 + 3 + 7, 3)


def test_the_page_of_zeros_is_nobodys(tmp_path: Path) -> None:
    made = Made().map(AT, 100).touch(AT, 61, READ).touch(AT, 13)
    found = counted(made, tmp_path)
    assert (found.peak_pages, found.memory_pages) == (13, 13)
    assert (found.reads["anonymous"], found.writes["anonymous"]) == (61, 13)


def test_what_madv_free_offers_stays(tmp_path: Path) -> None:
    """A write to it again has no fault, so nothing tells of it."""
    made = Made().map(AT, 100).touch(AT, 61).add(ADVISE, AT + 50 * PAGE, 50 * PAGE, FREE)
    made.map(FAR, 100).touch(FAR, 7)
    path = made.write(tmp_path / "a.trace")
    trace, found = file.read(path), counted(made, tmp_path)
    assert (found.peak_pages, found.offered_pages) == (68, 11)
    assert found.given_back["anonymous"] == 0
    assert "offered 44 KiB by MADV_FREE" in "\n".join(shown.lines(trace, found))


def test_a_mapping_whose_pages_are_moved_may_stay(tmp_path: Path) -> None:
    made = Made().map(AT, 100).touch(AT, 61)
    made.add(REMAP, AT, 100 * PAGE, 100 * PAGE, FAR, DONTUNMAP).touch(AT, 7)
    found = counted(made, tmp_path)
    assert (found.outside, found.peak_pages, found.mapped_peak_bytes) == (0, 68, 200 * PAGE)


@pytest.mark.parametrize(
    ("advice", "has", "outside"), [(DONTFORK, 101, 3), (WIPEONFORK, 101, 0), (0, 124, 0)]
)
def test_what_a_fork_leaves_out_is_not_the_childs(
    advice: int, has: int, outside: int, tmp_path: Path
) -> None:
    made = Made(tasks=2).map(AT, 101).touch(AT, 101).map(FAR, 50).touch(FAR, 23)
    made.add(ADVISE, FAR + 2 * PAGE, 48 * PAGE, advice or DONTFORK)
    if not advice:
        made.add(ADVISE, FAR, 50 * PAGE, DONTFORK + 1)
    made.number(TASK, 1, what=FORK).touch(FAR + 2 * PAGE, 3, READ, task=1)
    found = counted(made, tmp_path)
    assert [one.anonymous for one in found.by_process] == [124, has + (2 if advice else 0)]
    assert found.outside == outside


def test_the_memory_of_a_vforked_child_is_its_parents(tmp_path: Path) -> None:
    made = Made(tasks=2).map(AT, 500).touch(AT, 401).number(TASK, 1, what=VFORK)
    made.touch(AT + 401 * PAGE, 3, task=1).add(EXEC, task=1)
    made.map(AT, 50, task=1).touch(AT, 7, task=1).add(EXIT, task=1)
    found = counted(made, tmp_path)
    assert [(one.task, one.anonymous) for one in found.by_process] == [(0, 404), (1, 7)]


def test_a_replay_locks_each_program_that_preloads_nothing(tmp_path: Path) -> None:
    """At its stack's mapping. A child of a fork has no lock, as of mlockall(2)."""
    rights = 3 | (PRIVATE | ANONYMOUS) << 32
    made = Made(tasks=3).add(MAP, AT, 9 * PAGE, rights, 0, 0, what=STACK).map(FAR, 401)
    made.touch(FAR, 31).number(TASK, 1, what=FORK).map(2 * FAR, 211, task=1)
    made.touch(2 * FAR, 5, task=1).add(EXIT, task=1).number(TASK, 2, what=FORK).add(EXEC, task=2)
    made.add(MAP, AT, 7 * PAGE, rights, 0, 0, task=2, what=STACK).map(FAR, 307, task=2)
    path = made.touch(FAR, 13, task=2).write(tmp_path / "a.trace")
    found = account.of(file.read(path))
    assert (found.lockable_pages, found.touched_pages) == (31 + 13, 31 + 5 + 13)
    plain, locked = replay(path), replay(path, lock="future")
    assert plain.faults == 31 + 5 + 13
    assert locked.faults == (9 + 401) + 5 + (7 + 307)
    made.add(START)
    path = made.write(tmp_path / "b.trace")
    # Also of the 31 pages that a fork has protected.
    assert replay(path, lock="future").faults == plain.faults + 9 + 401


@pytest.mark.parametrize(
    ("locked", "all_of_it", "most"), [(9, False, ""), (10, False, "50 %"), (9, True, "100 %")]
)
def test_pages_of_its_own_calls_may_be_faults_that_are_not_missing(
    locked: int, all_of_it: bool, most: str, tmp_path: Path
) -> None:
    """wait4(2) counts a fault for each page that mlock(2) brings in, and a trace has none."""
    made = Made().add(START).map(AT, 100).touch(AT, 40).add(LOCK, AT + 50 * PAGE, locked * PAGE)
    if all_of_it:
        made.number(LOCK_ALL, 2)
    path = tmp_path / "a.trace"
    path.write_bytes(made.bytes(unfollowed=1, faults=100))
    said = "\n".join(shown.lines(file.read(path), account.of(file.read(path))))
    asked = {"lock": ["off", "future"]}
    assert ("try -p lock=off,future" in said) == bool(most)
    if most:
        clause = f"40 % to {most} of the program's page faults are in the trace"
        assert clause in said
        assert clause in replaying.checked([path], asked, serve=[], metrics=[])
    else:
        with pytest.raises(BadLevels, match=r"40 % to 49 % of the program's page faults .*, under"):
            replaying.checked([path], asked, serve=[], metrics=[])


def test_of_a_running_process_it_is_said_that_the_share_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    made = Made().add(START).map(AT, 100).touch(AT, 40)
    path.write_bytes(made.bytes(unfollowed=1, faults=0))
    said = replaying.checked([path], {"lock": ["off", "future"]}, serve=[], metrics=[])
    assert "how much of the program is not in the trace is not known" in said


def test_faults_that_nobody_waits_for_are_not_of_the_command(tmp_path: Path) -> None:
    """Nor are they to wait4(2): those of a process that outlives its parent."""
    made = Made(tasks=5).map(AT, 500).touch(AT, 7).number(TASK, 1, what=FORK)
    made.number(TASK, 2, what=FORK).touch(AT, 11, task=1).number(TASK, 3, task=1, what=FORK)
    made.touch(AT, 101, task=3).number(TASK, 4, task=2, what=FORK).touch(AT, 31, task=4)
    made.add(EXIT, task=4).touch(AT, 61, task=2).add(EXIT, task=1).add(EXIT, task=3)
    made.add(EXIT, task=2).add(EXIT)
    path = tmp_path / "a.trace"
    path.write_bytes(made.bytes(unfollowed=1, faults=7 + 11 + 31 + 61 + 1000))
    trace = file.read(path)
    found = account.of(trace)
    assert found.faults == 7 + 11 + 101 + 31 + 61
    assert found.waited_faults == 7 + 11 + 31 + 61
    assert account.inside_share(trace, found) == found.faults / (found.faults + 1000)


LOCKS = {"lock": ["off", "future"]}


def starting(*pages: int, at_once: bool = False) -> Made:
    """A process that starts a program for each of these, one after another, which touches so
    many."""
    made = Made(tasks=1 + len(pages)).add(START).map(AT, 300).touch(AT, 100)
    for task, count in enumerate(pages, 1):
        made.number(TASK, task, what=FORK).touch(AT, 3, task=task).add(EXEC, task=task)
        made.map(FAR, 300, task=task).touch(FAR, count, task=task)
        if not at_once:
            made.add(EXIT, task=task)
    return made


def test_programs_that_may_be_more_in_another_run_are_said(tmp_path: Path) -> None:
    pages = (31, 17, 11, 5)
    found = counted(starting(*pages), tmp_path)
    assert found.series == [1, 4, sum(pages) + 4 * 3]
    trace = file.read(tmp_path / "a.trace")
    (said,) = account.series(trace, found)
    assert said.startswith("43 % of its page faults are of 4 processes of made, one after another")
    assert said in shown.lines(trace, found)
    assert said in replaying.checked([trace.path], {"nice": ["0"]}, serve=[], metrics=[])
    for made in (starting(31, 17), starting(*pages, at_once=True)):
        found = counted(made, tmp_path)
        assert found.series == []
        assert [*account.series(trace, found)] == []
    found = counted(starting(1, 1, 1), tmp_path)  # 12 of 112
    assert [*account.series(trace, found)]
    found = counted(starting(1, 1, 1).map(2 * FAR, 300).touch(2 * FAR, 300), tmp_path)
    assert found.series == [1, 3, 12]
    assert [*account.series(trace, found)] == []


def test_what_is_said_of_one_of_several_recordings_names_it(tmp_path: Path) -> None:
    paths = [
        starting(31, 17, 11, 5, *more).write(tmp_path / f"a{number}.trace")
        for number, more in enumerate([(), (7,)], 1)
    ]
    said = replaying.checked(paths, LOCKS, serve=[], metrics=[])
    shares = [account.of(file.read(path)).lockable_share for path in paths]
    assert shares[1] < shares[0] < 1
    share = f"{100 * shares[1]:.0f} % of what it touched in a2.trace"
    assert f"a lock is in force for {share}" in said
    assert "one after another" not in said  # several recordings show how many there are
    devices = Made(flags=65536).add(START).map(AT, 100).touch(AT, 7)
    paths[1] = devices.write(tmp_path / "a2.trace")
    said = replaying.checked(paths, {"nice": ["0"]}, serve=[], metrics=[])
    assert "not replayed: mappings of devices and of the kernel's buffers in a2.trace;" in said


@pytest.mark.needs("recording")
def test_a_shell_that_runs_a_program_again_and_again_is_recorded_so(tmp_path: Path) -> None:
    words = ["sh", "-c", "for i in 1 2 3 4 5; do /bin/true; done; : end"]
    recording.record(tmp_path / "a.trace", command=words)
    trace = file.read(tmp_path / "a.trace")
    found = account.of(trace)
    task, count, faults = found.series
    assert file.task_names(trace, [task]) == ["true"]
    assert 3 <= count <= 5  # events of two CPUs may come out of order
    assert 5 <= faults < found.faults
