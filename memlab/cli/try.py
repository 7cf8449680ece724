"""`memlab try`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab.cli._asked import asked_options
from memlab.cli._fields import argument, global_option, option, shared, takes
from memlab.cli._guests import in_option, place
from memlab.cli._options import (
    figure_option,
    json_option,
    on_option,
    output_folder,
    quiet_option,
)
from memlab.cli._programs import (
    for_option,
    latencies_option,
    metric_option,
    ready_option,
    serve_option,
    timeout_option,
)

if TYPE_CHECKING:
    from memlab.request import Request


class _Trying(click.Command):
    """What follows the first word belongs to that command, but after a file it is memlab's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        remaining = list(args)
        rest = super().parse_args(ctx, list(args))
        words: tuple[str, ...] = ctx.params.get("words") or ()
        if "--" not in remaining and len(words) > 1 and words[0].endswith(".toml"):
            ctx.params.clear()
            before = remaining[: len(remaining) - len(words)]
            rest = super().parse_args(ctx, [*before, *words[1:], "--", words[0]])
        return rest


@dataclass(frozen=True, slots=True)
class TryOptions:
    """What `memlab try` is given."""

    policies: tuple[str, ...] = option(
        "-p",
        "--policy",
        metavar="NAME=LEVELS",
        multiple=True,
        help="Levels of a policy (lock=off,future), a variable (env.NAME=1,2) or a placeholder in "
        "the command (n=1,2,4 for {n}); the first level is the baseline.",
    )
    metrics: tuple[str, ...] = shared(metric_option)
    latencies: str = shared(latencies_option)
    serve: list[str] = shared(serve_option("the policies"))
    ready: str = shared(ready_option)
    duet: bool = option(
        "--duet",
        is_flag=True,
        help="Run two levels at the same time on one CPU and compare their processor times.",
    )
    expect: tuple[str, ...] = option(
        "--expect",
        metavar="TEXT",
        multiple=True,
        help="Judge an expectation: 'elapsed: lock=future / lock=off < 1.05' or 'peak_rss: "
        "lock=off < 100M'.",
    )
    gate: bool = option(
        "--gate",
        is_flag=True,
        help="Exit with 1 unless every --expect is shown to hold; with 3 if other programs "
        "disturbed every sample.",
    )
    asked: Mapping[str, Any] = shared(asked_options("try"))
    guest: Mapping[str, Any] | None = shared(in_option)
    on: str | None = shared(on_option)
    timeout_s: float = shared(timeout_option)
    for_s: float | None = shared(for_option)
    dry_run: bool = option(
        "--dry-run", is_flag=True, help="Print what would be run, and run nothing."
    )
    wait_s: float = global_option("wait_s")
    store: Path | None = global_option("store")
    output: Path | None = shared(figure_option)
    quiet: bool = shared(quiet_option)
    as_json: bool = shared(json_option)
    jsonl: bool = option("--jsonl", is_flag=True, hidden=True)  # what --on asks of a host
    stop_on_input: bool = option("--stop-on-input", is_flag=True, hidden=True)
    words: tuple[str, ...] = argument(
        metavar="[--] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED
    )


