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


INDEX = Path(__file__).parent / "index.md"
_BEGIN, _END = "<!-- experiments -->", "<!-- end -->"


def index(text: str) -> str:
    """The index with the list of experiments renewed."""
    before, _, rest = text.partition(_BEGIN)
    rows = [
        f"- [{name}](experiments/{name}.md): {experiments.load(name).question}"
        for name in experiments.names()
    ]
    return "\n".join([before + _BEGIN, *rows, _END + rest.partition(_END)[2]])


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
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        INDEX.write_text(index(INDEX.read_text(encoding="utf-8")), encoding="utf-8")
        main(FOLDER)
