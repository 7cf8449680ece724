"""A ladder measured: kernels that fail, a store that has a part, and two kernels for real."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import needs
import pytest
from click.testing import CliRunner
from made_up import Machine

from memlab import cli, experiments
from memlab.errors import BadRequest, CannotRun, Interrupted
from memlab.experiment import At
from memlab.machines import least
from memlab.machines.guest import kernels
from memlab.machines.guest.following import GuestLost
from memlab.machines.guest.kernels import Found
from memlab.machines.ladder import measure as ladder
from memlab.run import driver
from memlab.run.kernel import Kernel
from memlab.run.prepare import prepare
from memlab.run.target import LocalTarget
from memlab.run.watch import Silent
from memlab.store import RunRow, Store


class Booted(LocalTarget):
    """This host, as if it were a guest of a kernel."""

    def __init__(self, guest: Guest) -> None:
        super().__init__()
        self._guest = guest

    def lock(self) -> AbstractContextManager[None]:
        return nullcontext()

    def sweep(self, request: Any, store: Store, watch: Any) -> RunRow:
        if request.experiment in self._guest.loses:
            raise GuestLost("the guest ended: kernel panic: Oops")
        prepared = prepare(request)
        data = {"kernel": self._guest.path, "memory_bytes": self._guest.memory}
        data["append"] = self._guest.append
        object.__setattr__(prepared.request, "guest", data)
        return driver.sweep(prepared, store, watch, self)

    def resume(self, run: RunRow, store: Store, watch: Any) -> RunRow:
        return driver.resume(run, store, watch, target=self)


class Guest:
    """Stands in for memlab.Guest."""

    boots: list[str] = []  # noqa: RUF012
    loses: tuple[str, ...] = ()

    def __init__(self, path: Path, *, memory: int, cpus: int | None, append: str) -> None:
        self.path, self.memory, self.cpus, self.append = str(path), memory, cpus, append

    @contextmanager
    def open(self, wait_s: float | None, libcs: Sequence[Path] = ()) -> Iterator[Booted]:
        self.boots.append(self.path)
        if "hangs" in self.path:
            raise CannotRun("the guest did not come up; the guest has been silent")
        yield Booted(self)


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Guest.boots, Guest.loses = [], ()
    monkeypatch.setattr(ladder, "Guest", Guest)
    return Guest.boots


def kernel(name: str, why: str = "") -> Found:
    path = Path(f"/kernels/vmlinuz-{name}")
    return Found(path, Kernel(path, name), why)


ASKED = ladder.LadderRequest(
    ["vma-lock", "device-pinning"],
    ["mlock-resident-pages-7", "mlock-vm-lck"],
    blocks=2,
    timed=False,
)


def measure(store: Path, *kernels: Found) -> list[ladder.KernelResult]:
    return ladder.measure(ASKED, kernels, store, Silent(), lambda _: None)


@pytest.mark.seconds
def test_one_boot_a_kernel_and_a_failure_is_a_line(boots: list[str], store_path: Path) -> None:
    """A kernel that hangs or cannot boot costs its own rows alone; nothing is measured twice."""
    kernels = [
        kernel("6.1"),
        kernel("6.9-hangs"),
        kernel("7.0", "it has no virtio_pci"),
        kernel("7.3"),
    ]
    results = measure(store_path, *kernels)
    assert boots == [str(k.path) for k in kernels if not k.why]
    assert [sorted(result.runs) for result in results] == [
        sorted(ASKED.experiments),
        [],
        [],
        sorted(ASKED.experiments),
    ]
    assert [list(result.failed) for result in results[1:3]] == [
        ["the guest did not come up; the guest has been silent"],
        ["it has no virtio_pci"],
    ]
    rows = ladder.rows(ASKED, results)
    assert {row.id for row in rows} == set(ASKED.claims)
    assert all(list(row.cells) == ["6.1", "7.3"] for row in rows)
    boots.clear()
    again = measure(store_path, kernels[0], kernels[3])
    assert boots == []
    assert [r.runs["vma-lock"].id for r in again] == [
        r.runs["vma-lock"].id for r in (results[0], results[3])
    ]


def test_a_guest_that_dies_loses_its_experiment_alone(boots: list[str], store_path: Path) -> None:
    Guest.loses = ("vma-lock",)
    (result,) = measure(store_path, kernel("6.1"))
    assert (sorted(result.runs), len(boots)) == (["device-pinning"], 2)
    assert list(result.failed) == ["vma-lock: the guest ended: kernel panic: Oops"]


def test_several_guests_at_once(
    boots: list[str], store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the other to boot: one alone would never go on."""
    both = Barrier(2, timeout=300)

    class Meeting(Guest):
        @contextmanager
        def open(self, wait_s: float | None, libcs: Sequence[Path] = ()) -> Iterator[Booted]:
            assert wait_s is None  # the ladder has the lock for all of them
            with super().open(wait_s, libcs) as booted:
                both.wait()
                yield booted

    monkeypatch.setattr(ladder, "Guest", Meeting)
    kernels = [kernel("6.1"), kernel("7.3")]
    said: list[str] = []
    results = ladder.measure(
        ASKED, kernels, store_path, Silent(), lambda r: said.append(r.kernel.version), guests=2
    )
    assert [result.kernel for result in results] == kernels
    assert sorted(said) == ["6.1", "7.3"]
    assert all(len(result.boots) == 1 and len(result.runs) == 2 for result in results)


