"""Data are nouns: pronouns and participles are few among the names that memlab binds."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = frozenset(
    [
        "found",
        "one",
        "said",
        "own",
        "there",
        "asked",
        "seen",
        "made",
        "held",
        "left",
        "kept",
        "taken",
        "given",
    ]
)
MOST = 0.02  # of all bound names


def bound(tree: ast.AST) -> Iterator[str]:
    """The names that a module binds: variables, parameters, functions, classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def test_few_names_are_pronouns_or_participles() -> None:
    names = [
        name.strip("_")
        for path in sorted((ROOT / "memlab").rglob("*.py"))
        for name in bound(ast.parse(path.read_text("utf-8")))
    ]
    assert sum(name in WORDS for name in names) / len(names) <= MOST


def test_what_is_bound_is_counted() -> None:
    text = "import os as found\nfor one in x: y = 1\ndef said(own): pass\nclass seen: pass\n"
    assert sorted(bound(ast.parse(text))) == ["found", "one", "own", "said", "seen", "y"]
