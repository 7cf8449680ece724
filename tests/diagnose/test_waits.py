"""What one sample of a thread says, where /proc is a folder of files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memlab.diagnose import kernel_numbers, sockets, timing, waits
from memlab.diagnose.family import Member
from memlab.diagnose.finding import COSTLY, NOTE, Severity
from memlab.observe import process

from .looks import look, rates

PID = 4711
MSYNC = {"x86_64": "26", "aarch64": "227"}.get(os.uname().machine, "none")
SENDMSG = {"x86_64": "46", "aarch64": "211"}.get(os.uname().machine, "none")
WRITE = {"x86_64": "1", "aarch64": "64"}.get(os.uname().machine, "none")
PWRITE = {"x86_64": "18", "aarch64": "68"}.get(os.uname().machine, "none")


@pytest.mark.parametrize(
    ("function", "syscall", "kind"),
    [
        ("folio_wait_bit", f"{MSYNC} 0x7f 0x20 0x4 0x0 0x0 0x0 0x7ffe 0x7f", "fsync"),
        ("folio_wait_bit", f"{PWRITE} 0x7f 0x20 0x4 0x0 0x0 0x0 0x7ffe 0x7f", "writeback"),
        ("folio_wait_bit", "-1 0x7ffe 0x7f", "a page of a file"),  # a page fault waits
        # It slept when its function was read, and runs when its call is: no wait for a file.
        ("folio_wait_bit", "running", None),
        ("wait_woken", f"{SENDMSG} 0x4 0x20 0x4 0x0 0x0 0x0 0x7ffe 0x7f", waits.RECEIVER),
        ("wait_woken", f"{WRITE} 0x4 0x20 0x4 0x0 0x0 0x0 0x7ffe 0x7f", waits.RECEIVER),
        ("sock_alloc_send_pskb", f"{SENDMSG} 0x4 0x20", waits.RECEIVER),
        ("wait_woken", "running", None),
        ("rq_qos_wait", "running", None),
        ("0", "running", None),
    ],
)
def test_a_sample_is_of_the_moment_at_which_its_call_is_read(
    function: str, syscall: str, kind: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tmp_path / f"proc/{PID}/task/{PID}"
    task.mkdir(parents=True)
    (task / "wchan").write_text(function)
    (task / "syscall").write_text(syscall + "\n")
    (tmp_path / f"proc/{PID}/fd").mkdir()
    (tmp_path / f"proc/{PID}/fd/4").symlink_to("socket:[7]")
    monkeypatch.setattr(waits, "ROOT", tmp_path)
    monkeypatch.setattr(process, "tasks", lambda _: [PID])
    sampler = waits.WaitSampler([PID], 7)
    for _ in range(7):
        sampler.sample()
    sampler.close()
    found = sampler.result()
    assert found.samples == 7
    assert found.by_kind == ({kind: 7} if kind else {})
    assert found.running == (0 if kind else 7)
    assert found.idle == 0


@pytest.mark.parametrize("link", ["/dev/pts/3", "pipe:[7]", ""])
def test_a_wait_of_a_terminal_or_of_who_receives_is_none_for_a_receiver(
    link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "ROOT", tmp_path)
    folder = tmp_path / f"proc/{PID}"
    (folder / "fd").mkdir(parents=True)
    (folder / f"task/{PID}").mkdir(parents=True)
    call = WRITE
    if link:
        (folder / "fd/4").symlink_to(link)
    else:
        call = {"x86_64": "45", "aarch64": "207"}.get(os.uname().machine, "none")  # recvfrom
    (folder / f"task/{PID}/syscall").write_text(f"{call} 0x4 0x20 0x4\n")
    function = waits._of_a_call(PID, PID, "wait_woken")
    assert (function, waits.kind_of(function)) == ("wait_woken", None)


@pytest.mark.parametrize(
    ("function", "severity"), [("wait_woken of send", NOTE), ("sock_alloc_send_pskb", COSTLY)]
)
def test_a_receiver_behind_a_network_is_no_alarm(function: str, severity: Severity) -> None:
    of = waits.Waits(100, 10, {waits.RECEIVER: 90}, 0, {function: 90}, 1.0, None)
    queues = sockets.Sockets(2, 2, 0, 3 << 20, 0)
    (found,) = timing.findings(look(waits=of, sockets=queues))
    assert (found.name, found.severity) == ("waits-for-receivers", severity)
    assert "90 % of the samples of its threads wait for a receiver that takes" in found.title
    assert {fact.name: fact.value for fact in found.evidence}[
        "sent and not taken yet, at the end"] == 3 << 20  # fmt: skip
    (found,) = timing.findings(look(waits=of))
    assert "sent and not taken yet, at the end" not in {fact.name for fact in found.evidence}


@pytest.mark.parametrize(
    ("children", "beside", "whose"),
    [
        ((), (), "its threads"), ((8,), (), "its threads and those of its children"),
        ((), (9,), "its threads and those of its group"),
        ((8,), (9,), "its threads and those of its children and its group"),
    ],
)  # fmt: skip
def test_whose_threads_wait_is_said(
    children: tuple[int, ...], beside: tuple[int, ...], whose: str
) -> None:
    """A server waits for its workers, of which one waits for the disk."""
    of = waits.Waits(100, 10, {"fsync": 90}, 0, {"jbd2_log_wait_commit": 90}, 1.0, None)
    members = tuple(Member(pid, "worker", 0, 0, 0, 0, 0) for pid in (*children, *beside))
    made = look(waits=of, descendants=frozenset(children), members=members)
    (found,) = [one for one in timing.findings(made) if one.name == "waits-for-fsync"]
    assert found.title == f"90 % of the samples of {whose} wait for fsync"
    assert timing.of(made).title == f"what {whose} wait for, in samples"


FAULTS_WAIT_NOT = "Linux 6.4 or later"


def advice(functions: dict[str, int], sleeps: float = 20.0) -> str:
    """Of samples, or of sleeps that are counted."""
    kind = "a kernel semaphore, as the mmap_lock"
    count = 0 if sleeps >= 500 else sum(functions.values())
    of = waits.Waits(100, 100 - count, {kind: count}, 0, functions, 4.0, None)
    made = look(waits=of, per_s=rates(munmap=1000.0, lock_sleeps=sleeps), thread_count=4)
    (only,) = [one for one in timing.findings(made) if one.name == "waits-for-mappings"]
    return only.setting


@pytest.mark.parametrize("sleeps", [20.0, 2000.0])
@pytest.mark.parametrize(
    ("functions", "calls"),
    [
        (
            {"vm_mmap_pgoff": 20, "__vm_munmap": 30, "__mm_populate": 9},
            "munmap, mmap, the filling of memory (MAP_POPULATE, mlock)",
        ),
        ({"__x64_sys_brk": 4, "do_madvise.part.0": 5, "do_mlock": 3}, "madvise, brk, mlock"),
        ({"do_mprotect_pkey.constprop.0": 9, "rwsem_down_write_slowpath": 9}, "mprotect"),
        ({"lock_mm_and_find_vma": 9, "__do_sys_mremap": 1}, "page faults, mremap"),
        ({"rwsem_down_read_slowpath": 9}, None),  # no call is read
    ],
)
def test_the_calls_that_wait_for_the_lock_of_mappings_are_named(
    functions: dict[str, int], calls: str | None, sleeps: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(kernel_numbers, "release", lambda: (6, 18))
    words = advice(functions, sleeps)
    assert words.startswith("fewer and smaller calls that change mappings; filling memory")
    assert words.partition("; here those that wait are ")[2] == (calls or "")
    assert FAULTS_WAIT_NOT not in words


@pytest.mark.parametrize(
    ("release", "function", "is_advised"),
    [
        ((6, 3), "lock_mm_and_find_vma", True),
        ((5, 15), "do_user_addr_fault", True),
        ((6, 4), "lock_mm_and_find_vma", False),
        ((7, 0), "do_user_addr_fault", False),
        ((0, 0), "do_user_addr_fault", False),  # it was not read
        ((6, 3), "vm_mmap_pgoff", False),
        ((6, 3), "__mm_populate", False),
        ((6, 3), "rwsem_down_read_slowpath", False),
    ],
)
def test_a_later_kernel_is_advised_where_page_faults_wait_on_an_older_one(
    release: tuple[int, int], function: str, is_advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_numbers, "release", lambda: release)
    assert (FAULTS_WAIT_NOT in advice({function: 50})) == is_advised


@pytest.mark.parametrize("sleeps", [20.0, 2000.0])
@pytest.mark.parametrize("reader", ["", "process 7 (cat) has /proc/4711/smaps open"])
def test_who_holds_the_lock_of_mappings_is_read_or_said_not_to_be(
    reader: str, sleeps: float
) -> None:
    kind, count = waits.MAPPINGS, 0 if sleeps >= 500 else 40
    made = look(
        waits=waits.Waits(100, 100 - count, {kind: count}, 0, {"__vm_munmap": count}, 4.0, None),
        per_s=rates(munmap=1000.0, lock_sleeps=sleeps), thread_count=4, mappings_reader=reader,
    )  # fmt: skip
    (only,) = [one for one in timing.findings(made) if one.name == "waits-for-mappings"]
    said = f"; {reader}, and holds it while it reads" if reader else "; who holds it was not read"
    assert said in only.title
    assert only.setting.startswith("fewer such reads" if reader else "fewer and smaller calls")


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("smaps", (6, 18)), ("task/{}/maps", (6, 16)), ("status", (6, 16)),
        ("maps", (6, 17)),  # it takes the lock no more
    ],
)  # fmt: skip
def test_a_reader_of_mappings_from_outside_is_met(
    name: str, release: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_numbers, "release", lambda: release)
    path = f"/proc/{os.getpid()}/{name.format(os.getpid())}"
    code = "import sys; f = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout
        program.stdout.readline()
        reader = waits.reader(os.getpid())
        program.kill()
    assert (f"process {program.pid} (" in reader) == (f"has {path} open" in reader)
    assert bool(reader) == (name != "status" and (name != "maps" or release < (6, 17)))


def test_of_no_other_file_of_such_a_path_it_is_asked_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server might not answer."""
    (tmp_path / "maps").touch()
    folder = Path(f"/proc/{os.getpid()}/fd")
    with Path("/proc/self/maps").open() as maps, (tmp_path / "maps").open() as other:
        assert waits._is_of_this_proc(os.getpid(), folder / str(maps.fileno()))
        monkeypatch.setattr(Path, "stat", lambda _: pytest.fail("it is asked"))
        assert not waits._is_of_this_proc(os.getpid(), folder / str(other.fileno()))


@pytest.mark.parametrize(("sleeps", "said"), [(0.2, False), (20.0, True), (None, True)])
def test_one_long_wait_for_the_lock_of_mappings_is_not_many(
    sleeps: float | None, said: bool
) -> None:
    """Five samples of one wait, where sleeps are counted."""
    kind = "a kernel semaphore, as the mmap_lock"
    seen = look(
        waits=waits.Waits(100, 95, {kind: 5}, 0, {"__vm_munmap": 5}, 1.0, None),
        per_s=rates(munmap=1000.0, lock_sleeps=sleeps),
    )
    assert ([one.name for one in timing.findings(seen)] == ["waits-for-mappings"]) == said
