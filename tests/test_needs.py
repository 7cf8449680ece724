"""What a test needs besides README's packages is asked for in needs.py alone, by names it has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest

from memlab.observe import capabilities

TESTS = Path(__file__).parent
OTHERS = [path for path in TESTS.rglob("*.py") if path.name not in ("needs.py", "test_needs.py")]


def calls(path: Path, *ends: str) -> Iterator[ast.Call]:
    source, last = path.read_text(encoding="utf-8"), {end.rpartition(".")[2] for end in ends}
    if not any(f"{end}(" in source for end in ends):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in last and ast.unparse(node.func).endswith(ends):  # to print each takes long
            yield node


def asks(path: Path) -> list[str]:
    """What a file asks for by itself: a user, a program, a module."""
    said = map(ast.unparse, calls(path, "skipif", "skip"))
    own = r"which\(|geteuid|getuid|find_spec|is_host_root|apt install"
    return [one for one in said if re.search(own, one)]


def test_what_a_machine_may_lack_is_asked_for_in_one_place() -> None:
    assert {path: found for path in OTHERS if (found := asks(path))} == {}


def test_every_need_that_is_named_is_known() -> None:
    """Another name would be a KeyError where the test runs, which is not everywhere."""
    known = {*needs.NEEDS, *(line.name for line in capabilities.read())}
    for path in OTHERS:
        for call in calls(path, "mark.needs", "needs.of"):
            assert {arg.value for arg in call.args if isinstance(arg, ast.Constant)} <= known, path


def test_what_is_missing_is_skipped_with_what_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = needs.Need(lambda: False, "apt install a-thing")
    monkeypatch.setitem(needs.NEEDS, "a thing", missing)
    monkeypatch.setitem(needs.NEEDS, "another", needs.Need(lambda: True, "nothing"))
    needs.of("another")
    with pytest.raises(pytest.skip.Exception, match=r"^needs a thing: apt install a-thing$"):
        needs.of("another", "a thing")
