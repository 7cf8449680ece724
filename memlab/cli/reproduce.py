"""`memlab reproduce`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlab.cli import _completing
from memlab.cli._asked import asked_options
from memlab.cli._fields import argument, global_option, option, shared, takes
from memlab.cli._options import (
    echo,
    echo_json,
    fresh_option,
    gate_option,
    in_full,
    json_option,
    on_option,
    verbose_option,
)

if TYPE_CHECKING:
    from memlab.judging.reproduce import Reproduced, Study
    from memlab.request import Request
    from memlab.store import Store


@dataclass(frozen=True, slots=True)
class ReproduceOptions:
    """What `memlab reproduce` is given."""

    study: str = argument(metavar="SOURCE|EXPERIMENT|all", shell_complete=_completing.study)
    asked: Mapping[str, Any] = shared(asked_options("reproduce"))
    fresh: bool = shared(fresh_option)
    verbose: bool = shared(verbose_option("Print every claim with its evidence and controls."))
    table: str | None = option(
        "--table",
        metavar="ID",
        help="Print one table of the study, such as 5 or first-copy, with the numbers of this "
        "machine.",
    )
    gate: bool = shared(gate_option)
    dry_run: bool = option(
        "--dry-run", is_flag=True, help="Print what would be measured, and for how long."
    )
    wait_s: float = global_option("wait_s")
    on: str | None = shared(on_option)
    store: Path | None = global_option("store")
    as_json: bool = shared(json_option)


@click.command()
@takes(ReproduceOptions)
def command(options: ReproduceOptions) -> None:
    """Measure what a study needs, and print claim by claim whether it holds on this machine: the
    answer first, a table of the experiments last. A stored run of this machine is used if it has
    every point; what is missing is measured.

    \b
    memlab reproduce logstore-mmap
    memlab reproduce miao-2021 --dry-run
    memlab reproduce miao-2021 --table 5
    memlab reproduce all --preset paper
    memlab reproduce miao-2021 --on ssh:a,b,c
    """
    from memlab import measure
    from memlab.cli import GATE
    from memlab.errors import CannotRun
    from memlab.judging import reproduce, summary
    from memlab.measure.progress import Live
    from memlab.present.screens import claims as screen
    from memlab.run.watch import Silent
    from memlab.store import Store

    wanted = reproduce.resolve(options.study)
    if options.table:
        wanted = reproduce.only(wanted, options.table)
    if options.on:
        _on_hosts(options, reproduce.resolve(options.study))
        return
    if options.dry_run and options.as_json:
        raise click.UsageError("--dry-run is text: leave --json out")
    requests = measure.requests(wanted, options.asked)
    if options.dry_run:
        for line in _expected(options, wanted.name, requests):
            echo(line)
        return
    results = []
    progress = not options.as_json
    with Store(options.store, create=True) as opened:
        if len(requests) > 1 and progress:
            echo(_in_all(wanted.name, requests, opened, options.fresh), err=True)
        for number, request in enumerate(requests, 1):
            of = f"{number} of {len(requests)}: " if len(requests) > 1 else ""
            if progress and of:
                echo(of + request.experiment, err=True)
            watch = Live(of) if progress else Silent()
            results.append(
                measure.reproduce(
                    request, opened, watch, fresh=options.fresh, wait_s=options.wait_s
                )
            )
    if not any(reproduced.run for reproduced in results):
        raise CannotRun(results[0].refused)
    if options.as_json:
        from memlab.present.documents.claims import Claims

        echo_json(Claims.made_of(results, wanted.not_built))
    elif options.verbose:
        screen.in_full(results, wanted.not_built)
    elif options.table:
        screen.table_of(results, wanted.name, options.table, _next(results))
    else:
        screen.reproduced(results, wanted.not_built, _next(results), in_full("--fresh"))
    if options.gate and any(summary.contradicted(r.judged) for r in results):
        click.get_current_context().exit(GATE)


def _on_hosts(options: ReproduceOptions, wanted: Study) -> None:
    from memlab.cli import GATE, _hosts

    if options.as_json or options.verbose or options.fresh:
        raise click.UsageError("--on measures again and prints a table: without --json, -v")
    words = _hosts.arguments({"on", "store", "study", "gate"})
    wrong = _hosts.reproduce(options.on or "", wanted, words, options.store)
    if wrong and options.gate:
        click.get_current_context().exit(GATE)


def _expected(options: ReproduceOptions, study: str, requests: Sequence[Request]) -> Iterator[str]:
    """The study, the time in all, then a line per experiment."""
    from memlab import measure
    from memlab.store import Store, default_path
    from memlab.text import units

    path, fresh = options.store or default_path(), options.fresh
    with Store(path) if path.exists() else nullcontext() as opened:
        yield f"{_in_all(study, requests, opened, fresh)}; nothing is measured now"
        results = [measure.expected(request, opened, fresh=fresh) for request in requests]
    width = max(len(request.experiment) for request in requests)
    for request, (words, seconds) in zip(requests, results, strict=True):
        lasting = f", at most {units.format_duration(seconds)}" if seconds else ""
        yield f"  {request.experiment:<{width}}  {words}{lasting}"


def _in_all(study: str, requests: Sequence[Request], store: Store | None, fresh: bool) -> str:
    """`miao-2021: 7 experiments, at most 7 min`: which study was meant, and the time in all."""
    from memlab import measure
    from memlab.text import units

    seconds = sum(measure.expected(request, store, fresh=fresh)[1] for request in requests)
    pauses_s = sum(item.pauses_s for item in requests)
    count = units.counted(len(requests), "experiment")
    with_pauses = " with its pauses" if pauses_s else ""
    return f"{study}: {count}, at most {units.format_duration(seconds + pauses_s)}{with_pauses}"


def _next(results: Sequence[Reproduced]) -> list[str]:
    """Of the experiment whose decided claims hold least; one that decided nothing says least."""
    from memlab.judging import summary

    def holding(result: Reproduced) -> tuple[bool, float]:
        parts = [c.overall for c in summary.by_claim(result.judged) if not c.absent]
        decided = [word for word in parts if word not in ("not decided", "not testable here")]
        return not decided, decided.count("holds") / max(1, len(decided))

    runs = [item for item in results if item.run]
    least = min(runs, key=holding)
    assert least.run is not None
    return [f"next: {least.run.command('claims')}"]
