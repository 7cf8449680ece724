"""Hosts of a Dask cluster: what ssh is to others, this module is to these.
`python -m memlab.machines.fleet.cluster ADDRESS NAME WORD...` runs `memlab WORD...` on the worker
NAME, and passes input, output and exit code on.

Dask carries bytes and runs no task. Its scheduler runs a task again whose result is lost, elsewhere
where it can, and a row of another machine is a wrong row. So each worker answers messages that the
scheduler only passes on: start a command, write to its input, read what it printed. A command
prints into a file of its host, so that a reader who is slow, or gone, holds nothing up there.

The package `distributed` is imported only here, and only when it is needed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import urlsplit

from memlab._version import __version__
from memlab.errors import BadRequest, CannotRun
from memlab.files import folders
from memlab.machines.tail import Tail
from memlab.observe import allocators, proc
from memlab.run import cleanup
from memlab.store import rows
from memlab.text.printable import printable

LOST = 255  # ssh's exit code where the link fails, and not the command
CUT = 254  # the same where the command was started

_COMMANDS = ("sweep", "try", "export")  # what a worker starts
_EVERY_S = 1.0  # a host's lines come together so often
_LOOK_S = 0.5  # how often a worker looks for new lines while it is asked
_PATIENCE_S = 20.0  # after so long it says that there are none
_SILENT_S = 60.0  # then the link is broken: three times as long
_PIECE = 1 << 22  # bytes of one answer
_HELLO_S = 20.0  # in which a worker that lives answers
_STOP_S = 30.0  # that a command has to end
_JOIN_S = 60.0  # that a scheduler has to be there
_HEARTBEAT_S = 10.0  # Dask's own is 0.5 s; a scheduler drops workers after 5 min
_ADDRESS = "tls://HOST:PORT"
_BROKEN = (OSError, TimeoutError, EOFError)  # what a link that fails raises

# Nothing of Dask's own work is of use here, and some of it wakes up a hundred times a second.
_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.memory.monitor-interval": "60s",
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.tick.cycle": "60s",
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.diagnostics.nvml": False,
    "distributed.worker.blocked-handlers": [
        "run",
        "get_data",
        "gather",
        "upload_file",
        "actor_execute",
    ],
}


def check_address(address: str) -> None:
    """BadRequest for what is not an address of a scheduler, and for one that is neither encrypted
    nor of this machine: whoever reaches it could start commands on every host."""
    try:
        parts = urlsplit(address)
        name, port = parts.hostname, parts.port
    except ValueError:
        name = port = None
    if not (name and port) or parts.scheme not in ("tcp", "tls"):
        raise BadRequest(f"{address!r} is not a scheduler's address: {_ADDRESS}")
    if parts.scheme == "tcp" and not _loopback(name):
        raise BadRequest(
            f"{address}: without TLS whoever reaches the scheduler can start commands on every "
            f"host: {_ADDRESS}, or a tunnel to tcp://localhost"
        )


def _loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def hosts(address: str) -> list[str]:
    """The names of a cluster's workers that measure, with those that do not answer: each of these
    fails when it is asked for more. CannotRun if there is none, or if two are on one machine."""
    result = _run(_asked(address))
    mine = {name: message for name, message in result.items() if isinstance(message, dict)}
    silent = [name for name, message in result.items() if isinstance(message, Exception)]
    if not (mine or silent):
        others = f": its {len(result)} workers are Dask's own" if result else ""
        raise CannotRun(
            f"{address} has no worker that measures{others}; on each host: "
            f"memlab hosts worker {address}"
        )
    machines: dict[str, str] = {}
    for name, text in mine.items():
        machine = str(text.get("machine"))
        if machine in machines:
            raise CannotRun(
                f"the workers {machines[machine]} and {name} are on one machine, where they would "
                "measure each other: end one"
            )
        machines[machine] = name
    names = [*mine, *silent]
    bad = [name for name in names if not rows.host_name(name)]
    if bad:
        raise CannotRun(
            f"{bad[0]!r:.100} is not the name of a host: memlab hosts worker --name NAME"
        )
    return names


async def _asked(address: str) -> dict[str, Any]:
    """By name, what each worker answers: None if it is one of Dask's own, an error if it answers
    nothing in time."""
    async with _scheduler(address) as scheduler:
        workers = await asyncio.wait_for(_workers(scheduler), _HELLO_S)

        async def hello(at: str) -> Any:
            message = {"op": "memlab_hello"}
            request = scheduler.broadcast(msg=message, workers=[at], on_error="ignore")
            return (await asyncio.wait_for(request, _HELLO_S)).get(at)

        answers = await asyncio.gather(*map(hello, workers.values()), return_exceptions=True)
        return dict(zip(workers, answers, strict=True))


async def _workers(scheduler: Any) -> dict[str, str]:
    """By name, where each worker listens."""
    known = (await scheduler.identity(n_workers=-1))["workers"]
    return {str(item["name"]): at for at, item in known.items()}


# The end at which hosts are asked


def command(address: str, name: str, words: Sequence[str]) -> list[str]:
    """The words that run memlab on a worker."""
    return [sys.executable, "-P", "-m", "memlab.machines.fleet.cluster", address, name, *words]


async def _remote(address: str, name: str, words: Sequence[str]) -> int:
    """Run a command there to its end; its exit code."""
    async with _scheduler(address) as scheduler:
        at = (await asyncio.wait_for(_workers(scheduler), _HELLO_S)).get(name)
        if at is None:
            raise OSError(f"{address} has no worker {name}")
        id = uuid.uuid4().hex

        async def ask(op: str, **more: Any) -> Any:
            message = {"op": f"memlab_{op}", "id": id, **more}
            request = scheduler.broadcast(msg=message, workers=[at])
            text = (await asyncio.wait_for(request, _SILENT_S))[at]
            if text is None:
                raise OSError(f"{name} is only a worker of Dask: start `memlab hosts worker` there")
            return text

        if refused := (await ask("start", words=list(words)))["refused"]:
            raise OSError(refused)
        passing = asyncio.create_task(_pass_input(ask))
        try:
            return await _pass_output(ask)
        except _BROKEN as error:
            print(_last(error), file=sys.stderr)
            return CUT
        finally:
            passing.cancel()


async def _pass_output(ask: Callable[..., Awaitable[Any]]) -> int:
    at = 0
    while True:
        text = await ask("read", at=at)
        sys.stdout.buffer.write(text["out"])
        sys.stdout.flush()
        at += len(text["out"])
        if text["code"] is not None:
            sys.stderr.buffer.write(text["err"])
            return int(text["code"])
        await asyncio.sleep(_EVERY_S)


async def _pass_input(ask: Callable[..., Awaitable[Any]]) -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while True:
        piece = await reader.read(_PIECE)
        await ask("write", data=piece)
        if not piece:
            return


# The end that measures


@dataclass
class _Command:
    """A command that was started, the file that it prints into, and the end of what it says."""

    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: Tail
    asked_s: float = field(default_factory=time.monotonic)


@dataclass
class _WorkerCommands:
    """What a worker answers. `environ` is what commands are started with, `cpus` are those that
    they may use; the worker itself keeps to one."""

    environ: Mapping[str, str]
    cpus: Collection[int]
    running: dict[str, _Command] = field(default_factory=dict)

    def handlers(self) -> dict[str, Callable[..., Any]]:
        return {
            "memlab_hello": self.hello,
            "memlab_start": self.start,
            "memlab_write": self.write,
            "memlab_read": self.read,
        }

    def hello(self) -> dict[str, str]:
        boot = proc.read(Path("/proc/sys/kernel/random/boot_id")).strip()
        return {"machine": boot, "version": __version__}

    def start(self, id: str, words: Sequence[str]) -> dict[str, str]:
        """Start a command, once, however often it is asked."""
        self._forget()
        command = words[1:2] if words[:1] and words[0].startswith("--wait=") else words[:1]
        if not command or command[0] not in _COMMANDS:
            return {"refused": f"a worker starts {', '.join(_COMMANDS)}, not {words[:1]!s:.50}"}
        if id not in self.running:
            out, err = TemporaryFile(), Tail()  # noqa: SIM115 - closed when it is forgotten
            own = os.sched_getaffinity(0)
            os.sched_setaffinity(0, self.cpus)  # a child has this thread's
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "memlab", *words],
                    env=self.environ,
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err.end,
                    cwd=Path.home(),
                    start_new_session=True,
                )
            finally:
                os.sched_setaffinity(0, own)
                err.started()
            self.running[id] = _Command(process, out, err)
        return {"refused": ""}

    async def write(self, id: str, data: bytes) -> bool:
        """Write to a command's input; no bytes close it."""
        pipe = self.running[id].process.stdin
        assert pipe

        def written() -> None:
            with suppress(OSError, ValueError):  # it has ended, or reads no more
                pipe.write(data)
                pipe.flush() if data else pipe.close()

        await asyncio.to_thread(written)
        return True

    async def read(self, id: str, at: int) -> dict[str, Any]:
        """What a command printed from a byte on, as soon as there is something; at its end its exit
        code and what it said last."""
        item = self.running[id]
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            code = item.process.poll()
            out = os.pread(item.out.fileno(), _PIECE, at)
            item.asked_s = time.monotonic()
            if code is not None and not out:
                await asyncio.to_thread(item.err.close)
                return {"out": b"", "code": code, "err": item.err.text().encode()}
            if out or item.asked_s > deadline:
                return {"out": out, "code": None, "err": b""}
            await asyncio.sleep(_LOOK_S)

    def _forget(self) -> None:
        """Commands that have ended, and that nobody asks about any more."""
        for id, item in list(self.running.items()):
            if item.process.poll() is not None and time.monotonic() - item.asked_s > _SILENT_S:
                del self.running[id]

    async def ended(self) -> None:
        """Wait until every command has ended."""
        while any(item.process.poll() is None for item in self.running.values()):
            await asyncio.sleep(_LOOK_S)

    async def stop(self) -> None:
        """End what runs as Ctrl-C does, which leaves the host as it was."""
        for item in self.running.values():
            if item.process.poll() is None:
                item.process.send_signal(signal.SIGINT)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.ended(), _STOP_S)