@pytest.mark.seconds
@pytest.mark.parametrize("dies", [1, 99], ids=["once", "each time"])
def test_a_lost_guest_boots_again_and_goes_on(
    boots: list[str], store_path: Path, monkeypatch: pytest.MonkeyPatch, dies: int
) -> None:
    """What was measured before it went is kept, and the same run is whole in the end; a guest that
    goes each time is given up."""
    asked = ladder.LadderRequest(["vma-lock"], ["mlock-resident-pages-7"], blocks=4, timed=False)
    opened = Booted.executor

    @contextmanager
    def lost(self: Booted, *told: Any) -> Iterator[Any]:
        with opened(self, *told) as executor:
            if len(boots) <= dies:
                monkeypatch.setattr(executor, "trial", partial(_last, executor.trial))
            yield executor

    monkeypatch.setattr(Booted, "executor", lost)
    monkeypatch.setattr(driver, "check_stored", lambda *_: None)  # there is no such kernel
    (result,) = ladder.measure(asked, [kernel("6.1")], store_path, Silent(), lambda _: None)
    assert len(boots) == len(result.boots) == min(dies + 1, ladder.BOOTS)
    if dies == 1:
        (run,) = result.runs.values()
        assert (len(run.samples), list(result.failed)) == (4, [])
    else:
        assert (result.runs, list(result.failed)) == ({}, ["vma-lock: the guest ended: Oops"])


def _last(trial: Any, point: Any, done: list[object] = [], **given: Any) -> Any:  # noqa: B006
    """Every second trial is one that never returns."""
    done.append(point)
    if len(done) % 2 == 0:
        raise GuestLost("the guest ended: Oops")
    return trial(point, **given)


