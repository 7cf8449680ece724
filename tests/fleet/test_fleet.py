"""Several hosts measure at once: each row comes home once, and a host that is lost stays lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from command import Command
from pretended_hosts import TINY, Hosts, held

from memlab.cli import _schemas as schemas
from memlab.observe import environment
from memlab.store import Store


def home() -> Path:
    return Path(os.environ["MEMLAB_STORE"])


@pytest.mark.seconds
def test_every_host_measures_and_its_rows_come_home(hosts: Hosts, command: Command) -> None:
    done = command("sweep", *TINY, "--blocks", "2", "--on", "ssh:a,b")
    assert done.returncode == 0, done.stderr
    for name in ("a", "b"):
        there = held(hosts.store(name), None)
        assert held(home(), name) == there
        ((run, (_, samples, _)),) = there.items()
        assert f"{name}: {len(samples)} new samples in 1 run\n  run {run}, mmap" in done.stdout
    assert not hosts.store("c").exists()


@pytest.mark.seconds
def test_a_link_that_breaks_loses_the_host_and_no_row(hosts: Hosts, command: Command) -> None:
    """What the lost host measures is measured nowhere else, and comes with the next pull."""
    # Within the samples: the run's row holds what is known of the machine.
    hosts.cut("b", len(json.dumps(environment.read())) + 9000)
    done = command("sweep", *TINY, "--blocks", "6", "--on", "ssh:a,b,c")
    assert done.returncode == 3
    assert "memlab: b: lost after " in done.stderr
    fetch = f"memlab --store {home()} hosts pull ssh:b"
    assert f"the sweep there was killed, or goes on: {fetch} fetches it" in done.stderr
    assert done.stderr.endswith("memlab: 1 of 3 hosts failed: b\n")
    assert held(home(), "a") == held(hosts.store("a"), None)
    assert len(held(home(), "c")) == len(held(home(), "a")) == 1
    part, whole = held(home(), "b"), held(hosts.store("b"), None)
    ((run, (_, samples, _)),) = part.items()
    assert 0 < len(samples) < len(whole[run][1])
    assert samples == whole[run][1][: len(samples)]
    assert whole[run][2][0][1] == "blocks"
    hosts.cut("b", None)
    assert command(*fetch.split()[1:]).returncode == 0
    assert held(home(), "b") == whole


@pytest.mark.slow
def test_resume_on_the_hosts_completes_their_runs(hosts: Hosts, command: Command) -> None:
    words = ["sweep", *TINY, "--budget", "100ms", "--blocks", "40"]  # of 2 ms and more each
    assert command(*words, "--on", "ssh:a").returncode == 0
    assert (
        command("sweep", "--resume", "last", "--budget", "10min", "--on", "ssh:a").returncode == 0
    )
    ((_, samples, sessions),) = held(home(), "a").values()
    assert held(home(), "a") == held(hosts.store("a"), None)
    assert [ended for _, ended, _ in sessions] == ["budget", "blocks"]
    assert len(samples) % 40 == 0


def wait_for_samples(store: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if store.exists() and any(len(run[1]) for run in held(store, None).values()):
            return
        time.sleep(0.1)


@pytest.mark.seconds
def test_ctrl_c_ends_the_sweeps_of_all_hosts(hosts: Hosts) -> None:
    words = ["sweep", *TINY, "--blocks", "100000", "--budget", "1h", "--on", "ssh:a,b"]
    made = subprocess.Popen(
        [sys.executable, "-m", "memlab", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for name in ("a", "b"):
        wait_for_samples(hosts.store(name))
    made.send_signal(signal.SIGINT)
    _, err = made.communicate(timeout=300)
    assert made.returncode == 130, err
    assert "memlab: interrupted; " in err
    for name in ("a", "b"):
        ((_, _, sessions),) = held(hosts.store(name), None).values()
        assert sessions[0][1] == "interrupted"
        assert held(home(), name) == held(hosts.store(name), None)


# memlab as a host's operator ends it: by SIGINT once a sample has come.
INTERRUPTED = """
import signal, subprocess, sys
with subprocess.Popen(["memlab", *sys.argv[1:]], stdout=subprocess.PIPE, text=True) as made:
    for line in made.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        if line.startswith('{"row":"sample"'):
            made.send_signal(signal.SIGINT)
