"""What a user can meet is counted, and only ever gets less: commands, options, kinds of figure."""

from collections.abc import Iterator
from pathlib import Path

import click

from memlab.cli import cli
from memlab.present.figures import kinds

MOST = {"commands": 20, "options": 150, "figure kinds": 9}


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Each option that the help of a command, or of one below it, prints; --help is not counted."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner and not inner.hidden:
                yield from options(inner, click.Context(inner, info_name=name, parent=context))
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and option.name != "help":
            yield f"{context.command_path} {option.opts[-1]}"


def test_the_surface_grows_in_no_place() -> None:
    context = click.Context(cli, info_name="memlab")
    shown = [cli.get_command(context, name) for name in cli.list_commands(context)]
    folder = Path(kinds.__file__).parent
    counts = {
        "commands": sum(not command.hidden for command in shown if command),
        "options": len([*options(cli, context)]),
        "figure kinds": len({*folder.glob("*.py")} - {folder / "__init__.py"}),
    }
    assert {name: count for name, count in counts.items() if count > MOST[name]} == {}
    assert counts["options"] > 100  # they are counted at all
