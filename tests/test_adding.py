"""The page on adding an experiment, followed to the letter in a fresh copy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "adding.md"
FILE = re.compile(
    r"^```(?:c|python)\n(?:# |/\* )(?P<path>\S+)(?: \*/)?\n(?P<text>.*?)^```", re.M | re.S
)
COPIED = ("memlab", "probes", "tests", "CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE")


def files() -> dict[str, str]:
    """What the page says to write, by path."""
    found = FILE.finditer(PAGE.read_text(encoding="utf-8"))
    return {match["path"]: match["text"] for match in found}


def run(command: list[str], clone: Path, home: Path) -> str:
    environment = {**os.environ, "HOME": str(home), "MEMLAB_STORE": str(home / "results.db")}
    done = subprocess.run(
        command,
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_three_files_under_eighty_lines() -> None:
    """The line with the path is the page's, and no file's."""
    found = files()
    assert [Path(path).suffix for path in found] == [".c", ".py", ".py"]
    assert sum(text.count("\n") for text in found.values()) < 80
    assert not [path for path in found if (ROOT / path).exists()]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy with the three files, and a virtual environment that it is installed in."""
    clone = tmp_path_factory.mktemp("clone")
    for name in COPIED:
        of = ROOT / name
        if of.is_dir():
            shutil.copytree(of, clone / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(of, clone / name)
    for path, text in files().items():
        (clone / path).write_text(text, encoding="utf-8")
    venv = clone / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    # The tools of this environment, without its own memlab: a path file's paths are not searched
    # for path files in their turn.
    inside = next((venv / "lib").glob("python*/site-packages"))
    (inside / "tools.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = venv / "bin" / "python"
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-e",
        ".",
    ]
    run(install, clone, clone)
    return clone, python


@pytest.mark.usefixtures("free_machine")
def test_the_experiment_is_there_and_runs(followed: tuple[Path, Path], tmp_path: Path) -> None:
    clone, python = followed
    memlab = str(python.with_name("memlab"))
    assert "mlock-cost" in run([memlab, "list"], clone, tmp_path)
    assert "one mlock(2) of the whole mapping" in run(
        [memlab, "describe", "mlock-cost"], clone, tmp_path
    )
    shown = run([memlab, "sweep", "mlock-cost", "--blocks", "6"], clone, tmp_path)
    assert "one mlock (s)" in shown
    assert "24 samples" in shown
    claims = run([memlab, "claims", "last"], clone, tmp_path)
    assert "a populated mapping locks at under half the cost" in claims


def test_its_tests_pass(followed: tuple[Path, Path], tmp_path: Path) -> None:
    clone, python = followed
    chosen = ["tests/probes/test_probe_mlock_cost.py", "tests/experiment/test_declarations.py"]
    command = [str(python), "-m", "pytest", "-q", "-k", "mlock", "-p", "no:cacheprovider", *chosen]
    assert "passed" in run(command, clone, tmp_path)
