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


def test_every_item_names_a_test() -> None:
    items = [line for line in PAGE.splitlines() if line.startswith("- ")]
    assert len(items) > 50
    assert [item for item in items if not re.search(r"`tests/\S+\.py::\w+`$", item)] == []
