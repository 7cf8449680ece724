"""memlab clean: undo what a killed run left on the host."""

import click

from memlab.cli._options import echo_json, json_option


@click.command(short_help="Undo what a killed run left behind.")
@json_option
def command(as_json: bool) -> None:
    """Undo what a killed run left on the host: folders, cgroups, swap, and settings it had changed.

    A killed sweep is cleaned up within a moment by its guardian; this is for when the guardian
    was killed too. The next sweep does the same by itself. Stored samples are not touched.
    """
    from memlab.run import journal
    from memlab.run.request import CannotRun

    undone, failures = [], []
    for left in list(journal.stale()):
        failures += journal.undo_patiently(left.path)
        undone.append({"run": left.run, "changes": list(left.changes)})
    if as_json:
        echo_json({"undone": undone, "failed": failures})
    for item in undone if not as_json else ():
        for change in item["changes"] or ["nothing was left"]:
            click.echo(f"run {item['run']}: {change}")
    if not undone and not as_json:
        click.echo("nothing to clean")
    if failures:
        raise CannotRun(f"could not undo {failures[0]}; run `memlab clean` as the sweep's user")
