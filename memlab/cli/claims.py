"""Judge a stored run's claims."""

from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._formats import chosen, echo_cases, format_option, json_format_option
from memlab.cli._options import echo_json, example_option, store_option


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=_completing.run)
@example_option
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Each claim with its evidence, what its controls say, and the published tables.",
)
@click.option("--gate", is_flag=True, help="Exit 1 if a claim is contradicted.")
@store_option
@format_option
@json_format_option
def command(
    runs: tuple[str, ...],
    example: bool,
    verbose: bool,
    gate: bool,
    store: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Judge the claims of RUN's experiment, else the last run's, on its stored samples: on one
    screen, those that do not hold first. Several runs are one table with a row per host: where they
    disagree, which host stands apart, and what of their machines differs. Nothing is measured.

    \b
    memlab claims last -v
    memlab claims page-fault --hosts
    memlab claims page-fault b:page-fault c:page-fault
    """
    from memlab import api
    from memlab.cli import GATE
    from memlab.judging import reproduce, summary
    from memlab.present import terminal
    from memlab.present.formats import cases, markdown

    form = chosen(form, as_json)
    (run,) = runs or ("last",)
    found = reproduce.of_run(api.load(run, store=store, example=example))
    if form == "text":
        terminal.in_full([found], []) if verbose else terminal.claims(found)
    elif form == "markdown":
        click.echo(markdown.claims(found))
    elif form == "json":
        from memlab.present.documents import Claims

        echo_json(Claims.made_of([found]))
    else:
        echo_cases(form, cases.of_judgement(found))
    if gate and summary.contradicted(found.judged):
        click.get_current_context().exit(GATE)
