"""A guest of another architecture: what it lacks is a line, and one that boots counts in its own
pages."""

from __future__ import annotations

import os
from pathlib import Path

import needs
import pytest

from memlab.errors import BadRequest
from memlab.experiment import Level
from memlab.machines.guest import foreign, kernels
from memlab.machines.guest.host import GuestTarget
from memlab.machines.guest.machine import GuestSpec, command
from memlab.observe import guest_tools
from memlab.request import Request
from memlab.run import fork_server, kernel
from memlab.run.watch import Silent
from memlab.store import Store
from memlab.text.units import MiB

# Read before the tests' own home takes the environment over.


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As packaging/arm64.sh makes it, with this host's probe sources."""
    monkeypatch.setattr(foreign, "root", lambda: tmp_path)
    for name in (foreign.PYTHON, foreign.BUSYBOX, "/memlab/memlab/_built.py"):
        path = tmp_path / name[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    ours = Path(fork_server.where()[1]) / "probe_sources"
    for source in ours.rglob("*.[ch]"):
        path = tmp_path / "memlab/memlab/probe_sources" / source.relative_to(ours)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes())
    return tmp_path


def test_what_the_folder_lacks_is_named_with_its_remedy(root: Path) -> None:
    assert foreign.lacks("aarch64") == foreign.lacks("x86_64") == ""
    (root / "memlab/memlab/probe_sources/noop.c").write_text("int other;")
    assert "compiled from other sources" in foreign.lacks("aarch64")
    (root / foreign.PYTHON[1:]).unlink()
    why = foreign.lacks("aarch64")
    assert f"has no {foreign.PYTHON[1:]}" in why
    assert "packaging/arm64.sh" in why
    assert foreign.lacks("x86_64") == ""


def test_files_stand_for_those_that_this_python_imports(root: Path) -> None:
    """A module without its counterpart is one that the other Python has built in."""
    for name in ("json/decoder.py", "lib-dynload/_bz2.cpython-311-aarch64-linux-gnu.so"):
        path = root / f"usr/lib/python{foreign.PYTHON[15:]}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    stdlib = Path(os.__file__).parent
    imported = [f"{stdlib}/json/decoder.py", f"{stdlib}/lib-dynload/_bz2.x86_64.so"]
    imported += [f"{stdlib}/lib-dynload/math.x86_64.so", f"{stdlib}/site-packages/any.py"]
    found = {Path(name).name for name in foreign.files(imported)}
    assert {"decoder.py", "_bz2.cpython-311-aarch64-linux-gnu.so", "_built.py"} <= found
    assert not {name for name in found if name.startswith(("math", "any"))}


def test_the_machine_is_the_kernels(tmp_path: Path) -> None:
    boots = tmp_path / "Image", tmp_path / "initramfs"
    words = command(GuestSpec(cpus=1), boots, "tcg", tmp_path, tmp_path / "disk", kernel.AARCH64)
    assert Path(words[0]).name == guest_tools.QEMU_ARM64
    assert words[words.index("-machine") + 1].startswith("virt")
    assert "console=ttyAMA0" in words[words.index("-append") + 1]


def test_a_kernel_of_another_machine_is_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        kernels.Found(tmp_path / name, kernel.Kernel(tmp_path / name, name, "", machine))
        for name, machine in (("6.1.1", "x86_64"), ("6.1.2", "aarch64"))
    ]
    monkeypatch.setattr(kernels, "at_hand", lambda *_: found)
    monkeypatch.setattr(kernels, "look", lambda path: found[1])
    assert kernels.choose([]) == kernels.choose(["6.1"]) == found[:1]
    assert kernels.choose(["6.1"], "aarch64") == found[1:]
    with pytest.raises(BadRequest, match="is a kernel of aarch64, not of x86_64"):
        kernels.choose([f"{tmp_path}/6.1.2"])


@pytest.mark.slow
@pytest.mark.needs("arm64 guest")
def test_a_guest_of_arm64_counts_in_its_own_pages(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Emulated, from the folder alone: locks of single pages, of the whole process and of another
    thread, and the faults of locked memory by a formula of its page size."""
    image_path, root = needs.GUEST_KERNEL_ARM64, needs.GUEST_ARM64
    assert image_path
    assert root
    monkeypatch.setattr(foreign, "root", lambda: Path(root))
    image = kernel.read(Path(image_path))
    checks: list[Level] = ["mlock", "current_present", "thread"]
    asked = [
        Request("vma-lock", levels={"check": checks}, controls=False, blocks=1),
        Request(
            "page-fault",
            levels={"lock": ["future"], "touched": ["none"], "chunk": [1_024_000], "chunks": [23]},
            controls=False,
            blocks=1,
        ),
    ]
    found = []
    with (
        GuestTarget(GuestSpec(kernel=image_path, memory_bytes=512 * MiB)) as guest,
        Store(store_path, create=True) as store,
    ):
        for request in asked:
            row = guest.sweep(request, store, Silent())
            assert row.environment["page_size_bytes"] == image.page_bytes
            found += list(store.samples(row.id))
    assert [sample.outcome for sample in found] == ["ok"] * 4
    raw = [sample.raw or {} for sample in found]
    locked = [one["after"]["locked_vma_count"] for one in raw[:3]]
    assert [count > 0 for count in locked] == [True] * 3
    chunk = -(-1_024_024 // image.page_bytes)
    assert raw[3]["page_bytes"] == image.page_bytes
    assert raw[3]["window"]["minor_fault_count"] == pytest.approx(23 * chunk, rel=0.001)
