"""A PNG as it is written: 1600 pixels wide, whatever the page's size."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from report_runs import stored

from memlab.present import figures


@pytest.mark.slow
@pytest.mark.parametrize("states", [["cached_4k"], ["cached_4k", "sparse", "preallocated"]])
def test_a_png_is_1600_pixels_wide(tmp_path: Path, states: list[str]) -> None:
    run = stored(tmp_path, blocks=6, filesystem=["dir", "tmpfs"], file_state=states)
    png, *_ = figures.save(run, tmp_path / "out", ["png"])
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    assert width == 1600
    assert height == round(figures.draw(run).bbox.height)
