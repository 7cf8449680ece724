"""What runs in the guest: it answers the host's questions, one after another, until told to end.

The questions are those that the driver asks of this host too (run.target.Here), so that a trial
in a guest is a trial like any other.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memlab import experiments
from memlab.observe import proc, virtualization
from memlab.run.admission import Places
from memlab.run.plan import Point
from memlab.run.request import CannotRun, Request
from memlab.run.target import Here, Trials
from memlab.targets.guest import device, machine, stream
from memlab.targets.guest.raised import KINDS

BEAT_S = 1.0  # so often the guest says that it is alive
EMULATED_PATIENCE = 10.0  # a slow emulator is no reason for an outcome of `timeout`
FILES = Path("/var/tmp")  # where its disk is mounted
_OWN = Path("/run/memlab")  # in its memory
_MODULES = ("virtio_blk", "ext4", "zram")


def main(modules: str) -> None:
    """`modules` is the folder whose lib/modules has this kernel's; empty where it has none."""
    port = os.open(_port(), os.O_RDWR)
    _OWN.mkdir()
    os.environ |= {"HOME": str(_OWN), "XDG_STATE_HOME": str(_OWN), "TMPDIR": str(FILES)}
    for module in _MODULES if modules else ():
        _run("modprobe", "-q", "-d", modules, module)
    if (proc.ROOT / "sys/kernel/iommu_groups/0").exists() and modules:
        for module, options in device.MODULES.items():
            _run("modprobe", "-q", "-d", modules, module, *options)
        device.hand_over()
    mounted = _mount_disk()
    speaker = _Speaker(port)
    speaker.say({"hello": {"disk": mounted}})
    threading.Thread(target=speaker.beat, daemon=True).start()
    answers = Answers()
    unpacker = stream.Unpacker()
    while piece := os.read(port, 1 << 16):
        for question in unpacker.feed(piece):
            speaker.say(answers.answer(question))
            if question["ask"] == "end":
                return


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
        self._here = Here(EMULATED_PATIENCE if virtualization.emulated(proc.ROOT) else 1.0)
        self._bench: AbstractContextManager[Trials] | None = None
        self._trials: Trials | None = None

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
        found = self._here.prepare(Request(**request))
        return {
            "points": [asdict(point) for point in found.plan.points],
            "excluded": dict(found.plan.excluded),
            "scaled": dict(found.request.scaled),
            "directory": found.request.directory,
        }

    def ask_environment(self, experiment: str, directory: str) -> dict[str, Any]:
        return self._here.environment(experiments.load(experiment), Places(Path(directory)))

    def ask_shortage(
        self, experiment: str, points: list[dict[str, Any]], directory: str
    ) -> str | None:
        planned = [Point(**point) for point in points]
        return self._here.shortage(experiments.load(experiment), planned, Places(Path(directory)))

    def ask_open(self, run: str, experiment: str, directory: str, cpus: list[int]) -> None:
        declared, places = experiments.load(experiment), Places(Path(directory))
        self._bench = self._here.bench(run, declared, places, cpus)
        self._trials = self._bench.__enter__()

    def ask_renew(self, points: list[dict[str, Any]]) -> None:
        self._open().renew([Point(**point) for point in points])

    def ask_trial(self, point: dict[str, Any]) -> dict[str, Any]:
        return self._open().trial(Point(**point))

    def ask_close(self) -> None:
        if self._bench is not None:
            self._bench.__exit__(None, None, None)
        self._bench = self._trials = None

    def ask_end(self) -> None:
        self.ask_close()

    def _open(self) -> Trials:
        if self._trials is None:
            raise CannotRun("no bench is open in the guest")
        return self._trials


def _port() -> str:
    """Found by its name in sysfs: there is no udev here to make /dev/virtio-ports."""
    for port in Path("/sys/class/virtio-ports").iterdir():
        if (port / "name").read_text().strip() == stream.PORT:
            return f"/dev/{port.name}"
    raise SystemExit("the guest has no port of memlab's")


def _mount_disk() -> bool:
    """A file system of its own on the disk, so that files and a swap file lie on one as on a
    host. Without it they lie in memory, as virtme-ng has it."""
    for disk in Path("/sys/block").glob("vd*"):
        serial = disk / "serial"
        if serial.exists() and serial.read_text().strip() == machine.DISK:
            node = f"/dev/{disk.name}"
            return _run("mkfs.ext4", "-q", "-F", node) and _run("mount", node, str(FILES))
    return False


def _run(*command: str) -> bool:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    with suppress(OSError):
        ended = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=sys.stderr, env={"PATH": path}, check=False
        )
        return ended.returncode == 0
    return False
