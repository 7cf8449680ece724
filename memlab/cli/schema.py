"""memlab schema: the JSON Schemas of what `--json` prints."""

from difflib import get_close_matches

import click

from memlab.cli import _completing


@click.command(short_help="Print the JSON Schema of a command's --json.")
@click.argument("command", metavar="[COMMAND]", required=False, shell_complete=_completing.schema)
def command(command: str | None) -> None:
    """Print the JSON Schema (draft-07) of what COMMAND --json prints; without COMMAND, list them.

    \b
    memlab schema show
    memlab schema sweep-dry-run
    """
    from memlab import schemas

    known = schemas.commands()
    if command is None:
        width = max(map(len, known))
        for name in known:
            schema = schemas.of(name)
            about = schema["description"].partition(". ")[0].removesuffix(".")
            click.echo(f"{name:<{width}}  {schema['$id']:<22}  {about}")
        return
    if command not in known:
        near = get_close_matches(command, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`memlab schema` lists them"
        raise click.UsageError(f"no schema of {command!r}; {hint}")
    click.echo(schemas.text(command), nl=False)
