"""SIGTERM and SIGHUP end every command as they end a sweep, with the exit code that a shell makes
of them; SIGINT interrupts it. One that is ignored, as SIGHUP is under nohup(1), stays ignored.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

_AGAIN_S = 0.1


class Signalled(SystemExit):
    """SIGTERM or SIGHUP came: what is open is closed, and temporary files are removed."""


class Signals:
    """The handlers of a command, from `take` to `give_back`. This is no context manager: a signal
    between its start and the body would leave it unended.

    What a handler raises can get lost: in a callback of SQLite's it is an error of SQLite's, in a
    finalizer it is nobody's. It is raised again every _AGAIN_S until it is on its way. An interrupt
    that a finalizer lost is sent again, to whichever handler SIGINT has by then.
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []  # of the signals that came
        self._lost_interrupts: list[int] = []
        self._before: dict[int, signal._HANDLER] = {}
        self._unraisable = sys.unraisablehook

    def take(self) -> None:
        sys.unraisablehook = self._lost
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                handler = signal.getsignal(number)
                if handler is signal.SIG_DFL or number == signal.SIGALRM:
                    self._before[number] = handler
                    ours = signal.default_int_handler if number == signal.SIGINT else self._end
                    signal.signal(number, ours)

    def give_back(self) -> None:
        """The second call does what a signal in the first left undone."""
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._unraisable

    def signalled(self) -> Signalled | None:
        """Of the first signal that came, whatever became of what its handler raised."""
        return Signalled(128 + self._numbers[0]) if self._numbers else None

    def _end(self, number: int, _: object) -> None:
        if number == signal.SIGALRM and self._lost_interrupts and not self._numbers:
            os.kill(os.getpid(), self._lost_interrupts.pop())
            return
        if self._numbers and _on_its_way():
            return
        if number != signal.SIGALRM or not self._numbers:
            self._numbers.append(number)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, _AGAIN_S)
        raise Signalled(128 + self._numbers[0])

    def _lost(self, of: sys.UnraisableHookArgs) -> None:
        if of.exc_type is KeyboardInterrupt and self._before:
            self._lost_interrupts.append(signal.SIGINT)
            if not self._numbers:
                signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        elif of.exc_type is not Signalled:
            self._unraisable(of)


def _on_its_way() -> bool:
    """Whether what runs is cleaning up for a signal."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, Signalled):
        error = error.__context__
    return error is not None
