"""A step in words: as strace(1) prints the call, and a flag that has no name as a number."""

import pytest

from memlab.experiment import Step
from memlab.experiments._vm_script import Mcl, mlockall, mmap, words


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (mlockall(Mcl.CURRENT | Mcl.FUTURE), "mlockall(MCL_CURRENT | MCL_FUTURE)"),
        (mlockall(8), "mlockall(0x8)"),
        (mlockall(9), "mlockall(MCL_CURRENT | 0x8)"),
        (mlockall(0), "mlockall(MCL_NONE)"),
        (mmap(0, 7, 0), "mmap(start + 0 pages, 7 pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS)"),
    ],
)
def test_a_step_in_words(step: Step, said: str) -> None:
    filled = {"first": 0, "count": 0, "prot": 0, "flags": 0} | dict(step)
    assert words(filled) == said
