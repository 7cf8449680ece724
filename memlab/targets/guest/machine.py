"""The virtual machine as a process: virtme-ng makes its command line, QEMU runs it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab.observe import guest_tools
from memlab.run import kernel, warm
from memlab.run.kernel import Kernel
from memlab.run.request import CannotRun
from memlab.targets.guest import device, stream
from memlab.units import MiB

DISK = "memlab"  # the serial number of the disk for files
# Two emulated processors are two threads of QEMU, and now and then (7.2, once in some ten sweeps)
# both come to spin in the guest's kernel for good.
CPUS = {"kvm": 2, "tcg": 1}

_BOOT = (
    "import sys; sys.path[:0] = sys.argv[1].split(chr(10)); import memlab;"
    "memlab.__path__.append(sys.argv[2]); from memlab.targets.guest.inside import main;"
    "main(sys.argv[3])"
)
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_LOG_STAMP = re.compile(r"^\[ *[0-9.]+\] ")


class Ended(CannotRun):
    """The guest is gone, or says nothing; one line says why."""


class Silent(Ended):
    """It still runs, and says nothing."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The guest that was asked for."""

    kernel: str = kernel.INSTALLED
    memory_bytes: int = 2048 * MiB
    cpus: int | None = None  # None before it is known how it runs: then CPUS
    append: str = ""
    directory: str | None = None  # of the host, where the guest's disk lies as a file
    iommu: bool = False  # emulated, with a device behind it that VFIO holds


def command(asked: Asked, image: Kernel, accelerated: str, folder: Path, disk: Path) -> list[str]:
    """What starts the guest. Its root is this host's, read-only; what it writes to /tmp, /var
    and /etc stays in its own memory. A panic ends QEMU (virtme-ng: panic=-1, -no-reboot)."""
    port = f"{stream.PORT}0"
    appended = [*shlex.split(asked.append), *([device.KERNEL_OPTION] if asked.iommu else [])]
    return [
        guest_tools.find(guest_tools.VIRTME) or guest_tools.VIRTME,
        *("--kimg", str(image.path), "--mods", "auto", "--force-9p"),
        *([] if accelerated == "kvm" else ["--disable-kvm"]),
        *(
            "--memory",
            f"{asked.memory_bytes // MiB}M",
            "--cpus",
            str(asked.cpus or CPUS[accelerated]),
        ),
        *("--overlay-rwdir", "/tmp", "--overlay-rwdir", "/var", "--overlay-rwdir", "/etc"),
        *("--blk-disk", f"{DISK}={disk}"),
        *(f"--kopt={word}" for word in appended),
        *("--show-boot-console", "--script-sh", _inside(image)),
        "--qemu-opts",
        *(device.QEMU_OPTIONS if asked.iommu else ()),
        *("-chardev", f"socket,id={port},path={folder / 'port'}"),
        *("-device", "virtio-serial-pci,id=memlab-bus"),
        *("-device", f"virtserialport,bus=memlab-bus.0,chardev={port},name={stream.PORT}"),
    ]


def _inside(image: Kernel) -> str:
    """The guest's whole work, as its shell runs it. As for a worker, Python is told where memlab
    and its probes are: a search through site-packages takes seconds when every look is emulated.
    """
    modules = kernel.modules(image)
    base = "" if modules is None else str(modules.parents[2])
    words = [sys.executable, "-I", "-S", "-c", _BOOT, *warm.where(), base]
    return f"exec {shlex.join(words)}"


class Machine:
    """A guest that has been started, and its port."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._folder = folder
        self._packer, self._unpacker = stream.Packer(), stream.Unpacker()
        self._port: socket.socket | None = None
        self._heard: list[dict[str, Any]] = []
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(folder / "port"))
        self._listening.listen(1)
        environ = {
            **os.environ,
            "PATH": guest_tools.search_path(),
            "TMPDIR": str(folder),  # where virtme-ng leaves files if it is killed
            "XDG_CACHE_HOME": str(folder),
        }
        with (folder / "said").open("x+b") as said, (folder / "log").open("x+b") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
                start_new_session=True,  # out of reach of the terminal's Ctrl-C
                env=environ,
            )

    @property
    def group(self) -> int:
        """The process group of virtme-ng and QEMU."""
        return self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        if self._port is None:
            self._accept(time.monotonic() + 5)
        try:
            if self._port is not None:
                self._port.sendall(self._packer.pack(dict(message)))
        except OSError:
            raise self._ended() from None

    def receive(self, silence_s: float) -> dict[str, Any]:
        """The next message. Ended where there will be none, Silent where none comes in time."""
        deadline = time.monotonic() + silence_s
        if self._port is None:
            self._accept(deadline)
        while not self._heard:
            self._heard += self._unpacker.feed(self._piece(deadline))
        return self._heard.pop(0)

    def _accept(self, deadline: float) -> None:
        """QEMU connects as it starts, long before its guest can say anything."""
        self._listening.settimeout(0.2)
        while self._port is None:
            try:
                self._port, _ = self._listening.accept()
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise self._ended() from None

    def _piece(self, deadline: float) -> bytes:
        if self._port is None:
            raise self._ended()
        self._port.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            piece = self._port.recv(1 << 16)
        except TimeoutError:
            raise Silent(f"the guest has been silent{self._last_words()}") from None
        except ConnectionError:
            piece = b""
        if not piece:
            raise self._ended()
        return piece

    def _ended(self) -> Ended:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        return Ended(f"the guest ended{self._last_words()}")

    def _last_words(self) -> str:
        """Why, as its kernel, QEMU or virtme-ng says."""
        log = (self._folder / "log").read_text(errors="replace")
        if panic := _PANIC.search(log):
            return f": kernel panic: {panic[1].strip()}"
        log += (self._folder / "said").read_text(errors="replace")
        lines = [_LOG_STAMP.sub("", line).strip() for line in log.splitlines()]
        last = next((line for line in reversed(lines) if line), None)
        return f": {last[-200:]}" if last else ""

    def stop(self) -> None:
        """End it at once, and wait for that."""
        with suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        self._process.wait()
        if self._port is not None:
            self._port.close()
        self._listening.close()

    def power_off(self, limit_s: float = 60.0) -> None:
        """Wait for the guest to end by itself, then make sure."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(limit_s)
        self.stop()
