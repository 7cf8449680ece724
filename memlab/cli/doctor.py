"""`memlab doctor`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from memlab.cli._options import echo, echo_behind, echo_json, json_option, verbose_option

if TYPE_CHECKING:
    from memlab.measure import RunsHere
    from memlab.observe.capabilities import Capability


@click.command()
@verbose_option(
    "Print what each experiment lacks, the time and memory that it takes, and all remedies."
)
@json_option
def command(verbose: bool, as_json: bool) -> None:
    """Print which experiments this machine can run in full, what memlab can measure and change
    here, and how to get what is missing. The last line installs the missing packages."""
    from memlab import measure
    from memlab.observe import cpu
    from memlab.present.table import SCREEN

    runs, machine = measure.runs_here(), measure.capabilities_here()
    if as_json:
        from memlab.observe.capabilities import Capability
        from memlab.present.documents import converted

        echo_json(converted([*runs, *machine], list[Capability]))
        return
    part = [c for c in runs if not c.available]
    lines = echo_behind("", f"{len(runs) - len(part)} of {len(runs)} experiments run here in full")
    if busy := cpu.busy_now():
        lines += echo_behind("", busy)
    if verbose:
        for c in runs:
            name = c.name.removeprefix(measure.EXPERIMENT)
            lacking = f": {c.remedy}" if c.remedy else ""
            echo_behind("  ", f"{name}, {c.detail}{lacking}")
        echo("")
        _in_full(machine)
    else:
        _in_short(part, machine, SCREEN - lines - _BELOW)
    if packages := _packages([c.remedy or "" for c in [*runs, *machine] if not c.available]):
        echo(f"apt install {' '.join(packages)}")


_BELOW = 3  # lines: what is left out, the packages, and the prompt


def _in_short(part: Sequence[RunsHere], machine: Sequence[Capability], room: int) -> None:
    """What is there in a sentence, what is missing in a line each, in so many lines in all."""
    for what, some in (
        ("in part", [c for c in part if c.decides or not c.claims]),
        ("decide nothing here", [c for c in part if c.claims and not c.decides]),
    ):
        if some:
            names = ", ".join(c.name.rpartition(" ")[2] for c in some)
            room -= echo_behind("", f"{what}: {names}")
    missing = [c for c in machine if not c.available]
    room -= echo_behind("yes  ", ", ".join(c.name for c in machine if c.available))
    width = max((len(c.name) for c in missing), default=0)
    shown = 0
    for c in missing:
        if room <= 0:
            break
        # The first of ways; `-v` has them all.
        way = re.split(r"; |: |, | \(", c.remedy or "")[0]
        room -= echo_behind(f"no   {c.name:<{width}}  ", way)
        shown += 1
    more = f"{len(missing) - shown} more missing; " if len(missing) > shown else ""
    echo(f"{more}details and remedies: memlab doctor -v")


def _in_full(machine: Sequence[Capability]) -> None:
    width = max(len(c.name) for c in machine)
    for c in machine:
        echo_behind(f"{'yes' if c.available else 'no ':<3}  {c.name:<{width}}  ", c.detail)
        if not c.available and c.remedy:
            echo_behind(f"{'':<{width + 7}}", f"to get it: {c.remedy}")


def _packages(remedies: Iterable[str]) -> list[str]:
    """What Debian has of all that is missing, each once: the line that installs it."""
    named = (result for text in remedies for result in _APT.findall(text))
    return list(dict.fromkeys(word for words in named for word in words.split()))


_APT = re.compile(r"apt install ([a-z0-9][\w.+-]*(?: [a-z0-9][\w.+-]*)*)(?=[,;:)]|$)")
