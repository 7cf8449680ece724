"""Say what a command does."""

import click


@click.command()
@click.argument("name", metavar="[COMMAND]", required=False)
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """The same as `memlab COMMAND --help`; without COMMAND, as `memlab --help`."""
    from memlab.cli import cli

    above = ctx.find_root()
    if name is None:
        click.echo(above.get_help())
        return
    found_name, found, _ = cli.resolve_command(above, [name])
    if found is not None:
        with click.Context(found, info_name=found_name, parent=above) as asked:
            click.echo(found.get_help(asked))
