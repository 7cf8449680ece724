"""memlab diagnose: what a live process does with its memory."""

import click

from memlab.cli._options import Parsed, echo_json, json_option

_SECONDS_MAX = 3600


def _seconds(text: str) -> float:
    said = f"{text!r} is not a number of seconds above 0 and up to {_SECONDS_MAX}, such as 10"
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(said) from None
    if not 0 < seconds <= _SECONDS_MAX:  # not a number, too
        raise ValueError(said)
    return seconds


@click.command(short_help="Look at a live process: what it does with its memory, and what to try.")
@click.argument("pid", type=click.IntRange(min=1))
@click.option(
    "--seconds",
    type=Parsed("seconds", _seconds),
    default="10",
    show_default=True,
    help="How long to look.",
)
@json_option
def command(pid: int, seconds: float, as_json: bool) -> None:
    """Look at process PID while it runs: malloc and its options, TLB shootdowns and which threads
    cause them, page faults, locked, pinned and swapped memory, and the room in its memory cgroup;
    with findings, the worst first. The process is not stopped."""
    from memlab.diagnose import diagnosis
    from memlab.present import diagnosis as shown

    found = diagnosis.of(pid, seconds)
    if as_json:
        echo_json(shown.as_data(found))
    else:
        click.echo(shown.text(found))
