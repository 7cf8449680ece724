"""A process under diagnosis may belong to anybody: its names, its files, what it loses by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memlab.diagnose import heap
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


def test_a_file_that_shrinks_is_read_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mapped, it would end this process with SIGBUS."""
    file = tmp_path / "library.so"
    file.write_bytes(b"x" * 1_000_000)
    fstat = os.fstat

    def then_shrunk(fd: int) -> os.stat_result:
        found = fstat(fd)
        os.truncate(file, 7)
        return found

    monkeypatch.setattr(files.os, "fstat", then_shrunk)
    assert files.content(file, 1_000_000) == b"x" * 7


RESERVES = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
PRIVATE_ANONYMOUS_NORESERVE = 0x4022
at = libc.mmap(None, ctypes.c_size_t(int(sys.argv[1])), 3, PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
print(at, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("reserved", "seen"), [(1 << 40, True), (80 << 40, False)])
def test_what_a_process_reserved_and_never_touched_stays_untouched(
    reserved: int, seen: bool
) -> None:
    """As sanitizers and Java do: a page table for each 64 MiB of it would be 64 MiB per TiB."""
    words = [sys.executable, "-c", RESERVES, str(reserved)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            assert 0 < int(program.stdout.readline()) < 1 << 63
            before = page_tables_bytes(program.pid)
            maps = process.maps(program.pid)
            held, unseen = heap.read(program.pid, maps, "glibc", swapped=False)
            assert page_tables_bytes(program.pid) - before <= 1 << 20
        finally:
            program.kill()
    assert (held is not None) == seen
    assert bool(unseen) != seen


SCRIBBLES = """
import mmap, random, struct, sys, time, ctypes
draw = random.Random(int(sys.argv[1]))
whole = 64 << 20
held = mmap.mmap(-1, 2 * whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
begin = ctypes.addressof(ctypes.c_char.from_buffer(held))
start = -(-begin // whole) * whole
at = start - begin
sizes = [0, 1, 8, 16, 32, 33, 4096, whole, 1 << 63, 2**64 - 1, -16 % 2**64]
for place in range(at, at + (1 << 20), 8):
    held[place : place + 8] = struct.pack("Q", draw.choice(sizes))
held[at : at + 24] = struct.pack("3Q", start + 32, 0, whole)  # a heap_info, as in malloc/arena.c
print(start, flush=True)
time.sleep(60)
"""


def page_tables_bytes(pid: int) -> int:
    status = (proc.ROOT / f"proc/{pid}/status").read_text()
    return int(status.partition("VmPTE:")[2].split()[0]) * 1024


@pytest.mark.parametrize("seed", range(20))
def test_a_heap_that_holds_anything_is_given_up(seed: int) -> None:
    """[heap] and the place of a thread's heap hold random words, sizes of 0 among them."""
    words = [sys.executable, "-c", SCRIBBLES, str(seed)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            start = int(program.stdout.readline())
            ours = process.Mapping(start, start + (64 << 20), "rw-p", "")
            held, unseen = heap.read(program.pid, [ours], "glibc", swapped=False)
        finally:
            program.kill()
    assert held is None
    assert unseen == () or any(
        w in unseen[0].reason for w in ("another form", "not resident", "pieces")
    )


def test_a_fifo_in_place_of_a_library_is_passed_over(binary: Compiled, tmp_path: Path) -> None:
    library = library_of(tmp_path, "libjemalloc.so.2")
    with running(binary("steady"), "1", environ={"LD_PRELOAD": str(library)}) as program:
        library.unlink()
        os.mkfifo(f"{library} (deleted)")
        os.mkfifo(library)
        malloc = found(program.pid)
    assert malloc.name == "jemalloc"
    assert malloc.version in ("4.2.0", None)


@pytest.mark.needs("root's capabilities")
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
        shown = subprocess.run(words, capture_output=True, timeout=300, check=False)
        data = subprocess.run([*words, "--json"], capture_output=True, timeout=300, check=False)
    assert (shown.returncode, data.returncode) == (0, 0), shown.stderr
    said = shown.stdout.decode()
    assert not {"\x1b", "\x07", "\u2028", "\u202e", "\r"} & set(said)
    assert not [line for line in said.splitlines() if line.startswith("::")]
    seen = json.loads(data.stdout.decode())["process"]["command"]
    assert os.fsencode(seen) == name
