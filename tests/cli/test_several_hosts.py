"""Runs of several hosts, and of one host over time, in print."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import made_nights
import pytest
from command import Command
from test_schemas import held

from memlab import api, recorded
from memlab.machines.fleet import figure as figure_of_hosts
from memlab.machines.fleet import judge as judging
from memlab.machines.history import figure as figure_of_history
from memlab.present import figures
from memlab.store import PointRow, Store

BLOCKS = 10  # of the recorded run's 25, and
STATES = ("cached_4k", "sparse")  # two of its three states of the file: enough for its verdicts


@pytest.fixture(scope="module")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven hosts with the recorded run of mmap-write; on two of them, which have another kernel,
    mmap and write have changed places."""
    path = tmp_path_factory.mktemp("seven") / "results.db"
    with Store(recorded.store("mmap-write")) as opened:
        base = opened.find("mmap-write")
        points = [one for one in opened.points(base.id) if one.levels["file_state"] in STATES]
        kept = {one.point for one in points}
        found = opened.samples(base.id)
        samples = [one for one in found if one.block < BLOCKS and one.point in kept]
    swap = {"mmap": "write", "write": "mmap"}
    with Store(path, create=True) as opened:
        for number, host in enumerate("abcdefg"):
            odd = host in "fg"
            environment = {
                **base.environment,
                "kernel_release": "6.17.8" if odd else "6.12.41",
                "microcode": f"0x{number}",
                "boot_id": f"of {host}",
            }
            row = replace(base, id=f"a000000{number}", origin=host, environment=environment)
            own = [
                PointRow(p.point, {**p.levels, "method": swap[p.levels["method"]]}, p.control)
                if odd and p.levels["method"] in swap
                else p
                for p in points
            ]
            opened.add_run(row, own)
            opened.add_sample(row.id, opened.begin_session(row.id), 0.0, *samples)
            opened.end_session(row.id, 1, 1.0, "blocks")
    return path


@pytest.fixture
def fleet(seven: Path, store_path: Path) -> Path:
    """A copy of theirs."""
    store_path.parent.mkdir()
    shutil.copy(seven, store_path)
    return store_path


