"""What a command proposes works when it is pasted: each "next", "to get it" and "did you mean"."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from warnings import catch_warnings, simplefilter

import click
import pytest
from click.testing import CliRunner, Result
from made_up import Machine

import memlab
from memlab import api, experiments, measure
from memlab.cli import cli
from memlab.errors import BadRequest, MemlabError, nearest
from memlab.experiment.levels import read_levels
from memlab.judging.claims import judge
from memlab.measure import RunsHere
from memlab.observe import cpu
from memlab.observe.capabilities import Capability
from memlab.present import measured_again
from memlab.results import Run
from memlab.run import containment, plan
from memlab.store import Store
from memlab.text import units

LONG = "glibc.malloc.trim_threshold=4294967296:glibc.malloc.mmap_threshold=33554432"
SIXTY = "x" * 60


def ask(*words: str) -> Result:
    """One command; a library's warning is a failure."""
    with catch_warnings():
        simplefilter("error")
        done = CliRunner().invoke(cli, words, env={"COLUMNS": "80"})
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done


def refused(*words: str) -> str:
    """What it says of a command that it does not do."""
    done = CliRunner().invoke(cli, words, env={"COLUMNS": "80"})
    assert isinstance(done.exception, MemlabError | SystemExit), (words, done.output)
    said = str(done.exception) if isinstance(done.exception, MemlabError) else done.stderr
    assert done.exit_code != 0
    return said.splitlines()[-1]


def proposed(text: str) -> list[str]:
    """The words of the command that a last line proposes."""
    last = text.splitlines()[-1]
    assert last.startswith("next: memlab ")
    return shlex.split(last.removeprefix("next: memlab "))


@pytest.mark.seconds(but="policies7-sh -c 'exit 3'-short7")
@pytest.mark.parametrize(
    ("policies", "command", "short"),
    [
        ([f"env.GLIBC_TUNABLES=,{LONG}"], "true", ["GLIBC_TUNABLES set"]),
        ([f"env.A=,{SIXTY},{SIXTY}y"], "true", ["A 1", "A 2"]),
        pytest.param(["env.A=a b,c:d"], "true", [], marks=pytest.mark.slow),
        (["env.A=it's,-x"], "true", []),
        ([f"n={SIXTY},1"], "true {n}", [f"n=…{SIXTY[-20:]}"]),
        pytest.param(
            *(["lock=off,future"], "true", []),
            marks=[pytest.mark.slow, pytest.mark.needs("lock any amount")],
        ),
        pytest.param(
            *(["memory_max=none,256m"], "true", []),
            marks=[pytest.mark.slow, pytest.mark.needs("memory cgroup")],
        ),
        (["nice=0,1"], "sh -c 'exit 3'", []),  # no trial ends well, and nothing can be compared
    ],
)
def test_what_a_try_proposes_runs(
    policies: list[str], command: str, short: list[str], store_path: Path
) -> None:
    options = [word for one in policies for word in ("-p", one)]
    words = ["--store", str(store_path), "try", *options, "--blocks", "2", "--"]
    if "exit 3" in command:
        (run,) = re.findall(r"`memlab (show \w+)`", refused(*words, *shlex.split(command)))
        ask("--store", str(store_path), *run.split())
        return
    done = ask(*words, *shlex.split(command))
    assert "unavailable" not in done.stdout
    assert len(done.stdout.splitlines()) <= 40
    assert SIXTY not in "".join(done.stdout.splitlines()[:-1])
    ask(*proposed(done.stdout))
    shown = " ".join(ask("--store", str(store_path), "show").stdout.split())
    assert all(f"{one}: " in shown for one in short)  # what the short names stand for


@pytest.mark.seconds
def test_a_duet_proposes_what_it_compares_first(store_path: Path) -> None:
    words = ["--store", str(store_path), "try", "--duet", "-p", "n=1,2", "--blocks", "6"]
    found = proposed(ask(*words, "--", "true", "{n}").stdout)
    assert found[found.index("--metric") + 1] == "cpu_time"
    ask(*found)


