"""The link between a host and its guest, without QEMU: what runs inside runs beside this process,
at the other end of a socket. Rows come in as the host's own; whatever goes, what came is kept."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from memlab import experiments
from memlab.errors import CannotRun, Interrupted, StoreError, UsageError
from memlab.experiment.points import Point
from memlab.machines.guest.following import Followed, GuestLost
from memlab.machines.guest.inside import STOP
from memlab.machines.guest.machine import Damaged, Ended, Machine, Unresponsive
from memlab.request import Request
from memlab.run import plan
from memlab.run.target import PointsNeeded
from memlab.run.watch import Progress
from memlab.store import RunRow, SampleRow, SessionRow, Store, lines

LACKING = ("click", "msgspec", "numpy", "pandas", "scipy")  # in a guest, msgspec in one of arm64
INSIDE = (
    f"import sys; sys.modules |= dict.fromkeys({LACKING});"
    "from pathlib import Path; from memlab.machines.guest import inside;"
    "inside._OWN = Path(sys.argv[2]); inside.serve(int(sys.argv[1]))"
)
GUEST = {
    "kernel": "installed",
    "memory_bytes": 512 << 20,
    "cpus": 1,
    "append": "",
    "iommu": False,
    "directory": None,
}
BLOCKS, CAME = 4, 3
REQUEST = Request(
    "page-fault",
    levels={"chunks": [23], "lock": ["off"]},
    blocks=BLOCKS,
    controls=False,
    seed=1,
    name="beside",
)
SAMPLE = b'{"row":"sample"'


class Beside(Machine):
    """A guest that is a process of this host. After so many samples it is `gone`; a line may be
    changed on its way."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", INSIDE, str(theirs.fileno()), str(folder)],
                pass_fds=[theirs.fileno()],
            )
        self._port, self._heard, self._pending = ours, [], b""
        self.left: int | None = None
        self.gone: Exception = Ended("the guest ended: kernel panic: Oops")
        self.changed: Callable[[bytes], bytes] = bytes
        assert super().receive(60).startswith(b'#{"up"')

    def receive(self, silence_s: float) -> bytes:
        if self.left == 0:
            raise self.gone
        line = super().receive(silence_s)
        if self.left is not None and line.startswith(SAMPLE):
            self.left -= 1
        return self.changed(line)

    def _last_words(self) -> str:
        return ""

    def close(self) -> None:
        """Its sweep ends first, and undoes what it changed."""
        self.send(STOP)
        self.left = 0
        while not super().receive(60).startswith(b'#{"code"'):
            pass

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._port
        self._port.close()


