"""A guest with an IOMMU, where memory is mapped for a device for real; and what a trial boots.

Each test boots one machine, which takes from ten seconds to some minutes where it is emulated.
"""

from pathlib import Path

import pytest
from test_guest import sweep

from memlab import experiments
from memlab.experiment import Count
from memlab.machines.guest import device, machine
from memlab.machines.guest.host import GuestTarget
from memlab.machines.guest.machine import GuestSpec
from memlab.run import plan
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus
from memlab.run.journal import Journal
from memlab.run.kernel import read
from memlab.text.units import MiB


@pytest.mark.slow
def test_memory_mapped_for_a_device_is_resident_and_in_vm_lck(
    guest_kernel: str, store_path: Path
) -> None:
    """Every claim of the experiment, VFIO's among them, holds in every sample."""
    spec = GuestSpec(kernel=guest_kernel, memory_bytes=512 * MiB, cpus=1, iommu=True)
    with GuestTarget(spec) as guest:
        run = sweep(guest, store_path, "device-pinning", {})
    assert run.environment["guest"]["iommu"] is True
    at = {point.index: point.at for point in run.points}
    assert [sample.outcome for sample in run.samples] == ["ok"] * len(at), run.samples
    for claim in run.experiment.claims:
        assert isinstance(claim, Count)
        held = [s for s in run.samples if claim.where.items() <= at[s.point].items()]
        values = [
            run.experiment.metric(claim.metric).of(s.readings, at[s.point]) for s in held if s.raw
        ]
        assert values == [claim.equals], claim.text


@pytest.mark.slow
def test_a_trials_own_machine_boots_a_kernel(guest_kernel: str, tmp_path: Path) -> None:
    declared = experiments.load("guest-memory")
    levels = declared.tiny | {"boots": ["kernel"], "kernel": [guest_kernel], "memory": [256 * MiB]}
    point = plan.build(declared, "quick", levels, controls=False).points[0]
    place = tmp_path / "place"
    place.mkdir()
    with LocalExecutor("0123abcd", declared, Directories(place), default_cpus(declared)) as bench:
        reply = bench.trial(point)
    assert reply["outcome"] == "ok", reply
    result = reply["result"]
    assert reply["context"]["machine"]["kernel"] == read(Path(guest_kernel)).release
    assert result["guest_bytes"] == 256 * MiB
    assert result["booted_ns"] > result["answered_ns"] > 0
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("iommu", [False, True])
def test_an_iommu_is_asked_of_qemu_and_of_the_kernel(tmp_path: Path, iommu: bool) -> None:
    boots = (tmp_path / "vmlinux", tmp_path / "initramfs")
    made = machine.command(GuestSpec(iommu=iommu), boots, "tcg", tmp_path, tmp_path / "disk")
    assert ("intel-iommu" in made, "edu" in made) == (iommu, iommu)
    appended = made[made.index("-append") + 1].split()
    assert ("intel_iommu=on" in appended) == iommu


@pytest.mark.parametrize("accelerated", ["kvm", "tcg"])
def test_only_an_emulated_guest_boots_with_less(tmp_path: Path, accelerated: str) -> None:
    """Under KVM times are the machine's, and so must its kernel be."""
    boots = (tmp_path / "vmlinux", tmp_path / "initramfs")
    made = machine.command(GuestSpec(), boots, accelerated, tmp_path, tmp_path / "disk")
    appended = made[made.index("-append") + 1]
    emulated = accelerated == "tcg"
    assert ("mitigations=off" in appended, "initcall_blacklist=" in appended) == (emulated,) * 2
    assert ("erms=off" in made[made.index("-cpu") + 1]) == emulated


def test_a_guest_may_only_read_the_host_and_has_no_network(tmp_path: Path) -> None:
    """-nodefaults leaves out the network that QEMU gives otherwise."""
    opened = Journal("0123abcd")
    folder = opened.make_folder(tmp_path, "guest")
    boots = (tmp_path / "vmlinux", tmp_path / "initramfs")
    made = machine.command(GuestSpec(iommu=True), boots, "tcg", folder, tmp_path / "disk")
    shared = [made[i + 1].split(",") for i, word in enumerate(made) if word == "-fsdev"]
    assert [("path=/" in one, "readonly=on" in one) for one in shared] == [(True, True)]
    assert "-nodefaults" in made
    assert not [
        word for word in made if word in ("-nic", "-net", "-netdev") or "virtio-net" in word
    ]
    (port,) = [word for word in made if word.startswith("socket,")]
    assert f"path={folder / 'port'}" in port.split(",")
    assert folder.stat().st_mode & 0o777 == 0o700
    opened.close()


def test_only_qemus_own_device_is_handed_over(tmp_path: Path) -> None:
    """By a tree of sysfs: `edu`, and not the network device beside it."""
    devices, probed = tmp_path / "sys/bus/pci/devices", tmp_path / "sys/bus/pci/drivers_probe"
    for address, vendor, number in (("00:03.0", "0x1af4", "0x1000"), ("00:05.0", *device.EDU)):
        folder = devices / f"0000:{address}"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "device").write_text(f"{number}\n")
        (folder / "driver_override").write_text("(null)\n")
    assert device.hand_over(tmp_path) == ["0000:00:05.0"]
    assert (devices / "0000:00:05.0/driver_override").read_text() == "vfio-pci"
    assert (devices / "0000:00:03.0/driver_override").read_text() == "(null)\n"
    assert probed.read_text() == "0000:00:05.0"
