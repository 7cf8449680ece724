"""Shared memory by kind: what is said of each, from made-up lines and files."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import needs
import pytest

from memlab.diagnose import group_limits, held, held_shared, pages, shared, stock, sysvipc
from memlab.diagnose.pages import Pages
from memlab.diagnose.shared import SharedUse
from memlab.diagnose.static_data import FileMemory, PrivateOfFiles
from memlab.observe import namespaces, process

from .live import running
from .looks import MiB, charge, group, look, memory

PATHS = {
    "/dev/zero (deleted)": shared.ANONYMOUS,
    "[anon_shmem:pool]": shared.ANONYMOUS,
    "[anon:pool]": None,
    "/SYSV00000000 (deleted)": shared.SYSTEM_V,
    "/memfd:cache (deleted)": shared.MEMFD,
    "/dev/shm/ring": shared.NAMED,
    "/dev/shm/ring (deleted)": shared.DELETED,
    "/usr/lib/libc.so.6": None,
    "/home/memfd:": None,
    "": None,
}


@pytest.mark.parametrize(("path", "kind"), PATHS.items())
def test_the_kind_is_that_of_the_mapping(path: str, kind: str | None) -> None:
    assert shared.kind(process.Mapping(0, 4096, "rw-s", path)) == kind


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (shared.ANONYMOUS, "go when the last process that maps them ends"),
        (shared.SYSTEM_V, "stay when this process ends"),
        (shared.MEMFD, "maps them or holds them open ends"),
        (shared.DELETED, "maps them or holds them open ends"),
        (shared.NAMED, "a kill does not free them"),
    ],
)
def test_each_kind_says_when_it_goes(kind: str, words: str) -> None:
    use = SharedUse(kind, 1, "", 48 * MiB, 48 * MiB)
    (found,) = held_shared.findings(
        look(memory=memory(shmem_bytes=48 * MiB, resident_bytes=60 * MiB), shared=(use,))
    )
    assert words in found.title


def test_what_is_of_no_kind_that_is_read_is_said_to_be_that() -> None:
    (found,) = held_shared.findings(
        look(memory=memory(shmem_bytes=48 * MiB, resident_bytes=60 * MiB))
    )
    assert "when they go was not read" in found.title
    assert not found.setting


HEAD = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap\n"


def test_segments_are_told_apart_by_who_made_and_who_attaches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [  # number, permissions, made by, attached, resident MiB
        (1, "1600", 7, 2, 8), (2, "600", 7, 1, 4), (3, "1600", 7, 1, 32), (4, "1600", 9, 1, 64),
        (5, "600", 7, 0, 16),
    ]  # fmt: skip
    (tmp_path / "proc/sysvipc").mkdir(parents=True)
    for name in ("self", "7"):
        (tmp_path / f"proc/{name}/ns").mkdir(parents=True)
        (tmp_path / f"proc/{name}/ns/ipc").symlink_to("ipc:[1]")
    lines = "".join(
        f"0 {number} {mode} 0 {maker} 0 {count} 0 0 0 0 0 0 0 {size * MiB} 0\n"
        for number, mode, maker, count, size in rows
    )
    (tmp_path / "proc/sysvipc/shm").write_text(HEAD + lines)
    for module in (namespaces, sysvipc):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    path = "/SYSV00000000 (deleted)"
    mappings = [
        process.Mapping(4096 * i, 4096 * (i + 1), "rw-s", path, inode=i + 1) for i in range(2)
    ]
    resident = {0: 3 * MiB, 4096: MiB}
    assert shared.attached(7, mappings, resident) == shared.Attached(
        2, 12 * MiB, 1, 8 * MiB, (3,), 32 * MiB, 3 * MiB
    )
    (tmp_path / "proc/7/ns/ipc").unlink()
    (tmp_path / "proc/7/ns/ipc").symlink_to("ipc:[2]")
    assert shared.attached(7, mappings, resident) is None


@pytest.mark.parametrize(
    ("mode", "kind", "goes"),
    [
        ("1600", shared.SYSTEM_V_REMOVED, "go when the last process that attaches them"),
        ("600", shared.SYSTEM_V, "stay when this process ends"),
    ],
)
def test_a_group_has_removed_segments_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, kind: str, goes: str
) -> None:
    """Their mapping is the same, and the page of manual for those that stay is false of them."""
    rows = f"0 5 {mode} 0 7 0 2 0 0 0 0 0 0 0 {48 * MiB} 0\n"
    (tmp_path / "proc/sysvipc").mkdir(parents=True)
    for name in ("self", "7"):
        (tmp_path / f"proc/{name}/ns").mkdir(parents=True)
        (tmp_path / f"proc/{name}/ns/ipc").symlink_to("ipc:[1]")
    (tmp_path / "proc/sysvipc/shm").write_text(HEAD + rows)
    for module in (namespaces, sysvipc):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    behind = {(1, 5): (shared.SYSTEM_V, 48 * MiB)}
    monkeypatch.setattr(shared, "objects", lambda pid, mappings: behind)
    kinds = shared.kinds([7])
    assert kinds == {kind: 48 * MiB}
    whole = charge(used_bytes=60 * MiB, shmem_bytes=48 * MiB)
    (found,) = group_limits.of_files(whole, (), (), None, kinds)
    assert goes in found.title

    attached = shared.Attached(1, 48 * MiB, int(mode == "1600"), 48 * MiB * (mode == "1600"), (), 0)
    use = SharedUse(shared.SYSTEM_V, 1, "/SYSV00000000 (deleted)", 48 * MiB, 48 * MiB)
    room = group(charge=whole)
    by_look = group_limits.of_group(room, look(shared=(use,), attached=attached))
    (found,) = [one for one in by_look if one.name == "group-tmpfs"]
    assert goes in found.title


def test_removed_segments_are_said_once() -> None:
    """They do not stay, as others of System V do."""
    use = SharedUse(shared.SYSTEM_V, 1, "/SYSV00000000 (deleted)", 48 * MiB, 48 * MiB)
    seen = memory(shmem_bytes=48 * MiB, resident_bytes=60 * MiB)
    removed = shared.Attached(1, 48 * MiB, 1, 48 * MiB, (), 0)
    names = [
        one.name
        for attached in (removed, None)
        for one in held_shared.findings(look(memory=seen, shared=(use,), attached=attached))
    ]
    assert names == ["segments-removed", "shared-memory"]


def test_shared_memory_that_it_maps_and_others_touched_is_a_line() -> None:
    """As of a parent that has ended; a file of /dev/shm has a name, and stays anyway."""
    uses = tuple(SharedUse(kind, 1, "", 3 * MiB, 20 * MiB) for kind in held_shared.KINDS)
    (line,) = [one for one in stock.of(look(shared=uses)).lines if "not resident" in one.name]
    assert (line.value, line.part_of) == (3 * 17 * MiB, "none")


@pytest.mark.parametrize(("path", "is_so"), [("/memfd:ram (deleted)", True), ("/srv/ram", False)])
def test_what_is_written_in_a_private_mapping_was_touched(path: str, *, is_so: bool) -> None:
    """As a guest's memory, a memfd that is mapped with MAP_PRIVATE: each page is there twice."""
    copies = PrivateOfFiles(copies=(FileMemory(path, 20 * MiB),))
    use = SharedUse(shared.MEMFD, 1, "/memfd:ram (deleted)", 0, 20 * MiB)
    seen = stock.of(look(shared=(use,), of_files=copies))
    (line,) = [one for one in seen.lines if "not resident" in one.name]
    assert ("there beside its copy" in line.note) == is_so


