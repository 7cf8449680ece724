"""Each example of a help text is run: here as it stands, or by the test that is named beside it."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from warnings import catch_warnings, simplefilter

import click
import needs
import pytest
from click.testing import CliRunner
from made_up import Machine
from traces.made import AGAIN, AT, HAS_AGAIN, LOOKED, PAGE, START, Made

from memlab import experiments
from memlab.cli import _table, cli
from memlab.experiment.levels import read_levels
from memlab.store import Store

ROOT = Path(__file__).parents[2]
_EXAMPLE = re.compile(r"((git bisect run|ssh b) )?memlab( |$)")
# What needs kernels in guests, other hosts, packages or hours: the file of the tests that run it.
COMMANDS = {words: import_module(row.module).command for words, row in _table.commands()}
ELSEWHERE = {
    "kernels bisect": "tests/machines/test_ladder_measured.py",
    "kernels ladder": "tests/machines/test_ladder_measured.py",
    "kernels fetch": "tests/machines/test_kernels.py",
    "kernels run": "tests/machines/test_guest_run.py",
    "hosts pull": "tests/fleet/test_pull.py",
    "hosts worker": "tests/fleet/test_dask.py",
    "--on ": "tests/fleet/test_fleet.py",
    "--in guest": "tests/machines/test_guest.py",
    "reproduce all": "tests/judging/test_reproduce.py",
    " b:page-fault": "tests/cli/test_several_hosts.py",
    " all:page-fault": "tests/cli/test_several_hosts.py",
    "ssh b memlab": "tests/fleet/test_pull.py",
    "diagnose ": "tests/diagnose/test_live.py",
    "record ": "tests/traces/test_recording.py",
}


def examples() -> list[str]:
    found = []
    for command in COMMANDS.values():
        text = re.sub(r" \\\n *", " ", inspect.cleandoc(command.help or ""))
        found += [line.strip() for line in text.splitlines() if _EXAMPLE.match(line.strip())]
    return [re.split(r"   +", line)[0] for line in found]


def named(words: list[str]) -> tuple[str, ...]:
    """The words of a command line that name its command."""
    (name,) = (name for name in COMMANDS if tuple(words[1 : 1 + len(name)]) == name)
    return name


EXAMPLES = examples()
FAR = [one for one in EXAMPLES if any(part in one for part in ELSEWHERE)]
NEAR = [one for one in EXAMPLES if one not in FAR]
# Those that measure, or that draw the figures of a whole study, or of what another one draws.
_LONG = r"memlab (sweep|try|fit|reproduce|history page-fault|report example|report$)"
LONG = [one for one in NEAR if re.match(_LONG, one)]

PROGRAM = "#!/bin/sh\necho Throughput: 1\n"
SERVER = f"""#!{sys.executable}
import socket, sys
if "--selftest" in sys.argv:
    sys.exit()
one = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    one.accept()[0].close()
"""


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """One of its own, as what an example leaves behind is nothing to the next."""
    return Path(shutil.copytree(made, tmp_path / "user"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, with what the examples name: runs, files and programs."""
    made = tmp_path_factory.mktemp("user")
    machine = Machine(made / "results.db")
    names = ["b2f6ed4e", "before", "after", "v6.1", "v6.6", "v6.12", "last-one"]
    for name in names:
        run = machine.sweep("mmap-write")
        with Store(machine.store) as store:
            store.rename_run(run.id, name)
    read(made, "export", "before", "--format", "rows", "-o", "baseline.jsonl")
    read(made, "export", "before", "--format", "rows", "-o", "rows.jsonl")
    other = Machine(made / "results-of-b.db")
    other.sweep("mmap-write")
    for program in ("app", "old", "new"):
        (made / program).write_text(PROGRAM)
    (made / "server").write_text(SERVER)
    (made / "service").write_text("#!/bin/sh\nexec sleep 1000\n")
    (made / "load").write_text(PROGRAM)
    for program in ("app", "old", "new", "server", "load", "service"):
        (made / program).chmod(0o755)
    (made / "app.toml").write_text('command = ["./app"]\n[policies]\nlock = ["off", "future"]\n')
    (made / "site").mkdir()
    return made


def environment(folder: Path) -> dict[str, str]:
    return {
        "MEMLAB_STORE": str(folder / "results.db"),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_DATA_HOME": str(folder / "data"),
        "MEMLAB_SWEEP_BUDGET": "1s",
        "MEMLAB_TRY_BUDGET": "1s",
        "MEMLAB_FIT_BUDGET": "5s",
        "MEMLAB_REPRODUCE_BUDGET": "1s",
        "COLUMNS": "80",
    }