class Hearing:
    """A watch that remembers, and may do something when a sample comes."""

    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.progress: list[Progress] = []
        self.reasons: list[str] = []
        self._then = then

    def warned(self, line: str) -> None:
        raise AssertionError(line)

    def started(self, run: RunRow, points: Any, taken: int) -> None:
        self.taken = taken

    def sampled(self, progress: Progress) -> None:
        self.progress.append(progress)
        self._then(len(self.progress))

    def ended(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    machine = Beside(tmp_path)
    yield machine
    machine.stop()


@pytest.fixture
def store(store_path: Path) -> Iterator[Store]:
    with Store(store_path, create=True) as opened:
        yield opened


def followed(
    machine: Any, store: Store, watch: Hearing | None = None, asked: PointsNeeded | None = None
) -> Followed:
    return Followed(machine, 60, GUEST, "kvm", store, watch or Hearing(), asked)


def trials(store: Store, run: RunRow) -> Iterator[tuple[int, int, int]]:
    """Block, position and point of each, in the order of the plan."""
    points = [Point(row.point, row.levels, row.control) for row in store.points(run.id)]
    kept = experiments.load(run.experiment).host.kept
    for block in range(BLOCKS):
        for position, point in enumerate(plan.order(points, run.seed, block, kept)):
            yield block, position, point.index


def places(samples: list[SampleRow]) -> list[tuple[int, int, int]]:
    return [(sample.block, sample.position, sample.point) for sample in samples]


@pytest.mark.slow
def test_the_rows_of_a_guest_are_the_hosts_own(beside: Beside, store: Store) -> None:
    watch = Hearing()
    run = followed(beside, store, watch).sweep(REQUEST)
    assert store.find("last") == run
    assert (run.origin, run.name, run.seed) == (None, "beside", 1)
    asked = Request(**run.request)
    assert asked == replace(REQUEST, cpus=[], directory=asked.directory, guest=GUEST)
    assert run.environment["guest"] == {**GUEST, "accelerator": "kvm"}
    assert run.environment["emulated_time"] is False
    samples = list(store.samples(run.id))
    assert {sample.outcome for sample in samples} == {"ok"}
    assert places(samples) == list(trials(store, run))
    assert [session.ended for session in store.sessions(run.id)] == watch.reasons == ["blocks"]
    seen = [(one.block, one.position, one.point.index) for one in watch.progress]
    assert (watch.taken, seen) == (0, places(samples))
    assert store.damaged() == {}


@pytest.mark.slow
def test_rows_are_told_on_as_those_of_a_sweep_here(beside: Beside, store_path: Path) -> None:
    told: list[str] = []
    with Store(store_path, create=True, tell=told.append) as opened:
        run = followed(beside, opened).sweep(REQUEST)
        expected = [run, *opened.points(run.id)]
        samples = list(opened.samples(run.id))
    rows = [lines.read(line)[1] for line in told]
    assert rows[: len(expected)] == expected
    began, *measured, ended = rows[len(expected) :]
    assert [replace(sample, id=None) for sample in samples] == [
        replace(row, id=None) for row in measured if isinstance(row, SampleRow)
    ]
    assert isinstance(began, SessionRow)
    assert isinstance(ended, SessionRow)
    assert (began.ended, ended.ended) == (None, "blocks")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gone", "outcome"),
    [
        (Ended("the guest ended: kernel panic: Fatal exception"), "error"),
        (Unresponsive("the guest has been silent"), "timeout"),
        (Damaged("the guest sent a line that is not a row"), "error"),
    ],
)
def test_a_guest_that_goes_loses_the_trial_in_flight_and_another_goes_on(
    beside: Beside, store: Store, tmp_path: Path, gone: Exception, outcome: str
) -> None:
    beside.left, beside.gone = CAME, gone
    watch = Hearing()
    with pytest.raises(GuestLost, match=r"kept: memlab sweep --resume [0-9a-f]{8}") as lost:
        followed(beside, store, watch).sweep(REQUEST)
    beside.close()
    run = store.find("last")
    assert str(gone) in str(lost.value)
    kept = list(store.samples(run.id))
    assert [sample.outcome for sample in kept] == ["ok"] * CAME + [outcome]
    assert (kept[-1].detail, kept[-1].raw) == (str(gone), None)
    assert places(kept) == list(islice(trials(store, run), CAME + 1))
    assert [session.ended for session in store.sessions(run.id)] == watch.reasons == ["failed"]

    (tmp_path / "another").mkdir()
    another, watch = Beside(tmp_path / "another"), Hearing()
    assert followed(another, store, watch).resume(run, None) == run
    another.stop()
    samples = list(store.samples(run.id))
    assert samples[: len(kept)] == kept
    assert watch.taken == len(kept)
    assert places(samples) == list(trials(store, run))
    assert [session.ended for session in store.sessions(run.id)] == ["failed", "blocks"]
    assert store.damaged() == {}


def test_a_guest_that_goes_after_its_last_trial_loses_none(beside: Beside, store: Store) -> None:
    one = replace(REQUEST, blocks=1)
    declared = experiments.load("page-fault")
    points = len(plan.build(declared, "quick", one.levels, controls=False).points)
    beside.left = points
    with pytest.raises(GuestLost):
        followed(beside, store).sweep(one)
    beside.close()
    samples = list(store.samples(store.find("last").id))
    assert [sample.outcome for sample in samples] == ["ok"] * points


@pytest.mark.slow
def test_one_changed_byte_of_a_row_is_noticed(beside: Beside, store: Store) -> None:
    def changed(line: bytes) -> bytes:
        return line.replace(b'"block":1', b'"block":2') if line.startswith(SAMPLE) else line

    beside.changed = changed
    with pytest.raises(GuestLost, match="not as it was written"):
        followed(beside, store).sweep(REQUEST)
    beside.close()
    first, *_, last = store.samples(store.find("last").id)
    assert (first.outcome, last.outcome) == ("ok", "error")


