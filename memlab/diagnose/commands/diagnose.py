"""Look at a live process: what it does with its memory, and what to try."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from memlab.cli._fields import argument, option, shared, takes
from memlab.cli._options import Parsed, duration, echo, echo_json, in_full, json_option

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


@dataclass(frozen=True, slots=True)
class DiagnoseOptions:
    """What `memlab diagnose` is given."""

    subject: str | None = argument(metavar="[PID|NAME]", required=False)
    group: str | None = option(
        "--group",
        metavar="PATH|self|of:PID",
        help="Look at a memory cgroup: its path, this program's own, or that of a process.",
    )
    seconds: float = option(
        "--seconds",
        type=Parsed("seconds", _seconds),
        default="10",
        show_default=True,
        help="How long to look: growth slower than a swing needs a look longer than it.",
    )
    thorough: bool = option(
        "--thorough",
        is_flag=True,
        help="Read all of a large heap (2 us of memlab's time per object), and before Linux 6.7 "
        "all page tables, for huge pages (15 ms per GiB, in which mmap waits).",
    )
    verbose: bool = option(
        "-v", "--verbose", is_flag=True, help="Also the evidence and all four accounts."
    )
    watch: bool = option(
        "--watch",
        is_flag=True,
        help="Cheap looks until a trigger is met or the subject ends; then a whole one.",
    )
    triggers: tuple[str, ...] = option(
        "--when",
        metavar="NAME>VALUE",
        multiple=True,
        help="With --watch: 'group > 90%', 'rss > 500M', 'pressure > 10%', 'kills > 0'.",
    )
    every_s: float = option(
        "--every",
        type=Parsed("every", _seconds),
        default="1",
        show_default=True,
        help="With --watch: between two cheap looks.",
    )
    keep: Path | None = option(
        "--keep",
        type=click.Path(dir_okay=False, path_type=Path),
        help="With --watch: a file for the last 300 looks, there when the subject is not any more.",
    )
    last_kill: str | None = option(
        "--last-kill",
        is_flag=False,
        flag_value="",
        metavar="[=FILE]",
        help="What the kernel says of the last kill for want of memory, in its log or in a "
        "file of it.",
    )
    as_json: bool = shared(json_option)


@click.command()
@takes(DiagnoseOptions)
def command(given: DiagnoseOptions) -> None:
    """Look at a process while it runs, or at a memory cgroup: who holds its memory, where its page
    faults come from, which limits are near or refuse already, and what its threads wait for. The
    findings come first, the worst at the top. The process is not stopped.

    \b
    memlab diagnose 4711
    memlab diagnose redis-server -v
    memlab diagnose --group of:4711
    memlab diagnose 4711 --watch --when 'group > 90%' --keep last.json
    memlab diagnose --last-kill
    """
    from memlab.errors import BadRequest

    subject, group = given.subject, given.group
    if given.last_kill is not None:
        if subject or group or given.watch:
            raise BadRequest("--last-kill reads the kernel's log: it has no other subject")
        _last_kill(given.last_kill, given.as_json)
        return
    if (subject is None) == (group is None):
        raise BadRequest("name one subject: a PID, a name, or --group PATH|self|of:PID")
    if group is not None and given.thorough:
        raise BadRequest("--thorough looks at a process: name its PID")
    if (given.triggers or given.keep) and not given.watch:
        raise BadRequest("--when and --keep belong to --watch")
    from memlab.diagnose.subject import named

    pid = named(subject) if subject is not None else None
    if given.watch:
        _watch(given, pid)
    else:
        _look(given, pid)


def _look(given: DiagnoseOptions, pid: int | None) -> None:
    from memlab.diagnose import diagnosis

    if pid is None:
        found = diagnosis.of_group(given.group or "", given.seconds)
    else:
        found = diagnosis.of(pid, given.seconds, thorough=given.thorough)
    if given.as_json:
        from memlab.diagnose.documents import Diagnose

        echo_json(Diagnose.made_of(found))
    else:
        from memlab.diagnose import output

        for line in output.lines(found, verbose=given.verbose):
            echo(line)
        if not given.verbose:
            echo(f"not shown: {output.LEFT_OUT}: {in_full()}")


def _watch(given: DiagnoseOptions, pid: int | None) -> None:
    from memlab.diagnose import group, subject, watching

    asked = [watching.trigger(one) for one in given.triggers]
    directory, version = group.named(given.group) if given.group is not None else (None, None)
    if pid is not None:
        with subject.held(pid):  # one line for what cannot be looked at
            pass
    watch = watching.Watcher(pid, directory, version, given.keep)
    watching.run(watch, asked, given.every_s, partial(echo, err=True), lambda: _look(given, pid))


def _last_kill(file: str, as_json: bool) -> None:
    from memlab.diagnose import killed

    found = killed.read(Path(file) if file else None)
    if as_json:
        from memlab.diagnose.documents import LastKill

        echo_json(LastKill.made_of(found))
    elif not found:
        echo("no kill for want of memory in this log: it may have been overwritten; journalctl -k")
    else:
        for line in killed.lines(found[-1], len(found) - 1):
            echo(line)
