"""What the command's cgroup has counted, of both versions, by folders as the kernel fills them."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlab import probe
from memlab.command.python_probes.command.group import TrialGroup

STATS = {
    "1": "cache 700\nrss 1000\nshmem 200\nworkingset_refault_anon 3\nworkingset_refault_file 4\n",
    "2": "anon 1000\nfile 700\nshmem 200\nworkingset_refault_anon 3\nworkingset_refault_file 4\n",
    "2, of an old kernel": "anon 1000\nfile 500\nshmem 0\nworkingset_refault 7\n",
}


@pytest.mark.parametrize("stat", STATS.values(), ids=STATS.keys())
def test_page_cache_is_that_of_files_and_refaults_are_of_all(stat: str, tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0/memory.stat").write_text(stat)
    readings = TrialGroup(str(tmp_path), "").readings()
    assert readings["group_cache_bytes"] == 500
    assert readings["refault_count"] == 7


def test_a_group_that_is_gone_has_no_numbers(tmp_path: Path) -> None:
    readings = TrialGroup(str(tmp_path), "").readings()
    assert readings["group_cache_bytes"] is None
    assert readings["refault_count"] is None
    assert readings["group_peak_bytes"] is None


def test_a_file_that_no_cgroup_has_is_not_made(tmp_path: Path) -> None:
    """Without a group their paths are those of the root folder."""
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
    group = TrialGroup(str(tmp_path), "")
    group.open_to_load()
    with pytest.raises(probe.Failed, match=r"memory\.high needs cgroup v2"):
        group.set_high(1 << 20)
    assert [*tmp_path.glob("*/*")] == []
