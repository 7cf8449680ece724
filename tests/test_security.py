"""docs/security.md: each test that it names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/\S+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_the_test_of_a_sentence_is_there(file: str, test: str) -> None:
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    assert test in [node.name for node in body if isinstance(node, ast.FunctionDef)]


def test_every_sentence_of_a_table_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line[2] not in "w-"]
    assert len(rows) == len(NAMED) > 20
