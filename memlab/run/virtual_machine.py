"""The virtual machine that a trial starts itself: QEMU's command line, and what boots in it.

Only an init of one page (machines/guest/init.c) runs in it, which reports that it runs and sleeps.
So the memory that the machine takes is that of the kernel's boot and of no program.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab.errors import BadRequest, CannotRun
from memlab.experiment import FOUND, VirtualMachine
from memlab.observe import guest_tools, kvm, proc
from memlab.run import kernel
from memlab.run.fork_server import where
from memlab.run.initramfs import CONSOLE, ArchiveMember, archive
from memlab.run.journal import Journal
from memlab.run.kernel import Kernel
from memlab.run.settings import Unavailable
from memlab.text.units import MiB

NO_QEMU = f"needs QEMU, and it is not here: {guest_tools.QEMU_REMEDY}"
BOOTED = "memlab: booted"  # what machines/guest/init.c says
_FIRMWARE_BOOTED = "No bootable device."  # SeaBIOS, on its debug port
_DEBUG_PORT = 0x402  # of SeaBIOS
_QMP_FD, _CONSOLE_FD = 0, 1  # the probe gives QEMU a socket as each
# Of the emulator's translations. QEMU takes 1 GiB by default, which mem-lock locks as well.
_TRANSLATED_MIB = 64


@dataclass(frozen=True, slots=True)
class StartedMachine:
    """The probe's params for the machine, and what its sample records about it."""

    params: Mapping[str, str]
    seen: Mapping[str, Any]


class VirtualMachines:
    """The virtual machines of a run. The host is asked only once how it runs them."""

    def __init__(self, journal: Journal, place: Path) -> None:
        self._journal, self._place = journal, place
        self._initramfs: Path | None = None
        self._accelerator: str | None = None

    def start(self, wanted: VirtualMachine, root: Path = proc.ROOT) -> StartedMachine:
        """Raises Unavailable where this host lacks something."""
        qemu = guest_tools.find(guest_tools.QEMU)
        if qemu is None:
            raise Unavailable(NO_QEMU)
        if self._accelerator is None:
            self._accelerator = kvm.accelerator()
        image = None if wanted.kernel is None else _find(wanted.kernel, root)
        device = _passed_through(root) if wanted.nic == "passed_through" else None
        initramfs = None if image is None else self._the_initramfs()
        words = [qemu, *command(wanted, self._accelerator, image, initramfs, device)]
        return StartedMachine(
            {
                "command": "\n".join(words),
                "booted_sign": _FIRMWARE_BOOTED if image is None else BOOTED,
            },
            {
                "accelerator": self._accelerator,
                "kernel": None if image is None else image.release,
                "device": device,
            },
        )

    def _the_initramfs(self) -> Path:
        if self._initramfs is None:
            if not init().exists():
                raise Unavailable(
                    "needs the init of a guest, which is built only on x86-64; the firmware boots "
                    "without: -p boots=firmware"
                )
            folder = self._journal.make_folder(self._place, f"{self._journal.name}-machine")
            self._initramfs = folder / "initramfs"
            self._initramfs.write_bytes(initramfs(init().read_bytes()))
        return self._initramfs


def command(
    wanted: VirtualMachine,
    accelerator: str,
    image: Kernel | None,
    initramfs: Path | None,
    device: str | None,
) -> Iterator[str]:
    """QEMU's arguments."""
    limited = f",tb-size={_TRANSLATED_MIB}" if accelerator == "tcg" else ""
    yield from ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
    yield from ("-accel", f"{accelerator}{limited}", "-cpu", "max", "-smp", "1")
    yield from ("-m", f"{wanted.memory_bytes // MiB}M")
    yield from ("-overcommit", f"mem-lock={'on' if wanted.mem_lock else 'off'}")
    yield from ("-chardev", f"socket,id=qmp,fd={_QMP_FD}", "-mon", "chardev=qmp,mode=control")
    yield from ("-chardev", f"socket,id=console,fd={_CONSOLE_FD}")
    if wanted.nic == "virtio":  # on a network without anybody else
        yield from ("-netdev", "hubport,id=net,hubid=0")
        yield from ("-device", "virtio-net-pci,netdev=net,romfile=")
    elif device:
        yield from ("-device", f"vfio-pci,host={device},rombar=0")
    if image is None:
        yield from ("-device", f"isa-debugcon,iobase={_DEBUG_PORT:#x},chardev=console")
        return
    yield from ("-serial", "chardev:console", "-kernel", str(image.path))
    yield from ("-initrd", str(initramfs), "-append", "console=ttyS0 quiet panic=-1")


def lack(wanted: VirtualMachine, root: Path = proc.ROOT) -> str:
    """What the host lacks for this machine; empty where nothing is missing."""
    if guest_tools.find(guest_tools.QEMU) is None:
        return NO_QEMU
    try:
        if wanted.kernel is not None:
            _find(wanted.kernel, root)
        if wanted.nic == "passed_through":
            _passed_through(root)
    except Unavailable as missing:
        return str(missing)
    return ""


def _find(named: str, root: Path) -> Kernel:
    try:
        if named != FOUND:
            image = kernel.read(Path(named), "-p kernel")
            if image.machine != kernel.X86_64:
                raise Unavailable(f"{named} is a kernel of {image.machine}, not of x86_64")
            return image
    except (BadRequest, CannotRun) as wrong:
        raise Unavailable(str(wrong)) from None
    newest = kernel.default(root)
    if newest is None:
        raise Unavailable(
            "needs a kernel for the guest, and none is at hand with its modules: "
            "apt install linux-image-amd64, or name one with -p kernel=PATH"
        )
    return newest


def _passed_through(root: Path) -> str:
    """A device that vfio-pci already drives. None is ever taken from the host."""
    groups = root / "sys/kernel/iommu_groups"
    if not groups.is_dir() or not any(groups.iterdir()):
        raise Unavailable(
            "passing a device through needs an IOMMU, and /sys/kernel/iommu_groups is empty: boot "
            "with intel_iommu=on or amd_iommu=on where the machine has one"
        )
    bound = root / "sys/bus/pci/drivers/vfio-pci"
    devices = sorted(entry.name for entry in bound.glob("*:*")) if bound.is_dir() else []
    if not devices:
        raise Unavailable(
            "passing a device through needs one that vfio-pci has, and it has none: as root, "
            "modprobe vfio-pci, and driverctl set-override ADDRESS vfio-pci for a PCI device that "
            "the host can spare"
        )
    return devices[0]


def init() -> Path:
    """The program of machines/guest/init.c, installed beside the compiled probes."""
    return Path(where()[1]) / "guest_init"


def initramfs(program: bytes) -> bytes:
    """An archive with a console and /init."""
    return archive((*CONSOLE, ArchiveMember("init", stat.S_IFREG | 0o755, program)))