def test_what_is_mapped_three_times_is_there_once() -> None:
    """As the heap of a JVM with ZGC before generations: three views of one memfd."""
    memory = look().memory
    seen = replace(memory, shmem_bytes=96 * MiB, resident_bytes=100 * MiB)
    for mappings, resident, times in ((3, 96, " 3 times"), (1, 32, ""), (3, 32, "")):
        use = SharedUse(shared.MEMFD, 1, "/memfd:heap", resident * MiB, 32 * MiB, mappings)
        shmem = replace(seen, shmem_bytes=resident * MiB)
        (one,) = [
            one for one in held_shared.findings(look(memory=shmem, shared=(use,)))
            if one.name == "shared-memory"
        ]  # fmt: skip
        assert ("32 MiB are there, which it maps 3 times: 64 MiB" in one.title) == bool(times)


def test_objects_are_counted_once_however_often_they_are_mapped() -> None:
    fd = os.memfd_create("twice")
    os.ftruncate(fd, MiB)
    with mmap.mmap(fd, MiB) as first, mmap.mmap(fd, MiB) as second:
        first[0] = second[0] = 1
        mappings = [one for one in process.maps(os.getpid()) if "memfd:twice" in one.path]
        (use,) = shared.uses(os.getpid(), mappings, {one.start: 4096 for one in mappings})
        assert use.mappings == 2
        if use.allocated_bytes is not None:
            assert (use.count, use.allocated_bytes) == (1, 4096)
    os.close(fd)


