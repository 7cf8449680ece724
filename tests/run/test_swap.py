"""Swap of a run: a contained trial outgrows its limit with it, and is killed without."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from held import (
    GROUPS,
    LIMIT,
    MAY_SWAP,
    PYTHON_PROBE,
    RUN,
    SWAPS,
    TOUCH_64_MIB,
    at,
    contained,
    held_or_skipped,
    is_unavailable,
    left_on_host,
    own_areas,
    refused,
    saying,
)

from memlab.observe import capabilities, guest_tools, proc
from memlab.run import cleanup, fork_server, journal, swap
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor
from memlab.run.journal import Journal
from memlab.run.settings import Unavailable
from memlab.run.swap import Swap

pytestmark = pytest.mark.changes_host

CPU = max(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert left_on_host() == []


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalExecutor]:
    """An executor on the disk of this checkout, since a test's own folder may be a tmpfs."""
    monkeypatch.setattr(
        fork_server, "_BOOT", fork_server._BOOT.replace("main()", PYTHON_PROBE + "main()")
    )
    with LocalExecutor(RUN, saying(), Directories(Path("/var/tmp")), [CPU]) as executor:
        yield executor
    assert list(Path("/var/tmp").glob(f"memlab-{RUN}-*")) == []
    assert list(journal.folder().iterdir()) == []


def skip_without(kind: str) -> None:
    """Where /sys is read-only there is no zram."""
    if "/sys may not be written" in (missing := swap.lack(kind)):
        pytest.skip(missing)


@pytest.mark.parametrize("kind", ["file", "zram"])
def test_with_swap_a_trial_outgrows_its_limit(opened: LocalExecutor, kind: str) -> None:
    skip_without(kind)
    reply = opened.trial(at(do=TOUCH_64_MIB, swap=kind))
    what = kind if SWAPS else "swap" if GROUPS else "a memory cgroup"
    held_or_skipped(reply, SWAPS and not swap.lack(kind), what)
    assert reply["outcome"] == "ok", reply
    status = proc.parse_status(reply["result"]["said"])
    assert (proc.status_bytes(status, "VmSwap") or 0) >= LIMIT // 2
    assert (proc.status_bytes(status, "VmRSS") or 0) < 64 << 20
    assert own_areas() == [kind]
    killed = opened.trial(at(do=TOUCH_64_MIB, swap="none"))
    assert (killed["outcome"], killed["context"]["host"]["group_oom_kill"]) == ("oom-killed", 1)
    assert own_areas() == []


def test_one_area_is_on_at_a_time(opened: LocalExecutor) -> None:
    skip_without("zram")
    for kind in ("file", "zram", "file", "zram", "none"):
        reply = opened.trial(at(do="7", swap=kind))
        offered = SWAPS and not swap.lack(kind)
        good = offered or (GROUPS and kind == "none")
        assert reply["outcome"] == ("ok" if good else "unavailable")
        assert own_areas() == ([kind] if offered and kind != "none" else [])


def test_a_filesystem_that_cannot_swap_is_named(tmp_path: Path) -> None:
    """tmpfs: swapon(2) says EINVAL."""
    held = saying(containment=contained(limit=lambda _: None))
    with LocalExecutor(RUN, held, Directories(Path("/dev/shm")), [CPU]) as executor:
        reply = executor.trial(at(do="7", swap="file"))
    assert is_unavailable(reply, "swap")
    if SWAPS:
        assert reply["detail"].endswith(" on tmpfs: name a place on ext4 or xfs with --dir")


def test_an_area_is_known_by_its_label(tmp_path: Path) -> None:
    path, opened = tmp_path / "swap", Journal(RUN)
    path.write_bytes(bytes(23 * mmap.PAGESIZE))
    path.chmod(0o600)
    Swap(opened, RUN, 23 * mmap.PAGESIZE + 1, tmp_path)._write_header(path)
    opened.close()
    page = path.read_bytes()[: mmap.PAGESIZE]
    assert page[cleanup.LABEL_AT :].startswith(f"memlab-{RUN}\0".encode())
    assert cleanup._is_labelled(path)
    path.write_bytes(page.replace(b"memlab-", b"precious"))
    assert not cleanup._is_labelled(path)


def test_without_mkswap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_tools, "find", lambda _: None)
    opened = Journal(RUN)
    with pytest.raises(Unavailable, match="needs mkswap, and it is not here: apt install util-li"):
        Swap(opened, RUN, 23 * mmap.PAGESIZE, tmp_path)._write_header(tmp_path / "swap")
    opened.close()


def test_a_journal_that_names_another_area_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "swap"
    precious.write_text("x")
    assert refused("swap", precious) == f"swap {precious}: not a swap file that memlab made"
    for path in (Path("/sys/block/vda"), Path("/sys/block/zram1/../zram0"), tmp_path / "zram1"):
        assert refused("zram", path, node="/dev/null") == f"zram {path}: not a zram device"


def test_a_swap_file_is_removed_and_not_overwritten(tmp_path: Path) -> None:
    """Whoever reads the disk below finds what was swapped out: memlab's own patterns."""
    opened = Journal(RUN)
    made = opened.make_folder(tmp_path, f"{RUN}-swap")
    (made / "swap").write_bytes(b"pattern" * mmap.PAGESIZE)
    opened.note_swap_file(made / "swap")
    with (made / "swap").open("rb") as held:
        opened.close()
        assert not made.exists()
        assert held.read() == b"pattern" * mmap.PAGESIZE


