"""Which malloc, which version, what it was told, and the setting in that version's words."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from memlab.diagnose import allocator, allocator_marks, diagnosis, malloc_options
from memlab.diagnose.allocator import Allocator
from memlab.observe import process

from .live import Compiled, library, running

# What every build of jemalloc holds; the version is the one of the published service.
ARTICLES = "4.2.0-0-gf70a254d44c8d30af2cd5d30531fb18fdabaae6d"
HELD = f'const char held[] = "x\\0" "{ARTICLES}\\0<jemalloc>: Error\\0{{variable}}\\0";\n'


def found(pid: int) -> Allocator:
    read = allocator.read(pid, process.maps(pid))
    assert read is not None
    return read


def library_of(tmp_path: Path, name: str) -> Path:
    source, built = tmp_path / "held.c", tmp_path / name
    source.write_text(HELD.format(variable="MALLOC_CONF"))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True)
    return built


def test_the_articles_version_gets_the_articles_setting(binary: Compiled, tmp_path: Path) -> None:
    preload = {"LD_PRELOAD": str(library_of(tmp_path, "libjemalloc.so.2"))}
    with running(binary("steady"), "1", environ=preload) as program:
        malloc = found(program.pid)
    assert (malloc.name, malloc.version) == ("jemalloc", "4.2.0")
    setting = malloc_options.keeping(malloc.name, malloc.numbers, malloc.variable)
    assert setting.startswith("MALLOC_CONF=purge:decay,decay_time:-1 ")
    assert malloc.option("purge") == "ratio"


def test_jemalloc_linked_into_the_program_with_a_variable_of_its_own(tmp_path: Path) -> None:
    source, built = tmp_path / "inside.c", tmp_path / "inside"
    body = '#include <stdio.h>\nint main(void) { puts("ready"); fflush(stdout); getchar(); '
    source.write_text(HELD.format(variable="_RJEM_MALLOC_CONF") + body + "return held[0]; }\n")
    subprocess.run(["cc", "-rdynamic", "-o", built, source], check=True)
    with running(built, environ={"_RJEM_MALLOC_CONF": "purge:decay,decay_time:0"}) as program:
        malloc = found(program.pid)
    assert (malloc.name, malloc.version, malloc.where) == ("jemalloc", "4.2.0", str(built))
    assert malloc.variable == "_RJEM_MALLOC_CONF"
    assert malloc.option("decay_time") == "0"


@pytest.mark.parametrize(
    ("name", "version"), [("jemalloc", (5,)), ("tcmalloc", (2,)), ("mimalloc", (2,))]
)
def test_a_preloaded_library(binary: Compiled, name: str, version: tuple[int, ...]) -> None:
    preload = {"LD_PRELOAD": library(name)}
    with running(binary("steady"), "1", environ=preload) as program:
        malloc = found(program.pid)
    assert malloc.name == name
    assert malloc.numbers[:1] >= version
    assert Path(malloc.where).name.startswith(f"lib{name}")


def test_the_c_librarys_own_is_the_last_that_is_taken(binary: Compiled) -> None:
    with running(binary("steady"), "1") as program:
        malloc = found(program.pid)
    assert malloc.name in ("glibc", "musl")
    assert malloc.numbers


def test_an_executable_that_is_too_large_is_not_searched_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, binary: Compiled
) -> None:
    with running(binary("steady"), "1") as program:
        malloc = found(program.pid)
        assert allocator.not_searched(program.pid, malloc) == ()
        monkeypatch.setattr(allocator_marks, "BYTES_MAX", 1024)
        (said,) = allocator.not_searched(program.pid, malloc)
    assert "over 1 KiB, and was not searched" in said


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("jemalloc", (5, 3, 0), "dirty_decay_ms:-1,muzzy_decay_ms:-1"),
        ("jemalloc", (5, 0, 0), "dirty_decay_ms:-1,muzzy_decay_ms:-1"),
        ("jemalloc", (), "dirty_decay_ms:-1,muzzy_decay_ms:-1"),
        ("jemalloc", (4, 5, 0), "purge:decay,decay_time:-1"),
        ("jemalloc", (4, 0, 4), "lg_dirty_mult:-1"),
        ("jemalloc", (3, 6, 0), "lg_dirty_mult:-1"),
        ("tcmalloc", (2, 10), "TCMALLOC_RELEASE_RATE=0"),
        ("mimalloc", (3, 0, 1), "MIMALLOC_PURGE_DELAY=-1"),
        ("mimalloc", (2, 1, 2), "MIMALLOC_PURGE_DELAY=-1"),
        ("mimalloc", (2, 0), "MIMALLOC_ALLOW_DECOMMIT=0"),
        ("mimalloc", (1, 7), "MIMALLOC_PAGE_RESET=0"),
        ("glibc", (2, 36), "GLIBC_TUNABLES=glibc.malloc.trim_threshold="),
        ("glibc", (2, 17), "MALLOC_TRIM_THRESHOLD_="),
        ("musl", (), "LD_PRELOAD"),
    ],
)
def test_the_setting_is_in_the_versions_words(
    name: str, version: tuple[int, ...], words: str
) -> None:
    assert words in malloc_options.keeping(name, version, "MALLOC_CONF")


def in_force(
    name: str, version: tuple[int, ...], environ: dict[str, str], link: str | None = None
) -> dict[str, tuple[str, str]]:
    options = malloc_options.in_force(name, version, "MALLOC_CONF", environ, link)
    return {option.name: (option.value, option.source) for option in options}


def test_the_environment_wins_over_the_link_and_the_link_over_the_default() -> None:
    environ = {"MALLOC_CONF": "narenas:2,dirty_decay_ms:0"}
    link = "dirty_decay_ms:500,muzzy_decay_ms:7"
    assert in_force("jemalloc", (5, 3, 0), environ, link) == {
        "dirty_decay_ms": ("0", "MALLOC_CONF"),
        "narenas": ("2", "MALLOC_CONF"),
        "muzzy_decay_ms": ("7", "/etc/malloc.conf"),
    }


@pytest.mark.parametrize(
    ("version", "muzzy"), [((5, 1, 0), "10000"), ((5, 2, 0), "0"), ((5, 3, 0), "0")]
)
def test_jemallocs_defaults_by_version(version: tuple[int, ...], muzzy: str) -> None:
    found = in_force("jemalloc", version, {})
    assert {name: value for name, (value, _) in found.items()} == {
        "dirty_decay_ms": "10000",
        "muzzy_decay_ms": muzzy,
    }


def test_glibcs_tunables_and_its_old_variables() -> None:
    environ = {
        "GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1:glibc.rtld.nns=2",
        "MALLOC_ARENA_MAX": "1",
    }
    found = in_force("glibc", (2, 36), environ)
    assert found["trim_threshold"] == ("1", "GLIBC_TUNABLES")
    assert found["arena_max"] == ("1", "MALLOC_ARENA_MAX")
    assert "nns" not in found


@pytest.mark.parametrize(
    ("name", "options", "eager"),
    [
        ("jemalloc", {"dirty_decay_ms": "0"}, True),
        ("jemalloc", {"decay_time": "0"}, True),
        ("jemalloc", {"dirty_decay_ms": "10000", "muzzy_decay_ms": "0"}, False),
        ("jemalloc", {}, False),
        ("tcmalloc", {"TCMALLOC_AGGRESSIVE_DECOMMIT": "1"}, True),
        ("tcmalloc", {"TCMALLOC_AGGRESSIVE_DECOMMIT": "0"}, False),
        ("mimalloc", {"MIMALLOC_PURGE_DELAY": "0"}, True),
        ("glibc", {"trim_threshold": "0"}, False),
    ],
)
def test_giving_back_at_once(name: str, options: dict[str, str], eager: bool) -> None:
    assert malloc_options.gives_back_at_once(name, options) is eager


def test_an_allocator_inside_a_library_is_named_by_what_the_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "libarrow.so"
    file.write_bytes(b"\0" * ((4 << 20) - 7) + b"mimalloc: warning: " + b"\0" * 100)
    found = allocator_marks.names(file)[0]  # the mark lies across two pieces
    assert found == ["mimalloc"]
    closed = tmp_path / "map_files"  # as an ordinary user meets it
    assert allocator._looked_through([closed, file], 5 << 20) == (["mimalloc"], file.stat().st_size)
    assert allocator._looked_through([closed, file], 4096) == ([], file.stat().st_size)
    assert allocator._looked_through([closed], 5 << 20) == ([], 0)
    file.write_bytes(b"this library says mimalloc in a sentence, and has none")
    assert allocator_marks.names(file)[0] == []


@pytest.mark.parametrize(
    ("build", "malloc", "used"),
    [
        (b"", "", False), (b"", "malloc", False), (b"", "mimalloc", True),
        (b"", "mimalloc_debug", True), (b"3.14.0 free-threading build", "", True),
    ],
)  # fmt: skip
def test_the_mimalloc_that_each_python_has_is_in_use_only_where_it_is_asked_for(
    build: bytes, malloc: str, used: bool, tmp_path: Path
) -> None:
    """Since 3.13: only a build without a GIL takes it by default."""
    file = tmp_path / "python3.13"
    file.write_bytes(b"\0" * 1000 + b"pymalloc_debug\0mimalloc: warning: \0" + build + b"\0" * 99)
    environ = {"PYTHONMALLOC": malloc} if malloc else {}
    names = allocator_marks.used(allocator_marks.names(file)[0], environ)
    assert sorted(names) == (["Python's pymalloc", "mimalloc"] if used else ["Python's pymalloc"])
    other = tmp_path / "libarrow.so"
    other.write_bytes(b"mimalloc: warning: \0free-threading build\0")
    assert allocator_marks.used(allocator_marks.names(other)[0], environ) == ["mimalloc"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b"zend_mm_heap corrupted", "PHP's allocator"), (b"RUBY_GC_HEAP_", "Ruby's heap"),
        (b"LuaJIT 2.1.0-beta3", "LuaJIT"), (b"ERL_CRASH_DUMP", "Erlang's heap"),
        (b"quarantine_size_mb", "AddressSanitizer's malloc (quarantine_size_mb)"),
        (b"OCAMLRUNPARAM", "OCaml's heap"), (b"GHCRTS", "GHC's heap"),
        (b"GC_MAXIMUM_HEAP_SIZE", "Boehm's collector"),
    ],
)  # fmt: skip
def test_a_runtime_is_known_by_a_word_that_it_reads_or_prints(
    text: bytes, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "of-another-name"
    file.write_bytes(b"\0" * 1000 + text + b"\0" * 100)
    assert allocator_marks.names(file)[0] == [name]
    file = tmp_path / "libruby-luajit-php.so"
    file.write_bytes(b"\0" * 1000 + text[1:] + b"\0" * 100)
    assert allocator_marks.names(file)[0] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("libc.so", "musl"), ("ld-musl-x86_64.so.1", "musl"), ("libc.so.6", "glibc"),
        ("libc-2.31.so", "glibc"), ("libc.so.7", None), ("libc.software.so", None),
    ],
)  # fmt: skip
def test_a_c_library_is_known_by_the_name_that_it_is_mapped_by(name: str, kind: str | None) -> None:
    """Debian's musl is mapped as libc.so."""
    code = process.Mapping(1 << 30, 2 << 30, "r-xp", f"/no/such/folder/{name}")
    found = allocator.read(0, [code])
    assert (found.name if found else None) == kind


