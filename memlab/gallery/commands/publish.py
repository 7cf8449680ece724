"""Publish runs as a gallery: files that anyone can read, and pages that need no server."""

from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._options import echo, example_option, store_option


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=_completing.run)
@example_option
@click.option(
    "--unredacted",
    is_flag=True,
    help="Keep the names of hosts and runs, paths, command lines and the whole environment.",
)
@click.option(
    "--index", is_flag=True, help="Add no run: make the pages of the files that are there."
)
@store_option
def command(
    folder: Path,
    runs: tuple[str, ...],
    example: bool,
    unredacted: bool,
    index: bool,
    store: Path | None,
) -> None:
    """Write each RUN, else every run of the store that DIR lacks, into the gallery DIR: the samples
    as Parquet, the run as JSON, and pages for a browser about each experiment, claim and machine.
    The host's name, paths and command lines are left out, and so are runs of `memlab try`.

    Two galleries become one when the `data` and `runs` folders of one are copied into the other,
    and `publish DIR --index` makes the pages again. Exit 3 if a file there is no run's, after the
    pages are made.

    \b
    memlab publish site
    memlab publish site last b:page-fault
    memlab publish site --example
    """
    from memlab import api, gallery, recorded
    from memlab.errors import BadRequest, CannotRun
    from memlab.results import Run
    from memlab.store import Store, default_path

    if str(folder) == "last":
        raise click.UsageError("'last' is a run; name a folder before it: memlab publish DIR last")
    path = store or default_path()
    wanted: list[Run] = []
    if index:
        if runs or example or unredacted:
            raise click.UsageError("--index adds no run: give DIR alone")
    elif example or runs:
        names = runs or recorded.names()
        wanted = [api.load(name, store=store, example=example) for name in names]
    elif path.exists():
        with Store(path) as opened:
            listed, damaged = opened.listed()
        for id, why in damaged.items():
            echo(f"memlab: run {id} is damaged: {why}", err=True)
        lacking = (
            one
            for one in listed
            if one.samples
            and not gallery.there(folder, one.row.id, one.samples, redacted=not unredacted)
        )
        for one in lacking:
            try:
                gallery.add(Run(one.row, path), folder, redacted=not unredacted)
            except BadRequest as error:
                echo(f"memlab: {error}", err=True)
    for run in wanted:
        gallery.add(run, folder, redacted=not unredacted)
    built = gallery.build(folder)
    echo(folder / "index.html")
    for name, why in built.wrong.items():
        echo(f"memlab: {folder / name}: {why}"[:500], err=True)
    if built.wrong:
        raise CannotRun(f"{len(built.wrong)} files in {folder} are of no run, and are left out")
