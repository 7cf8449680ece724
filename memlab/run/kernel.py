"""The kernel that a guest boots, by one of its names: a version (6.1, 6.12.107), a release, the
path of its image, or `installed`, the newest at hand."""

from __future__ import annotations

import errno
import re
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from memlab.errors import BadRequest, CannotRun
from memlab.files import folders
from memlab.observe import files, proc
from memlab.text.printable import printable
from memlab.text.units import version_order

INSTALLED = "installed"
TO_INSTALL = "apt install linux-image-amd64, or memlab kernels fetch 6.1 7.3"
_IMAGES = ("boot/vmlinuz-*", "lib/modules/*/vmlinuz", "usr/lib/modules/*/vmlinuz")

# Documentation/arch/x86/boot.rst: the header's magic, and where the version's text lies.
_MAGIC, _MAGIC_AT = b"HdrS", 0x202
_VERSION_AT = 0x20E
# Documentation/arch/arm64/booting.rst: the header's magic, and its flags with the size of a page.
_ARM64_MAGIC, _ARM64_AT, _ARM64_FLAGS_AT = b"ARM\x64", 0x38, 0x18
_ARM64_PAGE_BYTES = {1: 4096, 2: 16384, 3: 65536}
_ARM64_BANNER = b"Linux version "
_BANNER_BYTES = 500
X86_64, AARCH64 = "x86_64", "aarch64"  # as uname says them


@dataclass(frozen=True, slots=True)
class Kernel:
    """`banner` is all that the image says of itself: who built it, of which version, and when."""

    path: Path
    release: str
    banner: str = field(default="", compare=False)
    machine: str = X86_64
    page_bytes: int = 4096

    @property
    def version(self) -> str:
        """`6.1.192`, where a distribution's release is 6.1.0-56-amd64; `6.12.117-16k` where its
        pages have another size than 4 KiB."""
        result = re.search(r"SMP .{0,200}Debian (\d+(?:\.\d+)+)", self.banner) or re.match(
            r"(\d+(?:\.\d+)+)", self.release
        )
        version = result[1] if result else self.release
        return version if self.page_bytes == 4096 else f"{version}-{self.page_bytes // 1024}k"

    @property
    def released(self) -> str | None:
        """The day, `2026-08-29`; None where the banner has none."""
        if dated := re.search(r"\((\d{4}-\d\d-\d\d)\)", self.banner):
            return dated[1]
        built = re.search(r"([A-Z][a-z]{2}) +(\d+) [\d:]+ \w+ (\d{4})\s*$", self.banner)
        if built is None or built[1] not in _MONTHS:
            return None
        return f"{built[3]}-{_MONTHS.index(built[1]) + 1:02d}-{int(built[2]):02d}"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def find(named: str) -> Kernel:
    """The kernel of a name. BadRequest for a wrong name, CannotRun if no kernel is at hand."""
    if named == INSTALLED:
        newest = default()
        if newest is None:
            raise CannotRun(f"no kernel with its modules is at hand: {TO_INSTALL}")
        return newest
    if "/" not in named:
        if fitting := [item for item in _at_hand() if item.machine == X86_64 and fits(item, named)]:
            return fitting[-1]
        if not Path(named).exists():
            raise none_at_hand(named)
    return read(Path(named).absolute())


def fits(kernel: Kernel, word: str) -> bool:
    """Whether a word names it: as its version, the beginning of that, or its release."""
    return word in (kernel.version, kernel.release) or kernel.version.startswith(f"{word}.")


def none_at_hand(word: str) -> BadRequest:
    return BadRequest(f"no kernel {word!r} is at hand; `memlab kernels list` lists those that are")


def folder() -> Path:
    """Where `memlab kernels fetch` unpacks them."""
    return folders.user("cache") / "kernels"


def images(place: Path | None = None, root: Path = proc.ROOT) -> list[Path]:
    """Every image below a folder, else in /boot, the module folders and memlab's own folder."""
    paths: dict[Path, Path] = {}
    for base in [root, folder()] if place is None else [place]:
        below = ("", "*/") if base != root else ("",)
        patterns = [*_IMAGES, "vmlinuz*", "bzImage*"] if base != root else _IMAGES
        for path in (p for b in below for pattern in patterns for p in base.glob(b + pattern)):
            paths.setdefault(path.resolve(), path)
    return list(paths.values())


def _at_hand(root: Path = proc.ROOT) -> list[Kernel]:
    """The kernels that may be read and whose modules may be loaded, the oldest version first."""
    kernels = []
    for path in images(root=root):
        with suppress(BadRequest, CannotRun):
            kernel = read(path)
            check_modules(kernel)
            kernels.append(kernel)
    return sorted(kernels, key=lambda kernel: version_order(kernel.version))


