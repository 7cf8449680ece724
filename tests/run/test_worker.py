"""The fork server and its workers, for real: how each way to end becomes an outcome."""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memlab import experiments, probe
from memlab.errors import NotBuilt, WorkerLost
from memlab.files import folders
from memlab.run import fork_server, plan, worker
from memlab.run.fork_server import ForkServer

CPU = max(os.sched_getaffinity(0))
NO_FILE = {"file": None, "cpus": [CPU], "limit_s": 60.0}
READ = {
    "size_bytes": 4096,
    "file_size_bytes": 4096,
    "method": "read",
    "touch": "none",
    "advice": "normal",
    "populate": False,
    "slice_ns": 0,
}
NOOP = {"probe": "noop", "params": {}} | NO_FILE

# A parent whose probe is a line of Python, for what no compiled probe does.
PYTHON_PROBE = (
    "import os, signal, time; from memlab import probe;"
    "probe.call = lambda name, params: {'value': eval(params.get('do', '0'))};"
)


@pytest.fixture
def parent() -> Iterator[ForkServer]:
    started = ForkServer()
    yield started
    started.stop()


@pytest.fixture
def python_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.setattr(
        fork_server, "_BOOT", fork_server._BOOT.replace("main()", PYTHON_PROBE + "main()")
    )
    started = ForkServer()
    yield started
    started.stop()


def do(parent: ForkServer, line: str, **change: Any) -> dict[str, Any]:
    return parent.run(NOOP | {"params": {"do": line}} | change)


WRITE = experiments.load("mmap-write")


def write(path: Path, state: str) -> dict[str, Any]:
    """A trial of mmap_write on a file of 64 KiB that the worker prepares."""
    size = 65536
    levels = {"size": [4096], "method": ["mmap"], "file_size": [size], "slice": [0.0]}
    at = plan.build(WRITE, "quick", levels).points[0].at
    params = WRITE.params(at, {"path": str(path)})
    file = {"path": str(path), "state": state, "size_bytes": size}
    return {"probe": "mmap_write", "params": params} | NO_FILE | {"file": file}


def test_ok_carries_the_result_and_the_hash(parent: ForkServer) -> None:
    reply = parent.run(NOOP)
    assert reply["outcome"] == "ok"
    assert reply["probe_hash"] == probe.hash("noop")
    assert reply["result"]["window"].keys() == probe.call("noop", {})["window"].keys()


def test_the_window_is_on_the_cpu_of_the_trial(parent: ForkServer) -> None:
    for cpu in sorted(os.sched_getaffinity(0)):
        window = parent.run(NOOP | {"cpus": [cpu]})["result"]["window"]
        assert (window["cpu_at_open"], window["cpu_at_close"]) == (cpu, cpu)


def test_a_cpu_that_is_not_there_is_an_error(parent: ForkServer) -> None:
    reply = parent.run(NOOP | {"cpus": [65000]})
    assert reply["outcome"] == "error"
    assert reply["detail"] == "preparing the trial: [Errno 22] Invalid argument"


def test_error_names_the_call_in_c(parent: ForkServer, tmp_path: Path) -> None:
    params = READ | {"path": str(tmp_path / "nosuch")}
    reply = parent.run({"probe": "mmap_read", "params": params} | NO_FILE)
    assert reply["outcome"] == "error"
    assert "open(in->path, O_RDONLY | O_CLOEXEC): ENOENT at " in reply["detail"]
    assert "mmap_read.c:" in reply["detail"]


def test_params_that_do_not_fit_are_an_error(parent: ForkServer) -> None:
    reply = parent.run(NOOP | {"params": {"nosuch": 1}})
    assert reply["outcome"] == "error"
    assert reply["detail"].startswith("TypeError: probe noop: no param 'nosuch'")


def test_a_file_that_cannot_be_prepared_is_an_error(parent: ForkServer, tmp_path: Path) -> None:
    reply = parent.run(write(tmp_path / "nosuch" / "file", "sparse"))
    assert reply["outcome"] == "error"
    assert reply["detail"].startswith("preparing the trial: [Errno 2] ")


@pytest.mark.parametrize("state", ["sparse", "preallocated"])
def test_a_fresh_file_goes_with_its_trial(parent: ForkServer, tmp_path: Path, state: str) -> None:
    assert parent.run(write(tmp_path / "file", state))["result"]["byte_count"] == 65536
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("state", ["sparse", "preallocated"])
def test_a_worker_gives_back_the_pages_of_its_file(
    parent: ForkServer, tmp_path: Path, state: str
) -> None:
    """On its own CPU, before the server removes the file: a second link to it is empty."""
    (tmp_path / "file").touch()
    (tmp_path / "link").hardlink_to(tmp_path / "file")
    assert parent.run(write(tmp_path / "file", state))["result"]["byte_count"] == 65536
    kept = (tmp_path / "link").stat()
    assert (kept.st_nlink, kept.st_size, kept.st_blocks) == (1, 0, 0)


