"""A probe's result, or a skip where this machine or user lacks what it asks for."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from memlab import probe


def offered(call: Callable[[], dict[str, Any]], *, lacking: bool = False) -> dict[str, Any]:
    """Root is refused nothing but what is `lacking`: a probe's word alone skips no test."""
    try:
        return call()
    except probe.ProbeError as refused:
        if refused.status != "unavailable" or not (lacking or os.geteuid()):
            raise
        pytest.skip(str(refused))