def test_too_few_blocks_to_compare_are_followed_by_the_same_try_with_enough(
    store_path: Path,
) -> None:
    store = ["--store", str(store_path)]
    words = ["try", "-p", r"env.A=a\,b c,it's", "-p", "n=1,2", "--timeout", "90s"]
    command = ["--", "true", "{n}"]
    few = proposed(ask(*store, *words, "--blocks", "1", *command).stdout)
    assert few == [*words, "--blocks", "7", *command]  # of four levels
    compared = ask(*store, "compare", "last", "--baseline", "n=1", "--metric", "peak_rss").stdout
    assert proposed(compared) == few
    enough = proposed(ask(*few).stdout)
    assert enough[0] == "compare"
    ask(*enough)


def test_no_command_is_proposed_that_pasting_would_change(store_path: Path) -> None:
    words = ["--store", str(store_path), "try", "-p", "n=1,2", "--blocks", "1", "--"]
    text = ask(*words, "sh", "-c", "true\n: {n}").stdout
    assert " try " not in text.partition("next: ")[2]


def test_a_comparison_of_two_runs_names_what_measures_more_of_either(store_path: Path) -> None:
    store = ["--store", str(store_path)]
    words = ["try", "--metric", "x=([0-9]+)", "--expect", "x > 0", "-p", "nice=0"]
    for blocks in ("1", "6"):
        ask(*store, *words, "--name", f"of{blocks}", "--blocks", blocks, "--", "echo", "7")
    compared = ask(*store, "compare", "of1", "of6", "--metric", "x").stdout
    assert proposed(compared) == [
        "try", "-p", "nice=0", "--metric", "x[1]=([0-9]+)", "--expect", "x > 0", "--blocks", "6",
        "--", "echo", "7",
    ]  # fmt: skip
    ask(*proposed(compared))
    assert "next: " not in ask(*store, "compare", "of6", "last", "--metric", "x").stdout


def test_a_run_of_another_host_is_not_measured_again_here(tmp_path: Path) -> None:
    run = Machine(tmp_path / "a.db").sweep("mmap-write", size=["1"], controls=False)
    assert " sweep mmap-write " in measured_again.with_blocks(run)
    of_host = Run(replace(run.row, origin="b"), run.store_path)
    assert measured_again.with_blocks(of_host) == ""


def test_the_command_in_a_report_measures_the_same_again(store_path: Path) -> None:
    words = ["try", "-p", "env.A=,x y", "-p", "memory_max=none,96M", "--metric", "x=(7)"]
    words += ["--timeout", "90s", "--expect", "x > 0", "--blocks", "1", "--design", "seed=3"]
    shell = ["--", "sh", "-c", "echo 7; : {}"]
    if containment.lack():
        del words[3:5]
    ask("--store", str(store_path), *words, *shell)
    first = memlab.load(store=store_path)
    line = shlex.split(measured_again.again(first))
    assert line.pop(0) == "memlab"
    ask("--store", str(store_path), *line)
    second = memlab.load(store=store_path)
    assert first.id != second.id
    assert first.row.request["subject"] | {"cap_bytes": 0} == second.row.request["subject"] | {
        "cap_bytes": 0
    }
    assert (first.blocks, first.row.seed) == (second.blocks, second.row.seed) == (1, 3)


@pytest.mark.seconds
def test_tries_of_other_policies_share_no_point(store_path: Path) -> None:
    for policies in ([], ["-p", "env.A=,x"]):
        ask("--store", str(store_path), "try", *policies, "--blocks", "1", "--", "true")
    with Store(store_path) as opened:
        first, second = (run.id for run in opened.runs())
    store = ["--store", str(store_path)]
    assert "share no point with samples" in refused(*store, "compare", first, second)
    assert "share no point with samples" in refused(*store, "compare", second, first)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("env.A=x,x", "its levels are the same"),
        (
            "env.GLIBC_TUNABLES=glibc.malloc.top_pad=1:glibc.malloc.arena_max=1,"
            "glibc.malloc.arena_max=1:glibc.malloc.top_pad=1",
            "its levels are the same",
        ),
    ],
)
def test_what_compares_nothing_is_refused(policy: str, said: str) -> None:
    found = refused("try", "-p", policy, "--", "true")
    assert said in found
    assert "did you mean" not in found


