"""`memlab record`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlab.cli._fields import argument, option, shared, takes
from memlab.cli._options import DURATION, FileName, Parsed, echo, echo_json, json_option
from memlab.text.units import parse_size

if TYPE_CHECKING:
    from memlab.trace.account import TraceAccount
    from memlab.trace.checking import Checked
    from memlab.trace.file import Trace
    from memlab.trace.session import Recorded

    Result = tuple[Trace, Recorded, TraceAccount | None, Sequence[Checked]]


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What `memlab record` is given."""

    output: Path = option(
        "-o",
        type=FileName(dir_okay=False, path_type=Path),
        required=True,
        help="Trace file; the name ends in .trace.",
    )
    seconds: float = option(
        "--seconds",
        type=DURATION,
        default=0.0,
        help="Recording time (default: until the process ends, or Ctrl-C).",
    )
    runs: int = option(
        "--runs",
        type=click.IntRange(1, 1000),
        default=1,
        show_default=True,
        help="Run COMMAND this many times; -o a.trace writes a1.trace, a2.trace and so on.",
    )
    check: bool = option(
        "--check",
        is_flag=True,
        help="Run COMMAND once more and replay the trace; compare faults, memory and calls.",
    )
    redact: bool = option("--redact", is_flag=True, help="Omit the names of files and threads.")
    keep_huge: bool = option(
        "--keep-huge-pages",
        is_flag=True,
        help="Let the command use huge pages; touches inside one are then not recorded.",
    )
    allocations: bool = option(
        "--allocations",
        is_flag=True,
        help="Record malloc and free of a command too, so that `memlab try` can vary "
        "malloc=LEVELS.",
    )
    ring_bytes: int = option(
        "--buffer",
        type=Parsed("size", parse_size),
        default="32M",
        show_default=True,
        help="Buffer for events per CPU; a power of two.",
    )
    as_json: bool = shared(json_option)
    words: tuple[str, ...] = argument(
        metavar="PID | [--] COMMAND [ARGUMENT]...",
        nargs=-1,
        required=True,
        type=click.UNPROCESSED,
    )


@click.command(context_settings={"allow_interspersed_args": False})
@takes(RecordOptions)
def command(options: RecordOptions) -> None:
    """Record each call of COMMAND, or of the process PID, that changes its address space, and the
    first touch of each page. `memlab try` replays the trace under other policies. The contents of
    memory are not recorded. Needs root.

    \b
    memlab record -o app.trace -- ./app
    memlab record --seconds 60 -o app.trace 1234
    memlab try -p lock=off,future -p thp=never,always app.trace
    memlab record --runs 6 -o app.trace -- ./app
    memlab try -p lock=off,future app?.trace
    """
    import re
    import shlex
    import shutil

    from memlab.errors import BadTrace
    from memlab.text.printable import printable
    from memlab.trace import account, checking, file, recording, shown

    output, words, runs = options.output, options.words, options.runs
    if output.suffix != file.SUFFIX:
        raise click.UsageError(f"-o {output}: the name of a trace ends in {file.SUFFIX}")
    if options.ring_bytes & (options.ring_bytes - 1) or options.ring_bytes < 1 << 16:
        raise click.UsageError(
            f"--buffer: {options.ring_bytes} B is not a power of two from 64K on: write 32M"
        )
    pid = int(words[0]) if len(words) == 1 and re.fullmatch("[0-9]{1,9}", words[0]) else 0
    if pid and options.allocations:
        raise click.UsageError(
            f"--allocations records a command from its start, and {pid} runs already: "
            "memlab record --allocations ... -- COMMAND"
        )
    if pid and (runs > 1 or options.check):
        raise click.UsageError(f"--runs and --check repeat a command, and {pid} is a process")
    if options.check and (options.seconds or options.keep_huge):
        raise click.UsageError(
            "--check compares whole runs without huge pages: without --seconds "
            "and --keep-huge-pages"
        )
    if not pid and shutil.which(words[0]) is None:
        is_there = Path(words[0]).exists()
        what = "it is not executable" if is_there else "no such command or process"
        raise click.UsageError(f"{printable(shlex.quote(words[0]))}: {what}")
    how = recording.How(
        seconds=options.seconds,
        redact=options.redact,
        keep_huge=options.keep_huge,
        allocations=options.allocations,
        ring_bytes=options.ring_bytes,
        stdout=2 if options.as_json else None,
        warn=lambda line: click.echo(f"memlab: {line}", err=True),
    )
    results: list[Result] = []
    printed: set[str] = set()
    for path in recording.paths(output, runs):
        ended = recording.record(path, command=() if pid else words, pid=pid, how=how)
        trace, checked = file.read(path), []
        if options.check and not trace.cut:
            checked = checking.check(trace, words, recording.launched(how))
            file.note_errors(path, [each.error for each in checked])
            trace = file.read(path)
        counted = None
        try:
            counted = None if trace.cut else account.of(trace)
        except BadTrace as error:  # more processes and memory at once than are accounted for
            how.warn(f"how much of the program is covered is not known: {error}")
        results.append((trace, ended, counted, checked))
        if not options.as_json:
            for line in dict.fromkeys(shown.recorded(*results[-1])):
                if line not in printed:
                    echo(line)
                printed.add(line)
        if ended.ended_by or trace.cut in file.FAILED:
            break
    if options.as_json:
        from memlab.trace.documents import Recording

        documents = [Recording.made_of(*result) for result in results]
        echo_json(documents if runs > 1 else documents[0])
    else:
        echo(shown.next_step([trace for trace, *_ in results], results[-1][2]))
    _leave(results)


def _leave(results: Sequence[Result]) -> None:
    """Exit as the command did, the first that failed; or say what ended the last recording."""
    from memlab.errors import CannotRun, EndedBySignal
    from memlab.trace import file

    trace, ended, *_ = results[-1]
    if ended.ended_by:
        raise EndedBySignal(ended.ended_by)
    if trace.cut in file.FAILED:
        raise CannotRun(f"{trace.path} is cut short: {file.why_cut(trace.cut, trace.cut_by)}")
    statuses = (ended.exit_status for _, ended, *_ in results)
    click.get_current_context().exit(next(filter(None, statuses), 0))
