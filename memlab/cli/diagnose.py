"""Look at a live process: what it does with its memory, and what to try."""

import click

from memlab.cli._options import Parsed, duration, echo, echo_json, json_option

_SECONDS_MAX = 3600


def _seconds(text: str) -> float:
    said = f"{text!r} is not a time above 0 and up to {_SECONDS_MAX} s, such as 10 or 2m"
    try:
        seconds = duration(text)
    except ValueError:
        raise ValueError(said) from None
    if not 0 < seconds <= _SECONDS_MAX:  # not a number, too
        raise ValueError(said)
    return seconds


@click.command()
@click.argument("pid", type=click.IntRange(min=1))
@click.option(
    "--seconds",
    type=Parsed("seconds", _seconds),
    default="10",
    show_default=True,
    help="How long to look.",
)
@click.option(
    "--walk",
    is_flag=True,
    help="Read its page tables, however many: huge pages and locked stacks are seen, and its calls "
    "that map memory wait some 13 ms per GiB.",
)
@click.option(
    "--if",
    "policies",
    metavar="POLICY=LEVEL",
    multiple=True,
    help="Predict what a policy would cost it: lock=future, lock=future_onfault, decay=-1 (its "
    "malloc gives nothing back), thp=always, stack=SIZE, memory_max=SIZE.",
)
@json_option
def command(pid: int, seconds: float, walk: bool, policies: tuple[str, ...], as_json: bool) -> None:
    """Look at process PID while it runs: malloc and its options, TLB shootdowns and which threads
    cause them, page faults, locked, pinned and swapped memory, and the room in its memory cgroup;
    with findings, the worst first. The process is not stopped."""
    from memlab.diagnose import diagnosis

    found = diagnosis.of(pid, seconds, walk=walk, policies=policies)
    if as_json:
        from memlab.present import data

        echo_json(data.diagnosis(found))
    else:
        from memlab.present import diagnosis as shown

        for line in shown.lines(found):
            echo(line)
