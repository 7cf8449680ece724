"""memlab claims: judge a stored run."""

import sys
from pathlib import Path

import click

from memlab.cli._formats import chosen, echo_cases, format_options
from memlab.cli._options import echo_json, example_option, run_argument, store_option


@click.command(short_help="Judge a stored run's claims.")
@run_argument
@example_option
@click.option("--gate", is_flag=True, help="Exit 1 if a claim is contradicted.")
@store_option
@format_options
def command(
    run: str, example: bool, gate: bool, store: Path | None, form: str | None, as_json: bool
) -> None:
    """Judge the claims of RUN's experiment on its stored samples. Nothing is measured."""
    from memlab import api
    from memlab.cli import GATE
    from memlab.judging import reproduce, summary
    from memlab.present import verdicts
    from memlab.present.formats import cases

    form = chosen(form, as_json)
    found = reproduce.of_run(api.load(run, store=store, example=example))
    if form == "text":
        verdicts.show([found], [])
    elif form == "json":
        echo_json(verdicts.as_data([found], []))
    else:
        echo_cases(form, cases.of_judgement(found))
    if gate and summary.contradicted(found.judged):
        sys.exit(GATE)
