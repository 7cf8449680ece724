"""The swap area of a run: a file on the disk, or memory compressed (zram). One is on at a time."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from pathlib import Path

from memlab.observe import capabilities, proc
from memlab.run.journal import Journal
from memlab.run.settings import Unavailable
from memlab.run.takedown import LABEL_AT, PREFIX, ZRAM_CONTROL, swap_off

# swapon(2): before every area that the host has of its own.
_HIGHEST_PRIORITY = 0x8000 | 0x7FFF  # SWAP_FLAG_PREFER and the priority


class Swap:
    """Makes an area when it is first wanted; the journal takes it down."""

    def __init__(self, journal: Journal, run: str, size_bytes: int, place: Path) -> None:
        self._journal, self._run, self._place = journal, run, place
        self._size_bytes = size_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        self._folder: Path | None = None
        self._areas: dict[str, Path] = {}
        self._on = "none"

    def use(self, kind: str) -> None:
        """Have `kind` on (none, file, zram) and the other off. Unavailable where it cannot be."""
        if kind == self._on:
            return
        if self._on != "none":
            swap_off(self._areas[self._on])
            self._on = "none"
        if kind != "none":
            missing = capabilities.add_swap(proc.ROOT)
            if not missing.available:
                raise Unavailable(f"needs swap, and {missing.detail}: {missing.remedy}")
            if kind not in self._areas:
                self._areas[kind] = self._make_file() if kind == "file" else self._make_zram()
            self._swap_on(self._areas[kind])
            self._on = kind

    def _own_folder(self) -> Path:
        if self._folder is None:
            name = f"{self._run}-{os.getpid()}-swap"
            self._folder = self._journal.make_folder(self._place, name)
        return self._folder

    def _make_file(self) -> Path:
        """Real blocks: swapon(2) refuses a file with holes."""
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
        if not ZRAM_CONTROL.exists():
            raise Unavailable("needs zram, and this kernel has none loaded: modprobe zram")
        number = next(n for n in range(2**20) if not Path(f"/sys/block/zram{n}").exists())
        block = Path(f"/sys/block/zram{number}")
        devtmpfs = proc.mount_of(Path("/dev")).filesystem == "devtmpfs"
        node = (Path("/dev") if devtmpfs else self._own_folder()) / block.name
        self._journal.note_zram(block, node)
        added = (ZRAM_CONTROL / "hot_add").read_text().strip()
        if added != str(number):
            (ZRAM_CONTROL / "hot_remove").write_text(added)
            raise Unavailable("needs zram, and another program adds devices just now: try again")
        if not devtmpfs:
            device = os.makedev(*map(int, (block / "dev").read_text().split(":")))
            os.mknod(node, 0o600 | 0o060000, device)  # S_IFBLK
        (block / "disksize").write_text(str(self._size_bytes))
        self._write_header(node)
        return node

    def _write_header(self, path: Path) -> None:
        """What mkswap(8) writes: union swap_header of include/linux/swap.h, the signature at the
        end of the first page. The label says whose it is."""
        page = bytearray(mmap.PAGESIZE)
        last_page = self._size_bytes // mmap.PAGESIZE - 1
        struct.pack_into("=III16s", page, 1024, 1, last_page, 0, os.urandom(16))
        struct.pack_into("16s", page, LABEL_AT, f"{PREFIX}{self._run}".encode()[:15])
        page[-10:] = b"SWAPSPACE2"
        with path.open("r+b", buffering=0) as file:
            file.write(page)
            os.fsync(file.fileno())

    def _swap_on(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.swapon(os.fsencode(path), ctypes.c_int(_HIGHEST_PRIORITY)) == -1:
            number = ctypes.get_errno()
            what = f"needs swap, and swapon {path}: {os.strerror(number)}"
            if number == errno.EINVAL:  # swapon(8), NOTES: not every filesystem can
                kind = proc.mount_of(path).filesystem
                raise Unavailable(f"{what} on {kind}: name a place on ext4 or xfs with --dir")
            raise Unavailable(f"{what}: run as root, outside of a container")
