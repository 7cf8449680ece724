"""`memlab fit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab.cli._fields import argument, global_option, option, shared, takes
from memlab.cli._options import (
    DURATION,
    Parsed,
    echo_json,
    figure_option,
    json_option,
    output_folder,
    typed,
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

_WITH_TRACES = {"--keep-within", "--json", "words"}


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
    wait_s: float = global_option("wait_s")
    store: Path | None = global_option("store")
    output: Path | None = shared(figure_option)
    as_json: bool = shared(json_option)
    words: tuple[str, ...] = argument(
        metavar="[--] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED
    )


@click.command(context_settings={"allow_interspersed_args": False})
@takes(FitOptions)
def command(options: FitOptions) -> None:
    """Run COMMAND under memory limits and without one, in turn; then print the smallest limit at
    which it keeps its speed, how sure that is, and what to set.

    \b
    memlab fit -- ./app --selftest
    memlab fit --gate 512M -- ./app --selftest
    memlab fit --serve './server {port}' --ready tcp:{port} -- ./load {port}
    memlab fit --keep-within 'rate: 10%' \\
        --metric 'rate[1/s]=Throughput: ([0-9.]+)' -- ./app
    memlab fit app.trace
    """
    from memlab.cli import _sweeping
    from memlab.trace import file

    if file.is_named(options.words):
        _predict(options)
        return
    folder = output_folder(options.output, options.store)
    run = _sweeping.sweep(_request(options), None, options.store, options.as_json, options.wait_s)
    _sweeping.end_fit(run, folder, as_json=options.as_json)


def _predict(options: FitOptions) -> None:
    """From recordings of one program, of which nothing is run."""
    from memlab.experiment.fit import read_bound
    from memlab.fit import traced
    from memlab.present.answer import say
    from memlab.trace import fitting

    metric, within = read_bound(options.keep_within)
    if wrong := typed() - _WITH_TRACES:
        raise click.UsageError(f"a trace is not run: leave {min(wrong)} out")
    if metric != "elapsed":
        raise click.UsageError(f"--keep-within: of a trace only elapsed is known, not {metric}")
    prediction = fitting.predicted([Path(word) for word in options.words], within)
    if options.as_json:
        echo_json(prediction)
        return
    say([*traced.sentences(prediction), traced.table(prediction)])


def _request(options: FitOptions) -> Request:
    from memlab.command import fitting
    from memlab.command.request import Trying
    from memlab.experiment.fit import Fit, read_bound

    metric, within = read_bound(options.keep_within)
    trying = Trying(
        metrics=options.metrics,
        latencies=options.latencies,
        timeout=options.timeout_s,
        serve=options.serve,
        ready=options.ready,
    )
    fit = Fit(metric, within, options.gate_bytes or 0)
    how: dict[str, Any] = {"budget_s": options.budget_s}
    return fitting.request(options.words, trying, fit, options.swap, **how)
