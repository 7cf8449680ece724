"""The driver's end of the fork server: start it, ask it for trials, stop it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from memlab.errors import NotBuilt, WorkerLost
from memlab.experiment import Experiment
from memlab.files import folders

# The server imports memlab from where this process has it, and the compiled probes from where
# they were built (an editable install keeps them apart); -I -S leaves out everything else.
_BOOT = (
    "import sys; sys.path[:0] = sys.argv[1].split(chr(10)); import memlab;"
    "memlab.__path__[:0] = sys.argv[2].split(chr(10)); from memlab.run.worker import main; main()"
)
MARK = "from memlab.run.worker import main"  # what is on its command line and its workers'


class ForkServer:
    """A fork server process, in a session of its own so that Ctrl-C does not reach it."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        folders: Sequence[int] = (),
        home: str = "",
        loader: Sequence[str] = (),
    ) -> None:
        """`environ` is added to what the server and its workers are started with. `folders` are
        the descriptors of those that their files lie in. `home` is the folder of the compiled
        probes, if not memlab's own: see `layouts`. `loader` is the command of another libc's
        (observe.libc)."""
        roots, probes = where()
        directories = roots, "\n".join(dict.fromkeys([home or probes, probes]))
        self.served = 0  # trials that were answered
        self._last_words = TemporaryFile()  # noqa: SIM115 - closed by stop
        self._process = subprocess.Popen(
            [*loader, sys.executable, "-I", "-S", "-c", _BOOT, *directories, str(os.getpid())],
            pass_fds=folders,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._last_words,
            start_new_session=True,
            env={**os.environ, **(environ or {})},
        )

    @property
    def group(self) -> int:
        """The process group of the server and all workers."""
        return self._process.pid

    def run(self, trial: Mapping[str, Any]) -> dict[str, Any]:
        """One trial, as the worker's reply: outcome, detail or result. WorkerLost if it died."""
        reply = self._ask(trial)
        self.served += 1
        return reply

    def relay(
        self, trials: Sequence[Mapping[str, Any]], seed: int, limit_s: float
    ) -> list[dict[str, Any]]:
        """Trials whose workers take turns on one CPU, as their replies in this order."""
        replies: list[dict[str, Any]] = self._ask(
            {"relay": trials, "seed": seed, "limit_s": limit_s}
        )["relay"]
        self.served += len(trials)
        return replies

    def _ask(self, trial: Mapping[str, Any]) -> dict[str, Any]:
        inlet, outlet = _pipes(self._process)
        try:
            inlet.write(json.dumps(trial).encode() + b"\n")
            inlet.flush()
            line = outlet.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise WorkerLost(
                f"the fork server ended with status {self._process.wait()}{self._why()}"
            )
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _why(self) -> str:
        """The last line that the server wrote to standard error, or what it lacked."""
        self._last_words.seek(0)
        lines = self._last_words.read().decode(errors="replace").splitlines()
        if lines and f"[Errno {errno.EAGAIN}]" in lines[-1]:  # fork(2)
            return ": no further process may be started: raise `ulimit -u` or the cgroup's pids.max"
        return f": {lines[-1]}" if lines else ""

    def stop(self) -> None:
        """Kill the server and any trial in flight, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        self._process.wait()
        for pipe in _pipes(self._process):
            with suppress(BrokenPipeError):
                pipe.close()
        self._last_words.close()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the fork server was started without pipes")
    return process.stdin, process.stdout


def layouts(experiment: Experiment) -> list[str]:
    """The folders that hold the experiment's probe, the same machine code at other places in each
    (CMakeLists.txt); one folder where there are no others, or none are asked for."""
    _, probes = where()
    if experiment.home or not experiment.layouts or experiment.probe_file.endswith(".py"):
        return [experiment.home or probes]
    return [probes, *sorted(map(str, Path(probes, "layouts").glob("*")))]


def where() -> tuple[str, str]:
    """The import path for the worker, and the folder of the compiled probes; or NotBuilt."""
    probes, backend = folders.compiled(), find_spec("_cffi_backend")
    if backend is None or backend.origin is None:
        raise NotBuilt("cffi is not installed; `pip install cffi`")
    roots = (Path(__file__).parents[2], Path(backend.origin).parent)
    return "\n".join(map(str, roots)), str(probes)