def check_environment(environ: Mapping[str, str]) -> None:
    """CannotRun where a variable would change what is measured: every command inherits it."""
    for name in environ:
        if name == "LD_PRELOAD" or name.startswith(allocators.OPTIONS):
            raise CannotRun(
                f"{name} is set, and would change what every sweep of this worker measures: unset "
                "it (a nanny of Dask sets such variables)"
            )


def work(address: str, name: str | None, store: Path | None, say: Callable[[str], None]) -> None:
    """Be a worker until SIGINT or SIGTERM, or until the scheduler is gone. CannotRun if it cannot
    join, and at the end of the scheduler."""
    check_address(address)
    check_environment(os.environ)
    name = name or socket.gethostname()
    if not rows.host_name(name):
        raise BadRequest(f"{name!r} is not the name of a host: --name NAME")
    where = {"MEMLAB_STORE": str(store.absolute())} if store else {}
    commands = _WorkerCommands({**os.environ, **where}, os.sched_getaffinity(0))
    # By default a sweep measures on the last CPU of its affinity mask.
    os.sched_setaffinity(0, {min(commands.cpus)})
    for scratch in folders.abandoned():  # of workers that were killed
        if scratch.name.startswith("memlab-worker-"):
            cleanup.remove_folder(scratch)
    with folders.temporary("worker") as folder:
        _run(_work(address, name, commands, folder, say))


