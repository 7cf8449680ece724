"""Does /dev/kvm run anything? A machine of sixteen bytes is asked.

That the device opens proves little: in a virtual machine whose own host does not pass
virtualisation on, QEMU dies at its first register, or the guest never executes an instruction. And
a /dev/kvm without the processor's virtualisation (kvm-pvm) runs those sixteen bytes and no kernel
of a distribution, whose instructions it does not all emulate.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from memlab.observe import guest_tools, proc

_HARDWARE = ("kvm_intel", "kvm_amd")  # modules, or built in
LIMIT_S = 3.0  # it answers in a tenth of a second, or never

_ROM_BYTES = 1 << 16
_CODE = 0x2A  # what the guest says; QEMU exits with twice that and one (isa-debug-exit)
# At the reset vector, sixteen bytes below the end: mov dx, 0xf4; mov al, _CODE; out dx, al; hlt
_PROGRAM = bytes([0xBA, 0xF4, 0x00, 0xB0, _CODE, 0xEE, 0xF4])


def accelerator(root: Path = proc.ROOT) -> str:
    """What QEMU runs a guest with here: kvm, or tcg, which emulates."""
    qemu = guest_tools.find(guest_tools.QEMU)
    by_hardware = any((root / "sys/module" / name).exists() for name in _HARDWARE)
    return "kvm" if qemu and by_hardware and beats(qemu) else "tcg"


def beats(qemu: str) -> bool:
    """Whether a guest runs under KVM here."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    rom = os.memfd_create("memlab-heartbeat")  # a file that nobody else can put another for
    try:
        os.write(rom, rom_image())
        return exits([qemu, "-accel", "kvm", *machine(Path(f"/proc/self/fd/{rom}"))], rom)
    finally:
        os.close(rom)


def rom_image() -> bytes:
    """A firmware that says one byte from the first instruction on."""
    return b"\xf4" * (_ROM_BYTES - 16) + _PROGRAM.ljust(16, b"\xf4")


def machine(rom: Path) -> list[str]:
    return [
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-cpu", "max", "-m", "16", "-bios", str(rom)),
        *("-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
    ]


def exits(command: list[str], *files: int) -> bool:
    """Whether QEMU ends as the guest asks; `files` are descriptors that it inherits."""
    try:
        ended = subprocess.run(
            command, capture_output=True, timeout=LIMIT_S, check=False, pass_fds=files
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 2 * _CODE + 1
