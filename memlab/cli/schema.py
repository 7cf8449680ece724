"""`memlab schema`."""

import click

from memlab.cli import _completing
from memlab.errors import nearest


@click.command()
@click.argument("command", metavar="[COMMAND]", required=False, shell_complete=_completing.schema)
def command(command: str | None) -> None:
    """Print the JSON Schema (2020-12) of what COMMAND --json prints (default: list the schemas).

    \b
    memlab schema show
    memlab schema sweep-dry-run
    """
    from memlab.cli import _schemas
    from memlab.present import documents

    known = _schemas.names()
    if command is None:
        width = max(map(len, known))
        for name in known:
            schema = _schemas.schema(name)
            about = schema["description"].partition(". ")[0].removesuffix(".")
            click.echo(f"{name:<{width}}  {schema['$id']:<22}  {about}")
        return
    if command not in known:
        hint = nearest(command, known, "`memlab schema` lists them")
        raise click.UsageError(f"no schema of {command!r}; {hint}")
    click.echo(documents.text(_schemas.schema(command)))
