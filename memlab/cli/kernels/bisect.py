"""`memlab kernels bisect`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._fields import argument, global_option, option, several, shared, takes
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
    good: str | None = option(
        "--good", metavar="KERNEL", help="Older kernel: a version such as 6.1, or an image."
    )
    bad: str | None = option(
        "--bad", metavar="KERNEL", help="Newer kernel with another verdict or value."
    )
    step: str | None = option(
        "--step",
        metavar="IMAGE",
        help="Judge the claim under this image only, for `git bisect run`: exit 0, 1 or 125.",
    )
    levels: tuple[str, ...] = shared(
        factor_option("Levels of a factor (default: only those that the claim needs).")
    )
    guest: KernelsOptions = several(KernelsOptions)
    wait_s: float = global_option("wait_s")
    store: Path | None = global_option("store")


@click.command()
@takes(BisectOptions)
def command(given: BisectOptions) -> None:
    """Search the kernels at hand between two that differ in a claim, by its id, or in a metric, and
    name the kernel that changed it. Each kernel is measured in a guest; if the result is undecided,
    again with four times as many blocks; if it is still undecided, the kernel is skipped.

    \b
    memlab kernels bisect vma-lock mlock-onfault-lockonfault-vma-count-1 \\
        --good 6.1 --bad 7.3
    memlab kernels bisect mmap-write faults_per_mib -p file_state=cached_1m \\
        --good 6.1 --bad 7.3
    git bisect run memlab kernels bisect vma-lock mlock-resident-pages-7 \\
        --step arch/x86/boot/bzImage

    Exit codes with --step: 0 the claim holds, 1 it is contradicted, 125 undecided. An undecided
    claim is measured twice, so that at most 10 % of the steps are wrong.
    """
    from memlab import experiments
    from memlab.errors import BadRequest
    from memlab.machines.guest import kernels
    from memlab.machines.ladder import measure as ladder
    from memlab.machines.ladder import show as present
    from memlab.run.watch import Silent
    from memlab.store import default_path

    experiment, wanted = given.experiment, given.wanted
    declared = experiments.load(experiment)
    is_claim = wanted in [claim.id for claim in (*declared.claims, *declared.changes)]
    if not is_claim and wanted not in [metric.name for metric in declared.metrics]:
        raise BadRequest(
            f"{experiment} has no claim and no metric {wanted!r};"
            f" `memlab describe -v {experiment}` lists them"
        )
    machine = given.guest.machine
    request = ladder.LadderRequest(
        [experiment],
        [wanted],
        [] if is_claim else [wanted],
        given.levels,
        given.guest.blocks,
        given.guest.guest["memory"],
        given.guest.guest["append"],
        ladder.judges_times(machine),
    )
    ladder.requests(request)
    path = given.store or default_path()
    if given.step:
        if given.good or given.bad or not is_claim:
            raise BadRequest("--step takes a claim and one image, without --good and --bad")
        image = kernels.look(Path(given.step).absolute())
        code = ladder.step(request, wanted, image, path, Silent(), given.wait_s)
        click.get_current_context().exit(code)
    if not (given.good and given.bad):
        raise BadRequest("name the two ends: --good KERNEL --bad KERNEL")
    ends = [*kernels.choose([given.good], machine), *kernels.choose([given.bad], machine)]
    span = kernels.between(ends[0], ends[-1])

    def done(result: ladder.KernelResult) -> None:
        for line in result.failed:
            echo(f"memlab: {result.kernel.version}: {line}", err=True)

    row, answer = ladder.bisect(request, wanted, span, path, Silent(), done, given.wait_s)
    for line in present.bisected(row, answer):
        echo(line)
