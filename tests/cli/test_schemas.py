"""What every command's --json prints, held against its schema; odd runs too."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from command import Command
from diagnose.test_last_kill import V1 as OF_A_KILL
from made_up import Machine
from quick import mostly_quick, mostly_slow
from synthetic import failed, run_row, sample
from traces.made import AT, LOOKED, Made

from memlab import api, cli, experiments, recorded
from memlab.analysis.intervals import Interval
from memlab.cli import _schemas as schemas
from memlab.cli import _table
from memlab.errors import HostError
from memlab.machines.guest.kernels import Found
from memlab.machines.guest.machine import GuestSpec
from memlab.machines.ladder import judge as ladder
from memlab.machines.ladder.documents import Ladder
from memlab.machines.ladder.measure import KernelResult
from memlab.present import documents
from memlab.present.documents.lists import ListedExperiment
from memlab.request import Request
from memlab.run import journal, plan
from memlab.run.cleanup import PREFIX
from memlab.store import PointRow, Store
from memlab.trace import file
from memlab.trace.documents import Recording
from memlab.trace.recording import Recorded

RUN = "0123abcd"
Printed = Callable[..., Any]

TINY = "-p size=4k -p file_size=64k -p filesystem=dir -p slice=1ms"

# arguments, with {run} for a measured run and {pid} for a process that lives
DOCUMENTS = {
    "claims": "claims {run}",
    "claims-hosts": "claims all:mmap-write",
    "clean": "clean",
    "compare": "compare base {run}",
    "describe": "describe vma-lock",
    "diagnose": "diagnose {pid} --seconds 0.01",
    "diagnose-last-kill": "diagnose --last-kill={folder}/kernel.txt",
    "doctor": "doctor",
    "fit": "fit --json --budget 5s -- true",
    "fit-trace": "fit --json {folder}/a.trace",
    "history": "history mmap-write -o {folder}",  # of two nights
    "hosts-import": "hosts import {folder}/rows --host b",
    "kernels-ladder": "",  # see ladder_document
    "kernels-list": "kernels list {folder}",
    "list": "list",
    "record": "",  # see record_document; tests/traces records
    "record-runs": "",  # the same, several
    "reproduce": "reproduce vma-lock --budget 1s",
    "runs": "runs",
    "show": "show {run}",
    "show-trace": "show {folder}/a.trace -o {folder}",
    "sweep": f"sweep mmap-write {TINY} --no-controls --blocks 1",
    "sweep-dry-run": "sweep mmap-write --dry-run",
    "try": "try --json --blocks 1 -- true",
}
# What needs other hosts or kernels, and prints documents of the type of another command.
ALIKE = dict.fromkeys(["hosts-pull", "sweep-on", "try-on"], "hosts-import")
ALIKE |= {"kernels-fetch": "kernels-list"}


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = schemas.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def held(name: str, document: Any) -> Any:
    """The document, which its schema takes."""
    validator(name).validate(document)
    return document


def strict_json(text: str) -> Any:
    """JSON as the standard has it: no NaN, no infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """What `memlab ARGUMENTS --json` prints in this process, held against the schema."""

    def run(*arguments: object, code: int = 0) -> Any:
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr(sys, "argv", ["memlab", *words, "--json"])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert ended.value.code == code, err
        return held(schema_of(words), strict_json(out))

    return run


def schema_of(words: list[str]) -> str:
    return "sweep-dry-run" if "--dry-run" in words else words[0]


def valid(done: subprocess.CompletedProcess[str], name: str) -> Any:
    """What a command in a process of its own printed. What a budget or this host cannot reach is
    said."""
    reached = (" measure about ", " not testable here: ")
    warnings = [line for line in done.stderr.splitlines() if not any(s in line for s in reached)]
    assert (done.returncode, warnings) == (0, [])
    return held(name, strict_json(done.stdout))


