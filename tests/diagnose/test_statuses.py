"""Some numbers of /proc/PID/status of each of many processes."""

from __future__ import annotations

from pathlib import Path

from memlab.diagnose import group, statuses

MANY_GROUPS = "Groups:\t" + " ".join(map(str, range(3_000_000_000, 3_000_065_536)))


def test_each_has_its_numbers_and_one_that_is_gone_has_none(tmp_path: Path) -> None:
    texts = {
        7: "Name:\tVmRSS: 9\nThreads:\t3\nVmRSS:\t      20 kB\nRssAnon:\t 12 kB\n",
        8: "Name:\tkworker\nThreads:\t1\n",
        9: f"Name:\ta\n{MANY_GROUPS}\nVmRSS:\t4294967296 kB\nRssAnon:\t0 kB\nThreads:\t65536\n",
        10: "",
    }
    for pid, text in texts.items():
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/status").write_text(text)
    names = (b"Threads", b"VmRSS", b"RssAnon")
    assert list(statuses.read([7, 8, 9, 10, 11], names, tmp_path)) == [
        (3, 20, 12), (1, None, None), (65536, 4294967296, 0), None, None,
    ]  # fmt: skip
    assert list(statuses.read([], names, tmp_path)) == []
    seen = group.of_processes([7, 8, 0, 11], tmp_path)
    assert (seen.stacks_bytes, seen.resident_bytes, seen.hidden) == (4 << 14, {7: 20 << 10}, 2)


def test_each_has_the_number_of_its_namespace(tmp_path: Path) -> None:
    for pid, link in ((7, "ipc:[4026531839]"), (8, "elsewhere"), (9, "ipc:[4026532999]")):
        (tmp_path / f"proc/{pid}/ns").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/ns/ipc").symlink_to(link)
    numbers = statuses.namespaces([7, 8, 9, 10], "ipc", tmp_path)
    assert numbers == [4026531839, None, 4026532999, None]
    assert statuses.namespaces([7], "ipc", tmp_path / "nowhere") == [None]
