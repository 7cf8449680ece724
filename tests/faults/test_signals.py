"""Ctrl-C, SIGTERM, SIGHUP: the sweep ends in order and says how to go on."""

import os
import shlex
import signal

import pytest
from tiny_sweep import POINTS, Lab, settled


def ended_in_order(lab: Lab, status: int, out: str, err: str) -> list[str]:
    """Exit status, one line, nothing left; the words of the command that goes on."""
    (run,) = lab.run_ids()
    kept = lab.count()
    line = err.splitlines()[-1]
    command = f"memlab sweep --resume {run} --store {lab.store}"
    assert (status, out) == (130, "")
    assert line == f"memlab: interrupted; {kept} samples kept; go on with: {command}"
    assert "Traceback" not in err
    settled(lab)
    return shlex.split(command)[1:]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_sweep_which_then_goes_on(lab: Lab, number: signal.Signals) -> None:
    blocks = 12
    sweep = lab.sweep(blocks)
    lab.until_sampled(sweep)
    sweep.send_signal(number)
    resume = ended_in_order(lab, *lab.finish(sweep))
    kept = lab.samples()
    status, out, err = lab.finish(lab.start(*resume, "-q"))
    assert (status, out.split()) == (0, lab.run_ids()), err
    done = lab.samples()
    assert {pair: done[pair] for pair in kept} == kept
    assert len(done) == blocks * POINTS


def test_the_terminals_ctrl_c_reaches_the_whole_group(lab: Lab) -> None:
    sweep = lab.sweep(1000, start_new_session=True)
    lab.until_sampled(sweep)
    os.killpg(sweep.pid, signal.SIGINT)
    ended_in_order(lab, *lab.finish(sweep))


def test_a_second_ctrl_c_leaves_nothing_behind_either(lab: Lab) -> None:
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    for _ in range(2):
        sweep.send_signal(signal.SIGINT)
    status, _, err = lab.finish(sweep)
    assert status in (130, -signal.SIGINT)
    assert "Traceback" not in err
    settled(lab)
