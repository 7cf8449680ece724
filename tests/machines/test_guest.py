"""Guests for real: trials under another kernel, held by cgroup v2, and every way a guest goes.

Each boot takes from ten seconds to some minutes where it is emulated, so that a test asks much of
one guest.
"""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command import process as memlab_process

import memlab
from memlab.api import Run
from memlab.errors import Interrupted
from memlab.experiment import Level
from memlab.judging.claims import judge
from memlab.judging.compare import compare_runs
from memlab.machines.guest import ahead, image
from memlab.machines.guest.following import GuestLost
from memlab.machines.guest.host import GuestTarget
from memlab.machines.guest.machine import GuestSpec
from memlab.observe import proc
from memlab.observe.environment import EMULATED
from memlab.present import words
from memlab.request import Request
from memlab.run import journal
from memlab.run.executor import default_directory
from memlab.run.kernel import read
from memlab.run.watch import Progress, Silent
from memlab.store import RunRow, SampleRow, Store
from memlab.text.units import MiB, version_order

MEMORY = 768 * MiB
TINY_OVERCOMMIT: dict[str, list[Level]] = {"file_size": [30 * MiB], "scenario": ["a"]}
LIMIT_BYTES = 16 * MiB  # 16 of its 30 parts


class Hook:
    """A watch that does something when a sample has come."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self._then = then

    def warned(self, line: str) -> None:
        raise AssertionError(line)

    def started(self, run: RunRow, points: Any, taken: int) -> None:
        pass

    def sampled(self, progress: Progress) -> None:
        self._then()

    def ended(self, reason: str) -> None:
        pass


def sweep(
    guest: GuestTarget,
    store: Path,
    experiment: str,
    levels: dict[str, list[Level]],
    then: Callable[[], None] = lambda: None,
    blocks: int = 1,
) -> Run:
    request = Request(experiment, levels=levels, blocks=blocks, controls=False, seed=1)
    with Store(store, create=True) as opened:
        return Run(guest.sweep(request, opened, Hook(then)), store)


def rows(store: Path) -> list[SampleRow]:
    with Store(store) as opened:
        return list(opened.samples(opened.find("last").id))


@pytest.fixture
def leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However a test ends its guest, in a moment nothing of it is left. What else has guests on
    this host has its folders elsewhere."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        monkeypatch.setenv("TMPDIR", place)
        yield
        deadline = time.monotonic() + 300
        while left := leftovers():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)


def leftovers() -> list[str]:
    """Of this test's home: its journals, and what still runs with it in its environment."""
    found = [str(path) for path in journal.folder().glob("*")]
    found += [str(path) for path in default_directory().glob("memlab-guest-*")]
    mark = f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(process.name) != os.getpid() and mark in (process / "environ").read_bytes():
                found.append(f"{process.name} {(process / 'cmdline').read_bytes()[:60]!r}")
    return found


