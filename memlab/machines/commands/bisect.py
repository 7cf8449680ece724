"""Find the kernel since which a claim or a count is another."""

from __future__ import annotations

from pathlib import Path

import click

from memlab.cli import _completing
from memlab.cli._options import (
    Waiting,
    echo,
    factor_option,
    store_option,
    wait_option,
)
from memlab.machines.options import MACHINES, small_guest_options


@click.command(cls=Waiting)
@click.argument("experiment", shell_complete=_completing.experiment)
@click.argument("wanted", metavar="CLAIM|METRIC")
@click.option("--good", metavar="KERNEL", help="An older kernel: 6.1, a release or an image.")
@click.option("--bad", metavar="KERNEL", help="A newer one that shows something else.")
@click.option(
    "--step",
    metavar="IMAGE",
    help="Judge the claim under this image alone, for `git bisect run`: exit 0, 1 or 125.",
)
@factor_option("Levels of a factor; else the least that the claim needs.")
@small_guest_options
@wait_option
@store_option
def command(
    experiment: str,
    wanted: str,
    good: str | None,
    bad: str | None,
    step: str | None,
    levels: tuple[str, ...],
    blocks: int,
    guest_memory: int,
    arch: str,
    append: str,
    wait_s: float,
    store: Path | None,
) -> None:
    """Halve the kernels at hand between two that differ on a claim (by its id) or on a metric, each
    in a guest, down to the step. A kernel that is undecided is measured again with four times as
    many blocks, and then skipped.

    \b
    memlab bisect vma-lock mlock-onfault-lockonfault-vma-count-1 --good 6.1 --bad 7.3
    memlab bisect mmap-write faults_per_mib -p file_state=cached_1m --good 6.1 --bad 7.3
    git bisect run memlab bisect vma-lock mlock-resident-pages-7 --step arch/x86/boot/bzImage

    With --step, exit 0: the claim holds, 1: it is contradicted, 125: this kernel does not say.
    An undecided claim is looked at twice, so that a step is wrong in at most 10 %.
    """
    from memlab import experiments
    from memlab.errors import BadRequest
    from memlab.machines.guest import kernels
    from memlab.machines.ladder import measure as ladder
    from memlab.machines.ladder import show as present
    from memlab.run.watch import Silent
    from memlab.store import default_path

    declared = experiments.load(experiment)
    is_claim = wanted in [claim.id for claim in (*declared.claims, *declared.changes)]
    if not is_claim and wanted not in [metric.name for metric in declared.metrics]:
        raise BadRequest(
            f"{experiment} has no claim and no metric {wanted!r};"
            f" `memlab describe -v {experiment}` lists them"
        )
    metrics = [] if is_claim else [wanted]
    machine = MACHINES[arch]
    timed = ladder.judges_times(machine)
    asked = ladder.LadderRequest(
        [experiment], [wanted], metrics, levels, blocks, guest_memory, append, timed
    )
    ladder.requests(asked)
    path = store or default_path()
    if step:
        if good or bad or not is_claim:
            raise BadRequest("--step takes a claim and one image, without --good and --bad")
        image = kernels.look(Path(step).absolute())
        code = ladder.step(asked, wanted, image, path, Silent(), wait_s)
        click.get_current_context().exit(code)
    if not (good and bad):
        raise BadRequest("name the two ends: --good KERNEL --bad KERNEL")
    ends = [*kernels.choose([good], machine), *kernels.choose([bad], machine)]
    span = kernels.between(ends[0], ends[-1])

    def done(result: ladder.KernelResult) -> None:
        for line in result.failed:
            echo(f"memlab: {result.kernel.version}: {line}", err=True)

    row, found = ladder.bisect(asked, wanted, span, path, Silent(), done, wait_s)
    for line in present.bisected(row, found):
        echo(line)