@click.command(cls=_Trying, context_settings={"allow_interspersed_args": False})
@takes(TryOptions)
def command(options: TryOptions) -> None:
    """Run COMMAND under each level of each policy, in randomised, interleaved blocks; then print
    what each level changes from the first, with intervals. A level sets a lock, an allocator, huge
    pages or a limit.

    \b
    memlab try -p lock=off,future -- ./server --selftest
    memlab try app.toml
    memlab try -p malloc=system,jemalloc,mimalloc -p n=1,4 -- ./app --threads {n}
    memlab try -p malloc=system,jemalloc --for 20s -- ./service
    memlab try -p lock=off,future --serve './server {port}' --ready tcp:{port} \\
        -- ./load {port}
    memlab try -p app=./old,./new --gate \\
        --expect 'elapsed: app=./new / app=./old < 1.02' -- {app}
    memlab try -p lock=off,future --on ssh:a,b,c -- /opt/app/server --selftest
    """
    if options.on:
        _on_hosts(options)
        return
    if options.jsonl and (options.as_json or options.gate):
        raise click.UsageError("--jsonl prints rows: without --json and --gate")
    from memlab.cli import GATE, _planning, _sweeping
    from memlab.errors import CannotRun
    from memlab.judging.claims import judge
    from memlab.judging.disturbed import Disturbed, is_undecided

    _sweeping.check(options.asked)
    guest = place(options.guest)
    request = _request(options)
    blocks = options.asked["blocks"]
    if blocks and request.blocks and request.blocks > blocks:
        words = f"{request.blocks} blocks, not {blocks}: fewer cannot tell so many levels apart"
        click.echo(f"memlab: {words}", err=True)
    if options.gate and not (request.subject or {}).get("expect"):
        raise click.UsageError("--gate needs an --expect")
    if options.dry_run:
        _planning.dry_run(request, guest, options.as_json)
        return
    rows = _sweeping.Rows() if options.jsonl else None
    folder = None if rows else output_folder(options.output, options.store)
    if options.stop_on_input:
        _sweeping.on_a_link(rows)
    quiet = options.quiet or options.as_json
    run = _sweeping.sweep(request, guest, options.store, quiet, options.wait_s, rows)
    if folder is None:
        return
    _sweeping.report(run, folder, quiet=options.quiet, as_json=options.as_json)
    if not options.gate:
        return
    judged, disturbed = judge(run), Disturbed.of_run(run)
    undecided = {item.claim.id for item in judged if is_undecided(run, item, disturbed)}
    short = {item.claim.id for item in judged if item.word != "reproduced"} - undecided
    if short:
        words = f"{len(short)} of {len(run.experiment.claims)} expectations are not shown to hold"
        click.echo(f"memlab: {words}", err=True)
        click.get_current_context().exit(GATE)
    if undecided:
        raise CannotRun(f"--gate is undecided: {disturbed.text}")


def _on_hosts(options: TryOptions) -> None:
    """Try the command on each host of --on, and print a table per host."""
    from memlab.cli import _hosts
    from memlab.present.screens import run as screen
    from memlab.store import default_path

    excluded = options.jsonl or options.dry_run or options.gate
    if excluded or (len(options.words) == 1 and options.words[0].endswith(".toml")):
        raise click.UsageError(
            "--on takes a command of the hosts: without --jsonl, --dry-run, --gate and a file"
        )
    quiet = options.quiet or options.as_json
    results, runs = _hosts.sweep(
        options.on or "", "try", _hosts.wanted_run("try", None), options.store, quiet=quiet
    )
    if not quiet:
        for run in runs:
            screen.show(run)
    _hosts.print_results(results, options.store or default_path(), as_json=options.as_json)


def _request(options: TryOptions) -> Request:
    """Of a command, or of the file that has one."""
    from memlab.command import request as of_command

    words, metrics, expect = options.words, options.metrics, options.expect
    if len(words) == 1 and words[0].endswith(".toml"):
        typed_here = (
            options.policies,
            metrics,
            options.latencies,
            expect,
            options.serve,
            options.duet,
        )
        if any((*typed_here, options.for_s)):
            raise click.UsageError(f"{words[0]} has the policies, metrics and expectations")
        return of_command.command_file(Path(words[0]), **options.asked)
    trying = of_command.Trying(
        metrics=metrics,
        latencies=options.latencies,
        expect=expect,
        timeout=options.timeout_s,
        run_for=options.for_s,
        serve=options.serve,
        ready=options.ready,
        duet=options.duet,
    )
    policies = of_command.read_policies(words, options.serve, options.policies)
    return of_command.command(words, policies, trying, **options.asked)
