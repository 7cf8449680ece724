"""Write the pages of the experiments and their figures: `make pages`.

They are committed, so that they can be read without a build; a test holds them to what the
experiments declare and the recorded runs hold.
"""

from __future__ import annotations

import sys
from pathlib import Path

from memlab import api, experiments, recorded
from memlab.present import figures, pages

FOLDER = Path(__file__).parent / "experiments"


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    recordings = recorded.names()
    for name in experiments.names():
        run = api.load(name, example=True) if name in recordings else None
        text = pages.page(experiments.load(name), run)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
        if run:
            figures.save(run, folder, ["svg"], name)
            (folder / f"{name}.json").unlink()  # the sidecar: `memlab plot --example` writes it


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
