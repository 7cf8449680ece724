"""What runs in the guest: one sweep, or command, after another, as its host asks for them, until it
is killed.

A sweep here is `memlab sweep --jsonl`: the driver, this machine, a store of its own, each row a
line on the port once it is committed. What is asked for is JSON behind the word `sweep`, since a
request has more than words can say; of a run that goes on its rows follow. Beside rows there are
notes, which begin with `#`, and empty lines: the guest is alive. What a command prints comes as
notes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import IO, Any

from memlab.errors import CannotRun, Interrupted, MemlabError
from memlab.experiment import Experiment
from memlab.machines.guest import device
from memlab.observe import proc, virtualization
from memlab.request import Request
from memlab.run import admission, driver
from memlab.run.admission import Directories
from memlab.run.prepare import prepare
from memlab.run.stop_rule import Role
from memlab.run.target import LocalTarget
from memlab.run.watch import Silent
from memlab.store import RunRow, Store, lines, travel

BEAT_S = 1.0  # so often the guest says that it is alive
EMULATED_PATIENCE = 10.0  # a slow emulator is not a reason for an outcome of `timeout`
FILES = Path("/var/tmp")  # where its disk is mounted
SWEEP, RUN, STOP = "sweep ", "run ", "stop"  # what its host says; the last in Ctrl-C's place
_PIECE = 1 << 16
_DRAIN_S = 5.0  # for what a command has printed, once it has ended
_OWN = Path("/run/memlab")  # in its memory


def main() -> None:
    port = os.open(_path(), os.O_RDWR)
    _OWN.mkdir()
    path = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin"))
    os.environ |= {"HOME": str(_OWN), "XDG_STATE_HOME": str(_OWN), "TMPDIR": str(FILES)}
    os.environ["PATH"] = f"{path}:/bin"
    if (proc.ROOT / "sys/kernel/iommu_groups/0").exists():
        device.hand_over()
    serve(port)


def serve(descriptor: int) -> None:
    """Sweep, or run a command, as the other end of the port asks, for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    port = _Port(descriptor)
    for work in (port.write, port.listen, port.beat):
        threading.Thread(target=work, daemon=True).start()
    port.note(up=os.uname().release)
    while True:
        kind, request = port.asked()
        (_sweep if kind == SWEEP else _run)(request, port)


