"""The build's generator: the cdef blocks, the hashes, the C it writes."""

from pathlib import Path

import pytest

from memlab import build_probes

BLOCK = "/* cdef: read by cffi */\nstruct a {\n\tint x;\n};\n/* end */\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two probes."""
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "clock.h").write_text("/* clock */\n")
    (tmp_path / "probe.h").write_text("/* contract */\n")
    for name in ("b", "a"):
        (tmp_path / f"{name}.c").write_text(f"/* {name} */\n")
    return tmp_path


def digest(folder: Path, flags: str = "-O2", compiler: str = "GNU 12") -> str:
    return build_probes.probe_hash(folder / "a.c", flags, compiler)


def test_the_folder_is_the_registry(folder: Path) -> None:
    assert [path.name for path in build_probes.probe_files(folder)] == ["a.c", "b.c"]


def test_a_block_is_what_stands_between_the_markers(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_text(f"/* a */\n{BLOCK}int b;\n")
    assert build_probes.cdef_block(path) == "struct a {\n\tint x;\n};\n"


@pytest.mark.parametrize("text", ["int b;\n", BLOCK + BLOCK])
def test_no_block_or_two_end_the_build_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.c"
    path.write_text(text)
    with pytest.raises(SystemExit, match=r"a\.c: [02] cdef blocks, expected 1"):
        build_probes.cdef_block(path)


@pytest.mark.parametrize("changed", ["a.c", "probe.h", "support/clock.h"])
def test_hash_changes_with_what_the_probe_is_made_of(folder: Path, changed: str) -> None:
    before = digest(folder)
    with open(folder / changed, "a") as file:
        file.write("\n")
    assert digest(folder) != before


def test_hash_changes_with_flags_and_compiler_but_not_with_a_neighbour(folder: Path) -> None:
    before = digest(folder)
    (folder / "b.c").write_text("/* other */\n")
    assert digest(folder) == before
    assert digest(folder, flags="-O3") != before
    assert digest(folder, compiler="GNU 13") != before
    assert digest(folder, flags="-O2G", compiler="NU 12") != before


def test_c_string_escapes() -> None:
    assert build_probes.c_string('-DX="a\\b"') == '"-DX=\\"a\\\\b\\""'
