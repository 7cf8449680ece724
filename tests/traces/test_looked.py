"""Whether a recorded program read a setting that a policy changes: that it did, that it did not, or
that it is not known."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest
from pids_group import removed

from memlab.experiment.huge_pages import THP
from memlab.observe import cgroup
from memlab.trace import file, recording

pytestmark = pytest.mark.needs("recording", "readers of settings")
HUGE = Path(f"{THP}/enabled")
LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")


def recorded(path: Path, *command: str) -> tuple[bool | None, bool | None]:
    """Whether the huge page setting and a memory limit were read."""
    recording.record(path, command=command)
    trace = file.read(path)
    assert f"[{trace.huge_setting}]" in HUGE.read_text()
    return trace.looked_at_huge, trace.looked_at_limit


def python(program: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", program]


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup with a memory limit beside this process's."""
    needs.of("readers of cgroups")
    path = cgroup.chain("memory")[1][0] / f"memlab-test-read-{os.getpid()}"
    try:
        path.mkdir()
    except (PermissionError, FileNotFoundError) as error:
        pytest.skip(f"needs a memory cgroup that this user may make: {error}")
    try:
        if not any((path / name).exists() for name in LIMITS):
            pytest.skip("needs a memory controller that is passed on")
        yield path
    finally:
        removed(path)


def limit_of(group: Path) -> Path:
    return next(group / name for name in LIMITS if (group / name).exists())


@pytest.mark.seconds(but="itself-memory limit")
@pytest.mark.parametrize("limit", [False, True], ids=["huge pages", "memory limit"])
@pytest.mark.parametrize("by", ["itself", "a child", "a thread", "500 threads", "another"])
def test_who_reads_a_setting_that_a_policy_changes_is_known(
    limit: bool, by: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Even of a child that does nothing else; not of a process beside the command."""
    setting = limit_of(request.getfixturevalue("group")) if limit else HUGE
    reads = f"open({str(setting)!r}).read()"
    threads = f"""
import threading
all = [threading.Thread(target=lambda: {reads}) for _ in range({500 if "500" in by else 1})]
for one in all: one.start()
for one in all: one.join()
"""
    program = {
        "itself": reads,
        "a child": f"import os\nif not os.fork(): {reads}; os._exit(0)\nos.wait()",
        "another": "import os\nfor _ in range(20): os.wait() if os.fork() else os._exit(0)",
    }.get(by, threads)
    stop = threading.Event()

    def read_on() -> None:
        while not stop.wait(0.001):
            setting.read_bytes()

    beside = threading.Thread(target=read_on)
    if by == "another":
        beside.start()
    try:
        result = recorded(tmp_path / "a.trace", *python(program))
    finally:
        stop.set()
        if by == "another":
            beside.join()  # the group that it reads in is removed
    assert result[limit] is (by != "another")
    if needs.lacking("readers of cgroups") == "":
        assert result[not limit] is False


@pytest.mark.needs("a mount namespace")
def test_a_setting_is_known_by_another_path(tmp_path: Path) -> None:
    script = f"mount --bind {THP} /mnt && cat /mnt/enabled >/dev/null"
    huge, limit = recorded(tmp_path / "a.trace", "unshare", "-m", "sh", "-c", script)
    assert huge
    assert not limit


def test_the_limit_of_a_group_that_is_entered_is_read(tmp_path: Path, group: Path) -> None:
    """And one that is only set is not."""
    enter = f"echo $$ >{group}/cgroup.procs"
    result = recorded(tmp_path / "a.trace", "sh", "-c", f"{enter}; read limit <{limit_of(group)}")
    assert result == (False, True)
    result = recorded(tmp_path / "a.trace", "sh", "-c", f"{enter}; echo 1G >{limit_of(group)}")
    assert result == (False, False)


def test_what_v1_says_of_the_limits_of_all_above_is_a_limit(tmp_path: Path, group: Path) -> None:
    is_v1 = (group / "memory.limit_in_bytes").exists()
    result = recorded(tmp_path / "a.trace", "sh", "-c", f"read line <{group}/memory.stat")
    assert result == (False, is_v1)


@pytest.mark.slow
@pytest.mark.needs("a network namespace", "a mount namespace")
@pytest.mark.parametrize("by", ["unshare", "clone", "setns"])
def test_in_another_network_namespace_it_is_not_known(by: str, tmp_path: Path) -> None:
    """It has a sysfs of its own, and so another file of the setting."""
    script = f"mount -t sysfs none /sys; cat {HUGE} >/dev/null"
    words = ["unshare", "-mn", "sh", "-c", script]
    inside = subprocess.Popen(["unshare", "-mn", "sh", "-c", f"{script}; echo; exec sleep 300"],
                              stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert inside.stdout
        inside.stdout.readline()
        if by == "setns":
            words = ["nsenter", "-t", str(inside.pid), "-m", "cat", str(HUGE)]
        elif by == "clone":  # CLONE_NEWNET | CLONE_NEWNS | SIGCHLD
            program = f"""
import ctypes, os
if not ctypes.CDLL(None).syscall(56, 0x40020011, 0, 0, 0, 0):
    os.execlp("sh", "sh", "-c", "mount --make-rprivate /; " + {script!r})
os.wait()
"""
            words = python(program)
        huge, _ = recorded(tmp_path / "a.trace", *words)
    finally:
        inside.kill()
        inside.communicate()
    assert huge is None


@pytest.mark.slow
def test_without_a_descriptor_left_it_is_not_said_that_nothing_was_read(tmp_path: Path) -> None:
    results = []
    for most in range(16, 40):
        path = tmp_path / f"{most}.trace"
        words = [sys.executable, "-m", "memlab", "record", "-o", path, "cat", HUGE]
        limited = ["sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", *words]
        done = subprocess.run(limited, capture_output=True, timeout=300, check=False)
        if done.returncode == 0:
            results.append(file.read(path).looked_at_huge)
        if results[-1:] == [True]:
            break
    assert results
    assert False not in results
