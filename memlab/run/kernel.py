"""The kernel that a guest boots: an image by its path, or the newest that is installed."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from memlab.errors import BadRequest, CannotRun
from memlab.observe import proc
from memlab.printable import printable
from memlab.units import version_order

INSTALLED = "installed"
TO_INSTALL = "apt install linux-image-amd64, or name one with --kernel PATH"

# Documentation/arch/x86/boot.rst: the header's magic, and where the version's text lies.
_MAGIC, _MAGIC_AT = b"HdrS", 0x202
_VERSION_AT = 0x20E


@dataclass(frozen=True, slots=True)
class Kernel:
    """`banner` is all that the image says of itself: who built it, of which version, and when."""

    path: Path
    release: str
    banner: str = field(default="", compare=False)

    @property
    def version(self) -> str:
        """`6.1.192`, where a distribution's release is 6.1.0-56-amd64."""
        found = re.search(r"Debian (\d+(?:\.\d+)+)", self.banner) or re.match(
            r"(\d+(?:\.\d+)+)", self.release
        )
        return found[1] if found else self.release

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
    """The kernel asked for. BadRequest where the path is wrong, CannotRun where none is there."""
    if named != INSTALLED:
        return read(Path(named).absolute())
    found = installed()
    if found is None:
        raise CannotRun(f"no kernel with its modules is installed here: {TO_INSTALL}")
    return found


def installed(root: Path = proc.ROOT) -> Kernel | None:
    """The newest kernel in /boot that may be read and whose modules are there."""
    kernels = []
    for path in (root / "boot").glob("vmlinuz-*"):
        try:
            kernel = read(path)
        except (BadRequest, CannotRun):
            continue
        if (root / "lib/modules" / kernel.release / "modules.dep").exists():
            kernels.append(kernel)
    return max(kernels, key=lambda kernel: version_order(kernel.release), default=None)


def read(path: Path, named_by: str = "--kernel") -> Kernel:
    """An image that x86 boots, and the release that it says it is. `named_by` is what took the
    path, for the message."""
    try:
        with path.open("rb") as file:
            head = file.read(0x10000)
    except FileNotFoundError:
        raise BadRequest(f"no kernel at {path}; {named_by} takes a vmlinuz") from None
    except IsADirectoryError:
        raise BadRequest(f"{path} is a directory; {named_by} takes the vmlinuz inside") from None
    except OSError as error:
        raise CannotRun(f"cannot read the kernel {path}: {error.strerror}; run as root") from None
    if head[_MAGIC_AT : _MAGIC_AT + 4] != _MAGIC:
        raise BadRequest(f"{path} is no bootable x86 kernel (a vmlinuz, or a build's bzImage)")
    (offset,) = struct.unpack_from("<H", head, _VERSION_AT)
    banner = head[0x200 + offset :].partition(b"\0")[0].decode(errors="replace")
    return Kernel(path, (banner.split() or ["unknown"])[0], printable(banner))


def modules(kernel: Kernel) -> Path | None:
    """Where the kernel's modules are: beside its image (as in an unpacked package), else where
    an installed kernel has them."""
    for root in (*kernel.path.parents, Path("/")):
        folder = root / "lib/modules" / kernel.release
        if folder.is_dir():
            return folder
    return None


def check_modules(kernel: Kernel) -> None:
    """CannotRun where there are modules and nothing says which needs which."""
    folder = modules(kernel)
    if folder is not None and not (folder / "modules.dep").exists():
        base = folder.parents[2]
        raise CannotRun(
            f"{folder} has no modules.dep; make it as root: depmod -b {base} {kernel.release}"
        )
