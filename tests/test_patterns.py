"""No pattern of the package takes more than linear time over a hostile line (TRUST T7).

The patterns are those of every module, compiled or inline, with the methods that the package calls
them by. Each is run on lines made to match it almost, of n and of 8n characters.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import pkgutil
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import signal
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

import memlab

_METHODS = {"search", "match", "fullmatch", "sub", "split", "findall", "finditer"}
_LENGTHS = (250, 2_000, 16_000)  # characters; a quadratic time is 64 times as long at the next
_TIMES_MOST = 20  # as long at the next length, where a linear time is 8 times
_FLOOR_S = 0.02  # of processor time; below it the clock says nothing
_LIMIT_S = 20.0  # of processor time; what is far from linear would take hours
Use = tuple[str, int, bool, frozenset[str]]  # the pattern, its flags, of bytes, its methods


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(memlab.__path__, "memlab."):
        if "__main__" in module.name:
            continue
        try:
            yield importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # of an extra that is not installed
            if (error.name or "").startswith("memlab"):
                raise


def _source(module: ModuleType) -> str:
    file = Path(module.__file__ or "")
    return file.read_text(encoding="utf-8") if file.suffix == ".py" else ""


def _compiled(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """The patterns of a module's value, in containers and in objects too."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, dict):
        for item in value.values():
            yield from _compiled(item, depth + 1)
    elif depth < 4 and isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _compiled(item, depth + 1)
    elif depth < 4 and type(value).__module__.startswith("memlab"):
        for name in [*getattr(type(value), "__slots__", ()), *getattr(value, "__dict__", ())]:
            yield from _compiled(getattr(value, name, None), depth + 1)


def _text(node: ast.expr, module: ModuleType) -> str | bytes | None:
    """A pattern that is written in a call; what a function puts into it is a word."""
    if isinstance(node, ast.JoinedStr):
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                try:
                    code = compile(ast.Expression(part.value), "", "eval")
                    parts.append(str(eval(code, dict(vars(module)))))
                except (NameError, AttributeError, TypeError, KeyError):
                    parts.append("word")
            else:
                parts.append(str(ast.literal_eval(part)))
        return "".join(parts)
    try:
        text = eval(compile(ast.Expression(node), "", "eval"), dict(vars(module)))
    except (NameError, AttributeError, TypeError):
        return None
    return text if isinstance(text, str | bytes) else None


def _flags(call: ast.Call, module: ModuleType) -> int:
    for node in [*call.args[1:], *(word.value for word in call.keywords if word.arg == "flags")]:
        if "re." in ast.unparse(node):
            return int(eval(compile(ast.Expression(node), "", "eval"), {"re": re}))
    return 0


