"""`memlab try` in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlab.api import Run, asking, measured, of_seconds, read
from memlab.errors import BadRequest

if TYPE_CHECKING:
    from memlab.run.target import Place


@asking("try")
def trial(
    command: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    metric_json: str = "",
    latencies: str = "",
    expect: Sequence[str] = (),
    timeout: float | str = "10min",
    serve: Sequence[str] = (),
    ready: str = "",
    keep: bool = False,
    duet: bool = False,
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
    serve: a service that has the policies; the command is then the load that is put on it, and
    `{port}` in both is a free port. ready: when it begins, as `memlab try --ready`. keep: the
    service for the trials of a block that have the same policies, instead of a new one for each.
    duet: two levels at the same time on one CPU, as `memlab try --duet`.
    policies: as `memlab try -p`, the baseline first; `**{"env.NAME": [...]}` is a variable.

    The other parameters and what is raised are those of `sweep`; a policy is done at a precision of
    2 % where neither blocks nor another precision is asked for.
    """
    if isinstance(command, str):
        raise BadRequest(f"a command is a list of its words, not the text {command!r}")
    if isinstance(expect, str):
        raise BadRequest(f"expect is a list of texts, not the text {expect!r}")
    from memlab.command import request as of_command

    asked, of_policies = read("try", policies)
    several = {
        name: [level] if isinstance(level, str | int | float) else list(level)
        for name, level in of_policies.items()
    }
    request = of_command.command(
        list(command),
        several,
        metrics=metrics,
        metric_file=metric_json,
        latencies=latencies,
        expect=expect,
        timeout_s=600.0 if (limit_s := of_seconds("timeout", timeout)) is None else limit_s,
        serve=list(serve),
        ready=ready,
        keep=keep,
        duet=duet,
        **asked,
    )
    return measured(request, store, guest, progress)