async def _work(
    address: str, name: str, commands: _WorkerCommands, folder: Path, say: Callable[[str], None]
) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    distributed = _distributed()
    worker = distributed.Worker(
        address,
        nthreads=1,
        name=name,
        memory_limit=0,
        dashboard=False,
        security=_security(address, "worker"),
        local_directory=str(folder),
        death_timeout=_JOIN_S,
        silence_logs=50,
    )
    worker.handlers.update(commands.handlers())
    beat = worker.heartbeat

    async def seldom() -> None:
        await beat()
        worker.periodic_callbacks["heartbeat"].callback_time = _HEARTBEAT_S * 1000

    worker.periodic_callbacks["heartbeat"].callback = seldom
    try:
        await worker
    except (TimeoutError, OSError, RuntimeError) as error:
        words = _last(error)
        taken = f"a worker {name} is there already: --name NAME" if "name taken" in words else ""
        raise CannotRun(f"{address} cannot be joined: {taken or words}") from None
    worker.status = distributed.Status.paused  # no task of anybody runs beside a measurement
    say(f"worker {name} of {address}; Ctrl-C ends it")
    gone = asyncio.create_task(worker.finished())
    until = asyncio.create_task(stopping.wait())
    await asyncio.wait([gone, until], return_when=asyncio.FIRST_COMPLETED)
    if stopping.is_set():
        await commands.stop()
        await worker.close(nanny=False)
        return
    words = f"the scheduler {address} is gone"
    if any(item.process.poll() is None for item in commands.running.values()):
        say(f"{words}; a sweep goes on to its end")
    waiting = asyncio.create_task(commands.ended())
    await asyncio.wait([waiting, until], return_when=asyncio.FIRST_COMPLETED)
    if stopping.is_set():
        await commands.stop()
        return
    raise CannotRun(f"{words}: start the worker again when it is back")


