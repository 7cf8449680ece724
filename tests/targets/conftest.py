"""The kernel that guests boot here, or why none does."""

import os

import pytest

from memlab.observe import guest_tools
from memlab.run import kernel

# Read before the tests' own home takes the environment over.
_NAMED = os.environ.get("GUEST_KERNEL")


@pytest.fixture(scope="session")
def guest_kernel() -> str:
    """$GUEST_KERNEL, else the newest that is installed."""
    if lacks := guest_tools.missing():
        pytest.skip(f"no {lacks.program} for a guest: {lacks.remedy}")
    if _NAMED:
        return _NAMED
    installed = kernel.installed()
    if installed is None:
        pytest.skip("no kernel for a guest: set GUEST_KERNEL to a vmlinuz, or install one")
    return str(installed.path)
