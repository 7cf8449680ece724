"""The pages of the documentation are what the experiments declare and the recorded runs hold."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image
from quick import mostly_quick

from memlab import api, experiments, published, recorded
from memlab.present import figures, pages
from memlab.present.figures import kinds
from memlab.present.table import Column, Table, markdown

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make", DOCS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", mostly_quick(experiments.names(), "tlb-shootdown"))
def test_a_page_is_current(name: str) -> None:
    """`make pages` writes it."""
    run = api.load(name, example=True) if name in recorded.names() else None
    written = (DOCS / "experiments" / f"{name}.md").read_text(encoding="utf-8")
    assert written == pages.page(experiments.load(name), run)
    shown = figures.names(run) if run else []
    stems = [f"{name}-{figure}" if figure else name for figure in shown]
    assert drawn(name) == {f"{stem}.svg" for stem in stems}
    found = [drawn_of(DOCS / "experiments" / f"{stem}.svg") for stem in stems]
    assert found == [figures.source(run, figure) for figure in shown]


def drawn(name: str) -> set[str]:
    """The files of an experiment's figures."""
    files = {path.name for path in (DOCS / "experiments").glob("*.svg")}
    return {file for file in files if file == f"{name}.svg" or file.startswith(f"{name}-")}


def drawn_of(path: Path) -> str:
    """What a figure's file says that it is of: a run, and a digest of its numbers."""
    if path.suffix == ".png":
        with Image.open(path) as image:
            return str(image.info.get("Source", ""))
    found = re.search("<dc:source>(.*)</dc:source>", path.read_text(encoding="utf-8"))
    return found[1] if found else ""


def test_the_guides_figures_have_the_numbers_of_today(make: ModuleType, tmp_path: Path) -> None:
    """`make pages` draws them: README's was once of an interval that was no longer the text's."""
    history = make.history_figure.source(make.nights(tmp_path / "store.db"))
    wanted = {f"{n}.png": figures.source(api.load(n, example=True)) for n in make.GUIDES}
    wanted |= {"history.png": history}
    assert {name: drawn_of(DOCS / name) for name in wanted} == wanted
    assert {path.name for path in DOCS.glob("*.png")} == {*wanted, *make.KEPT}


def test_no_page_or_figure_is_one_that_nothing_writes() -> None:
    """What an experiment or a figure that is gone has left; `make pages` writes all that is here,
    and tests/analysis prints the tables of error-rates.md."""
    here = {path.name for path in (DOCS / "experiments").iterdir()}
    assert here == {f"{name}.md" for name in experiments.names()}.union(
        *map(drawn, experiments.names())
    )
    references = {path.name for path in (DOCS / "reference").iterdir()}
    assert references == {"commands.md", "python.md", "error-rates.md"}
    pictures = {path for kind in ("png", "svg") for path in DOCS.rglob(f"*.{kind}")}
    assert {path.parent.name for path in pictures} == {"docs", "experiments"}


WITH_BLOCKS = ["README.md", "docs/tutorial.md", "docs/logs.md"]


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_numbers_in_pages_written_by_hand_are_the_recorded_runs(
    make: ModuleType, page: str
) -> None:
    """Between the marks; `make pages` writes them."""
    assert [*make.BLOCKS] == WITH_BLOCKS
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    assert text.count("<!-- made ") == len(make.BLOCKS[page])
    assert make.with_blocks(page, text) == text
    begin = text.index("<!-- made ")
    spoiled = f"{text[:begin]}{text[begin:].replace('.', ',')}"
    assert make.with_blocks(page, spoiled) != spoiled


@pytest.mark.parametrize(("factor", "same"), [(1 + 1e-9, True), (1.001, False)])
def test_a_figure_of_other_numbers_says_so(
    monkeypatch: pytest.MonkeyPatch, factor: float, same: bool
) -> None:
    """One number that is another in its fourth digit, and not in a processor's last."""
    run = api.load("mmap-write", example=True)
    before, kind = figures.source(run), kinds.of(run.experiment.figure)
    rows = kind.rows(run, run.experiment.figure)
    rows[0]["median"] *= factor
    monkeypatch.setattr(kind, "rows", lambda *_: rows)
    assert (figures.source(run) == before) is same


@pytest.mark.slow
def test_the_page_of_the_studies_is_current_and_names_each_in_full(make: ModuleType) -> None:
    text = (DOCS / "studies.md").read_text(encoding="utf-8")
    assert text == make.studies()
    for source in map(published.load, published.ids()):
        assert source.title in text
        assert source.missing in text
        assert (source.authors or "authors: not known") in text
        assert all(table.title in text for table in source.tables.values())


@pytest.mark.parametrize("what", ["commands", "python"])
def test_a_reference_is_current(make: ModuleType, what: str) -> None:
    written = (DOCS / "reference" / f"{what}.md").read_text(encoding="utf-8")
    assert written == getattr(make, what)()


def test_the_finding_comes_first() -> None:
    text = pages.page(experiments.load("mmap-write"), api.load("mmap-write", example=True))
    assert "1 of 4 claims holds" in text.splitlines()[4]
    assert text.index("![") < text.index("## How it is measured")


@pytest.mark.parametrize("page", ["index.md", "choose.md"])
def test_every_experiment_is_found_from_the_start(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert all(f"](experiments/{name}.md)" in text for name in experiments.names())


def test_exact_checks_that_a_figure_lists_are_not_listed_again() -> None:
    declared = experiments.load("vma-lock")
    text = pages.page(declared, api.load("vma-lock", example=True))
    assert f"{len(declared.claims) - 5} exact checks hold: the figure lists them." in text
    assert text.count("**contradicted**") == 5
    assert "**reproduced**" not in text


def test_a_page_says_where_no_run_ships() -> None:
    text = pages.page(experiments.load("mmap-write"), None)
    assert "No run of it ships with memlab." in text
    assert "![" not in text


def test_a_cell_keeps_its_table_whole() -> None:
    lines = [*markdown(Table("", [Column("head")], [["a | b  c < d\ne"]]))]
    assert lines == ["| head |", "| --- |", "| a \\| b c &lt; d<br>e |"]


@pytest.mark.slow
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
