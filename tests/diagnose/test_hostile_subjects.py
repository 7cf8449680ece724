"""A process under diagnosis may belong to anybody: its names, its files, what it loses by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memlab.diagnose import memory
from memlab.observe import files, proc, process

from .live import Compiled, running
from .test_allocator import found, library_of

# Characters at which str.splitlines divides and the kernel does not.
DIVIDES = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    fifo, file, link = (tmp_path / name for name in ("fifo", "file", "link"))
    os.mkfifo(fifo)
    file.write_bytes(b"1234567")
    link.symlink_to("/dev/zero")
    for other in (fifo, link, tmp_path, tmp_path / "none", Path("/dev/null")):
        assert files.content(other, 100) is None
    assert files.content(file, 7) == b"1234567"
    assert files.content(file, 6) is None


def test_a_fifo_in_place_of_a_library_is_passed_over(binary: Compiled, tmp_path: Path) -> None:
    library = library_of(tmp_path, "libjemalloc.so.2")
    with running(binary("steady"), "1", environ={"LD_PRELOAD": str(library)}) as program:
        library.unlink()
        os.mkfifo(f"{library} (deleted)")
        os.mkfifo(library)
        malloc = found(program.pid)
    assert malloc.name == "jemalloc"
    assert malloc.version in ("4.2.0", None)


def test_what_is_mapped_is_read_and_not_what_replaced_it(binary: Compiled, tmp_path: Path) -> None:
    """After an upgrade the library is deleted: its file name says the ABI, and no version."""
    library = library_of(tmp_path, "libjemalloc.so.2")
    with running(binary("steady"), "1", environ={"LD_PRELOAD": str(library)}) as program:
        library.unlink()
        malloc = found(program.pid)
    assert malloc.version == ("4.2.0" if os.geteuid() == 0 else None)
    with running(binary("steady"), "1") as program:
        before = found(program.pid)
        (libc,) = {m.path for m in process.maps(program.pid) if Path(m.path).name == "libc.so.6"}
    copy = tmp_path / "libc.so.6"
    shutil.copy(libc, copy)
    with running(binary("steady"), "1", environ={"LD_LIBRARY_PATH": str(tmp_path)}) as program:
        copy.unlink()
        after = found(program.pid)
    assert after.name == "glibc"
    assert after.version == (before.version if os.geteuid() == 0 else None)
    assert after.where == f"{copy} (deleted)"


def test_lines_end_where_the_kernel_ends_them(tmp_path: Path) -> None:
    name = f"a{DIVIDES}b"
    assert proc.parse_status(f"Name:\t{name}\nState:\tS\n") == {"Name": name, "State": "S"}
    (mapping,) = process.parse_maps(f"1000-2000 r-xp 00000000 08:01 7    /x/{name}\n")
    assert mapping.path == f"/x/{name}"
    line = f"22 1 0:5 / /mnt/{name} rw - tmpfs none rw\n"
    assert [mount.mount_point for mount in proc.parse_mountinfo(line * 2)] == [f"/mnt/{name}"] * 2
    (area,) = proc.parse_swaps(f"Filename Type Size Used Priority\n/{name}\u2003x  file\t8 0 -2\n")
    assert area["path"] == f"/{name}\u2003x"
    assert proc.parse_meminfo("") == {}


NAMED = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [b"\x1b]0;pwn\x07", b"a\n::error::x", b"\xff\xfe", "\u2028\u202e".encode(), b"[/x]\r"]
)
def test_a_process_by_any_name_is_looked_at(name: bytes) -> None:
    command = [sys.executable, "-c", NAMED, name.hex()]
    with running(*command) as program:
        words = [sys.executable, "-m", "memlab", "diagnose", str(program.pid), "--seconds", "0.1"]
        shown = subprocess.run(words, capture_output=True, timeout=60, check=False)
        data = subprocess.run([*words, "--json"], capture_output=True, timeout=60, check=False)
    assert (shown.returncode, data.returncode) == (0, 0), shown.stderr
    said = shown.stdout.decode()
    assert not {"\x1b", "\x07", "\u2028", "\u202e", "\r"} & set(said)
    assert not [line for line in said.splitlines() if line.startswith("::")]
    seen = json.loads(data.stdout.decode())["subject"]["command"]
    assert os.fsencode(seen) == name


GROWN = """
import sys
held = bytearray(int(sys.argv[1]) << 20)
held[::4096] = bytes(1) * len(held[::4096])
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_page_tables_of_a_large_process_are_read_where_that_is_asked_for() -> None:
    with running(sys.executable, "-c", GROWN, "80") as program:
        small = memory._WALKED_BYTES_MAX
        assert (proc.status_bytes(proc.status(program.pid), "VmRSS") or 0) > small
        for walk in (False, True):
            words = [sys.executable, "-m", "memlab", "diagnose", str(program.pid), "--json"]
            words += ["--seconds", "0.1", *(["--walk"] if walk else [])]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            seen = json.loads(done.stdout)
            assert (seen["memory"]["huge_bytes"] is not None) == walk
            assert (seen["memory"]["walked_s"] > 0) == walk
            assert any("--walk" in line for line in seen["unseen"]) != walk
