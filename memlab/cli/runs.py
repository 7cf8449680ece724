"""memlab runs: what the store holds."""

from pathlib import Path
from typing import Any

import click

from memlab.cli._options import echo_json, json_option, store_option


@click.command(short_help="List the stored runs.")
@store_option
@json_option
def command(store: Path | None, as_json: bool) -> None:
    """List the stored runs, newest last."""
    from memlab.store import Store

    with Store(store) as opened:
        rows: list[dict[str, Any]] = [
            {
                "run": run.id,
                "experiment": run.experiment,
                "name": run.name,
                "created_at": run.created_at,
                "samples": opened.sample_count(run.id),
                "ended": next((s.ended for s in reversed(opened.sessions(run.id))), None),
            }
            for run in opened.runs()
        ]
    if as_json:
        echo_json(rows)
        return
    for row in rows:
        ended = row["ended"] or "unfinished"
        click.echo(
            f"{row['run']}  {row['created_at'][:19]}  {row['experiment']:<12}"
            f"  {row['samples']:>6} samples  {ended:<11}  {row['name'] or ''}".rstrip()
        )
