"""One measurement at a time on one machine: two would measure each other.

Two locks are held together, since each is seen where the other is not: an abstract socket, by the
processes of one network namespace, and a lock on a folder of the system, by those that share that
folder, such as a container with `-v /run/lock:/run/lock`. A container that shares neither is not
seen. Any user may hold them, as any user may measure; whoever is refused learns who does.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from memlab.errors import Busy
from memlab.observe import proc
from memlab.run.watch import Silent
from memlab.text.printable import printable

# Set by memlab's own tests: their process, and a name. Only what that process started has a lock of
# its own by it, so that the variable alone lets nobody measure beside others.
TEST_LOCK = "_MEMLAB_TEST_LOCK"
_FOLDERS = ("/run/lock", "/run", "/tmp")  # the first that is there is locked: nothing is written
_SOCKET = "\0memlab-measures"
_ASKED_EVERY_S = 0.25


@contextmanager
def machine_lock(wait_s: float = 0.0) -> Iterator[None]:
    """Hold the machine for measuring; Busy, with who has it, if another does for over `wait_s`."""
    deadline, announced = time.monotonic() + wait_s, False
    with ExitStack() as stack:
        while busy := _take(stack):
            if time.monotonic() >= deadline:
                raise Busy(busy)
            if not announced:
                Silent().warned(f"{busy}; waiting")
                announced = True
            time.sleep(_ASKED_EVERY_S)
        yield


def _take(exits: ExitStack) -> str | None:
    """Take both locks, or say in a line who has one."""
    name = _name_of_tests()
    with ExitStack() as stack:
        if name is None and (folder := _folder()) is not None:
            stack.callback(os.close, folder)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return _holder(_holder_of(folder))
        lock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        address = _SOCKET if name is None else f"\0memlab-test-{name}"
        try:
            lock.bind(address)  # unix(7): the kernel drops it with its holder, however that ends
            lock.listen()
        except OSError:
            return _holder(_listener(address))
        exits.push(stack.pop_all())
    return None


def _name_of_tests() -> str | None:
    """The tests' own lock: its name begins with the pid of a process that this one comes from."""
    name = os.environ.get(TEST_LOCK, "")
    pid = os.getpid()
    with suppress(OSError):
        while pid:
            if name.partition("/")[0] == str(pid):
                return name
            pid = proc.life(pid).parent
    return None


def _folder() -> int | None:
    for path in _FOLDERS:
        with suppress(OSError):
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return None


def _holder_of(folder: int) -> int | None:
    """The process that holds the folder's lock, by /proc/locks (proc_locks(5)); it lists none of
    another container."""
    status = os.fstat(folder)
    at = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in proc.read(Path("/proc/locks")).split("\n"):
            words = line.split()
            if words[1:2] == ["FLOCK"] and words[5:6] == [at]:
                return int(words[4])
    return None


def _listener(address: str) -> int | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)  # its queue may be full of those that were refused before
        try:
            asking.connect(address)
        except OSError:
            return None
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, _, _ = struct.unpack("3i", credentials)
    return int(pid) or None


def _holder(pid: int | None) -> str:
    who, stopped = "it cannot be seen from here", ""
    if pid is not None:
        with suppress(OSError, ValueError):
            life, folder = proc.life(pid), Path(f"/proc/{pid}")
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            who = f"pid {pid} of {_user(folder)}, {_age(life)}: {printable(_command(words))[:80]}"
            if life.state in "Tt":
                stopped = f"; it is stopped: kill -CONT {pid} resumes it, kill -KILL {pid} ends it"
    return f"another memlab measures on this machine ({who}){stopped}"


def _command(words: Sequence[str]) -> str:
    """The command from `memlab` on without the options before its subcommand, so that this is not
    what is cut off."""
    at = next((at for at, word in enumerate(words) if Path(word).name == "memlab"), None)
    if at is None:
        return " ".join(words).strip()
    rest = [*words[at + 1 :]]
    while rest and rest[0].startswith("--"):
        rest = rest[2:] if rest[0] == "--store" else rest[1:]
    return " ".join(["memlab", *rest]).strip()


def _user(folder: Path) -> str:
    uid = folder.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _age(life: proc.Life) -> str:
    started_s = life.start_ticks / os.sysconf("SC_CLK_TCK")
    minutes = (time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) / 60
    return f"for {minutes:.0f} min" if minutes >= 1 else "for less than a minute"