def test_only_what_is_mapped_once_is_known_to_be_so_much() -> None:
    """Twice the same page counts twice in RssShmem; two parts of a file are two."""
    code = (
        "import mmap, os, sys; fd = os.memfd_create('views'); os.ftruncate(fd, 4 << 20)\n"
        "views = [mmap.mmap(fd, 2 << 20, offset=at << 20) for at in ({})]\n"
        "for view in views: view[:] = bytes(2 << 20)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    sizes = []
    for offsets in ("0, 2", "0, 1", "0, 0"):
        with running(sys.executable, "-c", code.format(offsets)) as program:
            sizes.append(shared.mapped_once(program.pid) / MiB)
            pids = [1 << 30, program.pid]
            assert shared.most_mapped_once(pids) / MiB == pytest.approx(sizes[-1], abs=0.1)
    assert sizes == [pytest.approx(4, abs=1), 0, 0]
    assert shared.most_mapped_once([]) == 0


def test_a_group_says_what_other_groups_pay_of_what_it_maps() -> None:
    for elsewhere, named in ((64 * MiB, True), (8 * MiB, False), (-MiB, False)):
        account = held.stock(charge(), elsewhere_bytes=elsewhere)
        lines = [one for one in account.lines if one.name.startswith("shared memory charged to")]
        assert [(one.value, one.part_of) for one in lines] == [(elsewhere, "none")] * named
        assert account.rest == held.stock(charge()).rest


def scanned(pid: int, mappings: Sequence[process.Mapping]) -> Pages:
    if lacking := needs.lacking("scans of page tables"):
        pytest.skip(lacking)
    return pages.read(pid, mappings, detailed=False)[0]


ELSEWHERE = """
import mmap, os, sys
for name in ("kept", "gone"):
    fd = os.open("{place}/" + name, os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 3 << 20)
    globals()[name] = mmap.mmap(fd, 3 << 20)
    for i in range(0, {size} << 20, 4096): globals()[name][i] = 1
    os.close(fd)
os.unlink("{place}/gone"); print("ready", flush=True); sys.stdin.read()
"""


@pytest.mark.needs("root", "a mount namespace")
@pytest.mark.parametrize("size", [1, 2])
def test_files_of_any_tmpfs_are_shared_memory_by_their_mount(size: int, tmp_path: Path) -> None:
    script = f'mount -t tmpfs x {tmp_path} && exec "$@"'
    code = ELSEWHERE.format(size=size, place=tmp_path)
    with running("unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", code) as program:
        mappings = process.maps(program.pid)
        resident = scanned(program.pid, mappings).files_by_mapping
        seen = shared.uses(program.pid, mappings, resident, 2 * size * MiB)
        without = shared.uses(program.pid, mappings, resident, 0)
    kinds = {(use.kind, use.name, use.resident_bytes) for use in seen}
    assert kinds == {
        (shared.NAMED, f"{tmp_path}/kept", size * MiB),
        (shared.DELETED, f"{tmp_path}/gone (deleted)", size * MiB),
    }  # fmt: skip
    assert without == (), "the mounts are not read without need"


def test_copies_of_pages_of_a_memfd_are_no_shared_memory() -> None:
    fd = os.memfd_create("copied")
    os.ftruncate(fd, 2 * MiB)
    with mmap.mmap(fd, 2 * MiB, mmap.MAP_PRIVATE) as memory_of_it:
        for at in range(0, MiB, 4096):
            memory_of_it[at] = 1
        mappings = [one for one in process.maps(os.getpid()) if "memfd:copied" in one.path]
        seen = scanned(os.getpid(), mappings)
        (use,) = shared.uses(os.getpid(), mappings, seen.files_by_mapping)
        assert sum(seen.by_mapping.values()) == MiB
        assert use.resident_bytes == 0
    os.close(fd)
