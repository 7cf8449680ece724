"""Swap of a run: a contained trial outgrows its limit with it, and is killed without."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from held import (
    GROUPS,
    LIMIT,
    PYTHON_PROBE,
    RUN,
    SWAPS,
    TOUCH_64_MIB,
    at,
    contained,
    is_unavailable,
    left_on_host,
    own_areas,
    refused,
    saying,
)

from memlab.observe import proc
from memlab.run import journal, swap, takedown, warm
from memlab.run.admission import Places
from memlab.run.bench import Bench
from memlab.run.journal import Journal
from memlab.run.swap import Swap

CPU = max(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert left_on_host() == []


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench on the disk of this checkout, since a test's own folder may be a tmpfs."""
    monkeypatch.setattr(warm, "_BOOT", warm._BOOT.replace("main()", PYTHON_PROBE + "main()"))
    with Bench(RUN, saying(), Places(Path("/var/tmp")), [CPU]) as bench:
        yield bench
    assert list(Path("/var/tmp").glob(f"memlab-{RUN}-*")) == []
    assert list(journal.folder().iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "zram"])
def test_with_swap_a_trial_outgrows_its_limit(opened: Bench, kind: str) -> None:
    reply = opened.trial(at(do=TOUCH_64_MIB, swap=kind))
    if not SWAPS:
        assert reply["outcome"] == "unavailable"
        assert reply["detail"].startswith("needs ")
        return
    assert reply["outcome"] == "ok", reply
    status = proc.parse_status(reply["result"]["said"])
    assert (proc.status_bytes(status, "VmSwap") or 0) >= LIMIT // 2
    assert (proc.status_bytes(status, "VmRSS") or 0) < 64 << 20
    assert own_areas() == [kind]
    killed = opened.trial(at(do=TOUCH_64_MIB, swap="none"))
    assert (killed["outcome"], killed["host"]["group_oom_kill"]) == ("oom-killed", 1)
    assert own_areas() == []


def test_one_area_is_on_at_a_time(opened: Bench) -> None:
    for kind in ("file", "zram", "file", "zram", "none"):
        reply = opened.trial(at(do="7", swap=kind))
        assert reply["outcome"] == ("ok" if SWAPS or (GROUPS and kind == "none") else "unavailable")
        assert own_areas() == ([kind] if SWAPS and kind != "none" else [])


def test_a_filesystem_that_cannot_swap_is_named(tmp_path: Path) -> None:
    """tmpfs: swapon(2) says EINVAL."""
    held = saying(containment=contained(limit=lambda _: None))
    with Bench(RUN, held, Places(Path("/dev/shm")), [CPU]) as bench:
        reply = bench.trial(at(do="7", swap="file"))
    assert is_unavailable(reply, "swap")
    if SWAPS:
        assert reply["detail"].endswith(" on tmpfs: name a place on ext4 or xfs with --dir")


def test_the_header_is_mkswaps(tmp_path: Path) -> None:
    """mkswap(8) of util-linux: version 1, the last page, no bad pages, a label, the signature."""
    path, opened = tmp_path / "swap", Journal(RUN)
    path.write_bytes(bytes(23 * mmap.PAGESIZE))
    Swap(opened, RUN, 23 * mmap.PAGESIZE + 1, tmp_path)._write_header(path)
    opened.close()
    page = path.read_bytes()[: mmap.PAGESIZE]
    assert [int.from_bytes(page[i : i + 4], "little") for i in (1024, 1028, 1032)] == [1, 22, 0]
    assert any(page[1036:1052])
    assert page[1052:1068] == f"memlab-{RUN}\0".encode()
    assert page[-10:] == b"SWAPSPACE2"
    assert takedown._blank_or_ours(path)
    path.write_bytes(page.replace(b"memlab-", b"precious"))
    assert not takedown._blank_or_ours(path)


def test_a_journal_that_names_another_area_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "swap"
    precious.write_text("x")
    assert refused("swap", precious) == f"swap {precious}: not a swap file that memlab made"
    for path in (Path("/sys/block/vda"), Path("/sys/block/zram1/../zram0"), tmp_path / "zram1"):
        assert refused("zram", path, node="/dev/null") == f"zram {path}: not a zram device"


def test_a_zram_number_that_went_to_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In use by another program: its header carries no label of ours."""
    node = tmp_path / "zram7"
    node.write_bytes(b"another" + bytes(2 * mmap.PAGESIZE))
    monkeypatch.setattr(takedown.re, "fullmatch", lambda *_: True)
    (tmp_path / "disksize").write_text("4096\n")
    device = node.stat().st_rdev
    (tmp_path / "dev").write_text(f"{os.major(device)}:{os.minor(device)}\n")
    with pytest.raises(takedown.Refused, match="another program's zram device"):
        takedown.remove_zram(tmp_path, node)
    (tmp_path / "dev").write_text("253:7\n")
    with pytest.raises(takedown.Refused, match="is another device"):
        takedown.remove_zram(tmp_path, node)


def test_zram_that_is_not_loaded_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "ZRAM_CONTROL", tmp_path / "nosuch")
    held = saying(containment=contained(limit=lambda _: None))
    with Bench(RUN, held, Places(tmp_path), [CPU]) as bench:
        reply = bench.trial(at(do="7", swap="zram"))
    assert is_unavailable(reply, "zram" if SWAPS else "swap")
