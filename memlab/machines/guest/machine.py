"""The virtual machine as a process of QEMU."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memlab.errors import CannotRun
from memlab.machines.guest import device
from memlab.machines.guest import image as boot
from memlab.machines.tail import Tail
from memlab.observe import guest_tools
from memlab.observe.virtualization import GUEST_PORT
from memlab.run import kernel
from memlab.store.lines import LONGEST
from memlab.text.printable import printable
from memlab.text.units import MiB

# Two emulated processors are two threads of QEMU, and now and then (7.2, once in some ten sweeps)
# both come to spin in the guest's kernel for good.
CPUS = {"kvm": 2, "tcg": 1}

# What an emulator does for nothing: it has no fifth level of page tables to walk, no speculation to
# guard against, and no fast strings: the kernel would clear a page by `rep stosb`, which it steps
# through byte by byte. Without SMAP no copy from a program switches it off and on.
_CPU = {"kvm": "host", "tcg": "max,la57=off,erms=off,smap=off"}
# Per machine: QEMU's model, and the console. The A76 has pages of 4, 16 and 64 KiB, and no
# signatures of pointers, which an emulator computes slowly.
_MACHINES = {
    kernel.X86_64: ([], "ttyS0"),
    kernel.AARCH64: (["-machine", "virt,gic-version=3", "-cpu", "cortex-a76"], "ttyAMA0"),
}
# Self tests and certificates of the kernel's cryptography: half a second of an emulated boot.
_NOT_STARTED = ("crypto_kdf108_init", "jent_mod_init", "load_system_certificate_list")
_EMULATED = ("mitigations=off", f"initcall_blacklist={','.join(_NOT_STARTED)}")

# A kernel that tests its timer panics where the emulator, on a busy host, is late with a tick.
_KERNEL_OPTIONS = ("quiet", "panic=-1", "no_timer_check")
_TAKEN_S = 60.0  # in which a guest that lives takes a line
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_LOG_STAMP = re.compile(r"^\[ *[0-9.]+\] ")


class Ended(CannotRun):
    """The guest is gone, or says nothing; one line says why."""


class Damaged(CannotRun):
    """What the guest sends is not what it should be."""


class Unresponsive(Ended):
    """It still runs, and says nothing."""


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """A guest as it is asked for, and as a run keeps it."""

    kernel: str = kernel.INSTALLED
    memory_bytes: int = 2048 * MiB
    cpus: int | None = None  # None before it is known how it runs: then CPUS
    append: str = ""
    directory: str | None = None  # of the host, where the guest's disk lies as a file
    iommu: bool = False  # emulated, with a device behind it that VFIO holds


def command(
    spec: GuestSpec,
    boots: tuple[Path, Path],
    accelerated: str,
    folder: Path,
    disk: Path,
    of: str = kernel.X86_64,
) -> list[str]:
    """What starts the guest, of its kernel and its initramfs, on a machine `of` an architecture.
    Its root is this host's, read-only; what it writes stays in its own memory. A panic ends
    QEMU."""
    port, (image, initramfs) = f"{GUEST_PORT}0", boots
    model, console = _MACHINES[of]
    appended = [] if accelerated == "kvm" else [*_EMULATED]
    appended += [*shlex.split(spec.append), *([device.KERNEL_OPTION] if spec.iommu else [])]
    return [
        guest_tools.qemu(of),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-accel", accelerated, *(model or ("-cpu", _CPU[accelerated]))),
        *("-m", f"{spec.memory_bytes // MiB}M", "-smp", str(spec.cpus or CPUS[accelerated])),
        *("-kernel", str(image), "-initrd", str(initramfs)),
        *("-append", " ".join([f"console={console}", *_KERNEL_OPTIONS, *appended])),
        *("-serial", "file:/proc/self/fd/2"),  # what its kernel says goes where QEMU's words go
        *("-drive", f"file={_escaped(disk)},format=raw,if=none,id=disk,discard=unmap"),
        *("-device", "virtio-blk-pci,drive=disk"),
        *("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", f"virtio-9p-pci,fsdev=host,mount_tag={boot.HOST_TAG}"),
        *("-chardev", f"socket,id={port},path={_escaped(folder / 'port')}"),
        *("-device", "virtio-serial-pci,id=memlab-bus"),
        *("-device", f"virtserialport,bus=memlab-bus.0,chardev={port},name={GUEST_PORT}"),
        *(device.QEMU_OPTIONS if spec.iommu else ()),
    ]


def _escaped(path: Path) -> str:
    """A path in an option of QEMU, where a comma ends it."""
    return str(path).replace(",", ",,")


class Machine:
    """A guest that has been started, and its port."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._port: socket.socket | None = None
        self._heard: list[bytes] = []
        self._pending = b""  # of a line that has not come to its end
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(folder / "port"))
        self._listening.listen(1)
        self._said = Tail()  # of QEMU, and of the guest's kernel
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._said.end,
            stderr=self._said.end,
            start_new_session=True,  # out of reach of the terminal's Ctrl-C
        )
        self._said.started()

    @property
    def group(self) -> int:
        """The process group of QEMU."""
        return self._process.pid

    def send(self, text: str) -> None:
        """Put a line into the port."""
        if self._port is None:
            self._accept(time.monotonic() + 5)
        try:
            if self._port is not None:
                self._port.settimeout(_TAKEN_S)
                self._port.sendall(f"{text}\n".encode())
        except TimeoutError:
            raise Unresponsive(f"the guest takes nothing{self._last_words()}") from None
        except OSError:
            raise self._ended() from None

    def receive(self, silence_s: float) -> bytes:
        """The next line. Ended where there will be none, Unresponsive where none comes in time,
        Damaged where it has no end."""
        deadline = time.monotonic() + silence_s
        if self._port is None:
            self._accept(deadline)
        while not self._heard:
            *whole, self._pending = (self._pending + self._piece(deadline)).split(b"\n")
            if len(self._pending) > LONGEST:
                raise Damaged(f"the guest sent a line of more than {LONGEST >> 20} MiB")
            self._heard += whole
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
            raise Unresponsive(f"the guest has been silent{self._last_words()}") from None
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
        """Why, as its kernel or QEMU says."""
        if self._process.poll() is not None:
            self._said.close()
        log = self._said.text()
        if panic := _PANIC.search(log):
            return f": kernel panic: {printable(panic[1].strip())[:200]}"
        lines = [_LOG_STAMP.sub("", line).strip() for line in log.splitlines()]
        last = next((line for line in reversed(lines) if line), None)
        return f": {printable(last[-200:])}" if last else ""

    def stop(self) -> None:
        """End it at once, and wait for that."""
        with suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        self._process.wait()
        self._said.close()
        if self._port is not None:
            self._port.close()
        self._listening.close()
