"""Generates the binding between the probes and Python. The build runs it; memlab never does.

The folder of probes is the registry: every `*.c` beside probe.h is a probe. `support/` holds code
that several probes share, and a folder with a probe's name holds code that only this probe uses.
The text between the markers `/* cdef: ... */` and `/* end */`, in a probe or in a header that it
includes, goes to cffi (out-of-line, API mode), so each struct and enum is declared once.

The second output, memlab/_built.py, is data for code that must not load the compiled module: the
hash of each probe, the compiler and its flags, what each takes, and the levels of the enums.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat
from typing import Any

from cffi import FFI

MODULE = "memlab._probes"
INCLUDE = re.compile(r'^#include "(.+)"', re.MULTILINE)


# What a sample has of structs that are stored in fewer words than they have in C (memlab.probe).
SHORTENED = {
    "struct probe_counter": ("count", "error"),
    "struct probe_histogram": ("total", "min_ns", "max_ns", "buckets"),
    "struct probe_series": ("at_ns", "values", "lost"),
    "struct probe_turns": ("from_ns", "elapsed_ns", "call_count", "lead_ns", "lead_call_count"),
    "struct probe_attribution": ("operations", "records", "lost", "events", "cpus", "slow", "met"),
}


def probe_files(folder: Path) -> list[Path]:
    """The probes: every C file of the folder, by name."""
    return sorted(folder.glob("*.c"))


def included(path: Path, folder: Path) -> list[Path]:
    """The files that a file includes in quotes, searched in the compiler's order."""
    places = [
        [place / name for place in (path.parent, folder) if (place / name).exists()]
        for name in INCLUDE.findall(path.read_text())
    ]
    return [
        result[0].resolve() for result in places if result
    ]  # the compiler reports a missing one


def headers(path: Path, folder: Path) -> list[Path]:
    """All headers that a file includes, directly or not: each once, after its own includes."""
    known: set[Path] = set()
    paths: list[Path] = []

    def visit(at: Path) -> None:
        for header in included(at, folder):
            if header not in known:
                known.add(header)
                visit(header)
                paths.append(header)

    visit(path)
    return paths


def made_of(probe: Path, folder: Path | None = None) -> list[Path]:
    """The files that a probe is compiled and linked from: its own, every header that one of them
    includes, and foo.c for each foo.h. `folder` is that of probe.h, if not the probe's own."""
    paths: set[Path] = set()
    waiting = [probe.resolve()]
    while waiting:
        path = waiting.pop()
        if path not in paths:
            paths.add(path)
            waiting += included(path, folder or probe.parent)
            if path.with_suffix(".c").exists():
                waiting.append(path.with_suffix(".c"))
    return sorted(paths)


def cdef_blocks(path: Path) -> list[str]:
    """The text between the markers of a file, one string per block."""
    blocks: list[str] = []
    lines: list[str] | None = None  # of the block that has begun
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("/* cdef:") and line.endswith("*/\n"):
            lines = []
        elif line.rstrip("\n") == "/* end */" and lines is not None:
            blocks.append("".join(lines))
            lines = None
        elif lines is not None:
            lines.append(line)
    return blocks


def probe_block(probe: Path) -> str:
    """The one block of a probe."""
    blocks = cdef_blocks(probe)
    if len(blocks) != 1:
        raise SystemExit(
            f"{probe}: {len(blocks)} cdef blocks, expected 1 between '/* cdef: ... */' "
            "and '/* end */' at the start of a line"
        )
    return blocks[0]


def probe_hash(probe: Path, flags: str, compiler: str, folder: Path | None = None) -> str:
    """SHA-256 (hex) of everything that determines a probe's machine code: files and compiler."""
    digest = hashlib.sha256()
    for path in made_of(probe, folder):
        for part in (path.name.encode(), path.read_bytes()):
            digest.update(f"{len(part)}:".encode() + part)
    for text in (flags, compiler):
        digest.update(f"{len(text.encode())}:{text}".encode())
    return digest.hexdigest()


