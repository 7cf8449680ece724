"""Who changes the host is alone with it, and is not kept waiting by those who do not; no test
leaves a sweep to the next."""

import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import host_lock
import pytest
import still_measuring


@pytest.fixture(autouse=True)
def folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this test alone."""
    made = [str(tmp_path_factory.mktemp(name)) for name in ("gate", "folder")]
    monkeypatch.setattr(host_lock, "FOLDERS", made)


def test_those_who_change_nothing_run_beside_one_another() -> None:
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(host_lock.host_lock(changes=False))


def test_who_changes_the_host_is_let_in_although_others_never_cease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two others, of whom one is always inside."""
    monkeypatch.setattr(host_lock, "PATIENCE_S", 0.05)
    inside, over = [0], threading.Event()

    def other(delay_s: float) -> None:
        time.sleep(delay_s)
        while not over.is_set():
            with host_lock.host_lock(changes=False):
                inside[0] += 1
                time.sleep(0.04)
                inside[0] -= 1

    others = [threading.Thread(target=other, args=(delay_s,)) for delay_s in (0, 0.02)]
    for thread in others:
        thread.start()
    with host_lock.host_lock(changes=True):
        alone = inside[0]
    over.set()
    for thread in others:
        thread.join()
    assert alone == 0


@pytest.mark.slow
def test_a_sweep_that_is_left_is_ended(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(still_measuring, "PATIENCE_S", 0.1)
    words = ["page-fault", "--blocks", "90000", "--quiet"]
    with subprocess.Popen([sys.executable, "-m", "memlab", "sweep", *words]) as left:
        while not (held := still_measuring.still_measuring()):
            assert left.poll() is None
        assert held == left.pid
        assert left.wait(300) == 130
    assert still_measuring.still_measuring() is None
