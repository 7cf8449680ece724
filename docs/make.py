"""Write the pages of the experiments, their figures, and the man pages: `make pages`.

They are committed, so that they can be read without a build; a test holds them to what the
experiments declare and the recorded runs hold.
"""

from __future__ import annotations

import re
import sys
from copy import copy
from inspect import cleandoc
from pathlib import Path

import click
from click_man.core import write_man_pages

from memlab import __version__, api, experiments, recorded
from memlab.cli import cli
from memlab.present import figures, pages

FOLDER = Path(__file__).parent / "experiments"
MAN = Path(__file__).parent / "man"


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


def _as_man(command: click.Command) -> click.Command:
    """The same, its examples marked as man(7) wants what is not to be filled."""
    made = copy(command)
    made.help = re.sub(
        r"\x08\n(.*?)(?=\n\s*\n|\Z)", r".nf\n\1\n.fi", cleandoc(command.help or ""), flags=re.S
    )
    return made


def man(folder: Path) -> None:
    """A man page for memlab and one for each command."""
    folder.mkdir(exist_ok=True)
    context = click.Context(cli, info_name="memlab")
    found = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    commands = {name: _as_man(command) for name, command in found.items() if command}
    # The command line finds its commands when they are asked for; who walks it wants them all.
    whole = click.Group("memlab", commands=commands, help=_as_man(cli).help, params=cli.params)
    version = f"memlab {__version__}"  # where a date would change every day
    write_man_pages("memlab", whole, version=version, target_dir=str(folder), date=version)


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
        man(MAN)
