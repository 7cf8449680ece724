"""The heartbeat: the sixteen bytes run where anything runs, and nothing else is taken for them."""

import os
import shutil
from pathlib import Path

import pytest

from memlab.observe import kvm

QEMU = shutil.which("qemu-system-x86_64")


def asked(tmp_path: Path, *more: str) -> list[str]:
    rom = tmp_path / "rom"
    rom.write_bytes(kvm.rom_image())
    return [str(QEMU), "-accel", "tcg", *kvm.machine(rom), *more]


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits here wants to know whether it answers, on a busy machine too."""
    monkeypatch.setattr(kvm, "LIMIT_S", 120.0)


@pytest.mark.usefixtures("_patient")
@pytest.mark.needs("qemu")
def test_the_program_says_its_byte(tmp_path: Path) -> None:
    assert kvm.exits(asked(tmp_path))


@pytest.mark.usefixtures("_patient")
@pytest.mark.needs("qemu")
def test_the_program_needs_no_file_that_has_a_name() -> None:
    rom = os.memfd_create("rom")
    os.write(rom, kvm.rom_image())
    machine = kvm.machine(Path(f"/proc/self/fd/{rom}"))
    assert kvm.exits([str(QEMU), "-accel", "tcg", *machine], rom)
    os.close(rom)


@pytest.mark.needs("qemu")
def test_a_machine_that_executes_nothing_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before its first instruction, as one under a KVM that runs nothing."""
    monkeypatch.setattr(kvm, "LIMIT_S", 0.5)
    assert not kvm.exits(asked(tmp_path, "-S"))


@pytest.mark.needs("qemu")
def test_a_qemu_that_dies_is_dead(tmp_path: Path) -> None:
    assert not kvm.exits(asked(tmp_path, "-device", "no-such-device"))


def test_no_qemu_is_dead() -> None:
    assert not kvm.exits(["/no/such/qemu"])
    assert not kvm.beats("/no/such/qemu")


@pytest.mark.parametrize(
    ("modules", "found"), [(["kvm", "kvm_amd"], "kvm"), (["kvm", "kvm_pvm"], "tcg"), ([], "tcg")]
)
def test_kvm_without_the_processors_virtualisation_boots_no_kernel(
    modules: list[str], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the heartbeat answers."""
    monkeypatch.setattr(kvm, "beats", lambda _: True)
    monkeypatch.setattr(kvm.guest_tools, "find", lambda _: "/usr/bin/qemu")
    for name in modules:
        (tmp_path / "sys/module" / name).mkdir(parents=True)
    assert kvm.accelerator(tmp_path) == found
