"""memlab diagnose: what a live process does with its memory."""

import click

from memlab.cli._options import echo_json, json_option


@click.command(short_help="Look at a live process: what it does with its memory, and what to try.")
@click.argument("pid", type=click.IntRange(min=1))
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True, max=3600),
    default=10.0,
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
