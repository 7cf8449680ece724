"""What the replay of a trace needs around it, and what of its page faults is the program's."""

from __future__ import annotations

import errno
import re
import subprocess
from collections.abc import Sequence
from typing import Any

from memlab.probe import Failed

_OWN_TRAPS = re.compile(
    r"; own traps (\d{1,15}), of the kernel (\d{1,15})\n"
)  # memlab/trace/replay.c


def without_own(trapped: dict[str, Any], output: str, of_user: bool) -> dict[str, Any]:
    """Page faults without those of the replayer itself, which it prints at its end. `of_user`:
    those in the kernel are not among them."""
    match = _OWN_TRAPS.search(output)
    if not match or trapped["count"] is None:
        return trapped
    traps = int(match[1]) - (int(match[2]) if of_user else 0)
    return trapped | {"count": trapped["count"] - traps}


def bring_in(tool: str, words: Sequence[str]) -> None:
    """Read into the page cache what a trace's program met there, and the trace: what the kernel has
    taken of it since the last replay would be charged to this one. Failed if the tool fails: the
    replay would then have page faults and memory that the program had not."""
    *_, cached, trace = words
    with open(cached.removeprefix("cached="), "r+b") as file:
        ended = subprocess.run([tool, trace], stdout=file, stderr=subprocess.PIPE, check=False)
    if not ended.returncode:
        return
    why = ended.stderr.decode(errors="replace").strip()
    if ended.returncode < 0:
        why = f"the program that reads them was killed by signal {-ended.returncode}"
    raise Failed(f"the trace's files are not in the page cache as recorded: {why}", errno.EIO)
