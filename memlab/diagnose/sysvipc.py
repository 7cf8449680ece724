"""The tables of System V IPC that a process sees (sysvipc(7)): /proc/sysvipc shows those of the IPC
namespace of who opens it."""

from __future__ import annotations

from memlab.observe import files, namespaces
from memlab.observe.proc import ROOT


def rows(pid: int, kind: str) -> list[list[str]] | None:
    """The words of each line of `shm`, `msg` or `sem`; None if they may not be read."""
    table = ROOT / f"proc/sysvipc/{kind}"
    listed = files.known(namespaces.inside, pid, "ipc", lambda: files.rows(table))
    return listed[1:] if listed else None
