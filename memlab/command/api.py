"""`memlab try` in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlab.api import Run, asking, measured, of_seconds, parameters_of, read
from memlab.command import fitting
from memlab.command import request as of_command
from memlab.errors import BadRequest
from memlab.experiment.fit import Fit, read_bound, read_limit
from memlab.fit import shown
from memlab.fit.answer import answer

if TYPE_CHECKING:
    from memlab.run.target import Place


_TRYING = parameters_of(of_command.Trying)


def fits(
    command: Sequence[str],
    *,
    limit: int | str,
    keep_within: str = "elapsed: 5%",
    swap: str = "none",
    budget: float | str | None = None,
    store: str | Path | None = None,
    name: str | None = None,
    **trying: Any,
) -> Run:
    """Run a command under one memory limit and without one, in turn, as `memlab fit --gate`, and
    return the stored run. `trying`: how it is run, as the parameters of `trial`."""
    try:
        size = read_limit(str(limit))
        options = of_command.Trying(**trying)
    except (ValueError, TypeError) as error:
        raise BadRequest(f"limit: {error}") from None
    metric, within = read_bound(keep_within)
    budget_s = of_seconds("budget", budget)
    request = fitting.request(
        list(command), options, Fit(metric, within, size), swap, budget_s=budget_s, name=name
    )
    return measured(request, store, None, None)


def fit_told(run: Run) -> tuple[bool | None, list[str]]:
    """Whether the command of a run of `fits` fits into its limit, None if that is not decided; and
    the answer in sentences."""
    result = answer(run)
    decided = {"answered": True, "open": None, "not measured": None}
    return decided.get(result.state, False), [*shown.sentences(result)]


@asking("try", *_TRYING)
def trial(
    command: Sequence[str],
    *,
    guest: Place | None = None,
    store: str | Path | None = None,
    progress: bool | None = None,
    wait_for_others: float | str = 0,
    **policies: Any,
) -> Run:
    """Run a command under other memory policies and return the stored run.

        run = memlab.trial(["./app", "--threads", "{n}"], lock=["off", "future"], n=[1, 4])

    command: the program and its arguments; `{n}` is replaced by the levels of the policy `n`.
    metrics: numbers that it prints, as `memlab try --metric`: "rate[1/s]=([0-9.]+) per second"; or
    fields of a JSON file that it writes: "latency.p99[s]@result.json".
    latencies: a file of latencies that it writes, as the option of that name.
    expect: as `memlab try --expect`; `run.claims()` has the verdicts.
    timeout: of one run of the command, in seconds or as text.
    run_for: how long a command that does not end is run, as `memlab try --for`.
    serve: a service that has the policies; the command is then the load that is put on it, and
    `{port}` in both is a free port. ready: when it begins, as `memlab try --ready`.
    duet: two levels at the same time on one CPU, as `memlab try --duet`.
    policies: as `memlab try -p`, the baseline first; `**{"env.NAME": [...]}` is a variable.

    The other parameters and what is raised are those of `sweep`; a policy is done at a precision of
    2 % where neither blocks nor another precision is asked for.
    """
    if isinstance(command, str):
        raise BadRequest(f"a command is a list of its words, not the text {command!r}")
    values = {field.name: policies.pop(field.name, None) for field in _TRYING}
    trying = of_command.Trying(
        **{name: value for name, value in values.items() if value is not None}
    )
    options, of_policies = read("try", policies)
    several = {
        name: [level] if isinstance(level, str | int | float) else list(level)
        for name, level in of_policies.items()
    }
    request = of_command.command(list(command), several, trying, **options)
    return measured(request, store, guest, progress, wait_for_others)
