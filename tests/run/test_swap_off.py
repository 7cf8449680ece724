"""swapoff while a worker still ends: tried again, not for ever, and no other failure is."""

import ctypes
import errno
import os
from pathlib import Path

import pytest

from memlab.run import cleanup


class Kernel:
    """A C library whose swapoff fails with these, in turn, and then succeeds."""

    def __init__(self, *failures: int) -> None:
        self.failures, self.calls = list(failures), 0

    def swapoff(self, path: bytes) -> int:
        self.calls += 1
        if not self.failures:
            return 0
        ctypes.set_errno(self.failures.pop(0))
        return -1


def swap_off(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> Kernel:
    monkeypatch.setattr(cleanup.ctypes, "CDLL", lambda *_, **__: kernel)
    cleanup.swap_off(Path("/nonexistent/swap"))
    return kernel


def test_a_worker_that_ends_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert swap_off(monkeypatch, Kernel(errno.ENOMEM, errno.ENOMEM)).calls == 3


def test_the_wait_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "PATIENCE_S", 0.01)
    with pytest.raises(OSError, match=os.strerror(errno.ENOMEM)):
        swap_off(monkeypatch, Kernel(*[errno.ENOMEM] * 1000))


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOENT])
def test_what_is_off_is_left_alone(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    assert swap_off(monkeypatch, Kernel(number)).calls == 1


def test_a_refusal_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(errno.EPERM)
    with pytest.raises(PermissionError):
        swap_off(monkeypatch, kernel)
    assert kernel.calls == 1
