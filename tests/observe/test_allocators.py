"""Libraries of malloc: found as the linker finds them, their version read, settings translated."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from memlab import experiments
from memlab.errors import BadLevels
from memlab.experiment import FOUND, Malloc
from memlab.experiment.tried.policies import check_policies, factor_of, with_levels
from memlab.observe import allocators
from memlab.observe.allocators import NoAllocator
from memlab.published import load
from memlab.run import plan

JEMALLOC = "{}-0-gf70a254d44c8d30af2cd5d30531fb18fdabaae6d"
NO_OTHERS: dict[str, str] = {}


def library(folder: Path, name: str, text: str) -> Path:
    """A file that holds what a library would, among other bytes."""
    path = folder / name
    path.write_bytes(b"\x7fELF\0\0\xff" + text.encode() + b"\0rest")
    return path


def jemalloc(folder: Path, version: str, setting: str) -> dict[str, str]:
    path = library(folder, "libjemalloc.so.2", JEMALLOC.format(version))
    return allocators.environ(Malloc("jemalloc", setting, str(path)), NO_OTHERS)


@pytest.mark.parametrize(
    ("version", "setting", "conf"),
    [
        ("5.0.0", "never", "dirty_decay_ms:-1,muzzy_decay_ms:-1"),
        ("5.3.0", "at_once", "dirty_decay_ms:0,muzzy_decay_ms:0"),
        ("4.2.0", "never", "purge:decay,decay_time:-1"),
        ("4.5.0", "at_once", "purge:decay,decay_time:0"),
        ("4.0.4", "never", "lg_dirty_mult:-1"),
        ("3.6.0", "never", "lg_dirty_mult:-1"),
    ],
)
def test_decay_is_set_in_the_words_of_the_version(
    tmp_path: Path, version: str, setting: str, conf: str
) -> None:
    set_so = jemalloc(tmp_path, version, setting)
    assert set_so == {"LD_PRELOAD": str(tmp_path / "libjemalloc.so.2"), "MALLOC_CONF": conf}


def test_the_published_settings_are_those_of_never(tmp_path: Path) -> None:
    for row in load("jemalloc-madvise").tables["settings"].rows:
        version = str(row["version"]) + (".0" if str(row["version"]).count(".") == 1 else "")
        set_so = jemalloc(tmp_path, version, "never")
        assert set_so["MALLOC_CONF"] == row["malloc_conf"]


def test_a_version_without_decay_is_refused(tmp_path: Path) -> None:
    for version in ("4.0.4", "3.6.0"):
        with pytest.raises(
            NoAllocator, match=f"jemalloc {re.escape(version)} has no setting at_once"
        ):
            jemalloc(tmp_path, version, "at_once")
    assert jemalloc(tmp_path, "3.6.0", "default").keys() == {"LD_PRELOAD"}
    unmarked = library(tmp_path, "libjemalloc.so.9", "0.0.0-no version")
    with pytest.raises(NoAllocator, match="does not say its version"):
        allocators.environ(Malloc("jemalloc", "never", str(unmarked)), NO_OTHERS)


def test_versions_of_the_others(tmp_path: Path) -> None:
    tcmalloc = library(tmp_path, "libtcmalloc.so.4", "gperftools 2.10")
    assert allocators.version_of("tcmalloc", tcmalloc) == (2, 10)
    library(tmp_path, "libmimalloc.so.2.0", "")
    linked = tmp_path / "libmimalloc.so.2"
    linked.symlink_to("libmimalloc.so.2.0")
    assert allocators.version_of("mimalloc", linked) == (2, 0)
    assert allocators.version_of("mimalloc", library(tmp_path, "libmimalloc.so", "")) is None
    assert allocators.version_of("tcmalloc", tmp_path / "none") is None


SINCE = ({"MIMALLOC_PURGE_DELAY": "-1"}, {"MIMALLOC_PURGE_DELAY": "0"})
BEFORE = (
    {"MIMALLOC_ALLOW_DECOMMIT": "0"},
    {
        "MIMALLOC_DECOMMIT_DELAY": "0",
        "MIMALLOC_RESET_DELAY": "0",
        "MIMALLOC_SEGMENT_DECOMMIT_DELAY": "0",
    },
)
BOTH = (SINCE[0] | BEFORE[0], SINCE[1] | BEFORE[1])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("libmimalloc.so.3.1", SINCE),
        ("libmimalloc.so.2.2", SINCE),
        ("libmimalloc.so.2.1", BOTH),
        ("libmimalloc.so.2.0", BEFORE),
        ("libmimalloc.so.1.9", SINCE),
        ("libmimalloc.so.1.8", BOTH),
    ],
)
def test_mimalloc_is_set_by_version(
    tmp_path: Path, name: str, options: tuple[dict[str, str], dict[str, str]]
) -> None:
    path = str(library(tmp_path, name, ""))
    for setting, expected in zip(("never", "at_once"), options, strict=True):
        set_so = allocators.environ(Malloc("mimalloc", setting, path), NO_OTHERS)
        assert set_so == {"LD_PRELOAD": path} | expected
    old = library(tmp_path, "libmimalloc.so.1.7", "")
    with pytest.raises(NoAllocator, match=r"mimalloc 1\.7 has no setting never"):
        allocators.environ(Malloc("mimalloc", "never", str(old)), NO_OTHERS)


def test_glibc_is_set_without_a_library() -> None:
    assert allocators.environ(Malloc("glibc"), NO_OTHERS) == {}
    halves = [
        allocators.environ(Malloc("glibc", setting), NO_OTHERS)
        for setting in ("no_trim", "no_mmap")
    ]
    assert allocators.environ(Malloc("glibc", "never"), NO_OTHERS) == halves[0] | halves[1]
    with pytest.raises(NoAllocator, match="glibc has no setting background"):
        allocators.environ(Malloc("glibc", "background"), NO_OTHERS)


@pytest.mark.parametrize(
    "name", ["MALLOC_CONF", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "TCMALLOC_RELEASE_RATE"]
)
def test_an_option_that_is_set_already_is_refused(name: str) -> None:
    with pytest.raises(NoAllocator, match=f"{name} is set in this environment"):
        allocators.environ(Malloc("glibc"), {name: "1", "HOME": "/"})


def test_a_library_that_cannot_be_preloaded_is_refused(tmp_path: Path) -> None:
    for malloc in (Malloc("other"), Malloc("jemalloc", "never")):
        missing = replace(malloc, library=str(tmp_path / "none.so"))
        with pytest.raises(NoAllocator, match="there is no library"):
            allocators.environ(missing, NO_OTHERS)
    (tmp_path / "a b").mkdir()
    for name in ("a b/x.so", "a:b.so"):
        path = library(tmp_path, name, "")
        with pytest.raises(NoAllocator, match="LD_PRELOAD takes no path with blanks or colons"):
            allocators.environ(Malloc("other", library=str(path)), NO_OTHERS)


def test_a_missing_library_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocators, "_searched", lambda: iter(()))
    for name, kind in allocators.LIBRARIES.items():
        with pytest.raises(
            NoAllocator, match=f"{name} is not installed: apt install {kind.package}"
        ):
            allocators.environ(Malloc(name), NO_OTHERS)
    with pytest.raises(NoAllocator, match="-p library=PATH"):
        allocators.find("other")


def test_the_linkers_own_folders_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library for another machine (here one of 0xffff) is passed over, as the linker does."""
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{tmp_path}")
    with open("/proc/self/exe", "rb") as own:
        header = own.read(20)
    (tmp_path / "libjemalloc.so.1").write_bytes(header[:18] + b"\xff\xff")
    (tmp_path / "libjemalloc.so.2").write_bytes(header)
    (tmp_path / "libjemalloc_debug.so.2").write_bytes(header)
    assert allocators.find("jemalloc") == tmp_path / "libjemalloc.so.2"


