"""A guest that goes ends its trial as a row, and then the run; asked of a guest made up here."""

from typing import Any

import pytest

from memlab.experiment.points import Point
from memlab.machines.guest.host import GuestExecutor, GuestLost
from memlab.machines.guest.machine import Ended, Silent
from memlab.machines.guest.stream import Damaged

POINT = Point(3, {"size": 1})


def bench(*answers: Any) -> GuestExecutor:
    """One whose guest gives these answers in turn; an exception is raised."""
    left = list(answers)

    def ask(question: str, **_: Any) -> Any:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return GuestExecutor("abcd1234", ask)


@pytest.mark.parametrize(
    ("gone", "outcome"),
    [
        (Ended("the guest ended: kernel panic: Fatal exception"), "error"),
        (Silent("the guest has been silent"), "timeout"),
        (Damaged("message 9 came where 7 was due"), "error"),
    ],
)
def test_the_trial_in_flight_is_a_row_and_the_next_is_an_end(gone: Exception, outcome: str) -> None:
    lost = bench({"outcome": "ok"}, gone)
    assert lost.trial(POINT) == {"outcome": "ok"}
    assert lost.trial(POINT) == {"outcome": outcome, "detail": str(gone), "probe_hash": ""}
    with pytest.raises(GuestLost, match=r"kept: memlab sweep --resume abcd1234") as ended:
        lost.trial(POINT)
    assert str(gone) in str(ended.value)


def test_lost_between_trials_is_the_next_trials_row() -> None:
    lost = bench(Ended("the guest ended"))
    lost.renew([POINT])
    assert lost.trial(POINT)["outcome"] == "error"
    with pytest.raises(GuestLost):
        lost.check()


def test_lost_in_the_last_trial_is_not_overlooked() -> None:
    lost = bench(Ended("the guest ended"))
    lost.trial(POINT)
    with pytest.raises(GuestLost):
        lost.check()
