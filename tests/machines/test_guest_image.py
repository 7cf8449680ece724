"""What a guest boots: its files and links at their own paths, modules in an order that loads."""

import lzma
import os
import stat
import struct
import sys
from pathlib import Path

import pytest

from memlab.machines.guest import image
from memlab.observe import guest_tools
from memlab.observe.libc import Libc
from memlab.run.initramfs import ArchiveMember
from memlab.run.kernel import Kernel, read

PAYLOAD_AT = 1024  # after one sector of setup and the boot sector


def bzimage(payload: bytes) -> bytes:
    head = bytearray(PAYLOAD_AT)
    head[0x1F1] = 1
    struct.pack_into("<II", head, 0x248, 0, len(payload))
    return bytes(head) + payload


VMLINUX = b"\x7fELF" + bytes(100) + struct.pack("<III", 4, 8, 18) + b"Xen\0" + bytes(8)


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (lzma.compress(VMLINUX) + b"its length", VMLINUX),
        (lzma.compress(VMLINUX[:60]), None),  # no entry that QEMU could start at
        (lzma.compress(VMLINUX)[:-20], None),
        (b"\xfd7zXZ\0 and no more of it", None),
        (b"", None),
    ],
    ids=["whole", "no PVH note", "cut", "damaged", "empty"],
)
def test_a_kernel_is_unpacked_or_boots_as_it_is(payload: bytes, found: bytes | None) -> None:
    assert image.uncompressed(bzimage(payload)) == found


def test_files_keep_their_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/lib.so.1.2").write_bytes(b"content")
    (tmp_path / "real/lib.so.1").symlink_to("lib.so.1.2")
    (tmp_path / "lib").symlink_to(tmp_path / "real")
    tree: dict[str, ArchiveMember] = {}
    image._add(tmp_path / "lib/lib.so.1", tree)
    at = f".memlab/lower{tmp_path}"
    kinds = {name: stat.S_IFMT(member.mode) for name, member in tree.items()}
    assert kinds[f"{at}/lib"] == kinds[f"{at}/real/lib.so.1"] == stat.S_IFLNK
    assert tree[f"{at}/real/lib.so.1.2"].content == b"content"
    names = list(tree)
    assert all(
        parent in names[:place]
        for place, name in enumerate(names)
        if (parent := os.path.dirname(name)).startswith(".memlab/lower/")  # noqa: PTH120
    )


def test_what_the_guest_imports_is_there(tmp_path: Path) -> None:
    """Python itself, its libraries, memlab's worker and probes, a declaration and its bytecode."""
    tree = {member.name for member in image._lower([])}
    root = Path(image.__file__).parents[3]
    python = Path(os.path.realpath(sys.executable))
    for path in (python, root / "memlab/run/worker.py", root / "memlab/experiments/vma_lock.py"):
        assert f".memlab/lower{path}" in tree
    for part in ("libc.so.6", "ld-linux", "_probes", "_cffi_backend", "vma_lock.cpython"):
        assert any(part in name for name in tree), part
    assert not any("numpy" in name or "scipy" in name for name in tree)


def test_a_module_comes_after_those_that_it_needs(guest_kernel: str) -> None:
    names = [
        path.name.partition(".")[0] for path, _ in image._modules(read(Path(guest_kernel)), {})
    ]
    assert names.index("virtio_ring") < names.index("virtio_pci") < names.index("virtio_console")
    assert names.index("9pnet") < names.index("9p")


def test_a_libc_of_trials_is_there_at_its_own_path(tmp_path: Path) -> None:
    folder = tmp_path / "libc/usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    for name in ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "gconv.conf"):
        (folder / name).write_text(name)
    tree = {m.name for m in image._lower([Libc(folder / "ld-linux-x86-64.so.2", "2.41")])}
    own = {name.rpartition("/")[2] for name in tree if str(folder) in name}
    assert own == {folder.name, "ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6"}


@pytest.mark.parametrize(
    ("config", "kept"),
    [("", False), ("CONFIG_MODULE_SIG_FORCE=y\n", True)],
    ids=["any module loads", "signed ones alone"],
)
def test_signatures_are_left_out_where_the_kernel_takes_a_module_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, kept: bool
) -> None:
    signature = bytes(23)
    ends = struct.pack(">8xI", len(signature)) + b"~Module signature appended~\n"
    (tmp_path / "ext4.ko").write_bytes(b"\x7fELF code" + signature + ends)
    (tmp_path / "zram.ko").write_bytes(b"\x7fELF without one")
    (tmp_path / "config").write_text(config)
    files = [(tmp_path / name, "") for name in ("ext4.ko", "zram.ko")]
    monkeypatch.setattr(image, "_modules", lambda *_: files)
    monkeypatch.setattr(guest_tools, "find", lambda _: "/bin/sh")  # busybox is one that may lack
    members = image._place(Kernel(tmp_path / "vmlinuz", "6.1.0-made-up"), {})
    content = {m.name.rpartition("-")[2]: m.content for m in members if m.name.endswith(".ko")}
    assert content["zram.ko"] == b"\x7fELF without one"
    assert content["ext4.ko"] == b"\x7fELF code" + (signature + ends if kept else b"")


def test_a_kernel_without_virtio_is_refused(tmp_path: Path) -> None:
    """By the lists beside its modules; without modules by the names in the image."""
    bare = Kernel(tmp_path / "boot/vmlinuz-7.0", "7.0")
    assert "virtio is not built in" in image.lacks(bare, VMLINUX)
    assert image.lacks(bare, VMLINUX + b"virtio-ports virtio-pci") == ""
    folder = tmp_path / "lib/modules/7.0"
    folder.mkdir(parents=True)
    (folder / "modules.dep").write_text("kernel/drivers/virtio/virtio_pci.ko:\n")
    (folder / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
    assert image.lacks(bare, None) == "it has no virtio_console"
    (folder / "modules.builtin").write_text("kernel/drivers/char/virtio_console.ko\n")
    assert image.lacks(bare, None) == ""
