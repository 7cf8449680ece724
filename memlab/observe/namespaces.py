"""Work in the namespace of another process (setns(2)), by a thread that ends with it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from memlab.observe import files
from memlab.observe.proc import ROOT

T = TypeVar("T")
_FLAGS: Final = {"ipc": 0x0800_0000, "net": 0x4000_0000}  # CLONE_NEWIPC, CLONE_NEWNET


def is_shared(pid: int, kind: str) -> bool:
    """Whether a process is in this program's namespace of a kind, such as `ipc`."""
    mine, other = (files.known((ROOT / f"proc/{who}/ns/{kind}").readlink) for who in ("self", pid))
    return mine is not None and mine == other


def inside(pid: int, kind: str, work: Callable[[], T]) -> T:
    """Return what `work` returns in the process's namespace. Raises `OSError` if that may not be
    entered, and what `work` raises."""
    if is_shared(pid, kind):
        return work()
    results: list[T] = []
    errors: list[OSError] = []

    def enter() -> None:
        try:
            space = os.open(ROOT / f"proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(space, _FLAGS[kind]):
                    code = ctypes.get_errno()
                    raise OSError(code, f"its {kind} namespace may not be entered")
            finally:
                os.close(space)
            results.append(work())
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if not results:
        raise errors[0] if errors else OSError(f"nothing was read in its {kind} namespace")
    return results[0]
