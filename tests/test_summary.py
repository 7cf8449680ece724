"""The last lines of a session: what its tests tell, and how many did not run, and why."""

from pathlib import Path

import pytest

SESSION = """
import pytest

def test_it(tell):
    tell("a guest (kvm): up in 9.5 s")

@pytest.mark.parametrize("number", [1, 2])
def test_other(number):
    pytest.skip("no kernel")
"""


def test_what_tests_tell_is_said_though_output_is_captured(pytester: pytest.Pytester) -> None:
    here = Path(__file__).parent
    pytester.makeconftest((here / "conftest.py").read_text())
    pytester.makepyfile(SESSION)
    # What conftest.py imports is beside it.
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-o", f"pythonpath={here}")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["a guest (kvm): up in 9.5 s", "2 not run here: no kernel"])