@pytest.mark.slow
def test_ctrl_c_ends_the_sweep_inside_and_the_guest_takes_the_next(
    beside: Beside, store: Store
) -> None:
    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    first = followed(beside, store, Hearing(interrupt))
    with pytest.raises(Interrupted) as stopped:
        first.sweep(replace(REQUEST, blocks=100_000))
    assert first.ended
    run = store.find("last")
    assert stopped.value.run == run.id
    assert 1 <= stopped.value.kept == len(list(store.samples(run.id)))
    assert [session.ended for session in store.sessions(run.id)] == ["interrupted"]
    assert followed(beside, store).sweep(REQUEST).id != run.id


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "ended"), [(None, "decided"), (1000.0, "precise")])
def test_what_is_still_needed_is_asked_of_the_host(
    beside: Beside, store: Store, precision: float | None, ended: str
) -> None:
    """By the rows that it has: what the claims need, or a precision, which takes numpy."""
    seen: list[int] = []

    def asked(run: RunRow, left_s: float | None) -> frozenset[int]:
        assert left_s is not None
        seen.append(len(list(store.samples(run.id))))
        return frozenset({0} if len(seen) < 3 else ())

    request = replace(REQUEST, blocks=None, budget_s=3600.0, precision=precision)
    watch = Hearing()
    run = followed(beside, store, watch, asked).sweep(request)
    assert run.request["precision"] == precision
    assert [session.ended for session in store.sessions(run.id)] == watch.reasons == [ended]
    assert (len(seen) >= 3) == (precision is None)
    assert seen == sorted(seen)


@pytest.mark.slow
def test_what_is_wrong_inside_is_a_line_here_and_the_guest_goes_on(
    beside: Beside, store: Store
) -> None:
    with pytest.raises(UsageError, match="nosuch"):
        followed(beside, store).sweep(Request("nosuch", blocks=1))
    with pytest.raises(CannotRun, match="CPU 4095 is not among those allowed here"):
        followed(beside, store).sweep(replace(REQUEST, cpus=[4095]))
    assert store.runs() == []
    assert followed(beside, store).sweep(REQUEST).name == "beside"


def test_sessions_are_those_of_the_guest(beside: Beside, store: Store) -> None:
    watch = Hearing()
    run = followed(beside, store, watch).sweep(replace(REQUEST, sessions=2))
    assert [session.ended for session in store.sessions(run.id)] == watch.reasons == ["blocks"] * 2
    samples = list(store.samples(run.id))
    assert places(samples) == list(trials(store, run))
    taken = [session.samples for session in store.sessions(run.id)]
    assert taken == [len(samples) // 2] * 2
    assert watch.taken == len(samples) // 2  # as the second began


def test_a_store_that_cannot_be_written_ends_the_sweep_here(
    beside: Beside, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest still sweeps, so that it takes no other; what was committed stays."""

    def full(count: int) -> None:
        if count == CAME:
            monkeypatch.setattr(store, "receive", refused)

    def refused(*_: object) -> int:
        raise StoreError("the disk is full")

    watch = Hearing(full)
    first = followed(beside, store, watch)
    with pytest.raises(StoreError, match="the disk is full"):
        first.sweep(replace(REQUEST, blocks=100_000))
    beside.close()
    assert not first.ended
    run = store.find("last")
    assert len(list(store.samples(run.id))) == CAME
    assert [session.ended for session in store.sessions(run.id)] == watch.reasons == ["failed"]


class Scripted:
    """A guest that sends these lines."""

    def __init__(self, *said: bytes) -> None:
        self._said = list(said)

    def send(self, text: str) -> None:
        pass

    def receive(self, silence_s: float) -> bytes:
        return self._said.pop(0)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[ 3.14] Out of memory: Killed process 7", "not a row"),
        (b'{"row":"sample","run":"abcd1234"}', "not a row"),
        (b"\xff\xfe", "not a row"),
        (b"#", "says nothing"),
        (b"#[1]", "says nothing"),
        (b'#{"code":"0","said":""}', "says nothing"),
        (b'#{"needed":1.0}', "says nothing"),  # of no run
        (b"#" + b"[" * 100_000, "says nothing"),
        (b'#{"code":0,"said":""}', "last row is missing"),
    ],
)
def test_what_a_guest_sends_is_checked_before_it_is_taken(
    store: Store, line: bytes, why: str
) -> None:
    with pytest.raises(GuestLost, match=why):
        followed(Scripted(b"", line), store).sweep(REQUEST)
    assert store.runs() == []


def test_a_line_without_end_is_not_kept() -> None:
    ours, theirs = socket.socketpair()
    machine = Machine.__new__(Machine)
    machine._port, machine._heard, machine._pending = ours, [], b"x" * (lines.LONGEST - 1)
    with ours, theirs:
        theirs.sendall(b"xx")
        with pytest.raises(Damaged, match="more than 16 MiB"):
            machine.receive(60)
