"""An executor in a process of its own, at work in a trial that would not end: killed by the tests.

Usage: held_executor.py PLACE SWAP RUN. Two short trials in two environments are answered on stdout;
the third grows past its limit into swap, makes PLACE/inside and then sleeps, deaf to SIGTERM. Where
it is lost the first is tried again.
"""

import json
import sys
from pathlib import Path

from held import ANY_SETTING, PYTHON_PROBE, at, saying

from memlab.run import cleanup, fork_server, guardian
from memlab.run.admission import Directories
from memlab.run.driver import interruptible
from memlab.run.executor import LocalExecutor

SLEEP = (
    "[signal.signal(signal.SIGTERM, signal.SIG_IGN), (kept := bytearray(b'x') * (64 << 20)),"
    " os.fork() or os.setsid(), open({inside!r}, 'w').close(), time.sleep(600)] and 7"
)


def main(place: Path, swap: str, run: str) -> None:
    fork_server._BOOT = fork_server._BOOT.replace("main()", PYTHON_PROBE + "main()")
    cleanup.SETTINGS = ("/",)
    guardian._BOOT = guardian._BOOT.replace("main()", ANY_SETTING + "main()")
    setting = str(place / "setting")
    declared = saying(
        environ=lambda level: {"MEMLAB_POINT": "first"} if level["do"] == "7" else {},
        settings=lambda _: {setting: "new"},
    )
    first = at(do="7", swap=swap)
    with interruptible(), LocalExecutor(run, declared, Directories(place), [0]) as opened:
        sleep = at(do=SLEEP.format(inside=str(place / "inside")), swap=swap)
        for point in (first, at(do="6", swap=swap), sleep, first):
            reply = opened.trial(point)
            print(json.dumps(reply), flush=True)
            if reply["outcome"] == "unavailable":
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
