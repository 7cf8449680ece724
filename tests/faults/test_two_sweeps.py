"""One measurement at a time on one machine."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import needs
import pytest
from tiny_sweep import POINTS, TINY, Lab, settled, until

from memlab.errors import Busy
from memlab.observe import proc
from memlab.run import machine_lock as machine_lock_module
from memlab.run.machine_lock import TEST_LOCK, machine_lock


@pytest.mark.slow
def test_a_second_sweep_is_refused_with_the_pid_of_the_first(lab: Lab) -> None:
    first = lab.sweep(1000)
    lab.until_sampled(first)
    other = ["--store", str(lab.store.with_name("other.db"))]
    tiny = [*TINY, "-q", "--dir", str(lab.files)]
    status, out, err = lab.finish(lab.start(*other, "sweep", *tiny))
    assert (status, out) == (3, "")
    assert re.fullmatch(
        rf"memlab: another memlab measures on this machine \(pid {first.pid} of \S+, for [\w ]+: "
        r"memlab sweep mmap-write [^)]*\); "
        r"wait until it is done: memlab --wait .*sweep .*\n",
        err,
    )
    status, _, err = lab.finish(lab.start("--store", str(lab.store), "sweep", "--resume", "last"))
    assert status == 3
    assert f"(pid {first.pid} of " in err
    lab.until_sampled(first, POINTS)  # the first was not disturbed
    first.send_signal(signal.SIGINT)
    lab.finish(first)
    settled(lab)


@pytest.mark.slow
def test_reading_goes_on_beside_a_sweep(lab: Lab) -> None:
    first = lab.sweep(1000)
    lab.until_sampled(first, 2 * POINTS)
    for command in (["runs"], ["show", "last"], ["export", "last"]):
        status, out, err = lab.finish(lab.start("--store", str(lab.store), *command))
        assert (status, err) == (0, "")
        assert out
    assert first.poll() is None


def test_clean_leaves_a_running_sweep_alone(lab: Lab) -> None:
    first = lab.sweep(1000)
    lab.until_sampled(first)
    assert lab.finish(lab.start("clean")) == (0, "nothing to clean\n", "")
    lab.until_sampled(first, POINTS)


@pytest.mark.slow
def test_a_second_sweep_waits_its_turn(lab: Lab) -> None:
    """Started while the first measures; it reads the host once that has ended."""
    first = lab.sweep(1000)
    lab.until_sampled(first)
    other = ["--store", str(lab.store.with_name("other.db"))]
    tiny = [*TINY, "-q", "--dir", str(lab.files)]
    tiny += ["--blocks", "1"]
    second = lab.start(*other, "--wait", "sweep", *tiny)
    short = lab.start(*other, "--wait=0.3s", "sweep", *tiny)
    status, _, err = lab.finish(short)
    assert status == 3
    waiting, busy = err.splitlines()
    assert waiting == f"{busy}; waiting"
    first.send_signal(signal.SIGINT)
    lab.finish(first)
    status, out, err = lab.finish(second)
    assert (status, len(out.split())) == (0, 1), err
    assert err.endswith("; waiting\n")
    settled(lab)


@pytest.mark.slow
def test_a_stopped_holder_is_named_as_such(lab: Lab) -> None:
    first = lab.sweep(1000)
    lab.until_sampled(first)
    first.send_signal(signal.SIGSTOP)
    until(lambda: proc.life(first.pid).state == "T")
    other = ["--store", str(lab.store.with_name("other.db"))]
    tiny = [*TINY, "-q", "--dir", str(lab.files)]
    status, _, err = lab.finish(lab.start(*other, "sweep", *tiny))
    assert status == 3
    stopped = f"it is stopped: kill -CONT {first.pid} resumes it, kill -KILL {first.pid} ends it"
    assert stopped in err
    first.send_signal(signal.SIGCONT)
    first.send_signal(signal.SIGINT)
    lab.finish(first)
    settled(lab)


# The lock of a machine, which these tests may not take, and which a sweep beside them may have:
# another folder and another name stand for the system's.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(TEST_LOCK)
    monkeypatch.setattr(machine_lock_module, "_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(machine_lock_module, "_SOCKET", f"\0memlab-test-{tmp_path}")
    return tmp_path


HOLD = """
import sys
from memlab.run import machine_lock
machine_lock._FOLDERS = (sys.argv[1],)
with machine_lock.machine_lock():
    print(flush=True)
    sys.stdin.read()