@pytest.mark.seconds
def test_claims_of_several_hosts_are_a_table_with_what_tells_them_apart(
    fleet: Path, command: Command
) -> None:
    done = command("claims", "all:mmap-write", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "hold on all 7 hosts" in done.stdout
    assert "the hosts disagree on " in done.stdout
    assert "holds on a, b, c, d, e; contradicted on f, g\n" in done.stdout
    assert re.search(r"one-byte +holds on a, b, c, d, e; contradicted on f, g", done.stdout)
    told = [line for line in done.stdout.splitlines() if "tells them apart" in line]
    assert told
    assert {line.split()[0] for line in told} == {"kernel_release"}
    assert "6.12.41 on a, b, c, d, e; 6.17.8 on f, g" in told[0]
    same = command("claims", *(f"{host}:mmap-write" for host in "abcdefg"), COLUMNS="200")
    assert same.stdout == done.stdout
    gated = command("claims", "all:mmap-write", "--gate", "--json")
    assert gated.returncode == 1
    document = json.loads(gated.stdout)
    assert held("claims-hosts", document)["disagreements"]
    groups = document["disagreements"][0]["hosts"]
    assert sorted(map(len, groups.values())) == [2, 5]


@pytest.mark.seconds
def test_hosts_of_the_last_run_are_those_of_its_experiment(fleet: Path, command: Command) -> None:
    named = command("claims", "all:mmap-write")
    assert command("claims", "all:last").stdout == named.stdout


def test_a_host_that_stands_alone_is_named(fleet: Path, command: Command) -> None:
    done = command("claims", *(f"{host}:last" for host in "abcg"), COLUMNS="200")
    assert "g stands apart: alone against all others" in done.stdout
    assert "which may be chance" in done.stdout  # four hosts show little


@pytest.mark.seconds
def test_the_figure_has_a_row_per_host_and_names_the_one_that_stands_alone(
    fleet: Path, command: Command, tmp_path: Path
) -> None:
    done = command("plot", "all:mmap-write", "-o", str(tmp_path / "hosts.svg"))
    assert done.returncode == 0, done.stderr
    marks = json.loads((tmp_path / "hosts.json").read_text())["marks"]
    assert {mark["series"] for mark in marks} == set("abcdefg")
    assert {mark["word"] for mark in marks[:7]} == {"reproduced", "contradicted"}  # these first
    assert [mark["series"] for mark in marks[:7] if mark["word"] == "contradicted"] == ["f", "g"]
    same = [mark["ratio"] for mark in marks if "ratio" in mark and mark["series"] == "c"]
    assert same == [1.0] * len(same) != []  # five hosts are alike: each is the median host
    text = (tmp_path / "hosts.svg").read_text()
    assert "on 7 hosts" in text
    runs = [api.load(f"{host}:last") for host in "abcg"]
    figure = figures.draw(figure_of_hosts.of_hosts(judging.named(runs)))
    assert "g stands apart: alone against all others" in figure.description
    assert command("plot", "all:mmap-write", "--draw", "samples").returncode == 2


def test_one_machine_under_two_names_is_said_to_be_one(fleet: Path, command: Command) -> None:
    again(fleet, "a", "z")
    said = " ".join(command("claims", "a:last", "b:last", "z:last").stdout.split())
    assert "1 of 4 claims holds on all 3 hosts (2 machines)" in said
    assert "a and z are one machine: " in said


def test_one_host_is_called_by_its_name(fleet: Path, command: Command) -> None:
    said = command("claims", "all:mmap-write").stdout
    assert "all 1 host" not in said
    with Store(fleet) as opened:
        for run in opened.runs():
            if run.origin != "b":
                opened.delete_run(run.id)
    assert "holds on b" in " ".join(command("claims", "all:mmap-write").stdout.split())


@pytest.mark.seconds
def test_a_lost_host_and_a_guest_stand_apart(fleet: Path, command: Command) -> None:
    """What the others show stays what it is; a run without a sample is none."""
    words = ("claims", "a:last", "b:last")
    first = command(*words).stdout.splitlines()[0]
    again(fleet, "f", "half", "b0000001", ended=None, count=12)
    again(fleet, "g", None, "b0000002", guest={"kernel": "/boot/vmlinuz-7.9"})
    again(fleet, "g", "b", "b0000003", count=0)
    for run in ("c", "d", "e", "f", "g"):
        drop(fleet, run)
    done = command("claims", "all:mmap-write")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == first
    said = " ".join(done.stdout.split())
    assert "lost: half, after 12 samples: " in said
    assert "apart: guest 6.17.8 on this host, run b0000002: " in said
    document = json.loads(command("claims", "all:mmap-write", "--json").stdout)
    parts = [
        (one["host"], one["reason"], one["samples"])
        for one in held("claims-hosts", document)["apart"]
    ]
    with Store(fleet) as opened:
        guests = opened.sample_count("b0000002")
    assert parts == [("half", "lost", 12), ("guest 6.17.8 on this host", "guest", guests)]
    assert [one["host"] for one in document["hosts"]] == ["a", "b"]


def test_if_all_hosts_are_lost_what_came_is_what_there_is(fleet: Path, command: Command) -> None:
    again(fleet, "a", "half", "b0000001", ended=None, count=12)
    for run in "abcdefg":
        drop(fleet, run)
    said = " ".join(command("claims", "all:mmap-write").stdout.split())
    assert "half: its run was cut off after 12 samples, on which this rests" in said


def drop(store: Path, host: str) -> None:
    with Store(store) as opened:
        for run in opened.runs():
            if run.origin == host and run.id[0] == "a":
                opened.delete_run(run.id)


def again(
    store: Path,
    of: str,
    host: str | None,
    id: str = "b0000000",
    ended: str | None = "blocks",
    count: int | None = None,
    guest: dict[str, str] | None = None,
) -> None:
    """The run of a host once more, under another name; or as that of a guest of this host."""
    with Store(store) as opened:
        run = next(run for run in opened.runs() if run.origin == of)
        points, samples = opened.points(run.id), list(opened.samples(run.id))[:count]
        request = {**run.request, "guest": guest}
        opened.add_run(replace(run, id=id, origin=host, request=request), points)
        session = opened.begin_session(id)
        if samples:
            opened.add_sample(id, session, 0.0, *samples)
        if ended:
            opened.end_session(id, 1, 1.0, ended)


def test_what_is_no_fleet_is_a_line(fleet: Path, command: Command) -> None:
    for words in (
        ["all:page-fault"],
        ["a:last", "b:last", "-v"],
        ["a:last", "all:mmap-write"],
    ):
        done = command("claims", *words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.fixture
def nights(store_path: Path) -> Path:
    made_nights.write(store_path)
    return store_path


@pytest.mark.seconds
def test_history_says_when_how_much_and_what_changed_there(
    nights: Path, command: Command, tmp_path: Path
) -> None:
    done = command("history", "mmap-write", "-o", str(tmp_path), COLUMNS="200")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("mmap-write, time_2gib: 1 change in 60 runs of this host since 2026")
    (at,) = [number for number, line in enumerate(lines) if line.startswith("worse: +5.")]
    assert any("kernel_release: 6.12.41 and 6.17.8" in line for line in lines[at + 1 : at + 5])
    assert (tmp_path / "history-mmap-write-time_2gib.png").stat().st_size > 10_000
    done = command("history", "mmap-write", "-o", str(tmp_path), "--json")
    document = held("history", json.loads(done.stdout))
    (change,) = document["changes"]
    assert (change["verdict"], document["alarm"], len(document["runs"])) == (
        "worse",
        False,
        made_nights.NIGHTS,
    )
    assert 1.03 < change["ratio"]["low"] < change["ratio"]["high"] < 1.08


@pytest.mark.seconds
def test_the_gate_closes_on_the_night_of_the_alarm_alone(
    nights: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure_of_history, "figure", lambda *_: None)
    words = ("history", "mmap-write", "-p", "method=mmap", "--gate", "-o", str(tmp_path))
    done = command(*words, COLUMNS="200")
    assert done.returncode == 0
    said = re.search(r"after run (\w+) of .*, seen (\d+) runs later$", done.stdout, re.M)
    assert said
    with Store(nights) as opened:
        ids = [run.id for run in opened.runs()]
        seen = ids.index(said[1]) + int(said[2])
        for run in ids[seen + 1 :]:
            opened.delete_run(run)
    done = command(*words, COLUMNS="200")
    assert (done.returncode, " later, now\n" in done.stdout) == (1, True)
    with Store(nights) as opened:
        opened.delete_run(ids[seen])
    done = command(*words, COLUMNS="200")
    assert (done.returncode, "no change in" in done.stdout) == (0, True)


def test_a_folder_that_cannot_be_written_is_the_hosts_fault(nights: Path, command: Command) -> None:
    done = command("history", "mmap-write", "-o", "/proc/nosuch")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "memlab: cannot write /proc/nosuch: No such file or directory\n"


def test_the_history_of_no_run_and_of_one_is_a_line(
    nights: Path, command: Command, tmp_path: Path
) -> None:
    for words in (["page-fault"], ["b:mmap-write"]):
        done = command("history", *words, "-o", str(tmp_path))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "words", ["show a:last", "claims a:last", "claims a:last --format markdown"]
)
def test_an_imported_run_is_never_of_this_machine(
    words: str, fleet: Path, command: Command
) -> None:
    """`show` and `claims` said of another host's run what holds on this machine."""
    done = command(*words.split(), COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "this machine" not in done.stdout
    assert " on a (AMD EPYC" in done.stdout


@pytest.mark.slow
def test_nor_is_a_report_of_two_hosts(fleet: Path, command: Command, tmp_path: Path) -> None:
    done = command("report", "a:last", "b:last", "-o", str(tmp_path / "r.html"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r.html").read_text()
    assert ("on this machine" in text, "on a and on b" in text) == (False, True)


def test_what_tells_hosts_apart_best_comes_first() -> None:
    """Of two that do it equally well the kernel does, the likelier cause."""
    groups = dict.fromkeys("abcdef", "reproduced") | dict.fromkeys("ghijkl", "contradicted")
    environments = {
        host: {
            "clocksource": "tsc" if host in "abcdeg" else "kvm-clock",
            "cpu_model": "new" if host in "abcdef" else "old",
            "kernel_release": "6.18" if host in "abcdef" else "6.12",
        }
        for host in groups
    }
    found = judging.differences(environments, groups)
    assert [one.name for one in found] == ["kernel_release", "cpu_model", "clocksource"]
