"""What every command's --json prints, held against its schema; odd runs too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import jsonschema
import pytest
from command import Command
from made_up import Machine
from synthetic import failed, run_row, sample

from memlab import cli, experiments, recorded, schemas
from memlab.observe import proc
from memlab.run import journal, plan
from memlab.run.request import Request
from memlab.run.takedown import PREFIX
from memlab.store import PointRow, Store
from memlab.targets.guest.machine import Asked

RUN = "0123abcd"
Printed = Callable[..., Any]

# arguments, with {run} for a measured run and {pid} for a process that lives
DOCUMENTS = {
    "claims": "claims {run}",
    "clean": "clean",
    "compare": "compare {run} {run}",
    "describe": "describe vma-lock",
    "diagnose": "diagnose {pid} --seconds 0.01",
    "doctor": "doctor",
    "list": "list",
    "plot": "plot {run}",
    "reproduce": "reproduce vma-lock --budget 1s",
    "runs": "runs",
    "show": "show {run}",
    "sweep": "sweep vma-lock --no-controls --blocks 1",
    "sweep-dry-run": "sweep mmap-write --dry-run",
}


@cache
def validator(name: str) -> Callable[[Any], Any]:
    validate: Callable[[Any], Any] = fastjsonschema.compile(schemas.of(name))
    return validate


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
        return validator(schema_of(words))(strict_json(out))

    return run


def schema_of(words: list[str]) -> str:
    return "sweep-dry-run" if "--dry-run" in words else words[0]


def valid(done: subprocess.CompletedProcess[str], name: str) -> Any:
    """What a command in a process of its own printed."""
    assert (done.returncode, done.stderr) == (0, "")
    return validator(name)(strict_json(done.stdout))


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


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_document_holds_to_it_and_no_key_may_be_added_or_left_out(
    command: Command, measured: Path, free_machine: None, tmp_path: Path, name: str
) -> None:
    arguments = DOCUMENTS[name].format(run="small", pid=os.getpid()).split()
    document = valid(command(*arguments, "--json"), name)
    if name == "clean":  # here nothing was left, which shows no entry
        document = {"undone": [{"run": RUN, "changes": ["folder /tmp/x"]}], "failed": []}
    schema = schemas.of(name)
    jsonschema.Draft7Validator(schema).validate(document)
    seen = set()
    for value, inside in closed(document, schema, schema):
        if id(inside) not in seen:
            seen.add(id(inside))
            value["nosuch"] = 1
            assert refused(name, document)
            del value["nosuch"]
            for key in inside.get("required", ()):
                kept = value.pop(key)
                assert refused(name, document), key
                value[key] = kept
    assert seen
    validator(name)(document)


def test_every_command_with_json_is_run_here() -> None:
    assert sorted(DOCUMENTS) == schemas.commands()


def refused(name: str, document: Any) -> bool:
    try:
        validator(name)(document)
    except fastjsonschema.JsonSchemaValueException:
        return True
    return False


def closed(
    value: Any, schema: dict[str, Any], root: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every object of a document whose keys are fixed, with the schema that fixes them."""
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if jsonschema.Draft7Validator(root).evolve(schema=branch).is_valid(value):
            yield from closed(value, branch, root)
    if isinstance(value, dict):
        rest = schema.get("additionalProperties")
        if rest is False:
            yield value, schema
        for key, item in value.items():
            inside = schema.get("properties", {}).get(key) or rest
            if isinstance(inside, dict):
                yield from closed(item, inside, root)
    elif isinstance(value, list):
        for item in value:
            yield from closed(item, schema.get("items", {}), root)


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment(
    command: Command, printed: Printed, store_path: Path, free_machine: None, name: str
) -> None:
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
        assert printed("plot", "-o", store_path.parent / "again.svg")["files"]
    assert printed("claims")["experiments"][0]["run"] == swept["run"]


@pytest.mark.parametrize("name", recorded.names())
def test_a_recorded_run(printed: Printed, tmp_path: Path, name: str) -> None:
    assert printed("show", name, "--example")["samples"]
    assert printed("claims", name, "--example")["experiments"][0]["claims"]
    assert printed("plot", name, "--example", "-o", tmp_path)["files"]