def store_run(path: Path, outcomes: tuple[str, ...] = (), experiment: str = "mmap-write") -> None:
    """A run of the smallest plan, its trials ended so, into the store. None ended well."""
    declared = experiments.load(experiment)
    points = plan.build(declared, "quick", declared.tiny).points
    row = run_row(RUN, experiment=experiment, request=asdict(Request(experiment)))
    with Store(path, create=True) as store:
        store.add_run(row, [PointRow(p.index, dict(p.at), p.control) for p in points])
        if not outcomes:
            return
        session = store.begin_session(RUN)
        for block, outcome in enumerate(outcomes):
            for point in points:
                reply = failed(outcome, f"{outcome}: said so")
                store.add_sample(RUN, session, 1.0, sample(point.index, block, reply))


FIT = pytest.param("fit", marks=pytest.mark.needs("memory cgroup"))
OTHERS = [name for name in DOCUMENTS if name != "fit"]


@pytest.mark.seconds(but="clean")
@pytest.mark.parametrize("name", [FIT, *mostly_quick(OTHERS, "show", "try")])
def test_the_document_holds_to_it_and_no_key_is_added_left_out_or_of_another_type(
    command: Command, measured: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "vmlinuz-7.0").write_bytes(b"no kernel")
    if "trace" in DOCUMENTS[name]:
        made_trace(tmp_path)
    (tmp_path / "kernel.txt").write_text(OF_A_KILL)
    arguments = DOCUMENTS[name].format(run="small", pid=os.getpid(), folder=tmp_path).split()
    own = shutil.copy(measured, tmp_path / "own.db")  # some add a run
    if name in ("compare", "history"):
        with Store(Path(own)) as opened:
            first = opened.find("small")
            opened.add_run(replace(first, id="0123abcd", name="base"), opened.points(first.id))
            samples = [*opened.samples(first.id)]
            opened.add_sample("0123abcd", opened.begin_session("0123abcd"), 0.0, *samples)
    if "rows" in DOCUMENTS[name]:
        rows = command("export", "small", "--format", "rows", MEMLAB_STORE=str(own))
        (tmp_path / "rows").write_text(rows.stdout)
        own = str(tmp_path / "new.db")
    if name == "kernels-ladder":
        document = ladder_document()
    elif name == "record":
        document = record_document(tmp_path)
    elif name == "record-runs":
        document = [record_document(tmp_path)]
    else:
        arguments += [] if "--json" in arguments else ["--json"]
        document = valid(command(*arguments, MEMLAB_STORE=str(own)), name)
    if name == "clean":  # here nothing was left, which shows no entry
        changes = {"run": RUN, "changes": ["folder /tmp/x"]}
        document = {"undone": [changes], "failed": [], "left_alone": []}
    schema = schemas.schema(name)
    seen: set[str] = set()
    for value, part, allowed in closed(document, schema, schema):
        if part["title"] in seen:
            continue
        seen.add(part["title"])
        takes = validator(name).evolve(schema=allowed).is_valid
        value["nosuch"] = 1
        assert not takes(value)
        del value["nosuch"]
        for key in part["required"]:
            kept = value.pop(key)
            assert not takes(value), key
            value[key] = [[[]]]  # no field is a list of lists
            assert not takes(value), key
            value[key] = kept
    assert seen
    held(name, document)


def ladder_document() -> Any:
    """Of a recorded run, as if it were of two kernels: to measure them takes guests."""
    run = api.load("example:page-fault")
    results = [
        KernelResult(
            Found(Path("vmlinuz"), None, "no kernel"), {"page-fault": run}, ["it hangs"], 1.0
        )
    ]
    rows = ladder.rows([("6.1", run), ("7.3", run)], (), ["faults_20gb"], timed=False)
    cells = {
        "6.1": ladder.KernelCell("reproduced", 7, 7, 7),
        "7.3": ladder.KernelCell("contradicted", 0, 0, 0),
    }
    rows.append(
        ladder.KernelRow("vma-lock", "x", "text", {"check": "mlock"}, "count", cells, "6.18")
    )
    document = Ladder.made_of(results, rows, Path("ladder.png"), 60.0)
    return held("kernels-ladder", strict_json(documents.text(document)))


