"""A process's memory and its page table, open to read (proc_pid_mem(5), proc_pid_pagemap(5))."""

from __future__ import annotations

import os
from typing import Self

from memlab.observe.proc import ROOT


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

    def __exit__(self, *_: object) -> None:
        os.close(self._memory)
        os.close(self._pagemap)
