"""The tables of System V IPC that a process sees (sysvipc(7)): /proc/sysvipc shows those of the IPC
namespace of who opens it."""

from __future__ import annotations

from memlab.observe import files, namespaces, proc
from memlab.observe.proc import ROOT


def rows(pid: int, kind: str) -> list[list[str]] | None:
    """The words of each line of `shm`, `msg` or `sem`; None if they may not be read."""
    text = files.known(namespaces.inside, pid, "ipc", lambda: _text(kind))
    return None if text is None else [line.split() for line in proc.lines(text)[1:]]


def _text(kind: str) -> str:
    return files.text(ROOT / f"proc/sysvipc/{kind}") or ""
