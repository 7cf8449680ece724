"""What every probe file keeps, and the boundary between a dict and its struct."""

import re
import subprocess
import threading
from pathlib import Path

import pytest
from leavings import leavings, left

from memlab import _probes, probe

FOLDER = Path(__file__).parents[2] / "probes"
FILES = sorted(FOLDER.glob("*.c"))
MODULES = sorted(FOLDER.parent.glob("memlab/**/python_probes/[!_]*"))  # a file or a folder each
UNITS = ("_bytes", "_count", "_ns", "_fd")

NOTHING_BUT_A_PATH = {
    "path": "/nonexistent/file",
    "size_bytes": 1,
    "file_size_bytes": 4096,
    "method": "write",
    "advice": "normal",
    "populate": False,
    "sync": False,
    "slice_ns": 0,
    "handicap_count": 0,
}


def test_every_file_of_the_folders_is_a_probe() -> None:
    assert probe.names() == tuple(sorted(path.stem for path in (*FILES, *MODULES)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_opening_comment_says_what_the_window_holds(path: Path) -> None:
    opening = path.read_text().split("*/")[0]
    assert opening.startswith(f"/*\n * {path.stem} - ")
    assert "\n * Window: " in opening
    assert "\n * Excluded: " in opening


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_says_what_its_window_holds(path: Path) -> None:
    source = path / "__init__.py" if path.is_dir() else path
    opening = source.read_text().split('"""')[1]
    assert opening.startswith(f"{path.stem} - ")
    assert "\nWindow: " in opening
    assert "\nExcluded: " in opening


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_one_exit_and_one_cdef_block(path: Path) -> None:
    text = path.read_text()
    assert len(re.findall(r"^/\* cdef: .*\*/$", text, re.MULTILINE)) == 1
    assert len(re.findall(r"^/\* end \*/$", text, re.MULTILINE)) == 1
    assert ("\nout:" in text) == bool(re.search("TRY|CHECK_PARAM", text))
    assert all(function.count("\nout:") <= 1 for function in text.split("\n}\n"))


@pytest.mark.parametrize("name", probe.names())
def test_params_carry_their_unit(name: str) -> None:
    for field, kind in probe.params(name).items():
        assert kind != "int" or field.endswith(UNITS), field


def test_params_of_mmap_write() -> None:
    assert probe.params("mmap_write") == {
        "path": "str",
        "size_bytes": "int",
        "file_size_bytes": "int",
        "method": ("mmap", "write", "pwrite", "writev", "io_uring", "dontcache"),
        "advice": ("normal", "sequential", "populate_read", "populate_write", "hugepage"),
        "populate": "bool",
        "sync": "bool",
        "slice_ns": "int",
        "handicap_count": "int",
    }
    assert probe.params("noop") == {}


def test_hashes_differ_and_are_sha256() -> None:
    hashes = {probe.hash(name) for name in probe.names()}
    assert len(hashes) == len(probe.names())
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in hashes)


def test_build_names_compiler_and_flags() -> None:
    build = probe.build()
    assert "-O2" in build["flags"].split()
    assert "-fno-builtin" in build["flags"].split()
    assert re.match(r"(GNU|Clang) \d+", build["compiler"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_source_is_installed_beside_the_module(path: Path) -> None:
    installed = Path(_probes.__file__).parent / "probe_sources" / path.name
    assert f"{path.stem} - " in installed.read_text().split("\n\n")[0]


@pytest.mark.parametrize("function", [probe.hash, probe.params])
def test_unknown_probe_lists_the_known_ones(function) -> None:
    with pytest.raises(ValueError, match=r"no probe 'nop'.*noop"):
        function("nop")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"colour": 1}, TypeError, "probe mmap_write: no param 'colour'"),
        ({"method": "mmapp"}, ValueError, "param 'method' is 'mmapp', expected one of mmap, write"),
        ({"path": 3}, TypeError, "param 'path' is 3, expected a path"),
        ({"size_bytes": "1"}, TypeError, "param 'size_bytes' is '1', expected int"),
        ({"size_bytes": True}, TypeError, "param 'size_bytes' is True, expected int"),
        ({"populate": "yes"}, TypeError, "param 'populate' is 'yes', expected bool"),
        ({"populate": 2}, TypeError, "param 'populate' is 2, expected bool"),
        ({"size_bytes": -1}, ValueError, "param 'size_bytes' is -1, which uint64_t does not hold"),
        ({"slice_ns": 2**64}, ValueError, "which uint64_t does not hold"),
    ],
)
def test_params_that_do_not_fit(change, error, message) -> None:
    with pytest.raises(error, match=re.escape(message)):
        probe.call("mmap_write", NOTHING_BUT_A_PATH | change)


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        ({}, ValueError, "param 'check_steps' is {}, expected a list of up to 6"),
        ([{}] * 7, ValueError, "expected a list of up to 6"),
        (["mmap"], TypeError, "'check_steps'[0] is 'mmap', expected a dict of call, first, count"),
        ([{"calls": "mmap"}], TypeError, "'check_steps'[0] is {'calls': 'mmap'}, expected a dict"),
        ([{"call": "mmapp"}], ValueError, "'check_steps'[0].call is 'mmapp', expected one of end"),
        ([{"first": -1}], ValueError, "'check_steps'[0].first is -1, which uint32_t does not hold"),
    ],
)
def test_an_array_of_structs_that_does_not_fit(steps, error, message) -> None:
    with pytest.raises(error, match=re.escape(message)):
        probe.call("vma_lock", {"check_steps": steps})


