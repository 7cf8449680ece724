"""Every error that memlab ends a command with: one line that says what, where and what to do.

Three bases carry the exit code of the command line. What a layer raises and handles by itself
is not here.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence


class MemlabError(Exception):
    """The base of all: the message is one line, and `exit_code` is what the command ends with."""

    exit_code: int


class UsageError(MemlabError):
    """What was asked for is wrong on any machine."""

    exit_code = 2


class HostError(MemlabError):
    """This machine, a file or a process on it cannot do what was asked for."""

    exit_code = 3


class Interrupted(MemlabError):
    """Ctrl-C, SIGTERM or SIGHUP. What was measured is kept; `run` can be resumed."""

    exit_code = 130

    def __init__(self, run: str, kept: int, number: int = 2) -> None:
        """`number` is the signal's; the exit code is what a shell makes of it."""
        super().__init__(f"interrupted; {kept} sample{'' if kept == 1 else 's'} kept")
        self.run, self.kept, self.exit_code = run, kept, 128 + number


class EndedBySignal(MemlabError):
    """SIGINT, SIGTERM or SIGHUP ended the command in order; what it had to write is written."""

    def __init__(self, number: int) -> None:
        """The exit code is what a shell makes of the signal."""
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def there_are(names: Iterable[str]) -> str:
    """The names to choose from, the first ten of many."""
    known = list(names)
    more = f" and {len(known) - 10} more" if len(known) > 10 else ""
    return f"there are: {', '.join(known[:10])}{more}" if known else "there are none"


def closest(wanted: str, known: Iterable[str]) -> str | None:
    """The name that is nearest to an unknown one."""
    from difflib import get_close_matches  # only errors need it

    names = list(known)
    near = get_close_matches(wanted, names, n=1, cutoff=0.6)
    near = near or [name for name in names if len(wanted) > 2 and name.startswith(wanted)]
    return near[0] if near else None


def nearest(wanted: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """What to do about a name that is unknown: the nearest one, else `otherwise`, else all."""
    names = list(known)
    if near := closest(wanted, names):
        return f"did you mean {near}?"
    return there_are(names) if otherwise is None else otherwise


# Usage


class UnknownExperiment(UsageError, LookupError):
    """There is no experiment of that name; the message names the nearest one."""


class UnknownRun(UsageError, LookupError):
    """No stored run has that id or name."""


class BadLevels(UsageError, ValueError):
    """A level is not one of its factor's, or the levels leave no point."""


class BadDeclaration(UsageError, ValueError):
    """A declaration of an experiment names what is not there, or cannot be measured."""


class BadRequest(UsageError, ValueError):
    """A request that no host could carry out."""


class BadSubject(UsageError):
    """The pid to diagnose is not a process with memory of its own."""


class BadTrace(UsageError):
    """A file that is not a trace, or one that is damaged, of another version or machine."""


class NotComparable(UsageError, ValueError):
    """Two things were to be compared that share nothing comparable."""


class BadExport(UsageError, ValueError):
    """A file to read is not one that `memlab export` wrote, or it is damaged."""


# Host


class CannotRun(HostError):
    """This host or this directory cannot carry out the request."""


class CannotWrite(CannotRun):
    """A file of the user's cannot be written; `strerror` says why."""

    def __init__(self, path: object, strerror: str) -> None:
        super().__init__(f"cannot write {path}: {strerror}")
        self.strerror = strerror


class SubjectChanged(CannotRun):
    """What a run is about is another by now; one clause says what was changed."""


class Refused(CannotRun):
    """The host is too small for the plan; the message has the numbers."""


class Unlike(CannotRun):
    """Two runs of unlike machines; `differs` lists what differs, and the message in short."""

    def __init__(self, base: str, new: str, differs: Sequence[str], in_short: str) -> None:
        self.differs, self.in_short = differs, in_short
        more = "" if in_short == "; ".join(differs) else " (memlab compare -v says how)"
        super().__init__(
            f"{base} and {new} are of unlike machines or settings: {in_short}{more}; "
            "--force (in Python force=True) compares them all the same"
        )


class Busy(HostError):
    """Another memlab measures on this machine: `who`, and what waits for it."""

    def __init__(self, who: str, wait: str = "") -> None:
        super().__init__(f"{who}; wait until it is done: {wait}" if wait else who)
        self.who = who


class NotBuilt(HostError):
    """The compiled probes are missing."""

    def __init__(
        self, why: str = "the probes are not compiled; `pip install .` in the checkout builds them"
    ) -> None:
        super().__init__(why)


class WorkerLost(HostError):
    """The fork server has died, and with it the trial in flight."""


class StoreError(HostError):
    """The store cannot be read or written."""


class StoreBusy(StoreError):
    """Another process has locked the store for longer than memlab waits; it is not damaged."""


class CannotLook(HostError):
    """The process to diagnose may not be read, or it has ended."""
