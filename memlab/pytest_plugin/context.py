"""The test that measures, and what its session asked for."""

from __future__ import annotations

from dataclasses import dataclass

from memlab.pytest_plugin.account import SessionTally
from memlab.pytest_plugin.settings import PluginSettings


@dataclass(frozen=True, slots=True)
class Context:
    """`test` is the test's node id."""

    test: str
    settings: PluginSettings
    account: SessionTally