def test_a_cached_file_stays_for_the_next_trial(parent: ForkServer, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for _ in range(2):
        assert parent.run(write(path, "cached_4k"))["outcome"] == "ok"
    assert path.stat().st_size == 65536


@pytest.mark.parametrize(
    ("line", "outcome", "detail"),
    [
        ("1 / 0", "error", "ZeroDivisionError: division by zero"),
        ("os._exit(0)", "error", "the worker exited without a reply"),
        ("os._exit(3)", "error", "the worker exited without a reply"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "sigsegv", "ended by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGBUS)", "sigbus", "ended by SIGBUS"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "error", "ended by SIGKILL"),
        ("os.abort()", "error", "ended by SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 6)", "error", "ended by SIGRTMIN+6"),
        ("(_ for _ in ()).throw(SystemExit(3))", "error", "SystemExit: 3"),
        ("(_ for _ in ()).throw(MemoryError('none left'))", "error", "MemoryError: none left"),
    ],
)
def test_how_a_worker_ends_is_the_outcome(
    python_server: ForkServer, line: str, outcome: str, detail: str
) -> None:
    reply = do(python_server, line)
    assert (reply["outcome"], reply["detail"]) == (outcome, detail)
    assert do(python_server, "7")["result"]["value"] == 7  # the same parent serves the next


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGXCPU, ": RLIMIT_CPU is 2 s: raise it (ulimit -t, LimitCPU=)"),
        (signal.SIGXFSZ, ": RLIMIT_FSIZE is 2 B: raise it (ulimit -f, LimitFSIZE=)"),
        (signal.SIGTERM, ""),
    ],
)
def test_a_worker_that_a_limit_of_memlab_ended_names_it(
    number: signal.Signals, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2, resource.RLIM_INFINITY))
    status: Any = SimpleNamespace(si_code=os.CLD_KILLED, si_status=number)
    died = worker._died({"file": None}, status, False, oom_killed=False)
    assert died["detail"] == f"ended by {number.name}{words}"


@pytest.mark.parametrize(
    ("status", "errno_name", "outcome"),
    [
        ("unavailable", "ENOSYS", "unavailable"),
        ("unavailable", "EPERM", "unavailable"),
        ("unavailable", "ENOMEM", "unavailable"),
        ("error", "ENOSPC", "error"),
        ("error", "ENOMEM", "enomem"),
    ],
)
def test_what_a_probe_says_is_the_outcome(
    python_server: ForkServer, status: str, errno_name: str, outcome: str
) -> None:
    error = f"probe.ProbeError('p', '{status}', 'call()', '{errno_name}', 'p.c', 7)"
    reply = do(python_server, f"(_ for _ in ()).throw({error})")
    assert reply["outcome"] == outcome
    assert reply["detail"] == f"probe p: {status}: call(): {errno_name} at p.c:7"


def test_a_long_reply_is_whole(python_server: ForkServer) -> None:
    assert do(python_server, "'x' * 1_000_000")["result"]["value"] == "x" * 1_000_000


