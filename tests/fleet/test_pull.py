"""Rows come home over a link: all of them, once, wherever it breaks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command, process
from pretended_hosts import TINY, Hosts, held
from quick import mostly_slow

from memlab.errors import BadRequest
from memlab.machines.fleet import links as fleet


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of two runs, measured once for all tests here."""
    store = tmp_path_factory.mktemp("measured") / "results.db"
    for seed in ("1", "2"):
        words = ["--store", str(store), "sweep", *TINY, "--blocks", "2", "--design", f"seed={seed}"]
        assert process(*words, "-q", "--jsonl").returncode == 0  # which draws nothing
    return store


@pytest.fixture
def swept(hosts: Hosts, two_runs: Path) -> Hosts:
    """Host a has measured two runs."""
    hosts.store("a").parent.mkdir(parents=True)
    shutil.copy(two_runs, hosts.store("a"))
    return hosts


@pytest.mark.seconds
def test_jsonl_prints_each_row_and_nothing_else(store_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memlab", "sweep", *TINY, "--blocks", "3", "--jsonl"],
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = [json.loads(line)["row"] for line in done.stdout.splitlines()]
    assert kinds[0] == "run"
    assert kinds.count("sample") == 3 * kinds.count("point") > 0
    assert kinds[-2:] == ["session", "end"]
    assert "done: all blocks are done" in done.stderr
    other = store_path.with_name("other.db")
    words = ["--store", str(other), "hosts", "import", "-", "--host", "b"]
    taken = subprocess.run(
        [sys.executable, "-m", "memlab", *words],
        input=done.stdout,
        capture_output=True,
        text=True,
        check=True,
    )
    assert taken.stdout.startswith(f"b: {kinds.count('sample')} new samples in 1 run\n")
    assert held(other, "b") == held(store_path, None)


@pytest.mark.seconds
def test_a_sweep_whose_reader_goes_ends_as_ever(store_path: Path) -> None:
    words = [sys.executable, "-m", "memlab", "sweep", *TINY, "--blocks", "3", "--jsonl", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as made:
        assert made.stdout
        assert made.stderr
        made.stdout.readline()
        made.stdout.close()
        said = made.stderr.read()
    assert (made.returncode, said.count("nobody reads the rows")) == (0, 1)
    ((_, samples, sessions),) = held(store_path, None).values()
    assert sessions == [(1, "blocks", len(samples))]


@pytest.mark.seconds
def test_pull_fetches_what_is_missing_and_no_more(swept: Hosts, command: Command) -> None:
    store = Path(os.environ["MEMLAB_STORE"])
    first = command("hosts", "pull", "a")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("a: ")
    assert held(store, "a") == held(swept.store("a"), None)
    assert command("hosts", "pull", "ssh:a").stdout == "a: nothing new\n"
    assert command("hosts", "import", str(swept.store("a"))).returncode == 0
    assert held(store, "a") == held(swept.store("a"), None)
    itself = command("hosts", "import", str(store))
    assert (itself.returncode, itself.stderr.count("is the store itself")) == (2, 1)


@pytest.mark.parametrize("share", mostly_slow([0.05, 0.3, 0.6, 0.97], 0.6))
def test_pull_goes_on_where_a_link_broke(swept: Hosts, command: Command, share: float) -> None:
    store = Path(os.environ["MEMLAB_STORE"])
    export = command("--store", str(swept.store("a")), "export", "all", "--format", "rows")
    swept.cut("a", int(len(export.stdout) * share))
    broken = command("hosts", "pull", "a")
    assert broken.returncode == 3
    assert "Connection to a closed" in broken.stderr or "the link broke after" in broken.stderr
    before = held(store, "a")
    swept.cut("a", None)
    assert command("hosts", "pull", "a").returncode == 0
    assert held(store, "a") == held(swept.store("a"), None)
    for run, (_, samples, _) in before.items():
        assert samples == held(store, "a")[run][1][: len(samples)]


@pytest.mark.seconds
def test_pull_of_a_part_that_is_not_the_first_fetches_the_run_again(
    swept: Hosts, command: Command, tmp_path: Path
) -> None:
    """As where a run was resumed over a new link before the old one's rest had come."""
    store = Path(os.environ["MEMLAB_STORE"])
    found = command("--store", str(swept.store("a")), "export", "--format", "rows").stdout
    lines = found.splitlines(keepends=True)
    samples = [n for n, line in enumerate(lines) if line.startswith('{"row":"sample"')]
    kept = "".join(line for n, line in enumerate(lines) if n not in samples[:2])
    (tmp_path / "rows").write_text(kept)
    words = ("hosts", "import", str(tmp_path / "rows"), "--host", "a", "--partial")
    assert command(*words).returncode == 2
    (tmp_path / "rows").write_text(kept.rpartition('{"row":"end"')[0])
    assert command(*words).returncode == 0
    assert command("hosts", "pull", "a").returncode == 0
    here, there = (held(*which) for which in ((store, "a"), (swept.store("a"), None)))
    assert here.keys() == there.keys()
    for run, (points, samples, sessions) in there.items():
        in_order = sorted(here[run][1], key=lambda row: (row.block, row.position))
        assert [here[run][0], in_order, here[run][2]] == [points, samples, sessions]


def test_each_host_that_fails_is_a_line_and_the_others_come(swept: Hosts, command: Command) -> None:
    swept.set("b", PATH="/nowhere:/usr/bin:/bin")
    done = command("hosts", "pull", "ssh:gone,b,a,c")
    assert done.returncode == 3
    *lines, last = done.stderr.splitlines()
    b, c, gone = sorted(line for line in lines if line.startswith("memlab: "))
    assert gone == "memlab: gone: not reached: ssh: Could not resolve hostname gone"
    assert b.startswith("memlab: b: no 'memlab' there: install memlab, or say where it is")
    assert c.startswith("memlab: c: no store at ")
    assert last == "memlab: 3 of 4 hosts failed: gone, b, c"
    assert done.stdout.startswith("a: ")


def test_a_host_that_sends_no_rows(swept: Hosts, command: Command) -> None:
    (swept.folder / "a" / "environment").write_text("echo Welcome to a\n")
    done = command("hosts", "pull", "a")
    assert done.returncode == 3
    assert "line 1: it is not a row of memlab: 'Welcome to a'; nothing is imported" in done.stderr


def test_json(swept: Hosts, command: Command) -> None:
    (one,) = json.loads(command("hosts", "pull", "a", "--json").stdout)
    assert (one["host"], one["reason"], len(one["runs"])) == ("a", None, 2)


def test_a_run_of_another_host_is_not_resumed_here(swept: Hosts, command: Command) -> None:
    command("hosts", "pull", "a")
    done = command("sweep", "--resume", "a:last")
    assert done.returncode == 3
    assert "is from a: add --on ssh:a, or --on the file that says how" in done.stderr


@pytest.mark.needs("ssh")
def test_a_file_of_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(
        '[hosts.big]\nssh = "me@10.0.0.1"\noptions = ["-p", "2222"]\n'
        'memlab = "/opt/memlab/bin/memlab --debug"\nstore = "/data/it\'s.db"\n'
    )
    ((name, host),) = fleet.hosts(str(path)).items()
    words = fleet.command(name, host, ["sweep", "-p", "size=1;rm"])
    assert words[-5:-1] == ["-p", "2222", "--", "me@10.0.0.1"]
    assert words[-1] == (
        "/opt/memlab/bin/memlab --debug --store '/data/it'\"'\"'s.db' sweep -p 'size=1;rm'"
    )
    path.write_text('[hosts.big]\nshell = "x"\n')
    with pytest.raises(BadRequest, match="shell"):
        fleet.hosts(str(path))
