"""The swap area of a run: a file on the disk, or memory compressed (zram). One is on at a time."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import secrets
import subprocess
from pathlib import Path

from memlab.observe import capabilities, guest_tools, proc
from memlab.run.cleanup import PREFIX, ZRAM_CONTROL, ZRAM_MARK_KIB, swap_off
from memlab.run.journal import Journal
from memlab.run.settings import Unavailable

# swapon(2): before every area that the host has of its own.
_HIGHEST_PRIORITY = 0x8000 | 0x7FFF  # SWAP_FLAG_PREFER and the priority


def lack(kind: str) -> str:
    """Why there can be no swap of this kind; empty where nothing speaks against it."""
    result = capabilities.add_swap(proc.ROOT)
    if not result.available:
        return f"needs swap, and {result.detail}: {result.remedy}"
    if kind == "zram" and not ZRAM_CONTROL.exists():
        return "needs zram, and this kernel has none loaded: modprobe zram"
    # To read hot_add adds a device, which a /sys that is mounted read-only lets nobody remove.
    if kind == "zram" and not os.access(ZRAM_CONTROL / "hot_remove", os.W_OK):
        return f"needs zram, and /sys may not be written: {capabilities.as_root()}"
    return ""


class Swap:
    """Makes an area when a trial first needs it; the journal removes it."""

    def __init__(self, journal: Journal, run: str, size_bytes: int, place: Path) -> None:
        self._journal, self._run, self._place = journal, run, place
        self._size_bytes = size_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        self._folder: Path | None = None
        self._areas: dict[str, Path] = {}
        self._on = "none"

    def use(self, kind: str) -> None:
        """Turn on only the area of this kind (none, file, zram). Raises Unavailable."""
        if kind == self._on:
            return
        if self._on != "none":
            swap_off(self._areas[self._on])
            self._on = "none"
        if kind != "none":
            if missing := lack(kind):
                raise Unavailable(missing)
            if kind not in self._areas:
                self._areas[kind] = self._make_file() if kind == "file" else self._make_zram()
            self._swap_on(self._areas[kind])
            self._on = kind

    def _own_folder(self) -> Path:
        if self._folder is None:
            self._folder = self._journal.make_folder(self._place, f"{self._journal.name}-swap")
        return self._folder

    def _make_file(self) -> Path:
        """Allocate all blocks: swapon(2) refuses a file with holes."""
        path = self._own_folder() / "swap"
        self._journal.note_swap_file(path)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, self._size_bytes)
        finally:
            os.close(fd)
        self._write_header(path)
        return path

    def _make_zram(self) -> Path:
        """A device of our own (Documentation/admin-guide/blockdev/zram.rst).

        hot_add takes the lowest free number (idr_alloc in zram_drv.c), so that the journal can
        name the device before it is there. Without a devtmpfs nobody makes its device file.
        """
        number = next(n for n in range(2**20) if not Path(f"/sys/block/zram{n}").exists())
        block = Path(f"/sys/block/zram{number}")
        devtmpfs = proc.filesystem_of(Path("/dev")) == "devtmpfs"
        node = (Path("/dev") if devtmpfs else self._own_folder()) / block.name
        steps = ZRAM_MARK_KIB // 64, 1 << 16  # whole pages of any size; unused by swap
        mark = str(64 * (steps[0] + secrets.randbelow(steps[1] - steps[0])))
        self._journal.note_zram(block, node, mark)
        added = (ZRAM_CONTROL / "hot_add").read_text().strip()
        if added != str(number):
            (ZRAM_CONTROL / "hot_remove").write_text(added)
            raise Unavailable("needs zram, and another program adds devices just now: try again")
        (block / "queue/read_ahead_kb").write_text(mark)
        if not devtmpfs:
            device = os.makedev(*map(int, (block / "dev").read_text().split(":")))
            os.mknod(node, 0o600 | 0o060000, device)  # S_IFBLK
        (block / "disksize").write_text(str(self._size_bytes))
        self._write_header(node)
        return node

    def _write_header(self, path: Path) -> None:
        """By mkswap(8). The label says whose it is."""
        mkswap = guest_tools.find("mkswap")
        if mkswap is None:
            raise Unavailable("needs mkswap, and it is not here: apt install util-linux")
        line = [mkswap, "--label", f"{PREFIX}{self._run}", str(path)]
        process = subprocess.run(line, capture_output=True, text=True, check=False)
        if process.returncode:
            raise Unavailable(f"needs swap, and mkswap {path}: {process.stderr.strip()}")

    def _swap_on(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.swapon(os.fsencode(path), ctypes.c_int(_HIGHEST_PRIORITY)) == -1:
            number = ctypes.get_errno()
            what = f"needs swap, and swapon {path}: {os.strerror(number)}"
            if number == errno.EINVAL:  # swapon(8), NOTES: not every filesystem can
                kind = proc.filesystem_of(path)
                raise Unavailable(f"{what} on {kind}: name a place on ext4 or xfs with --dir")
            raise Unavailable(f"{what}: {capabilities.as_root()}")
