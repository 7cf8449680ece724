"""memlab try: a small program with known answers under each policy, and commands that go wrong."""

import json
import math
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import needs
import pytest
import unprivileged
import unseen
from command import memlab as memlab_command
from processes import processes

import memlab
from memlab import experiments
from memlab.errors import BadLevels, BadRequest, CannotRun
from memlab.experiment import tried as command
from memlab.experiment.tried.host import SWAP_BYTES
from memlab.files import folders
from memlab.judging import effects
from memlab.judging.compare_levels import compare_levels
from memlab.observe import allocators, available, capabilities, cgroup, proc
from memlab.observe.capabilities import Capability
from memlab.observe.in_force import InForce
from memlab.present import figures
from memlab.present import words as words_of
from memlab.present.screens import answer
from memlab.present.screens import run as run_screen
from memlab.run.fork_server import ForkServer

PAGE = os.sysconf("SC_PAGESIZE")
TOUCHED = 1009  # a prime number, so that no multiple of anything gives it by accident
MAPPED = 4001
MARK = "MEMLAB_CONTAINED=" + 32 * "0"
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words)
{
    long page = sysconf(_SC_PAGESIZE), mapped = atol(words[1]), touched = atol(words[2]);
    char *memory = mmap(NULL, mapped * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 7;
    for (long i = 0; i < touched; i++)
        memory[i * page] = 1;
    usleep(PAUSE_US);
    printf("touched %ld pages\\n", touched);
    return count > 3 ? atoi(words[3]) : 0;
}
"""


@pytest.fixture(scope="module")
def toucher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that maps and touches as many pages as it is asked to."""
    folder = tmp_path_factory.mktemp("toucher")
    return compiled(folder, 60_000)


def compiled(folder: Path, pause_us: int) -> str:
    (folder / "toucher.c").write_text(PROGRAM)
    words = ["cc", "-O1", f"-DPAUSE_US={pause_us}", "-o", "toucher", "toucher.c"]
    subprocess.run(words, cwd=folder, check=True)
    return str(folder / "toucher")


def medians(run: memlab.Run, metric: str) -> dict[tuple[object, ...], float]:
    """By the levels of the policies that are varied."""
    return {
        tuple(s.point.at[name] for name in run.varied): s.medians[metric].estimate
        for s in run.summaries
        if s.medians
    }


def least(run: memlab.Run, metric: str) -> dict[tuple[object, ...], float]:
    """By the levels of the policies that are varied."""
    return {
        tuple(s.point.at[name] for name in run.varied): float(run.values(metric, s.point).min())
        for s in run.summaries
    }


def outcomes(run: memlab.Run) -> list[str]:
    return [sample.outcome for sample in run.samples]


@pytest.mark.seconds
@pytest.mark.needs("lock any amount")
def test_page_faults_and_locked_memory_are_those_of_the_program(
    tmp_path: Path, store_path: Path
) -> None:
    """What it holds is looked at now and then: it holds it for long enough on a busy host too.

    Faults are the least of three runs: a fault maps the pages of a file around it too, and leaves
    out each that is locked at that moment (do_fault_around()), and compaction moves pages (see
    tests/traces/made.py): a run may take some more.
    """
    run = memlab.trial(
        [compiled(tmp_path, 400_000), str(MAPPED), "{n}"],
        blocks=3,
        store=store_path,
        n=[0, TOUCHED],
        lock=["off", "future_onfault", "future"],
        thp="never",
        aslr="off",
    )
    locked, rss, pss = (medians(run, m) for m in ("peak_locked", "peak_rss", "peak_pss"))
    faults = least(run, "faults")
    for lock in ("off", "future_onfault"):
        assert faults[TOUCHED_TEXT, lock] - faults["0", lock] == TOUCHED
        assert abs(rss[TOUCHED_TEXT, lock] - rss["0", lock] - TOUCHED * PAGE) < RSS_UNSEEN
        # Its share of libc's pages, some 400, moves as other programs that map them come and go.
        assert abs(pss[TOUCHED_TEXT, lock] - pss["0", lock] - TOUCHED * PAGE) < 256 * PAGE
    # Locked as a whole at mmap: what it touches then takes no fault.
    assert faults[TOUCHED_TEXT, "future"] == faults["0", "future"]
    assert rss["0", "future"] > MAPPED * PAGE - RSS_UNSEEN
    assert locked["0", "off"] == 0
    for lock in ("future", "future_onfault"):  # VmLck is address space, touched or not
        assert MAPPED * PAGE < locked["0", lock] < 2 * MAPPED * PAGE


TOUCHED_TEXT = str(TOUCHED)
RSS_UNSEEN = 2 * 2 * unseen.KIND_BYTES  # file and anonymous, of two runs' difference


@pytest.mark.needs("memory cgroup")
def test_a_limit_of_memory_is_an_outcome_with_the_bytes_reached(
    toucher: str, store_path: Path
) -> None:
    run = memlab.trial(
        [toucher, "12800", "12800"], blocks=1, store=store_path, memory_max=["none", "20M"]
    )
    assert sorted(outcomes(run)) == ["ok", "oom-killed"]
    killed = next(s for s in run.samples if s.outcome == "oom-killed")
    assert killed.raw is not None
    # Who is killed may go over the limit by what it takes while it ends.
    assert abs(killed.raw["group_peak_bytes"] - 20 * 2**20) <= 64 * PAGE
    reached = f"ended it at {killed.raw['group_peak_bytes'] / 2**20:.1f} MiB"
    assert reached in (killed.detail or "")


@pytest.mark.seconds
def test_more_work_is_found_and_the_same_work_is_not(toucher: str, store_path: Path) -> None:
    run = memlab.trial(
        [toucher, "9000", "{n}"],
        blocks=6,
        store=store_path,
        n=[4000, 4600],
        aslr="off",
        thp="never",
    )
    compared = run.summary()
    assert compared["faults"].iloc[1] - compared["faults"].iloc[0] == 600


@pytest.mark.seconds(but="words2-sigrtmin+6-ended by SIGRTMIN+6")
@pytest.mark.parametrize(
    ("words", "outcome", "detail"),
    [
        (["sh", "-c", "echo so; exit 3"], "failed", "exit status 3; it said: so"),
        (["sh", "-c", "kill -SEGV $$"], "sigsegv", "ended by SIGSEGV"),
        (["sh", "-c", "kill -40 $$"], "sigrtmin+6", "ended by SIGRTMIN+6"),  # it has no name
        (["sh", "-c", "kill -INT $$"], "sigint", "ended by SIGINT"),  # which memlab ignores
        (["sh", "-c", "kill -PIPE $$"], "sigpipe", "ended by SIGPIPE"),
        (
            ["sh", "-c", "trap '' TERM; sleep 6173"],
            "timeout",
            "killed after 0.3 s; --for TIME measures what does not end",
        ),
        (["sh", "-c", "yes | head -c 30000000"], "ok", ""),
        (["sh", "-c", "setsid sleep 6173 & exit 0"], "ok", ""),
        (
            ["sh", "-c", "kill -9 $PPID; sleep 6173"],
            "error",
            "the launcher ended without a report",
        ),
        (["sh", "-c", "kill -STOP $PPID"], "ok", ""),
        (["sh", "-c", "test -t 0 || test -t 1 || echo no terminal; cd /; pwd"], "ok", ""),
    ],
)
def test_how_a_command_ends_is_its_outcome(
    words: list[str], outcome: str, detail: str, store_path: Path
) -> None:
    run = memlab.trial(
        words, blocks=1, store=store_path, timeout=0.3 if outcome == "timeout" else 60
    )
    ((said, reason),) = [(s.outcome, words_of.reason(s.detail or "")) for s in run.samples]
    assert said == outcome
    if outcome == "sigsegv":  # what was not read of it depends on the machine
        reason = reason.partition(": ")[0]
    assert reason == detail
    assert eventually(lambda: processes(r"^sleep 6173") == [])


def test_a_script_whose_interpreter_is_missing_says_so(tmp_path: Path, store_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/nope\n")
    script.chmod(0o755)
    run = memlab.trial([str(script)], blocks=1, store=store_path)
    said = f"{script}: the interpreter that it names is not there"
    assert [(s.outcome, s.detail) for s in run.samples] == [("failed", said)]
    assert words_of.nothing_measured(run) == (
        f"nothing was measured: {said}; `memlab show {run.id}` has how each trial ended"
    )


def test_an_interpreter_that_is_a_fifo_is_not_waited_for(tmp_path: Path, store_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    script = tmp_path / "script"
    script.write_text(f"#!{tmp_path}/fifo\n")
    script.chmod(0o755)
    run = memlab.trial([str(script)], blocks=1, store=store_path, lock="future", timeout=5.0)
    assert outcomes(run) == ["failed"]


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ({"cpus": 4096}, "needs 4096 CPUs, and may use "),
        pytest.param(
            {"malloc": "jemalloc:nosuch:1"},
            "<jemalloc>: Invalid conf pair: nosuch:1",
            marks=pytest.mark.needs("jemalloc"),
        ),
        ({"env.LD_PRELOAD": "/nope.so"}, "ERROR: ld.so: object '/nope.so' from LD_PRELOAD cannot"),
    ],
)
def test_a_level_that_would_change_nothing_is_unavailable(
    policies: dict[str, Any], said: str, store_path: Path
) -> None:
    run = memlab.trial(["true"], blocks=1, store=store_path, **policies)
    assert outcomes(run) == ["unavailable"]
    assert said in words_of.reason(run.samples[0].detail or "")


NO_NUMBERS = ["nan", "inf", "1e400", "1e-300", "x"]


@pytest.mark.seconds
def test_what_is_no_number_is_no_metric(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside one that is."""
    monkeypatch.chdir(tmp_path)
    how: dict[str, Any] = {"blocks": 1, "store": store_path}
    printed = memlab.trial(["echo", "{n}"], metrics=["x=(.+)"], n=[*NO_NUMBERS, "7"], **how)
    assert Counter(outcomes(printed)) == {"no-metric": len(NO_NUMBERS), "ok": 1}
    without = memlab.trial(["echo", "1"], metrics=["x=$|(y)"], **how)
    assert outcomes(without) == ["no-metric"]
    deep = "[ $n = deep ] && n=$(printf '[%.0s' $(seq 9000))"
    (tmp_path / "write.sh").write_text(f'n=$1; {deep}; echo {{\\"x\\": $n}} > numbers.json')
    levels = [*NO_NUMBERS, "deep", "7"]
    written = memlab.trial(["sh", "write.sh", "{n}"], metrics=["x@numbers.json"], n=levels, **how)
    assert Counter(outcomes(written)) == {"no-metric": len(levels) - 1, "ok": 1}


def test_its_own_numbers_are_metrics_and_a_run_without_one_is_an_outcome(
    toucher: str, store_path: Path
) -> None:
    run = memlab.trial(
        [toucher, "100", "{n}"],
        metrics=["pages=touched ([0-9]+) pages"],
        blocks=2,
        store=store_path,
        n=[7, 11],
    )
    assert medians(run, "pages") == {("7",): 7, ("11",): 11}
    missing = memlab.trial([toucher, "9", "1"], metrics=["x=no (.)"], blocks=1, store=store_path)
    assert outcomes(missing) == ["no-metric"]


def test_variables_limits_and_allocators_reach_the_command(store_path: Path) -> None:
    words = ["sh", "-c", "echo v=$FOO s=$(ulimit -s) f=$(ulimit -n) n=$(nice) m=$MALLOC_ARENA_MAX"]
    run = memlab.trial(
        words,
        metrics=["v=v=([0-9]+)", "s=s=([0-9]+)", "f=f=([0-9]+)", "n=n=([0-9]+)"],
        blocks=1,
        store=store_path,
        **{"env.FOO": ["41", "43"], "stack": "1M", "nofile": 77, "nice": 5},
    )
    assert medians(run, "v") == {("41",): 41, ("43",): 43}
    assert set(medians(run, "s").values()) == {1024}
    assert set(medians(run, "f").values()) == {77}
    assert set(medians(run, "n").values()) == {5}


@pytest.mark.seconds
def test_a_static_program_cannot_preload_a_lock(tmp_path: Path, store_path: Path) -> None:
    (tmp_path / "static.c").write_text("int main(void) { return 0; }")
    subprocess.run(["cc", "-static", "-o", "static", "static.c"], cwd=tmp_path, check=True)
    script = tmp_path / "script"
    script.write_text(f"#!{tmp_path}/static\n")
    script.chmod(0o755)
    for program in (tmp_path / "static", script):
        run = memlab.trial([str(program)], blocks=1, store=store_path, lock=["off", "future"])
        said = {s.outcome: s.detail for s in run.samples}
        assert said["ok"] == ""
        assert f"{tmp_path}/static is static, and preloads no lock" in said["unavailable"]


@pytest.mark.parametrize(
    ("before", "readings", "outcome"),
    [
        (99, [], None),
        (99, [0] * 9, None),
        (0, [0] * 10, "unavailable"),
        (99, [0] * 10, "unavailable"),
        (99, [4096] + [0] * 10, None),
        (99, [0] * 10 + [4096], None),
    ],
)
def test_a_reading_of_no_lock_counts_once_the_lock_was_taken(
    before: int, readings: list[int], outcome: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that waited for the disk before main, `before` readings long, was unavailable."""
    from memlab.command.python_probes.command import launcher, sampler
    from memlab.command.python_probes.command import outcome as how

    launched = launcher.Launched.__new__(launcher.Launched)
    launched.report = {"status": 0}
    launched.memory = sampler.Sampler(InForce(), launched._took_lock)
    launched._taken, taken = os.pipe2(os.O_NONBLOCK)
    for number, locked in enumerate([0] * before + readings):
        if number == before:
            os.write(taken, b"x")
        status = {b"VmRSS": 8192, b"VmLck": locked}
        monkeypatch.setattr(sampler, "_status", lambda _, now=status: now)
        launched.memory.read(os.getpid(), 0.0)
    os.close(taken)
    os.close(launched._taken)
    spec = {"serve": [], "argv": ["true"], "environ": {"MEMLAB_LOCK": "future"}}
    refused = how.refusal(spec, launched, "") or {"outcome": None}
    assert refused["outcome"] == outcome


SLOW_TO_LOAD = """
#include <time.h>
__attribute__((constructor)) static void wait(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
}
"""
IS_LOCKED = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
	char text[4096] = { 0 };
	FILE *status = fopen("/proc/self/status", "r");
	if (!fread(text, 1, sizeof(text) - 1, status) || strstr(text, "VmLck:\t       0 kB"))
		return 1;
	for (int descriptor = 4; descriptor < 1024; descriptor++)
		if (fcntl(descriptor, F_GETFD) >= 0)
			return 2;
	return getenv("MEMLAB_LOCK_TAKEN") ? 3 : 0;
}
"""


@pytest.mark.seconds
@pytest.mark.needs("lock any amount")
def test_a_program_that_is_slow_to_load_is_locked(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second before its lock, and a moment after it; main sees the lock and no more."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.c").write_text(SLOW_TO_LOAD)
    (tmp_path / "locked.c").write_text(IS_LOCKED)
    for words in (
        ["-shared", "-fPIC", "-o", "libslow.so", "slow.c"],
        ["-o", "locked", "locked.c", "-Wl,--no-as-needed", "./libslow.so"],
    ):
        subprocess.run(["cc", *words], check=True)
    run = memlab.trial(["./locked"], blocks=1, store=store_path, lock=["off", "future"])
    assert sorted(s.detail or "" for s in run.samples) == ["", "exit status 1"]


def test_what_is_shown_names_a_missing_metric_once_and_every_metric_on_demand(
    store_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = memlab.trial(["true"], blocks=1, store=store_path)
    run_screen.show(run)
    short = capsys.readouterr().out
    group = run.samples[0].raw["missing"].get("peak_group")  # type: ignore[index]
    assert short.count("needs a memory cgroup") == (group is not None)
    assert ("cgroup" in short.split("medians of each policy")[1]) == (group is None)
    assert "every metric" not in short
    run_screen.show(run, verbose=True)
    table = capsys.readouterr().out.split("every metric")[1]
    assert "peak locked memory" in table
    assert "page-fault exceptions, by perf" in table


def test_proportional_memory_is_read_at_times_or_says_why_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from memlab.command.python_probes.command import sampler

    now_s, took_s = [0.0], 0.002
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(sampler.time, clock, lambda: now_s[0])
    reads: list[int] = []

    def read(pid: int) -> int:
        reads.append(pid)
        now_s[0] += took_s
        return 100 * pid

    monkeypatch.setattr(sampler, "_pss_bytes", read)
    pss = sampler._Pss()
    assert (pss.peak_bytes, pss.missing()) == (None, {})
    for tick in range(1000):
        now_s[0] = max(now_s[0], tick / 1000)
        pss.read([1, 2], math.inf)
    assert (pss.peak_bytes, pss.missing()) == (300, {})
    assert took_s * len(reads) <= 0.01 * 1.0 + 2 * took_s

    def refused(pid: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sampler, "_pss_bytes", refused)
    pss = sampler._Pss()
    pss.read([1], math.inf)
    assert pss.missing() == {"peak_pss": "/proc/PID/smaps_rollup: Permission denied"}


def test_a_reading_of_proportional_memory_that_waits_for_a_lock_is_waited_for_by_no_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from memlab.command.python_probes.command import sampler

    begun, unlocked, reads = threading.Event(), threading.Event(), list[int]()

    def read(pid: int) -> int:
        reads.append(pid)
        begun.set()
        unlocked.wait(60)
        return 100

    monkeypatch.setattr(sampler.time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(sampler, "_pss_bytes", read)
    pss = sampler._Pss()
    for _ in range(3):
        pss.read([7], 0.0)
        begun.wait(60)
    assert (reads, pss.peak_bytes) == ([7], None)
    unlocked.set()
    assert pss._reading is not None
    pss._reading.join()
    assert pss.peak_bytes == 100

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    sampler._Pss().read([7], 0.0)
    assert reads == [7]


@pytest.mark.needs("root", "a real-time policy")
def test_what_ends_a_command_keeps_the_real_time_priority_that_it_had() -> None:
    from memlab.command.python_probes.command import launcher

    usual, nice = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(3))
    try:
        with launcher._going_first():
            assert os.getpriority(os.PRIO_PROCESS, 0) == -20
        assert os.sched_getscheduler(0) == os.SCHED_FIFO
        assert os.sched_getparam(0).sched_priority == 3
        assert os.getpriority(os.PRIO_PROCESS, 0) == nice
    finally:
        os.sched_setscheduler(0, usual, os.sched_param(0))


SERVICE = """
import mmap, os, socket, sys, time
print("starting", flush=True)
time.sleep(float(sys.argv[2]))
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    print("ready now", flush=True)
    statuses = [404, 503, 302]
    while True:
        connection, _ = server.accept()
        with connection:
            asked = connection.recv(1000)
            if asked.startswith(b"GET /health?all=1 HTTP/1.1"):
                status = statuses.pop(0)
                head = f"HTTP/1.1 {status} so\\r\\nLocation: /nope\\r\\n\\r\\n"
                connection.sendall(head.encode())
                if status == 302:
                    print("ready by HTTP", flush=True)
                continue
            if asked == b"die":
                os._exit(9)
            if asked == b"grow":
                with mmap.mmap(-1, 4001 * 4096, flags=mmap.MAP_PRIVATE) as memory:
                    for page in range(1009):
                        memory[page * 4096] = 1
            if asked:
                connection.sendall(f"policy {os.environ.get('FOO', '0')}".encode())
"""
LOAD = """
import os, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(sys.argv[2].encode())
    print(connection.recv(100).decode(), "load", os.environ.get("FOO", "0"))
"""


def served(
    store: Path, ready: str, *, asked: str = "ask", starts_in_s: str = "0", **how: Any
) -> memlab.Run:
    python = [sys.executable, "-I", "-S", "-c"]
    return memlab.trial(
        [*python, LOAD, "{port}", asked],
        serve=[*python, SERVICE, "{port}", starts_in_s],
        ready=ready,
        store=store,
        metrics=["service=policy ([0-9]+)", "load=load ([0-9]+)"],
        **how,
    )


def test_a_file_that_the_command_writes_has_its_numbers_and_an_old_one_has_none(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write = 'echo did 3; echo \'{"a": {"b_ns": {n}}, "c": [1]}\' > numbers.json'
    words = ["sh", "-c", f"[ {{n}} = none ] || {{ {write}; }}"]
    run = memlab.trial(
        words,
        metrics=["a.b_ns[ns]@numbers.json", "n=did ([0-9]+)"],  # in its unit, whatever its name
        blocks=2,
        store=store_path,
        n=["7", "none"],
    )
    assert medians(run, "a.b_ns") == {("7",): 7}
    assert medians(run, "n")["7",] == 3  # what it prints beside the file
    said = {s.outcome: s.detail for s in run.samples}
    assert said == {"ok": "", "no-metric": "no a.b_ns in numbers.json"}


@pytest.mark.seconds
def test_a_file_of_latencies_gives_percentiles(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "write.sh").write_text("seq 1 {n} > latencies; echo nan inf -1 x >> latencies")
    run = memlab.trial(
        ["sh", "-c", (tmp_path / "write.sh").read_text()],
        latencies="latencies[us]",
        blocks=1,
        store=store_path,
        n=["2000", "1000"],
    )
    assert medians(run, "longest") == {("2000",): 2000e-6, ("1000",): 1000e-6}
    assert medians(run, "p50")["2000",] == pytest.approx(1000e-6, rel=1 / 128)
    assert medians(run, "p99")["1000",] == pytest.approx(990e-6, rel=1 / 128)
    none = memlab.trial(["true"], latencies="latencies", blocks=1, store=store_path)
    assert [(s.outcome, s.detail) for s in none.samples] == [
        ("no-metric", "no number in latencies")
    ]


@pytest.mark.needs("lock any amount")
def test_what_a_lock_populates_and_pressure_are_counted(toucher: str, store_path: Path) -> None:
    run = memlab.trial(
        [toucher, "{n}", "0"],
        blocks=3,
        store=store_path,
        n=[1000, 4001],
        lock=["future"],
        thp="never",  # a huge page is populated at once
        aslr="off",
    )
    populated = medians(run, "populated")
    # execve(2) itself takes a page more or less, as the command line happens to lie on its pages.
    assert abs(populated["4001",] - populated["1000",] - 3001) <= 2
    raw = run.samples[0].raw or {}
    assert ("stalled" in raw["missing"]) == (raw["stalled_ns"] is None)


@pytest.mark.seconds
@pytest.mark.changes_host
def test_huge_pages_of_one_size(toucher: str, store_path: Path) -> None:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled")
    if not os.access(enabled, os.W_OK):
        pytest.skip("needs root and a kernel with huge pages of 64 KiB")
    before = enabled.read_text()
    run = memlab.trial(
        [toucher, "4096", "4096"],
        blocks=1,
        store=store_path,
        thp=["never", "64K", "3M"],
        aslr="off",
    )
    faults = medians(run, "faults")
    assert faults["never",] - faults["64K",] > 4096 * 15 / 16 * 0.9  # one for each 16 pages
    missing = [s.detail for s in run.samples if s.outcome == "unavailable"]
    assert len(missing) == 1
    assert "hugepages-3072kB/enabled = always, and there is no such file" in str(missing[0])
    assert enabled.read_text() == before


@pytest.mark.seconds
@pytest.mark.changes_host
def test_swap_that_cannot_be_had_says_why(toucher: str, store_path: Path) -> None:
    if available.memory().left < 2 * SWAP_BYTES:  # an area that compresses nothing
        pytest.skip("needs 2 GiB of free memory, in this process's cgroup too")
    asked = {"swap": ["none", "file", "zram"]}
    if needs.lacking("add swap"):
        with pytest.raises(CannotRun, match="nothing is left to compare: needs swap"):
            memlab.trial([toucher, "1000", "1000"], blocks=1, store=store_path, **asked)
        return
    run = memlab.trial([toucher, "1000", "1000"], blocks=1, store=store_path, **asked)
    for sample in run.samples:
        assert sample.outcome == "ok" or "needs " in str(sample.detail)
    assert "ok" in outcomes(run)


FORKS = """
#include <time.h>
#include <unistd.h>
int main(void)
{
    time_t began = time(NULL);
    while (time(NULL) < began + 20)
        fork();
    return 0;
}
"""


@pytest.mark.seconds
def test_a_command_that_forks_for_ever_is_bounded_and_ended(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() or cgroup.locate().memory_version is None or not cgroup.v1_dir("pids"):
        pytest.skip("needs root and cgroups of v1 with the pids controller")
    for module in ("host", "spec"):
        monkeypatch.setattr(f"memlab.experiment.tried.{module}.MOST_PROCESSES", 24)
    (tmp_path / "forks.c").write_text(FORKS)
    subprocess.run(["cc", "-o", "forks", "forks.c"], cwd=tmp_path, check=True)
    run = memlab.trial([str(tmp_path / "forks")], blocks=1, store=store_path, timeout=3.0)
    assert outcomes(run) == ["timeout"]
    assert (run.samples[0].raw or {})["process_count"] <= 24
    assert "killed after 3 s, at the most processes allowed, 24" in str(run.samples[0].detail)
    assert eventually(lambda: processes(str(tmp_path / "forks")) == [])


@pytest.mark.slow
@pytest.mark.changes_host  # no other test runs beside thousands of processes
@pytest.mark.needs("root")
@pytest.mark.parametrize("parent", ["", "setsid();"], ids=["one session", "a session each"])
def test_thousands_of_processes_that_run_do_not_outlive_the_time_limit(
    parent: str, tmp_path: Path, store_path: Path
) -> None:
    """In a CPU group of their own, or the rest of the machine would wait for them as well."""
    home = cgroup.v1_dir("cpu")
    if home is None or not cgroup.v1_dir("pids") or cgroup.locate().memory_version is None:
        pytest.skip("needs cgroups of v1 with the pids and the cpu controller")
    if available.processes().left < 8000 or available.memory().left < 4 << 30:
        pytest.skip("needs room for 8000 processes, and 4 GiB")
    (tmp_path / "forks.c").write_text(
        FORKS.replace("fork();", f"if (!fork()) {{ {parent} }}").replace("+ 20", "+ 300")
    )
    subprocess.run(["cc", "-o", "forks", "forks.c"], cwd=tmp_path, check=True)
    group = home / f"memlab-test-{tmp_path.name}-{os.getpid()}"
    group.mkdir()
    try:
        done = subprocess.run(
            [
                *("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"),
                *(sys.executable, "-m", "memlab", "--store", str(store_path), "--wait=10min"),
                *("try", "--blocks", "1", "--timeout", "5s", "--", str(tmp_path / "forks")),
            ],
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 3, done
        assert "killed after 5 s, at the most processes allowed, 4096;" in done.stderr
        assert processes(str(tmp_path / "forks")) == []
    finally:
        assert eventually(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def test_a_reading_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer than any reading may is no reading, and the trial is what it was."""
    from memlab.command.python_probes.command import sampler

    monkeypatch.setattr(sampler, "_READING_WITHIN_S", -1.0)
    memory = sampler.Sampler(InForce(), lambda: False)
    memory.read(os.getpid(), 0.0)
    assert memory.series()["rss_bytes"]["values"] == []
    monkeypatch.setattr(sampler, "_READING_WITHIN_S", 600.0)
    memory.read(os.getpid(), 0.0)
    assert len(memory.series()["rss_bytes"]["values"]) == 1


def test_what_was_locked_is_known_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that has ended nothing can be read."""
    from memlab.command.python_probes.command import sampler

    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    resource.prlimit(program.pid, resource.RLIMIT_MEMLOCK, (4096, hard))
    memory = sampler.Sampler(InForce(), lambda: False)
    memory.read(program.pid, 0.0)
    assert memory.locked_of_limit is None
    monkeypatch.setattr(sampler, "_status", lambda _: {b"VmRSS": 8192, b"VmLck": 4096})
    memory.read(program.pid, 0.0)
    is_capable = bool(capabilities.privileges.effective() >> 14 & 1)
    program.communicate()
    assert memory.locked_of_limit == (None if is_capable else (4096, 4096))
    memory = sampler.Sampler(InForce(), lambda: False)
    monkeypatch.setattr(sampler, "_lock_limit", lambda _: 4096)
    memory.read(os.getpid(), 0.0)
    assert memory.locked_of_limit == (4096, 4096)


@pytest.mark.needs("a user namespace")
def test_a_right_of_another_user_namespace_lifts_no_lock_limit() -> None:
    """As of root in a container that an ordinary user has started: can_do_mlock() asks capable().
    Of the same program in the first namespace its capabilities decide."""
    from memlab.command.python_probes.command import sampler

    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    for words in (["unshare", "--user", "--map-root-user"], []):
        program = subprocess.Popen(
            [*words, "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert program.stdout
        program.stdout.readline()
        resource.prlimit(program.pid, resource.RLIMIT_MEMLOCK, (4096, hard))
        limit = sampler._lock_limit(program.pid)
        is_capable = not words and capabilities.privileges.effective() >> 14 & 1
        has_right = int(proc.status(program.pid)["CapEff"], 16) >> 14 & 1
        program.communicate()
        assert limit == (None if is_capable else 4096)
        assert has_right or not words


@pytest.mark.parametrize(
    ("limit", "name", "words"),
    [
        ("FSIZE", "SIGXFSZ", "RLIMIT_FSIZE, which sends it, is 1 MiB: raise it where"),
        ("CPU", "SIGXCPU", "RLIMIT_CPU, which sends it, is 1,048,576 s (the kernel adds"),
        ("CPU", "SIGKILL", "hard RLIMIT_CPU, which sends it, is 2,097,152 s: raise it where"),
        ("RTTIME", "SIGKILL", "hard RLIMIT_RTTIME, which sends it, is 2.09715 s: raise it where"),
    ],
)
def test_the_limits_that_send_signals_are_read_at_the_end(
    limit: str, name: str, words: str, store_path: Path
) -> None:
    """As the program set them itself."""
    program = (
        "import os, resource as r, signal as s; "
        f"r.setrlimit(r.RLIMIT_{limit}, (1 << 20, 2 << 20)); "
        f"s.{name} == s.SIGKILL or s.signal(s.{name}, s.SIG_DFL); os.kill(os.getpid(), s.{name})"
    )
    (sample,) = memlab.trial([sys.executable, "-c", program], blocks=1, store=store_path).samples
    assert f"ended by {name}: {words}" in (sample.detail or "")


@pytest.mark.parametrize("words", ["ulimit -v 3000000", "ulimit -d 3000000"])
def test_the_limits_of_a_program_are_read_when_it_has_ended(words: str, store_path: Path) -> None:
    """However short it ran, and whoever set them."""
    program = ["sh", "-c", f"{words}; exit 3"]
    (sample,) = memlab.trial(program, blocks=1, store=store_path).samples
    name = {"v": "RLIMIT_AS", "d": "RLIMIT_DATA"}[words[8]]
    assert f"exit status 3, under {name} of 2.86 GiB" in (sample.detail or "")


@pytest.mark.parametrize(
    ("text", "kills"), [("oom_kill_disable 0\noom_kill 3\n", 3), ("under_oom 0\n", None)]
)
def test_a_group_that_does_not_count_kills_says_nothing_of_them(
    tmp_path: Path, text: str, kills: int | None
) -> None:
    """Of cgroup v1 Linux counts them since 4.13."""
    from memlab.command.python_probes.command.group import TrialGroup

    (tmp_path / "0").mkdir()
    (tmp_path / "0/memory.oom_control").write_text("oom_kill 0\n")
    group = TrialGroup(str(tmp_path), "")
    (tmp_path / "0/memory.oom_control").write_text(text)
    assert group.oom_kills() == kills
    assert TrialGroup("", "").oom_kills() is None


def test_a_user_who_is_not_root_has_a_bound_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    from memlab.command.python_probes.command import group

    monkeypatch.setattr(group.resource, "getrlimit", lambda _: (0, -1))
    running = int(group.processes_bound(0))
    assert 1 <= running < 100_000
    monkeypatch.setattr(group.resource, "getrlimit", lambda _: (0, 7))
    assert group.processes_bound(50) == "7"


@pytest.mark.needs("root", "a mount namespace")
def test_a_command_that_fills_its_disk_has_failed(store_path: Path) -> None:
    fills = "mount -t tmpfs -o size=64k none /mnt && cat /dev/zero > /mnt/full"
    words = ["unshare", "-m", "sh", "-c", fills]
    run = memlab.trial(words, blocks=1, store=store_path)
    assert outcomes(run) == ["failed"]
    assert "No space left on device" in str(run.samples[0].detail)


@pytest.mark.seconds
@pytest.mark.parametrize(
    "how",
    [
        ["--", "sh", "-c", "setsid sleep 6179 & sleep 6179"],
        ["--serve", "sleep 6179", "--ready", "tcp:1", "--", "true"],
    ],
)
def test_nothing_is_left_when_memlab_is_killed(how: list[str], store_path: Path) -> None:
    words = [sys.executable, "-m", "memlab", "--store", str(store_path), "try", "-q", *how]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as measuring:
        assert eventually(lambda: processes(r"^sleep 6179") != [])
        measuring.kill()
    assert eventually(lambda: processes(r"^sleep 6179") == [])


@pytest.mark.parametrize("before", ["", "kill -STOP $PPID; "])
def test_what_a_command_started_ends_with_the_launchers_parent(before: str) -> None:
    """Without a cgroup: a user who is not root has none, and a session of its own is no way out,
    nor is a stopped launcher."""
    experiment = command.declare({"argv": ["x"], "cwd": "/", "levels": {}})
    params = experiment.params({"lock": "off"}, {"group": "", "processes": "", "mark": MARK})
    starts = before + "setsid sleep 6183 & (setsid -f setsid -f sleep 6183); sleep 6183"
    launch = [json.loads(params["spec"])["launch"], "report=1", "--", "sh", "-c", starts]
    parent = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    with subprocess.Popen([sys.executable, "-c", parent, *launch], stdout=subprocess.DEVNULL) as it:
        assert eventually(lambda: len(processes(r"^sleep 6183")) == 3)
        it.kill()
    assert eventually(lambda: processes(r"^sleep 6183") == [])


def test_the_outer_launcher_sleeps_in_the_window(store_path: Path) -> None:
    """schedstat: its time on a CPU, its time of waiting for one, and its turns (proc(5))."""
    outer = "outer=$(sed -n 's/^PPid:.//p' /proc/$PPID/status)"
    looks = "cat /proc/$outer/schedstat"
    starts = "for i in 1 2 3; do (setsid setsid -f true); sleep 0.01; done"
    words = ["sh", "-c", f"{outer}; {looks}; {starts}; {looks}"]
    run = memlab.trial(words, blocks=2, store=store_path)
    for sample in run.samples:
        before, after = (sample.raw or {})["output"].splitlines()
        assert before == after


@pytest.mark.parametrize("leaves", ["setsid sleep 6191 & exit 0", "kill -9 $PPID; sleep 6191"])
def test_what_a_command_leaves_is_gone_before_the_reply(leaves: str) -> None:
    """Without a cgroup: after the last reply the driver kills the server, which ends no orphan."""
    experiment = command.declare({"argv": ["sh", "-c", leaves], "cwd": "/", "levels": {}})
    params = experiment.params({"lock": "off"}, {"group": "", "processes": "", "mark": MARK})
    trial = {"probe": "command", "params": params, "file": None, "limit_s": 300.0}
    server = ForkServer()
    try:
        assert server.run(trial | {"cpus": sorted(os.sched_getaffinity(0))})["outcome"]
        assert processes(r"sleep 6191") == []
    finally:
        server.stop()


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 120
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


@pytest.mark.seconds
@pytest.mark.parametrize(
    "ready", ["tcp:{port}", "line:^ready", "http://127.0.0.1:{port}/health?all=1"]
)
def test_a_service_has_the_policies_and_the_command_is_its_load(
    ready: str, store_path: Path
) -> None:
    run = served(store_path, ready, blocks=2, **{"env.FOO": ["41", "43"]})
    assert outcomes(run) == ["ok"] * 4
    assert medians(run, "service") == {("41",): 41, ("43",): 43}
    assert set(medians(run, "load").values()) == {0}
    assert all(value > 0 for value in medians(run, "ready").values())
    assert min(medians(run, "peak_rss").values()) > 2**20  # the service's


@pytest.fixture(params=["with a group", "without"])
def grouped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one is what a user has who is not root."""
    if request.param == "without":
        none = Capability("memory cgroup", False, "there is none", "make one")
        monkeypatch.setattr(capabilities, "memory_cgroup", lambda _: none)


@pytest.mark.seconds
def test_counts_of_a_service_are_those_under_its_load(grouped: None, store_path: Path) -> None:
    run = served(
        store_path, "tcp:{port}", asked="{ask}", blocks=1, ask=["ask", "grow"], thp="never"
    )
    assert outcomes(run) == ["ok"] * 2
    trapped = medians(run, "faults")
    assert trapped["ask",] < 100  # of the interpreter's own
    assert 1009 <= trapped["grow",] < 1109


@pytest.mark.seconds
@pytest.mark.needs("lock any amount")
def test_what_a_lock_of_a_service_populates_is_counted(grouped: None, store_path: Path) -> None:
    how = {"blocks": 1, "thp": "never", "lock": ["off", "future"]}
    populated = medians(served(store_path, "tcp:{port}", asked="grow", **how), "populated")
    assert populated["off",] < 100
    assert 4001 <= populated["future",] < 4101


def test_without_a_group_only_the_level_that_needs_one_is_unavailable(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Capability("memory cgroup", False, "there is none", "make one")
    monkeypatch.setattr(capabilities, "memory_cgroup", lambda _: none)
    levels = {"memory_max": ["none", "8M"], "nice": [0, 5]}  # with one of them nothing is left
    run = memlab.trial(["true"], blocks=1, store=store_path, **levels)
    said = {
        next(p.at["memory_max"] for p in run.points if p.index == s.point): (s.outcome, s.detail)
        for s in run.samples
    }
    needs = "needs a memory cgroup, and there is none: make one"
    assert said == {"none": ("ok", ""), 8 << 20: ("unavailable", needs)}


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("how", "outcome", "detail"),
    [
        (
            {"ready": "line:never", "timeout": 0.5},
            "not-ready",
            "the service: not ready after 0.5 s",
        ),
        (
            {"ready": "unix:/nope", "timeout": 60, "starts_in_s": "x"},
            "not-ready",
            "the service: exit status 1 before it was ready; it said: ",
        ),
        (
            {"ready": "tcp:{port}", "asked": "die"},
            "service-ended",
            "the service: exit status 9 under the load; it said: starting / ready now",
        ),
    ],
)
def test_what_goes_wrong_with_a_service_is_an_outcome(
    how: dict[str, Any],
    outcome: str,
    detail: str,
    store_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = served(store_path, blocks=1, **how)
    assert outcomes(run) == [outcome]
    assert str(run.samples[0].detail).startswith(detail)
    run_screen.show(run)
    assert f"the last output of the service, {outcome}:" in capsys.readouterr().out
    assert eventually(lambda: processes(r"print\(.starting") == [])


LASTING = """
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static void end(int number)
{
    static const char text[] = "ended in order: 7\\n";
    _exit(write(1, text, sizeof(text) - 1) < 0 || number != SIGTERM ? 1 : 3);
}
int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 4001 * page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGTERM, end);
    for (size_t i = 0; i < size; i += page)
        memory[i] = 1;
    munmap(memory, size);
    for (;;)
        pause();
}
"""


@pytest.mark.seconds
def test_a_command_that_does_not_end_is_run_for_a_time_and_ended_in_order(
    tmp_path: Path, store_path: Path
) -> None:
    """Its memory at the end is without what it gave back; what it prints at SIGTERM is read, and
    its exit status is its own affair."""
    (tmp_path / "lasting.c").write_text(LASTING)
    subprocess.run(["cc", "-o", "lasting", "lasting.c"], cwd=tmp_path, check=True)
    run = memlab.trial(
        [str(tmp_path / "lasting")],
        blocks=1,
        store=store_path,
        run_for="1.5s",
        metrics=["left=in order: ([0-9]+)"],
        thp="never",
    )
    assert outcomes(run) == ["ok"], run.samples[0].detail
    found = {name: medians(run, name)[()] for name in ("end_rss", "peak_rss", "faults", "left")}
    assert found["peak_rss"] - found["end_rss"] > 4001 * PAGE - RSS_UNSEEN
    assert 4001 <= found["faults"] < 4501
    assert found["left"] == 7
    assert "elapsed" not in [metric.name for metric in run.experiment.metrics]
    assert processes(str(tmp_path / "lasting")) == []


def test_a_command_that_ends_before_its_time_is_no_sample(store_path: Path) -> None:
    run = memlab.trial(["sh", "-c", "echo bye"], blocks=1, store=store_path, run_for=30)
    assert outcomes(run) == ["ended-early"]
    assert run.samples[0].detail == (
        "exit status 0 within the 30 s of --for: name a shorter time, or leave it out; it said: bye"
    )


@pytest.mark.parametrize("how", [{"run_for": 0}, {"serve": ["true"], "ready": "tcp:1"}])
def test_a_time_that_no_command_can_run_for_is_refused(how: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="--for"):
        memlab.trial(["true"], **{"run_for": 1, **how})


NOISY = """
import pathlib, random, sys
taken = pathlib.Path("taken")
number = int(taken.read_text()) if taken.exists() else 0
taken.write_text(str(number + 1))
work = {"base": 1.0, "same": 1.0, "more": 1.15}[sys.argv[1]]
noise = random.Random(number)
for metric in range(20):
    print(f"m{metric} {work * noise.lognormvariate(0, 0.04):.6f}")
"""


@pytest.mark.slow
def test_15_percent_more_is_found_and_no_difference_is_not_20_of_20_times(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty metrics of one program are twenty draws of seeded noise: no clock decides."""
    monkeypatch.chdir(tmp_path)
    run = memlab.trial(
        [sys.executable, "-I", "-S", "-c", NOISY, "{work}"],
        metrics=[f"m{number}=^m{number} ([0-9.]+)" for number in range(20)],
        blocks=20,
        seed=1,
        store=store_path,
        work=["base", "same", "more"],
    )
    found: dict[str, list[str]] = {"same": [], "more": []}
    for number in range(20):
        compared = compare_levels(run, {"work": "base"}, metric=f"m{number}")
        for point in compared.points:
            found[str(point.at["work"])].append(point.comparison.word)
    assert found["more"] == ["slower"] * 20
    assert set(found["same"]) <= {"same", "inconclusive"}
    assert found["same"].count("same") >= 10


@pytest.mark.slow
def test_expectations_are_claims(toucher: str, store_path: Path) -> None:
    run = memlab.trial(
        [toucher, "9000", "{n}"],
        expect=["faults: n=5000 / n=1000 > 2", "peak_rss: n=1000 < 1M", "peak_rss: n=1000 < 1G"],
        blocks=6,
        store=store_path,
        n=[1000, 5000],
        thp="never",
    )
    assert figures.headline(run).startswith("With n=5000: elapsed time ")
    verdicts = dict(zip(run.claims()["id"], run.claims()["verdict"], strict=True))
    assert verdicts == {
        "expect-1": "reproduced",
        "expect-2": "contradicted",
        "expect-3": "reproduced",
    }


def test_a_stored_run_is_read_again_without_its_command(toucher: str, store_path: Path) -> None:
    made = memlab.trial([toucher, "9", "1"], blocks=1, store=store_path)
    again = memlab.load(made.id, store=store_path)
    assert again.experiment.question == made.experiment.question
    assert list(again.frame["outcome"]) == ["ok"]


# Each is refused by another exception, the last two as patterns of bytes alone.
NO_PATTERNS = ["(", "(a{99999999999})", "(" * 3000 + ")" * 3000, "(?u:a)", "(\ud800)"]


@pytest.mark.parametrize(
    ("words", "policies", "message"),
    [
        ([""], {}, "'': the command to try is not found"),
        (["sh", "-s"], {}, "sh -s: it reads its program from standard input"),
        (["true"], {"serve": ["sh"], "ready": "tcp:1"}, "sh: it reads its program from standard"),
        (["true"], {"lock": []}, "lock: no level given"),
        (["true"], {"nice": [99]}, "nice: 99 is out of bounds, -20 to 19"),
        (["true"], {"serve": ["true"]}, "say when the service is ready: --ready tcp:{port}"),
        (["true"], {"expect": ["elapsd < 1s"]}, "--expect"),
        *[(["true"], {"metrics": [f"x={text}"]}, "--metric 'x=") for text in NO_PATTERNS],
        (["true"], {"serve": ["true"], "ready": f"tcp:{'9' * 5000}"}, "--ready tcp:999"),
        *[
            (["true"], {"serve": ["true"], "ready": f"line:{text}"}, "--ready 'line:")
            for text in NO_PATTERNS
        ],
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_request_of_python_is_the_command_lines(
    words: list[str], policies: dict[str, Any], message: str, store_path: Path
) -> None:
    """The others are in tests/test_error_lines.py."""
    with pytest.raises((BadLevels, BadRequest)) as error:
        memlab.trial(words, store=store_path, **policies)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert not store_path.exists()


@pytest.mark.parametrize(
    "subject",
    [
        {},
        {"argv": "rm", "cwd": "/", "levels": {}},
        {"argv": [], "cwd": "/", "levels": {}},
        {"argv": ["x"], "cwd": "/", "levels": {}, "also": 1},
        {"argv": ["x"], "cwd": "/", "levels": {"lock": [{}]}},
    ],
)
def test_a_hostile_store_declares_nothing(subject: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        experiments.load("try", subject)


@pytest.mark.seconds
def test_a_gate_decides_nothing_if_others_disturbed_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store_path: Path
) -> None:
    """Of times; what others cannot change is decided all the same."""
    from click.testing import CliRunner

    from memlab.cli import cli
    from memlab.errors import CannotRun
    from memlab.judging.disturbed import Disturbed

    monkeypatch.setattr(
        Disturbed, "of_run", lambda run: Disturbed(run.id, 6, 6, ["other CPUs busy"])
    )

    def gated(expect: str) -> Any:
        words = ["--wait", "try", "-q", "--gate", "--blocks=6", "-p", "n=1,2", "--expect", expect]
        words += ["--", "true", "{n}"]
        return CliRunner().invoke(cli, words)

    undecided = gated("elapsed: n=1 < 9s")
    assert isinstance(undecided.exception, CannotRun)
    assert str(undecided.exception).startswith("--gate is undecided: others disturbed all 6 ")
    assert gated("peak_rss: n=1 < 1G").exit_code == 0
    assert gated("peak_rss: n=1 < 1").exit_code == 1


def test_a_command_line_is_pasted_as_it_was() -> None:
    words = ["a{b,c}d", "{1..3}", "{}", "{n}{m}", "it's", "two\nlines", "$HOME", "", "~", "#"]
    line = command.command_line(words)
    assert " {n}{m} " in line
    python = shlex.join([sys.executable, "-c", "import sys; print(sys.argv[1:])"])
    shell = shutil.which("bash") or "sh"  # bash has more to say of braces
    done = subprocess.run([shell, "-c", f"{python} {line}"], capture_output=True, text=True)
    assert done.stdout == f"{words}\n"


def test_only_placeholders_with_levels_are_filled() -> None:
    assert command.fill("awk '{print $1}' {n} {other}", {"n": 4}) == "awk '{print $1}' 4 {other}"


@pytest.mark.seconds
def test_a_file_keeps_a_command_with_its_policies(
    toucher: str, tmp_path: Path, store_path: Path
) -> None:
    from click.testing import CliRunner

    from memlab.cli import cli

    file = tmp_path / "app.toml"
    file.write_text(
        f"command = [{toucher!r}, '9', '{{n}}']\nblocks = 2\nexpect = ['peak_rss < 1G']\n"
        "[policies]\nn = [3, 5]\naslr = ['off']\n"
    )
    done = CliRunner().invoke(cli, ["try", "--json", str(file)])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert [p["levels"]["n"] for p in document["points"]] == ["3", "5"]
    gated = CliRunner().invoke(cli, ["--wait", "try", "--quiet", str(file), "--gate", "--blocks=6"])
    assert gated.exit_code == 0, gated.output
    assert len(gated.stdout.split()) == 1
    file.write_text("comand = ['x']")
    refused = CliRunner().invoke(cli, ["try", str(file)])
    assert isinstance(refused.exception, BadRequest)
    assert "comand" in str(refused.exception)


UNDOES = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
what, value = sys.argv[1:]
held = {
    "lock": "VmLck:\\t       0 kB" not in open("/proc/self/status").read(),
    "group": "memlab-" in open("/proc/self/cgroup").read(),
    "cpus": len(os.sched_getaffinity(0)) == 1,
}
if not held[what]:
    sys.exit()
time.sleep(1)  # it is in force, and looked at
if what == "lock":
    libc.munlockall()
elif what == "group":
    open(value, "w").write("0")
else:
    os.sched_setaffinity(0, range(int(value)))
time.sleep(2)
"""


LOCKED = pytest.param("lock", marks=pytest.mark.needs("lock any amount"))


@pytest.mark.seconds
@pytest.mark.parametrize("what", [LOCKED, "group", "cpus"])
def test_a_level_that_the_program_undid_is_not_reported_as_the_level(
    tmp_path: Path, store_path: Path, what: str
) -> None:
    """It was `ok`, with the times of a program without a lock, a limit or a mask."""
    groups = cgroup.locate()
    if what != "cpus" and os.geteuid() != 0:
        pytest.skip("needs root, to lock any amount and to leave a cgroup")
    if what == "group" and groups.memory_mount is None:
        pytest.skip("needs a memory cgroup")
    if what == "cpus" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    (tmp_path / "undoes.py").write_text(UNDOES)
    value = {"lock": "0", "group": f"{groups.memory_mount}/cgroup.procs", "cpus": "4096"}[what]
    levels = {"lock": ["off", "future"], "group": ["none", "64M"], "cpus": ["all", "1"]}[what]
    policy = {"lock": "lock", "group": "memory_max", "cpus": "cpus"}[what]
    words = [sys.executable, str(tmp_path / "undoes.py"), what, value]
    run = memlab.trial(words, blocks=1, store=store_path, **{policy: levels})
    found = {s.point.at[policy]: s for s in run.summaries}
    (first, second) = found.values()
    assert list(first.outcomes) == ["ok"]
    assert list(second.outcomes) == ["unavailable"]
    said = {"lock": "the lock was undone", "group": "the limit was left", "cpus": "the CPU mask"}
    assert said[what] in next(iter(second.details))


@pytest.mark.seconds
@pytest.mark.parametrize("how", ["SEGV", "ABRT", "KILL"])
def test_a_command_whose_trials_all_die_by_a_signal_measured_nothing(
    store_path: Path, how: str
) -> None:
    """It was exit 0: a program that crashes passed CI."""
    done = memlab_command("try", "--blocks", "2", "--", "sh", "-c", f"kill -{how} $$")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"memlab: nothing was measured: ended by SIG{how}" in done.stderr
    assert memlab_command("show", "last").stdout.startswith("nothing was measured: ")


def test_what_the_oom_killer_ended_was_measured(toucher: str, store_path: Path) -> None:
    """A limit decides it, which is what was asked."""
    if cgroup.locate().memory_dir is None or os.geteuid() != 0:
        pytest.skip("needs root and a memory cgroup")
    words = ["-p", "memory_max=8M", "--blocks", "2", "--", toucher, "9000", "9000"]
    done = memlab_command("try", *words)
    assert done.returncode == 0, done
    assert "oom-killed" in done.stdout


@pytest.mark.seconds
def test_the_least_and_the_most_of_two_policies_together_are_said(store_path: Path) -> None:
    """Either alone changes nothing, as of an interaction no contrast with the first levels says."""
    script = "if [ {a}{b} = 22 ]; then echo took 7; else echo took 5; fi"
    run = memlab.trial(
        ["sh", "-c", script], blocks=8, store=store_path, metrics=["took=took ([0-9]+)"],
        a=["1", "2"], b=["1", "2"],
    )  # fmt: skip
    ((least, most),) = [*effects.extremes(run, ["took"])]
    assert (least.at["a"], least.at["b"]) != ("2", "2")
    assert (most.at["a"], most.at["b"]) == ("2", "2")
    said = [line for line in answer._effects(run, verbose=False) if "all combinations" in line]
    assert [line for line in said if line.startswith("took, all combinations: least with ")]
    assert "; most with a=2, b=2, +40 % (" in said[0]
    assert [*effects.extremes(run, ["processes"])] == []  # one each, in every combination


def test_times_in_an_emulated_guest_are_not_judged(store_path: Path) -> None:
    run = memlab.trial(["sh", "-c", "true {n}"], blocks=6, store=store_path, n=["1", "2"])
    run.row = replace(run.row, environment=run.environment | {"emulated_time": True})
    (effect,) = effects.effects(run, run.experiment.watched)
    said = {change.metric.name: words_of.change(change) for change in effect.changes}
    times = {name for name in said if "s" in run.metric(name).unit.split("/")}
    assert "elapsed" in times < said.keys()
    assert {said[name] for name in times} == {"not judged (a time in an emulated guest)"}
    assert not any("emulated" in said[name] for name in said.keys() - times)
    assert [*words_of.empty_program(run)] == []


def test_one_block_is_not_a_number_of_a_level_and_says_how_many_are(store_path: Path) -> None:
    done = memlab_command("try", "--blocks", "1", "-p", "n=1,2", "--", "sh", "-c", "true {n}")
    assert done.returncode == 0, done
    assert "an interval takes --blocks 6" in done.stderr
    text = " ".join(done.stdout.split())
    assert "not decided: 1 of the 6 blocks that the interval of a change takes" in text
    assert not re.search(r"[-+][\d.]+ %|[\d.]+ times", text)
    assert "a program that does nothing takes" not in text


def test_a_limit_below_what_was_resident_was_not_felt_in_full() -> None:
    def seen(limit: object, peak: float, cache: str = "kept") -> SimpleNamespace:
        at = {"memory_max": limit, "page_cache": cache}
        medians = {"peak_rss": SimpleNamespace(estimate=peak)}
        return SimpleNamespace(point=SimpleNamespace(at=at), medians=medians)

    def said(*summaries: SimpleNamespace) -> list[str]:
        described = SimpleNamespace(describe_level=lambda _, level: f"{level >> 20} MiB", copied=())
        run: Any = SimpleNamespace(summaries=summaries, experiment=described)
        return [*words_of.unfelt_limit(run)]

    assert said(seen("none", 9e9), seen(64 << 20, float(64 << 20))) == []
    (line,) = said(seen(64 << 20, float(80 << 20)), seen(64 << 20, float(90 << 20)))
    assert line.startswith("memory_max=64 MiB: not felt in full: 80 MiB were resident")
    assert line.endswith("; -p page_cache=dropped takes its files out before a trial")
    (line,) = said(seen(64 << 20, float(80 << 20), "dropped"))
    assert "-p page_cache" not in line


def test_the_files_that_the_words_name_are_dropped_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memlab.command.python_probes import command as probe

    named, of_option, other = (tmp_path / name for name in ("a file", "b", "c"))
    for path in (named, of_option, other):
        path.write_text("x")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    dropped: list[int] = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda fd, at, size, how: dropped.append(os.fstat(fd).st_ino)
    )
    probe._drop_files(["sh", "a file", f"--x={of_option}", "folder", "fifo", "no\0name"], tmp_path)
    inodes = {path.stat().st_ino for path in (named, of_option, Path(shutil.which("sh") or ""))}
    assert set(dropped) == inodes


def test_a_missing_allocator_names_a_policy_that_try_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = {"argv": ["true"], "cwd": "/", "levels": {"malloc": ["mimalloc"]}}
    malloc = command.declare(subject).host.malloc
    assert malloc
    monkeypatch.setattr(allocators, "_searched", lambda: iter(()))
    with pytest.raises(allocators.NoAllocator, match=r"or -p env\.LD_PRELOAD=,PATH"):
        allocators.environ(malloc({"malloc": "mimalloc"}), {})
    command.read_policies(["true"], ["env.LD_PRELOAD=,/usr/lib/x.so"])


LOCKS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
os.execve("/bin/sh", ["sh", "-c", ":"], {"LD_PRELOAD": sys.argv[1], "MEMLAB_LOCK": "future"})
"""


def test_a_refused_lock_names_its_limit() -> None:
    """In a program without CAP_IPC_LOCK that may lock 64 KiB."""
    done = unprivileged.powerless("-c", LOCKS, str(folders.compiled() / "launch/lock.so"))
    assert done.returncode == 121
    remedy = "raise it (memlock in /etc/security/limits.conf, LimitMEMLOCK=), or run as root"
    assert f"RLIMIT_MEMLOCK is 64 KiB: {remedy}" in done.stderr