@pytest.mark.slow
def test_trials_in_a_guest(
    guest_kernel: str,
    store_path: Path,
    leaves_nothing: None,
    tell: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counts as on a host, the OOM killer held by cgroup v2, labels beside emulated times; then
    the guest hangs, which is a row and an end: a minute's silence is then a second."""
    began = time.monotonic()
    with GuestTarget(GuestSpec(kernel=guest_kernel, memory_bytes=MEMORY), silence_s=120) as guest:
        up_s = time.monotonic() - began
        faults = sweep(guest, store_path, "page-fault", {"chunks": [23], "lock": ["off"]})
        _sees_the_guest(faults, guest_kernel)
        _was_foreseen(faults, guest)
        assert [sample.outcome for sample in faults.samples] == ["ok"] * len(faults.points)

        killed = sweep(guest, store_path, "mmap-overcommit", TINY_OVERCOMMIT)
        _held_by_v2(killed)

        again = sweep(guest, store_path, "page-fault", {"chunks": [23], "lock": ["off"]})
        compared = compare_runs(faults, again)
        assert (EMULATED in compared.remarks) == faults.environment["emulated_time"]
        done_s = time.monotonic() - began

        def stop() -> None:
            os.killpg(guest.group, signal.SIGSTOP)
            receive = guest.machine.receive
            monkeypatch.setattr(guest.machine, "receive", lambda limit_s: receive(limit_s / 60))

        with pytest.raises(GuestLost, match="has been silent"):
            sweep(guest, store_path, "page-fault", {"chunks": [23, 46]}, stop, blocks=1000)
    outcomes = [row.outcome for row in rows(store_path)]
    assert (outcomes[0], outcomes[-1]) == ("ok", "timeout")
    assert outcomes.count("timeout") == 1
    accelerator = faults.environment["guest"]["accelerator"]
    tell(f"a guest ({accelerator}): up in {up_s:.1f} s, three sweeps done at {done_s:.1f} s")


@pytest.mark.slow
def test_a_guest_has_cgroups_of_v1_where_its_command_line_asks(
    guest_kernel: str, store_path: Path, leaves_nothing: None
) -> None:
    """And v1's move of charges, which Linux 6.13 took away."""
    spec = GuestSpec(kernel=guest_kernel, memory_bytes=MEMORY, append=image.CGROUP_V1)
    with GuestTarget(spec) as guest:
        run = sweep(guest, store_path, "memcg-accounting", {"check": ["move_charges", "parent"]})
    seen = run.environment
    assert (seen["cgroup_version"], seen["cgroup_memory_version"]) == ("1", "1")
    moves = version_order(read(Path(guest_kernel)).version) < version_order("6.13")
    values = {
        judged.claim.id: run.values(judged.claim.metric, run.points[judged.points[0]]).tolist()
        for judged in judge(run)
        if judged.points
    }
    assert values["move-charges-call-errno-22"] == [0 if moves else errno.EINVAL]
    assert values["parent-whole-own-pages-23"] == [23]


def _sees_the_guest(run: Run, kernel: str) -> None:
    seen = run.environment
    assert seen["kernel_release"] == read(Path(kernel)).release
    assert seen["guest"]["kernel"] == kernel
    assert seen["memory_total_bytes"] < MEMORY
    assert (seen["cgroup_version"], seen["cgroup_memory_version"]) == ("2", "2")
    assert seen["filesystems"].get("dir", {"type": "ext4"})["type"] == "ext4"
    emulated = seen["guest"]["accelerator"] == "tcg"
    assert seen["emulated_time"] == emulated
    assert (f"emulated: {EMULATED}" in words.machine_remarks(run)) == emulated
    for judged in judge(run):
        if judged.claim.timed and emulated:
            assert (judged.word, judged.evidence) == ("not testable here", EMULATED)
        elif judged.claim.timed:
            assert judged.evidence != EMULATED


def _was_foreseen(run: Run, guest: GuestTarget) -> None:
    """The plan before it boots is the plan inside."""
    request = Request(**{**run.row.request, "directory": None})
    foreseen = ahead.prepare(request, guest)
    assert [point.at for point in foreseen.plan.points] == [point.at for point in run.points]
    assert foreseen.request == Request(**run.row.request)


def _held_by_v2(run: Run) -> None:
    """The mapping of 30 parts meets the limit of 16: its writer is killed in the group, and
    nothing outside of it is; only a shared mapping writes its pages to the disk and lives."""
    at = {point.index: point.at for point in run.points}
    for sample in run.samples:
        raw, context = sample.raw, sample.context
        assert raw is not None, sample.detail
        assert context is not None
        held = context["contained"]
        assert (held["version"], held["limit_bytes"]) == ("2", LIMIT_BYTES)
        if held["peak_bytes"] is not None:  # since Linux 6.12
            assert held["peak_bytes"] <= LIMIT_BYTES
        private = at[sample.point]["mapping"] != "shared"
        (process,) = raw["processes"][: raw["process_count"]]
        assert (process["signal"] == signal.SIGKILL) == private
        assert context["host"]["group_oom_kill"] == int(private)
        assert context["host"]["outside_killed"] == 0
        if private:
            assert process["done_bytes"] < LIMIT_BYTES


def in_a_guest(kernel: str, *arguments: str, append: str = "") -> subprocess.Popen[str]:
    guest = ["--in", f"guest,kernel={kernel},memory={MEMORY},append={append}"]
    return subprocess.Popen(
        [sys.executable, "-m", "memlab", "sweep", *arguments, *guest, "--blocks", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


WRITES_TO_THE_HOST = """
import contextlib, ctypes, os, sys
x = b"x" * 60_000_000
place = "/a mount of my own"
os.makedirs(place, exist_ok=True)
ctypes.CDLL(None).mount(b"memlab-host", place.encode(), b"9p", 0, b"trans=virtio,version=9p2000.L")
for path in (sys.argv[1], place + sys.argv[1]):
    with contextlib.suppress(OSError), open(path, "w") as file:
        file.write("guest")
"""


@pytest.mark.slow
def test_a_command_of_ones_own_in_a_guest_with_cgroups_of_v2(
    guest_kernel: str, store_path: Path, tmp_path: Path
) -> None:
    """It also tries to write to a file of the host, by name and through a mount of its own."""
    file = tmp_path / "of the host"
    file.write_text("host")
    run = memlab.trial(
        [sys.executable, "-I", "-c", WRITES_TO_THE_HOST, str(file)],
        blocks=1,
        store=store_path,
        guest=memlab.Guest(guest_kernel, memory=MEMORY),
        memory_max=["none", "32M"],
    )
    of = {sample.outcome: sample for sample in run.samples}
    assert of.keys() == {"ok", "oom-killed"}
    killed, whole = (of[outcome].raw or {} for outcome in ("oom-killed", "ok"))
    assert whole["rss_peak_bytes"] > 60_000_000
    if killed["group_peak_bytes"] is not None:  # since Linux 5.19
        assert killed["group_peak_bytes"] <= 32 * MiB
    assert (of["ok"].context or {})["contained"]["version"] == "2"
    assert file.read_text() == "host"


@pytest.mark.slow
def test_a_panic_is_a_row_and_an_exit_code(
    guest_kernel: str, store_path: Path, leaves_nothing: None
) -> None:
    """vm.panic_on_oom=2 makes a panic of the kill in the group (admin-guide/sysctl/vm.rst)."""
    levels = ["-p", "file_size=30m", "-p", "scenario=a", "-p", "mapping=private,private_noreserve"]
    asked = in_a_guest(
        guest_kernel,
        *("mmap-overcommit", *levels, "--no-controls"),
        append="sysctl.vm.panic_on_oom=2",
    )
    out, err = asked.communicate()
    assert (asked.returncode, out) == (3, ""), err
    (row,) = rows(store_path)
    assert row.outcome == "error"
    assert "kernel panic: Out of memory" in (row.detail or "")
    assert f"what was measured is kept: memlab sweep --resume {_run(store_path)}" in err


@pytest.mark.slow
def test_a_panic_in_the_middle_loses_the_trial_in_flight_alone(
    guest_kernel: str, store_path: Path, leaves_nothing: None
) -> None:
    """The third trial has the kernel crash (admin-guide/sysrq.rst)."""
    third = "[ $(wc -l < /var/tmp/trials) -lt 3 ] || echo c > /proc/sysrq-trigger"
    with pytest.raises(GuestLost, match="kernel panic: sysrq triggered crash"):
        memlab.trial(
            ["sh", "-c", f"echo >> /var/tmp/trials; {third}"],
            blocks=5,
            store=store_path,
            guest=memlab.Guest(guest_kernel, memory=MEMORY),
        )
    found = rows(store_path)
    assert [row.outcome for row in found] == ["ok", "ok", "error"]
    assert "sysrq triggered crash" in (found[-1].detail or "")


@pytest.mark.slow
def test_a_killed_guest_loses_the_trial_in_flight_and_another_goes_on(
    guest_kernel: str, store_path: Path, leaves_nothing: None
) -> None:
    spec, blocks = GuestSpec(kernel=guest_kernel, memory_bytes=MEMORY), 15
    levels: dict[str, list[Level]] = {"chunks": [23], "lock": ["off"], "chunk": [256 * 1024]}
    came = []
    with GuestTarget(spec) as guest:

        def kill() -> None:
            came.append(guest)
            if len(came) == 3:
                os.killpg(guest.group, signal.SIGKILL)

        with pytest.raises(GuestLost, match="the guest ended"):
            sweep(guest, store_path, "page-fault", levels, kill, blocks=blocks)
    kept = rows(store_path)
    assert [row.outcome for row in kept] == ["ok"] * len(came) + ["error"]
    with GuestTarget(spec) as guest, Store(store_path) as opened:
        run = opened.find("last")
        guest.resume(run, opened, Hook())
        points = len(opened.points(run.id))
        ended = [session.ended for session in opened.sessions(run.id)]
    found = rows(store_path)
    assert ended == ["failed", "blocks"]
    assert found[: len(kept)] == kept
    assert {(row.block, row.point) for row in found} == {
        (block, point) for block in range(blocks) for point in range(points)
    }
    assert [row.outcome for row in found].count("ok") == blocks * points - 1


@pytest.mark.slow
def test_one_guest_for_the_sweeps_of_python_without_the_memory_controller(
    guest_kernel: str, store_path: Path, leaves_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contained rows say what is missing; the next sweep meets the same boot, also after one that
    was interrupted, which keeps what it had."""
    asked = memlab.Guest(guest_kernel, memory=MEMORY, append="cgroup_disable=memory")
    options: dict[str, Any] = {"blocks": 1, "controls": False, "seed": 1}
    with asked as guest:
        held = memlab.sweep("mmap-overcommit", guest=guest, **options, **TINY_OVERCOMMIT)
        locks = memlab.sweep("vma-lock", guest=guest, check="mlock", **options)
        with monkeypatch.context() as patched:
            patched.setattr(Silent, "sampled", interrupt)
            with pytest.raises(Interrupted) as stopped:
                memlab.sweep("vma-lock", guest=guest, **options)
        again = memlab.sweep("vma-lock", guest=guest, check="mlock", **options)
    assert 1 <= stopped.value.kept == len(memlab.load(stopped.value.run).samples)
    assert {sample.outcome for sample in held.samples} == {"unavailable"}
    for sample in held.samples:
        assert "no mounted hierarchy has the memory controller" in (sample.detail or "")
        assert "boot with cgroup_enable=memory" in (sample.detail or "")
    assert [sample.outcome for sample in locks.samples] == ["ok"] * len(locks.points)
    assert [sample.outcome for sample in again.samples] == ["ok"] * len(again.points)
    boots = {run.environment["boot_id"] for run in (held, locks, again)}
    assert len(boots) == 1


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def until_it_boots(asked: subprocess.Popen[str]) -> int:
    """Its guardian's pid. The QEMU that asks /dev/kvm for a heartbeat ends before that begins."""
    deadline = time.monotonic() + 300
    while True:
        assert asked.poll() is None, asked.communicate()
        assert time.monotonic() < deadline
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                own = proc.life(process.name).parent == asked.pid
                guards = own and b"run.guardian" in (process / "cmdline").read_bytes()
                if guards and any("qemu-system" in line for line in leftovers()):
                    return int(process.name)
        time.sleep(0.02)


@pytest.mark.slow
def test_kill_9_of_memlab_leaves_nothing_of_its_guest(
    guest_kernel: str, store_path: Path, leaves_nothing: None
) -> None:
    asked = in_a_guest(guest_kernel, "page-fault")
    until_it_boots(asked)
    asked.kill()
    asked.communicate()
    deadline = time.monotonic() + 300
    while left := leftovers():
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


@pytest.mark.slow
def test_a_guest_whose_guardian_was_killed_too_ends_with_clean(
    guest_kernel: str, store_path: Path, leaves_nothing: None
) -> None:
    asked = in_a_guest(guest_kernel, "page-fault")
    guardian = until_it_boots(asked)
    os.kill(guardian, signal.SIGKILL)
    asked.kill()
    asked.communicate()
    done = memlab_process("clean")
    assert (done.returncode, done.stderr) == (0, "")
    assert "run guest-" in done.stdout


def _run(store: Path) -> str:
    with Store(store) as opened:
        return opened.find("last").id
