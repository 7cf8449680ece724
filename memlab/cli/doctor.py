"""memlab doctor: what this machine lets memlab see and do."""

import click

from memlab.cli._options import echo_json, json_option


@click.command(short_help="Say what this machine lets memlab see and do.")
@json_option
def command(as_json: bool) -> None:
    """Say what this machine lets memlab see and do, and how to get what is missing."""
    from memlab.observe import capabilities
    from memlab.targets.guest import doctor

    found = [*capabilities.read(), *doctor.read()]
    if as_json:
        echo_json(
            [
                {"name": c.name, "available": c.available, "detail": c.detail, "remedy": c.remedy}
                for c in found
            ]
        )
        return
    width = max(len(c.name) for c in found)
    for c in found:
        click.echo(f"{'yes' if c.available else 'no ':<3}  {c.name:<{width}}  {c.detail}")
        if not c.available and c.remedy:
            click.echo(f"{'':<{width + 7}}to get it: {c.remedy}")
