"""Every notebook runs from its first cell to its last, and measures nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memlab import published, recorded

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# In a process of its own: the kernel's own warnings are not this project's errors.
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def source(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(notebook: Path, tmp_path: Path) -> None:
    executed = tmp_path / "executed.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(notebook), str(executed)],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    shown = {
        kind for cell in cells for out in cell.get("outputs", []) for kind in out.get("data", {})
    }
    assert "image/png" in shown


def test_a_tour_and_one_a_study() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"tour", *published.ids()}


def test_every_recorded_run_is_in_a_notebook() -> None:
    text = "\n".join(map(source, NOTEBOOKS))
    assert not [name for name in recorded.names() if f'"example:{name}"' not in text]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_none_keeps_outputs_or_measures(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert "memlab.sweep" not in code
