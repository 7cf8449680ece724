"""A disk too small, and a disk that fills while a sweep runs, in a mount namespace of our own.

The tmpfs is mounted where no other process sees it, as root or in a user namespace, so the host
is as it was.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import needs
import pytest

pytestmark = pytest.mark.slow

SMALL_DISK = Path(__file__).with_name("small_disk.py")
UNSHARE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])


def on_small_disk(folder: Path, mebibytes: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a tmpfs of this size at `folder`, which must exist."""
    mount = f'mount -t tmpfs -o size={mebibytes}m small "$0" && exec "$@"'
    return subprocess.run(
        [*UNSHARE, "sh", "-c", mount, str(folder), *command],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "disk"
    made.mkdir()
    needs.of("a mount namespace")
    return made


def test_a_disk_too_small_is_refused_before_anything_is_made(
    folder: Path, store_path: Path, home: Path
) -> None:
    arguments = ["-p", "file_state=cached_4k", "-p", "file_size=64m", "--dir", str(folder)]
    memlab = [sys.executable, "-m", "memlab", "sweep", "mmap-write", *arguments]
    refused = on_small_disk(folder, 8, *memlab)
    assert refused.returncode == 3
    assert refused.stdout == ""
    assert refused.stderr == (
        f"memlab: the plan needs 80 MiB of free space on {folder}, and 8 MiB is free; "
        "free some, or choose a smaller file_size with -p\n"
    )
    assert not store_path.parent.exists()
    assert list(home.iterdir()) == []


@pytest.fixture
def rows(folder: Path, store_path: Path) -> list[dict[str, Any]]:
    """What small_disk.py printed."""
    script = [sys.executable, str(SMALL_DISK), str(folder), str(store_path)]
    done = on_small_disk(folder, 16, *script)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_disk_that_fills_is_an_outcome_and_the_sweep_goes_on(rows: list[dict[str, Any]]) -> None:
    ended, *samples, left = rows
    assert ended == {"ended": "blocks"}
    assert left == {"left": []}
    assert Counter(row["block"] for row in samples) == dict.fromkeys(range(6), 6)

    full = [row for row in samples if row["block"] in range(1, 4)]
    assert all(row["outcome"] == "ok" for row in samples if row not in full)

    def ends(state: str, method: str) -> set[tuple[str, str]]:
        chosen = [row for row in full if (row["state"], row["method"]) == (state, method)]
        assert len(chosen) == 3
        return {(row["outcome"], (row["detail"] or "").partition(" at ")[0]) for row in chosen}

    no_space = "preparing the trial: [Errno 28] No space left on device"
    assert ends("preallocated", "mmap") == ends("preallocated", "write") == {("error", no_space)}
    (write,) = ends("sparse", "write")
    assert write[0] == "error"
    assert write[1].startswith("probe mmap_write: error: ")
    assert write[1].endswith(": ENOSPC")
    bus = "ended by SIGBUS: ENOSPC, no space left for the file's page"
    assert ends("sparse", "mmap") == {("sigbus", bus)}
    assert ends("cached_1m", "mmap") == ends("cached_1m", "write") == {("ok", "")}
