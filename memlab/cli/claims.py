"""`memlab claims`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._fields import argument, global_option, shared, takes
from memlab.cli._formats import chosen, echo_cases, format_option
from memlab.cli._options import (
    echo_json,
    gate_option,
    json_option,
    of_all,
    verbose_option,
)


@dataclass(frozen=True, slots=True)
class ClaimsOptions:
    """What `memlab claims` is given."""

    runs: tuple[str, ...] = argument(nargs=-1, metavar="[RUN]...", shell_complete=_completing.run)
    verbose: bool = shared(
        verbose_option("Print each claim with its evidence, its controls and published tables.")
    )
    gate: bool = shared(gate_option)
    store: Path | None = global_option("store")
    form: str | None = shared(format_option)
    as_json: bool = shared(json_option)


@click.command()
@takes(ClaimsOptions)
def command(options: ClaimsOptions) -> None:
    """Judge the claims of RUN's experiment (default: the last run) on the stored samples, those
    that do not hold first. Several runs become one table with a row per host: on which claims they
    disagree, which host differs, and how its machine differs. all:EXPERIMENT is the newest run of
    each host. Nothing is measured.

    \b
    memlab claims last -v
    memlab claims all:page-fault
    memlab claims page-fault b:page-fault c:page-fault
    """
    from memlab import api
    from memlab.cli import GATE
    from memlab.judging import reproduce, summary
    from memlab.present import cases, markdown
    from memlab.present.screens import claims as screen

    form = chosen(options.form, options.as_json)
    if len(options.runs) > 1 or any(map(of_all, options.runs)):
        _of_hosts(options, form)
        return
    (run,) = options.runs or ("last",)
    result = reproduce.of_run(api.load(run, store=options.store))
    if form == "text":
        screen.in_full([result], []) if options.verbose else screen.claims(result)
    elif form == "markdown":
        click.echo(markdown.claims(result))
    elif form == "json":
        from memlab.present.documents.claims import Claims

        echo_json(Claims.made_of([result]))
    else:
        echo_cases(form, cases.of_judgement(result))
    if options.gate and summary.contradicted(result.judged):
        click.get_current_context().exit(GATE)


def _of_hosts(options: ClaimsOptions, form: str) -> None:
    """One experiment's claims on several hosts, in one table."""
    from memlab import api
    from memlab.cli import GATE, _hosts

    runs, store = options.runs, options.store
    if form not in ("text", "json") or options.verbose:
        raise click.UsageError("several runs make one table, or JSON: leave --format and -v out")
    if len(runs) == 1:
        loaded = _hosts.newest(of_all(runs[0]), store)
    elif every := next(filter(of_all, runs), None):
        raise click.UsageError(f"{every} is a run of each host already: name no other run")
    else:
        loaded = [api.load(run, store=store) for run in runs]
    if _hosts.claims(loaded, as_json=form == "json") and options.gate:
        click.get_current_context().exit(GATE)
