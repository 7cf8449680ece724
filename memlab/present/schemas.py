"""The JSON Schema (2020-12) of a type of document, with its docstrings as descriptions."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.inspect import Type, type_info


def schema(document: Any, name: str, title: str) -> dict[str, Any]:
    """The schema of `document`, a type or a list of one."""
    (top,), parts = msgspec.json.schema_components([document], ref_template="#/$defs/{name}")
    (item, *_) = getattr(document, "__args__", (document,))
    classes = {kind.__name__: kind for kind in _objects(type_info(document))}
    for part_name, part in parts.items():
        _describe(part, classes[part_name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"memlab:{name}:1",
        "title": title,
        "description": " ".join((inspect.getdoc(item) or "").split()),
        **top,
        "$defs": parts,
    }


def _describe(part: dict[str, Any], kind: type) -> None:
    """Close an object, and describe its properties by the docstrings of its class."""
    if part.get("type") != "object":
        return
    if dataclasses.is_dataclass(kind):
        part["additionalProperties"] = False
    struct = issubclass(kind, msgspec.Struct)
    keys = {item.name: item.encode_name for item in msgspec.structs.fields(kind)} if struct else {}
    for name, text in _docstrings(kind).items():
        key = keys.get(name, name)
        if key in part["properties"]:
            part["properties"][key]["description"] = text


def _objects(kind: Type, known: set[type] | None = None) -> Iterator[type]:
    """The classes with fields that a type holds, itself among them."""
    known = set() if known is None else known
    inner = [getattr(kind, name, None) for name in ("type", "item_type", "key_type", "value_type")]
    inner += [*getattr(kind, "types", ()), *getattr(kind, "item_types", ())]
    if fields := getattr(kind, "fields", ()):
        if kind.cls in known:  # type: ignore[attr-defined]
            return
        known.add(kind.cls)  # type: ignore[attr-defined]
        yield kind.cls  # type: ignore[attr-defined]
        inner += [item.type for item in fields]
    for part in inner:
        if isinstance(part, Type):
            yield from _objects(part, known)


def _docstrings(kind: type) -> dict[str, str]:
    """The string literal below each field of a class and its bases, by field."""
    if not kind.__module__.startswith("memlab."):
        return {}
    results = {name: text for base in kind.__bases__ for name, text in _docstrings(base).items()}
    known = _classes(kind.__module__).get(kind.__name__)
    for item, below in pairwise(known.body if known else ()):  # one that is made says its own
        match item, below:
            case [ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text)))]:
                results[name] = " ".join(text.split())
    return results


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes in the source of a module, by name. To parse it for each takes ten times as
    long."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
