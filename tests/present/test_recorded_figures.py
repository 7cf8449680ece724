"""Every figure of every recorded run can be read: no words collide or leave the page, none is
small, and the headline says what is found."""

from __future__ import annotations

import pytest
from looking import collisions, texts
from quick import mostly_slow

from memlab import api, recorded
from memlab.present import figures

# A run with each kind of figure.
KINDS = (
    *("mmap-write", "thread-create", "locked-latency", "mmap-overcommit", "allocator"),
    *("guest-memory", "group-isolation"),
)


@pytest.mark.parametrize("name", mostly_slow(recorded.names(), *KINDS))
def test_a_figure_can_be_read(name: str) -> None:
    run = api.load(f"example:{name}")
    for one in figures.names(run):
        figure = figures.draw(run, one)
        assert collisions(figure) == []
        assert figure.bbox.width == pytest.approx(1600)
        assert min(text.get_fontsize() for text in texts(figure)) >= 9
        assert figures.headline(run, one)
