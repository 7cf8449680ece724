"""A recording that is ended: by a signal to memlab alone, by SIGKILL of each of its parts, by a
full disk, by a limit, as a container is stopped. There is one way out for all."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import needs
import pytest
from processes import processes
from recordings import LEFT, PLACES, WORKS, Recording, until

from memlab.trace import account, file
from memlab.trace.file import Cut

Begins = Callable[..., Recording]
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
ELSEWHERE = [
    pytest.param("no cgroup", marks=pytest.mark.needs("root", "a mount namespace")),
    pytest.param("as an ordinary user", marks=pytest.mark.needs("root", "a mount namespace")),
]


@pytest.fixture(scope="module", autouse=True)
def _allowed() -> None:
    needs.of("recording")


@pytest.fixture
def begins(tmp_path: Path) -> Iterator[Begins]:
    """What starts a recording in a folder of its own."""
    begun: list[Recording] = []

    def start(**how: object) -> Recording:
        (folder := tmp_path / f"work{len(begun)}").mkdir()
        begun.append(Recording(folder, **how))  # type: ignore[arg-type]
        return begun[-1]

    tmp_path.chmod(0o755)
    yield start
    for one in begun:
        one.clean_up()


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_to_memlab_alone_ends_all_that_the_command_has_started(
    begins: Begins, number: signal.Signals
) -> None:
    running = begins()
    running.signal(number)
    status, out, err = running.end()
    running.all_ended()
    running.settled()
    assert (status, err) == (128 + number, f"memlab: ended by {number.name}\n")
    assert (running.trace().cut, running.trace().cut_by) == (Cut.SIGNALLED, number)
    assert f"is incomplete: {number.name} ended the recording" in out


def test_a_command_that_hears_no_signal_is_killed_at_the_second(begins: Begins) -> None:
    running = begins(works="trap '' TERM INT HUP; sleep 0.02")
    for _ in range(2):
        running.signal(signal.SIGTERM)
    status, out, _ = running.end()
    running.all_ended()
    running.settled()
    assert status == 128 + signal.SIGTERM
    assert "the command was ended by SIGKILL" in out
    assert running.trace().cut == Cut.SIGNALLED


@pytest.mark.seconds(but="as an ordinary user-driver launch")
@pytest.mark.parametrize("parts", ["driver", "driver launch", "driver guardian", "launch"])
@pytest.mark.parametrize("place", ["here", *ELSEWHERE])
def test_killed_parts_end_what_the_command_has_started(
    begins: Begins, parts: str, place: str
) -> None:
    """The launcher does it, the guardian, or memlab: whichever lives."""
    running = begins(place=place)
    running.kill(*parts.split())
    running.end()
    running.all_ended()
    if parts == "driver guardian":
        until(running.journals, "its journal is left")
        words = [*PLACES[place], sys.executable, "-m", "memlab", "clean"]  # whose journal it is
        assert subprocess.run(words, capture_output=True).returncode == 0
    running.settled()
    trace = running.trace()
    assert trace.cut == (Cut.SIGNALLED if parts == "launch" else Cut.DRIVER_KILLED)


def test_the_command_is_marked_and_its_launchers_are_not(begins: Begins) -> None:
    """Or the guardian killed both launchers before they had ended a set-id program, whose
    environment an ordinary user may not read."""
    running = begins()
    mark = b"MEMLAB_CONTAINED="
    launchers = [running.part("launch"), running.part("inner")]
    assert len({*launchers}) == 2
    assert not any(mark in Path(f"/proc/{pid}/environ").read_bytes() for pid in launchers)
    (started,) = processes("^sleep 300.191")
    assert mark in Path(f"/proc/{started}/environ").read_bytes()


@pytest.mark.seconds(but="driver launch")
@pytest.mark.needs("root", "a mount namespace")
@pytest.mark.parametrize("parts", ["inner", "driver launch", "driver inner", "driver guardian"])
def test_without_cgroup_and_environment_it_ends_if_two_parts_are_killed(
    begins: Begins, parts: str, tmp_path: Path
) -> None:
    """The launcher is two processes, and either of them ends what the other has started."""
    pid = tmp_path / "work0/cleared"
    works = f"env -i setsid sh -c 'echo $$ >{pid}.new; mv {pid}.new {pid}; sleep 300' & sleep 300.1"
    running = begins(place="no cgroup", works=works)
    until(pid.exists, "it begins")
    cleared = os.pidfd_open(int(pid.read_text()))
    try:
        running.kill(*parts.split())
        running.end()
        until(lambda: select.select([cleared], [], [], 0)[0], "it ends")
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(cleared, signal.SIGKILL)
        os.close(cleared)
    running.all_ended()


def test_a_killed_guardian_is_not_missed(begins: Begins) -> None:
    running = begins()
    running.kill("guardian")
    running.signal(signal.SIGTERM)
    assert running.end()[0] == 128 + signal.SIGTERM
    running.all_ended()
    running.settled()


def test_a_killed_recorder_lets_the_command_go_on(begins: Begins) -> None:
    """What it had written is a trace, without the names."""
    running = begins(options=["--allocations"])
    running.kill("record")
    running.await_error("the command goes on, and is not recorded any more")
    running.stop()
    status, out, err = running.end()
    assert (status, err.count("\n")) == (3, 2)
    assert "the command ended with exit status 7" in out
    assert len(running.left()) == LEFT  # as without memlab
    running.settled()
    assert running.trace().cut == Cut.RECORDER_KILLED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "why"),
    [
        pytest.param("on a small disk", "No space left on device",
                     marks=pytest.mark.needs("root", "a mount namespace")),
        ("under a limit of files", "File too large"),
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_written_lets_the_command_go_on(
    begins: Begins, place: str, why: str
) -> None:
    """The tables behind the records have room all the same."""
    running = begins(place=place, works=WORKS)
    running.await_error(f"written any further ({why}); the command goes on")
    trace = running.trace()
    assert trace.cut == Cut.NOT_WRITTEN
    assert trace.records > 1000
    running.stop()
    status, out, err = running.end()
    assert (status, err.count(why)) == (3, 2)
    assert "the command ended with exit status 7" in out
    assert len(running.left()) == LEFT


@pytest.mark.slow
@pytest.mark.needs("root", "a mount namespace")
@pytest.mark.parametrize(("size", "has_trace"), [("4k", False), ("600k", True)])
def test_a_live_process_on_a_full_disk_leaves_its_whole_state_or_no_trace(
    tmp_path: Path, size: str, has_trace: bool
) -> None:
    (disk := tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=$0 none disk; "$@"; status=$?; cp disk/* .; exit $status'
    busy = ["sh", "-c", "echo begun; while :; do /bin/true; done"]
    with subprocess.Popen(busy, stdout=subprocess.PIPE) as subject:
        assert subject.stdout
        assert subject.stdout.readline()
        memlab = [sys.executable, "-m", "memlab", "record", "-o", str(disk / "a.trace")]
        words = ["unshare", "-m", "sh", "-c", script, size, *memlab, str(subject.pid)]
        ended = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
        assert subject.poll() is None
        subject.kill()
    assert ended.returncode == 3
    assert "No space left on device" in ended.stderr.partition("\n")[0]
    assert (tmp_path / "a.trace").exists() == has_trace
    if has_trace:
        trace = file.read(tmp_path / "a.trace")
        assert trace.cut == Cut.NOT_WRITTEN
        assert account.of(trace).state_pages > 100


@pytest.mark.needs("root", "a mount namespace")
def test_a_container_is_stopped_in_order(begins: Begins) -> None:
    """memlab is its first process, which no signal ends that it has not asked for."""
    running = begins(place="as the first of a container")
    running.signal(signal.SIGTERM)
    assert running.end()[0] == 128 + signal.SIGTERM
    running.all_ended()
    assert (running.trace().cut, running.trace().cut_by) == (Cut.SIGNALLED, signal.SIGTERM)


@pytest.mark.slow
def test_what_a_command_leaves_goes_on_and_is_named(begins: Begins) -> None:
    running = begins()
    running.stop()
    status, out, err = running.end()
    assert (status, err) == (7, "")
    left = running.left()
    assert len(left) == LEFT
    running.settled()
    trace = running.trace()
    assert trace.running == LEFT
    assert trace.running_pid in left
    assert f"{LEFT} processes still ran: memlab record -o sleep.trace" in out
    assert trace.unfollowed == 1


@pytest.mark.seconds(but="driver")
@pytest.mark.parametrize("ending", [*SIGNALS, "driver", "record", "time"], ids=str)
def test_a_live_process_goes_on_however_its_recording_ends(
    begins: Begins, ending: signal.Signals | str
) -> None:
    running = begins(live=True, options=["--seconds", "0.2"] if ending == "time" else [])
    if isinstance(ending, signal.Signals):
        running.signal(ending)
    elif ending != "time":
        running.kill(ending)
    status, _, err = running.end()
    running.settled()
    assert running.subject is not None
    assert running.subject.poll() is None
    cut = {"driver": Cut.DRIVER_KILLED, "record": Cut.RECORDER_KILLED}.get(str(ending), Cut.WHOLE)
    assert running.trace().cut == cut
    assert (status, err.count("\n")) == {"driver": (-9, 0), "record": (3, 1)}.get(
        str(ending), (0, 0)
    )
    running.stop()
    assert running.subject.wait() == 7
