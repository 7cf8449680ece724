"""`memlab record`."""

from pathlib import Path

import click

from memlab.cli._options import DURATION, FileName, Parsed, echo, echo_json, json_option
from memlab.text.units import parse_size


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "output",
    type=FileName(dir_okay=False, path_type=Path),
    required=True,
    help="Trace file; the name ends in .trace.",
)
@click.option(
    "--seconds",
    "seconds",
    type=DURATION,
    default=0.0,
    help="Recording time (default: until the process ends, or Ctrl-C).",
)
@click.option("--redact", is_flag=True, help="Omit the names of files and threads.")
@click.option(
    "--keep-huge-pages",
    "keep_huge",
    is_flag=True,
    help="Let the command use huge pages; touches inside one are then not recorded.",
)
@click.option(
    "--allocations",
    is_flag=True,
    help="Record malloc and free of a command too, so that `memlab try` can vary malloc=LEVELS.",
)
@click.option(
    "--buffer",
    "ring_bytes",
    type=Parsed("size", parse_size),
    default="32M",
    show_default=True,
    help="Buffer for events per CPU; a power of two.",
)
@json_option
@click.argument("words", metavar="PID | [--] COMMAND [ARGUMENT]...", nargs=-1, required=True,
                type=click.UNPROCESSED)  # fmt: skip
def command(
    output: Path,
    seconds: float,
    redact: bool,
    keep_huge: bool,
    allocations: bool,
    ring_bytes: int,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Record each call of COMMAND, or of the process PID, that changes its address space, and the
    first touch of each page. `memlab try` replays the trace under other policies. The contents of
    memory are not recorded. Needs root.

    \b
    memlab record -o app.trace -- ./app
    memlab record --seconds 60 -o app.trace 1234
    memlab try -p lock=off,future -p thp=never,always app.trace
    """
    import re
    import shlex
    import shutil

    from memlab.errors import CannotRun, EndedBySignal
    from memlab.text.printable import printable
    from memlab.trace import account, file, recording, shown

    if output.suffix != file.SUFFIX:
        raise click.UsageError(f"-o {output}: the name of a trace ends in {file.SUFFIX}")
    if ring_bytes & (ring_bytes - 1) or ring_bytes < 1 << 16:
        raise click.UsageError("--buffer: a power of two, 64K at least")
    pid = int(words[0]) if len(words) == 1 and re.fullmatch("[0-9]{1,9}", words[0]) else 0
    if pid and allocations:
        raise click.UsageError(
            f"--allocations records a command from its start, and {pid} runs already: "
            "memlab record --allocations ... -- COMMAND"
        )
    if not pid and shutil.which(words[0]) is None:
        raise click.UsageError(f"{printable(shlex.quote(words[0]))}: no such command or process")
    how = recording.How(
        seconds=seconds,
        redact=redact,
        keep_huge=keep_huge,
        allocations=allocations,
        ring_bytes=ring_bytes,
        stdout=2 if as_json else None,
        warn=lambda line: click.echo(f"memlab: {line}", err=True),
    )
    ended = recording.record(output, command=() if pid else words, pid=pid, how=how)
    trace = file.read(output)
    counted = account.of(trace) if trace.allocations else None
    if as_json:
        from memlab.trace.documents import Recording

        echo_json(Recording.made_of(trace, ended, counted))
    else:
        for line in shown.recorded(trace, ended, counted):
            echo(line)
    if ended.ended_by:
        raise EndedBySignal(ended.ended_by)
    if trace.cut in file.FAILED:
        raise CannotRun(f"{output} is cut short: {file.why_cut(trace.cut, trace.cut_by)}")
    click.get_current_context().exit(ended.exit_status)
