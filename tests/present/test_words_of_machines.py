"""What stands beside the times of a machine that is not as most are."""

from pathlib import Path

import pytest
from stored_runs import ENVIRONMENT, stored

from memlab.present import words


@pytest.mark.parametrize(
    ("filesystem", "kib", "said"),
    [
        ("dir", 8192, "readahead is 8 MiB at /var/tmp, not Linux's 128 KiB"),
        ("dir", 0, "readahead is 0 B at /var/tmp"),
        ("dir", 128, ""),
        ("dir", None, ""),  # an older run's
        ("tmpfs", 8192, ""),  # no point has a file there
    ],
)
def test_another_readahead_than_the_default_is_said(
    filesystem: str, kib: int | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"path": "/var/tmp", "type": "ext4"} | ({} if kib is None else {"readahead_kib": kib})
    monkeypatch.setitem(ENVIRONMENT["filesystems"], "dir", place)  # type: ignore[arg-type]
    found = [*words.machine_remarks(stored(tmp_path, filesystem=[filesystem]))]
    assert len(found) == bool(said)
    assert not said or found[0].startswith(said)
