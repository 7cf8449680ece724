"""Where a log comes from: a file, or the kernel's own buffer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from memlab.diagnose.kernel_log import forms, reports
from memlab.errors import CannotLook
from memlab.observe import files
from memlab.observe.proc import ROOT
from memlab.text import units

_BYTES_MAX = 64 << 20


def read(path: Path | None) -> reports.Log:
    """Read a file, or the kernel's log. Raises `CannotLook`."""
    if path is None:
        return reports.read(_kernels_log())
    content = files.content(path, _BYTES_MAX)
    if content is None:
        size = units.format_size(_BYTES_MAX)
        raise CannotLook(f"{path}: no regular file of at most {size} that may be read")
    return reports.read(forms.lines_of(content))


def _kernels_log() -> Iterator[str]:
    """Record by record: a read of /dev/kmsg is one line (Documentation/ABI/testing/dev-kmsg)."""
    try:
        fd = os.open(ROOT / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CannotLook(
            f"/dev/kmsg: {error.strerror}: run as root, or give a file: journalctl -k > k.txt; "
            "memlab diagnose --last-kill=k.txt"
        ) from None
    try:
        while True:
            try:
                record = os.read(fd, 8192).decode("utf-8", "replace")
            except BrokenPipeError:  # overwritten meanwhile: the next read goes on
                continue
            except BlockingIOError:
                return
            yield from forms.logical(record.split("\n")[0])
    finally:
        os.close(fd)
