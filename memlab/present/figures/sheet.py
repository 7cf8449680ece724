"""The sheet that a figure for claims stands on: title, what it says, legend, run and machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from memlab.present.figures import page, style
from memlab.present.figures.page import Page
from memlab.results import Run

WIDTH, EDGE = 720.0, 14.0  # points
STEP = style.SMALL * style.LINE_HEIGHT
_HANDLE = 46.0  # points that a legend's sign and the gap behind it take


@dataclass(frozen=True, slots=True)
class Sheet:
    """The words around a figure's body, wrapped, so that its height is known before it is made."""

    title: Sequence[str]
    said: Sequence[str]
    foot: Sequence[str]
    handles: Sequence[Artist]
    width: float = WIDTH

    def lay(self, figure: Figure, body: float) -> tuple[Page, float]:
        """Size the figure for a body of that height, write the words, and return the body's top."""
        columns = self._columns()
        legend = math.ceil(len(self.handles) / columns) * style.SMALL * 1.6 + 6
        head = self._head() + (legend if self.handles else 0)
        made = Page(figure, self.width, EDGE + head + body + len(self.foot) * STEP + 12)
        figure.set_size_inches(made.width / style.POINTS, made.height / style.POINTS)
        figure.set_dpi(style.PIXELS / (made.width / style.POINTS))
        top = made.height - EDGE
        for lines, size, weight in (
            (self.title, style.FINDING + 1, "bold"),
            (self.said, style.TEXT, "normal"),
        ):
            for line in lines:
                made.write(line, EDGE, top, size, weight=weight, color=style.INK)
                top -= size * style.LINE_HEIGHT
        if self.handles:
            self._legend(made, top, columns)
        for i, line in enumerate(reversed(self.foot)):
            made.write(line, EDGE, 8 + (i + 1) * STEP, style.SMALL, color=style.QUIET)
        return made, made.height - EDGE - head

    def _head(self) -> float:
        lines = len(self.title) * (style.FINDING + 1) + len(self.said) * style.TEXT
        return lines * style.LINE_HEIGHT + 6

    def _columns(self) -> int:
        widest = max((_width(handle) for handle in self.handles), default=1.0)
        return max(1, min(len(self.handles), int((self.width - 2 * EDGE) // widest)))

    def _legend(self, made: Page, top: float, columns: int) -> None:
        made.figure.legend(
            handles=list(self.handles),
            loc="upper left",
            bbox_to_anchor=((EDGE - 6) / made.width, (top + 2) / made.height),
            ncols=columns,
            frameon=False,
            fontsize=style.SMALL,
            handlelength=2.4,
            borderpad=0.2,
        )


def sheet(
    title: str, said: str, run: Run, more: str, handles: Sequence[Artist], width: float = WIDTH
) -> Sheet:
    """A sheet for a run; `more` stands before the machine and the run at the foot."""
    limit = width - 2 * EDGE
    foot = [more, page.machine(run), provenance(run)]
    return Sheet(
        title=style.wrap(title, style.FINDING + 1, limit, "bold"),
        said=style.wrap(said, style.TEXT, limit),
        foot=[line for text in foot for line in style.wrap(text, style.SMALL, limit)],
        handles=handles,
        width=width,
    )


def provenance(run: Run) -> str:
    """Which run this is, and how many samples it holds."""
    count = f"{len(run.samples)} samples in {run.blocks} blocks"
    return f"memlab {run.row.memlab}, run {run.id} of {run.row.created_at[:10]}, {count}"


def _width(handle: Artist) -> float:
    return style.width(str(handle.get_label()), style.SMALL) + _HANDLE
