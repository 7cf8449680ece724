"""The schemas in themselves: draft-07, closed, complete, one for every command with --json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import jsonschema
import pytest
from command import Command

from memlab import schemas
from memlab.cli import cli

OPEN = {("show", "/properties/environment")}  # keys come with versions of memlab
OPTIONAL = {
    # `sweep` draws and `show` does not.
    ("show", ""): {"figures"},
    # A run that is older than the key was stored without it.
    ("show", "/properties/request"): {"guest"},
    ("show", "/properties/request/properties/guest"): {"iommu"},
    ("show", "/properties/environment/properties/guest"): {"iommu"},
    # Words that no point got are left out.
    ("compare", "/properties/counts"): {"slower", "faster", "same", "inconclusive"},
}
SAYS_WHAT = {"type", "enum", "const", "$ref", "anyOf", "oneOf"}


def subschemas(schema: dict[str, Any], at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, itself the first, with where it stands."""
    yield at, schema
    for word in ("properties", "patternProperties", "definitions"):
        for name, inside in schema.get(word, {}).items():
            yield from subschemas(inside, f"{at}/{word}/{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from subschemas(schema[word], f"{at}/{word}")
    for word in ("anyOf", "oneOf"):
        for number, inside in enumerate(schema.get(word, ())):
            yield from subschemas(inside, f"{at}/{word}/{number}")


@pytest.mark.parametrize("name", schemas.names())
def test_it_is_draft_07(name: str) -> None:
    schema = schemas.of(name)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(schema)
    known = {f"#/definitions/{key}" for key in schema.get("definitions", {})}
    assert {inside["$ref"] for _, inside in subschemas(schema) if "$ref" in inside} == known


@pytest.mark.parametrize("name", schemas.names())
def test_its_id_names_it_with_a_version(name: str) -> None:
    before, _, version = schemas.of(name)["$id"].rpartition(":")
    assert before == f"memlab:{name}"
    assert int(version) >= 1


@pytest.mark.parametrize("name", schemas.names())
def test_every_object_is_closed_and_complete_or_a_map_of_one_type(name: str) -> None:
    for at, schema in subschemas(schemas.of(name)):
        assert SAYS_WHAT & schema.keys(), at
        if "object" not in schema.get("type", ()) or (name, at) in OPEN:
            continue
        if isinstance(schema["additionalProperties"], dict):
            assert not schema.keys() & {"properties", "required"}, at
        else:
            assert schema["additionalProperties"] is False, at
            lacking = schema["properties"].keys() - set(schema.get("required", ()))
            assert lacking == OPTIONAL.get((name, at), set()), at


def test_a_definition_of_one_name_is_the_same_in_every_schema() -> None:
    found: dict[str, Any] = {}
    for name in schemas.names():
        for key, definition in schemas.of(name).get("definitions", {}).items():
            assert found.setdefault(key, definition) == definition, (name, key)


def test_every_command_with_json_has_a_schema_and_every_schema_a_command() -> None:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    with_json = {
        name
        for name, command in commands.items()
        if command and any("--json" in parameter.opts for parameter in command.params)
    }
    assert with_json == {name.removesuffix("-dry-run") for name in schemas.commands()}


@pytest.mark.parametrize("name", schemas.commands())
def test_the_command_prints_the_file(command: Command, name: str) -> None:
    done = command("schema", name)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", schemas.text(name))


def test_without_a_name_it_lists_them(command: Command) -> None:
    lines = command("schema").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [name, schemas.of(name)["$id"]] for name in schemas.commands()
    ]


def test_an_unknown_name_is_refused_with_the_nearest(command: Command) -> None:
    done = command("schema", "shwo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "memlab: no schema of 'shwo'; did you mean show?\n"