def test_missing_param_is_named() -> None:
    params = dict(NOTHING_BUT_A_PATH)
    del params["slice_ns"]
    with pytest.raises(TypeError, match="probe mmap_write: param 'slice_ns' is missing"):
        probe.call("mmap_write", params)


def test_a_failed_call_names_itself() -> None:
    with pytest.raises(probe.ProbeError) as caught:
        probe.call("mmap_write", NOTHING_BUT_A_PATH)
    failure = caught.value
    assert (failure.status, failure.errno_name) == ("error", "ENOENT")
    assert failure.file == "probes/mmap_write.c"
    line = (FOLDER / "mmap_write.c").read_text().splitlines()[failure.line - 1]
    assert line.strip() == f"TRY({failure.call});"
    assert failure.call == "plan.fd = open(in->path, O_RDWR | O_CLOEXEC)"
    assert str(failure) == (
        "probe mmap_write: error: plan.fd = open(in->path, O_RDWR | O_CLOEXEC): ENOENT "
        f"at probes/mmap_write.c:{failure.line}"
    )


GUEST = {"command": "/no/such/qemu", "booted_sign": "x", "memory_bytes": 1, "mem_lock": False}


def test_params_of_a_python_probe() -> None:
    assert probe.params("guest_memory") == {
        "command": "str",
        "booted_sign": "str",
        "memory_bytes": "int",
        "mem_lock": "bool",
        "settle_ns": "int",
    }


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"colour": 1}, TypeError, "probe guest_memory: no param 'colour', it takes command, "),
        ({"settle_ns": "1"}, TypeError, "param 'settle_ns' is '1', expected int"),
        ({"mem_lock": 1}, TypeError, "param 'mem_lock' is 1, expected bool"),
        ({"command": None}, TypeError, "param 'command' is None, expected a path"),
    ],
)
def test_params_that_do_not_fit_a_python_probe(change, error, message) -> None:
    with pytest.raises(error, match=re.escape(message)):
        probe.call("guest_memory", GUEST | {"settle_ns": 1} | change)


def test_a_failed_call_of_a_python_probe_names_itself() -> None:
    with pytest.raises(probe.ProbeError) as caught:
        probe.call("guest_memory", GUEST | {"settle_ns": 1})
    failure = caught.value
    assert (failure.status, failure.errno_name) == ("error", "ENOENT")
    assert failure.file == "memlab/python_probes/guest_memory.py"
    path = next(path for path in MODULES if path.stem == "guest_memory")
    assert path.read_text().splitlines()[failure.line - 1].strip() == failure.call


@pytest.mark.parametrize("name", probe.names())
def test_a_probes_types_can_be_made_before_it_is_called(name: str) -> None:
    probe.bind(name)


def test_what_stays_behind_is_seen() -> None:
    before, end = leavings(), threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    with (
        open("/dev/zero"),
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL),
    ):
        found = leavings() - before
    end.set()
    thread.join()
    assert [line.split()[0] for line in sorted(found)] == ["child", *["descriptor"] * 2, "thread"]
    assert any(line.endswith("/dev/zero") for line in found)
    assert not left(before)