def test_a_resumed_run(
    command: Command, store_path: Path, tmp_path: Path, free_machine: None
) -> None:
    tiny = ["-p", "size=4k", "-p", "file_size=64k", "-p", "filesystem=dir", "-p", "slice=1ms"]
    asked = ["sweep", "mmap-write", *tiny, "--no-controls", "--dir", str(tmp_path)]
    first = valid(command(*asked, "--budget", "1ms", "--json"), "sweep")
    assert first["ended"] == "budget"
    resumed = valid(command("sweep", "--resume", "last", "--budget", "100ms", "--json"), "sweep")
    assert resumed["run"] == first["run"]
    assert resumed["samples"] > first["samples"]


def test_a_run_without_samples(printed: Printed, store_path: Path) -> None:
    store_run(store_path)
    shown = printed("show", RUN)
    assert (shown["samples"], shown["ended"], shown["window_share"]) == (0, None, None)
    assert {item["ended"] for item in printed("runs")} == {None}
    assert {c["n"] for c in printed("claims", RUN)["experiments"][0]["claims"]} == {0}


@pytest.mark.parametrize("experiment", experiments.names())
def test_trials_that_ended_badly(printed: Printed, store_path: Path, experiment: str) -> None:
    words = ("unavailable", "enomem", "oom-killed", "sigbus", "sigsegv", "timeout", "error")
    store_run(store_path, words, experiment)
    for point in printed("show", RUN)["points"]:
        assert point["outcomes"] == dict.fromkeys(words, 1)
        assert point["metrics"] == {}
    assert printed("claims", RUN)["experiments"][0]["claims"]


def test_a_traced_run(command: Command, store_path: Path, free_machine: None) -> None:
    levels = ["arena=4m", "neighbour=16m", "cycles=1", "slice=1s", "trace=yes", "lock=off"]
    asked = [word for level in levels for word in ("-p", level)]
    done = command("sweep", "locked-latency", *asked, "--no-controls", "--blocks", "1", "--json")
    found = valid(done, "sweep")
    traced = [point for point in found["points"] if point["outcomes"].get("ok")]
    assert [one["levels"] for one in found["attribution"]] == [point["levels"] for point in traced]


def test_a_run_in_a_guest(printed: Printed, store_path: Path) -> None:
    """As it is stored; tests/targets boots one."""
    guest = asdict(Asked(cpus=2))
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
    assert set(found["counts"]) == {"same", "slower"}
    forced = printed("compare", base.id, short.id, "--force", "--metric", "elapsed")
    assert {point["ratio_low"] for point in forced["points"]} == {None}
    assert forced["remarks"]
    gated = printed("compare", base.id, new.id, "--fail-on", "regression", code=cli.GATE)
    assert gated == found


def test_an_exported_file_compared(
    command: Command, printed: Printed, measured: Path, tmp_path: Path
) -> None:
    file = tmp_path / "base.csv"
    assert command("export", "small", "-o", str(file)).returncode == 0
    assert str(file) in printed("compare", file, "small")["base"]


def test_a_refused_reproduce(
    printed: Printed, store_path: Path, free_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One experiment has no directory for its files, the other needs none."""
    monkeypatch.setattr(experiments, "names", lambda: ["mmap-write", "vma-lock"])
    found = printed("reproduce", "all", "--dir", "/nonexistent", "--budget", "1s", "--quiet")
    writes, locks = found["experiments"]
    assert (writes["run"], locks["refused"]) == (None, None)
    assert "/nonexistent is no directory" in writes["refused"]
    assert found["not_built"]


def test_what_killed_runs_left(printed: Printed, home: Path, tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    dead = {"run": RUN, "driver": 1, "start": -1, "boot": proc.boot_id()}
    leave(dead, {"undo": "folder", "path": str(left)})
    assert printed("clean")["undone"] == [{"run": RUN, "changes": [f"folder {left}"]}]
    leave(dead, {"undo": "nosuch", "path": str(left)})
    assert len(printed("clean", code=cli.CANNOT_RUN)["failed"]) == 1


def leave(*entries: dict[str, Any]) -> None:
    """A journal as a run that was killed leaves it."""
    journal.folder().mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    (journal.folder() / f"{RUN}-1.jsonl").write_text(lines)
