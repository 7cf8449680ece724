"""Look at a live process: what it does with its memory, and what to try."""

from collections.abc import Callable
from pathlib import Path

import click

from memlab.cli._options import Parsed, duration, echo, echo_json, in_full, json_option
from memlab.printable import printable

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
    help="Read all of a large heap (2 us of memlab's time per object), and before Linux 6.7 all "
    "page tables, for huge pages (15 ms per GiB, in which mmap waits).",
)
@click.option("-v", "--verbose", is_flag=True, help="Also the evidence and all four accounts.")
@click.option("--if", "policies", multiple=True, hidden=True)
@click.option(
    "--watch",
    is_flag=True,
    help="Cheap looks until a trigger is met or the subject ends; then a whole one.",
)
@click.option(
    "--when",
    "triggers",
    metavar="NAME>VALUE",
    multiple=True,
    help="With --watch: 'group > 90%', 'rss > 500M', 'pressure > 10%', 'kills > 0'.",
)
@click.option(
    "--every",
    type=Parsed("every", _seconds),
    default="1",
    show_default=True,
    help="With --watch: between two cheap looks.",
)
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --watch: a file for the last 300 looks, there when the subject is not any more.",
)
@click.option(
    "--last-kill",
    is_flag=False,
    flag_value="",
    metavar="[=FILE]",
    help="What the kernel says of the last kill for want of memory, in its log or in a file of it.",
)
@json_option
def command(
    subject: str | None,
    group: str | None,
    seconds: float,
    thorough: bool,
    verbose: bool,
    policies: tuple[str, ...],
    watch: bool,
    triggers: tuple[str, ...],
    every: float,
    keep: Path | None,
    last_kill: str | None,
    as_json: bool,
) -> None:
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

    if policies:
        raise BadRequest(
            "--if is gone: it guessed what a replay measures: memlab record --seconds 60 -o "
            f"app.trace {subject or 'PID'}; memlab try -p lock=off,future app.trace"
        )
    if last_kill is not None:
        if subject or group or watch:
            raise BadRequest("--last-kill reads the kernel's log: it has no other subject")
        _last_kill(last_kill, as_json)
        return
    if (subject is None) == (group is None):
        raise BadRequest("name one subject: a PID, a name, or --group PATH|self|of:PID")
    if group is not None and thorough:
        raise BadRequest("--thorough looks at a process: name its PID")
    if (triggers or keep) and not watch:
        raise BadRequest("--when and --keep belong to --watch")
    from memlab.diagnose.subject import named

    pid = named(subject) if subject is not None else None

    def look() -> None:
        from memlab.diagnose import diagnosis

        if pid is None:
            found = diagnosis.of_group(group or "", seconds)
        else:
            found = diagnosis.of(pid, seconds, thorough=thorough)
        if as_json:
            from memlab.diagnose import documents

            echo_json(documents.of(found))
        else:
            from memlab.diagnose import output

            for line in output.lines(found, verbose=verbose):
                echo(line)
            if not verbose:
                echo(f"not shown: {output.LEFT_OUT}: {in_full()}")

    if watch:
        _watch(pid, group, triggers, every, keep, look)
    else:
        look()


def _watch(
    pid: int | None,
    text: str | None,
    triggers: tuple[str, ...],
    every_s: float,
    keep: Path | None,
    look: Callable[[], None],
) -> None:
    from memlab.diagnose import group, subject, watching

    asked = [watching.trigger(one) for one in triggers]
    directory, version = group.named(text) if text is not None else (None, None)
    if pid is not None:
        with subject.held(pid):  # one line for what cannot be looked at
            pass
    watch = watching.Watcher(pid, directory, version, keep)
    watching.run(watch, asked, every_s, lambda line: click.echo(printable(line), err=True), look)


def _last_kill(file: str, as_json: bool) -> None:
    from memlab.diagnose import killed

    found = killed.read(Path(file) if file else None)
    if as_json:
        from memlab.diagnose import documents

        echo_json(documents.of_kills(found))
    elif not found:
        echo("no kill for want of memory in this log: it may have been overwritten; journalctl -k")
    else:
        for line in killed.lines(found[-1], len(found) - 1):
            echo(line)
