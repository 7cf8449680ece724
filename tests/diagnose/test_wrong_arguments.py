"""What cannot be looked at: one line that says why, the right exit code, and no traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import unprivileged
from command import memlab

from memlab.diagnose import call_arguments, diagnosis, family, look, subject
from memlab.errors import CannotLook
from memlab.observe import process

from .live import Compiled, running
from .test_counters import tell

USAGE, CANNOT_RUN = 2, 3


def refused(*arguments: str) -> tuple[int, str]:
    done = memlab("diagnose", *arguments)
    assert done.stdout == ""
    assert done.stderr.startswith("memlab: ")
    assert done.stderr.count("\n") == 1
    return done.returncode, done.stderr


def a_kernel_thread() -> str:
    """Process 2 is kthreadd wherever processes of the kernel are seen."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and process.stat(int(entry.name)).kernel_thread:
            return entry.name
    pytest.skip("no kernel thread is seen from this PID namespace")


def test_a_kernel_thread() -> None:
    status, line = refused(a_kernel_thread())
    assert status == USAGE
    assert "is a kernel thread: it has no memory of its own" in line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--last-kill --machine", "--last-kill reads the kernel's log, and takes no --machine"),
        ("7 --last-kill --used 3s", "the kernel's log, and takes no --used, 7"),
        ("7 --every 2", "--every is the interval of --watch: add --watch TRIGGER"),
        ("--group self --every 2", "--every is the interval of --watch: add --watch TRIGGER"),
        ("--machine --used 3s", "--machine is looked at once: without --full, --used and --watch"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(words: str, line: str) -> None:
    status, text = refused(*words.split())
    assert status == USAGE
    assert line in text


@pytest.mark.parametrize("pid", ["0", "9" * 30, "9" * 5000], ids=len)
def test_a_group_of_no_process(pid: str) -> None:
    status, line = refused("--group", f"of:{pid}")
    assert (status, line[: len("memlab: --group of:")]) == (USAGE, "memlab: --group of:")


@pytest.mark.parametrize("group", ["", " ", ".", "./", ".."])
def test_no_group_is_not_the_whole_machine(group: str) -> None:
    """As of a shell's variable that is not set."""
    assert refused("--group", group) == (
        USAGE,
        f"memlab: --group {group!r} names no group: a path, self or of:PID\n",
    )


def test_a_number_in_other_digits_is_no_pid() -> None:
    status, line = refused("\u0663")
    assert (status, "no process has that name" in line) == (USAGE, True)


def test_a_thread_names_its_process() -> None:
    found: list[int] = []
    go = threading.Event()

    def wait() -> None:
        found.append(threading.get_native_id())
        go.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        while not found:
            pass
        status, line = refused(str(found[0]))
    finally:
        go.set()
        thread.join()
    assert status == USAGE
    assert f"{found[0]} is a thread of process {os.getpid()}: diagnose that" in line


def test_a_process_that_has_ended_and_waits_to_be_reaped() -> None:
    child = subprocess.Popen(["true"])
    while process.stat(child.pid).state != "Z":
        pass
    status, line = refused(str(child.pid))
    child.wait()
    assert status == CANNOT_RUN
    assert "has ended" in line


@pytest.mark.seconds
def test_a_process_that_ends_while_it_is_looked_at(binary: Compiled) -> None:
    with running(binary("steady"), "1") as program:
        look = subprocess.Popen(
            [sys.executable, "-m", "memlab", "diagnose", str(program.pid), "--seconds", "60"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # It waits in poll(2) on the process's pidfd: then it looks.
        while not waits_for(look.pid):
            assert look.poll() is None
        program.kill()
        out, err = look.communicate(timeout=300)
    assert (look.returncode, out) == (CANNOT_RUN, "")
    assert err == f"memlab: process {program.pid} (steady) ended while it was looked at\n"


@pytest.mark.seconds
@pytest.mark.needs("recording")
def test_a_process_that_ends_when_the_look_is_over_keeps_it(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arguments of its failing calls are recorded behind the look: they alone are lost."""
    run, record = look.Series.run, call_arguments.read

    with running(binary("refused_calls")) as program:

        def failing(series: look.Series) -> None:
            run(series)
            tell(program, "w")

        def ending(events: Any, failing: Any, wanted: Any, wait: Any) -> Any:
            def end(seconds: float) -> None:
                program.kill()
                program.wait()
                wait(seconds)

            return record(events, failing, wanted, end)

        monkeypatch.setattr(look.Series, "run", failing)
        monkeypatch.setattr(call_arguments, "read", ending)
        found = diagnosis.of(program.pid, 0.1)
    assert program.returncode == -signal.SIGKILL
    (said,) = (one for one in found.findings if one.kind == "write ENOSPC")
    assert "fail with ENOSPC" in said.title
    assert ("arguments of its failing calls", "it ended when the look was over") in [
        (one.name, one.reason) for one in found.not_looked_at
    ]


@pytest.mark.slow
def test_a_process_may_end_before_any_read(binary: Compiled) -> None:
    """Whichever it was: an ordinary user meets EACCES then, where root meets ENOENT or nothing."""
    script = Path(__file__).with_name("ends_at_each_read.py")
    words = [sys.executable, str(script), str(binary("steady"))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.stderr == ""
    line = re.fullmatch(r"([0-9]+) reads\n", done.stdout)
    assert line, done.stdout
    assert int(line[1]) > 20


def test_a_process_that_ends_is_named_whatever_a_read_said(binary: Compiled) -> None:
    def refused_at_the_end(program: subprocess.Popen[str]) -> None:
        with subject.held(program.pid):
            program.kill()
            raise PermissionError("as /proc/PID/environ of a process without memory")

    with (
        running(binary("steady"), "1") as program,
        pytest.raises(CannotLook, match="ended while it was looked at"),
    ):
        refused_at_the_end(program)


def test_a_process_that_may_no_longer_be_read_is_named(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has become a program with other rights (execve(2), set-user-ID)."""
    monkeypatch.setattr(subject, "_ENDING_S", 0)
    with (
        running(binary("steady"), "1") as program,
        pytest.raises(CannotLook, match=r"\(steady\) may no longer be read"),
        subject.held(program.pid),
    ):
        raise PermissionError


def waits_for(pid: int) -> bool:
    """Whether a process holds a pidfd, and sleeps."""
    held = False
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            held = held or "pidfd" in str(entry.readlink())
    return held and process.stat(pid).state == "S"


def test_a_process_whose_number_another_has_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reading of /proc and the pidfd, which from then on holds the process."""
    monkeypatch.setattr(subject, "_began", lambda _: 7)
    with pytest.raises(CannotLook, match=r"ended, and another has its number$"):
        diagnosis.of(os.getpid(), 0.1)


@pytest.mark.seconds
def test_a_stopped_process_is_seen_as_one(binary: Compiled) -> None:
    with running(binary("steady"), "1") as program:
        program.send_signal(signal.SIGSTOP)
        while process.stat(program.pid).state != "T":
            pass
        found = diagnosis.of(program.pid, 0.2)
        assert process.stat(program.pid).state == "T"
    assert found.findings[0].name == "stopped"
    assert not found.whole
    assert [one.reason for one in found.not_looked_at if one.name == "what it does"] == [
        "it is stopped"
    ]


@pytest.mark.seconds
@pytest.mark.needs("root", "a mount namespace", "a network namespace")
def test_a_process_in_namespaces_of_its_own() -> None:
    """As in a container: its /proc, its mounts and its PID are others there."""
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sleep", "600"]
    with subprocess.Popen(command) as outer:
        try:
            while not (inside := family.descendants(outer.pid)):
                assert outer.poll() is None
            while process.stat(inside[0]).command != "sleep":
                pass
            done = subprocess.run(
                [sys.executable, "-m", "memlab", "diagnose", str(inside[0]), "--seconds", "0.2"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        finally:
            outer.kill()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"process {inside[0]} (sleep) of root")


def test_a_process_that_may_not_be_read() -> None:
    """Root's own, looked at by a root without capabilities; another user's, by a user."""
    other = os.getpid() if os.geteuid() == 0 else 1
    done = unprivileged.powerless("-m", "memlab", "diagnose", str(other), "--seconds", "1")
    assert (done.returncode, done.stdout) == (CANNOT_RUN, "")
    assert done.stderr.count("\n") == 1
    assert f"process {other} (" in done.stderr
    assert "may not be read: " in done.stderr
    if os.geteuid() == 0:
        assert "CAP_SYS_PTRACE is needed, which root has not here" in done.stderr
