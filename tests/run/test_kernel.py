"""Which file is a kernel, which release it is, and where its modules are."""

import struct
from pathlib import Path

import pytest

from memlab.errors import BadRequest, CannotRun
from memlab.run import kernel

AT = 0x3000  # where these images have their version's text


def image(path: Path, release: str) -> Path:
    """As much of a bzImage as says what it is (Documentation/arch/x86/boot.rst)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = bytearray(0x4000)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, AT - 0x200)
    text = f"{release} (builder@host) #1 SMP".encode()
    head[AT : AT + len(text)] = text
    path.write_bytes(bytes(head))
    return path


def with_modules(root: Path, release: str, *, listed: bool = True) -> Path:
    folder = root / "lib/modules" / release
    folder.mkdir(parents=True)
    if listed:
        (folder / "modules.dep").touch()
    return folder


def test_release_is_read_from_the_image(tmp_path: Path) -> None:
    path = image(tmp_path / "vmlinuz", "6.1.0-56-amd64")
    assert kernel.find(str(path)) == kernel.Kernel(path, "6.1.0-56-amd64")


@pytest.mark.parametrize(("size", "page_bytes"), [(1, 4096), (2, 16384), (3, 65536)])
def test_an_image_of_arm64_says_its_pages(tmp_path: Path, size: int, page_bytes: int) -> None:
    """Documentation/arch/arm64/booting.rst. The compiler's version is not the kernel's."""
    head = bytearray(0x2000)
    head[0x38:0x3C] = b"ARMd"
    struct.pack_into("<Q", head, 0x18, size << 1 | 8)
    said = b"6.12.1+deb13-arm64 (x@y) (gcc (Debian 14.2)) #1 SMP Debian 6.12.117-1 (2026-11-12)"
    head[0x1000 : 0x1000 + len(said) + 14] = b"Linux version " + said
    path = tmp_path / "vmlinuz"
    path.write_bytes(bytes(head))
    found = kernel.read(path)
    assert (found.machine, found.page_bytes) == ("aarch64", page_bytes)
    assert found.release == "6.12.1+deb13-arm64"
    assert found.released == "2026-11-12"
    suffix = "" if page_bytes == 4096 else f"-{page_bytes // 1024}k"
    assert found.version == f"6.12.117{suffix}"


def test_newest_installed_by_number_and_only_with_modules(tmp_path: Path) -> None:
    for release in ("6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.1-amd64"):
        image(tmp_path / f"boot/vmlinuz-{release}", release)
    for release in ("6.1.0-9-amd64", "6.1.0-56-amd64"):
        with_modules(tmp_path, release)
    (tmp_path / "boot/vmlinuz-broken").write_text("not a kernel")
    found = kernel.installed(tmp_path)
    assert found is not None
    assert found.release == "6.1.0-56-amd64"


def test_none_installed(tmp_path: Path) -> None:
    assert kernel.installed(tmp_path) is None


def test_wrong_paths_are_one_line_each(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello")
    for named, said in (
        (tmp_path / "nothing", "no kernel at"),
        (tmp_path, "is a directory"),
        (text, "not a bootable kernel: a vmlinuz or a bzImage of x86, or an Image of arm64"),
    ):
        with pytest.raises(BadRequest, match=said):
            kernel.find(str(named))


def test_modules_beside_an_unpacked_image(tmp_path: Path) -> None:
    found = kernel.read(image(tmp_path / "boot/vmlinuz-7.0", "7.0-made-up"))
    assert kernel.modules(found) is None
    folder = with_modules(tmp_path, "7.0-made-up", listed=False)
    assert kernel.modules(found) == folder
    with pytest.raises(CannotRun, match=f"depmod -b {tmp_path} 7.0-made-up"):
        kernel.check_modules(found)
    (folder / "modules.dep").touch()
    kernel.check_modules(found)