@pytest.mark.parametrize("again", [False, True], ids=["measured", "from the store"])
def test_files_that_do_not_lie_on_a_disk_are_no_row(
    boots: list[str], store_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    def bare(*_: object) -> dict[str, Any]:
        found = {"dir": {"path": "/var/tmp", "type": "rootfs"}}
        return {"kernel_release": "7.0", "filesystems": found}

    monkeypatch.setattr(Booted, "environment", bare)
    asked = ladder.LadderRequest(["mmap-write"], metrics=["faults_per_mib"], blocks=1, timed=False)
    for _ in range(1 + again):
        (result,) = ladder.measure(asked, [kernel("7.0")], store_path, Silent(), lambda _: None)
    assert result.runs == {}
    assert list(result.failed) == [
        "mmap-write: its files lie on rootfs, since ext4's module is missing"
    ]
    assert len(boots) == 1


def test_an_interrupted_ladder_goes_on(
    boots: list[str], store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stops(Silent):
        def sampled(self, *_: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        ladder.measure(ASKED, [kernel("6.1")], store_path, Stops(), lambda _: None)
    monkeypatch.setattr(driver, "check_stored", lambda *_: None)  # there is no such kernel
    resumed: list[str] = []
    resume = driver.resume
    monkeypatch.setattr(
        driver, "resume", lambda row, *a, **k: (resumed.append(row.id), resume(row, *a, **k))[1]
    )
    (result,) = measure(store_path, kernel("6.1"))
    assert resumed == [stopped.value.run] == [result.runs["vma-lock"].id]
    assert len(result.runs["vma-lock"].samples) == 2


def test_what_cannot_be_asked_is_said_before_anything_boots(boots: list[str]) -> None:
    with pytest.raises(BadRequest, match="has the factor of -p nosuch=1"):
        ladder.requests(ladder.LadderRequest(["vma-lock"], levels=["nosuch=1"], timed=False))
    with pytest.raises(
        BadRequest, match="no claim 'nosuch' in vma-lock; `memlab describe -v vma-lock`"
    ):
        ladder.requests(ladder.LadderRequest(["vma-lock"], ["nosuch"], timed=False))
    with pytest.raises(BadRequest, match="did you mean future-droppable-locked-vma-count-0"):
        ladder.requests(ladder.LadderRequest(["vma-lock"], ["future-droppable"], timed=False))
    with pytest.raises(BadRequest, match="page-fault has no claim on a count or an outcome"):
        ladder.requests(ladder.LadderRequest(["vma-lock", "page-fault"], ["secret-vm-lck-pages-7"]))
    assert boots == []


@pytest.mark.parametrize(
    ("image", "code"), [("6.1", 0), ("6.9-hangs", 125), ("7.0-contradicts", 1)]
)
def test_a_step_of_git_bisect(image: str, code: int, boots: list[str], store_path: Path) -> None:
    claim = "mlock-over-exec-vma-count-2" if code == 1 else "mlock-resident-pages-7"
    asked = ladder.LadderRequest(["vma-lock"], blocks=6, timed=False)
    assert ladder.step(asked, claim, kernel(image), store_path, Silent()) == code


def test_one_kernel_is_a_step_and_an_image_that_cannot_boot_is_skipped(
    store_path: Path, tmp_path: Path
) -> None:
    """A claim's, not a metric's: that has no verdict."""
    (image := tmp_path / "bzImage").write_bytes(b"no kernel")
    words = ["--store", str(store_path), "kernels", "bisect", "vma-lock"]
    done = CliRunner().invoke(cli.cli, [*words, "mlock-resident-pages-7", str(image)])
    assert done.exit_code == 125, (done.output, done.exception)
    done = CliRunner().invoke(cli.cli, [*words, "locked_pages", str(image)])
    assert isinstance(done.exception, BadRequest)


def test_a_bisection_that_cannot_be_is_a_line(boots: list[str], store_path: Path) -> None:
    """Ends that are alike, here both this host, and an end that does not come up, with why."""
    asked = ladder.LadderRequest(["vma-lock"], ["mlock-resident-pages-7"], blocks=6, timed=False)
    for name, why in (("7.3", ""), ("7.3-hangs", "7.3: the guest did not come up")):
        said: list[str] = []

        def done(result: ladder.KernelResult, said: list[str] = said) -> None:
            said.extend(f"{result.kernel.version}: {line}" for line in result.failed)

        with pytest.raises(CannotRun, match=r"shows no difference between 6\.1 and 7\.3"):
            ladder.bisect(
                asked, asked.claims[0], [kernel("6.1"), kernel(name)], store_path, Silent(), done
            )
        assert any(line.startswith(why) for line in said) == bool(why)


@pytest.mark.parametrize("since", ["6.6", "6.12", "7.3"])
def test_a_metric_is_bisected_too(
    since: str, store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the help text has it, with kernels that take 256 faults per MiB before one and 1 since."""
    versions = ["6.1", "6.6", "6.9", "6.12", "7.3"]  # 6.9 hangs
    measured: list[str] = []

    class Counting(Machine):
        def _raw(self, at: At, block: int) -> dict[str, Any]:
            raw = super()._raw(at, block)
            new = versions.index(measured[-1]) >= versions.index(since)
            each = (1 if new else 256) * raw["byte_count"] // (1 << 20)
            return {**raw, "window": {**raw["window"], "minor_fault_count": each}}

    def pretended(asked: ladder.LadderRequest, kernels: Sequence[Found], *_: Any, **__: Any) -> Any:
        (one,) = kernels
        (request,) = ladder.requests(asked)
        assert least.selected(experiments.load("mmap-write"), asked.claims, asked.timed) == []
        if one.version == "6.9":
            return [ladder.KernelResult(one, {}, ["it did not come up"], 0.0)]
        measured.append(one.version)
        machine = Counting(tmp_path / f"{len(measured)}.db")
        run = machine.sweep("mmap-write", controls=False, **request.levels)
        return [ladder.KernelResult(one, {"mmap-write": run}, [], 0.0)]

    monkeypatch.setattr(ladder, "measure", pretended)
    row = [kernel(name) for name in versions]
    monkeypatch.setattr(
        kernels, "choose", lambda words, _: [k for k in row if k.version in list(words)]
    )
    monkeypatch.setattr(kernels, "between", lambda *_: row)
    words = ["kernels", "bisect", "mmap-write", "faults_per_mib", "-p", "file_state=cached_1m"]
    words += ["-p", "method=mmap", "-p", "size=4k", "-p", "filesystem=dir", "6.1", "7.3"]
    done = CliRunner().invoke(cli.cli, ["--store", str(store_path), *words])
    assert done.exit_code == 0, (done.output, done.exception)
    before = [one for one in versions[: versions.index(since)] if one != "6.9"][-1]
    assert f"{before}" in done.output
    assert f"{since}" in done.output
    assert "256" in done.output
    assert len(set(measured)) <= 4


@pytest.mark.parametrize("named", [True, False], ids=["named", "at hand"])
def test_a_kernel_that_fails_is_an_error_after_the_others(
    named: bool, store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot boot fails if it was named, and not if it only lies there."""
    broken = replace(kernel("6.9"), why="virtio is not built in")

    def pretended(asked: ladder.LadderRequest, *_: Any, **__: Any) -> Any:
        (request,) = ladder.requests(asked)
        run = Machine(tmp_path / "a.db").sweep("mmap-write", controls=False, **request.levels)
        whole = ladder.KernelResult(kernel("6.1"), {"mmap-write": run}, [], 0.0)
        return [whole, ladder.KernelResult(broken, {}, [broken.why], 0.0)]

    monkeypatch.setattr(ladder, "measure", pretended)
    monkeypatch.setattr(kernels, "choose", lambda *_: [kernel("6.1"), broken])
    words = ["kernels", "ladder", "mmap-write", "--metric", "faults_per_mib"]
    words += ["-p", "file_size=1m", "-o", str(tmp_path)]
    words = ["--store", str(store_path), *words]
    done = CliRunner().invoke(cli.cli, [*words, *(["--kernels", "6.1,6.9"] if named else [])])
    assert f"figure: {tmp_path}/ladder-mmap-write.png" in done.output
    assert isinstance(done.exception, CannotRun) == named
    assert not named or str(done.exception) == "1 of 2 kernels failed: 6.9"


def test_a_metric_that_none_has_is_said_before_anything_boots(boots: list[str]) -> None:
    with pytest.raises(BadRequest, match="no metric 'nope' in page-fault; there are: "):
        ladder.requests(ladder.LadderRequest(["page-fault"], metrics=["nope"], timed=False))
    with pytest.raises(BadRequest, match=r"did you mean faults_per_mib\?"):
        ladder.requests(
            ladder.LadderRequest(["mmap-write"], metrics=["fault_per_mib"], timed=False)
        )
    assert boots == []


@pytest.mark.slow
@pytest.mark.needs("second guest kernel")
def test_two_kernels_for_real(
    guest_kernel: str,
    store_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The distribution's kernel and a newer one, each booted once."""
    words = [
        "memlab",
        "kernels",
        "ladder",
        "vma-lock",
        "--claims",
        "mlock-resident-pages-7",
        "--json",
    ]
    words += ["--kernels", f"{guest_kernel},{needs.GUEST_KERNEL_2}", "-o", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert ended.value.code == 0, err
    (row,) = json.loads(out)["rows"]
    assert [cell["verdict"] for cell in row["cells"].values()] == ["reproduced"] * 2
    assert row["steps"] == []
    assert (tmp_path / "ladder-vma-lock.png").stat().st_size > 1000


def test_guests_have_the_cpus_that_the_points_need() -> None:
    """An emulated guest has one else."""
    asked = {name: ladder.LadderRequest([name], timed=False) for name in ("mmap-lock", "vma-lock")}
    assert {name: ladder.cpus_of(one) for name, one in asked.items()} == {
        "mmap-lock": 2,
        "vma-lock": None,
    }
