"""`memlab kernels bisect`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._fields import argument, global_option, several, shared, takes
from memlab.cli._guests import KernelsOptions
from memlab.cli._options import (
    echo,
    factor_option,
)


@dataclass(frozen=True, slots=True)
class BisectOptions:
    """What `memlab kernels bisect` is given."""

    experiment: str = argument(shell_complete=_completing.experiment)
    wanted: str = argument(metavar="CLAIM|METRIC")
    kernels: tuple[str, ...] = argument(metavar="OLDER NEWER|KERNEL", nargs=-1, required=True)
    levels: tuple[str, ...] = shared(
        factor_option("Levels of a factor (default: only those that the claim needs).")
    )
    guest: KernelsOptions = several(KernelsOptions)
    wait_s: float = global_option("wait_s")
    store: Path | None = global_option("store")


@click.command()
@takes(BisectOptions)
def command(options: BisectOptions) -> None:
    """Search the kernels at hand between OLDER and NEWER, which differ in a claim, by its id, or in
    a metric, and name the kernel that changed it. A kernel is a version such as 6.1, or an image.
    Each kernel is measured in a guest; if the result is undecided, again with four times as many
    blocks; if it is still undecided, the kernel is skipped.

    \b
    memlab kernels bisect vma-lock mlock-onfault-lockonfault-vma-count-1 \\
        6.1 7.3
    memlab kernels bisect mmap-write faults_per_mib -p file_state=cached_1m \\
        6.1 7.3
    git bisect run memlab kernels bisect vma-lock mlock-resident-pages-7 \\
        arch/x86/boot/bzImage

    Under one KERNEL only, the exit code is for `git bisect run`: 0 the claim holds, 1 it is
    contradicted, 125 undecided. An undecided claim is measured twice, so that at most 10 % of these
    codes are wrong.
    """
    from memlab import experiments
    from memlab.errors import BadRequest
    from memlab.machines.guest import kernels
    from memlab.machines.ladder import measure as ladder
    from memlab.machines.ladder import show as present
    from memlab.run.watch import Silent
    from memlab.store import default_path

    experiment, wanted = options.experiment, options.wanted
    declared = experiments.load(experiment)
    is_claim = wanted in [claim.id for claim in (*declared.claims, *declared.changes)]
    if not is_claim and wanted not in [metric.name for metric in declared.metrics]:
        raise BadRequest(
            f"{experiment} has no claim and no metric {wanted!r};"
            f" `memlab describe -v {experiment}` lists them"
        )
    machine = options.guest.machine
    request = ladder.LadderRequest(
        [experiment],
        [wanted],
        [] if is_claim else [wanted],
        options.levels,
        options.guest.blocks,
        options.guest.guest["memory"],
        options.guest.guest["append"],
        ladder.judges_times(machine),
    )
    ladder.requests(request)
    path = options.store or default_path()
    ends = [kernel for name in options.kernels for kernel in kernels.choose([name], machine)]
    if len(options.kernels) == 1 and is_claim:
        code = ladder.step(request, wanted, ends[0], path, Silent(), options.wait_s)
        click.get_current_context().exit(code)
    if len(options.kernels) != 2:
        raise BadRequest("name two kernels, the older first, such as 6.1 7.3; one, of a claim only")
    span = kernels.between(ends[0], ends[-1])

    def done(result: ladder.KernelResult) -> None:
        for line in result.failed:
            echo(f"memlab: {result.kernel.version}: {line}", err=True)

    row, answer = ladder.bisect(request, wanted, span, path, Silent(), done, options.wait_s)
    for line in present.bisected(row, answer):
        echo(line)
