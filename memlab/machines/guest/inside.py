"""What runs in the guest: it answers the host's questions, one after another, until it is killed.

The questions are those that the driver asks of this host too (run.target.LocalTarget), so that a
trial in a guest is a trial like any other.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.errors import CannotRun
from memlab.experiment.points import Point
from memlab.machines.guest import device, stream
from memlab.machines.guest.raised import KINDS
from memlab.observe import proc, virtualization
from memlab.request import Request
from memlab.run.admission import Directories
from memlab.run.target import Executor, LocalTarget

BEAT_S = 1.0  # so often the guest says that it is alive
EMULATED_PATIENCE = 10.0  # a slow emulator is no reason for an outcome of `timeout`
FILES = Path("/var/tmp")  # where its disk is mounted
_OWN = Path("/run/memlab")  # in its memory


def main() -> None:
    port = os.open(_port(), os.O_RDWR)
    _OWN.mkdir()
    path = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin"))
    os.environ |= {"HOME": str(_OWN), "XDG_STATE_HOME": str(_OWN), "TMPDIR": str(FILES)}
    os.environ["PATH"] = f"{path}:/bin"
    if (proc.ROOT / "sys/kernel/iommu_groups/0").exists():
        device.hand_over()
    speaker = _Speaker(port)
    speaker.say({"hello": os.uname().release})
    threading.Thread(target=speaker.beat, daemon=True).start()
    answers = Answers()
    unpacker = stream.Unpacker()
    while piece := os.read(port, 1 << 16):
        for question in unpacker.feed(piece):
            speaker.say(answers.answer(question))


class _Speaker:
    """The guest's end of the port: one message at a time, from whichever thread."""

    def __init__(self, port: int) -> None:
        self._port, self._packer, self._lock = port, stream.Packer(), threading.Lock()

    def say(self, message: dict[str, Any]) -> None:
        with self._lock:
            text = self._packer.pack(message)
            while text:
                text = text[os.write(self._port, text) :]

    def beat(self) -> None:
        while True:
            time.sleep(BEAT_S)
            self.say({"alive": time.monotonic()})


class Answers:
    """One method a question. What a question raises is an answer too."""

    def __init__(self) -> None:
        patience = EMULATED_PATIENCE if virtualization.emulated(proc.ROOT) else 1.0
        self._local = LocalTarget(patience, guarded=False)
        self._executor: AbstractContextManager[Executor] | None = None
        self._trials: Executor | None = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        ask: Callable[..., Any] = getattr(self, f"ask_{question['ask']}")
        try:
            return {"answer": ask(**question.get("with", {}))}
        except tuple(KINDS.values()) as error:
            return {"raised": type(error).__name__, "line": str(error)}
        except Exception as error:
            line = f"inside of the guest: {type(error).__name__}: {error}"
            return {"raised": "CannotRun", "line": line}

    def ask_prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        found = self._local.prepare(Request(**request))
        return {
            "points": [asdict(point) for point in found.plan.points],
            "excluded": dict(found.plan.excluded),
            "scaled": dict(found.request.scaled),
            "directory": found.request.directory,
        }

    def ask_environment(
        self, experiment: str, subject: dict[str, Any] | None, directory: str
    ) -> dict[str, Any]:
        declared = experiments.load(experiment, subject)
        return self._local.environment(declared, Directories(Path(directory)))

    def ask_shortage(
        self,
        experiment: str,
        subject: dict[str, Any] | None,
        points: list[dict[str, Any]],
        directory: str,
    ) -> str | None:
        planned = [Point(**point) for point in points]
        declared = experiments.load(experiment, subject)
        return self._local.shortage(declared, planned, Directories(Path(directory)))

    def ask_open(
        self,
        run: str,
        experiment: str,
        subject: dict[str, Any] | None,
        directory: str,
        cpus: list[int],
        layouts: bool,
    ) -> None:
        declared = replace(experiments.load(experiment, subject), layouts=layouts)
        directories = Directories(Path(directory))
        self._executor = self._local.executor(run, declared, directories, cpus)
        self._trials = self._executor.__enter__()

    def ask_renew(self, points: list[dict[str, Any]]) -> None:
        self._open().renew([Point(**point) for point in points])

    def ask_trial(self, point: dict[str, Any]) -> dict[str, Any]:
        return self._open().trial(Point(**point))

    def ask_close(self) -> None:
        if self._executor is not None:
            self._executor.__exit__(None, None, None)
        self._executor = self._trials = None

    def _open(self) -> Executor:
        if self._trials is None:
            raise CannotRun("no executor is open in the guest")
        return self._trials


def _port() -> str:
    """Found by its name in sysfs: there is no udev here to make /dev/virtio-ports."""
    for port in Path("/sys/class/virtio-ports").iterdir():
        if (port / "name").read_text().strip() == stream.PORT:
            return f"/dev/{port.name}"
    raise SystemExit("the guest has no port of memlab's")
