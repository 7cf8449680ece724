"""mmap_read: its sums against Python's, its counts, and what it says was in memory."""

import mmap
import random
from pathlib import Path

import offers
import pytest

from memlab import probe

PAGE = mmap.PAGESIZE
PRIME = 23
FILE_METHODS = ("mmap", "read", "pread")


def read(path: Path, **change) -> dict:
    """Runs the probe; a kernel without an advice skips the test."""
    params = {
        "path": path,
        "size_bytes": PAGE,
        "file_size_bytes": PRIME * PAGE,
        "method": "mmap",
        "touch": "sum",
        "advice": "normal",
        "populate": False,
        "slice_ns": 0,
    }
    return offers.offered(lambda: probe.call("mmap_read", params | change), lacking=True)


def filled(folder: Path, size_bytes: int) -> Path:
    path = folder / "file"
    path.write_bytes(random.Random(23).randbytes(size_bytes))
    return path


def pattern(size_bytes: int) -> bytes:
    """buffer_pattern in probes/support/buffer.h: what anon memory holds."""
    return bytes(1 + i % 251 for i in range(size_bytes))


def words_sum(data: bytes) -> int:
    """Whole 64-bit little-endian words and the remaining bytes."""
    words = len(data) // 8 * 8
    total = sum(int.from_bytes(data[i : i + 8], "little") for i in range(0, words, 8))
    return (total + sum(data[words:])) % 2**64


def calls_sum(data: bytes, size: int) -> int:
    whole = len(data) // size * size
    return sum(words_sum(data[i : i + size]) for i in range(0, whole, size)) % 2**64


@pytest.mark.parametrize("method", FILE_METHODS)
@pytest.mark.parametrize("size", [1, 3, 8, 31, 100, 4096, 10240])
def test_sum_is_exact(shm: Path, method: str, size: int) -> None:
    path = filled(shm, 3 * 10240 + 7)
    result = read(path, method=method, size_bytes=size, file_size_bytes=3 * 10240 + 7)
    assert result["sum"] == calls_sum(path.read_bytes(), size)
    assert result["call_count"] == (3 * 10240 + 7) // size


@pytest.mark.parametrize("size", [1, 100, 4096])
def test_sum_of_anonymous_memory(size: int) -> None:
    result = read(Path("unused"), method="anon", size_bytes=size, file_size_bytes=8195)
    assert result["sum"] == calls_sum(pattern(8195), size)
    assert result["resident_before_bytes"] == -(-8195 // PAGE) * PAGE


@pytest.mark.parametrize(
    ("method", "touch"), [("mmap", "copy"), ("read", "none"), ("read", "copy"), ("pread", "sum")]
)
@pytest.mark.parametrize("size", [1, 100, 4096])
def test_the_buffer_holds_the_last_call(shm: Path, method: str, touch: str, size: int) -> None:
    path = filled(shm, 3 * size)
    result = read(path, method=method, touch=touch, size_bytes=size, file_size_bytes=3 * size)
    assert result["buffer_sum"] == words_sum(path.read_bytes()[-size:])


@pytest.mark.parametrize("method", [*FILE_METHODS, "anon"])
@pytest.mark.parametrize("touch", ["none", "sum", "copy"])
def test_twice_the_file_is_twice_the_calls(shm: Path, method: str, touch: str) -> None:
    path = filled(shm, 46 * PAGE)
    once = read(path, method=method, touch=touch)
    twice = read(path, method=method, touch=touch, file_size_bytes=46 * PAGE)
    assert (once["call_count"], twice["call_count"]) == (PRIME, 2 * PRIME)
    assert twice["byte_count"] == 2 * once["byte_count"] == 2 * PRIME * PAGE


def test_a_slice_reads_nothing(shm: Path) -> None:
    """touch=none makes pointers: no page is faulted in, no byte summed."""
    result = read(filled(shm, PRIME * PAGE), touch="none")
    assert (result["sum"], result["buffer_sum"]) == (0, 0)
    assert result["window"]["minor_fault_count"] == 0


@pytest.mark.parametrize("change", [{"populate": True}, {"advice": "populate_read"}])
def test_a_populated_mapping_does_not_fault(shm: Path, change: dict) -> None:
    result = read(filled(shm, PRIME * PAGE), **change)
    assert result["window"]["minor_fault_count"] == 0


@pytest.mark.parametrize("method", FILE_METHODS)
def test_resident_bytes_are_those_in_the_page_cache(shm: Path, method: str) -> None:
    path = shm / "file"
    with open(path, "wb") as file:
        file.truncate(PRIME * PAGE)
        file.seek(7 * PAGE)
        file.write(b"x" * (5 * PAGE))
    assert read(path, method=method)["resident_before_bytes"] == 5 * PAGE


def test_the_slice_ends_the_loop(shm: Path) -> None:
    """4 Gi calls would take minutes; the slice is a tenth of a second, in which a
    stopped machine may make none."""
    path = shm / "file"
    with open(path, "wb") as file:
        file.truncate(1 << 32)
    result = read(path, method="pread", size_bytes=1, file_size_bytes=1 << 32, slice_ns=10**8)
    assert result["sliced"]
    assert result["call_count"] < 1 << 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size_bytes": 0}, "size_bytes must be from 1 to file_size_bytes: EINVAL"),
        ({"method": "read", "advice": "hugepage"}, "advice needs method mmap or anon: EINVAL"),
        ({"advice": "populate_write"}, "populate_write needs method anon"),
        ({"method": "anon", "populate": True}, "populate needs method mmap: EINVAL"),
        ({"file_size_bytes": 1 << 30}, "the file is shorter than file_size_bytes: EINVAL"),
        ({"path": "/nonexistent"}, r"open\(in->path, O_RDONLY \| O_CLOEXEC\): ENOENT"),
    ],
)
def test_params_that_make_no_sense(shm: Path, change: dict, message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        read(**{"path": filled(shm, PRIME * PAGE)} | change)
