"""Allocations of a process that runs: prime numbers of calls, and nothing left in the kernel."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import needs
import pytest

from memlab.errors import BadSubject, CannotRun
from memlab.observe import tracefs
from memlab.run import cleanup
from memlab.trace import account, file, uprobes

from .made import ALLOCATE, FREE, RESIZE, await_followers, records

SMALL, FREED, MOVED, ALIGNED, IN_THREAD, IN_CHILD = 401, 97, 61, 13, 211, 53
BYTES, MORE_BYTES, THREAD_BYTES, ZEROED_BYTES = 1013, 2003, 1019, 1031
ALIGNED_BYTES, PLACED_BYTES = 1021, 1033
PROGRAM = f"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile kept[{SMALL}];
static void *volatile one;
static void *work(void *none)
{{
    for (int i = 0; i < {IN_THREAD}; i++) {{
        void *volatile mine = malloc({THREAD_BYTES});
        free(mine);
    }}
    return none;
}}
int main(void)
{{
    pthread_t thread;
    void *made;
    char byte;
    one = malloc({BYTES}); /* before it is followed */
    puts("ready");
    fflush(stdout);
    if (read(0, &byte, 1) != 1)
        return 1;
    free(one);
    for (int i = 0; i < {SMALL}; i++)
        kept[i] = malloc({BYTES});
    for (int i = 0; i < {FREED}; i++)
        free(kept[i]);
    for (int i = {FREED}; i < {FREED} + {MOVED}; i++)
        kept[i] = realloc(kept[i], {MORE_BYTES});
    for (int i = 0; i < {ALIGNED}; i++) {{
        one = aligned_alloc(64, {ALIGNED_BYTES});
        one = calloc(1, {ZEROED_BYTES});
        if (posix_memalign(&made, 4096, {PLACED_BYTES}))
            return 1;
    }}
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    if (!fork()) {{
        for (int i = {SMALL} - {IN_CHILD}; i < {SMALL}; i++)
            free(kept[i]);
        _exit(0);
    }}
    wait(NULL);
    puts("done");
    fflush(stdout);
    return read(0, &byte, 1) != 1;
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("allocates")
    (folder / "primes.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-pthread", "-o", "primes", "primes.c"], cwd=folder, check=True)
    return str(folder / "primes")


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as live:  # type: ignore[call-overload]
        try:
            assert live.stdout.readline() == "ready\n"
            yield live
        finally:
            live.kill()


def goes_on(live: subprocess.Popen[str]) -> str:
    assert live.stdin is not None
    assert live.stdout is not None
    live.stdin.write("\n")
    live.stdin.flush()
    return live.stdout.readline()


@contextmanager
def recording(live: subprocess.Popen[str], path: Path) -> Iterator[subprocess.Popen[str]]:
    """A recorder that follows it. Skips where this kernel has no probes or refuses one."""
    words = ["record", "--allocations", "-o", str(path), "--json", str(live.pid)]
    recorder = subprocess.Popen(
        [sys.executable, "-m", "memlab", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        if not await_followers(recorder):
            said = recorder.communicate(timeout=60)[1]
            if "no probes on programs" in said or "not permitted" in said:
                pytest.skip(said)
            raise AssertionError(said)
        yield recorder
    finally:
        if recorder.poll() is None:
            recorder.kill()
        recorder.communicate()


def groups() -> set[str]:
    """Those of memlab's that the kernel has, of this test and of others."""
    with tracefs.opened() as events:
        lines = events._read("uprobe_events").splitlines()
    return {line[2:].partition("/")[0] for line in lines if line[2:].startswith("memlab_")}


def group_of(tmp_path: Path) -> str:
    """The group of the recorder whose home this is, by its journal."""
    (path,) = (tmp_path / "home").rglob("journal/record-*.jsonl")
    (group,) = (
        change["path"]
        for change in map(json.loads, path.read_text().splitlines())
        if change.get("undo") == "uprobes"
    )
    return str(group)


