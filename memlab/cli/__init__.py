"""The command line: it stands on top of all of memlab, and nothing imports it.

`_table.py` has the commands, a row each; a file of this folder is a command, or a part that several
commands share if its name begins with `_`. `memlab --help` and a completion import no command.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from memlab._version import __version__
from memlab.cli import _streams
from memlab.cli._group import HELP, CommandGroup, StorePath, Waiting, show_help, words_of
from memlab.cli._signals import Signalled, Signals
from memlab.cli._table import SECTIONS
from memlab.errors import HostError, Interrupted, MemlabError, UsageError
from memlab.text.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

DONE, GATE, INTERNAL = 0, 1, 4  # the other exit codes stand with the errors
_LIMITS = {
    errno.EMFILE: "too few open files are allowed here: raise `ulimit -n`",
    errno.EFBIG: "a file may not be so long here: raise `ulimit -f`",
    errno.ENFILE: "this machine has as many files open as fs.file-max allows",
    errno.ENOMEM: "too little memory is allowed here: raise `ulimit -v`, `ulimit -d` or the "
    "cgroup's limit",
    errno.EAGAIN: "too few processes are allowed here: raise `ulimit -u` or the cgroup's pids.max",
}
# What every process needs, and what provides it.
_EVERYWHERE = {
    "/proc/self": "mount -t proc proc /proc",
    "/dev/null": "mknod -m 666 /dev/null c 1 3",
}
# Of address space. With less, OpenBLAS ends the process by itself as numpy is imported.
_LEAST_BYTES = 200 * 1000 * 1024
_LEAST_DATA_BYTES, _THREAD_BYTES = 160 << 20, 64 << 20  # the same of data, and per thread of it
# Options that stand before the command, with their values.
_OF_MEMLAB = {"--store": ("--store", "FILE"), "--wait": ("--wait",), "--debug": ("--debug",)}
_MESSAGE_MAX = 1000  # characters: an argument that is quoted may be of any length


@click.group(
    "memlab",
    cls=CommandGroup,
    sections=SECTIONS,
    short_help="Measure how Linux memory behaves.",
    invoke_without_command=True,
    context_settings={"help_option_names": HELP, "auto_envvar_prefix": "MEMLAB"},
)
@click.version_option(__version__, "-V", "--version", prog_name="memlab")
@click.option(
    "--store",
    type=StorePath(dir_okay=False),
    help="Results file (default: $XDG_DATA_HOME/memlab/results.db).",
)
@click.option(
    "--wait",
    "wait_s",
    envvar="MEMLAB_WAIT",
    type=Waiting(),
    metavar="[=TIME]",
    default=0.0,
    help="Wait until another memlab on this machine is done, at most TIME: --wait=10min.",
)
@click.option("--debug", is_flag=True, help="Print the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, store: Path | None, wait_s: float, debug: bool) -> None:
    """Measure how Linux memory behaves on this machine, and test what studies claim.

    \b
    memlab sweep mmap-write                 measure an experiment
    memlab diagnose 4711                    examine the memory of a process
    memlab try -p lock=off,future -- ./app  measure a command under policies

    Exit codes: 0 done, 1 a gate closed, 2 usage, 3 cannot run here, 4 internal error,
    130 interrupted, 143 by SIGTERM. Every option is also an environment variable:
    MEMLAB_SWEEP_BUDGET=30s.
    """
    ctx.obj = debug
    show_help(ctx)
    from resource import RLIMIT_AS, RLIMIT_DATA, getrlimit

    data_bytes = _LEAST_DATA_BYTES + len(os.sched_getaffinity(0)) * _THREAD_BYTES
    for limit, least in ((RLIMIT_AS, _LEAST_BYTES), (RLIMIT_DATA, data_bytes)):
        if 0 <= getrlimit(limit)[0] < least:
            raise MemoryError


def main() -> NoReturn:
    """Entry of the `memlab` command: runs it, and turns what it raises into one line."""
    debug = "--debug" in sys.argv or os.environ.get("MEMLAB_DEBUG", "") not in ("", "0")
    _streams.take()
    signals = Signals()
    try:
        try:
            signals.take()
            code = cli.main(standalone_mode=False)  # what ctx.exit was given; a command, None
            sys.stdout.flush()
        except _streams.ReaderGone:
            code = DONE  # there is nobody left to tell
        finally:
            signals.give_back()
        if ended := signals.signalled():
            raise ended
    except BaseException as error:
        signals.give_back()
        error = signals.signalled() or error
        if debug and not isinstance(error, SystemExit):
            import traceback

            traceback.print_exc()
        _end(*_line_of(error))
    sys.exit(code or DONE)


def _line_of(error: BaseException) -> tuple[str, int]:
    """What is said of an error, and the exit code."""
    if isinstance(error, click.MissingParameter) and error.ctx:
        message = error.format_message().rstrip(".")
        return f"{message}; see {' '.join(words_of(error.ctx))} --help", error.exit_code
    if isinstance(error, click.NoSuchOption) and error.ctx and error.option_name in _OF_MEMLAB:
        option, (memlab, *words) = error.option_name, words_of(error.ctx)
        line = " ".join([memlab, *_OF_MEMLAB[option], *words])
        return f"{option} stands before the command: {line}", error.exit_code
    if isinstance(error, click.UsageError) and error.ctx and "extra argument" in error.message:
        message = error.message.rstrip(".")
        return f"{message}; see {' '.join(words_of(error.ctx))} --help", error.exit_code
    if isinstance(error, click.ClickException):
        return " ".join(error.format_message().split()), error.exit_code
    if isinstance(error, Signalled) and isinstance(error.code, int):
        return f"ended by {signal.Signals(error.code - 128).name}", error.code
    if isinstance(error, MemlabError):
        return str(error), error.exit_code
    if short := _short_of(error):
        return short, HostError.exit_code
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # Path.exists() raises it
        return f"{str(error.filename)[:60]}...: the name is too long", UsageError.exit_code
    # Python 3.11 says of one that comes as a class is made: Error calling __set_name__.
    if isinstance(error, click.Abort | KeyboardInterrupt) or (
        isinstance(error, RuntimeError) and isinstance(error.__cause__, KeyboardInterrupt)
    ):
        return "interrupted", Interrupted.exit_code
    if not isinstance(error, Exception):
        raise error
    return f"internal error: {type(error).__name__}: {error}; --debug shows where", INTERNAL


def _short_of(error: BaseException) -> str | None:
    """What this process is not given, where that is the whole error, and what to do about it."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):  # ld.so(8)
        number = errno.ENOMEM
    if isinstance(error, click.Abort | KeyboardInterrupt) and not _threads_start():
        number = errno.EAGAIN  # OpenBLAS raises SIGINT where it cannot start a thread
    if isinstance(error, SystemError):  # of a library that has no words for it
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

        number = errno.ENOMEM if getrlimit(RLIMIT_AS)[0] != RLIM_INFINITY else None
    if number in _LIMITS:
        return _LIMITS[number]
    return _missing_of(error) if isinstance(error, FileNotFoundError) else None


def _missing_of(error: FileNotFoundError) -> str | None:
    """What every process has and this one has not."""
    for place, remedy in _EVERYWHERE.items():
        if not os.path.exists(place):  # noqa: PTH110
            return f"{error.filename or place} is not there: {remedy}"
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return "the current folder was removed: change to another one"
    return None


def _threads_start() -> bool:
    import _thread

    try:
        _thread.start_new_thread(int, ())
    except RuntimeError:
        return False
    return True


def _end(message: str, code: int) -> NoReturn:
    line = printable(message)
    if len(line) > _MESSAGE_MAX:
        line = f"{line[:_MESSAGE_MAX]}..."
    click.echo(f"memlab: {line}", err=True)
    sys.exit(code)
