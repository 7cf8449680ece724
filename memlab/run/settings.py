"""Settings of the host that trials need: changed where they differ, restored afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from memlab.observe import capabilities, proc, virtualization
from memlab.run.cleanup import PAIRS, has_value, restored_by, set_value, value_of
from memlab.run.journal import Journal


class Unavailable(Exception):
    """This host lacks what a trial needs; the message says what, and what to do."""


# Files that came with a version of Linux, by how their paths begin.
_SINCE = {
    "/sys/kernel/mm/transparent_hugepage/hugepages-": "Linux 6.8",
    "/sys/kernel/mm/lru_gen/": "Linux 6.1 with CONFIG_LRU_GEN",
    "/sys/module/zswap/": "a kernel with CONFIG_ZSWAP",
}


def no_such_file(file: str, value: str) -> str:
    """Why a setting cannot be made, and which kernel has it."""
    having = (kernel for start, kernel in _SINCE.items() if file.startswith(start))
    use = next(having, "a kernel that has it")
    return f"needs {file} = {value}, and there is no such file: use {use}"


def endangered() -> str:
    """Why nothing may be done here that endangers all that runs on this machine; empty where memlab
    booted it."""
    if virtualization.memlab_guest(proc.ROOT):
        return ""
    return "needs a machine of its own, and this host is not put at risk: --in guest"


def readahead_file(folder: Path) -> str:
    """The setting, in KiB, of the block device that a folder lies on. Raises Unavailable."""
    device = folder.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    for holder in (block, block.parent):  # a partition has its disk's
        if (holder / "bdi").exists():
            return str((holder / "bdi").resolve() / "read_ahead_kb")
    raise Unavailable(f"needs a file system on a block device, and {folder} is on none: --dir")


class Settings:
    """The settings of a run. Each is journaled once, with the value it had before the run."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._before: dict[str, str] = {}

    def apply(self, wanted: Mapping[str, str]) -> None:
        """Apply these settings and restore those of earlier trials. Raises Unavailable."""
        before = {file: at for file, at in self._before.items() if PAIRS.get(file) not in wanted}
        for file, value in {**before, **wanted}.items():
            try:
                self._write(file, self._resolved(file, value))
            except PermissionError:
                raise Unavailable(
                    f"needs {file} = {value}, and it may not be written: {capabilities.as_root()}"
                ) from None
            except FileNotFoundError:
                raise Unavailable(no_such_file(file, value)) from None
            except OSError as error:
                raise Unavailable(
                    f"needs {file} = {value}, and writing it fails: {error.strerror}"
                ) from None

    def _resolved(self, file: str, value: str) -> str:
        """`+8` is 8 more than the host had without this run."""
        if not (value.startswith("+") and value.isascii() and value[1:].isdecimal()):
            return value
        before = self._before.get(file) or value_of(Path(file))
        return str(int(before) + int(value))

    def _write(self, file: str, value: str) -> None:
        path = Path(file)
        if has_value(path, value):
            return
        if {file, PAIRS.get(file)} & self._before.keys():
            set_value(path, value)
        else:
            keeper, before = restored_by(path, value_of(path))
            self._journal.set_value(path, value)
            self._before[str(keeper)] = before
        if not has_value(path, value):  # nr_hugepages gives what there is
            raise Unavailable(
                f"needs {file} = {value}, and the kernel made it {value_of(path)}: free memory"
            )
