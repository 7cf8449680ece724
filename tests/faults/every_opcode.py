"""`memlab --version` once for each opcode of the command line's own frames, with a signal at it.

    python every_opcode.py SIGHUP,SIGTERM

Prints a line for each: the exit status, and what was said, as repr() has it.
"""

import contextlib
import os
import signal
import sys
import tempfile
from types import FrameType
from typing import Any

from memlab import cli
from memlab.cli import _signals

NUMBERS = {signal.Signals[name] for name in sys.argv[1].split(",")}
FILES = {cli.__file__, _signals.__file__, contextlib.__file__}


def run(at: int) -> int:
    """With the signals at this opcode, all at once. Returns how many opcodes ran."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        if count == at and event == "opcode":
            signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
            for number in NUMBERS:
                os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
        return trace

    sys._getframe().f_trace_opcodes = True  # which Python 3.12 reads as tracing begins
    sys.settrace(trace)
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.settrace(None)
    return count


def begun(at: int) -> tuple[int, str]:
    with tempfile.TemporaryFile() as err:
        if (pid := os.fork()) == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(err.fileno(), 2)
            run(at)
            sys.exit()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        err.seek(0)
        return status, err.read().decode()


sys.argv[1:] = ["--version"]
signal.signal(signal.SIGINT, signal.SIG_DFL)  # as __main__ has it
opcode_count = run(0)
for opcode in range(1, opcode_count + 1):
    status, said = begun(opcode)
    print(status, repr(said))
