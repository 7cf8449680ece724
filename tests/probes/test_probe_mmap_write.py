"""mmap_write: what it counts and, byte for byte, what it leaves in the file."""

import mmap
from pathlib import Path

import offers
import pytest
from faults import minor
from fewest import fewest

from memlab import probe

PAGE = mmap.PAGESIZE
METHODS = probe.params("mmap_write")["method"]
PRIME = 23


def write(path: Path, **change) -> dict:
    """Runs the probe; a kernel without io_uring or an advice skips the test."""
    params = {
        "path": path,
        "size_bytes": PAGE,
        "file_size_bytes": PRIME * PAGE,
        "method": "mmap",
        "advice": "normal",
        "populate": False,
        "sync": False,
        "slice_ns": 0,
        "handicap_count": 0,
    }
    return offers.offered(lambda: probe.call("mmap_write", params | change), lacking=True)


def sparse(folder: Path, size_bytes: int) -> Path:
    path = folder / "file"
    with open(path, "wb") as file:
        file.truncate(size_bytes)
    return path


def source(size_bytes: int) -> bytes:
    """What one call writes: buffer_pattern in probes/support/buffer.h."""
    return bytes(1 + i % 251 for i in range(size_bytes))


def test_a_cold_mapping_faults_once_a_page(shm: Path) -> None:
    result = write(sparse(shm, PRIME * PAGE))
    assert result["call_count"] == PRIME
    assert minor(result["window"]) == PRIME


@pytest.mark.parametrize("change", [{"populate": True}, {"advice": "populate_write"}])
def test_a_populated_mapping_does_not_fault(shm: Path, change: dict) -> None:
    result = write(sparse(shm, PRIME * PAGE), **change)
    assert result["call_count"] == PRIME
    assert minor(result["window"]) == 0
    assert result["prepare_ns"] > 0


@pytest.mark.parametrize("method", METHODS)
def test_calls_and_bytes_are_exact(shm: Path, method: str) -> None:
    result = write(sparse(shm, PRIME * PAGE), method=method)
    assert (result["call_count"], result["byte_count"]) == (PRIME, PRIME * PAGE)
    assert result["floor_call_count"] == PRIME
    assert not result["sliced"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 100, 4096, 10240, 100_003])
def test_every_byte_reaches_the_file(shm: Path, method: str, size: int) -> None:
    file_size = 3 * size + max(size // 2, 1) if size > 1 else 3
    path = sparse(shm, file_size + 5)
    result = write(path, method=method, size_bytes=size, file_size_bytes=file_size)
    assert result["call_count"] == 3
    rest = file_size + 5 - 3 * size
    assert path.read_bytes() == source(size) * 3 + bytes(rest)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1, 64, 4096])
def test_twice_the_file_is_twice_the_calls(shm: Path, method: str, size: int) -> None:
    path = sparse(shm, 2 * 4096)
    once = write(path, method=method, size_bytes=size, file_size_bytes=4096)
    twice = write(path, method=method, size_bytes=size, file_size_bytes=2 * 4096)
    assert twice["call_count"] == 2 * once["call_count"] == 2 * 4096 // size
    assert twice["byte_count"] == 2 * once["byte_count"]


@pytest.mark.parametrize("method", ["mmap", "write"])
def test_sync_is_timed_apart(shm: Path, method: str) -> None:
    path = sparse(shm, PRIME * PAGE)
    assert write(path, method=method)["sync_ns"] == 0
    assert write(path, method=method, sync=True)["sync_ns"] > 0


def test_the_slice_ends_the_loop(shm: Path) -> None:
    """4 Gi calls of one byte would take minutes; the slice is a tenth of a second, in which a
    stopped machine may make none."""
    size = 1 << 32
    result = write(
        sparse(shm, size), method="write", size_bytes=1, file_size_bytes=size, slice_ns=10**8
    )
    assert result["sliced"]
    assert result["call_count"] < size
    assert result["byte_count"] == result["call_count"]
    assert result["floor_call_count"] == min(result["call_count"], 1 << 20)


def test_the_slice_of_one_run_does_not_end_the_next(shm: Path) -> None:
    path = sparse(shm, 1 << 24)
    write(path, method="write", size_bytes=1, file_size_bytes=1 << 24, slice_ns=1)
    result = write(path, size_bytes=1, file_size_bytes=1 << 20)
    assert (result["call_count"], result["sliced"]) == (1 << 20, False)


@pytest.mark.parametrize("method", ["write", "dontcache"])
def test_what_stays_in_the_page_cache_is_counted(tmp_path: Path, method: str) -> None:
    """RWF_DONTCACHE drops a page as soon as it is on the disk, unless another has it just then."""

    def written() -> dict:
        path = sparse(tmp_path, PRIME * PAGE)
        result = write(path, method=method, sync=True)
        assert path.read_bytes() == source(PAGE) * PRIME
        if result["cached_bytes"]["error"]:
            pytest.skip(f"cachestat: {result['cached_bytes']['error']}")
        return result["cached_bytes"]

    if method == "dontcache":
        fewest(written, lambda cached: cached["count"], 0)
    else:
        assert written()["count"] in (PRIME * PAGE, 0)  # an overlay's pages are those of another


@pytest.mark.parametrize("method", ["write", "writev"])
def test_a_full_disk_is_named(method: str) -> None:
    with pytest.raises(probe.ProbeError, match=rf"{method}\(.*\): ENOSPC at probes/mmap_write.c"):
        write(Path("/dev/full"), method=method)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size_bytes": 0}, "size_bytes must be from 1 to file_size_bytes: EINVAL"),
        ({"size_bytes": 2 * PAGE, "file_size_bytes": PAGE}, "size_bytes must be from 1"),
        ({"method": "write", "populate": True}, "populate and advice need method mmap: EINVAL"),
        ({"method": "write", "advice": "hugepage"}, "populate and advice need method mmap"),
        ({"file_size_bytes": 1 << 30}, "the file is shorter than file_size_bytes: EINVAL"),
    ],
)
def test_params_that_make_no_sense(shm: Path, change: dict, message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        write(sparse(shm, PAGE), **change)
