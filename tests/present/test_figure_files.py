"""What a figure is written as: whole files or none, the same for the same run."""

from __future__ import annotations

import copy
import json
import resource
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from stored_runs import (
    stored,
)

from memlab import api
from memlab.errors import CannotRun
from memlab.machines.ladder import show as ladder
from memlab.machines.ladder.judge import KernelCell, KernelRow
from memlab.present import figures
from memlab.present.figures import sidecar
from memlab.results import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return stored(tmp_path_factory.mktemp("store"), size=[100, 4096])


def test_the_written_sidecar_is_the_runs(run: Run, tmp_path: Path) -> None:
    *_, path = figures.save(run, tmp_path, ["svg"])
    assert json.loads(path.read_text()) == sidecar.as_data(run)


@pytest.mark.slow
def test_the_figures_come_first_and_the_sidecar_last(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    files = figures.save(run, folder, figures.FORMATS)
    names = [f"mmap-write-ab12cd34.{kind}" for kind in ("png", "svg", "pdf", "json")]
    assert files == [folder / name for name in names]
    assert sorted(folder.iterdir()) == sorted(files)
    png, svg, pdf, _ = (path.read_bytes() for path in files)
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")
    assert b"From which size per call does write(2) beat" in svg


@pytest.mark.slow
def test_the_same_run_gives_the_same_files(run: Run, tmp_path: Path) -> None:
    first = figures.save(run, tmp_path / "a", figures.FORMATS, stem="x")
    second = figures.save(run, tmp_path / "b", figures.FORMATS, stem="x")
    assert [p.name for p in first] == ["x.png", "x.svg", "x.pdf", "x.json"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_the_ladders_figure_is_written_whole_or_refused(tmp_path: Path) -> None:
    cells = {"6.1": KernelCell("reproduced", 7, 7, 7), "6.12": KernelCell("contradicted", 0, 0, 0)}
    rows = [KernelRow("vma-lock", "x", "", {}, "count", cells)]
    path = ladder.figure(list(cells), rows, tmp_path / "new" / "ladder.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [one.name for one in path.parent.iterdir()] == ["ladder.png"]
    with pytest.raises(CannotRun, match="cannot write /proc/nosuch: No such file or directory"):
        ladder.figure(list(cells), rows, Path("/proc/nosuch/ladder.png"))


def test_a_figure_is_drawn_once_for_a_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []

    def draw(figure: Figure, renderer: object) -> None:
        drawn.append(renderer)
        Figure.draw(figure, renderer)  # type: ignore[arg-type]

    of_user = {"figure.autolayout": True, "figure.constrained_layout.use": True}
    with matplotlib.rc_context(of_user):
        figure = figures.draw(run)
        monkeypatch.setattr(figures.RunFigure, "draw", draw)
        for kind in figures.FORMATS:
            figures.write(figure, tmp_path / f"x.{kind}")
    assert len(drawn) == len(figures.FORMATS)


def test_an_unknown_format_is_refused_and_nothing_is_made(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="png, svg, pdf, not 'gif'"):
        figures.save(run, tmp_path / "out", ["png", "gif"])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_failing_sidecar_leaves_the_old_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    before = {path: path.read_bytes() for path in figures.save(run, folder, ["svg"])}

    def broken(_: Run) -> str:
        raise RuntimeError("no sidecar")

    monkeypatch.setattr(sidecar, "as_json", broken)
    with pytest.raises(RuntimeError, match="no sidecar"):
        figures.save(run, folder, ["svg"])
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_no_part_and_the_old_files(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    before = {path: path.read_bytes() for path in figures.save(run, folder, ["svg"])}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(CannotRun, match="File too large"):
            figures.save(run, folder, ["svg"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_is_a_file_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotRun, match=r"cannot write .*file"):
        figures.save(run, tmp_path / "file", ["svg"])


# Being a guest


def test_a_notebook_shows_the_figure(run: Run) -> None:
    figure = figures.draw(run)
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_the_callers_settings_stay(run: Run) -> None:
    before = copy.deepcopy(dict(matplotlib.rcParams))
    figures.draw(run).savefig("/dev/null", format="svg")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_pyplot_is_never_imported() -> None:
    code = "import sys, memlab.present.figures; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_the_last_digits_of_the_layouts_solver_change_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They differ from process to process, and the names of clip paths are hashes of floats."""
    run = api.load("example:page-fault")
    solved = ConstrainedLayoutEngine.execute

    def noisy(engine: ConstrainedLayoutEngine, figure: Figure) -> None:
        solved(engine, figure)
        for i, axes in enumerate(figure.axes, 1):
            left, bottom, wide, high = axes.get_position().bounds
            axes.set_position((left + i * 1e-15, bottom, wide + i * 1e-15, high - i * 1e-15))

    files = figures.save(run, tmp_path / "one", ["svg"])
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", noisy)
    others = figures.save(run, tmp_path / "other", ["svg"])
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in others]


@pytest.mark.slow
def test_two_processes_draw_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        arguments = ["plot", "example:tlb-shootdown", "-o", str(tmp_path / folder)]
        subprocess.run([sys.executable, "-m", "memlab", *arguments], check=True)
    one, other = (
        {p.name: p.read_bytes() for p in (tmp_path / f).iterdir()} for f in ("one", "other")
    )
    assert one == other
    assert len(one) > 4
