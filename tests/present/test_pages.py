"""The pages of the documentation are what the experiments declare and the recorded runs hold."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image
from quick import mostly_slow
from test_first_lines import QUICK as OF_SCREENS

from memlab import api, experiments, published, recorded
from memlab.judging import reproduce
from memlab.present import figures, pages
from memlab.present.figures import kinds
from memlab.present.table import Column, Table, markdown

DOCS = Path(__file__).parents[2] / "docs"
# One of each kind of figure.
QUICK = ("allocator", "device-pinning", "load-latency", "memcg-notify", "mmap-overcommit")
QUICK += ("mmap-write", "page-fault", "locked-latency")


def module(name: str) -> ModuleType:
    """A file of docs, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def make() -> ModuleType:
    return module("make")


@pytest.mark.parametrize("name", mostly_slow(experiments.names(), *QUICK))
def test_a_page_is_current(make: ModuleType, name: str) -> None:
    """`make pages` writes it, and its main figure."""
    run = api.load(f"example:{name}") if name in recorded.names() else None
    written = (DOCS / "experiments" / f"{name}.md").read_text(encoding="utf-8")
    assert written == pages.page(experiments.load(name), run, make.in_git(run) if run else [])
    if run:
        assert drawn_of(DOCS / "experiments" / f"{name}.svg") == figures.source(run)


@pytest.mark.parametrize("quick", [QUICK, OF_SCREENS], ids=["pages", "screens"])
def test_each_kind_of_figure_is_looked_at_at_each_change(quick: tuple[str, ...]) -> None:
    def kinds_of(names: Iterable[str]) -> set[type]:
        declared = [experiments.load(name) for name in names]
        return {type(part) for one in declared for part in (one.figure, *one.more_figures.values())}

    assert kinds_of(quick) == kinds_of(experiments.names())


def drawn_of(path: Path) -> str:
    """What a figure's file says that it is of: a run, and a digest of its numbers."""
    if path.suffix == ".png":
        with Image.open(path) as image:
            return str(image.info.get("Source", ""))
    found = re.search("<dc:source>(.*)</dc:source>", path.read_text(encoding="utf-8"))
    return found[1] if found else ""


@pytest.mark.slow
def test_the_figure_of_a_history_has_the_numbers_of_today(make: ModuleType, tmp_path: Path) -> None:
    """`make pages` draws it; the other pictures of docs are of runs that do not ship."""
    wanted = make.history_figure.source(make.nights(tmp_path / "store.db"))
    assert drawn_of(DOCS / "history.png") == wanted
    assert drawn_of(DOCS / "trusted.png") == make.trusted_source(make.trusted())
    assert {path.name for path in DOCS.glob("*.png")} == {"history.png", "trusted.png", *make.KEPT}


@pytest.mark.slow
def test_git_has_the_main_figures_and_those_of_guides() -> None:
    """`make pages` writes all of these; docs/built.py makes the others for the site."""
    guides = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    wanted = {f"{name}.md" for name in experiments.names()}
    wanted |= {f"{name}.svg" for name in recorded.names()}
    wanted |= {*re.findall(r"\(experiments/([^()]+\.svg)\)", guides)}
    assert {path.name for path in (DOCS / "experiments").iterdir()} == wanted
    assert len(wanted) == len(experiments.names()) + len(recorded.names()) + 1
    pictures = {path for kind in ("png", "svg") for path in DOCS.rglob(f"*.{kind}")}
    assert {path.parent.name for path in pictures} == {"docs", "experiments"}


WITH_BLOCKS = ["README.md", "docs/tutorial.md", "docs/diagnose.md", "docs/logs.md"]


@pytest.mark.seconds
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


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "same"), [(1 + 1e-9, True), (1.001, False)])
def test_a_figure_of_other_numbers_says_so(
    monkeypatch: pytest.MonkeyPatch, factor: float, same: bool
) -> None:
    """One number that is another in its fourth digit, and not in a processor's last."""
    run = api.load("example:mmap-write")
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
    shown = {one.table.title for run in make._beside().values() for one in run}
    assert len(shown) > 10
    assert all(f"- {title}: " in text for title in shown)


def test_the_finding_comes_first() -> None:
    text = pages.page(experiments.load("mmap-write"), api.load("example:mmap-write"))
    assert "1 of 4 claims holds" in text.splitlines()[4]
    assert text.index("![") < text.index("## How it is measured")


def test_every_experiment_is_listed_by_its_question() -> None:
    text = (DOCS / "choose.md").read_text(encoding="utf-8")
    assert all(f"](experiments/{name}.md)" in text for name in experiments.names())


def test_exact_checks_are_listed_once_in_the_figure_or_in_a_table() -> None:
    few, run = api.load("example:memcg-accounting"), api.load("example:vma-lock")
    listed = pages.page(few.experiment, few)
    assert "30 exact checks hold: the figure lists them." in listed
    text = pages.page(run.experiment, run)
    judged = reproduce.of_run(run).judged
    count = Counter(item.word for item in judged)
    assert count["reproduced"] > 70
    assert count["contradicted"] >= 5
    # Too many for a figure of a page's height: it counts them, and the page has the table.
    heading = f"{count['reproduced']} exact checks hold:\n"
    table = text.partition(heading)[2].partition("\n## ")[0]
    assert table.count("\n| ") == count["reproduced"] + 2  # and its head
    assert text.count("**contradicted**") == count["contradicted"]
    assert "**reproduced**" not in text


def test_a_page_says_where_no_run_ships() -> None:
    text = pages.page(experiments.load("mmap-write"), None)
    assert "No run of it ships with memlab." in text
    assert "![" not in text


def test_a_cell_keeps_its_table_whole() -> None:
    lines = [*markdown(Table("", [Column("head")], [["a | b  c < d\ne"]]))]
    assert lines == ["| head |", "| --- |", "| a \\| b c &lt; d<br>e |"]


def test_a_page_says_where_a_figure_is_that_git_has_not() -> None:
    run = api.load("example:advice-reclaim")
    text = pages.page(run.experiment, run)
    assert text.count(".svg)](") == 1
    assert "Further figures, which `memlab plot example:advice-reclaim` draws and the" in text
    assert all(f"- {figures.caption(run, name)}" in text for name in ("read", "rate"))
    assert pages.page(run.experiment, run, figures.names(run)).count(".svg)](") == 3


@pytest.mark.slow
def test_the_site_is_built_strictly_with_all_that_git_has_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    for name in experiments.names():
        assert f'href="experiments/{name}.html"' in home  # in the navigation
        page = (tmp_path / "experiments" / f"{name}.html").read_text(encoding="utf-8")
        shown = re.findall(r'<img [^>]*src="([^"]+)"', page)
        run = api.load(f"example:{name}")
        assert len(shown) == len(figures.names(run))
        assert all((tmp_path / "experiments" / one).exists() for one in shown)
        assert "Further figures" not in page
    for name, words in (("commands", "memlab kernels bisect"), ("python", "memlab.Run.plot")):
        assert words in (tmp_path / f"reference/{name}.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of click, in click-man
def test_every_command_has_a_man_page_with_its_examples_unfilled(tmp_path: Path) -> None:
    module("built").man(tmp_path / "man")
    text = {path.name: path.read_text() for path in (tmp_path / "man").iterdir()}
    assert {"memlab.1", "memlab-sweep.1", "memlab-kernels-bisect.1"} <= text.keys()
    assert ".nf\nmemlab sweep mmap-write\n" in text["memlab-sweep.1"]
