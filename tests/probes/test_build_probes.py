"""The build's generator: the cdef blocks, what a probe is made of, the levels it writes."""

import re
import shutil
from pathlib import Path

import pytest
from cffi import FFI

from memlab.experiments import _build_probes

PROBES = Path(__file__).parents[2] / "probes"
BLOCK = "/* cdef: read by cffi */\nstruct a {\n\tint x;\n};\n/* end */\n"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
CALLED = re.compile(r"(?<![.>])\b\w+(?=\()")
DEFINED = re.compile(r"^(static )?\w[\w *]*?(\w+)\([^;]*?\)\n\{", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two probes, the first of which reaches a shared unit and one of its own."""
    files = {
        "probe.h": "/* contract */\n",
        "a.c": '#include "a/own.h"\n',
        "b.c": '#include "support/clock.h"\n',
        "a/own.h": '#include "support/clock.h"\n',
        "a/own.c": '#include "own.h"\n#include "deep.h"\n',
        "a/deep.h": "/* deep */\n",
        "support/clock.h": '#include "probe.h"\n',
        "support/clock.c": '#include "clock.h"\n',
        "support/other.h": "/* of neither */\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest(folder: Path, flags: str = "-O2", compiler: str = "GNU 12", name: str = "a") -> str:
    return _build_probes.probe_hash(folder / f"{name}.c", flags, compiler)


def test_the_folder_is_the_registry(folder: Path) -> None:
    assert [path.name for path in _build_probes.probe_files(folder)] == ["a.c", "b.c"]


def test_a_block_is_what_stands_between_the_markers(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_text(f"/* a */\n{BLOCK}int b;\n")
    assert _build_probes.probe_block(path) == "struct a {\n\tint x;\n};\n"


@pytest.mark.parametrize("text", ["int b;\n", BLOCK + BLOCK])
def test_no_block_or_two_end_the_build_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.c"
    path.write_text(text)
    with pytest.raises(SystemExit, match=r"a\.c: [02] cdef blocks, expected 1"):
        _build_probes.probe_block(path)


def test_a_header_comes_once_and_after_those_that_it_includes(folder: Path) -> None:
    found = _build_probes.headers(folder / "a.c", folder)
    assert [path.name for path in found] == ["probe.h", "clock.h", "own.h"]


@pytest.mark.parametrize(
    ("changed", "whose"),
    [
        ("a.c", "a"),
        ("a/own.h", "a"),
        ("a/own.c", "a"),
        ("a/deep.h", "a"),
        ("b.c", "b"),
        ("probe.h", "ab"),
        ("support/clock.h", "ab"),
        ("support/clock.c", "ab"),
        ("support/other.h", ""),
    ],
)
def test_a_hash_covers_what_its_probe_reaches(folder: Path, changed: str, whose: str) -> None:
    before = {name: digest(folder, name=name) for name in "ab"}
    with open(folder / changed, "a") as file:
        file.write("\n")
    assert {name for name in "ab" if digest(folder, name=name) != before[name]} == set(whose)


def test_a_hash_covers_flags_and_compiler(folder: Path) -> None:
    before = digest(folder)
    assert digest(folder, flags="-O3") != before
    assert digest(folder, compiler="GNU 13") != before
    assert digest(folder, flags="-O2G", compiler="NU 12") != before


def test_an_edit_of_what_one_probe_uses_leaves_the_others(tmp_path: Path) -> None:
    copy = shutil.copytree(PROBES, tmp_path / "probes")
    before = {name: digest(copy, name=name) for name in ("thread_create", "mmap_write")}
    with open(copy / "thread_create" / "batch.c", "a") as file:
        file.write("\n")
    assert digest(copy, name="mmap_write") == before["mmap_write"]
    assert digest(copy, name="thread_create") != before["thread_create"]


def test_support_is_what_several_probes_use() -> None:
    """A unit of one probe lies in that probe's folder; a known_* probe may check it from there."""
    made_of = {
        probe.stem: _build_probes.made_of(probe) for probe in _build_probes.probe_files(PROBES)
    }
    for unit in PROBES.glob("*/*.h"):
        users = {name for name, files in made_of.items() if unit in files}
        if unit.parent.name == "support":
            assert len(users) >= 2, f"{unit.name}: used by {users or 'no probe'}"
        else:
            others = {name for name in users if not name.startswith("known_")}
            assert others == {unit.parent.name}, f"{unit}: used by {users or 'no probe'}"


@pytest.mark.parametrize("probe", _build_probes.probe_files(PROBES), ids=lambda probe: probe.stem)
def test_a_probe_calls_nothing_that_its_hash_leaves_out(probe: Path) -> None:
    """A function of foo.c is declared in foo.h: otherwise the hash would not find the file."""
    covered = _build_probes.made_of(probe)
    covered.remove(PROBES / "probe.h")  # declares what Python calls as well
    code = "".join(COMMENT.sub("", path.read_text()) for path in covered)
    called = {*CALLED.findall(code)} - {name for static, name in DEFINED.findall(code) if static}
    for path in {*PROBES.glob("*/*.c")} - {*covered}:
        offered = {name for static, name in DEFINED.findall(path.read_text()) if not static}
        assert not called & offered, path


def test_a_level_is_named_by_its_enum() -> None:
    ffi = FFI()
    ffi.cdef("enum way { WAY_THERE = 3, WAY_AND_BACK = 1 }; enum odd { WAY_OFF };")
    assert _build_probes.levels(ffi.typeof("enum way")) == {"and_back": 1, "there": 3}
    with pytest.raises(SystemExit, match="enum odd: WAY_OFF must begin with ODD_"):
        _build_probes.levels(ffi.typeof("enum odd"))