class _Port:
    """The guest's end of the port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._heard: SimpleQueue[str] = SimpleQueue()
        self._said: SimpleQueue[tuple[str, threading.Event]] = SimpleQueue()
        self.stopped = False  # since the sweep or the command was asked for
        self.command: int | None = None  # its process group; 0 before it has one

    def say(self, line: str) -> None:
        """Have a line written, and wait for that. By another thread: what interrupts this one cuts
        no line."""
        written = threading.Event()
        self._said.put((line, written))
        written.wait()

    def write(self) -> None:
        while True:
            line, written = self._said.get()
            text = f"{line}\n".encode()
            while text:
                text = text[os.write(self._port, text) :]
            written.set()

    def note(self, **what: Any) -> None:
        self.say(f"#{json.dumps(what)}")

    def beat(self) -> None:
        while True:
            time.sleep(BEAT_S)
            self.say("")

    def listen(self) -> None:
        pending = b""
        while piece := os.read(self._port, 1 << 16):
            *whole, pending = (pending + piece).split(b"\n")
            for line in map(bytes.decode, whole):
                if line == STOP:
                    self.stop()
                    continue
                if line.startswith((SWEEP, RUN)):
                    self.stopped = False
                self._heard.put(line)

    def stop(self) -> None:
        """End what runs as Ctrl-C does: the command, or the sweep of this process."""
        self.stopped = True
        if self.command is None:
            os.kill(os.getpid(), signal.SIGINT)
        elif self.command:
            with suppress(ProcessLookupError):
                os.killpg(self.command, signal.SIGINT)

    def lines(self) -> Iterator[str]:
        while True:
            yield self._heard.get()

    def asked(self) -> tuple[str, dict[str, Any]]:
        """The next sweep or command. What the one before did not read any more is passed over."""
        line = next(line for line in self.lines() if line.startswith((SWEEP, RUN)))
        kind = SWEEP if line.startswith(SWEEP) else RUN
        request: dict[str, Any] = json.loads(line.removeprefix(kind))
        return kind, request

    def needed(self, _: RunRow, left_s: float | None) -> frozenset[int]:
        """The points that the run still needs, as its host finds by the rows that it has."""
        self.note(needed=left_s)
        return frozenset(json.loads(self._heard.get()))


class _Said(Silent):
    """What the user has to know, the host says."""

    def __init__(self, port: _Port) -> None:
        self._port = port

    def warned(self, line: str) -> None:
        self._port.note(warned=line)


class _Rows:
    """The rows of a sweep, counted, so that the last line can say that none is missing."""

    def __init__(self, port: _Port) -> None:
        self._port, self._count = port, 0

    def __call__(self, line: str) -> None:
        self._count += line.startswith('{"row":"sample"')
        self._port.say(line)

    def end(self) -> None:
        self._port.say(lines.of_end(self._count))


class _Guest(LocalTarget):
    """This machine, with what only its host knows of it, and whose host chooses the points."""

    role: Role = "follows"
    own = admission.GUESTS_OWN_BYTES

    def __init__(self, known: dict[str, Any]) -> None:
        patience = EMULATED_PATIENCE if virtualization.emulated(proc.ROOT) else 1.0
        super().__init__(patience, guarded=False)
        self._known = known

    def environment(self, experiment: Experiment, directories: Directories) -> dict[str, Any]:
        return super().environment(experiment, directories) | self._known


def _sweep(asked: dict[str, Any], port: _Port) -> None:
    """One sweep. How it ended is a note: an exit code, and the line that says why."""
    rows = _Rows(port)
    code, text = 0, ""
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if port.stopped:
                raise KeyboardInterrupt
            with (
                TemporaryDirectory(dir=_OWN) as folder,
                Store(Path(folder, "rows.db"), create=True, tell=rows) as store,
            ):
                _measure(asked, store, port)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        code, text = Interrupted.exit_code, "interrupted"
    except MemlabError as error:
        code, text = error.exit_code, str(error)
    except Exception as error:
        line = f"inside of the guest: {type(error).__name__}: {error}"
        code, text = CannotRun.exit_code, line
    rows.end()
    port.note(code=code, said=text)


def _run(asked: dict[str, Any], port: _Port) -> None:
    """One command. What it prints are notes as it comes; its exit code is the last one."""
    folder = asked["folder"] if os.access(asked["folder"], os.X_OK) else "/"
    (place := _OWN / "bin").mkdir(exist_ok=True)
    (place / "memlab").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m memlab "$@"\n')
    (place / "memlab").chmod(0o755)
    path = {"PATH": f"{place}:{os.environ['PATH']}"}
    port.command = 0
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a command inherits what is ignored
    try:
        process = subprocess.Popen(
            asked["words"],
            env=os.environ | asked["environment"] | path,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        line = f"memlab: cannot start {asked['words'][0]} in the guest: {error.strerror}\n"
        port.note(err=line)
        port.command = None
        port.note(code=CannotRun.exit_code, said="")
        return
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def pass_on(name: str, stream: IO[bytes]) -> None:
        while piece := os.read(stream.fileno(), _PIECE):
            port.note(**{name: piece.decode("latin-1")})

    assert process.stdout
    assert process.stderr
    streams = {"out": process.stdout, "err": process.stderr}
    passing = [threading.Thread(target=pass_on, args=item, daemon=True) for item in streams.items()]
    for thread in passing:
        thread.start()
    port.command = process.pid
    if port.stopped:  # before it had a process group
        port.stop()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with suppress(ProcessLookupError):  # what it left may hold its output open
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    port.command = None
    for thread in passing:
        thread.join(_DRAIN_S)
    port.note(code=code if code >= 0 else 128 - code, said="")


def _measure(asked: dict[str, Any], store: Store, port: _Port) -> None:
    guest, watch = _Guest(asked["known"]), _Said(port)
    if "request" in asked:
        prepared = prepare(Request(**asked["request"]), admission.GUESTS_OWN_BYTES)
        driver.sweep(prepared, store, watch, guest, port.needed)
        return
    begun = travel.Arriving(store, own=lambda row: row)
    for line in port.lines():
        begun.take(line)
        if begun.ended:
            break
    driver.resume(store.find(asked["resume"]), store, watch, asked["budget_s"], guest, port.needed)


def _path() -> str:
    """Found by its name in sysfs: there is no udev here to make /dev/virtio-ports."""
    for port in Path("/sys/class/virtio-ports").iterdir():
        if (port / "name").read_text().strip() == virtualization.GUEST_PORT:
            return f"/dev/{port.name}"
    raise SystemExit("the guest has no port of memlab's")