def default(root: Path = proc.ROOT) -> Kernel | None:
    """The newest installed kernel; without one, the newest that was unpacked with its modules."""
    unpacked = (item for item in reversed(_at_hand(root)) if item.machine == X86_64)
    return installed(root) or next((item for item in unpacked if modules(item)), None)


def installed(root: Path = proc.ROOT) -> Kernel | None:
    """The newest kernel in /boot that may be read and whose modules are there."""
    kernels = []
    for path in (root / "boot").glob("vmlinuz-*"):
        try:
            kernel = read(path)
        except (BadRequest, CannotRun):
            continue
        dependencies = root / "lib/modules" / kernel.release / "modules.dep"
        if kernel.machine == X86_64 and dependencies.exists():
            kernels.append(kernel)
    return max(kernels, key=lambda kernel: version_order(kernel.release), default=None)


def read(path: Path, named_by: str = "kernel=") -> Kernel:
    """An image that x86 or arm64 boots, and the release that it says it is. `named_by` is what took
    the path, for the message."""
    no_kernel = BadRequest(
        f"{path} is not a bootable kernel: a vmlinuz or a bzImage of x86, or an Image of arm64"
    )
    try:
        with files.opened(path) as file:
            head = file.read(0x10000)
            file.seek(0)
            arm64 = _arm64_banner(file) if head[_ARM64_AT:][:4] == _ARM64_MAGIC else None
    except FileNotFoundError:
        raise BadRequest(f"no kernel at {path}; {named_by} takes a vmlinuz") from None
    except IsADirectoryError:
        raise BadRequest(f"{path} is a directory; {named_by} takes the vmlinuz inside") from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # a FIFO or a device
            raise no_kernel from None
        raise CannotRun(f"cannot read the kernel {path}: {error.strerror}; run as root") from None
    if arm64 is not None:
        (flags,) = struct.unpack_from("<Q", head, _ARM64_FLAGS_AT)
        page_bytes = _ARM64_PAGE_BYTES.get(flags >> 1 & 3, 4096)
        return Kernel(path, *_named(arm64), AARCH64, page_bytes)
    if head[_MAGIC_AT : _MAGIC_AT + 4] != _MAGIC:
        raise no_kernel
    (offset,) = struct.unpack_from("<H", head, _VERSION_AT)
    return Kernel(path, *_named(head[0x200 + offset :].partition(b"\0")[0]))


def _named(banner: bytes) -> tuple[str, str]:
    """The release and the whole banner."""
    text = banner.decode(errors="replace")
    return (text.split() or ["unknown"])[0], printable(text)


def _arm64_banner(file: BinaryIO) -> bytes:
    """What follows the words of linux_banner, which lies anywhere in an Image."""
    line = b""
    for piece in files.pieces(file, len(_ARM64_BANNER) + _BANNER_BYTES):
        if (at := piece.find(_ARM64_BANNER)) >= 0:
            line = piece[at + len(_ARM64_BANNER) :][:_BANNER_BYTES]
        if len(line) == _BANNER_BYTES:
            break  # a shorter one is whole in the next piece
    return re.split(rb"[\0\n]", line, maxsplit=1)[0]


def modules(kernel: Kernel) -> Path | None:
    """Where the kernel's modules are: beside its image (as in an unpacked package), else where
    an installed kernel has them."""
    for root in (*kernel.path.parents, Path("/")):
        folder = root / "lib/modules" / kernel.release
        if folder.is_dir():
            return folder
    return None


def config(kernel: Kernel) -> dict[str, str]:
    """The options of its config, without CONFIG_: `y`, `m` or `n`. Empty where it has none."""
    folder = modules(kernel)
    places = [kernel.path.with_name(f"config-{kernel.release}"), kernel.path.with_name("config")]
    places += [folder / "config"] if folder else []
    for place in places:
        with suppress(OSError):
            text = place.read_text(errors="replace")
            result = re.findall(r"^(?:# )?CONFIG_(\w+)(?:=([ym])| is not set)$", text, re.MULTILINE)
            return {name: value or "n" for name, value in result}
    return {}


def check_modules(kernel: Kernel) -> None:
    """CannotRun where there are modules and nothing says which needs which."""
    folder = modules(kernel)
    if folder is not None and not (folder / "modules.dep").exists():
        base = folder.parents[2]
        raise CannotRun(
            f"{folder} has no modules.dep; make it as root: depmod -b {base} {kernel.release}"
        )
