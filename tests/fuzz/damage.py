"""How inputs are damaged: drawn from a seeded generator, so that a failure can be repeated."""

from __future__ import annotations

import json
from random import Random
from typing import Any

TEXTS = (
    "", " ", "0", "-1", "1e400", "nan", "9" * 30, "x" * 5000, "a\n::error::b", "\x1b]0;pwn\x07",
    "\u2028\u202e", "[/x][red]", "$\\frac{$", "<script>", "../../x", "-p", "--", "%s", "\\x1b",
    "ÿ", "\udcff", "1..1e18", "1,,2", "size=", "=1", "last", "all", "true", "{", "(deleted)",
)  # fmt: skip
UTF_8 = tuple(text for text in TEXTS if text.isascii() or "\udcff" not in text)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 2**70, 10**400, 1e308, 1e-320, -0.5, [], {}, [[]], {"a": 1}, [None],
    "\ud800", "x" * 20_000, *TEXTS[:12],
)  # fmt: skip
NUMBERS = (2**63, 2**63 - 1, -(2**63) - 1, 10**30, 10**400, 1e308, 1e-320, -1, 0, -0.5, 1.5)


def value_in(draw: Random, document: Any) -> Any:
    """A copy with one value, somewhere in it, replaced, removed or added."""
    made = json.loads(json.dumps(document))
    places: list[tuple[Any, Any]] = []

    def walk(part: Any, depth: int) -> None:
        inner = part.items() if isinstance(part, dict) else enumerate(part)
        for key, value in list(inner)[:40]:
            places.append((part, key))
            if isinstance(value, dict | list) and depth < 8:
                walk(value, depth + 1)

    if isinstance(made, dict | list):
        walk(made, 0)
    if not places or draw.random() < 0.05:
        return draw.choice(VALUES)
    part, key = draw.choice(places)
    match draw.randrange(4):
        case 0 if isinstance(part, dict):
            del part[key]
        case 1 if isinstance(part, dict):
            part[draw.choice(TEXTS[:-4])] = draw.choice(VALUES)
        case _:
            part[key] = draw.choice(VALUES)
    return made


def number_in(draw: Random, document: Any) -> Any:
    """A copy with one of its numbers another one: of a row, all else in it makes sense."""
    made = json.loads(json.dumps(document))
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            if isinstance(value, dict | list):
                walk(value)
            elif type(value) in (int, float):
                places.append((part, key))

    walk(made)
    part, key = draw.choice(places)
    part[key] = draw.choice(NUMBERS)
    return made


def bytes_of(draw: Random, content: bytes, page: int = 4096) -> bytes:
    """Bits flipped, cut off, zeroed, repeated, pages swapped."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 3, 10))):
        if not made:
            break
        at = draw.randrange(len(made))
        length = draw.choice((1, 8, 64, 512))
        match draw.randrange(6):
            case 0 | 1:
                made[at] ^= 1 << draw.randrange(8)
            case 2:
                del made[at:]
            case 3:
                made[at : at + length] = bytes(len(made[at : at + length]))
            case 4:
                made[at:at] = made[at : at + length]
            case 5 if len(made) > 2 * page:
                a, b = (page * draw.randrange(len(made) // page) for _ in range(2))
                made[a : a + page], made[b : b + page] = made[b : b + page], made[a : a + page]
    return bytes(made)


def text(draw: Random, content: str) -> str:
    """Characters, words or lines of a text replaced, left out, doubled."""
    between = draw.choice(("\n", " ", ",", ""))
    parts = content.split(between) if between else list(content)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.randrange(len(parts))
        match draw.randrange(4):
            case 0:
                parts[at] = draw.choice(TEXTS)
            case 1:
                parts.insert(at, parts[at])
            case 2 if len(parts) > 1:
                del parts[at]
            case _:
                parts[at] = parts[at][: draw.randrange(len(parts[at]) + 1)]
    return between.join(parts)
