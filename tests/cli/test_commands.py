"""Every command, for real: what goes to stdout, what to stderr, and as JSON."""

import json
import os
import re
import stat
import subprocess
import sys
from math import inf
from pathlib import Path
from typing import Any

import click
import pandas as pd
import pytest
from click.testing import CliRunner
from command import Command
from made_up import Machine
from quick import mostly_slow

import memlab
from memlab import cli, experiments, published
from memlab.cli import _hosts, _table
from memlab.present.table import SCREEN
from memlab.run import journal
from memlab.store import Store
from memlab.text import units

COMMANDS = {" ".join(words): row for words, row in _table.commands()}


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What a command that went well printed; nothing on stderr."""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def strict_json(text: str) -> Any:
    """JSON as the standard has it: no NaN, no infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def run(measured: Path) -> str:
    with Store(measured) as opened:
        return opened.find("last").id


def test_help_names_every_command_and_each_has_its_own(command: Command) -> None:
    """The top in a process of its own, and the commands here."""
    text = said(command("--help"))
    top = dict.fromkeys(name.partition(" ")[0] for name, row in COMMANDS.items() if not row.hidden)
    assert re.findall(r"^  ([a-z]+)  +[A-Z]", text, re.MULTILINE) == [*top]
    for name in COMMANDS:
        done = CliRunner().invoke(cli.cli, [*name.split(), "-h"])
        assert done.exit_code == 0
        assert done.output.startswith(f"Usage: memlab {name} ")


def test_each_has_the_short_option_of_help_whoever_asked_for_it_before() -> None:
    """A context of its own knows no -h, and click keeps the help option that it made for it."""
    code = """
from importlib import import_module
import click
from click.testing import CliRunner
from memlab.cli import _table, cli
for words, row in _table.commands():
    command = import_module(row.module).command
    command.make_parser(click.Context(command))
    group = cli.get_command(click.Context(cli), words[0])
    group.make_parser(click.Context(group))
    for name in (words[:1], words):
        print(CliRunner().invoke(cli, [*name, "-h"], catch_exceptions=False).exit_code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"] * 2 * len(COMMANDS)


def test_no_command_shows_the_help(command: Command) -> None:
    done = command()
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout == said(command("--help"))


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(command: Command, option: str) -> None:
    assert said(command(option)) == f"memlab, version {memlab.__version__}\n"


def test_the_installed_command_is_the_module(command: Command) -> None:
    script = Path(sys.executable).with_name("memlab")
    if not script.exists():
        pytest.skip("memlab is not installed as a command")
    # readline tells the children of whoever imports it, pytest's too, how wide a terminal is.
    seen = dict(os.environ)
    done = subprocess.run([script, "list"], env=seen, capture_output=True, text=True, timeout=300)
    assert said(done) == said(command("list"))


def test_list(command: Command) -> None:
    lines = said(command("list")).splitlines()
    assert [line.split()[0] for line in lines] == experiments.names()
    assert all(any(source in line for line in lines) for source in published.ids())
    found = strict_json(said(command("list", "--json")))
    assert [item["name"] for item in found] == experiments.names()
    assert {source for item in found for source in item["studies"]} == set(published.ids())


def test_doctor_says_what_runs_here_and_what_it_takes(command: Command) -> None:
    first, *lines = said(command("doctor", "--verbose")).splitlines()
    runs = [line.partition(", ") for line in lines[: lines.index("")] if line[:2] == "  "]
    assert [name.strip() for name, *_ in runs] == experiments.names()
    said_of = {name.strip(): takes for name, _, takes in runs}
    assert said_of["mmap-write"] == "all 51 points, at most 60 s and 208 MiB"
    assert first.endswith(f" of {len(runs)} experiments run here in full")


@pytest.mark.parametrize("name", experiments.names())
def test_describe(name: str) -> None:
    """In this process: most of a command's time is its start."""
    text = CliRunner().invoke(cli.cli, ["describe", "-v", name], catch_exceptions=False).stdout
    declared = experiments.load(name)
    words = " ".join(text.split())
    assert declared.question in words
    assert "Window:" in text
    assert [f.name for f in declared.factors if f"\n  {f.name} (" not in text] == []
    assert [claim.text for claim in declared.claims if claim.text not in words] == []
    short = CliRunner().invoke(cli.cli, ["describe", name], env={"COLUMNS": "80"}).stdout
    assert len(short.splitlines()) <= SCREEN
    assert declared.question in " ".join(short.split())
    assert short.splitlines()[-1].endswith(f": memlab describe -v {name}")
    varied = [f for f in declared.factors if len(f.levels("quick")) > 1]
    assert [f.name for f in varied if f"-p {f.name}: " not in short] == []
    found = strict_json(CliRunner().invoke(cli.cli, ["describe", name, "--json"]).stdout)
    assert [factor["name"] for factor in found["factors"]] == [f.name for f in declared.factors]
    assert len(found["claims"]) == len(declared.claims)


