"""Measure your own command under other memory policies: locks, allocators, huge pages, limits."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab.cli._asked import asked_options
from memlab.cli._options import (
    DURATION,
    Waiting,
    figure_option,
    json_option,
    jsonl_option,
    output_folder,
    store_option,
    wait_option,
)

if TYPE_CHECKING:
    from memlab.run.target import Place


class _Trying(Waiting):
    """What follows the first word belongs to that command, but after a file it is memlab's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, list(args))
        words: tuple[str, ...] = ctx.params.get("words") or ()
        if "--" not in given and len(words) > 1 and words[0].endswith(".toml"):
            ctx.params.clear()
            before = given[: len(given) - len(words)]
            rest = super().parse_args(ctx, [*before, *words[1:], "--", words[0]])
        return rest


@click.command(cls=_Trying, context_settings={"allow_interspersed_args": False})
@click.option(
    "-p",
    "--policy",
    "assignments",
    metavar="NAME=LEVELS",
    multiple=True,
    help="Levels of a policy, the baseline first: lock=off,future; of a variable: env.NAME=1,2; "
    "of a placeholder in the command: n=1,2,4 for {n}.",
)
@click.option(
    "--metric",
    "metrics",
    metavar="NAME[UNIT]=REGEX",
    multiple=True,
    help="A number that the command prints, such as 'rate[1/s]=Throughput: ([0-9.]+)'; lower is "
    "better, unless it is a rate or the unit is followed by `,higher`.",
)
@click.option(
    "--metric-json",
    "metric_file",
    metavar="FILE",
    default="",
    help="A JSON file that the command writes; --metric NAME[UNIT] then names a field of it.",
)
@click.option(
    "--latencies",
    metavar="FILE[UNIT]",
    default="",
    help="A file of numbers that the command writes, a latency each, in s, or in the unit named: "
    "'latencies.txt[us]'. Gives percentiles and a figure.",
)
@click.option(
    "--serve",
    metavar="COMMAND",
    default="",
    help="A service that has the policies: 'redis-server --port {port}'. COMMAND is then the load "
    "on it, and {port} in both a free port. It is started for each trial; see --keep.",
)
@click.option(
    "--ready",
    metavar="SIGN",
    default="",
    help="When the load begins: tcp:{port}, unix:PATH, line:REGEX that the service prints, or "
    "http://127.0.0.1:{port}/PATH once its status is 2xx or 3xx.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the service for the trials of a block that have the same policies.",
)
@click.option(
    "--duet",
    is_flag=True,
    help="Run two levels at the same time on one CPU and compare their processor times: both meet "
    "the same machine.",
)
@click.option(
    "--expect",
    "expect",
    metavar="TEXT",
    multiple=True,
    help="'elapsed: lock=future / lock=off < 1.05' or 'peak_rss: lock=off < 100M'.",
)
@click.option("--gate", is_flag=True, help="End with 1 unless every --expect is shown to hold.")
@asked_options("try")
@click.option(
    "--timeout",
    "timeout_s",
    type=DURATION,
    default="10min",
    show_default=True,
    help="Time limit of one run of the command.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be run, and run nothing.")
@wait_option
@store_option
@figure_option
@click.option("-q", "--quiet", is_flag=True, help="No progress, no table.")
@json_option
@jsonl_option
@click.option("--stop-on-input", is_flag=True, hidden=True)
@click.argument("words", metavar="[--] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def command(
    assignments: tuple[str, ...],
    metrics: tuple[str, ...],
    metric_file: str,
    latencies: str,
    serve: str,
    ready: str,
    keep: bool,
    duet: bool,
    expect: tuple[str, ...],
    gate: bool,
    timeout_s: float,
    dry_run: bool,
    wait_s: float,
    store: Path | None,
    output: Path | None,
    quiet: bool,
    as_json: bool,
    jsonl: bool,
    stop_on_input: bool,
    words: tuple[str, ...],
    guest: Place | None = None,
    **asked: Any,
) -> None:
    """Run COMMAND under each level of each policy, in randomised, interleaved blocks; then say
    what each level changes, with intervals, beside the first.

    \b
    memlab try -p lock=off,future -- ./server --selftest
    memlab try app.toml
    memlab try -p malloc=system,jemalloc,mimalloc -p n=1,4 -- ./app --threads {n}
    memlab try -p lock=off,future --serve './server {port}' --ready tcp:{port} -- ./load {port}
    memlab try -p app=./old,./new --gate --expect 'elapsed: app=./new / app=./old < 1.02' -- {app}
    memlab try -p lock=off,future --on ssh:a,b,c -- /opt/app/server --selftest
    """
    if jsonl and (as_json or gate):
        raise click.UsageError("--jsonl prints rows: without --json and --gate")
    from memlab.cli import _planning, _sweeping
    from memlab.command import request as of_command
    from memlab.judging.claims import judge

    _sweeping.check(asked)
    if len(words) == 1 and words[0].endswith(".toml"):
        if any((assignments, metrics, metric_file, latencies, expect, serve, keep, duet)):
            raise click.UsageError(f"{words[0]} has the policies, metrics and expectations")
        request = of_command.command_file(Path(words[0]), **asked)
    else:
        try:
            served = shlex.split(serve)
        except ValueError as error:
            raise click.UsageError(f"--serve {serve!r}: {error}") from None
        trying = of_command.Trying(
            metrics=metrics,
            metric_json=metric_file,
            latencies=latencies,
            expect=expect,
            timeout=timeout_s,
            serve=served,
            ready=ready,
            keep=keep,
            duet=duet,
        )
        policies = of_command.read_policies(words, served, assignments)
        request = of_command.command(words, policies, trying, **asked)
    if gate and not (request.subject or {}).get("expect"):
        raise click.UsageError("--gate needs an --expect")
    if dry_run:
        _planning.dry_run(request, guest, as_json)
        return
    rows = _sweeping.Rows() if jsonl else None
    folder = None if rows else output_folder(output, store)
    if stop_on_input:
        _sweeping.stop_on_input()
    run = _sweeping.sweep(request, guest, store, quiet or as_json, wait_s, rows)
    if folder is None:
        return
    _sweeping.report(run, folder, quiet=quiet, as_json=as_json)
    short = {one.claim.id for one in judge(run) if one.word != "reproduced"} if gate else set()
    if short:
        said = f"{len(short)} of {len(run.experiment.claims)} expectations are not shown to hold"
        click.echo(f"memlab: {said}", err=True)
        click.get_current_context().exit(1)
