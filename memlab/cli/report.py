"""`memlab report`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli import _completing
from memlab.cli._options import FileName, echo, output_folder, store_path

if TYPE_CHECKING:
    from memlab.results import Run


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=_completing.run)
@click.option(
    "-o",
    "output",
    type=FileName(dir_okay=False, allow_dash=True, path_type=Path),
    help="Output file, or - for standard output (default: report-RUN.html in `figures` beside the "
    "store).",
)
def command(runs: tuple[str, ...], output: Path | None) -> None:
    """Write a report on each RUN (default: the newest run): what holds and what does not, figures,
    published tables, every point, noise and machine. The HTML file works offline. The name of a
    study stands for the newest run of each of its experiments.

    \b
    memlab report
    memlab report last -o report.html
    memlab report example:miao-2021 -o report.html
    """
    loaded = list(_loaded(runs or ("last",)))
    from memlab.present import report  # after a long run was read, which takes as much memory

    if output == Path("-"):
        click.echo(report.html(loaded), nl=False)
        return
    ids = dict.fromkeys((loaded[0].id, loaded[-1].id))
    path = output or output_folder(None, store_path()) / f"report-{'-'.join(ids)}.html"
    report.write(loaded, path)
    echo(path)


def _loaded(names: Sequence[str]) -> Iterator[Run]:
    """The run of each name; of a study those that there are, as not every host can run all."""
    from memlab import api, published, recorded
    from memlab.errors import UnknownRun
    from memlab.judging import reproduce

    for name in names:
        study = name.removeprefix(recorded.PREFIX)
        if study not in published.ids():
            yield api.load(name, store=store_path())
            continue
        of_memlab = name[: -len(study)]
        missing, result = [], 0
        for experiment in reproduce.resolve(study).experiments:
            try:
                yield api.load(of_memlab + experiment.name, store=store_path())
                result += 1
            except UnknownRun:
                missing.append(experiment.name)
        if not result:
            raise UnknownRun(f"no run of {name}; `memlab reproduce {name}` measures them")
        if missing:
            click.echo(f"no run of {', '.join(missing)}: not in the report", err=True)