@pytest.mark.parametrize("port", ["99999", "²"])
def test_a_port_that_is_none_is_refused_before_anything_runs(port: str, store_path: Path) -> None:
    words = ["--store", str(store_path), "try", "--serve", "sleep 1", "--ready", f"tcp:{port}"]
    assert "a port is 1 to 65535" in refused(*words, "--", "true")
    assert not store_path.exists()


# The recorded runs with a claim that a sweep of other levels would decide.
OPEN = ("group-isolation", "memcg-accounting", "memcg-notify", "thp-cost")


@pytest.mark.parametrize("name", OPEN)
def test_the_sweep_that_a_claim_needs_is_one(name: str) -> None:
    """Its options are the command's, its levels the experiment's, and its points leave a plan."""
    declared = experiments.load(name)
    evidence = "\n".join(one.evidence for one in judge(api.load(f"example:{name}")))
    lines = {*re.findall(r"to get it: memlab (sweep .*)", evidence)}
    assert lines
    for line in lines:
        words = shlex.split(line)
        command = cli.get_command(click.Context(cli), words[0])
        assert command
        given, rest, _ = command.make_parser(click.Context(command)).parse_args(words[1:])
        assert given["experiment"] == name
        assert rest == []
        levels = read_levels(declared, given["levels"] or [])
        assert plan.build(declared, "quick", levels).points


SMALL = ["-p", "size=4k", "-p", "file_state=cached_4k", "-p", "file_size=1m", "-p", "slice=1ms"]


@pytest.mark.seconds
def test_what_a_short_sweep_and_its_end_propose_runs(tmp_path: Path) -> None:
    """With a store of its own, in a folder whose name has a blank: the line names it."""
    store = ["--store", str(tmp_path / "a b.db")]
    done = ask(*store, "sweep", "mmap-write", *SMALL, "--no-controls", "--blocks", "2")
    ask(*proposed(done.stdout))
    run = api.load(store=tmp_path / "a b.db")
    with Store(tmp_path / "a b.db") as opened:
        opened.end_session(run.id, 1, 1.0, "budget")  # as if it had been too short
    shown = " ".join(ask(*store, "show").stdout.split())
    (line,) = re.findall(r"the others get them by: memlab (--store .* --budget \d+s)", shown)
    assert str(tmp_path / "a b.db") in shlex.split(line)
    ask(*shlex.split(line))


@pytest.mark.slow
def test_what_a_reproduction_proposes_runs(store_path: Path) -> None:
    store = ["--store", str(store_path)]
    words = ["reproduce", "mmap-write", "--budget", "1s"]
    ask(*proposed(next_of(ask(*store, *words).stdout)))


@pytest.mark.seconds
@pytest.mark.parametrize("command", ["describe vma-lock", "claims example:vma-lock", "diagnose"])
def test_what_has_no_room_is_printed_by_the_command_that_is_named(command: str) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            words = command.split()
            words += [str(process.pid), "--seconds", "0.1"] if command == "diagnose" else []
            lines = ask(*words).stdout.splitlines()
            assert lines[-1].startswith("not shown: ")
            whole = ask(*shlex.split(lines[-1].rpartition(": memlab ")[2])).stdout
        finally:
            process.kill()
    assert "not shown: " not in whole
    assert len(whole.splitlines()) > len(lines)


def next_of(text: str) -> str:
    """Up to the line that proposes: a table may stand below it."""
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("next: "))
    return "\n".join(lines[: at + 1])


