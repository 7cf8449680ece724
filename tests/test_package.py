"""The package as a user gets it: an sdist made without git, and the wheel that it builds."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

NOT_SHIPPED = {".git", ".venv", "build", "dist", "results"}  # at the top of a working tree


def leave_out(folder: str, names: list[str]) -> set[str]:
    return {n for n in names if n == "__pycache__" or (Path(folder) == ROOT and n in NOT_SHIPPED)}


SWEEP = """
import memlab
from memlab.present import describe
run = memlab.sweep("mmap-write", size=4096, file_size="1M", slice="1ms", filesystem="tmpfs",
                   file_state="cached_4k", blocks=1, controls=False)
print(memlab.__file__)
print(describe.probe_source(run.experiment))
print(*(sample.outcome for sample in run.samples))
"""


def build(*arguments: str | Path, cwd: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from an unpacked sdist, in folders that git knows nothing of."""
    tree = tmp_path_factory.mktemp("tree") / "memlab"
    shutil.copytree(ROOT, tree, ignore=leave_out)
    out = tmp_path_factory.mktemp("out")
    build("--sdist", "--outdir", out, cwd=tree)
    (sdist,) = out.glob("memlab-*.tar.gz")
    unpacked = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xf", sdist, "-C", unpacked], check=True)
    (source,) = unpacked.iterdir()
    build("--wheel", "--outdir", out, cwd=source)
    (made,) = out.glob("*.whl")
    return made


def test_the_wheel_serves_every_python_from_3_11(wheel: Path) -> None:
    assert "-cp311-abi3-linux_" in wheel.name


def test_the_wheel_runs_a_sweep_on_its_own(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(installed)
    environment = {
        **os.environ,
        # -S and the libraries by path: an editable memlab must not step in for the wheel.
        "PYTHONPATH": os.pathsep.join([str(installed), sysconfig.get_path("platlib")]),
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", SWEEP],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        str(installed / "memlab" / "__init__.py"),
        str(installed / "memlab" / "probe_sources" / "mmap_write.c"),
        "ok ok",
    ]


def test_the_wheel_installs_nothing_set_uid_and_no_service(wheel: Path) -> None:
    files = zipfile.ZipFile(wheel).infolist()
    assert not [file for file in files if file.external_attr >> 16 & (stat.S_ISUID | stat.S_ISGID)]
    units = (".service", ".socket", ".timer", ".rules", ".desktop")
    assert not [file.filename for file in files if file.filename.endswith(units)]


def test_the_wheel_holds_what_it_needs_and_no_more(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"memlab/probe_sources/probe.h", "memlab/published/logstore-mmap.toml"} <= names
    assert any(name.startswith("memlab/_probes.") and name.endswith(".so") for name in names)
    assert "memlab/results/run.py" in names
    assert "memlab/python_probes/guest_memory.py" in names
    assert ("memlab/guest_init" in names) == (platform.machine() == "x86_64")
    assert not [name for name in names if name.startswith(("tests/", "build/", "CMake"))]
