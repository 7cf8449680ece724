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
@click.argument("subject", metavar="[PID|NAME]", required=False)
@click.option(
    "--group",
    metavar="PATH|self|of:PID",
    help="Look at a memory cgroup: its path, this program's own, or that of a process.",
)
@click.option(
    "--seconds",
    type=Parsed("seconds", _seconds),
    default="10",
    show_default=True,
    help="How long to look: growth slower than a swing needs a look longer than it.",
)
@click.option(
    "--thorough",
    is_flag=True,
    help="Read all of a large heap: some 2 us of this program for each object.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also the evidence and all four accounts.")
@click.option(
    "--if",
    "policies",
    metavar="POLICY=LEVEL",
    multiple=True,
    help="Predict what a policy would cost it: lock=future, lock=future_onfault, decay=-1 (its "
    "malloc gives nothing back), thp=always, stack=SIZE, memory_max=SIZE.",
)
@json_option
def command(
    subject: str | None,
    group: str | None,
    seconds: float,
    thorough: bool,
    verbose: bool,
    policies: tuple[str, ...],
    as_json: bool,
) -> None:
    """Look at a process while it runs, or at a memory cgroup: who holds its memory, where its page
    faults come from, which limits are near or refuse already, and what its threads wait for. The
    findings come first, the worst at the top. The process is not stopped.

    \b
    memlab diagnose 4711
    memlab diagnose redis-server -v
    memlab diagnose --group of:4711
    """
    from memlab.diagnose import diagnosis
    from memlab.diagnose.subject import named
    from memlab.errors import BadRequest

    if (subject is None) == (group is None):
        raise BadRequest("name one subject: a PID, a name, or --group PATH|self|of:PID")
    if group is not None:
        if policies or thorough:
            raise BadRequest("--if and --thorough look at a process: name its PID")
        found = diagnosis.of_group(group, seconds)
    else:
        assert subject is not None
        found = diagnosis.of(named(subject), seconds, thorough=thorough, policies=policies)
    if as_json:
        from memlab.present import data

        echo_json(data.diagnosis(found))
    else:
        from memlab.diagnose import output

        for line in output.lines(found, verbose=verbose):
            echo(line)
