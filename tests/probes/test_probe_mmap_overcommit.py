"""mmap_overcommit where memory is enough: what it maps, writes, is refused, and leaves behind."""

import mmap
from pathlib import Path
from typing import Any

import pytest

from memlab import probe
from memlab.observe import proc

PAGE = mmap.PAGESIZE
PRIME = 23
SCENARIOS = {"a": 1, "b": 2}
MAPPINGS = probe.params("mmap_overcommit")["mapping"]
SIZE = 2 * PRIME * PAGE


def sparse(folder: Path, size_bytes: int = SIZE) -> Path:
    path = folder / "file"
    with open(path, "wb") as file:
        file.truncate(size_bytes)
    return path


def outgrow(file: Path, **change: Any) -> dict[str, Any]:
    params = {
        "path": file,
        "file_size_bytes": SIZE,
        "scenario": "a",
        "mapping": "shared",
        "scope": "group",
    }
    return probe.call("mmap_overcommit", params | change)


def seen(result: dict[str, Any], field: str) -> list[int]:
    return [process[field] for process in result["processes"][: result["process_count"]]]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_process_writes_its_part(tmp_path: Path, scenario: str, mapping: str) -> None:
    path = sparse(tmp_path)
    result = outgrow(path, scenario=scenario, mapping=mapping)
    count = SCENARIOS[scenario]
    assert result["process_count"] == count
    assert result["requested_bytes"] == SIZE // count
    assert seen(result, "done_bytes") == [SIZE // count] * count
    assert seen(result, "mmap_errno") == seen(result, "signal") == [0] * count
    assert path.read_bytes() == (b"\1" if mapping == "shared" else b"\0") * SIZE


def test_twice_the_file_is_twice_the_bytes(tmp_path: Path) -> None:
    result = outgrow(sparse(tmp_path, 2 * SIZE), file_size_bytes=2 * SIZE)
    assert seen(result, "done_bytes") == [2 * SIZE]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_the_whole_host_is_mapped_and_not_touched(
    tmp_path: Path, scenario: str, mapping: str
) -> None:
    """Documentation/mm/overcommit-accounting.rst: 0 refuses an obvious overcommit, 1 nothing."""
    path = sparse(tmp_path)
    before = proc.meminfo()
    result = outgrow(path, scenario=scenario, mapping=mapping, scope="host")
    # Another test's swap may have come or gone meanwhile.
    swaps = {before["SwapTotal"], proc.meminfo()["SwapTotal"]}
    assert result["host_bytes"] - before["MemTotal"] in swaps
    count = SCENARIOS[scenario]
    parts = 30 if scenario == "a" else 15
    assert 0 <= result["host_bytes"] * parts // 16 - result["requested_bytes"] < 4 * PAGE
    assert seen(result, "done_bytes") == [0] * count
    assert path.stat().st_blocks == 0
    assert path.stat().st_size == count * result["requested_bytes"]
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "0":
        refused = scenario == "a" and mapping == "private"
        assert seen(result, "mmap_errno") == [12 if refused else 0] * count  # ENOMEM


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file_size_bytes": 0}, "file_size_bytes must be whole pages for each process: EINVAL"),
        ({"file_size_bytes": PAGE, "scenario": "b"}, "file_size_bytes must be whole pages for"),
        ({"file_size_bytes": 2 * SIZE}, "the file is shorter than file_size_bytes: EINVAL"),
        ({"path": "/nonexistent/file"}, "open.*: ENOENT at probes/mmap_overcommit.c"),
    ],
)
def test_params_that_make_no_sense(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(probe.ProbeError, match=message):
        outgrow(sparse(tmp_path), **change)
