"""Lines that a log says it does not have: a kill may stand in them.

Sentences of kernel/printk/printk.c, of systemd-journald (src/journal/journald-kmsg.c) and of
rsyslogd (its modules imjournal and imuxsock).
"""

from __future__ import annotations

import re

MARKS = ("blob data]", "messages dropped", "kernel messages", "messages lost")
_HIDDEN = re.compile(r"\[[\d.]{1,8}[KMG]?B? blob data\]$")
_LOST = re.compile(
    r"\d{1,12} printk messages dropped|printk: \d{1,12} messages dropped"
    r"|Missed \d{1,12} kernel messages|kmsg buffer overrun, some messages lost"
    r"|\d{1,12} messages lost due to rate-limiting"
)


def is_hidden(line: str) -> bool:
    """Whether the journal shows a record's size only: it has a character that is not printed."""
    return "blob data]" in line and _HIDDEN.search(line) is not None


def read(line: str) -> str | None:
    """Return the sentence that says that lines are missing."""
    match = _LOST.search(line) if any(mark in line for mark in MARKS) else None
    return match[0] if match else None
