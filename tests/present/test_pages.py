"""The pages of the documentation are what the experiments declare and the recorded runs hold."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from memlab import api, experiments, recorded
from memlab.present import figures, pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make", DOCS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", experiments.names())
def test_a_page_is_current(name: str) -> None:
    """`make pages` writes it anew."""
    run = api.load(name, example=True) if name in recorded.names() else None
    written = (DOCS / "experiments" / f"{name}.md").read_text(encoding="utf-8")
    assert written == pages.page(experiments.load(name), run)
    shown = figures.names(run) if run else []
    stems = [f"{name}-{figure}" if figure else name for figure in shown]
    assert not [stem for stem in stems if not (DOCS / "experiments" / f"{stem}.svg").exists()]


def test_the_index_lists_every_experiment(make: ModuleType) -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert text == make.index(text)
    assert all(f"experiments/{name}.md" in text for name in experiments.names())


def test_a_page_says_where_no_run_ships() -> None:
    text = pages.page(experiments.load("mmap-write"), None)
    assert "No run of it ships with memlab." in text
    assert "![" not in text


def test_a_cell_keeps_its_table_whole() -> None:
    assert pages._cell("a | b\n c < d<br>e") == "a \\| b c &lt; d<br>e"


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "experiments" / "mmap-write.html").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of click, in click-man
def test_the_man_pages_are_current(make: ModuleType, tmp_path: Path) -> None:
    made = tmp_path / "man"
    make.man(made)
    kept = {path.name: path.read_text() for path in (DOCS / "man").iterdir()}
    assert kept == {path.name: path.read_text() for path in made.iterdir()}
    assert {"memlab.1", "memlab-sweep.1"} <= kept.keys()
