"""What a user can meet is counted, and only ever gets less: commands, options, kinds of figure,
names and objects of JSON."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from memlab.cli import _schemas, cli
from memlab.present.figures import kinds

MOST = {"commands": 20, "options": 150, "figure kinds": 9, "json names": 332, "json objects": 96}


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


def objects(schema: Any) -> Iterator[tuple[str, frozenset[str]]]:
    """Each object with fixed keys of a schema: its title, and its keys."""
    if isinstance(schema, dict):
        if isinstance(properties := schema.get("properties"), dict):
            yield schema.get("title", ""), frozenset(properties)
        schema = [*schema.values()]
    if isinstance(schema, list):
        for part in schema:
            yield from objects(part)


def test_the_surface_grows_in_no_place() -> None:
    context = click.Context(cli, info_name="memlab")
    shown = [cli.get_command(context, name) for name in cli.list_commands(context)]
    folder = Path(kinds.__file__).parent
    printed = {one for name in _schemas.names() for one in objects(_schemas.schema(name))}
    counts = {
        "commands": sum(not command.hidden for command in shown if command),
        "options": len([*options(cli, context)]),
        "figure kinds": len({*folder.glob("*.py")} - {folder / "__init__.py"}),
        "json names": len({name for _, names in printed for name in names}),
        "json objects": len({title or names for title, names in printed}),
    }
    assert {name: count for name, count in counts.items() if count > MOST[name]} == {}
    assert counts["options"] > 100  # they are counted at all