def test_no_run_takes_the_name_of_another(store_path: Path) -> None:
    machine = Machine(store_path)
    first, second = (machine.sweep("mmap-write", controls=False) for _ in range(2))
    store = ["--store", str(store_path)]
    ask(*store, "runs", "--rename", first.id, "new")
    said = refused(*store, "runs", "--rename", second.id, "new")
    (words,) = re.findall(r"memlab (runs --rename \w+) OTHER", said)
    ask(*store, *words.split(), "old")  # as it proposes
    ask(*store, "runs", "--rename", second.id, "new")
    ask(*store, "runs", "--rename", second.id, "new")  # its own
    with Store(store_path) as opened:
        assert {run.id: run.name for run in opened.runs()} == {first.id: "old", second.id: "new"}


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["history", "mmap-write", "--metric", "throughput"], "populated"),
        (["schema", "foo"], "doctor"),
        (["describe", "nothing"], "memcg-accounting"),
        (["try", "-p", "lock=on", "--", "true"], "off"),
    ],
)
def test_what_is_not_near_is_not_proposed(words: list[str], wrong: str) -> None:
    said = refused(*words)
    assert "did you mean" not in said
    assert wrong not in said or "choose from" in said or "there are" in said


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["describe", "mmap-wirte"], "mmap-write"),
        (["describe", "page"], "page-fault"),
        (["claims", "mmap-wirte"], "mmap-write"),
        (["schema", "shwo"], "show"),
        (["swep"], "`memlab sweep`"),
        (["sweep", "mmap-write", "-p", "methd=write", "--dry-run"], "method"),
    ],
)
def test_what_is_near_is_proposed(words: list[str], right: str, store_path: Path) -> None:
    Machine(store_path).sweep("mmap-write", size=[4096], controls=False)
    if words[0] == "claims":
        words = ["--store", str(store_path), *words]
    assert f"did you mean {right}?" in refused(*words)


def test_a_proposed_name_is_one_that_is_known() -> None:
    assert nearest("", ["a", "b"], "none") == "none"
    assert nearest("thp", ["thp-cost"], "") == "did you mean thp-cost?"


def test_doctor_ends_with_the_one_line_that_installs_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking = [
        Capability("a", False, "x", "apt install libjemalloc2; or build it"),
        Capability("b", False, "x", "apt install busybox-static, kmod is there"),
        Capability("c", False, "x", "boot with mem=; apt install libjemalloc2"),
        Capability("d", True, "x", "apt install what-is-there"),
        Capability("e", False, "x", None),
    ]
    experiment = RunsHere("a", False, "x", lacking[0].remedy, decides=1, claims=2)
    monkeypatch.setattr(measure, "runs_here", lambda: [experiment])
    monkeypatch.setattr(measure, "capabilities_here", lambda: lacking[1:])
    monkeypatch.setattr(cpu, "busy_share", lambda **_: 0.9)
    lines = ask("doctor").stdout.splitlines()
    assert lines[-1] == "apt install libjemalloc2 busybox-static"
    assert any(line.startswith("busy machine: its CPUs are 90 % busy now") for line in lines[:3])


def test_a_dry_run_says_what_one_wants_first_and_that_the_machine_is_busy(
    monkeypatch: pytest.MonkeyPatch, store_path: Path
) -> None:
    monkeypatch.setattr(cpu, "busy_share", lambda **_: 0.9)
    words = ["--store", str(store_path), "sweep", "mmap-write", "-p", "file_size=1m", "--dry-run"]
    lines = ask(*words).stdout.splitlines()
    first = "\n".join(lines[:8])
    assert all(f"{name} " in first for name in ("points", "trials", "memory", "time"))
    assert "busy machine: " in first
    monkeypatch.setattr(cpu, "busy_share", lambda **_: None)
    assert "busy machine" not in ask(*words).stdout


@pytest.mark.parametrize("what", ["true", "./app --selftest"])
def test_a_command_as_one_text_is_refused(what: str) -> None:
    with pytest.raises(BadRequest, match="a list of its words"):
        memlab.trial(what)


@pytest.mark.parametrize("text", ["4k", "4kib", "4KiB", "4 KiB", "4KIB"])
def test_a_size_in_kib_however_it_is_written(text: str) -> None:
    assert units.parse_size(text) == 4096
