"""One measurement at a time on one machine."""

import signal
import socket

import pytest
from tiny_sweep import POINTS, TINY, Lab, settled

from memlab.run import alone
from memlab.run.alone import Busy


def test_a_second_sweep_is_refused_with_the_pid_of_the_first(lab: Lab) -> None:
    first = lab.sweep(1000)
    lab.until_sampled(first)
    other = ["--dir", str(lab.files), "--store", str(lab.store.with_name("other.db"))]
    status, out, err = lab.finish(lab.start("sweep", *TINY, "-q", *other))
    assert (status, out) == (3, "")
    assert err == (
        f"memlab: another memlab measures on this machine (pid {first.pid}); "
        "wait until it is done\n"
    )
    status, _, err = lab.finish(lab.start("sweep", "--resume", "last", "--store", str(lab.store)))
    assert status == 3
    assert f"(pid {first.pid})" in err
    lab.until_sampled(first, POINTS)  # the first was not disturbed
    first.send_signal(signal.SIGINT)
    lab.finish(first)
    settled(lab)


def test_reading_goes_on_beside_a_sweep(lab: Lab) -> None:
    first = lab.sweep(1000)
    lab.until_sampled(first, 2 * POINTS)
    for command in (["runs"], ["show", "last"], ["export", "last"]):
        status, out, err = lab.finish(lab.start(*command, "--store", str(lab.store)))
        assert (status, err) == (0, "")
        assert out
    assert first.poll() is None


def test_clean_leaves_a_running_sweep_alone(lab: Lab) -> None:
    first = lab.sweep(1000)
    lab.until_sampled(first)
    assert lab.finish(lab.start("clean")) == (0, "nothing to clean\n", "")
    lab.until_sampled(first, POINTS)


def test_the_lock_goes_with_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "_ADDRESS", "\0memlab-test-of-the-lock")
    words = r"another memlab measures on this machine \(pid \d+\)"
    with alone.alone(), pytest.raises(Busy, match=words), alone.alone():
        pass
    with alone.alone():
        pass


def test_a_holder_that_does_not_answer_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "_ADDRESS", "\0memlab-test-of-the-lock")
    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind("\0memlab-test-of-the-lock")  # bound, not listening yet
        with pytest.raises(Busy, match="it is about to end"), alone.alone():
            pass
