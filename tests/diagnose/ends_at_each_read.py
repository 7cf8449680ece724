"""Looks at PROGRAM again and again, and kills it before the first, second, ... of the reads below
its /proc/PID; prints what each look said that was not its refusal. Ends with a look that read all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from memlab.diagnose import diagnosis
from memlab.errors import CannotLook
from memlab.observe import process

_READS = ("open", "os.listdir", "os.scandir", "os.readlink")


def look(program: str, doomed_read: int) -> str:
    """What a look says that kills its subject before this read, in a process of its own."""
    with subprocess.Popen([program, "1"], stdout=subprocess.PIPE) as subject:
        assert subject.stdout
        assert subject.stdout.readline() == b"ready\n"
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:  # an audit hook stays for as long as its process
            os.write(theirs, _killing_at(subject.pid, doomed_read).encode())
            os._exit(0)
        os.close(theirs)
        with open(ours, "rb") as reader:
            said = reader.read().decode()
        os.waitpid(child, 0)
        subject.kill()
    return said


def _killing_at(pid: int, doomed_read: int) -> str:
    mark, reads = f"/proc/{pid}/", 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal reads
        if event in _READS and mark in f"{arguments[0]}/":
            reads += 1
            if reads == doomed_read:
                os.kill(pid, 9)
                while process.stat(pid).state not in "ZX":
                    time.sleep(0.001)

    sys.addaudithook(hook)
    try:
        diagnosis.of(pid, seconds=0.1)
    except CannotLook:
        return ""
    except BaseException as error:
        return f"at read {doomed_read}: {error!r}"
    return "all" if reads < doomed_read else f"at read {doomed_read}: no refusal"


if __name__ == "__main__":
    program = str(Path(sys.argv[1]))
    doomed_read = 1
    while (said := look(program, doomed_read)) != "all":
        if said:
            print(said)
        doomed_read += 1
    print(f"{doomed_read - 1} reads")