def enums(c_type: Any) -> Iterator[Any]:
    """The enums that a type contains, in structs and arrays too."""
    if c_type.kind == "enum":
        yield c_type
    elif c_type.kind == "struct":
        for _, field in c_type.fields or ():
            yield from enums(field.type)
    elif c_type.kind in ("array", "pointer"):
        yield from enums(c_type.item)


def tag(enum: Any) -> str:
    name: str = enum.cname
    return name.removeprefix("enum ")


def param(c_type: Any) -> str:
    """What a field of params takes: int, bool, str, array; of an enum its tag: `enum lock_mode`."""
    if c_type.kind == "enum":
        return f"enum {tag(c_type)}"
    if c_type.kind == "pointer":
        return "str"
    if c_type.kind == "array":
        return "array"
    return "bool" if c_type.cname == "_Bool" else "int"


def result_fields(c_type: Any, path: str = "") -> Iterator[str]:
    """The path of each field of a result, as a sample has it: `window.elapsed_ns`."""
    for name, field in c_type.fields or ():
        field_path = f"{path}{name}"
        yield field_path
        if field.type.cname in SHORTENED:
            yield from (f"{field_path}.{part}" for part in SHORTENED[field.type.cname])
        elif field.type.kind == "struct":
            yield from result_fields(field.type, f"{field_path}.")


def levels(enum: Any) -> dict[str, int]:
    """Level to value. LOCK_MODE_OFF of `enum lock_mode` is the level `off`."""
    prefix = tag(enum).upper() + "_"
    for constant in enum.relements:
        if not constant.startswith(prefix):
            raise SystemExit(f"{enum.cname}: {constant} must begin with {prefix}")
    return {name.removeprefix(prefix).lower(): v for v, name in sorted(enum.elements.items())}


def binding(folder: Path, probes: list[Path]) -> FFI:
    """The cffi module: the cdef blocks of the headers, each once, then those of the probes."""
    shared = dict.fromkeys(
        header for probe in probes for header in headers(probe, folder) if cdef_blocks(header)
    )
    blocks = [probe_block(probe) for probe in probes]
    ffi = FFI()
    ffi.cdef("\n".join([*(block for header in shared for block in cdef_blocks(header)), *blocks]))
    top = folder.resolve()
    named = [path.relative_to(top) if path.is_relative_to(top) else path for path in shared]
    includes = [f'#include "{header}"' for header in named]
    ffi.set_source(MODULE, "\n".join([*includes, *blocks]))
    return ffi


def write(probes: list[Path], folder: Path, out: Path, flags: str, compiler: str) -> None:
    """_probes.c and _built.py of these probes into `out`; `folder` is that of probe.h."""
    ffi = binding(folder, probes)
    ffi.emit_c_code(str(out / "_probes.c"))
    structs = {
        (probe.stem, part): ffi.typeof(f"struct {probe.stem}_{part}")
        for probe in probes
        for part in ("params", "result")
    }
    built = {
        "COMPILER": compiler,
        "FLAGS": flags,
        "HASHES": {p.stem: probe_hash(p, flags, compiler, folder) for p in probes},
        "ENUMS": {tag(enum): levels(enum) for c in structs.values() for enum in enums(c)},
        "PARAMS": {
            probe: {name: param(f.type) for name, f in c.fields or ()}
            for (probe, part), c in structs.items()
            if part == "params"
        },
        "FIELDS": {
            probe: [*result_fields(c)] for (probe, part), c in structs.items() if part == "result"
        },
    }
    rows = [f"{name} = {pformat(value, sort_dicts=False)}\n" for name, value in built.items()]
    (out / "_built.py").write_text("".join(rows))


def main() -> None:
    """Entry for the build: `_build_probes.py PROBES OUT --flags ... --compiler ...`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probes", type=Path, help="the folder of probe.h and the probes")
    parser.add_argument("out", type=Path, help="the folder to write _probes.c and _built.py into")
    parser.add_argument("--flags", required=True, help="compile flags, recorded and hashed")
    parser.add_argument("--compiler", required=True, help="compiler and version, likewise")
    arguments = parser.parse_args()
    write(
        probe_files(arguments.probes),
        arguments.probes,
        arguments.out,
        arguments.flags,
        arguments.compiler,
    )


if __name__ == "__main__":
    main()
