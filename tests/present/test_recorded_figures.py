"""Every figure of every recorded run can be read: no words collide or leave the page, none is
small, and the headline says what is found."""

from __future__ import annotations

import pytest
from looking import collisions, texts
from quick import mostly_slow

from memlab import api, experiments, recorded
from memlab.present import figures
from memlab.present.figures import sidecar
from memlab.results.beside import tables

# Runs that have each kind of figure.
KINDS = ("mmap-write", "locked-latency", "mmap-overcommit", "allocator")


@pytest.mark.seconds(but="mmap-write")
@pytest.mark.parametrize("name", mostly_slow(recorded.names(), *KINDS))
def test_a_figure_can_be_read(name: str) -> None:
    run = api.load(f"example:{name}")
    for one in figures.names(run):
        figure = figures.draw(run, one)
        assert collisions(figure) == []
        assert figure.bbox.width == pytest.approx(1600)
        assert min(text.get_fontsize() for text in texts(figure)) >= 9
        assert figures.headline(run, one)


PRINTED = [name for name in recorded.names() if experiments.load(name).published]


@pytest.mark.parametrize("name", PRINTED)
def test_every_published_value_is_drawn_beside_ours(name: str) -> None:
    run = api.load(f"example:{name}")
    drawn = {(mark.get("source"), mark.get("printed")) for mark in sidecar.as_data(run)["marks"]}
    printed = {
        (f"{beside.source.id}, {beside.table.id}", cell.printed)
        for beside in tables(run)
        for row in beside.rows
        for cell in row.cells.values()
    }
    assert {source for source, _ in printed} == {
        f"{declared.source}, {declared.table}" for declared in run.experiment.published
    }
    assert printed <= drawn
