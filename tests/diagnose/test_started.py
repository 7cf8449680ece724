"""The `memlab try` line of a finding: read by a shell it starts the same program, and no more."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from memlab.cli import cli
from memlab.diagnose import diagnosis, flow, limits, malloc_options, output, started, stock, subject
from memlab.diagnose.diagnosis import Diagnosis
from memlab.diagnose.look import Look
from memlab.diagnose.started import Started
from memlab.experiment import tried as command
from memlab.request import Request
from memlab.run import plan
from memlab.run.stop_rule import StopRule
from memlab.text.printable import printable

from .live import Compiled, kept_waiting_s, library, running
from .looks import GLIBC, JEMALLOC, MiB, group, heap, look, memory, rates
from .test_live import diagnosed

HOSTILE = "$(touch pwned) `id`; 'q' \"d\" \\ \x1b]0;x\x07\u202e\n--, ü"
READY = "import sys; print('ready', flush=True); sys.stdin.read()"
CHURNS = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
print("ready", flush=True)
for _ in range(60000):
    held = ctypes.c_void_p(libc.malloc(1 << 18))
    ctypes.memset(held, 1, 1 << 18)
    libc.free(held)
"""
SAYS = """#!/usr/bin/env python3
import json, os, sys
print(json.dumps([os.getcwd(), sys.argv[1:]]))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A folder with a `memlab` that says where and with what words it was started."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/memlab").write_text(SAYS)
    (tmp_path / "bin/memlab").chmod(0o755)
    return tmp_path / "bin"


def read_by_bash(line: str, shell: Path) -> tuple[str, list[str]]:
    """The working directory and the words."""
    environ = {**os.environ, "PATH": f"{shell}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=environ, check=True
    )
    folder, words = json.loads(done.stdout)
    return folder, words


def start_of(pid: int) -> Started:
    with subject.held(pid) as (found, _):
        return started.read(found)


def test_a_shell_reads_the_line_as_the_process_was_started(tmp_path: Path, shell: Path) -> None:
    there = tmp_path / "a folder; $HOME"
    there.mkdir()
    value = "/x y/,z"
    words = [sys.executable, "-c", READY, HOSTILE, "", "-p"]
    process = subprocess.Popen(
        words,
        cwd=there,
        env={
            **os.environ,
            "OMP_MODE": value,
            "OMP_TOKEN": "hidden",
            "MALLOC_CONF": "a://me:pw@host/",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout
        process.stdout.readline()
        start = start_of(process.pid)
    finally:
        process.communicate(b"")
    line = started.line(start, {"lock": ["off", "future"], "env.OMP_MODE": [value, "b"]})
    assert line is not None
    assert printable(line) == line
    folder, said = read_by_bash(line, shell)
    assert folder == str(there)
    assert said == [
        "try", "-p", "lock=off,future", "-p", "env.OMP_MODE=/x y/\\,z,b", "--", *words,
    ]  # fmt: skip
    assert command.read_policies(words, [said[4]]) == {"env.OMP_MODE": [value, "b"]}
    assert start.remarks == (
        "without the variables that may be secret or are long: MALLOC_CONF, OMP_TOKEN",
        "without its standard input, a pipe",
    )
    assert not (there / "pwned").exists()


def test_what_differs_from_this_environment_is_a_constant(shell: Path) -> None:
    with running(
        sys.executable, "-c", READY, environ={"MALLOC_CONF": "narenas:1", "MODE": "1"}
    ) as program:
        start = start_of(program.pid)
    assert start.environ == {"MALLOC_CONF": "narenas:1"}
    line = started.line(start, {"cpus": ["all", "1"]})
    assert line is not None
    assert line.startswith("memlab try -p cpus=all,1 -p env.MALLOC_CONF=narenas:1 -- ")


def test_a_program_that_is_gone_or_has_another_title(binary: Compiled, tmp_path: Path) -> None:
    copy = tmp_path / "steady"
    copy.write_bytes(binary("steady").read_bytes())
    copy.chmod(0o755)
    with running(copy, "1") as program:
        copy.unlink()
        gone = start_of(program.pid)
    assert (
        gone.unknown == f"its program is not at {copy} (deleted) here: deleted, or in a container"
    )
    program = [sys.executable, "-c", READY]
    with running("bash", "-c", 'exec -a "cache: *:6379" "$@"', "bash", *program) as titled:
        named = start_of(titled.pid)
    assert named.argv[1:] == ("-c", READY)
    assert Path(named.argv[0]).samefile(sys.executable)


def test_a_program_that_cannot_be_started_again_is_recorded() -> None:
    """As a trace, under the policies that a trace can be replayed under; of others no line."""
    one = subject.Subject(4711, "cache", "cache: *:6379", "root", 0, 1)
    line = started.recorded(
        one, [{"thp": ["inherit", "always"]}, {"malloc": ["system", "jemalloc"]}]
    )
    assert line == (
        "memlab record --seconds 60 -o 4711.trace 4711 && "
        "memlab try -p thp=inherit,always 4711.trace"
    )
    assert started.recorded(one, [{"malloc": ["system", "jemalloc"]}]) is None
    for words in (part.split()[1:] for part in line.split(" && ")):
        command = cli.get_command(click.Context(cli), words[0])
        assert command
        command.make_parser(click.Context(command)).parse_args(words[1:])


STOPS = "import os; print('ready', flush=True); os.kill(os.getpid(), 19)"  # SIGSTOP


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([sys.executable, "-"], STOPS),
        (["sh"], "echo ready; kill -STOP $$"),
        (["bash", "-es", "word"], "echo ready; kill -STOP $$"),
    ],
)
def test_a_program_that_came_from_standard_input_has_no_line(
    words: list[str], text: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text(f"{text}\n")
    with (tmp_path / "text").open() as source:
        process = subprocess.Popen(words, stdin=source, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        start = start_of(process.pid)
    finally:
        process.kill()
        process.communicate()
    assert start.unknown == (
        f"its program was read from standard input ({shlex.join(words)}): start it from a file for "
        "one"
    )
    assert started.line(start, {"lock": ["off", "future"]}) is None


def test_a_command_line_that_was_written_over(binary: Compiled) -> None:
    """As setproctitle(3) does it: one word with spaces, and NULs after it."""
    with running("bash", "-c", 'exec -a "cache: *:6379" "$0" ""', binary("steady")) as titled:
        assert start_of(titled.pid).unknown == (
            f"it has overwritten its command line; its program is {binary('steady')}"
        )


def proofs(seen: Look) -> dict[str, str | None]:
    """The lines of all findings."""
    found = [*flow.findings(seen), *stock.findings(seen), *limits.findings(seen)]
    return {
        one.name: started.line(seen.started, one.policies or {}, port=seen.port) for one in found
    }


def test_calls_that_may_be_the_programs_own_are_not_said_to_be_mallocs() -> None:
    """stress-ng --mmap calls munmap(2) itself."""
    (found,) = flow.findings(look(allocator=GLIBC, per_s=rates(munmap=4e3, minor_faults=6e4)))
    assert found.name == "gives-memory-back"
    assert "; if it is malloc's: " in found.setting


def test_the_settings_are_those_of_the_malloc_added_to_what_it_was_told() -> None:
    purging = rates(madvise_dontneed=4e3, minor_faults=6e4)
    told = Started(("app",), "/srv", {"MALLOC_CONF": "narenas:2"})
    assert proofs(look(allocator=JEMALLOC, per_s=purging, started=told))["malloc-gives-back"] == (
        "cd /srv && memlab try -p 'env.MALLOC_CONF=narenas:2,"
        "narenas:2\\,dirty_decay_ms:-1\\,muzzy_decay_ms:-1' -- app"
    )
    line = proofs(look(allocator=GLIBC, per_s=rates(brk=5e3, minor_faults=6e4)))["glibc-trims"]
    assert line is not None
    assert "-p env.GLIBC_TUNABLES=,glibc.malloc.trim_threshold=4294967296:" in line


def test_a_setting_that_is_in_force_is_not_advised() -> None:
    """GLIBC_TUNABLES as the finding itself would set them: something else is to be tried."""
    kept = malloc_options.kept("glibc", (2, 36), "")["GLIBC_TUNABLES"]
    told = Started(("app",), "/srv", {"GLIBC_TUNABLES": kept})
    busy = rates(munmap=3e3, minor_faults=1.7e5)
    line = proofs(look(allocator=GLIBC, per_s=busy, started=told))["gives-memory-back"]
    assert line is not None
    assert "-p env.MALLOC_ARENA_MAX=,1" in line
    assert line.count("GLIBC_TUNABLES") == 1


def test_a_service_is_tried_as_a_service() -> None:
    purging = rates(madvise_dontneed=4e3, minor_faults=6e4)
    line = proofs(look(allocator=JEMALLOC, per_s=purging, port=80))["malloc-gives-back"]
    assert line is not None
    assert line.endswith("--serve 'quiet --still' --ready tcp:80 -- LOAD")


@pytest.mark.parametrize(
    ("argv", "served", "ready"),
    [
        (["app", "--port", "8080"], ["app", "--port", "{port}"], "tcp:{port}"),
        (["app", "-l", "[::]:8080,80800"], ["app", "-l", "[::]:{port},80800"], "tcp:{port}"),
        (["app8080"], ["app8080"], "tcp:8080"),  # the program's name stays
    ],
)
def test_a_service_tried_beside_the_one_that_runs_has_a_port_of_its_own(
    argv: list[str], served: list[str], ready: str
) -> None:
    line = started.line(Started(tuple(argv), "/"), {"lock": ["off", "future"]}, port=8080)
    assert line is not None
    words = shlex.split(line.partition("&& ")[2] or line)
    assert shlex.split(words[words.index("--serve") + 1]) == served
    assert words[words.index("--ready") + 1] == ready
    command.check_ready(command.Tried(["load"], "/", {}, serve=served, ready=ready))


def test_what_has_run_for_longer_than_a_trial_is_tried_for_a_time() -> None:
    told = Started(("app", "--serve"), "/")
    for age_s, expected in ((started.FOR_S - 1, False), (started.FOR_S + 1, True)):
        line = started.line(told, {"lock": ["off", "future"]}, age_s=age_s)
        assert line is not None
        assert (f"--for {started.FOR_S}s --budget 360s -- app --serve" in line) == expected


@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ({}, True),
        ({"age_s": started.FOR_S + 1.0}, False),
        ({"cpu_share": 0.01}, False),
        ({"port": 80}, False),
    ],
)
def test_what_may_not_end_by_itself_is_said_with_the_time_to_add(
    changes: dict[str, Any], is_said: bool
) -> None:
    """How long it ran for does not tell a batch program from a service."""
    per_s = rates(madvise_dontneed=4e3, minor_faults=6e4)
    seen = replace(look(allocator=JEMALLOC, per_s=per_s, age_s=12.0), **changes)
    cost = diagnosis._cost(0.0, 1.0, 0.0, 0.0)
    of = Diagnosis(seen, None, (), tuple(flow.findings(seen)), (), cost)
    said = "if it does not end by itself, put --for 20s --budget 360s before the --"
    assert (said in list(output._proofs(of))) == is_said


@pytest.mark.parametrize(
    "policies", [{"lock": ["off", "future"]}, {"n": ["1", "2"], "m": ["", "2"]}]
)
def test_what_idles_is_tried_for_a_time_in_a_budget_that_reaches_every_level(
    policies: dict[str, list[str]], tmp_path: Path
) -> None:
    """The budget is the least that `try` itself asks for."""
    told = Started(("app", "{x}"), "/")
    line = started.line(told, {f"env.{n}": of for n, of in policies.items()}, idles=True)
    assert line is not None
    words = shlex.split(line.partition("&& ")[2] or line)
    budget_s = float(words[words.index("--budget") + 1].removesuffix("s"))
    spec = {
        "argv": ["app"],
        "cwd": str(tmp_path),
        "levels": {f"env.{n}": of for n, of in policies.items()},
        "for_s": started.FOR_S,
    }
    of = command.declare(spec)
    for short_s, expected in ((0, ""), (60, f"all: --budget {budget_s:g}s")):
        request = Request("try", subject=spec, budget_s=budget_s - short_s)
        short = StopRule(of, plan.build(of, "quick", {}).points, request).shortfall()
        assert short.endswith(expected)
        assert bool(short) == bool(short_s)


def test_every_policy_that_a_finding_names_is_one_that_try_takes() -> None:
    many = [
        look(allocator=JEMALLOC, per_s=rates(madvise_dontneed=4e3, minor_faults=6e4)),
        look(memory=memory(swapped_bytes=1 << 26), per_s=rates(major_faults=60.0)),
        look(group=group(reached_per_s=200.0), per_s=rates(major_faults=60.0)),
        look(heap=heap(retained_bytes=20 * MiB), per_s=rates(threads_created=200.0)),
    ]
    seen = 0
    for one in many:
        for found in (*flow.findings(one), *stock.findings(one), *limits.findings(one)):
            levels = command.check_policies([], dict(found.policies or {}))
            seen += len(levels)
            assert all(len(of) > 1 or n == "swap" for n, of in levels.items()), found.name
    assert seen >= 4


def test_no_line_where_it_would_not_be_the_same_program() -> None:
    assert started.line(Started(unknown="it is gone"), {"lock": ["off"]}) is None
    assert started.line(Started(("awk", "{lock}"), "/"), {"lock": ["off", "future"]}) is None
    assert started.line(Started(("app",), "/"), {}) is None


@pytest.mark.slow
def test_the_line_proves_the_advice(tmp_path: Path) -> None:
    """As it stands, in a shell: the page faults of what was given back go with the setting."""
    preload = {
        "LD_PRELOAD": library("jemalloc"),
        "MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0",
    }
    with running(sys.executable, "-c", CHURNS, environ=preload) as program:
        before_s = kept_waiting_s(program.pid)
        found = diagnosed(program.pid)
        waited_s = kept_waiting_s(program.pid) - before_s
    if not found["findings"] and waited_s > 0.1:
        pytest.skip(f"a busy machine: it waited {waited_s:.2f} s for a CPU, and does less")
    first = found["findings"][0]
    if first["name"] == "page-faults":
        pytest.skip("its calls are not seen here")
    environ = {**os.environ, "MEMLAB_STORE": str(tmp_path / "store.db")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    line = first["proof"].replace("memlab try", "memlab try --blocks 2 --json")
    tried = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=environ, check=True
    )
    points = json.loads(tried.stdout)["points"]
    faults = {
        point["levels"]["env.MALLOC_CONF"]: point["metrics"]["faults"]["estimate"]
        for point in points
        if "faults" in point["metrics"]
    }
    told, kept = sorted(faults, key=len)
    assert faults[kept] < faults[told] / 10