def test_a_trial_has_a_time_limit(parent: ForkServer, tmp_path: Path) -> None:
    """Opening a pipe that nobody writes to blocks for good."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    trial = {"probe": "mmap_read", "params": READ | {"path": str(fifo)}} | NO_FILE
    reply = parent.run(trial | {"limit_s": 0.2})
    assert (reply["outcome"], reply["detail"]) == ("timeout", "killed after 0.2 s")
    assert parent.run(NOOP)["outcome"] == "ok"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(holds: Callable[[], Any], limit_s: float = 120.0) -> Any:
    """What `holds` returns as soon as that is true."""
    deadline = time.monotonic() + limit_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.002)
    return found


@pytest.fixture
def blocked(parent: ForkServer, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A trial whose probe waits in open(2): its pipe, the worker's pid, and the reply to come."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    trial = {"probe": "mmap_read", "params": READ | {"path": str(fifo)}} | NO_FILE
    with ThreadPoolExecutor(1) as pool:
        try:
            reply = pool.submit(parent.run, trial)
            pid = until(lambda: next(iter(in_trial(parent.group)), None))
            yield SimpleNamespace(fifo=fifo, pid=pid, reply=reply)
        finally:
            with suppress(ProcessLookupError):  # it has ended, and its parent has read its end
                os.killpg(parent.group, signal.SIGKILL)


def in_trial(group: int) -> Iterator[int]:
    """The workers that have set the stage: of the others none has this score."""
    for child in children(group):
        with suppress(FileNotFoundError, ProcessLookupError):  # one ended as it was looked at
            if Path(f"/proc/{child}/oom_score_adj").read_text() == "1000\n":
                yield child


def test_a_worker_goes_first_when_memory_runs_out(
    blocked: SimpleNamespace, parent: ForkServer
) -> None:
    """Only the worker: the parent must live to say how it ended."""
    assert Path(f"/proc/{blocked.pid}/oom_score_adj").read_text() == "1000\n"
    own = Path("/proc/self/oom_score_adj").read_text()
    assert Path(f"/proc/{parent.group}/oom_score_adj").read_text() == own


def test_a_worker_runs_on_the_cpus_of_its_trial_alone(blocked: SimpleNamespace) -> None:
    assert os.sched_getaffinity(blocked.pid) == {CPU}


def test_a_worker_killed_from_outside_is_an_error(blocked: SimpleNamespace) -> None:
    os.kill(blocked.pid, signal.SIGKILL)
    assert blocked.reply.result(120)["detail"] == "ended by SIGKILL"


def test_a_worker_that_crashes_in_c_is_its_signal(blocked: SimpleNamespace) -> None:
    os.kill(blocked.pid, signal.SIGSEGV)
    assert blocked.reply.result(120)["outcome"] == "sigsegv"


def test_ctrl_c_does_not_reach_a_worker(blocked: SimpleNamespace, parent: ForkServer) -> None:
    os.killpg(parent.group, signal.SIGINT)
    os.close(os.open(blocked.fifo, os.O_WRONLY))  # now open(2) returns, and the probe goes on
    reply = blocked.reply.result(120)
    assert reply["detail"].startswith("probe mmap_read: error: ")
    assert "open(in->path" not in reply["detail"]


def ended(pid: int) -> bool:
    """Gone, or only waiting to be reaped by whoever took it over."""
    try:
        return "Z (zombie)" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_killed_group_takes_the_trial_in_flight(
    blocked: SimpleNamespace, parent: ForkServer
) -> None:
    os.killpg(parent.group, signal.SIGKILL)
    with pytest.raises(WorkerLost, match="the fork server ended with status -9"):
        blocked.reply.result(120)
    until(lambda: ended(blocked.pid))


def test_what_a_probe_leaves_behind_is_killed_and_reaped(python_server: ForkServer) -> None:
    """Children and grandchildren, out of the worker's process group."""
    line = "[os.fork() or (os.setsid(), os.fork(), time.sleep(60)) for _ in range(2)]"
    leaders = do(python_server, line)["result"]["value"]
    assert len(leaders) == 2
    do(python_server, "7")  # the parent has reaped before it reads the next trial
    assert not session_members(leaders)
    # What stays is the worker that waits for the next trial, forked after the answer to the last.
    until(lambda: len(children(python_server.group)) == 1)


def session_members(leaders: list[int]) -> list[int]:
    """The processes, zombies too, in the sessions that these began."""
    found = []
    for pid in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        with suppress(ProcessLookupError):
            if os.getsid(pid) in leaders:
                found.append(pid)
    return found


@pytest.mark.parametrize(
    ("ends_with", "said"),
    [
        ("SystemExit('no loader here')", "no loader here"),
        ("BlockingIOError(11, 'Resource temporarily unavailable')", ".*: raise `ulimit -u` or the"),
    ],
)
def test_a_parent_that_cannot_start_says_why(
    ends_with: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "_BOOT", f"raise {ends_with}")
    started = ForkServer()
    try:
        with pytest.raises(WorkerLost, match=f"ended with status 1: {said}"):
            started.run(NOOP)
        assert started.served == 0
    finally:
        started.stop()


def test_a_missing_probe_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "find_spec", lambda _: None)
    with pytest.raises(NotBuilt, match="the probes are not compiled; `pip install"):
        ForkServer()


def test_oom_kill_is_told_from_another_kill() -> None:
    status = SimpleNamespace(si_code=os.CLD_KILLED, si_status=signal.SIGKILL)
    trial = {"file": None, "limit_s": 1.0}
    for oom_killed, outcome in ((True, "oom-killed"), (False, "error")):
        reply = worker._died(trial, status, False, oom_killed=oom_killed)
        assert reply["outcome"] == outcome


def test_ticks_of_other_cpus_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = b"cpu  9 9 9 9\ncpu0 10 1 5 800 7 2 3 4 5 6\ncpu1 1 0 0 90 0 0 0 0 0 0\nintr 5\n"
    monkeypatch.setattr(worker, "_read", lambda _: stat)
    assert worker._others([1]) == {"other_cpus_ticks": 832, "other_cpus_busy_ticks": 25}
    assert worker._others([0]) == {"other_cpus_ticks": 91, "other_cpus_busy_ticks": 1}
    assert worker._others([0, 1]) == {}