@pytest.mark.seconds
def test_doctor(command: Command) -> None:
    found = strict_json(said(command("doctor", "--json")))
    assert all({"name", "available", "detail", "remedy"} == item.keys() for item in found)
    text = said(command("doctor", "-v"))
    machine = [item for item in found if not item["name"].startswith("experiment ")]
    assert len(found) == len(machine) + len(experiments.names())
    for item in machine:
        assert f"{'yes' if item['available'] else 'no'}" in text
        assert item["name"] in text
        assert item["available"] or item["remedy"], item


def test_sweep_prints_the_table_and_leaves_a_figure(
    swept: subprocess.CompletedProcess[str], measured: Path
) -> None:
    assert swept.stdout.startswith("run ")
    with Store(measured) as opened:
        count = opened.sample_count(opened.find("last").id)
    assert f"\n{count} samples in " in swept.stdout
    figures = {path.suffix for path in (measured.parent / "figures").iterdir()}
    assert figures == {".png", ".svg", ".json"}
    assert f"figure: {measured.parent}/figures/mmap-write-" in swept.stdout
    assert "block 6: " not in swept.stderr  # no line per block outside of a terminal
    assert "\x1b" not in swept.stdout + swept.stderr


def test_runs(command: Command, run: str) -> None:
    text = said(command("runs"))
    (line,) = (line for line in text.splitlines() if line.startswith(run))
    assert "blocks" in line
    assert "small" in line
    assert "Linux" in text
    (found,) = strict_json(said(command("runs", "--json")))
    assert (found["run"], found["name"], found["ended"]) == (run, "small", "blocks")


@pytest.mark.parametrize("wanted", ["last", "small"])
def test_show(command: Command, run: str, wanted: str) -> None:
    assert said(command("show", wanted)).startswith(f"run {run} (small): ")


def test_show_as_json(command: Command, run: str) -> None:
    found = strict_json(said(command("show", run[:4], "--json")))
    assert (found["run"], found["seed"], found["ended"]) == (run, 7, "blocks")
    assert found["samples"] == sum(sum(p["outcomes"].values()) for p in found["points"])
    for point in found["points"]:
        median = point["metrics"]["time_2gib"]
        assert median["low"] <= median["estimate"] <= median["high"]
        assert median["n"] == 6


