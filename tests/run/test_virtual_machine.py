"""QEMU's command line for a trial, what boots in it, and that nothing of it outlives memlab."""

import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import processes

from memlab import experiments
from memlab.experiment import FOUND, VirtualMachine
from memlab.observe import guest_tools, kvm
from memlab.run import journal, plan, virtual_machine
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus
from memlab.run.journal import Journal
from memlab.run.kernel import Kernel
from memlab.run.settings import Unavailable
from memlab.run.virtual_machine import BOOTED, VirtualMachines, command, init, initramfs
from memlab.text.units import MiB

EXPERIMENT = experiments.load("guest-memory")
ADDRESS = "0000:00:05.0"
IMAGE = Kernel(Path("/boot/vmlinuz-7.0"), "7.0-made-up")


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualMachines]:
    """Those of a run on a host with QEMU."""
    monkeypatch.setattr(guest_tools, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(kvm, "accelerator", lambda: "tcg")
    opened = Journal("0123abcd")
    yield VirtualMachines(opened, tmp_path)
    opened.close()
    assert list(tmp_path.glob("memlab-*")) == []


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with an IOMMU and vfio-pci."""
    (tmp_path / "root/sys/kernel/iommu_groups/7").mkdir(parents=True)
    (tmp_path / "root/sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    return tmp_path / "root"


def words(wanted: VirtualMachine, accelerator: str = "kvm", device: str | None = None) -> list[str]:
    return list(command(wanted, accelerator, None, None, device))


def after(word: str, among: list[str]) -> list[str]:
    return [among[i + 1] for i, each in enumerate(among) if each == word]


@pytest.mark.parametrize(("lock", "word"), [(True, "mem-lock=on"), (False, "mem-lock=off")])
def test_memory_and_lock(lock: bool, word: str) -> None:
    made = words(VirtualMachine(23 * MiB, mem_lock=lock))
    assert after("-m", made) == ["23M"]
    assert after("-overcommit", made) == [word]


@pytest.mark.parametrize(
    ("nic", "device", "devices"),
    [
        ("none", None, []),
        ("virtio", None, ["virtio-net-pci,netdev=net,romfile="]),
        ("passed_through", ADDRESS, [f"vfio-pci,host={ADDRESS},rombar=0"]),
    ],
)
def test_network_devices(nic: str, device: str | None, devices: list[str]) -> None:
    made = words(VirtualMachine(MiB, nic=nic), device=device)
    assert [word for word in after("-device", made) if "debugcon" not in word] == devices


def test_an_emulators_translations_are_few() -> None:
    assert after("-accel", words(VirtualMachine(MiB), "tcg")) == ["tcg,tb-size=64"]
    assert after("-accel", words(VirtualMachine(MiB), "kvm")) == ["kvm"]


def test_a_kernel_boots_with_the_runs_initramfs(machines: VirtualMachines, tmp_path: Path) -> None:
    image = tmp_path / "vmlinuz"
    made = list(command(VirtualMachine(MiB), "kvm", IMAGE, image, None))
    assert after("-kernel", made) == [str(IMAGE.path)]
    assert after("-initrd", made) == [str(image)]
    first, again = machines._the_initramfs(), machines._the_initramfs()
    assert first == again
    assert first.read_bytes() == initramfs(init().read_bytes())
    assert first.parent.name.startswith("memlab-0123abcd")


def test_a_device_that_vfio_has_is_passed_through(machines: VirtualMachines, host: Path) -> None:
    (host / "sys/bus/pci/drivers/vfio-pci" / ADDRESS).mkdir()
    started = machines.start(VirtualMachine(MiB, nic="passed_through"), host)
    assert f"vfio-pci,host={ADDRESS},rombar=0" in started.params["command"].split("\n")
    assert started.seen == {"accelerator": "tcg", "kernel": None, "device": ADDRESS}


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ("sys/bus/pci/drivers/vfio-pci", "/sys/kernel/iommu_groups is empty"),
        ("sys/kernel/iommu_groups/7", "needs one that vfio-pci has, and it has none"),
    ],
)
def test_without_a_device_to_pass_through(
    machines: VirtualMachines, tmp_path: Path, left: str, said: str
) -> None:
    (tmp_path / "root" / left).mkdir(parents=True)
    with pytest.raises(Unavailable, match=said):
        machines.start(VirtualMachine(MiB, nic="passed_through"), tmp_path / "root")


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (FOUND, "none is at hand with its modules: apt install linux-image-amd64"),
        ("/no/such/vmlinuz", "no kernel at /no/such/vmlinuz; -p kernel takes a vmlinuz"),
        ("/dev/null", "is not a bootable kernel"),
    ],
)
def test_without_a_kernel(machines: VirtualMachines, host: Path, kernel: str, said: str) -> None:
    with pytest.raises(Unavailable, match=said):
        machines.start(VirtualMachine(MiB, kernel=kernel), host)


def test_without_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_tools, "find", lambda _: None)
    opened = Journal("0123abcd")
    with pytest.raises(Unavailable, match="needs QEMU, and it is not here: apt install qemu"):
        VirtualMachines(opened, tmp_path).start(VirtualMachine(MiB))
    opened.close()


def test_without_an_init(
    machines: VirtualMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_machine, "init", lambda: tmp_path / "guest_init")
    with pytest.raises(
        Unavailable, match="needs the init of a guest, which is built only on x86-64"
    ):
        machines._the_initramfs()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="guests are of x86-64")
def test_init_says_its_line_and_sleeps() -> None:
    with subprocess.Popen([init()], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == BOOTED + "\n"
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert process.poll() is None
        process.kill()
    assert state in "SR"  # asleep, or on its way there


def test_the_archive_has_a_console_and_init() -> None:
    archive = initramfs(b"program")
    if busybox := guest_tools.find("busybox"):
        listed = subprocess.run([busybox, "cpio", "-t"], input=archive, capture_output=True)
        assert listed.stdout.split() == [b"dev", b"dev/console", b"init"]
    assert archive.count(b"070701") == 4
    assert len(archive) % 4 == 0


@pytest.mark.needs("qemu")
def test_a_trial_says_what_it_ran_with(tmp_path: Path) -> None:
    point = plan.build(EXPERIMENT, "quick", EXPERIMENT.tiny, controls=False).points[0]
    with LocalExecutor(
        "0123abcd", EXPERIMENT, Directories(tmp_path), default_cpus(EXPERIMENT)
    ) as executor:
        reply = executor.trial(point)
    assert reply["outcome"] == "ok", reply
    result = reply["result"]
    machine = {"accelerator": kvm.accelerator(), "kernel": None, "device": None}
    assert reply["context"]["machine"] == machine
    assert result["guest_bytes"] == point.at["memory"]
    assert EXPERIMENT.metric("rss_share").of(result, point.at) < 1.0


@pytest.mark.seconds
@pytest.mark.needs("qemu")
def test_kill_9_of_memlab_leaves_no_qemu(store_path: Path, tmp_path: Path) -> None:
    asked = ["guest-memory", "-p", "memory=64m", "-p", "boots=firmware", "-p", "settle=60s"]
    asked += ["-p", "nic=virtio", "-p", "mem_lock=no", "--no-controls", "--blocks", "1"]
    command = [sys.executable, "-m", "memlab", "sweep", *asked, "--dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as memlab:
        deadline = time.monotonic() + 300
        while not processes("mem-lock=off"):
            assert memlab.poll() is None, memlab.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        memlab.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 300
    while found := [*processes(), *journal.folder().glob("*")]:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
