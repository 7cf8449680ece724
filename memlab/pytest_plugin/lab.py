"""The value of the fixture: it measures for one test."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from memlab.pytest_plugin.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlab import api
    from memlab.experiment import Level
    from memlab.pytest_plugin.run import AssertableRun
    from memlab.run.target import Place


class Memlab:
    """Measures for one test; close it when the test has ended."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._runs: list[AssertableRun] = []

    def sweep(
        self,
        experiment: str,
        *,
        budget: float | str | None = None,
        blocks: int | None = None,
        sessions: int = 1,
        preset: str = "quick",
        controls: bool = True,
        guest: Place | None = None,
        **levels: Level | Sequence[Level],
    ) -> AssertableRun:
        """Measure an experiment as `memlab.sweep` does; budget in seconds, or as text (`10s`).

        A wrong name or level fails the test; a machine that cannot measure it now skips it, or
        fails it under --memlab-inconclusive=fail.
        """
        __tracebackhide__ = True
        from memlab import api

        wanted: dict[str, Any] = {"blocks": blocks, "sessions": sessions, "preset": preset}
        wanted |= {"controls": controls, "guest": guest}
        return self._measured(partial(api.sweep, experiment), budget, wanted | levels)

    def trial(
        self,
        command: Sequence[str],
        *,
        expect: Sequence[str] = (),
        budget: float | str | None = None,
        **how: Any,
    ) -> AssertableRun:
        """Run a command under other memory policies as `memlab.trial` does, with its parameters.

        Each of `expect` is asserted as a claim is. What a wrong request and a machine that cannot
        measure do, they do as for `sweep`.
        """
        __tracebackhide__ = True
        import memlab

        wanted = {"expect": expect} | how
        run = self._measured(partial(memlab.trial, command), budget, wanted)
        for claim in run.experiment.claims:
            run.assert_claim(claim.id)
        return run

    def fits(
        self,
        command: Sequence[str],
        limit: int | str,
        *,
        keep_within: str = "elapsed: 5%",
        budget: float | str | None = "2min",
        **how: Any,
    ) -> AssertableRun:
        """Assert that a command keeps its speed in so little memory, as `memlab fit --gate` finds.

        limit: bytes, or text such as "512M". keep_within: the metric and by how much it may be
        worse than without a limit. The other parameters are those of `trial`, and `swap`.
        """
        __tracebackhide__ = True
        from memlab.command import api as of_command

        wanted = {"limit": limit, "keep_within": keep_within} | how
        run = self._measured(partial(of_command.fits, command), budget, wanted)
        run.assert_fits(*of_command.fit_told(run))
        return run

    def _measured(
        self, call: Callable[..., api.Run], budget: float | str | None, wanted: dict[str, Any]
    ) -> AssertableRun:
        __tracebackhide__ = True
        from memlab.pytest_plugin import measure

        run = measure.measured(self._context, call, budget, wanted, len(self._runs) + 1)
        self._runs.append(run)
        return run

    def close(self) -> None:
        """Compare and save what the session's options ask for."""
        for run in self._runs:
            run.close()