def made_trace(folder: Path) -> Path:
    made = Made(flags=256, files=[(1 << 20, 0, b"/x")]).map(AT, 7).touch(AT, 5)
    made.map(AT + (1 << 30), 7, file=1).touch(AT + (1 << 30), 1)
    return made.add(LOOKED).write(folder / "a.trace")


def record_document(folder: Path) -> Any:
    trace = file.read(made_trace(folder))
    document = Recording.made_of(trace, Recorded(8, 0, 0, 0, 0, 0), None)
    return held("record", strict_json(documents.text(document)))


def closed(
    value: Any, part: dict[str, Any], root: dict[str, Any], either: dict[str, Any] | None = None
) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Every object of a document whose keys are fixed, with the schema that fixes them, and with
    all that may stand in its place: that schema, or the choice of which it is a branch."""
    either = either or part
    if "$ref" in part:
        part = root["$defs"][part["$ref"].rpartition("/")[2]]
    for branch in part.get("anyOf", ()):
        if jsonschema.Draft202012Validator(root).evolve(schema=branch).is_valid(value):
            yield from closed(value, branch, root, either)
    if isinstance(value, dict):
        rest = part.get("additionalProperties")
        if rest is False:
            yield value, part, either
        for key, item in value.items():
            inside = part.get("properties", {}).get(key) or rest
            if isinstance(inside, dict):
                yield from closed(item, inside, root)
    elif isinstance(value, list):
        for item in value:
            # A pair has `items: false`: no third.
            yield from closed(item, part.get("items") or {}, root)


def test_every_command_with_json_has_a_schema_and_is_run_here() -> None:
    with_json = {
        " ".join(words)
        for words, row in _table.commands()
        if any("--json" in option.opts for option in import_module(row.module).command.params)
    }
    printing = {re.sub(" (--.*|[A-Z]+)$", "", words) for words in schemas._documents()}
    assert with_json == printing
    assert sorted([*DOCUMENTS, *ALIKE]) == schemas.names()
    types = {name: schemas._documents()[words] for name, words in schemas._words().items()}
    assert all(types[name] == types[other] for name, other in ALIKE.items())


def test_the_command_prints_a_schema_and_without_a_name_lists_them(command: Command) -> None:
    assert json.loads(command("schema", "show").stdout) == schemas.schema("show")
    lines = command("schema").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [name, schemas.schema(name)["$id"]] for name in schemas.names()
    ]


@pytest.mark.parametrize("name", schemas.names())
def test_an_object_is_closed_and_a_field_of_ours_says_what_it_is(name: str) -> None:
    """Open are only what a run stored of its machine, and maps of one type."""
    for title, part in schemas.schema(name)["$defs"].items():
        if part["type"] == "object" and title != "Environment":
            assert part["additionalProperties"] is False, title
        assert part["description"], title


def test_a_fields_docstring_is_its_description() -> None:
    parts = schemas.schema("show")["$defs"]
    assert parts["ShownPoint"]["properties"]["control"]["description"] == (
        "The control that it belongs to; null in the grid."
    )
    assert "description" in parts["ShownPoint"]["properties"]["metrics"]  # the field `medians`
    used = schemas.schema("diagnose")["$defs"]["Used"]["properties"]  # a dataclass
    assert "description" in used["huge_bytes"]


def test_a_document_is_made_of_attributes() -> None:
    """Of the first object that has one, unless it is given; what lacks one or does not fit says
    so."""
    made = documents.ShownInterval.from_attributes
    seen = Interval(1.0, 4.0, 7.0, 9, "order statistics")
    assert documents.plain(made(seen)) == {"low": 1.0, "estimate": 4.0, "high": 7.0, "n": 9}
    other = ListedExperiment("mmap-write", "which is faster?", [])
    assert made(other, seen, low=None).low is None
    with pytest.raises(TypeError, match="low"):
        made(other)
    with pytest.raises(msgspec.ValidationError, match=">= 1"):
        made(replace(seen, n=0))


def test_a_number_that_json_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        documents.text(documents.ShownInterval(None, float("nan"), None, 1))


@pytest.mark.slow
@pytest.mark.changes_host
@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment(command: Command, printed: Printed, store_path: Path, name: str) -> None:
    """Declared, planned, swept, and read again: figures, tables and claims of every kind."""
    assert printed("describe", name)["name"] == name
    declared = experiments.load(name)
    levels = [
        f"{factor}={','.join(declared.describe_level(factor, v).replace(' ', '') for v in values)}"
        for factor, values in declared.tiny.items()
    ]
    asked = ["sweep", name, *(word for level in levels for word in ("-p", level))]
    asked += ["--no-controls", "--blocks", "1", "--dir", str(store_path.parents[1])]
    planned = printed(*asked, "--dry-run")
    swept = valid(command(*asked, "--json"), "sweep")
    assert [point["levels"] for point in swept["points"]] == [
        point["levels"] for point in planned["points"]
    ]
    figures = swept.pop("figures")
    assert printed("show") == swept
    if any(point["metrics"] for point in swept["points"]):
        assert figures
    assert printed("claims")["experiments"][0]["run"] == swept["run"]


@pytest.mark.slow
@pytest.mark.parametrize("name", recorded.names())
def test_a_recorded_run(printed: Printed, tmp_path: Path, name: str) -> None:
    assert printed("show", f"example:{name}")["samples"]
    assert printed("claims", f"example:{name}")["experiments"][0]["claims"]


@pytest.mark.slow
def test_a_resumed_run(command: Command, store_path: Path, tmp_path: Path) -> None:
    asked = ["sweep", "mmap-write", *TINY.split(), "--no-controls", "--dir", str(tmp_path)]
    first = valid(command(*asked, "--budget", "1ms", "--json"), "sweep")
    assert first["ended"] == "budget"
    resumed = valid(command("sweep", "--resume", "last", "--budget", "1s", "--json"), "sweep")
    assert resumed["run"] == first["run"]
    assert resumed["samples"] > first["samples"]


def test_a_run_without_samples(printed: Printed, store_path: Path) -> None:
    store_run(store_path)
    shown = printed("show", RUN)
    assert (shown["samples"], shown["ended"], shown["window_share"]) == (0, None, None)
    assert {item["ended"] for item in printed("runs")} == {None}
    assert {c["n"] for c in printed("claims", RUN)["experiments"][0]["claims"]} == {0}


@pytest.mark.parametrize(
    "experiment", mostly_slow(experiments.names(), "mmap-write", "thp-cost", "vma-lock")
)
def test_trials_that_ended_badly(printed: Printed, store_path: Path, experiment: str) -> None:
    words = ("unavailable", "enomem", "oom-killed", "sigbus", "sigsegv", "timeout", "error")
    store_run(store_path, words, experiment)
    for point in printed("show", RUN)["points"]:
        assert point["outcomes"] == dict.fromkeys(words, 1)
        assert point["metrics"] == {}
    assert printed("claims", RUN)["experiments"][0]["claims"]


@pytest.mark.slow
def test_a_traced_run(command: Command, store_path: Path) -> None:
    levels = ["arena=4m", "antagonist=16m", "cycles=1", "slice=1s", "trace=yes", "lock=off"]
    asked = [word for level in levels for word in ("-p", level)]
    done = command("sweep", "locked-latency", *asked, "--no-controls", "--blocks", "1", "--json")
    found = valid(done, "sweep")
    traced = [point for point in found["points"] if point["outcomes"].get("ok")]
    assert [one["levels"] for one in found["attribution"]] == [point["levels"] for point in traced]


def test_a_run_in_a_guest(printed: Printed, store_path: Path) -> None:
    """As it is stored; tests/machines boots one."""
    guest = asdict(GuestSpec(cpus=2))
    declared = experiments.load("page-fault")
    (point, *_) = plan.build(declared, "quick", declared.tiny).points
    row = run_row(
        RUN,
        experiment=declared.name,
        request=asdict(Request(declared.name, guest=guest)),
        environment={"guest": guest | {"accelerator": "tcg"}, "emulated_time": True},
    )
    with Store(store_path, create=True) as store:
        store.add_run(row, [PointRow(point.index, dict(point.at), None)])
    assert printed("show", RUN)["request"]["guest"] == guest
    assert printed("runs")


def test_a_crossing_outside_of_the_sizes_measured(printed: Printed, store_path: Path) -> None:
    Machine(store_path).sweep("mmap-write", size=[1, 2], method=["mmap", "write"])
    crossings = printed("show")["crossings"]
    assert crossings
    assert {crossing["estimate"] for crossing in crossings} == {None}


def test_runs_compared_with_points_in_one_alone(
    printed: Printed, store_path: Path, tmp_path: Path
) -> None:
    machine = Machine(store_path)
    base = machine.sweep("mmap-write", size=[64, 4096], controls=False)
    machine.factor = 1.5
    new = machine.sweep("mmap-write", size=[4096, 65536], controls=False)
    machine.environment, machine.blocks = {"kernel_release": "6.2.0"}, 1
    short = machine.sweep("mmap-write", size=[4096], controls=False)
    found = printed("compare", base.id, new.id)
    assert {at["size"] for at in found["only_base"]} == {64}
    assert {at["size"] for at in found["only_new"]} == {65536}
    assert {point["verdict"] for point in found["points"]} == {"same", "slower"}
    forced = printed("compare", base.id, short.id, "--force", "--metric", "elapsed")
    assert {point["ratio"]["low"] for point in forced["points"]} == {None}
    assert forced["remarks"]
    gated = printed("compare", base.id, new.id, "--fail-on", "regression", code=cli.GATE)
    assert gated == found


def test_a_file_of_rows_compared(
    command: Command, printed: Printed, measured: Path, tmp_path: Path
) -> None:
    file = tmp_path / "base.jsonl"
    assert command("export", "small", "--format", "rows", "-o", str(file)).returncode == 0
    found = printed("compare", file, "small")
    assert found["base"] == found["new"]


@pytest.mark.seconds
def test_a_refused_reproduce(
    printed: Printed, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One experiment has no directory for its files, the other needs none."""
    monkeypatch.setattr(experiments, "names", lambda: ["mmap-write", "vma-lock"])
    found = printed("reproduce", "all", "--dir", "/proc/nonexistent", "--budget", "1s")
    writes, locks = found["experiments"]
    assert (writes["run"], locks["reason"]) == (None, None)
    assert "/proc/nonexistent is not a directory" in writes["reason"]
    assert found["missing"]


def test_what_killed_runs_left(
    printed: Printed, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where no killed command has left a folder
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    dead = {"run": RUN, "driver": 1, "start": 1 << 62} | journal._here()
    leave(dead, {"undo": "folder", "path": str(left)})
    assert printed("clean")["undone"] == [{"run": RUN, "changes": [f"folder {left}"]}]
    leave(dead, {"undo": "nosuch", "path": str(left)})
    assert len(printed("clean", code=HostError.exit_code)["failed"]) == 1


def leave(*entries: dict[str, Any]) -> None:
    """A journal as a run that was killed leaves it."""
    journal.folder().mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    (journal.folder() / f"{RUN}-1.jsonl").write_text(lines)
