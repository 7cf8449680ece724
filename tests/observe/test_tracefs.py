"""The numbers of tracepoints, mounted or not."""

import ctypes
from pathlib import Path

import pytest

from memlab.observe import tracefs

from .trees import grow


def test_numbers_are_read_where_tracefs_is_mounted(tmp_path: Path) -> None:
    root = grow(tmp_path, {"sys/kernel/tracing/events/tlb/tlb_flush/id": "188\n"})
    with tracefs.opened(root) as events:
        assert events.number("tlb:tlb_flush") == 188
        with pytest.raises(FileNotFoundError):
            events.number("tlb:nosuch")


def test_where_it_is_not_mounted_none_is_left_mounted(tmp_path: Path) -> None:
    """`tmp_path` has no tracefs, so the kernel is asked for one that is attached nowhere."""
    before = Path("/proc/self/mountinfo").read_text()
    try:
        with tracefs.opened(tmp_path) as events:
            assert events.number("syscalls:sys_enter_madvise") > 0
            assert Path("/proc/self/mountinfo").read_text() == before
    except PermissionError:
        pytest.skip("CAP_SYS_ADMIN is not held: run as root")
    assert Path("/proc/self/mountinfo").read_text() == before


def test_a_refusal_names_tracefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefs, "_FSOPEN", -1)  # no system call has this number
    ctypes.set_errno(0)
    with pytest.raises(OSError, match="tracefs: "), tracefs.opened(tmp_path):
        pass
