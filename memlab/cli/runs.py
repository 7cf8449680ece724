"""`memlab runs`."""

import click

from memlab.cli import _completing
from memlab.cli._options import echo, echo_json, json_option, store_path
from memlab.text.printable import printable

_SHOWN = 100  # runs of a table
_NOTE_MAX = 1000  # characters of a note


@click.command()
@click.argument("experiment", required=False, shell_complete=_completing.experiment)
@click.option("--check", is_flag=True, help="Read every sample to find damaged runs.")
@click.option(
    "--delete",
    metavar="RUN",
    multiple=True,
    shell_complete=_completing.run,
    help="Delete a run and its samples instead of listing.",
)
@click.option("--rename", metavar="RUN NAME", nargs=2, help="Name a run instead of listing.")
@click.option(
    "--note",
    metavar="RUN TEXT",
    nargs=2,
    help="Store a note that runs, show and report print with the run; '' removes it.",
)
@json_option
def command(
    experiment: str | None,
    check: bool,
    delete: tuple[str, ...],
    rename: tuple[str, str] | None,
    note: tuple[str, str] | None,
    as_json: bool,
) -> None:
    """List the newest 100 stored runs (of EXPERIMENT), the newest last; or delete, name or annotate
    some. If a run is damaged, the intact runs are listed and the exit code is 3; only --check reads
    every sample.

    \b
    memlab runs mmap-write
    memlab runs --delete b2f6ed4e --delete before
    memlab runs --rename last after
    memlab runs --note last "with the new firmware"
    """
    from memlab import experiments
    from memlab.errors import BadRequest, StoreError
    from memlab.store import Store

    if experiment:
        experiments.load(experiment)
    with Store(store_path()) as opened:
        if delete or rename or note:
            gone = [opened.find(run) for run in delete]
            named = opened.find(rename[0]) if rename else None
            noted = opened.find(note[0]) if note else None
            if rename:
                from memlab import measure  # the engine, which takes as long as all else

                measure.check_name(rename[1])
                other = next((r for r in opened.runs() if r.name == rename[1]), None)
                if named and other and other.id != named.id:
                    raise BadRequest(
                        f"run {other.id} is named {rename[1]}; name it otherwise first: "
                        f"memlab runs --rename {other.id} OTHER"
                    )
            for run in {run.id: run for run in gone}.values():
                count = opened.sample_count(run.id)
                opened.delete_run(run.id)
                echo(f"deleted: run {run.id}, {run.experiment}, {count} samples")
            if rename and named:
                opened.rename_run(named.id, rename[1])
                echo(f"run {named.id} is named {rename[1]}")
            if note and noted:
                opened.note_run(noted.id, printable(note[1])[:_NOTE_MAX])
                echo(f"run {noted.id}: {note[1] or 'no note'}")
            return
        result, damaged = opened.listed(experiment, None if as_json else _SHOWN)
        damaged |= opened.damaged() if check else {}
        count = opened.run_count(experiment)
    whole = [item for item in result if item.row.id not in damaged]
    if as_json:
        from memlab.present.documents.lists import ListedRun

        echo_json([ListedRun.made_of(item) for item in whole])
    elif whole:
        from memlab.present import listed

        listed.write(whole)
        if count > _SHOWN:
            echo(f"the newest {_SHOWN} of {count} runs; memlab runs --json lists them all")
    if damaged:
        text = "; ".join(f"run {id}: {why}" for id, why in damaged.items())
        raise StoreError(f"{opened.path} is damaged: {text}")
