"""The options of commands that run a user's own command: `try` and `fit`."""

from __future__ import annotations

import shlex

import click

from memlab.cli._options import DURATION, Option


def _split(_: click.Context, __: click.Parameter, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--serve {text!r}: {error}") from None


metric_option = click.option(
    "--metric",
    "metrics",
    metavar="NAME[UNIT]=REGEX|@FILE",
    multiple=True,
    help="A number that the command prints, such as 'rate[1/s]=Throughput: ([0-9.]+)', or a field "
    "of a JSON file that it writes, such as 'latency.p99[s]@result.json'. Lower is better, unless "
    "NAME is a rate or UNIT ends in `,higher`.",
)
latencies_option = click.option(
    "--latencies",
    metavar="FILE[UNIT]",
    default="",
    help="Read latencies from this file, which the command writes: a number per line, in s unless "
    "a unit is named, as in 'latencies.txt[us]'. Adds percentiles and a figure.",
)
ready_option = click.option(
    "--ready",
    metavar="SIGN",
    default="",
    help="Start the load when the service is ready: tcp:{port}, unix:PATH, line:REGEX (a line that "
    "the service prints), or http://127.0.0.1:{port}/PATH (status 2xx or 3xx).",
)
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=DURATION,
    default="10min",
    show_default=True,
    help="Time limit for one run of the command.",
)
for_option = click.option(
    "--for",
    "for_s",
    metavar="TIME",
    type=DURATION,
    default=None,
    help="Run a command that does not end this long; then read its resident memory and end it with "
    "SIGTERM.",
)


def serve_option(what: str) -> Option:
    """`--serve COMMAND`, with `what` is applied to the service."""
    return click.option(
        "--serve",
        metavar="COMMAND",
        default="",
        callback=_split,
        help=f"Apply {what} to this service, such as 'redis-server --port {{port}}', which is "
        "started for each trial. COMMAND is then its load; {port} is a free port in both.",
    )