def gone(group: str) -> bool:
    deadline = time.monotonic() + 60
    while group in groups():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_prime_numbers_of_allocations_are_in_the_trace_of_a_live_process(
    program: str, tmp_path: Path
) -> None:
    needs.of("recording")
    path = tmp_path / "a.trace"
    with running(program) as live, recording(live, path) as recorder:
        group = group_of(tmp_path)
        assert group in groups()
        assert goes_on(live) == "done\n"
        recorder.send_signal(signal.SIGTERM)
        said = json.loads(recorder.communicate(timeout=120)[0])
    assert said["incomplete"] is None
    assert gone(group)
    calls: Counter[tuple[int, int, int]] = Counter()
    for record in records(path):
        if record.kind in (ALLOCATE, RESIZE):
            calls[record.kind, record.operands[1], record.task] += 1
        elif record.kind == FREE:
            calls[FREE, 0, record.task] += 1
    assert calls[ALLOCATE, BYTES, 0] == SMALL
    assert calls[RESIZE, MORE_BYTES, 0] == MOVED
    sizes = (ALIGNED_BYTES, ZEROED_BYTES, PLACED_BYTES)
    assert {calls[ALLOCATE, size, 0] for size in sizes} == {ALIGNED}
    assert calls[ALLOCATE, THREAD_BYTES, 1] == calls[FREE, 0, 1] == IN_THREAD
    assert calls[FREE, 0, 0] == FREED  # not of what was there before
    assert calls[FREE, 0, 2] == IN_CHILD
    found = account.of(file.read(path)).calls
    done = subprocess.run(
        [file.tool("allocate"), path], capture_output=True, text=True, timeout=120, check=True
    )
    again = dict(part.split() for part in done.stdout.replace(";", ",").split(","))
    names = {"allocated": "allocate", "freed": "free", "resized": "resize"}
    assert {n: int(again[n]) for n in names} == {n: found[call] for n, call in names.items()}
    assert (again["refused"], again["skipped"]) == ("0", "0")


def test_a_recorder_that_is_killed_leaves_no_probe(program: str, tmp_path: Path) -> None:
    needs.of("recording")
    path = tmp_path / "a.trace"
    with running(program) as live:
        with recording(live, path) as recorder:
            group = group_of(tmp_path)
            recorder.kill()
        assert gone(group)
        assert goes_on(live) == "done\n"  # nothing stops at what was there
    assert not path.exists()


def test_what_a_killed_guardian_leaves_is_cleaned(program: str, tmp_path: Path) -> None:
    needs.of("recording")
    with running(program) as live:
        with recording(live, tmp_path / "a.trace") as recorder:
            group = group_of(tmp_path)
            children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text()
            for child in children.split():
                if b"memlab.run.guardian" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGKILL)
            recorder.kill()
        assert group in groups()
        words = [sys.executable, "-m", "memlab", "clean"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert f"uprobes {group}" in done.stdout
        assert group not in groups()
        assert goes_on(live) == "done\n"


def test_a_kernel_without_probes_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up tracefs that has events, and no uprobe_events."""
    (tmp_path / "sys/kernel/tracing/events").mkdir(parents=True)
    monkeypatch.setattr(tracefs, "opened", partial(tracefs.opened, tmp_path))
    with (
        pytest.raises(CannotRun, match="CONFIG_UPROBE_EVENTS") as raised,
        uprobes.placed(os.getpid()),
    ):
        pass
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "home").rglob("record-*.jsonl"))


def test_a_program_without_malloc_is_a_line(tmp_path: Path) -> None:
    needs.of("recording")
    (tmp_path / "bare.c").write_text("void _start(void) { for (;;) ; }\n")
    command = ["cc", "-static", "-nostdlib", "-s", "-o", "bare", "bare.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with subprocess.Popen([tmp_path / "bare"]) as live:
        try:
            with pytest.raises(BadSubject, match="no malloc"), uprobes.placed(live.pid):
                pass
        finally:
            live.kill()


def functions(path: Path) -> set[str]:
    with path.open("rb") as opened:
        return {*uprobes._functions(opened.fileno()).values()}


def test_functions_are_found_in_files_that_another_may_have_made(tmp_path: Path) -> None:
    """A library is read, and a damaged one has none, some, or is refused."""
    library = Path(file.tool("allocations.so"))
    assert functions(library) == {*uprobes._KIND}
    whole, draw, path = library.read_bytes(), Random(5), tmp_path / "x.so"
    for _ in range(300):
        made = bytearray(whole)
        for _ in range(draw.randrange(1, 9)):
            within = draw.choice((64, len(made)))
            made[draw.randrange(within)] = draw.choice((0, 1, 127, 255))
        path.write_bytes(made[: draw.choice((len(made), draw.randrange(len(made))))])
        try:
            assert functions(path) <= {*uprobes._KIND}
        except (ValueError, struct.error, OSError):
            continue


def test_another_group_of_events_is_not_removed() -> None:
    for group in ("", "memlab_", "memlab_0123456g", "sched", "memlab_01234567/x", "../memlab_0"):
        with pytest.raises(cleanup.NotOurs):
            cleanup.remove_uprobes(group, time.monotonic())