def test_every_point_has_its_options() -> None:
    """Of the versions that Debian 12 has, for every point that a preset plans."""
    versions = {"jemalloc": (5, 3, 0), "tcmalloc": (2, 10), "mimalloc": (2, 0)}
    declared = experiments.load("allocator")
    assert declared.host.malloc is not None
    seen = set()
    for point in plan.build(declared, "full", {}).points:
        malloc = declared.host.malloc(point.at)
        assert (point.at["library"], malloc.library) == (FOUND, "")
        seen.add((malloc.allocator, malloc.setting))
    for allocator, setting in seen:
        if setting == "default":
            continue
        if allocator == "glibc":
            assert allocators.environ(Malloc(allocator, setting), NO_OTHERS)
        else:
            assert allocators.LIBRARIES[allocator].settings(setting, versions[allocator])
    assert len(seen) == 4 * 3 + 2


def test_a_library_of_the_users_own_has_a_malloc(tmp_path: Path) -> None:
    (tmp_path / "own.c").write_text(
        "void *malloc(unsigned long n) { return 0 * n; } void free(void *p) { (void)p; }"
    )
    build = ["cc", "-shared", "-fPIC", "-o"]
    own, less = tmp_path / "own.so", tmp_path / "less.so"
    subprocess.run([*build, own, tmp_path / "own.c"], check=True)
    subprocess.run([*build, less, "-Dmalloc=other", tmp_path / "own.c"], check=True)
    environ = allocators.environ(Malloc("other", library=str(own)), NO_OTHERS)
    assert environ == {"LD_PRELOAD": str(own)}
    with pytest.raises(NoAllocator, match="defines no malloc and free"):
        allocators.environ(Malloc("other", library=str(less)), NO_OTHERS)
    with pytest.raises(NoAllocator, match="not a library of this machine's kind"):
        allocators.environ(Malloc("other", library=str(tmp_path / "own.c")), NO_OTHERS)


def test_a_level_of_malloc_is_a_librarys_path() -> None:
    levels = check_policies([], {"malloc": ["glibc", "/opt/a/libmy.so.2"]})
    assert levels == {"malloc": ["glibc", "/opt/a/libmy.so.2"]}
    made = with_levels(factor_of("malloc", []), levels["malloc"])
    assert made.level_labels == {"/opt/a/libmy.so.2": "libmy.so.2"}
    for wrong in ("/opt/libmy", "/opt/a b.so", "/opt/a:b.so", "opt/libmy.so"):
        with pytest.raises(BadLevels, match="malloc"):
            check_policies([], {"malloc": [wrong]})