@pytest.mark.parametrize(("section", "found"), [(".go.buildinfo", ["Go's runtime"]), (".data", [])])
def test_go_is_known_by_a_section_of_its_own(
    tmp_path: Path, section: str, found: list[str]
) -> None:
    """golang#69996: memory of Go that stays. Data with the same words is no Go program."""
    source, file = tmp_path / "made.c", tmp_path / "made"
    source.write_text(
        "int other = 7;\n"
        f'__attribute__((section("{section}"))) char mark[] = "\\xff Go buildinf:";\n'
        "int main(void) { puts(mark); getchar(); return other; }\n"
    )
    subprocess.run(["cc", "-include", "stdio.h", "-o", file, source], check=True)
    assert allocator_marks.names(file)[0] == found
    with subprocess.Popen(
        ["stdbuf", "-oL", file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout
        program.stdout.readline()
        assert allocator.runtime(program.pid) == "".join(found)


@pytest.mark.seconds
@pytest.mark.needs("a static C library")
def test_memory_without_a_known_allocator_is_named_as_not_read(tmp_path: Path) -> None:
    """Of a program that is linked statically the C library's malloc is not recognised."""
    binary = tmp_path / "static"
    source = Path(__file__).parent / "programs/asked/apart.c"
    command = ["cc", "-static", "-O2", "-pthread", "-o", binary, source]
    subprocess.run(command, check=True)
    said = {}
    for mib in ("4", "64"):
        with running(binary, mib) as program:
            said[mib] = [one.reason for one in diagnosis.of(program.pid, 0.1).not_looked_at]
    assert "no allocator was recognised in it" in said["64"]
    assert "no allocator was recognised in it" not in said["4"], "little"


@pytest.mark.seconds
@pytest.mark.parametrize(("mib", "is_large"), [("64", True), ("4", False)])
def test_what_a_small_library_of_a_collector_may_hold_is_said_as_not_read(
    binary: Compiled, tmp_path: Path, mib: str, *, is_large: bool
) -> None:
    """Boehm's has little code; a program may map it and not use it."""
    source, built = tmp_path / "gc.c", tmp_path / "libgc.so.1"
    source.write_text('const char option[] = "GC_MAXIMUM_HEAP_SIZE";\nint f(void) { return 1; }\n')
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", built, source], check=True)
    with running(binary("asked/apart"), mib, environ={"LD_PRELOAD": str(built)}) as program:
        seen = diagnosis.of(program.pid, 0.1)
    words = "an allocator that was not read (Boehm's collector in libgc.so.1) can hold up to that"
    assert any(words in one.reason for one in seen.not_looked_at) == is_large
    assert not (seen.whole and is_large)


def test_a_runtimes_own_heap_is_found_in_its_files_and_none_in_a_plain_program(
    binary: Compiled,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print('ready', flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdout
        program.stdout.readline()
        found = allocator.within(program.pid, process.maps(program.pid), None)
        program.kill()
    assert any(one.startswith("Python's pymalloc in ") for one in found)
    with running(binary("steady"), "1") as plain:
        assert allocator.within(plain.pid, process.maps(plain.pid), None) == []


@pytest.mark.parametrize(("mib", "is_large"), [("64", True), ("4", False)])
def test_a_malloc_that_takes_the_place_of_the_c_librarys_is_said_as_not_read(
    binary: Compiled, mib: str, *, is_large: bool
) -> None:
    """glibc is there, and has no heap: nothing was read of what the program's own one holds."""
    program = binary("own_malloc")
    with running(program, mib) as process_:
        seen = diagnosis.of(process_.pid, 0.1)
        mappings = process.maps(process_.pid)
        assert allocator.replacing(process_.pid, mappings, []) == f"the malloc of {program.name}"
        named = [f"jemalloc in {program.name}"]
        assert allocator.replacing(process_.pid, mappings, named) is None, "it has a name already"
    assert seen.look
    assert seen.look.heap is None
    assert any("the malloc of own_malloc" in one.reason for one in seen.not_looked_at) == is_large
    assert not (seen.whole and is_large)
    with running(binary("steady"), "1") as plain:
        assert allocator.replacing(plain.pid, process.maps(plain.pid), []) is None


@pytest.mark.parametrize("mib", [32, 2])
@pytest.mark.parametrize("is_own", [True, False])
def test_of_a_heap_that_is_not_in_use_nothing_is_said(
    tmp_path: Path, mib: int, *, is_own: bool
) -> None:
    """A malloc of its own in memory of brk(2), where glibc would have its heap."""
    source, program = tmp_path / "made.c", tmp_path / "made"
    own = "void *malloc(unsigned long n) { return sbrk(n); }\nvoid free(void *p) { (void)p; }\n"
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n"
        f"{own if is_own else ''}"
        f'int main(void) {{ memset(sbrk({mib} << 20), 7, {mib} << 20); puts("ready");'
        " fflush(stdout); return getchar(); }\n"
    )
    subprocess.run(["cc", "-w", "-fno-builtin", "-o", program, source], check=True)
    with running(program) as process_:
        left_out = diagnosis.of(process_.pid, 0.1).not_looked_at
    names = [one.name for one in left_out if one.name == "what malloc holds free"]
    assert bool(names) != is_own
    is_large = mib > 16
    assert any("the malloc of made" in one.reason for one in left_out) == (is_own and is_large)


def test_symbols_of_files_are_read_up_to_a_bound(
    binary: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may map thousands of files that say that they have many."""
    program = binary("own_malloc")
    with running(program, "1") as process_:
        mappings = process.maps(process_.pid)
        size = program.stat().st_size
        for room, name in ((size, f"the malloc of {program.name}"), (size - 1, None)):
            monkeypatch.setattr(allocator, "_SYMBOLS_BYTES_MAX", room)
            assert allocator.replacing(process_.pid, mappings, []) == name


def test_a_preloaded_malloc_takes_its_place_too(binary: Compiled, tmp_path: Path) -> None:
    source, built = tmp_path / "other.c", tmp_path / "libother.so"
    source.write_text("void *malloc(unsigned long n);\nvoid *malloc(unsigned long n) {"
                      " static char a[1 << 20], *p = a; char *q = p; p += (n + 15) & ~15ul;"
                      " return q; }\nvoid free(void *p) { (void)p; }\n")  # fmt: skip
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", built, source], check=True)
    preload = {"LD_PRELOAD": str(built)}
    with running(binary("steady"), "1", environ=preload) as program:
        mappings = process.maps(program.pid)
        assert allocator.replacing(program.pid, mappings, []) == "the malloc of libother.so"


def test_the_data_of_a_file_is_read_once_whatever_its_sections_say(tmp_path: Path) -> None:
    """A head, a text, and sections that each reach over all of the file, or are of code."""
    file, text = tmp_path / "lib.so", b"GNU C Library stable release version 2.36"
    data, code = (struct.pack("<IIQQQQIIQQ", 0, 1, flags, 0, 0, 1 << 40, 0, 0, 1, 0)
                  for flags in (2, 6))  # fmt: skip
    at = 64 + len(text)

    def made_of(sections: list[bytes]) -> bytes:
        head = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<Q", at)
        head = head.ljust(60, b"\0") + struct.pack("<H", len(sections)) + b"\0\0"
        whole = head + text + b"".join(sections)
        file.write_bytes(whole)
        return whole

    whole = made_of([code] + [data] * 500)
    assert allocator._data(file) == whole
    whole = made_of([code])  # no data: all of it
    assert allocator._data(file) == whole
    file.write_bytes(text)
    assert allocator._data(file) == text
    with pytest.raises(OSError, match="Is a directory"):
        allocator._data(tmp_path)
