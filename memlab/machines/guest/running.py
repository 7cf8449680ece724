"""The host's end of a command that runs in a guest: its output comes here, and so does its exit
code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from memlab.errors import BadRequest, CannotRun, Interrupted
from memlab.machines.guest.host import GuestTarget
from memlab.machines.guest.inside import RUN, STOP
from memlab.machines.guest.machine import Damaged, Ended, Machine
from memlab.run import driver, kernel

Print = Callable[[bytes], object]
_PASSED_ON = ("COLUMNS", "LANG", "LC_ALL", "NO_COLOR", "TERM")  # what shapes an output


def run(target: GuestTarget, words: Sequence[str], out: Print, err: Print) -> int:
    """Run a command in a guest that is booted; its exit code. The first Ctrl-C ends the command,
    the second one the guest."""
    if target.image.machine != kernel.X86_64:
        raise BadRequest(f"a guest of {target.image.machine} has nothing of this host's to run")
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return follow(target.machine, target.silence_s, words, environment, out, err)


def follow(
    machine: Machine,
    silence_s: float,
    words: Sequence[str],
    environment: Mapping[str, str],
    out: Print,
    err: Print,
) -> int:
    requests = {"words": words, "environment": environment, "folder": str(Path.cwd())}
    with driver.interruptible() as heard:
        heard.holding = True
        try:
            machine.send(f"{RUN}{json.dumps(requests)}")
            code = _until_it_ends(machine, silence_s, heard, out, err)
        except KeyboardInterrupt:  # of the second signal
            raise Interrupted("", 0, heard[0]) from None
        except (Ended, Damaged) as gone:
            raise CannotRun(f"{gone}; the command went with it") from None
    return 128 + heard[0] if heard else code


def _until_it_ends(
    machine: Machine, silence_s: float, heard: Sequence[int], out: Print, err: Print
) -> int:
    is_stopped = False
    while True:
        line = machine.receive(silence_s)
        if heard and not is_stopped:
            is_stopped = True
            machine.send(STOP)
        if line.startswith(b"#") and (code := _note(line[1:], out, err)) is not None:
            return code


def _note(text: bytes, out: Print, err: Print) -> int | None:
    """Print what a note carries; the exit code, if it is the last one."""
    try:
        note = json.loads(text)
    except (ValueError, RecursionError):
        note = None
    match note:
        case {"out": str(piece)} if piece.isascii() or max(piece) <= "\xff":
            out(piece.encode("latin-1"))
        case {"err": str(piece)} if piece.isascii() or max(piece) <= "\xff":
            err(piece.encode("latin-1"))
        case {"code": int(code), "said": str()} if 0 <= code <= 255:
            return code
        case _:
            raise CannotRun(f"the guest sent a note that says nothing: {text[:60]!r}")
    return None