# Dask


def _distributed() -> Any:
    """The package, with its logging turned down."""
    try:
        dask = import_module("dask")
        dask.config.set({**_QUIET, "logging": {"distributed": "critical"}})
        return import_module("distributed")
    except ImportError:
        raise CannotRun(
            "no Dask, by which these hosts are reached: pip install memlab[dask]"
        ) from None


def _security(address: str, role: str) -> Any:
    """Certificates, where Dask's own configuration says that they are."""
    encrypted = address.startswith("tls:")
    security = import_module("distributed.security").Security(require_encryption=encrypted)
    try:
        context = security.get_connection_args(role)["ssl_context"]
    except OSError as error:
        raise CannotRun(f"the certificates of Dask: {_last(error)}") from None
    if encrypted and context is None:
        variable = "DASK_DISTRIBUTED__COMM__TLS__"
        raise CannotRun(
            f"{address} asks for certificates: distributed.comm.tls in Dask's configuration, or "
            f"{variable}CA_FILE, {variable}{role.upper()}__CERT and {variable}{role.upper()}__KEY"
        )
    return security


@asynccontextmanager
async def _scheduler(address: str) -> Any:
    _distributed()
    security = _security(address, "client")
    core = import_module("distributed.core")
    scheduler = core.rpc(address, connection_args=security.get_connection_args("client"))
    try:
        yield scheduler
    finally:
        await scheduler.close_rpc()


def _run(main: Any) -> Any:
    """Run it, with each failure of a link as CannotRun."""
    try:
        return asyncio.run(main)
    except _BROKEN as error:
        raise CannotRun(_last(error)) from None


def _last(error: BaseException) -> str:
    """What was at the bottom of an error of Dask, in a line."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    if isinstance(error, TimeoutError) and not str(error):
        return "it does not answer"
    return printable(str(error).splitlines()[0] if str(error) else type(error).__name__)[:300]


def main(address: str, name: str, *words: str) -> int:
    try:
        code: int = _run(_remote(address, name, words))
    except CannotRun as error:
        print(error, file=sys.stderr)
        return LOST
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
