"""`memlab clean`."""

import click

from memlab.cli._options import echo, echo_json, json_option


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Undo what a killed run left on this host: folders, cgroups, swap and changed settings; also
    remove the temporary folders of killed commands.

    The guardian of a killed sweep does the same within a second; this command is needed only if the
    guardian was killed too. The next sweep also does it. Stored samples are not touched.
    """
    from memlab.errors import CannotRun
    from memlab.files import folders
    from memlab.run import cleanup, journal

    undone = list(journal.undo_stale())
    for folder in folders.abandoned():
        if cleanup.remove_folder(folder):
            undone.append(journal.Undone("?", [f"folder {folder}"], [], reported=False))
    rest = list(journal.left_alone())
    failures = [failure for run in undone for failure in run.failures]
    failures += [
        journal.Lasting(f"{item}; look at it, then remove it") for item in rest if item.damaged
    ]
    foreign = [str(item) for item in rest if not item.damaged]
    if as_json:
        from memlab.measure.documents import Clean, UndoneRun
        from memlab.present.documents import converted

        runs = converted(undone, list[UndoneRun])
        echo_json(Clean(runs, [*map(str, failures)], foreign))
    for run in undone if not as_json else ():
        for change in run.changes or (() if run.failures else ("nothing was left",)):
            echo(f"run {run.run}: {change}" if run.run != "?" else f"a killed command: {change}")
    for line in foreign if not as_json else ():
        echo(f"left alone: {line}")
    if not (undone or rest or as_json):
        echo("nothing to clean")
    for failure in failures[1:] if not as_json else ():
        echo(f"could not undo {failure}")
    if failures:
        remedy = "" if isinstance(failures[0], journal.Lasting) else "; run `memlab clean` again"
        raise CannotRun(f"could not undo {failures[0]}{remedy}")
