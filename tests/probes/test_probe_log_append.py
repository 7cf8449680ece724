"""log_append: what it counts, how often it flushes and, byte for byte, what it leaves."""

import mmap
from pathlib import Path

import offers
import pytest
from faults import minor

from memlab import probe

PAGE = mmap.PAGESIZE
METHODS = probe.params("log_append")["method"]
MAPPED = ("mmap", "populated")
PRIME = 23


def append(path: Path, **change) -> dict:
    """Runs the probe; a kernel or file system without O_DIRECT or RWF_DONTCACHE skips the test."""
    params = {
        "path": path,
        "record_bytes": PAGE,
        "segment_bytes": PRIME * PAGE,
        "method": "write",
        "flush_every_count": 0,
        "slice_ns": 0,
    }
    return offers.offered(lambda: probe.call("log_append", params | change), lacking=True)


def segment(folder: Path, size_bytes: int) -> Path:
    path = folder / "segment"
    with open(path, "wb") as file:
        file.truncate(size_bytes)
    return path


def record(size_bytes: int) -> bytes:
    """What one record holds: buffer_pattern in probes/support/buffer.h."""
    return bytes(1 + i % 251 for i in range(size_bytes))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("length", [0, PRIME * PAGE], ids=["grows", "preallocated"])
def test_every_byte_of_every_record_reaches_the_segment(
    tmp_path: Path, method: str, length: int
) -> None:
    path = segment(tmp_path, length)
    result = append(path, method=method)
    assert (result["record_count"], result["floor_record_count"]) == (PRIME, PRIME)
    assert not result["sliced"]
    assert path.read_bytes() == record(PAGE) * PRIME


@pytest.mark.parametrize("method", [one for one in METHODS if one != "direct"])
@pytest.mark.parametrize("size", [1, 100, 4096, 10_007])
def test_records_of_any_size_lie_end_to_end(shm: Path, method: str, size: int) -> None:
    length = 7 * size + size // 2
    path = segment(shm, length)
    result = append(path, method=method, record_bytes=size, segment_bytes=length)
    assert result["record_count"] == 7
    assert path.read_bytes() == record(size) * 7 + bytes(size // 2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("every", "flushes"), [(1, PRIME), (5, 5), (PRIME, 1), (100, 1), (0, 1)])
def test_flushes_are_exact(tmp_path: Path, method: str, every: int, flushes: int) -> None:
    """The last records are flushed too: 23 by fives are four flushes and one."""
    result = append(segment(tmp_path, PRIME * PAGE), method=method, flush_every_count=every)
    assert result["flush_count"] == flushes
    assert 0 < result["flush_ns"] < result["window"]["elapsed_ns"]


@pytest.mark.parametrize("method", METHODS)
def test_twice_the_segment_is_twice_the_records_and_flushes(tmp_path: Path, method: str) -> None:
    path = segment(tmp_path, 16 * PAGE)
    once = append(path, method=method, segment_bytes=8 * PAGE, flush_every_count=2)
    twice = append(path, method=method, segment_bytes=16 * PAGE, flush_every_count=2)
    assert (once["record_count"], once["flush_count"]) == (8, 4)
    assert (twice["record_count"], twice["flush_count"]) == (16, 8)


def test_a_mapping_faults_once_a_page_and_a_populated_one_never(shm: Path) -> None:
    assert minor(append(segment(shm, PRIME * PAGE), method="mmap")["window"]) == PRIME
    populated = append(segment(shm, PRIME * PAGE), method="populated")
    assert minor(populated["window"]) == 0
    assert populated["prepare_ns"] > 0


@pytest.mark.parametrize("method", ["write", "mmap"])
def test_the_slice_ends_the_loop_and_what_was_appended_is_flushed(shm: Path, method: str) -> None:
    """4 Gi records of one byte would take minutes; the slice is a tenth of a second, in which a
    busy machine may leave no time for a record."""
    size = 1 << 32
    result = append(
        segment(shm, size), method=method, record_bytes=1, segment_bytes=size, slice_ns=10**8
    )
    assert result["sliced"]
    assert result["record_count"] < size
    assert result["flush_count"] == 1


def test_a_full_disk_is_named() -> None:
    with pytest.raises(probe.ProbeError, match=r"write\(.*\): ENOSPC at probes/log_append.c"):
        append(Path("/dev/full"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"record_bytes": 0}, "record_bytes must be from 1 to segment_bytes: EINVAL"),
        ({"record_bytes": 2 * PAGE, "segment_bytes": PAGE}, "record_bytes must be from 1"),
        ({"method": "direct", "record_bytes": 100}, "O_DIRECT moves whole blocks"),
    ],
)
def test_params_that_make_no_sense(shm: Path, change: dict, message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        append(segment(shm, PAGE), **change)
