"""The virtual machine that a trial starts itself: QEMU's command line, and what boots in it.

Nothing runs in it but an init of a few dozen bytes, which says that it is there and sleeps: what
memory the machine takes is then the kernel's boot, and no program's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlab.experiment import FOUND, VirtualMachine
from memlab.observe import guest_tools, kvm, proc
from memlab.run import kernel
from memlab.run.journal import Journal
from memlab.run.kernel import Kernel
from memlab.run.request import BadRequest, CannotRun
from memlab.run.settings import Unavailable
from memlab.units import MiB

BOOTED = "memlab: booted"  # what init says
_FIRMWARE_BOOTED = "No bootable device."  # SeaBIOS, on its debug port
_DEBUG_PORT = 0x402  # of SeaBIOS
_QMP_FD, _CONSOLE_FD = 3, 4  # as the probe hands them to QEMU
# Of the emulator's translations. QEMU takes 1 GiB by default, which mem-lock locks as well.
_TRANSLATED_MIB = 64


@dataclass(frozen=True, slots=True)
class Started:
    """What the probe is given, and what its sample says of the machine."""

    params: Mapping[str, str]
    seen: Mapping[str, Any]


class VirtualMachines:
    """Those of a run. The host is asked once what it runs them with."""

    def __init__(self, journal: Journal, run: str, place: Path) -> None:
        self._journal, self._run, self._place = journal, run, place
        self._initramfs: Path | None = None
        self._accelerator: str | None = None

    def start(self, wanted: VirtualMachine, root: Path = proc.ROOT) -> Started:
        """Unavailable where this host lacks what it takes."""
        qemu = guest_tools.find(guest_tools.QEMU)
        if qemu is None:
            raise Unavailable(f"needs QEMU, and it is not here: {guest_tools.QEMU_REMEDY}")
        if self._accelerator is None:
            self._accelerator = kvm.accelerator()
        image = None if wanted.kernel is None else _find(wanted.kernel, root)
        device = _passed_through(root) if wanted.nic == "passed_through" else None
        initramfs = None if image is None else self._the_initramfs()
        words = [qemu, *command(wanted, self._accelerator, image, initramfs, device)]
        return Started(
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
            folder = self._journal.make_folder(self._place, f"{self._run}-machine")
            self._initramfs = folder / "initramfs"
            self._initramfs.write_bytes(initramfs(init(BOOTED + "\n")))
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


def _find(named: str, root: Path) -> Kernel:
    try:
        if named != FOUND:
            return kernel.read(Path(named), "-p kernel")
    except (BadRequest, CannotRun) as wrong:
        raise Unavailable(str(wrong)) from None
    found = kernel.installed(root)
    if found is None:
        raise Unavailable(
            "needs a kernel for the guest, and none is in /boot with its modules: "
            "apt install linux-image-amd64, or name one with -p kernel=PATH"
        )
    return found


def _passed_through(root: Path) -> str:
    """A device that vfio-pci has already. None is ever taken from the host."""
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


def init(text: str) -> bytes:
    """An ELF program of x86-64 that writes a text to its output and sleeps for good (elf(5))."""
    said = text.encode()
    code = bytes.fromhex(
        "b801000000"  # mov eax, 1: write(2)
        "bf01000000"  # mov edi, 1
        "488d3510000000"  # lea rsi, [rip + 16]: the text, behind the code
    )
    code += b"\xba" + struct.pack("<I", len(said))  # mov edx, length
    code += bytes.fromhex("0f05")  # syscall
    code += bytes.fromhex("b8220000000f05ebf7")  # mov eax, 34: pause(2); syscall; again
    base, head_bytes, segment_bytes = 0x400000, 64, 56
    entry = base + head_bytes + segment_bytes
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        *(2, 62, 1, entry, head_bytes, 0, 0, head_bytes, segment_bytes, 1, 0, 0, 0),
    )
    size = head_bytes + segment_bytes + len(code) + len(said)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    return head + segment + code + said


def initramfs(program: bytes) -> bytes:
    """An archive with a console and /init (the kernel's driver-api/early-userspace)."""
    console = _member("dev/console", 0o020600, device=(5, 1))
    return (
        _member("dev", 0o040755)
        + console
        + _member("init", 0o100755, program)
        + _member("TRAILER!!!", 0)
    )


def _member(name: str, mode: int, content: bytes = b"", device: Sequence[int] = (0, 0)) -> bytes:
    """One member in the format newc, cpio(5)."""
    path = name.encode() + b"\0"
    numbers = (0, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % number for number in numbers)
    return _padded(head + path) + _padded(content)


def _padded(text: bytes) -> bytes:
    return text + b"\0" * (-len(text) % 4)
