"""`memlab fit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab.cli._fields import argument, option, shared, takes
from memlab.cli._options import (
    DURATION,
    Parsed,
    figure_option,
    json_option,
    output_folder,
    store_option,
    typed,
    wait_option,
)
from memlab.cli._programs import (
    latencies_option,
    metric_option,
    ready_option,
    serve_option,
    timeout_option,
)

if TYPE_CHECKING:
    from memlab.request import Request

_WITH_RESUME = {"--resume", "--budget", "--store", "-o", "--quiet", "--json", "--wait"}


def _limit(text: str) -> int:
    from memlab.experiment.fit import read_limit

    return read_limit(text)


@dataclass(frozen=True, slots=True)
class FitOptions:
    """What `memlab fit` is given."""

    keep_within: str = option(
        "--keep-within",
        metavar="METRIC: PERCENT",
        default="elapsed: 5%",
        show_default=True,
        help="Cost that the limit may have: 'elapsed: 5%', or of a metric, 'p99: 10%'.",
    )
    swap: str = option(
        "--swap",
        type=click.Choice(["none", "file", "zram"]),
        default="none",
        show_default=True,
        help="Swap that the command may use; none: a kill ends a run.",
    )
    gate_bytes: int | None = option(
        "--gate",
        metavar="SIZE",
        type=Parsed("size", _limit),
        default=None,
        help="Measure this limit only; exit with 1 unless the command is shown to fit into it.",
    )
    metrics: tuple[str, ...] = shared(metric_option)
    latencies: str = shared(latencies_option)
    serve: list[str] = shared(serve_option("the limit"))
    ready: str = shared(ready_option)
    budget_s: float = option(
        "--budget", type=DURATION, default="10min", show_default=True, help="Wall time."
    )
    timeout_s: float = shared(timeout_option)
    resume: str = option(
        "--resume", metavar="RUN", default="", help="Continue a fit that ended early."
    )
    name: str | None = option(
        "--name", help="Name of the run, which commands take in place of its id."
    )
    wait_s: float = shared(wait_option)
    store: Path | None = shared(store_option)
    output: Path | None = shared(figure_option)
    quiet: bool = option("-q", "--quiet", is_flag=True, help="Print the answer without progress.")
    as_json: bool = shared(json_option)
    words: tuple[str, ...] = argument(
        metavar="[--] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED
    )


@click.command(context_settings={"allow_interspersed_args": False})
@takes(FitOptions)
def command(given: FitOptions) -> None:
    """Run COMMAND under memory limits and without one, in turn; then print the smallest limit at
    which it keeps its speed, how sure that is, and what to set.

    \b
    memlab fit -- ./app --selftest
    memlab fit --gate 512M -- ./app --selftest
    memlab fit --serve './server {port}' --ready tcp:{port} -- ./load {port}
    memlab fit --keep-within 'rate: 10%' \\
        --metric 'rate[1/s]=Throughput: ([0-9.]+)' -- ./app
    """
    from memlab.cli import GATE, _sweeping
    from memlab.experiment.fit import FIT

    quiet = given.quiet or given.as_json
    folder = output_folder(given.output, given.store)
    if given.resume:
        if wrong := typed() - _WITH_RESUME:
            word = "a command" if wrong == {"words"} else min(wrong - {"words"})
            raise click.UsageError(
                "--resume continues a fit as it was asked for; it takes --budget, --store and -o, "
                f"not {word}"
            )
        _sweeping.check_resumed(given.resume, FIT, given.store)
        run = _sweeping.resume(
            given.resume, given.store, given.budget_s, quiet, given.wait_s, command=FIT
        )
    else:
        run = _sweeping.sweep(_request(given), None, given.store, quiet, given.wait_s)
    found = _sweeping.report_fit(run, folder, as_json=given.as_json)
    if found.gate_bytes and found.state != "answered":
        click.get_current_context().exit(GATE)


def _request(given: FitOptions) -> Request:
    from memlab.command import fitting
    from memlab.command.request import Trying
    from memlab.experiment.fit import Fit, read_bound

    metric, within = read_bound(given.keep_within)
    trying = Trying(
        metrics=given.metrics,
        latencies=given.latencies,
        timeout=given.timeout_s,
        serve=given.serve,
        ready=given.ready,
    )
    fit = Fit(metric, within, given.gate_bytes or 0)
    how: dict[str, Any] = {"budget_s": given.budget_s, "name": given.name}
    return fitting.request(given.words, trying, fit, given.swap, **how)