@cache
def uses() -> set[Use]:
    """Every pattern of the package, and how it is run."""
    all_uses: set[Use] = set()
    modules = list(_modules())
    calls: dict[str, set[str]] = {}
    for module in modules:
        for node in ast.walk(ast.parse(_source(module))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            method, owner = node.func.attr, node.func.value
            if isinstance(owner, ast.Name) and owner.id == "re" and node.args:
                text = _text(node.args[0], module)
                if text is not None:
                    methods = _METHODS if method == "compile" else {method} & _METHODS
                    if methods:
                        flags = _flags(node, module)
                        key = (text, flags, isinstance(text, bytes), frozenset(methods))
                        all_uses.add(_decoded(key))
            elif method in _METHODS:
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                calls.setdefault(name, set()).add(method)
    named = set()
    for module in modules:
        for name, value in vars(module).items():
            for pattern in _compiled(value):
                methods = calls.get(name) or {"search"}
                flags = pattern.flags & ~re.UNICODE
                is_bytes = isinstance(pattern.pattern, bytes)
                use = _decoded((pattern.pattern, flags, is_bytes, frozenset(methods)))
                named.add(use[0])
                all_uses.add(use)
    # A compiled pattern is run as its name is, not in every way.
    return {use for use in all_uses if use[3] != frozenset(_METHODS) or use[0] not in named}


def _decoded(use: tuple[Any, int, bool, frozenset[str]]) -> Use:
    text = use[0].decode("latin-1") if isinstance(use[0], bytes) else use[0]
    return (text, use[1], use[2], use[3])


class _Sample:
    """A text that a pattern matches, with one of its repeats as long as is wished."""

    def __init__(self, tree: Any, long: int, times: int) -> None:
        self.repeats = 0
        self._long, self._times = long, times
        self.text = self._of(tree)

    def _of(self, tree: Iterable[Any]) -> str:
        return "".join(self._item(code, value) for code, value in tree)

    def _item(self, code: Any, value: Any) -> str:
        if code is codes.LITERAL:
            return chr(value)
        if code is codes.NOT_LITERAL:
            return "b" if value == ord("a") else "a"
        if code is codes.ANY:
            return "a"
        if code is codes.IN:
            return self._of_class(value)
        if code is codes.SUBPATTERN:
            return self._of(value[3])
        if code is codes.BRANCH:
            return self._of(value[1][0])
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, tree = value
            self.repeats += 1
            is_long = self.repeats == self._long or self._long == 0
            times = min(most, max(least, self._times)) if is_long else max(1, least)
            return self._of(tree) * (times if most else 0)
        return ""

    def _of_class(self, items: Any) -> str:
        is_negated = items[0][0] is codes.NEGATE
        for code, value in items:
            if is_negated:
                break
            if code is codes.LITERAL:
                return chr(value)
            if code is codes.RANGE:
                return chr(value[0])
            if code is codes.CATEGORY:
                names = {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " "}
                return names.get(value, "a")
        listed = {value for code, value in items if code is codes.LITERAL}
        return next(c for c in "ax1 ;\n" if ord(c) not in listed)


def hostile(pattern: str, flags: int, length: int) -> Iterator[str]:
    """Lines of a length, made of a pattern's own parts."""
    tree = parser.parse(pattern, flags & ~re.DEBUG)
    whole = _Sample(tree, -1, 1)
    units = {whole.text, whole.text[:-1], whole.text[1:]}
    units |= set(re.findall(r"[^\W\d_]{2,12}[=:,( ]?", pattern)[:12]) | set("a 0,(\"'=\n")
    units |= {whole.text[: len(whole.text) // 2], f"{whole.text}\n"}
    for unit in sorted(unit for unit in units if unit):
        yield (unit * (length // len(unit) + 1))[:length]
    for number in range(min(whole.repeats, 24) + 1):
        long = _Sample(tree, number, length).text[:length]
        yield long
        yield long + "\0"
        yield long[: length // 2] * 2


def _seconds(pattern: re.Pattern[Any], method: str, line: Any) -> float:
    run = getattr(pattern, method)
    begin = time.thread_time()  # of the process it moves by ticks while a timer of it runs
    if method == "sub":
        run("" if isinstance(line, str) else b"", line)
    elif method == "finditer":
        for _ in run(line):
            pass
    else:
        run(line)
    return time.thread_time() - begin


def _worst(pattern: re.Pattern[Any], flags: int, method: str, is_bytes: bool) -> str:
    """Which line takes more than linear time, of the processor; empty if none does."""
    text = pattern.pattern.decode("latin-1") if is_bytes else pattern.pattern
    before: list[float] = []
    for length in _LENGTHS:
        now = []
        for number, line in enumerate(hostile(text, flags, length)):
            text_or_bytes: Any = line.encode("latin-1", "replace") if is_bytes else line
            took = _seconds(pattern, method, text_or_bytes)
            if took > _FLOOR_S:
                took = min(took, *(_seconds(pattern, method, text_or_bytes) for _ in range(2)))
                shorter = min(before[number], took) if before else 0.0
                if took > _FLOOR_S and took > _TIMES_MOST * max(shorter, _FLOOR_S / 64):
                    times = f"{took:.3f} s for {length} characters, {shorter:.3f} s for an eighth"
                    return f"{times}: {line[:40]!r}"
            now.append(took)
        before = now
    return ""


@pytest.fixture
def _bounded() -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"over {_LIMIT_S} s")

    former = signal.signal(signal.SIGVTALRM, stop)
    gc.disable()  # a look at all objects of the tests takes as long as a slow pattern
    yield
    gc.enable()
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, former)


@pytest.mark.seconds
@pytest.mark.usefixtures("_bounded")
def test_every_pattern_takes_linear_time_over_a_hostile_line() -> None:
    slow = []
    patterns = sorted(uses(), key=lambda use: (use[0], use[1], use[2], sorted(use[3])))
    assert len(patterns) > 150, "the package's patterns are found"
    for text, flags, is_bytes, methods in patterns:
        pattern = re.compile(text.encode("latin-1") if is_bytes else text, flags)
        for method in sorted(methods):
            signal.setitimer(signal.ITIMER_VIRTUAL, _LIMIT_S)
            try:
                worst = _worst(pattern, flags, method, is_bytes)
            except TimeoutError as error:
                worst = str(error)
            if worst:
                slow.append(f"{method} {text!r}: {worst}")
    assert slow == []


@pytest.mark.seconds
@pytest.mark.usefixtures("_bounded")
def test_that_slow_patterns_are_seen() -> None:
    cubic = r"^oom-kill:(\w+),.*?(?:oom_memcg=([^,]*),|global_oom,).*task=(.*),pid=\d+,uid=\d+$"
    for text in (cubic, r"(a+)+b", r"x=(.*),y=(.*),z=(.*)w", r"\s*=\s*$"):
        signal.setitimer(signal.ITIMER_VIRTUAL, 1)
        with contextlib.suppress(TimeoutError):
            assert _worst(re.compile(text), 0, "search", False), text
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    assert _worst(re.compile(r"a.{1,400}b"), 0, "search", False) == ""


def _codes(tree: Any) -> Iterator[Any]:
    """The codes of a parsed pattern, of its parts too."""
    if isinstance(tree, parser.SubPattern | list | tuple):
        for part in tree:
            yield from _codes(part)
    else:
        yield tree


def _is_matched_wrongly(text: str, flags: int) -> bool:
    wrong = (codes.POSSESSIVE_REPEAT, codes.ATOMIC_GROUP)
    return any(code is one for code in _codes(parser.parse(text, flags)) for one in wrong)


def test_no_pattern_is_one_that_an_older_python_matches_wrongly() -> None:
    """Python 3.11.0 to 3.11.4 match possessive repeats of groups wrongly (gh-106052)."""
    texts = sorted({(text, flags) for text, flags, *_ in uses()})
    assert [text for text, flags in texts if _is_matched_wrongly(text, flags)] == []
    assert _is_matched_wrongly(r"(?:ab)*+c", 0)
