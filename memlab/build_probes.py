"""Writes the C that joins the probes to Python: run by the build, never at run time.

The folder of probes is the registry: every `*.c` beside probe.h is a probe. What stands between
its markers `/* cdef: ... */` and `/* end */` goes to cffi (out-of-line, API mode), so that a
struct is declared once. The second file written says what was compiled: each probe's hash, the
compiler and the flags.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from pathlib import Path

from cffi import FFI

MODULE = "memlab._probes"
CDEF_BLOCK = re.compile(r"^/\* cdef:[^\n]*\*/\n(.*?)^/\* end \*/$", re.MULTILINE | re.DOTALL)


def probe_files(folder: Path) -> list[Path]:
    """The probes: every C file of the folder, by name."""
    return sorted(folder.glob("*.c"))


def cdef_block(path: Path) -> str:
    """The one block between the markers of a probe or of probe.h."""
    blocks: list[str] = CDEF_BLOCK.findall(path.read_text())
    if len(blocks) != 1:
        raise SystemExit(
            f"{path}: {len(blocks)} cdef blocks, expected 1 between '/* cdef: ... */' "
            "and '/* end */' at the start of a line"
        )
    return blocks[0]


def probe_hash(probe: Path, flags: str, compiler: str) -> str:
    """SHA-256 over what makes a probe's machine code: its file, what it includes, the compiler."""
    digest = hashlib.sha256()
    support = sorted((probe.parent / "support").iterdir())
    for path in [probe, probe.parent / "probe.h", *support]:
        for part in (path.name.encode(), path.read_bytes()):
            digest.update(f"{len(part)}:".encode() + part)
    for text in (flags, compiler):
        digest.update(f"{len(text.encode())}:{text}".encode())
    return digest.hexdigest()


def c_string(text: str) -> str:
    """A C string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def identity_source(probes: list[Path], flags: str, compiler: str) -> str:
    """C that defines probe.h's "what was compiled" functions."""
    rows = "\n".join(
        f"\t{{ {c_string(probe.stem)}, {c_string(probe_hash(probe, flags, compiler))} }},"
        for probe in probes
    )
    return f"""#include "probe.h"

static const struct {{
	const char *name;
	const char *sha256;
}} identities[] = {{
{rows}
}};

uint32_t probe_count(void)
{{
	return sizeof(identities) / sizeof(identities[0]);
}}

const char *probe_name(uint32_t index)
{{
	return index < probe_count() ? identities[index].name : NULL;
}}

const char *probe_hash(uint32_t index)
{{
	return index < probe_count() ? identities[index].sha256 : NULL;
}}

const char *probe_compiler(void)
{{
	return {c_string(compiler)};
}}

const char *probe_build_flags(void)
{{
	return {c_string(flags)};
}}
"""


def write_binding(folder: Path, probes: list[Path], out: Path) -> None:
    """Writes cffi's module source for probe.h and every probe."""
    contract = cdef_block(folder / "probe.h")
    declarations = "\n".join(cdef_block(probe) for probe in probes)
    ffi = FFI()
    ffi.cdef(contract + declarations)
    ffi.set_source(MODULE, f'#include "probe.h"\n{declarations}')
    ffi.emit_c_code(str(out))


def main() -> None:
    """Entry for the build: `build_probes.py PROBES OUT --flags ... --compiler ...`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probes", type=Path, help="the folder of probe.h and the probes")
    parser.add_argument("out", type=Path, help="the folder to write _probes.c and identity.c into")
    parser.add_argument("--flags", required=True, help="compile flags, recorded and hashed")
    parser.add_argument("--compiler", required=True, help="compiler and version, likewise")
    options = parser.parse_args()

    probes = probe_files(options.probes)
    write_binding(options.probes, probes, options.out / "_probes.c")
    (options.out / "identity.c").write_text(
        identity_source(probes, options.flags, options.compiler)
    )


if __name__ == "__main__":
    main()