def test_a_zram_number_that_went_to_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In use by another program: its header carries no label of ours."""
    node = tmp_path / "zram7"
    node.write_bytes(b"another" + bytes(2 * mmap.PAGESIZE))
    monkeypatch.setattr(cleanup.re, "fullmatch", lambda *_: True)
    (tmp_path / "disksize").write_text("4096\n")
    device = node.stat().st_rdev
    (tmp_path / "dev").write_text(f"{os.major(device)}:{os.minor(device)}\n")
    with pytest.raises(cleanup.NotOurs, match="another program's zram device"):
        cleanup.remove_zram(tmp_path, node)
    node.write_bytes(bytes(2 * mmap.PAGESIZE))  # just configured, by whoever
    with pytest.raises(cleanup.NotOurs, match="another program's zram device"):
        cleanup.remove_zram(tmp_path, node)
    (tmp_path / "dev").write_text("253:7\n")
    with pytest.raises(cleanup.NotOurs, match="is another device"):
        cleanup.remove_zram(tmp_path, node)


@pytest.mark.parametrize(
    ("mark", "has", "removed"),
    [("", "128", False), ("64", "128", False), ("128", "128", False), ("70784", "70784", True)],
)
def test_an_unconfigured_zram_is_ours_where_it_bears_the_journals_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, has: str, removed: bool
) -> None:
    """A planted entry named this host's /sys/block/zram0, and `clean` removed it. The readahead
    that every new device has is no mark."""
    device, control = tmp_path / "zram7", tmp_path / "control"
    (device / "queue").mkdir(parents=True)
    (device / "disksize").write_text("0\n")
    (device / "queue/read_ahead_kb").write_text(f"{has}\n")
    control.mkdir()
    monkeypatch.setattr(cleanup, "ZRAM_CONTROL", control)
    monkeypatch.setattr(cleanup.re, "fullmatch", lambda *_: True)
    if removed:
        assert cleanup.remove_zram(device, tmp_path / "node", mark=mark)
    else:
        with pytest.raises(cleanup.NotOurs, match="another program's zram device"):
            cleanup.remove_zram(device, tmp_path / "node", mark=mark)
    assert [path.read_text() for path in control.iterdir()] == ["7"] * removed


@pytest.mark.parametrize(
    ("after_s", "last", "removed"), [(0, 1, 1), (-60, 1, 0), (60, 1, 0), (0, 0, 0)]
)
def test_an_unmarked_zram_is_ours_where_it_came_right_after_the_journals_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_s: int, last: int, removed: int
) -> None:
    """The driver was killed between hot_add and the mark: `clean` took it for another program's."""
    device, control = tmp_path / "zram7", tmp_path / "control"
    (device / "queue").mkdir(parents=True)
    (device / "disksize").write_text("0\n")
    (device / "queue/read_ahead_kb").write_text("128\n")
    control.mkdir()
    monkeypatch.setattr(cleanup, "ZRAM_CONTROL", control)
    monkeypatch.setattr(cleanup.re, "fullmatch", lambda *_: True)
    opened = Journal("0123abcd")
    opened.note_zram(device, tmp_path / "node", "70784")
    if not last:
        opened.make_folder(tmp_path, "0123abcd-dir")
    (tmp_path / "node").touch()
    now_ns = (tmp_path / "node").stat().st_ctime_ns
    os.utime(opened.path, ns=(now_ns, now_ns - 10**9 * after_s))
    assert journal.undo_whole(opened.fd, opened.path, 0.0) == bool(removed)
    assert [path.read_text() for path in control.iterdir()] == ["7"] * removed
    os.close(opened.fd)


def test_where_sys_is_read_only_no_device_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read of hot_add makes one all the same: every trial left a device that nobody removes."""
    for name in ("hot_add", "hot_remove"):
        (tmp_path / name).write_text("7")
    monkeypatch.setattr(swap, "ZRAM_CONTROL", tmp_path)
    swaps = SimpleNamespace(available=True)
    monkeypatch.setattr(capabilities, "add_swap", lambda _: swaps)
    assert swap.lack("zram") == ""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    assert swap.lack("zram").startswith("needs zram, and /sys may not be written")


def test_zram_that_is_not_loaded_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "ZRAM_CONTROL", tmp_path / "nosuch")
    held = saying(containment=contained(limit=lambda _: None))
    with LocalExecutor(RUN, held, Directories(tmp_path), [CPU]) as executor:
        reply = executor.trial(at(do="7", swap="zram"))
    assert is_unavailable(reply, "zram" if MAY_SWAP else "swap")


def test_no_device_is_added_where_none_could_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose /sys is read-only: a sweep left one device more each time."""
    (tmp_path / "hot_add").write_text("7\n")
    monkeypatch.setattr(swap, "ZRAM_CONTROL", tmp_path)
    held = saying(containment=contained(limit=lambda _: None))
    with LocalExecutor(RUN, held, Directories(tmp_path), [CPU]) as executor:
        reply = executor.trial(at(do="7", swap="zram"))
    assert is_unavailable(reply, "zram" if MAY_SWAP else "swap")
    assert "/sys may not be written" in reply["detail"] or not MAY_SWAP
