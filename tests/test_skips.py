"""A test that cannot run here says so: it is skipped by name, and never ends early and green."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest

from memlab.observe import capabilities

TESTS = Path(__file__).parent
OTHERS = [path for path in TESTS.rglob("*.py") if path.name not in ("needs.py", "test_skips.py")]


def every_test() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.relative_to(TESTS)}:{node.lineno} {node.name}", node


def own(node: ast.AST) -> Iterator[ast.AST]:
    """What a function runs itself: not the bodies of the functions that it defines."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from own(child)


def only_under_a_condition(body: list[ast.stmt]) -> bool:
    """The test, or the `with` that ends it, ends in an `if` without an `else`, and nothing before
    can fail it: no assertion, no `with` such as pytest.raises, no call for what the call checks."""
    *before, last = body
    calls = (isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) for one in before)
    if any(calls) or any(
        isinstance(n, (ast.Assert, ast.With)) for b in before for n in ast.walk(b)
    ):
        return False
    if isinstance(last, ast.With):
        return only_under_a_condition(last.body)
    return isinstance(last, ast.If) and not last.orelse


def returns(test: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Return) for node in own(test))


def test_no_test_returns_early() -> None:
    assert [where for where, test in every_test() if returns(test)] == []


def test_no_test_is_a_condition_alone() -> None:
    assert [where for where, test in every_test() if only_under_a_condition(test.body)] == []


def test_both_are_found() -> None:
    early = ast.parse("def test_a():\n if x: return\n assert y").body[0]
    assert isinstance(early, ast.FunctionDef)
    assert returns(early)
    for text, found in {
        "seen = trial()\n if seen: assert seen": True,
        "with opened() as one:\n  reply = one.trial()\n  if GROUPS: assert reply": True,
        "if GROUPS: assert x\n else: assert y": False,
        "assert x\n if GROUPS: assert y": False,
    }.items():
        test = ast.parse(f"def test_a():\n {text}").body[0]
        assert isinstance(test, ast.FunctionDef)
        assert only_under_a_condition(test.body) is found, text


def asks_by_itself(tree: ast.AST) -> Iterator[str]:
    """What a test asks for that tests/needs.py is there to ask for: a user, a program, a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("skipif", "skip")):
            said = ast.unparse(node)
            if re.search(r"which\(|geteuid|getuid|find_spec|is_host_root|apt install", said):
                yield said


def test_what_a_machine_may_lack_is_asked_for_in_one_place() -> None:
    found = {path: list(asks_by_itself(ast.parse(path.read_text()))) for path in OTHERS}
    assert {path: asked for path, asked in found.items() if asked} == {}
    assert list(asks_by_itself(ast.parse("pytest.skip('no x: apt install x')"))) != []


def test_every_need_that_is_named_is_known() -> None:
    """One of another name would be a KeyError where the test runs, which is not everywhere."""
    known = {*needs.NEEDS, *(line.name for line in capabilities.read())}
    for path in OTHERS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                ("mark.needs", "needs.of")
            ):
                words = {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
                assert words <= known, path


def test_what_is_missing_is_skipped_with_what_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = needs.Need(lambda: False, "apt install a-thing")
    monkeypatch.setitem(needs.NEEDS, "a thing", missing)
    monkeypatch.setitem(needs.NEEDS, "another", needs.Need(lambda: True, "nothing"))
    with pytest.raises(pytest.skip.Exception, match=r"^needs a thing: apt install a-thing$"):
        needs.of("another", "a thing")
    needs.of("another")
