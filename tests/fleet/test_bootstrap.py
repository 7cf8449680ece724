"""A host without memlab takes a copy of this one, and measures with the same probes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from command import Command
from pretended_hosts import TINY, Hosts, held

from memlab.errors import CannotRun
from memlab.machines.fleet import bootstrap
from memlab.store import Store


@pytest.fixture
def bare(hosts: Hosts) -> Hosts:
    """Hosts with a Python, in which no memlab is installed."""
    for name in hosts.names:
        path = f"{sys.base_prefix}/bin:/usr/bin:/bin"
        hosts.set(name, PATH=path, XDG_CACHE_HOME=str(hosts.folder / name / "cache"))
    return hosts


@pytest.mark.slow
def test_a_copy_measures_with_the_same_probes(bare: Hosts, command: Command) -> None:
    words = ["sweep", *TINY, "--blocks", "1", "--on", "ssh:a,b"]
    done = command(*words)
    assert done.returncode == 3
    assert "memlab: a: no 'memlab' there: " in done.stderr
    for copied in (True, False):
        done = command(*words, "--bootstrap")
        assert done.returncode == 0, done.stderr
        assert ("a: copying memlab and what it needs" in done.stderr) == copied
    hashes = set()
    for name in ("a", "b"):
        (copy,) = (bare.folder / name / "cache/memlab/copies").iterdir()
        assert (copy / "memlab/cli/sweep.py").exists()
        assert held(Path(os.environ["MEMLAB_STORE"]), name) == held(bare.store(name), None)
        with Store(bare.store(name)) as opened:
            hashes |= {s.probe_hash for row in opened.runs() for s in opened.samples(row.id)}
    assert len(hashes) == 1


def test_a_host_that_cannot_run_it_is_told_in_a_line(bare: Hosts, command: Command) -> None:
    words = ["sweep", *TINY, "--blocks", "1", "--bootstrap"]
    bare.set("a", PATH=str(bare.folder))
    done = command(*words, "--on", "ssh:a")
    assert done.returncode == 3
    assert "memlab: a: " in done.stderr
    assert done.stderr.count("\n") == 1
    assert command(*words).returncode == 2


def test_what_is_copied_is_what_memlab_needs() -> None:
    there = bootstrap.files()
    assert {"numpy/__init__.py", "memlab/__init__.py", "msgspec/__init__.py"} <= set(there)
    assert any(name.startswith("memlab/_probes") for name in there)
    assert not [name for name in there if name.startswith(("pytest/", "../", "numpy/tests/"))]


def test_another_python_is_refused(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho memlab-host 2.7 vax\n")
    python.chmod(0o755)
    with pytest.raises(CannotRun, match=r"a: its Python is 2\.7 on vax, and what would be copied"):
        bootstrap.copy(
            {"a": lambda line: ["env", f"PATH={tmp_path}", "/bin/sh", "-c", line]}, print
        )
