"""A device of the guest's own that its VFIO holds, behind the IOMMU that QEMU emulates.

QEMU's `edu` is a PCI device that no driver wants (QEMU's docs/specs/edu), so that handing it to
vfio-pci takes it from nobody. On the host memlab never does such a thing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from memlab.observe import proc

# QEMU emulates this IOMMU only on its machine q35.
QEMU_OPTIONS = ("-machine", "q35", "-device", "intel-iommu", "-device", "edu")
KERNEL_OPTION = "intel_iommu=on"
# In this order, each with its options. Where interrupts are not remapped, as under KVM's own
# controller, VFIO wants to be told that the device is trusted: it is QEMU's.
MODULES = {"vfio_iommu_type1": ("allow_unsafe_interrupts=1",), "vfio-pci": ()}
EDU = ("0x1234", "0x11e8")  # vendor and device, as sysfs has them


def hand_over(root: Path = proc.ROOT) -> list[str]:
    """Bind every such device to vfio-pci; their addresses."""
    bound = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*:*")):
        with suppress(OSError):
            if tuple((device / name).read_text().strip() for name in ("vendor", "device")) == EDU:
                (device / "driver_override").write_text("vfio-pci")
                (root / "sys/bus/pci/drivers_probe").write_text(device.name)
                bound.append(device.name)
    return bound
