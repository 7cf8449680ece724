"""Every command line that memlab's own sentences name is one: found in the code, not listed here.

Those that say what to do next are run with real values by the tests that RUN_BY names; of the
others the command and its options are held to what there is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from memlab.cli import _table

ROOT = Path(__file__).parents[2]
COMMANDS = {words: import_module(row.module).command for words, row in _table.commands()}

# What a module proposes as the next step, and the tests that run it.
RUN_BY = {
    "memlab/cli/_sweeping.py": "tests/cli/test_next_steps.py",
    "memlab/cli/doctor.py": "tests/cli/test_one_screen.py",
    "memlab/cli/reproduce.py": "tests/cli/test_next_steps.py",
    "memlab/cli/runs.py": "tests/cli/test_next_steps.py",
    "memlab/diagnose/started.py": "tests/diagnose/test_started.py",
    "memlab/judging/sight.py": "tests/cli/test_next_steps.py",
    "memlab/machines/fleet/links.py": "tests/fleet/test_fleet.py",
    "memlab/present/tables.py": "tests/cli/test_next_steps.py",
    "memlab/present/screens/claims.py": "tests/cli/test_next_steps.py",
    "memlab/present/screens/run.py": "tests/present/test_show_fits.py",
    "memlab/present/words.py": "tests/cli/test_next_steps.py",
}
_NAMES = "|".join(" ".join(words) for words in COMMANDS)
_PROSE = re.compile(r" (?:says|fetches|lists|has|out|that|and)\b.*")


@dataclass(frozen=True)
class Proposal:
    module: str
    line: int
    command: str
    options: tuple[str, ...]


def proposals() -> Iterator[Proposal]:
    """Of each text in the code that is no docstring: what follows `memlab`, with an X for what is
    filled in, up to a mark that ends a command."""
    for path in sorted((ROOT / "memlab").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not re.search(r"(?<!from )memlab [a-z\"'{]|memlab\{|\.command\(", source):
            continue
        for number, text in _texts(ast.parse(source)):
            for found in re.finditer(rf"(?<![\w/.])memlabX? ({_NAMES})\b([^\n`;,:()&|]*)", text):
                words = _PROSE.sub("", found[2]).partition(" -- ")[0].split()
                options = tuple(word for word in words if re.match(r"--?[a-z]", word))
                module = path.relative_to(ROOT).as_posix()
                yield Proposal(module, number, found[1], options)


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    nodes = [*ast.walk(tree)]
    bodies = [n.body[0] for n in nodes if isinstance(getattr(n, "body", None), list) and n.body]
    skipped = {id(one.value) for one in bodies if isinstance(one, ast.Expr)}
    skipped |= {id(part) for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(_text, node.values))
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            yield node.lineno, str(node.value)
        elif text := _of_a_run(node):
            yield node.lineno, text


def _text(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    return (_of_a_run(part.value) if isinstance(part, ast.FormattedValue) else "") or "X"


def _of_a_run(node: ast.AST) -> str:
    """What `run.command("show -v")` makes, if that is what is called."""
    is_call = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "command"
    if not is_call or not node.args or not isinstance(node.args[0], ast.Constant | ast.IfExp):
        return ""
    first = node.args[0]
    words = first.body if isinstance(first, ast.IfExp) else first
    return f"memlab {words.value} X" if isinstance(words, ast.Constant) else ""


@pytest.fixture(scope="module")
def found() -> list[Proposal]:
    """Read by the process that runs these tests, and not by each that collects them."""
    return [*proposals()]


def test_its_options_are_those_of_the_command(found: list[Proposal]) -> None:
    wrong = []
    for one in found:
        command = COMMANDS[tuple(one.command.split())]
        known = {name for parameter in command.params for name in parameter.opts}
        if not {option.partition("=")[0] for option in one.options} <= known:
            wrong.append(one)
    assert wrong == []


def test_each_next_step_has_a_test_that_runs_it(found: list[Proposal]) -> None:
    commands: dict[str, set[str]] = {}
    for one in found:
        commands.setdefault(one.module, set()).add(one.command)
    assert len(found) > 50
    for module, test in RUN_BY.items():
        text = (ROOT / test).read_text(encoding="utf-8")
        assert commands[module]
        assert any(re.search(rf"\b{name}\b", text) for name in commands[module]), module


def test_no_line_proposes_an_option_alone() -> None:
    """Which cannot be pasted: `options.in_full` has the whole command."""
    for path in sorted((ROOT / "memlab").rglob("*.py")):
        if "-v" in (source := path.read_text(encoding="utf-8")):
            texts = [text for _, text in _texts(ast.parse(source)) if text != "-v"]
            assert not [text for text in texts if re.search(r"(^|: )-v\b", text)], path


def test_a_line_that_begins_with_next_is_in_the_table() -> None:
    """A module that ends its output with `next: memlab ...` has a test that runs it."""
    sources = {path: path.read_text("utf-8") for path in (ROOT / "memlab").rglob("*.py")}
    found = {
        path.relative_to(ROOT).as_posix()
        for path, source in sources.items()
        if ": memlab" in source
        for _, text in _texts(ast.parse(source))
        if re.search(r"\b(next|go on with|get them by): memlab", text)
    }
    assert found - {"memlab/trace/shown.py"} <= RUN_BY.keys()  # tests/traces has the other one
