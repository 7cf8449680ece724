"""The value of the fixture: it measures for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlab.pytest_plugin.account import Account
from memlab.pytest_plugin.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlab.api import Guest
    from memlab.experiment import Level
    from memlab.pytest_plugin.run import Run


class Memlab:
    """Measures for one test; close it when the test has ended."""

    def __init__(self, test: str, settings: Settings, account: Account) -> None:
        self.test, self.settings, self.account = test, settings, account
        self._runs: list[Run] = []

    def sweep(
        self,
        experiment: str,
        *,
        budget: float | str | None = None,
        blocks: int | None = None,
        preset: str = "quick",
        controls: bool = True,
        guest: Guest | None = None,
        **levels: Level | Sequence[Level],
    ) -> Run:
        """Measure an experiment as `memlab.sweep` does; budget in seconds, or as text (`10s`).

        A wrong name or level fails the test; a machine that cannot measure it now skips it, or
        fails it under --memlab-inconclusive=fail.
        """
        __tracebackhide__ = True
        from memlab.pytest_plugin import measure

        wanted = {"blocks": blocks, "preset": preset, "controls": controls, "guest": guest}
        run = measure.sweep(self, experiment, budget, wanted | levels, len(self._runs) + 1)
        self._runs.append(run)
        return run

    def close(self) -> None:
        """Compare and save what the session's options ask for."""
        for run in self._runs:
            run.close()
