"""`memlab doctor`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from memlab.cli._options import behind, echo_json, json_option, verbose_option

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

    runs, machine = measure.runs_here(), measure.capabilities_here()
    if as_json:
        from memlab.observe.capabilities import Capability
        from memlab.present.documents import converted

        echo_json(converted([*runs, *machine], list[Capability]))
        return
    part = [c for c in runs if not c.available]
    lines = behind("", f"{len(runs) - len(part)} of {len(runs)} experiments run here in full")
    if busy := cpu.busy_now():
        lines += behind("", busy)
    lines = [*lines, *_in_full(runs, machine)] if verbose else _in_short(lines, part, machine)
    if packages := _packages([c.remedy or "" for c in [*runs, *machine] if not c.available]):
        lines.append(f"apt install {' '.join(packages)}")
    click.echo("\n".join(lines))


_BELOW = 3  # lines: what is left out, the packages, and the prompt


def _in_short(
    lines: list[str], part: Sequence[RunsHere], machine: Sequence[Capability]
) -> list[str]:
    """`lines`, what is there in a sentence, and what is missing in a line each, on one screen."""
    from memlab.present.answer import Block, Verbatim, fit
    from memlab.present.table import SCREEN, console

    for what, some in (
        ("in part", [c for c in part if c.decides or not c.claims]),
        ("decide nothing here", [c for c in part if c.claims and not c.decides]),
    ):
        if some:
            lines += behind("", f"{what}: {', '.join(c.name.rpartition(' ')[2] for c in some)}")
    missing = [c for c in machine if not c.available]
    lines += behind("yes  ", ", ".join(c.name for c in machine if c.available))
    width = max((len(c.name) for c in missing), default=0)
    of_each = [  # the first of ways; `-v` has them all
        behind(f"no   {c.name:<{width}}  ", _FIRST.split(c.remedy or "")[0]) for c in missing
    ]
    blocks = [Block([*map(Verbatim, lines)], "more missing") for lines in of_each]
    shown, left = fit(console(), [Block([*map(Verbatim, lines)]), *blocks], SCREEN - _BELOW)
    more = "".join(f"{count} {name}; " for name, count in left.items())
    return [*"".join(shown).splitlines(), f"{more}details and remedies: memlab doctor -v"]


_FIRST = re.compile(r"; |: |, | \(")


def _in_full(runs: Sequence[RunsHere], machine: Sequence[Capability]) -> Iterator[str]:
    from memlab.measure import EXPERIMENT

    for run in runs:
        lacking = f": {run.remedy}" if run.remedy else ""
        yield from behind("  ", f"{run.name.removeprefix(EXPERIMENT)}, {run.detail}{lacking}")
    yield ""
    width = max(len(c.name) for c in machine)
    for c in machine:
        yield from behind(f"{'yes' if c.available else 'no ':<3}  {c.name:<{width}}  ", c.detail)
        if not c.available and c.remedy:
            yield from behind(f"{'':<{width + 7}}", f"to get it: {c.remedy}")


def _packages(remedies: Iterable[str]) -> list[str]:
    """What Debian has of all that is missing, each once: the line that installs it."""
    named = (result for text in remedies for result in _APT.findall(text))
    return list(dict.fromkeys(word for words in named for word in words.split()))


_APT = re.compile(r"apt install ([a-z0-9][\w.+-]*(?: [a-z0-9][\w.+-]*)*)(?=[,;:)]|$)")
