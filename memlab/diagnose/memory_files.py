"""A process's memory and its page table, open to read (proc_pid_mem(5), proc_pid_pagemap(5))."""

from __future__ import annotations

import os
from typing import Self

from memlab.observe.proc import ROOT

PAGE = os.sysconf("SC_PAGE_SIZE")
_IS_PRESENT = bytes(top >> 7 for top in range(256))  # by the highest byte of an entry


class MemoryFiles:
    """Both while it is entered. Raises `OSError` if the process may not be read."""

    def __init__(self, pid: int) -> None:
        self._folder = ROOT / f"proc/{pid}"

    def __enter__(self) -> Self:
        self._memory = os.open(self._folder / "mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pagemap = os.open(self._folder / "pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._memory)
            raise
        return self

    def is_present(self, at: int) -> bool:
        """Whether the page at this address is resident: to read another one brings it in."""
        entry = os.pread(self._pagemap, 8, 8 * (at // PAGE))
        return len(entry) == 8 and bool(entry[7] >> 7)

    def page_table(self, first: int, count: int) -> bytes:
        """Its entries for so many pages."""
        return os.pread(self._pagemap, 8 * count, 8 * first)

    def present(self, first: int, count: int) -> bytes:
        """Of each page 1 if it is resident."""
        return self.page_table(first, count)[7::8].translate(_IS_PRESENT)

    def content(self, at: int) -> bytes:
        """Of the page at this address; empty if it is not resident, or cannot be read."""
        return self.read(at, PAGE) if self.is_present(at) else b""

    def read(self, at: int, size: int) -> bytes:
        """Of memory that is resident; empty if it cannot be read."""
        try:
            return os.pread(self._memory, size, at)
        except OSError:  # it was taken away, or its memory has failed
            return b""

    def __exit__(self, *_: object) -> None:
        os.close(self._memory)
        os.close(self._pagemap)
