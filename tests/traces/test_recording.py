"""A program with prime numbers of pages, recorded: the trace and its replay have each of them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import needs
import pytest
from click.testing import CliRunner
from processes import processes
from unprivileged import without_capabilities

from memlab.cli import cli
from memlab.command import request as asked
from memlab.errors import BadTrace, CannotRun, HostError
from memlab.files import packed
from memlab.observe import tracefs
from memlab.trace import account, file, recording

from .made import (
    ADVISE,
    EXEC,
    MAP,
    PAGE,
    READ,
    STATE_END,
    TASK,
    UNMAP,
    WRITE,
    await_followers,
    limited_processes,
    records,
    replay,
)

MAPPED, TOUCHED, READS, FREED, AGAIN, COPIED, OF_FILE, SHARED = 1009, 401, 53, 97, 61, 83, 67, 89
PROGRAM = f"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
enum {{ PAGE = 4096 }};
static volatile char *anywhere(long pages, int flags, int fd)
{{
    int rights = fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    return mmap(NULL, pages * PAGE, rights, flags, fd, 0);
}}
int main(int count, char **words)
{{
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* of one that is followed later */
    volatile char *a = anywhere({MAPPED}, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    volatile char *s = anywhere({MAPPED}, MAP_SHARED | MAP_ANONYMOUS, -1);
    volatile char *f = anywhere({OF_FILE} * 16, MAP_PRIVATE, open(words[1], O_RDONLY));
    char sum = 0;
    for (int i = 0; i < {TOUCHED}; i++)
        a[i * PAGE] = 1;
    for (int i = 0; i < {READS}; i++)
        sum += a[({MAPPED} - 1 - i) * PAGE];
    madvise((void *)a, {FREED} * PAGE, MADV_DONTNEED);
    for (int i = 0; i < {AGAIN}; i++)
        a[i * PAGE] = 1;
    for (int i = 0; i < {OF_FILE}; i++)
        sum += f[i * 16 * PAGE];
    for (int i = 0; i < {SHARED}; i++)
        s[i * PAGE] = 1;
    if (!fork()) {{
        for (int i = 0; i < {COPIED}; i++)
            a[({TOUCHED} - 1 - i) * PAGE] = 2;
        for (int i = 0; i < {SHARED}; i++)
            s[i * PAGE] = 2;
        _exit(0);
    }}
    wait(NULL);
    printf("%lx %lx %lx %d\\n", (long)a, (long)s, (long)f, sum);
    fflush(stdout);
    if (count > 2) {{ /* wait to be followed */
        getchar();
        for (int i = 0; i < {AGAIN}; i++)
            a[({TOUCHED} + i) * PAGE] = 1;
        getchar();
    }}
    return 0;
}}
"""


@pytest.fixture(scope="module", autouse=True)
def _allowed() -> None:
    needs.of("recording")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("program")
    (folder / "primes.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", "primes", "primes.c"], cwd=folder, check=True)
    data = folder / "data"
    data.write_bytes(b"x" * OF_FILE * 16 * PAGE)
    return [str(folder / "primes"), str(data)]


