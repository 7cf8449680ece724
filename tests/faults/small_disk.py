"""Run in a mount namespace of its own: a sweep on a disk that another program fills and frees.

Usage: small_disk.py FOLDER STORE. Prints the samples as JSON, one a line, then what is left in
FOLDER. The disk is full from the second block to the end of the fourth.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from memlab.experiment.points import Point
from memlab.request import Request
from memlab.run import driver
from memlab.run.prepare import prepare
from memlab.run.watch import Progress
from memlab.store import RunRow, Store

BLOCKS, FULL = 6, range(1, 4)
LEVELS = {
    "size": [4096],
    "file_size": [2**20],
    "filesystem": ["dir"],
    "file_state": ["sparse", "preallocated", "cached_1m"],
    "slice": [0.0],
}


class Filler:
    """A watch that is the other program."""

    def __init__(self, folder: Path) -> None:
        self.ballast = folder / "ballast"

    def warned(self, line: str) -> None:
        raise AssertionError(line)

    def started(self, run: RunRow, points: Sequence[Point], taken: int) -> None:
        self.points = len(points)

    def sampled(self, progress: Progress) -> None:
        if progress.position == self.points - 1:
            if progress.block + 1 == FULL.start:
                self.fill()
            if progress.block + 1 == FULL.stop:
                self.ballast.unlink()

    def fill(self) -> None:
        with open(self.ballast, "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                return

    def ended(self, reason: str) -> None:
        print(json.dumps({"ended": reason}))


def main(folder: Path, store: Path) -> None:
    request = Request(
        "mmap-write", levels=LEVELS, controls=False, blocks=BLOCKS, seed=1, directory=str(folder)
    )
    with Store(store, create=True) as opened:
        run = driver.sweep(prepare(request), opened, Filler(folder))
        at = {point.point: point.levels for point in opened.points(run.id)}
        for sample in opened.samples(run.id):
            levels = at[sample.point]
            print(
                json.dumps(
                    {
                        "block": sample.block,
                        "state": levels["file_state"],
                        "method": levels["method"],
                        "outcome": sample.outcome,
                        "detail": sample.detail,
                    }
                )
            )
    print(json.dumps({"left": [path.name for path in folder.iterdir()]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