def memlab(folder: Path, *words: str, good: tuple[int, ...] = (0,)) -> str:
    """As a user would, in a process of its own."""
    line = [sys.executable, "-m", "memlab", *words]
    done = subprocess.run(
        line,
        cwd=folder,
        env={**os.environ, **environment(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in good, (words, done.stdout[-800:], done.stderr[-800:])
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr, done.stderr  # of a library, with a path of its source
    return done.stdout


def read(folder: Path, *words: str, good: tuple[int, ...] = (0,)) -> str:
    """The same of what measures nothing, in this process."""
    with chdir(folder), catch_warnings():
        simplefilter("error")
        done = CliRunner().invoke(cli, words, env=environment(folder))
    assert done.exit_code in good, (words, done.output[-800:], done.exception)
    return done.output


def marked(example: str) -> object:
    """Huge pages on for everybody are a setting of the host."""
    return pytest.param(example, marks=pytest.mark.changes_host) if "thp=" in example else example


_BRIEFLY = ("--for 20s --budget 6min", "--for 50ms --budget 6s")


@pytest.mark.slow
@pytest.mark.parametrize("example", [marked(one) for one in LONG])
def test_an_example_that_measures_runs(example: str, folder: Path) -> None:
    if "malloc=" in example:
        needs.of("jemalloc")
        needs.of("mimalloc")
    small = ["-p", "file_size=1m", "-p", "slice=1ms"]
    words = shlex.split(example.replace("/data", str(folder)).replace(*_BRIEFLY))
    if words[1] == "sweep" and "--resume" not in words:
        words += small
    if "app.trace" in words:
        made = Made(flags=HAS_AGAIN).add(START).map(AT, 101).touch(AT, 53).add(LOOKED)
        made.add(AGAIN, AT, 64 * PAGE, 7).write(folder / "app.trace")
    if "app?.trace" in words:
        traces = [f"app{number}.trace" for number in range(1, 7)]
        for number, name in enumerate(traces):
            Made().add(START).map(AT, 101).touch(AT, 53 + number).write(folder / name)
        words[-1:] = traces  # as a shell does
    if "--resume" in words:
        memlab(folder, "sweep", "mmap-write", "--blocks", "2", *small)
    if words[1] == "history":
        tiny = experiments.load("page-fault").tiny
        levels = [f"{name}={','.join(map(str, of))}" for name, of in tiny.items()]
        for _ in range(4):
            factors = [word for level in levels for word in ("-p", level)]
            memlab(folder, "sweep", "page-fault", "--no-controls", "--blocks", "1", *factors)
    # A gate may close: old and new are the same program.
    memlab(folder, *words[1:], good=(0, 1) if "--gate" in words else (0,))


@pytest.mark.seconds(but="memlab export last --format rows -o baseline.jsonl")
@pytest.mark.parametrize("example", [one for one in NEAR if one not in LONG])
def test_an_example_runs(example: str, folder: Path) -> None:
    words = shlex.split(example)
    if "nights.csv" in words:
        nights = (f"2026-01-{day:02},{1 + day % 3}" for day in range(1, 31))
        (folder / "nights.csv").write_text("\n".join(["date,value", *nights]) + "\n")
    if "--rename" in words:
        read(folder, "runs", "--delete", "after")
    # A gate may close: what is compared here was made to be unlike.
    read(folder, *words[1:], good=(0, 1) if {"--gate", "--fail-on"} & set(words) else (0,))


@pytest.mark.parametrize("example", FAR)
def test_an_example_of_other_machines_names_what_is_there(example: str) -> None:
    """Its command, options, experiment, levels, metric and claim; and the test that runs such."""
    where = next(ELSEWHERE[part] for part in ELSEWHERE if part in example)
    words = shlex.split(example[example.index("memlab") :].partition(" | ")[0])
    path = named(words)
    assert path[-1] in (ROOT / where).read_text(encoding="utf-8")
    command = COMMANDS[path]
    given, rest, _ = command.make_parser(click.Context(command)).parse_args(words[1 + len(path) :])
    name = given.get("experiment") or next((w for w in rest if w in experiments.names()), None)
    if name not in experiments.names():
        return
    declared = experiments.load(str(name))
    read_levels(declared, given.get("levels") or [])
    if path[-1] == "bisect":
        known = {c.id for c in declared.claims} | {m.name for m in declared.metrics}
        assert words[4] in known


def test_there_are_examples_and_each_has_its_test() -> None:
    """A command without one is known by its name."""
    commands = {
        " ".join(named(shlex.split(one[one.index("memlab") :].partition(" | ")[0])))
        for one in EXAMPLES
    }
    assert len(EXAMPLES) > 40
    assert {*FAR, *NEAR} == set(EXAMPLES)
    assert commands >= {"sweep", "try", "compare", "claims", "history", "kernels bisect"}
    assert all((ROOT / path).exists() for path in ELSEWHERE.values())