def memlab(*words: str, **how: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memlab", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **how)  # type: ignore[call-overload,no-any-return]


def recorded(tmp_path: Path, *words: str, status: int = 0) -> tuple[Path, str]:
    path = tmp_path / "a.trace"
    done = memlab("record", "-o", str(path), *words)
    assert done.returncode == status, done.stderr
    return path, done.stdout


@pytest.fixture(scope="module")
def primes(program: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The program's trace, recorded once, and what was said."""
    return recorded(tmp_path_factory.mktemp("primes"), "--", *program)


def check_replay(path: Path) -> None:
    """Each touch is a fault again, but of pages of files: around one that is read the kernel maps
    what the page cache has, which is all in a replay and need not be in a recording."""
    done, of_files = replay(path), account.of(file.read(path)).reads["file"]
    assert (done.status, done.refused) == (0, 0)
    assert done.touches - done.passed - of_files <= done.faults <= done.touches - done.passed


def touches(path: Path, at: int, pages: int) -> Counter[tuple[int, int]]:
    """How many in a range, by kind and task."""
    return Counter(
        (record.kind, record.task)
        for record in records(path)
        if record.kind in (READ, WRITE) and at <= record.address < at + pages * PAGE
    )


def test_prime_numbers_of_pages_are_in_the_trace_and_in_the_replay(
    program: list[str], primes: tuple[Path, str]
) -> None:
    path, said = primes
    anonymous, shared, of_file = (int(word, 16) for word in said.splitlines()[0].split()[:3])
    assert touches(path, anonymous, MAPPED) == {
        (WRITE, 0): TOUCHED + AGAIN, (READ, 0): READS, (WRITE, 1): COPIED
    }  # fmt: skip
    assert touches(path, shared, MAPPED) == {(WRITE, 0): SHARED, (WRITE, 1): SHARED}
    windows = touches(path, of_file, OF_FILE * 16)
    assert set(windows) == {(READ, 0)}
    trace = file.read(path)
    assert (trace.lost, trace.late, trace.incomplete) == (0, 0, "")
    found = account.of(trace)
    assert found.calls["thp_disable"] == 1
    assert found.given_back["anonymous"] >= FREED
    assert found.touched_again["anonymous"] >= AGAIN
    assert found.copied["anonymous"] >= COPIED
    assert (found.processes, found.threads) == (2, 0)
    assert sum(pages for number, pages in found.files) >= OF_FILE
    assert program[1] in file.file_names(trace)
    check_replay(path)


@pytest.mark.parametrize("lock", ["current", "future", "future_onfault"])
def test_the_replay_under_a_lock_brings_in_what_is_mapped(
    primes: tuple[Path, str], lock: str
) -> None:
    """Under MCL_FUTURE all of the two mappings and the file is there before it is touched."""
    needs.of("lock any amount")
    path, _ = primes
    without, locked = replay(path), replay(path, lock=lock)
    assert locked.status == 0
    if lock == "current":  # before main, when none of them was there
        assert locked.refused == 0
        return
    assert locked.refused == 1  # MADV_DONTNEED, of locked memory
    if lock == "future_onfault":
        assert locked.faults == without.faults - AGAIN
        return
    untouched = 2 * MAPPED - TOUCHED - READS - SHARED
    assert locked.faults >= without.faults - AGAIN + untouched


@pytest.mark.slow
def test_a_process_that_does_nothing_was_followed_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with subprocess.Popen(["sleep", "1000"]) as live:
        try:
            done = memlab("record", "--seconds", "1", "-o", str(path), str(live.pid))
        finally:
            live.kill()
    assert done.returncode == 0, done
    assert file.read(path).elapsed_s >= 1


def test_a_live_process_is_recorded_with_what_is_there(program: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with subprocess.Popen(
        [*program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as live:
        assert live.stdin is not None
        assert live.stdout is not None
        anonymous, shared, _ = (int(word, 16) for word in live.stdout.readline().split()[:3])
        recorder = subprocess.Popen(
            [sys.executable, "-m", "memlab", "record", "-o", path, "--json", str(live.pid)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert await_followers(recorder)
        live.stdin.write("\n")
        live.stdin.flush()
        _await_touches(live.pid, anonymous + TOUCHED * PAGE)
        recorder.send_signal(signal.SIGTERM)
        said = json.loads(recorder.communicate(timeout=300)[0])
        live.stdin.close()
    assert said["incomplete"] is None
    there = TOUCHED - (FREED - AGAIN)
    assert touches_before(path, anonymous, TOUCHED) == there
    assert touches(path, anonymous, TOUCHED) == {(WRITE, 0): there}
    assert touches(path, anonymous + TOUCHED * PAGE, AGAIN) == {(WRITE, 0): AGAIN}
    assert touches(path, shared, MAPPED) == {(WRITE, 0): SHARED}
    zeros = touches(path, anonymous + (MAPPED - READS) * PAGE, READS)
    assert zeros == {(READ, 0): READS}  # the page of zeros, as that of pages that were written
    done = replay(path)
    assert (done.status, done.refused) == (0, 0)
    shown = memlab("show", "--json", "-o", str(tmp_path / "figures"), str(path))
    assert json.loads(shown.stdout)["live"] is True


def touches_before(path: Path, at: int, pages: int) -> int:
    """How many pages of a range were there at the start."""
    count = 0
    for record in records(path):
        if record.kind == STATE_END:
            return count
        count += record.kind == WRITE and at <= record.address < at + pages * PAGE
    raise AssertionError("the state of the start has no end")


def _await_touches(pid: int, address: int) -> None:
    """Until the last of AGAIN pages is there (proc_pid_pagemap(5))."""
    deadline = time.monotonic() + 300
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        while time.monotonic() < deadline:
            pagemap.seek((address // PAGE + AGAIN - 1) * 8)
            if int.from_bytes(pagemap.read(8), "little") >> 63:
                return
            time.sleep(0.01)
    raise AssertionError("the program does not go on")


def test_names_are_dropped_where_asked(program: list[str], tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, "--redact", "--", *program)
    with path.open("rb") as opened, packed.plain(opened) as plain:
        content = path.read_bytes() + plain.read_bytes()
    for name in ("primes", "libc", program[1]):
        assert name.encode() not in content
    done = replay(path)
    assert (done.status, done.refused) == (0, 0)


def test_programs_that_a_shell_starts_are_followed(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, "--", "sh", "-c", "true | cat; (exit 0); exec true")
    kinds = Counter(record.kind for record in records(path))
    assert kinds[EXEC] >= 2  # cat and the last one; true may be the shell's own
    assert kinds[TASK] >= 3
    check_replay(path)


@pytest.mark.needs("root", "a mount namespace")
def test_programs_that_a_shell_starts_in_a_container_are_followed(tmp_path: Path) -> None:
    """In its PID namespace their PIDs differ from the first namespace's: the trace lacked all that
    they did, and was called complete."""
    path = tmp_path / "a.trace"
    memlab = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "memlab"]
    shell = ["sh", "-c", "true | cat; (exit 0); exec true"]
    subprocess.run([*memlab, "record", "-o", path, "--", *shell], check=True, capture_output=True)
    kinds = Counter(record.kind for record in records(path))
    assert kinds[EXEC] >= 2
    assert kinds[TASK] >= 3
    check_replay(path)


def test_threads_are_followed_and_their_order_is_kept(tmp_path: Path) -> None:
    churn = (
        "import threading\n"
        "def churn():\n    for _ in range(20): bytearray(2 << 20)\n"
        "threads = [threading.Thread(target=churn) for _ in range(3)]\n"
        "[one.start() for one in threads]; [one.join() for one in threads]\n"
    )
    path, _ = recorded(tmp_path, "--", sys.executable, "-c", churn)
    assert account.of(file.read(path)).threads >= 3
    kinds = Counter(record.kind for record in records(path))
    assert kinds[MAP] > 0
    assert kinds[UNMAP] + kinds[ADVISE] > 0
    done = replay(path)
    assert (done.status, done.refused) == (0, 0)


# In the recorded program: memlab has started the recorder, and the two processes of the launcher.
FINDS_RECORDER = """
import os, signal, time
def parent_of(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]
memlab = parent_of(parent_of(os.getppid()))
recorder, = [
    int(pid) for pid in open(f"/proc/{memlab}/task/{memlab}/children").read().split()
    if open(f"/proc/{pid}/cmdline").read().split("\\0")[0].endswith("launch/record")
]
"""


# The recorder is stopped meanwhile: however fast it reads, it does not. What was lost is said with
# the next event, once the recorder has slept some times, and so has read all.
OVERFLOWS = f"""{FINDS_RECORDER}
def slept():
    status = open(f"/proc/{{recorder}}/status").read()
    return int(status.partition("\\nvoluntary_ctxt_switches:")[2].split()[0])
os.kill(recorder, signal.SIGSTOP)
for _ in range(9):
    bytearray(64 << 20)
before = slept()
os.kill(recorder, signal.SIGCONT)
while slept() < before + 5:
    time.sleep(0.01)
bytearray(64 << 20)
"""


# The recorder reads on when the program has ended, and no event comes any more.
LAST = 4099
_RELEASE = tuple(int(word) for word in re.findall(r"\d+", os.uname().release)[:2])
OVERFLOWS_LAST = f"""{FINDS_RECORDER}
import ctypes, mmap
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
pages = mmap.mmap(-1, {LAST} * {PAGE})
at = ctypes.addressof(ctypes.c_char.from_buffer(pages))
print(os.getpid(), recorder, at, flush=True)
os.kill(recorder, signal.SIGSTOP)
for page in range({LAST}):
    pages[page * {PAGE}] = 1
"""


HUGE_PLACES = 3
ASKS_FOR_HUGE = f"""
#include <stdio.h>
#include <sys/mman.h>
int main(void)
{{
    const long huge = 2 << 20;
    char *at = mmap(NULL, {HUGE_PLACES + 1} * huge, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at = (char *)(((long)at + huge - 1) & -huge);
    madvise(at, {HUGE_PLACES} * huge, MADV_HUGEPAGE);
    for (long i = 0; i < {HUGE_PLACES} * 512; i++)
        ((volatile char *)at)[i * 4096] = 1;
    printf("%lx\\n", (long)at);
    return 0;
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("keep", [False, True], ids=["small", "huge"])
def test_huge_pages_hide_touches_where_they_are_kept(tmp_path: Path, keep: bool) -> None:
    """Without them each page is in the trace. With them a huge page that the host had to give is
    one touch, and the trace says that there are others; how many it had is the host's to say."""
    (tmp_path / "huge.c").write_text(ASKS_FOR_HUGE)
    subprocess.run(["cc", "-O1", "-o", "huge", "huge.c"], cwd=tmp_path, check=True)
    words = ["--keep-huge-pages"] if keep else []
    path, said = recorded(tmp_path, *words, "--", str(tmp_path / "huge"))
    found = touches(path, int(said.splitlines()[0], 16), HUGE_PLACES * 512)
    assert set(found) == {(WRITE, 0)}
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    allowed = enabled.exists() and "[never]" not in enabled.read_text()
    assert file.read(path).huge is (keep and allowed)
    if keep and allowed:
        assert HUGE_PLACES <= found[WRITE, 0] <= HUGE_PLACES * 512
    else:
        assert found[WRITE, 0] == HUGE_PLACES * 512


ENABLES_HUGE = "import ctypes, sys; ctypes.CDLL(None).prctl(41, int(sys.argv[1]), 0, 0, 0)"


@pytest.mark.slow
@pytest.mark.parametrize("disabled", [0, 1])
def test_a_program_that_allows_itself_huge_pages_is_not_without_them(
    disabled: int, tmp_path: Path
) -> None:
    """PR_SET_THP_DISABLE of 0, prctl(2), which the command was started with 1 of."""
    path, _ = recorded(tmp_path, "--", sys.executable, "-c", ENABLES_HUGE, str(disabled))
    trace = file.read(path)
    assert trace.small_pages is bool(disabled)
    assert trace.huge is (not disabled and trace.huge_setting == "always")


@pytest.mark.slow
def test_too_small_a_buffer_loses_events_and_the_trace_says_so(tmp_path: Path) -> None:
    path, said = recorded(tmp_path, "--buffer", "64K", "--", sys.executable, "-c", OVERFLOWS)
    trace = file.read(path)
    assert trace.lost > 0
    assert f"incomplete: {trace.lost:,} events found no room" in said
    request = asked.command([str(path)], {"lock": ["off"]})
    assert f"a.trace (incomplete: {trace.lost:,} events" in (request.subject or {})["trace"]


@pytest.mark.skipif(_RELEASE < (6, 0), reason="PERF_FORMAT_LOST is of Linux 6.0")
def test_what_the_last_events_of_a_program_lose_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    words = ["record", "--buffer", "64K", "-o", str(path), "--", sys.executable, "-c"]
    with subprocess.Popen(
        [sys.executable, "-m", "memlab", *words, OVERFLOWS_LAST], stdout=subprocess.PIPE, text=True
    ) as recording_it:
        assert recording_it.stdout is not None
        program, recorder, at = map(int, recording_it.stdout.readline().split())
        try:
            _await_end(program)
        finally:
            os.kill(recorder, signal.SIGCONT)
        said = recording_it.communicate(timeout=300)[0]
    lost = file.read(path).lost
    assert lost > 0
    assert f"incomplete: {lost:,} events found no room" in said
    assert touches(path, at, LAST).total() + lost >= LAST


def _await_end(pid: int) -> None:
    """Wait until a process has ended, whether or not its parent has waited for it."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it may end between open and read
            return
        if status.rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError("the program does not end")


@pytest.mark.slow
def test_a_command_that_ends_at_once_fails_or_is_none(tmp_path: Path) -> None:
    path, said = recorded(tmp_path, "--", "false", status=1)
    assert "exit status 1" in said
    assert file.read(path).records > 0
    (tmp_path / "none").write_text("#!/no/such/interpreter\n")
    (tmp_path / "none").chmod(0o755)
    done = memlab("record", "-o", str(tmp_path / "b.trace"), "--", str(tmp_path / "none"))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "cannot be started" in done.stderr
    assert not (tmp_path / "b.trace").exists()


def test_the_time_of_a_command_may_be_bounded(tmp_path: Path) -> None:
    _, said = recorded(tmp_path, "--seconds", "0.2", "--", "sleep", "300")
    assert "SIGTERM" in said


@pytest.mark.slow
def test_what_a_command_started_ends_with_its_time(tmp_path: Path) -> None:
    script = "for i in 1 2 3 4 5 6 7; do sleep 300.1711 & done; wait"
    recorded(tmp_path, "--seconds", "0.5", "--", "sh", "-c", script)
    assert processes(r"^sleep 300\.1711") == []


@pytest.mark.slow
def test_one_that_forks_for_ever_is_killed_and_the_trace_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops by itself a little later, whatever becomes of the recorder."""
    monkeypatch.setattr(recording, "PROCESSES_MOST", 61)
    script = "for i in $(seq 400); do sleep 60.1713 & done; wait"
    path = tmp_path / "a.trace"
    assert recording.record(path, command=["sh", "-c", script]).signal == signal.SIGKILL
    assert processes(r"^sleep 60\.1713") == []
    trace = file.read(path)
    assert trace.incomplete == "more than 61 processes ran at once: the command forks for ever"
    assert account.of(trace).tasks_at_once > 61


FORKS = """
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int made[64], count = 0;
    while (count < 64 && (made[count] = fork()) >= 0) {
        if (!made[count])
            for (;;)
                pause();
        count++;
    }
    printf("%d\\n", count);
    for (int i = 0; i < count; i++)
        kill(made[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    return 0;
}
"""


@pytest.mark.slow
def test_a_command_that_may_start_no_more_processes_is_recorded_as_it_was(tmp_path: Path) -> None:
    """What a limit refused it is not in the trace; one that leaves no room for it is a line."""
    (tmp_path / "forks.c").write_text(FORKS)
    subprocess.run(["cc", "-o", "forks", "forks.c"], cwd=tmp_path, check=True)
    path, environ = tmp_path / "a.trace", {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "memlab", "record", "-o", path, "--", tmp_path / "forks"]
    how = {"capture_output": True, "text": True, "timeout": 120, "env": environ}
    with limited_processes(11) as enter:
        done = subprocess.run([*enter, *command], **how, check=False)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    made = sum(record.kind == TASK for record in records(path))
    assert made == int(done.stdout.splitlines()[0])
    assert 1 <= made < 11
    found = replay(path)
    assert (found.status, found.refused) == (0, 0)
    path.unlink()
    with limited_processes(2) as enter:
        done = subprocess.run([*enter, *command], **how, check=False)  # type: ignore[call-overload]
    assert done.returncode == 3
    assert "pids.max" in done.stderr.splitlines()[-1]
    assert not path.exists()


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_what_cannot_be_accounted_for_is_recorded(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(trace: file.Trace) -> None:
        raise BadTrace(f"{trace.path}: too much")

    monkeypatch.setattr(account, "of", failed)
    path = tmp_path / "a.trace"
    ended = CliRunner().invoke(cli, ["record", *words, "-o", str(path), "true"])
    assert ended.exit_code == 0, ended.output
    lacks = f"memlab: how much of the program is covered is not known: {path}: too much\n"
    assert lacks in ended.stderr
    count = file.read(path).records
    assert (f'"records": {count}' if words else f"{path}: {count:,} records, ") in ended.stdout


def test_a_kernel_without_tracepoints_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise FileNotFoundError(2, "No such file or directory", "events/exceptions")

    monkeypatch.setattr(tracefs, "opened", missing)
    with pytest.raises(CannotRun, match="no tracepoint to record with"):
        recording._events()


@pytest.mark.parametrize("pid", ["4194304", "9" * 30, "9" * 5000], ids=len)
def test_a_process_that_is_none_is_a_line(pid: str, tmp_path: Path) -> None:
    done = memlab("record", "-o", str(tmp_path / "a.trace"), pid)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_without_privileges_a_line_says_what_is_missing(tmp_path: Path) -> None:
    command = [*without_capabilities(), sys.executable, "-m", "memlab", "record"]
    done = subprocess.run(
        [*command, "-o", tmp_path / "a.trace", "--", "true"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "root" in done.stderr
    assert not (tmp_path / "a.trace").exists()


def test_another_layout_of_a_tracepoint_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefs.TraceEvents, "fields", lambda self, event: {"address": (16, 8)})
    with pytest.raises(HostError, match="lays out"):
        recording._events()


@pytest.mark.slow
def test_runs_are_recorded_one_by_one_and_the_first_failure_is_passed_on(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    counter.write_text("0")
    script = f"n=$(($(cat {counter}) + 1)); echo $n > {counter}; exit $((n % 3))"
    words = ["record", "--runs", "3", "-o", str(tmp_path / "a.trace")]
    done = memlab(*words, "--json", "--", "sh", "-c", script)
    assert done.returncode == 1, done.stderr
    shown = json.loads(done.stdout)
    names = [str(tmp_path / f"a{number}.trace") for number in (1, 2, 3)]
    assert [(one["path"], one["status"]) for one in shown] == [*zip(names, (1, 2, 0), strict=True)]
    assert len({file.read(Path(name)).sum for name in names}) == 3
    done = memlab(*words, "1")
    assert (done.returncode, "--runs and --check repeat a command" in done.stderr) == (2, True)


@pytest.mark.slow
def test_a_check_sets_the_replay_beside_the_command_itself(
    program: list[str], tmp_path: Path
) -> None:
    """The command's numbers are the kernel's: wait4(2), and a count at its tracepoint."""
    path = tmp_path / "a.trace"
    done = memlab("record", "--check", "--json", "-o", str(path), "--", *program)
    assert done.returncode == 0, done.stderr
    faults, peak, calls = json.loads(done.stdout)["check"]
    assert (calls["metric"], calls["replayed"]) == ("calls", calls["live"])
    assert calls["live"] > 3
    assert faults["live"] > TOUCHED + READS + AGAIN + COPIED
    assert faults["metric"] == "page faults"
    assert abs(faults["replayed"] - faults["live"]) < 0.1 * faults["live"]
    assert peak["live"] > (TOUCHED + SHARED) * PAGE
    trace = file.read(path)
    assert trace.errors.keys() == {"page faults", "peak resident memory", "calls"}
    assert trace.errors["calls"] == 0
    assert account.of(trace).processes == 2
    for words in (["--seconds", "1"], ["--keep-huge-pages"]):
        done = memlab("record", "--check", *words, "-o", str(path), "--", "true")
        assert (done.returncode, "compares whole runs" in done.stderr) == (2, True)
