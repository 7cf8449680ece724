"""`memlab diagnose`."""

import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from memlab.cli._fields import argument, option, shared, takes
from memlab.cli._options import (
    FileName,
    Parsed,
    echo,
    echo_json,
    in_full,
    json_option,
    typed,
    verbose_option,
)
from memlab.text import units

_SECONDS_MAX = 3600


def _seconds(text: str) -> float:
    message = f"{text!r} is not a time above 0 and up to {_SECONDS_MAX} s, such as 10 or 2m"
    try:
        seconds = units.parse_seconds(text)
    except ValueError:
        raise ValueError(message) from None
    if not 0 < seconds <= _SECONDS_MAX:  # not a number, too
        raise ValueError(message)
    return seconds


@dataclass(frozen=True, slots=True)
class DiagnoseOptions:
    """What `memlab diagnose` is given."""

    subject: str | None = argument(metavar="[PID|NAME]", required=False)
    group: str | None = option(
        "--group",
        metavar="PATH|self|of:PID",
        help="Examine a memory cgroup: by path, the one of this program, or that of a process.",
    )
    seconds: float = option(
        "--seconds",
        type=Parsed("seconds", _seconds),
        default="10",
        show_default=True,
        help="Length of the window; if usage oscillates, use a window longer than one cycle.",
    )
    used_s: float | None = option(
        "--used",
        metavar="TIME",
        type=Parsed("seconds", _seconds),
        default=None,
        help="Examine for this long, and print how much of each mapping was used meanwhile. Clears "
        "the accessed bits of its pages.",
    )
    full: bool = option(
        "--full",
        is_flag=True,
        help="Read all of a large heap (2 us of memlab's time per object) and, before Linux 6.7, "
        "all page tables (15 ms per GiB, during which mmap blocks).",
    )
    verbose: bool = shared(verbose_option("Print the evidence and all four accounts too."))
    watch: tuple[str, ...] = option(
        "--watch",
        metavar="TRIGGER",
        multiple=True,
        help="Sample cheaply until a trigger fires or the subject ends; then print a diagnosis: "
        "'group > 90%', 'rss > 500M', 'pressure > 10%', 'kills > 0', or only `end`.",
    )
    every_s: float = option(
        "--every",
        type=Parsed("seconds", _seconds),
        default="1",
        show_default=True,
        help="Interval between the samples of --watch.",
    )
    keep: Path | None = option(
        "--keep",
        type=FileName(dir_okay=False, path_type=Path),
        help="File for the last 300 samples of --watch, which survives the process.",
    )
    machine: bool = option(
        "--machine",
        is_flag=True,
        help="Examine the whole machine: what all of its memory is, and who holds it.",
    )
    last_kill: str | None = option(
        "--last-kill",
        is_flag=False,
        flag_value="",
        metavar="[=FILE]",
        help="Explain the last out-of-memory kill, by the kernel's log or a file of it.",
    )
    as_json: bool = shared(json_option)


@click.command()
@takes(DiagnoseOptions)
def command(options: DiagnoseOptions) -> None:
    """Examine a running process, a memory cgroup or the machine: what holds the memory, what causes
    page faults, which limits are near or already reached, and what the threads wait for. The worst
    finding comes first. The process is not stopped.

    \b
    memlab diagnose 4711
    memlab diagnose redis-server -v
    memlab diagnose --group of:4711
    memlab diagnose 4711 --used 30s
    memlab diagnose 4711 --watch 'group > 90%' --keep last.json
    memlab diagnose --machine
    memlab diagnose --last-kill
    """
    from memlab.errors import BadRequest

    subject, group = options.subject, options.group
    if options.last_kill is not None:
        others = sorted(typed() - {"--last-kill", "--json", "--verbose"})
        if others:
            more = ", ".join(others).replace("subject", subject or "")
            raise BadRequest(f"--last-kill reads the kernel's log, and takes no {more}")
        _last_kill(options.last_kill, options.as_json)
        return
    if (subject is not None) + (group is not None) + options.machine != 1:
        raise BadRequest("name one subject: a PID, a name, --group PATH|self|of:PID, or --machine")
    if options.machine and (options.full or options.watch or options.used_s is not None):
        raise BadRequest("--machine is looked at once: without --full, --used and --watch")
    if group is not None and options.full:
        raise BadRequest("--full reads a process: name its PID")
    if options.used_s is not None:
        if group is not None or options.watch:
            raise BadRequest("--used reads a process once: name its PID, without --watch")
        if "--seconds" in typed():
            raise BadRequest("--used and --seconds both set how long the look takes: leave one out")
    if options.keep and not options.watch:
        raise BadRequest("--keep is the file for the samples of --watch: add --watch TRIGGER")
    if "--every" in typed() and not options.watch:
        raise BadRequest("--every is the interval of --watch: add --watch TRIGGER")
    from memlab.diagnose.subject import named

    pid = named(subject) if subject is not None else None
    if options.watch:
        _watch(options, pid)
    else:
        _look(options, pid)


def _look(options: DiagnoseOptions, pid: int | None) -> None:
    from memlab.diagnose import diagnosis, subject, used

    if options.machine:
        result = diagnosis.of_machine(options.seconds)
    elif pid is None:
        result = diagnosis.of_group(options.group or "", options.seconds)
    else:
        if options.used_s is not None:
            with subject.held(pid) as (found, _):  # one line for what cannot be looked at
                echo(f"memlab: {used.price(found.number)}", err=True)
        seconds = options.used_s or options.seconds
        tracks_use = options.used_s is not None
        result = diagnosis.of(pid, seconds, thorough=options.full, tracks_use=tracks_use)
    if options.as_json:
        from memlab.diagnose.documents import Diagnose

        echo_json(Diagnose.made_of(result))
    else:
        from memlab.diagnose import output

        for line in output.lines(result, verbose=options.verbose):
            echo(line)
        if not options.verbose:
            # The process that `of:PID` named may have been killed.
            again = ["memlab", "diagnose", "-v", "--group", options.group or ""]
            after = pid is None and bool(options.watch)
            echo(f"not shown: {output.LEFT_OUT}: {shlex.join(again) if after else in_full()}")


def _watch(options: DiagnoseOptions, pid: int | None) -> None:
    from memlab.diagnose import group, subject, watching
    from memlab.files import output

    triggers = [watching.trigger(condition) for condition in options.watch]
    if options.keep is not None:
        output.check_file(options.keep)
    directory, version = group.named(options.group) if options.group is not None else (None, None)
    if pid is not None:
        with subject.held(pid):  # one line for what cannot be looked at
            pass
    whole = replace(options, group=str(directory)) if directory else options  # its process may end
    watch = watching.Watcher(pid, directory, version, options.keep)
    watching.run(
        watch, triggers, options.every_s, partial(echo, err=True), lambda: _look(whole, pid)
    )
    if watch.unwritten:
        raise watch.unwritten


def _last_kill(file: str, as_json: bool) -> None:
    from memlab.diagnose.kernel_log import answer, source

    log = source.read(Path(file) if file else None)
    if as_json:
        from memlab.diagnose.kernel_log.documents import LastKill

        if log.unread:
            echo(f"memlab: {file}: {log.unread}", err=True)
        echo_json(LastKill.made_of(log))
    else:
        for line in answer.lines(log):
            echo(line)
