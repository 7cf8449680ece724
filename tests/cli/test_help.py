"""What --help prints: each line stands by itself, in plain words, on 80 columns."""

import inspect
import re
from importlib import import_module

import click
import pytest
from click.testing import CliRunner

from memlab.cli import _table, cli
from memlab.cli._table import Item

ROWS = [row for rows in _table.SECTIONS.values() for row in rows]
EVERY = {" ".join(words): row for words, row in _table.commands()}
MOST_AT_THE_TOP = 20

# A text that begins so leans on another one.
LEANS = re.compile(
    r"(its|their|it|they|this|that|these|those|which|whose|what|of|between|with|for|on|at|in|by|to|"
    r"from|over|under|beside|as|so|else|where|here|there|also|and|or|but)\b",
    re.IGNORECASE,
)
# Words for which there are plainer ones.
ODD = re.compile(
    r"\b((is|are) (none|no)|nothing (that|of)|(have|has) not|where|alone|since|"
    r"so (many|often|long)|(hear|tell|know|ask|rest)s?|"
    r"heard|told|known|asked|come home|gives? up|anew)\b",
    re.IGNORECASE,
)


def texts(command: click.Command) -> list[str]:
    """The help of a command, without its examples, and of each option that it shows."""
    about = re.sub(r"\x08\n(.+\n)+", "", inspect.cleandoc(command.help or "") + "\n")
    shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    assert all(option.help for option in shown), command.name
    helps = [about, *(option.help or "" for option in shown)]
    return [re.sub(r"--[a-z-]+", "", text) for text in helps]


def test_the_top_has_few_commands() -> None:
    assert sum(not row.hidden for row in ROWS) <= MOST_AT_THE_TOP


@pytest.mark.parametrize("row", [*ROWS, *_table.KERNELS, *_table.HOSTS], ids=lambda row: row.name)
def test_a_summary_is_a_short_sentence(row: Item) -> None:
    assert len(row.summary) <= 60
    assert re.fullmatch(r"[A-Z][^.]+\.", row.summary)
    assert not LEANS.match(row.summary)
    assert not ODD.search(row.summary)


@pytest.mark.parametrize("words", ["", "kernels", "hosts", *EVERY])
def test_help_stands_by_itself_on_80_columns(words: str) -> None:
    done = CliRunner(env={"COLUMNS": "80"}).invoke(cli, [*words.split(), "--help"])
    assert done.exit_code == 0
    assert [line for line in done.output.splitlines() if len(line) > 80] == []
    command = import_module(EVERY[words].module).command if words in EVERY else cli
    for text in texts(command):
        assert text[:1] == text[:1].upper() or text.startswith(("quick:", "github:")), text
        assert not LEANS.match(text), text
        assert not ODD.search(text), (ODD.search(text), text)


@pytest.mark.parametrize("words", [words for words in EVERY if " " in words])
def test_a_command_is_named_without_its_group(words: str) -> None:
    """`memlab pull` says where pull is, unless the top has a command of that name."""
    name = words.split()[-1]
    if name in [row.name for row in ROWS]:
        return
    done = CliRunner().invoke(cli, [name])
    assert done.exit_code == 2
    assert f"no command {name!r}; did you mean `memlab {words}`?" in done.output