def test_export_csv(command: Command, run: str, tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    assert said(command("export", "-o", str(file))).splitlines() == [str(file)]
    assert said(command("export")) == file.read_text()
    frame = pd.read_csv(file)
    assert set(frame["run"]) == {run}
    assert not frame.duplicated(["point", "block"]).any()
    assert (frame["outcome"] == "ok").all()
    assert (frame["elapsed (s)"] > 0).all()
    assert {"size (B)", "method", "faults_per_mib (faults/MiB)", "rss_peak (B)"} <= {*frame}


def test_export_jsonl_and_parquet_hold_the_same(command: Command, run: str, tmp_path: Path) -> None:
    rows = [strict_json(line) for line in said(command("export", "--format", "jsonl")).splitlines()]
    assert {row["run"] for row in rows} == {run}
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    file = tmp_path / "samples.parquet"
    said(command("export", "--format", "parquet", "-o", str(file)))
    frame = pd.read_parquet(file)
    assert list(frame.columns) == list(rows[0])
    assert frame["sample"].tolist() == [row["sample"] for row in rows]
    assert frame["elapsed"].tolist() == pytest.approx([row["elapsed"] for row in rows], abs=1e-9)


def test_parquet_needs_a_file(command: Command, run: str) -> None:
    done = command("export", "--format", "parquet")
    assert (done.returncode, done.stdout) == (2, "")
    assert "name a file with -o" in done.stderr


@pytest.mark.parametrize("words", mostly_slow(["export", "report"], "export"))
def test_output_makes_its_folder(command: Command, run: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / words / "output"
    assert said(command(words, "-o", str(file))).splitlines()[0] == str(file)
    assert file.exists()


@pytest.mark.slow
def test_output_to_a_device_leaves_it_a_device(command: Command, run: str, tmp_path: Path) -> None:
    """As root a report to /dev/null once replaced it, for every user of the host."""
    null, link = tmp_path / "null", tmp_path / "link.html"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        null.write_bytes(b"")
    except PermissionError:
        null = Path("/dev/null")
    link.symlink_to(null)
    for path in (null, link):
        assert said(command("report", "-o", str(path))) == f"{path}\n"
        assert stat.S_ISCHR(null.stat().st_mode)
    assert link.is_symlink()


def test_export_to_a_place_that_cannot_be(command: Command, run: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command("export", "-o", str(tmp_path / "file" / "samples.csv"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"memlab: cannot write {tmp_path}/file: ")


@pytest.mark.slow
def test_plot(command: Command, run: str, tmp_path: Path) -> None:
    files = said(command("plot", "-o", str(tmp_path / "one.svg"))).split()
    assert sorted(files) == [f"{tmp_path}/one.json", f"{tmp_path}/one.svg"]
    assert "<svg" in Path(files[0]).read_text()
    assert strict_json((tmp_path / "one.json").read_text())
    done = command("plot", "-o", "one.gif")
    assert done.returncode == 2
    assert ".png, .svg, .pdf" in done.stderr


@pytest.fixture
def _of_this_test_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the system's temporary folders `clean` finds what another test's killed command left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.mark.usefixtures("_of_this_test_alone")
def test_clean(command: Command) -> None:
    assert said(command("clean")) == "nothing to clean\n"
    assert strict_json(said(command("clean", "--json"))) == {
        "undone": [],
        "failed": [],
        "left_alone": [],
    }


@pytest.mark.usefixtures("_of_this_test_alone")
def test_clean_names_each_damaged_journal(command: Command) -> None:
    folder = journal.folder()
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"{name}.jsonl").write_bytes(b"rubbish\n")
    done = command("clean")
    why = "it is not one memlab wrote; look at it, then remove it"
    assert done.returncode == 3
    assert done.stderr == f"memlab: could not undo {folder}/a.jsonl: {why}\n"
    assert done.stdout == f"could not undo {folder}/b.jsonl: {why}\n"


def test_dry_run_makes_nothing(command: Command, tmp_path: Path, store_path: Path) -> None:
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    plan = ["-p", "size=1,4k", "-p", "file_size=1m", "-p", "filesystem=dir,tmpfs"]
    plan += ["--dir", str(tmp_path), "--dry-run"]
    found = strict_json(said(command("sweep", "mmap-write", *plan, "--blocks", "5", "--json")))
    assert found["blocks"] == 5
    assert found["disk_bytes"] == {str(tmp_path): 3 * 2**20, "/dev/shm": 3 * 2**20}  # by state
    text = said(command("sweep", "mmap-write", *plan))
    assert f"points   {len(found['points'])}\n" in text
    assert "budget   60 s" in text
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


TINY = ["mmap-write", "-p", "size=4k", "-p", "file_size=64k", "-p", "filesystem=dir"]
TINY += ["-p", "file_state=cached_4k", "-p", "slice=1ms", "--blocks", "1", "--no-controls"]


def test_sweep_as_json(command: Command, store_path: Path, tmp_path: Path) -> None:
    out = ["--dir", str(tmp_path), "-o", str(tmp_path / "figures")]
    found = strict_json(said(command("sweep", *TINY, *out, "--json")))
    assert found["ended"] == "blocks"
    assert len(found["points"]) == 2
    assert all(Path(path).exists() for path in found["figures"])


@pytest.mark.slow
def test_quiet_prints_the_runs_id_alone(command: Command, store_path: Path, tmp_path: Path) -> None:
    run = said(command("sweep", *TINY, "--dir", str(tmp_path), "-q")).strip()
    with Store(store_path) as opened:
        assert opened.find("last").id == run


def test_options_come_from_the_environment(command: Command, tmp_path: Path) -> None:
    found = strict_json(
        said(
            command(
                *("sweep", "mmap-write", "--dry-run", "--json"),
                MEMLAB_SWEEP_BLOCKS="3",
                MEMLAB_SWEEP_DIR=str(tmp_path),
            )
        )
    )
    assert found["blocks"] == 3
    assert str(tmp_path) in found["disk_bytes"]


def test_the_variable_of_an_option_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ("", *COMMANDS):
        context = click.Context(cli.cli, auto_envvar_prefix="MEMLAB")
        command: click.Command | None = cli.cli
        for name in words.split():
            assert isinstance(command, click.Group)
            command = command.get_command(context, name)
        assert command
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_eager:
                long = max(option.opts, key=len).lstrip("-").replace("-", " ")
                variable = "_".join(["memlab", *words.split(), *long.split()]).upper()
                monkeypatch.setenv(variable, "given")
                of = context if command is cli.cli else click.Context(command)
                assert option.resolve_envvar_value(of) == "given", variable


@pytest.mark.parametrize(
    ("wait_s", "words"), [(0.0, []), (inf, ["--wait"]), (90.5, ["--wait=90.500000s"])]
)
def test_hosts_wait_as_long_as_this_one(wait_s: float, words: list[str]) -> None:
    """Also if MEMLAB_WAIT says so, which other hosts do not see."""
    context = click.Context(cli.cli)
    context.params["wait_s"] = wait_s
    with context:
        assert _hosts._waiting() == words
    assert wait_s in (0.0, inf) or units.parse_duration("90.500000s") == wait_s


def test_a_wrong_time_in_the_environment_is_named(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLAB_WAIT", "true")
    done = command("list")
    assert done.returncode == 2
    assert "MEMLAB_WAIT" in done.stderr


def in_a_terminal(*arguments: str, **environment: str) -> bytes:
    """What a command prints to a terminal of 80 columns."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "memlab", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"} | environment,
    )
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 65536):
            text += piece
    except OSError:  # EIO: the other end has closed
        pass
    os.close(master)
    assert process.wait(300) == 0
    return text


@pytest.mark.slow
def test_colour_in_a_terminal_and_none_where_it_is_not_wanted(run: str) -> None:
    assert b"\x1b[1m" in in_a_terminal("show")
    assert b"\x1b[3" not in in_a_terminal("show", NO_COLOR="1")


@pytest.mark.seconds(but="--help")
@pytest.mark.parametrize("arguments", ["list", "--help", "show last", "export last", "runs"])
def test_a_reader_that_has_gone_is_no_error(run: str, arguments: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "memlab", *arguments.split()],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_head_gets_its_byte(run: str) -> None:
    line = f"{sys.executable} -m memlab export last | head -c 1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("r", "")


@pytest.mark.slow
def test_a_closed_gate_is_an_exit_code_of_the_command_itself(
    command: Command, store_path: Path
) -> None:
    machine = Machine(store_path)
    machine.sweep("mmap-write", size=[4096], controls=False)
    machine.factor = 1.5
    machine.sweep("mmap-write", size=[4096], controls=False)
    gates = ["--fail-on", "regression"]
    for form in (["--json"], ["--format", "text"], ["--format", "junit"]):
        done = command("compare", "00000001", "00000002", *gates, *form)
        assert (done.returncode, done.stderr) == (cli.GATE, "")
        assert done.stdout
    assert command("compare", "00000002", "00000001", *gates).returncode == cli.DONE


@pytest.mark.parametrize(
    ("words", "variable", "waits_s"),
    [
        (["--wait=5"], "", 5.0),
        (["--wait=2min"], "", 120.0),
        ([], "7", 7.0),
        (["--wait=3"], "7", 3.0),
    ],
)
def test_how_long_another_is_waited_for(
    words: list[str], variable: str, waits_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare number is in seconds, as for --budget; the variable has the option's name."""
    if variable:
        monkeypatch.setenv("MEMLAB_WAIT", variable)
    with cli.cli.make_context("memlab", [*words, "list"]) as ctx:
        assert ctx.params["wait_s"] == waits_s
