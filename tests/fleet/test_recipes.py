"""What docs/fleet.md gives to other programs: they can read it, and memlab takes its words."""

from __future__ import annotations

import re
import shlex
import subprocess
from itertools import dropwhile
from pathlib import Path

import click
import pytest
import yaml

from memlab.cli import cli

PAGE = (Path(__file__).parents[2] / "docs/fleet.md").read_text("utf-8")
RECIPES = PAGE[PAGE.index("## Recipes") : PAGE.index("## One host over time")]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", RECIPES, re.DOTALL)
COMMANDS = [
    line for _, text in BLOCKS for line in re.findall(r"memlab (?:--\w+=\S+ )*[a-z]+ .*", text)
]


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "yaml"])
def test_yaml_is_read(text: str) -> None:
    assert yaml.safe_load(text)


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "bash"])
def test_shell_is_read(text: str) -> None:
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_there_are_some() -> None:
    assert len(COMMANDS) >= 9


@pytest.mark.parametrize("line", COMMANDS)
def test_memlab_takes_its_words(line: str) -> None:
    expanded = re.sub(r'"[^" ]*\$.*?"(?= |$)|\$\{\{.*?\}\}', "x", line)
    words = shlex.split(re.split(r" 2>| > | \||; |'|\"\]|\\", expanded)[0])[1:]
    name, *words = dropwhile(lambda word: word.startswith("--"), words)
    with click.Context(cli) as context:
        command = cli.get_command(context, name)
        assert command
        command.make_parser(click.Context(command)).parse_args(words)
