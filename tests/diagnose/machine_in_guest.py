"""Run in a guest: looks at its machine, as it is, with 64 huge pages in their pool, with 200 MiB of
anonymous shared memory, with 200 MiB paged out to zswap and to zram, and with memory cgroups that
were removed, each kept by a page of a file, before and after the files are removed."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from memlab.diagnose import machine, machine_account, removed_groups

SHARED_BYTES = PAGED_OUT_BYTES = 200 << 20
SWAP_BYTES = 256 << 20
REMOVED, FILE_PAGES = 300, 4
MIXED = os.urandom(2500)  # of each page: the rest is zeros, which compress well
GROUPS = (Path("/sys/fs/cgroup/cgroup.procs"), Path("/sys/fs/cgroup/memory/cgroup.procs"))
LINES = ("free", machine_account.HUGE, machine_account.SHMEM, machine_account.COMPRESSED)
LIBC = ctypes.CDLL(None, use_errno=True)


def look() -> dict[str, object]:
    seen = machine.at(0.1)
    whole = machine_account.of(seen)
    return {
        "total": whole.total,
        "rest": whole.rest,
        "lines": {line.name: line.value for line in whole.lines if line.name in LINES},
        "findings": {
            one.name: one.title if one.line == machine_account.COMPRESSED else ""
            for one in machine_account.findings(seen)
        },
        "swap": seen.bytes("SwapTotal") - seen.bytes("SwapFree"),
        "removed": asdict(seen.removed_groups) if seen.removed_groups else None,
    }


def called(call: Callable[..., int], *words: object) -> None:
    if call(*words):
        raise OSError(ctypes.get_errno(), f"{call} failed")


@contextmanager
def swapping(path: str) -> Iterator[None]:
    head = bytearray(mmap.PAGESIZE)  # union swap_header of linux/swap.h, as mkswap(8) writes it
    struct.pack_into("=3I", head, 1024, 1, SWAP_BYTES // mmap.PAGESIZE - 1, 0)
    head[-10:] = b"SWAPSPACE2"
    with Path(path).open("r+b") as file:
        file.write(head)
        os.fsync(file.fileno())
    called(LIBC.swapon, path.encode(), 0)
    try:
        yield
    finally:
        called(LIBC.swapoff, path.encode())


def paged_out() -> dict[str, object]:
    """A look while memory of this process is in swap."""
    with mmap.mmap(-1, PAGED_OUT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, PAGED_OUT_BYTES, mmap.PAGESIZE):
            memory[at : at + 8 + len(MIXED)] = at.to_bytes(8, "little") + MIXED
        memory.madvise(21)  # MADV_PAGEOUT
        return look()


def removed() -> Iterator[dict[str, object]]:
    """Looks while files of removed groups are there, and when they are not."""
    top = GROUPS[1].parent if GROUPS[1].exists() else GROUPS[0].parent
    above = top / "above"
    above.mkdir()
    if top == GROUPS[0].parent:
        for folder in (top, above):
            (folder / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
    files = [Path(f"/var/tmp/file-{number}") for number in range(REMOVED)]
    for file in files:
        group = above / file.name
        group.mkdir()
        pid = os.fork()
        if not pid:
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
            with file.open("wb") as opened:
                opened.write(b"a" * mmap.PAGESIZE * FILE_PAGES)
                opened.flush()
                os.fsync(opened.fileno())
            os._exit(0)
        os.waitpid(pid, 0)
        group.rmdir()
    time.sleep(3)  # the kernel brings the sums of groups together every 2 s
    yield look()
    for file in files:
        file.unlink()
    deadline = time.monotonic() + 60
    while removed_groups.read()[0].count >= REMOVED / 2 and time.monotonic() < deadline:
        time.sleep(0.5)
    yield look()


def main() -> None:
    removed_groups.LEAST_COUNT = REMOVED
    for group in GROUPS:  # a trial's may not swap
        if group.exists():
            group.write_text(str(os.getpid()), encoding="ascii")
    look()  # the first reads files, which takes page cache
    looks = [look()]
    pool = Path("/proc/sys/vm/nr_hugepages")
    pool.write_text("64", encoding="ascii")
    looks.append(look())
    with mmap.mmap(-1, SHARED_BYTES) as shared:
        for at in range(0, SHARED_BYTES, mmap.PAGESIZE):
            shared[at] = 1
        looks.append(look())
    pool.write_text("0", encoding="ascii")
    area = Path("/var/tmp/swap")
    with area.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, SWAP_BYTES)
    enabled = Path("/sys/module/zswap/parameters/enabled")
    enabled.write_text("1", encoding="ascii")
    with swapping(str(area)):
        looks.append(paged_out())
    enabled.write_text("0", encoding="ascii")
    Path("/sys/block/zram0/disksize").write_text(str(SWAP_BYTES), encoding="ascii")
    with swapping("/dev/zram0"):
        looks.append(paged_out())
    looks += removed()
    print("seen:", json.dumps(looks))


if __name__ == "__main__":
    main()