"""
ALONE = ["unshare", "--net"] + ([] if os.geteuid() == 0 else ["--user", "--map-current-user"])


@pytest.fixture
def beside(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """It holds the lock in a network namespace of its own, where no abstract socket is shared."""
    needs.of("a network namespace")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environ = {name: value for name, value in os.environ.items() if name != TEST_LOCK}
    command = [*ALONE, sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, env=environ, **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline()
        yield holder


def test_the_lock_is_the_machines_and_not_a_network_namespaces(
    beside: subprocess.Popen[str],
) -> None:
    words = rf"\(pid {beside.pid} of \S+, for [\w ]+: "
    with pytest.raises(Busy, match=words), machine_lock():
        pass


IN_A_CONTAINER = """
import sys
from memlab.errors import Busy
from memlab.run.machine_lock import machine_lock
try:
    with machine_lock():
        print("measures", flush=True)
        sys.stdin.read()
except Busy as busy:
    print(busy, flush=True)
"""
CONTAINER = ["unshare", "--net", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])


@contextmanager
def container(run_lock: Path) -> Iterator[tuple[int, str]]:
    """A process with a network namespace of its own, and this folder as its /run/lock: its pid,
    and what it says when it wants to measure."""
    run_lock.mkdir(exist_ok=True)
    shell = 'mount --bind "$0" /run/lock && exec "$@"'
    command = [*CONTAINER, "sh", "-c", shell, str(run_lock), sys.executable, "-c", IN_A_CONTAINER]
    environ = {name: value for name, value in os.environ.items() if name != TEST_LOCK}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environ, **pipes) as begun:
        assert begun.stdout is not None
        said = begun.stdout.readline()
        yield begun.pid, said.strip()


@pytest.mark.needs("a network namespace", "a mount namespace", "/run/lock")
def test_containers_see_each_other_where_they_share_run_lock(tmp_path: Path) -> None:
    """`docker run -v /run/lock:/run/lock`; without it each measures beside the other."""
    with container(tmp_path / "a") as (first, said):
        assert said == "measures"
        with container(tmp_path / "b") as (_, beside):
            assert beside == "measures"
        with container(tmp_path / "a") as (_, refused):
            assert f"(pid {first} of " in refused
    with container(tmp_path / "a") as (_, later):
        assert later == "measures"


@pytest.mark.needs("root")
def test_another_users_holder_is_named_and_root_can_end_it(folder: Path) -> None:
    """Any user may measure, and so may hold the lock for as long as they like."""
    code = "import fcntl, os, sys, time; held = os.open(sys.argv[1], 0); os.setuid(65534)"
    code += "; fcntl.flock(held, 2); print(flush=True); time.sleep(60)"
    command = [sys.executable, "-I", "-S", "-c", code, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Busy, match=rf"\(pid {holder.pid} of nobody, "), machine_lock():
            pass
        holder.kill()
        holder.wait()
        with machine_lock():
            pass


def test_the_tests_lock_is_for_what_a_test_started_alone(
    beside: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left in a user's environment, it lets nobody measure beside others."""
    monkeypatch.setenv(TEST_LOCK, f"{beside.pid}/x")
    with pytest.raises(Busy), machine_lock():
        pass
    monkeypatch.setenv(TEST_LOCK, f"{os.getppid()}/x")
    with machine_lock():
        pass


def test_any_number_of_refusals_is_answered_at_once(folder: Path) -> None:
    """Their connections fill the listener's queue, and the next would wait for the holder's end."""
    with machine_lock(), ExitStack() as stack:
        (other := folder / "other").mkdir()
        machine_lock_module._FOLDERS = (str(other),)
        for _ in range(300):
            asking = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            asking.setblocking(False)
            asking.connect_ex(machine_lock_module._SOCKET)
        with pytest.raises(Busy, match="it cannot be seen from here"), machine_lock():
            pass


def test_the_lock_goes_with_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEST_LOCK, f"{os.getpid()}/of-the-lock")
    words = rf"another memlab measures on this machine \(pid {os.getpid()} of "
    with machine_lock(), pytest.raises(Busy, match=words), machine_lock():
        pass
    with machine_lock():
        pass


def test_a_holder_that_does_not_answer_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEST_LOCK, f"{os.getpid()}/of-the-lock")
    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind(f"\0memlab-test-{os.getpid()}/of-the-lock")  # bound, not listening yet
        with pytest.raises(Busy, match="it cannot be seen from here"), machine_lock():
            pass
