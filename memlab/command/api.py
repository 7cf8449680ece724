"""`memlab try` in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlab.api import Run, asking, measured, parameters_of, read
from memlab.command import request as of_command
from memlab.errors import BadRequest

if TYPE_CHECKING:
    from memlab.run.target import Place


_TRYING = parameters_of(of_command.Trying)


@asking("try", *_TRYING)
def trial(
    command: Sequence[str],
    *,
    guest: Place | None = None,
    store: str | Path | None = None,
    progress: bool | None = None,
    **policies: Any,
) -> Run:
    """Run a command under other memory policies and return the stored run.

        run = memlab.trial(["./app", "--threads", "{n}"], lock=["off", "future"], n=[1, 4])

    command: the program and its arguments; `{n}` is replaced by the levels of the policy `n`.
    metrics: numbers that it prints, as `memlab try --metric`: "rate[1/s]=([0-9.]+) per second".
    metric_json, latencies: files that it writes, as the options of the same names.
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
    given = {one.name: policies.pop(one.name, None) for one in _TRYING}
    trying = of_command.Trying(
        **{name: value for name, value in given.items() if value is not None}
    )
    asked, of_policies = read("try", policies)
    several = {
        name: [level] if isinstance(level, str | int | float) else list(level)
        for name, level in of_policies.items()
    }
    request = of_command.command(list(command), several, trying, **asked)
    return measured(request, store, guest, progress)
