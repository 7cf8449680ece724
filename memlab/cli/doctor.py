"""Say what this machine lets memlab see and do."""

import re
from collections.abc import Iterable

import click

from memlab.cli._options import echo, echo_behind, echo_json, json_option


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Say which experiments run here in full, what this machine lets memlab see and do, and how to
    get what is missing."""
    from memlab import measure
    from memlab.observe import cpu

    runs, machine = measure.runs_here(), measure.capabilities_here()
    if as_json:
        from memlab.present.documents import Capability

        found = [*runs, *machine]
        echo_json([Capability(c.name, c.available, c.detail, c.remedy) for c in found])
        return
    full = sum(c.available for c in runs)
    partly = "" if full == len(runs) else "; some points of the others are unavailable:"
    echo_behind("", f"{full} of {len(runs)} experiments run here in full{partly}")
    if busy := cpu.busy_now():
        echo_behind("", busy)
    for c in runs:
        if not c.available:
            echo_behind("  ", f"{c.name.removeprefix(measure.EXPERIMENT)}, {c.detail}: {c.remedy}")
    echo("")
    width = max(len(c.name) for c in machine)
    for c in machine:
        echo_behind(f"{'yes' if c.available else 'no ':<3}  {c.name:<{width}}  ", c.detail)
        if not c.available and c.remedy:
            echo_behind(f"{'':<{width + 7}}", f"to get it: {c.remedy}")
    if packages := _packages([c.remedy or "" for c in [*runs, *machine] if not c.available]):
        echo(f"apt install {' '.join(packages)}")


def _packages(remedies: Iterable[str]) -> list[str]:
    """What Debian has of all that is missing, each once: the line that installs it."""
    named = (found for text in remedies for found in _APT.findall(text))
    return list(dict.fromkeys(word for words in named for word in words.split()))


_APT = re.compile(r"apt install ([a-z0-9][\w.+-]*(?: [a-z0-9][\w.+-]*)*)(?=[,;:)]|$)")
