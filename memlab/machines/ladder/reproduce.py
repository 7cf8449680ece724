"""`memlab reproduce` of a kernel's changelog."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli._options import echo, echo_json
from memlab.printable import printable

if TYPE_CHECKING:
    from memlab.machines import documents
    from memlab.machines.ladder.changes import JudgedChange, Side
    from memlab.published import Changelog

_TAKEN = {"study", "kernels", "store", "wait_s", "fresh", "quiet", "as_json", "gate"}


def judge(
    name: str,
    chosen: Sequence[str],
    store: Path | None,
    wait_s: float,
    fresh: bool,
    quiet: bool,
    as_json: bool,
) -> list[str]:
    """Print it; the verdicts' words."""
    from memlab import published
    from memlab.machines.guest import kernels
    from memlab.machines.ladder import changelog, climb
    from memlab.machines.ladder import changes_shown as present
    from memlab.store import default_path
    from memlab.watch import Silent

    _refuse_others()
    log = published.changelog(name)

    def done(rung: climb.Rung) -> None:
        for line in rung.failed:
            click.echo(f"memlab: {rung.kernel.version}: {printable(line)}", err=True)
        if not (quiet or as_json):
            echo(f"{rung.kernel.version}: {rung.seconds:.0f} s", err=True)

    judged = list(
        changelog.reproduce(
            log,
            kernels.choose(chosen),
            store or default_path(),
            Silent(),
            done,
            fresh=fresh,
            wait_s=wait_s,
        )
    )
    if as_json:
        echo_json(document(log, judged))
    else:
        present.show(log, judged)
    return [one.word for one in judged]


def document(log: Changelog, judged: Sequence[JudgedChange]) -> documents.Changelog:
    from memlab.machines import documents as d

    def side(of: Side | None) -> d.ChangeSide | None:
        if of is None:
            return None
        cell = of.cell
        numbers = (cell.value, cell.low, cell.high) if cell else (None, None, None)
        return d.ChangeSide(of.version, *numbers)

    return d.Changelog(
        changelog=log.id,
        version=log.version,
        changes=[
            d.JudgedChange(
                id=one.change.id,
                claim=one.change.text,
                subject=one.change.subject,
                place=one.change.place,
                printed=one.change.printed,
                verdict=one.word,
                rule=one.reason,
                before=side(one.before),
                since=side(one.since),
            )
            for one in judged
        ],
    )


def _refuse_others() -> None:
    """Options that mean nothing here, one line."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        if given and name not in _TAKEN:
            raise click.UsageError(f"{parameter.opts[-1]} does not apply to a changelog")