sys.exit(made.returncode)
"""


@pytest.mark.seconds
def test_a_sweep_that_ends_with_its_link_is_told_as_interrupted(
    hosts: Hosts, command: Command, tmp_path: Path
) -> None:
    """All of its rows came, and its exit code did not."""
    program, file = tmp_path / "interrupted.py", tmp_path / "hosts.toml"
    program.write_text(INTERRUPTED)
    file.write_text(f'[hosts.a]\nmemlab = "{sys.executable} {program}"\n')
    hosts.cut("a", 10**9)
    done = command("sweep", *TINY, "--blocks", "100000", "--budget", "1h", "--on", str(file))
    ((run, (_, samples, sessions)),) = held(home(), "a").items()
    assert held(home(), "a") == held(hosts.store("a"), None)
    assert sessions[0][1] == "interrupted"
    what, _, resume = done.stderr.splitlines()[-1].partition(" samples: ")
    assert (done.returncode, what) == (3, f"memlab: a: interrupted there after {len(samples)}")
    how = f"memlab --store {home()} sweep --resume {run} --on {file}"
    assert resume == how


@pytest.mark.seconds
def test_a_run_is_resumed_on_its_own_host(hosts: Hosts, command: Command, tmp_path: Path) -> None:
    """Of those that a file names, which alone says how they are reached."""
    file = tmp_path / "hosts.toml"
    file.write_text('[hosts.big]\nssh = "a"\n[hosts.b]\n')
    measured = command("sweep", *TINY, "--budget", "100ms", "--blocks", "2", "--on", str(file))
    assert measured.returncode == 0, measured.stderr
    ((run, _),) = held(home(), "big").items()
    done = command("sweep", "--resume", run, "--on", str(file))
    assert done.returncode == 0, done.stderr
    assert held(home(), "big") == held(hosts.store("a"), None)
    assert len(held(hosts.store("b"), None)) == 1


def test_what_a_host_refuses_is_its_own_words(hosts: Hosts, command: Command) -> None:
    done = command("sweep", "mmap-write", "-p", "size=-1", "--on", "ssh:a,b")
    assert done.returncode == 3
    assert {line.split(":")[1] for line in done.stderr.splitlines()[:2]} == {" a", " b"}
    assert "size" in done.stderr, done.stderr
    with Store(home()) as opened:
        assert opened.runs() == []


def test_json(hosts: Hosts, command: Command) -> None:
    done = command("sweep", *TINY, "--blocks", "1", "--on", "ssh:a", "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, schemas.schema("sweep-on"))
    (one,) = document
    assert (one["host"], one["reason"]) == ("a", None)
    assert one["runs"][0]["samples"] > 0


def test_a_command_is_tried_on_several_hosts(hosts: Hosts, command: Command) -> None:
    """Its own `--wait` stays its own, and so do its blanks."""
    words = ["-p", "env.A=1,2", "--blocks", "1", "--on", "ssh:a,b", "--json", "--"]
    seen = hosts.folder / "seen"
    program = f"import sys; assert sys.argv[1:] == ['--wait', 'x  y']; open({str(seen)!r}, 'a')"
    program += ".write('.')"
    done = command("--wait", "try", *words, sys.executable, "-c", program, "--wait", "x  y")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, schemas.schema("try-on"))
    assert [(one["host"], one["reason"]) for one in document] == [("a", None), ("b", None)]
    assert len(seen.read_text()) >= 4
    for name in ("a", "b"):
        assert held(home(), name) == held(hosts.store(name), None)
        ((_, samples, _),) = held(home(), name).values()
        assert {sample.outcome for sample in samples} == {"ok"}
    for bad in (["--gate"], ["--dry-run"], ["--jsonl"]):
        assert command("try", *bad, "--on", "ssh:a", "--", "true").returncode == 2


@pytest.mark.slow
def test_a_study_is_reproduced_on_several_hosts(hosts: Hosts, command: Command) -> None:
    done = command("reproduce", "vma-lock", "--budget", "2s", "--on", "ssh:a,b", "--gate")
    assert done.returncode in (0, 1), done.stderr
    assert "hold on all 2 hosts" in " ".join(done.stdout.split())
    for name in ("a", "b"):
        assert held(home(), name) == held(hosts.store(name), None)
        with Store(hosts.store(name)) as opened:
            (row,) = opened.runs()
        assert (row.request["blocks"], row.request["budget_s"]) == (20, 2)
