"""The kernels at hand for guests: found in folders, unpacked from packages, or to be had.

memlab downloads nothing: what is missing is named with the commands of the user's own package
manager.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from memlab.errors import BadRequest, CannotRun, MemlabError
from memlab.files import output, ownership
from memlab.machines.guest import image
from memlab.observe import available, guest_tools, proc
from memlab.run import kernel
from memlab.run.kernel import Kernel
from memlab.text.units import GiB, version_order

OPTIONS = ("MEMCG_V1", "LRU_GEN", "TRANSPARENT_HUGEPAGE", "DEVMEM")
_MOST_BYTES = 4 * GiB  # of one package, unpacked; a kernel of Debian takes 0.6 GiB
_RELEASE = r"(?P<release>\d[\w.+~-]*)"
# What is taken of a package, and where it goes in the kernel's own folder.
_TAKEN = re.compile(
    rf"(?:boot/(?:vmlinuz|config)-{_RELEASE}|(?:usr/)?(?P<rest>lib/modules/(?P<r>\d[\w.+~-]*)/.+))"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A kernel at hand. `why` says why it cannot boot as a guest; empty where it can."""

    path: Path
    kernel: Kernel | None  # None where the file is not a kernel that boots here
    why: str = ""
    without: str = ""  # what it boots without
    options: dict[str, str] = field(default_factory=dict)  # of OPTIONS, those that its config has

    @property
    def version(self) -> str:
        return self.kernel.version if self.kernel else self.path.name

    @property
    def machine(self) -> str:
        return self.kernel.machine if self.kernel else kernel.X86_64

    @property
    def release(self) -> str | None:
        return self.kernel.release if self.kernel else None

    @property
    def released(self) -> str | None:
        """The day; None where it does not say."""
        return self.kernel.released if self.kernel else None


def at_hand(place: Path | None = None, root: Path = proc.ROOT) -> list[Found]:
    """Every kernel below a folder, else in /boot, the module folders and memlab's own folder, the
    oldest version first."""
    result = map(look, kernel.images(place, root))
    return sorted(result, key=lambda found: version_order(found.version))


def look(path: Path) -> Found:
    """One image: whether it boots as a guest."""
    try:
        read = kernel.read(path, "this option")
    except MemlabError as wrong:
        return Found(path, None, str(wrong))
    set_to = kernel.config(read)
    options = {name: set_to[name] for name in OPTIONS if name in set_to}
    try:
        kernel.check_modules(read)
        bare = kernel.modules(read) is None
        packed = bare and read.machine == kernel.X86_64
        why = image.lacks(read, image.uncompressed(path.read_bytes()) if packed else None)
    except (CannotRun, OSError) as wrong:
        return Found(path, read, str(wrong), options=options)
    return Found(path, read, why, "modules, so without a disk" if bare else "", options)


def choose(words: Sequence[str], machine: str = kernel.X86_64) -> list[Found]:
    """The kernels of a machine that a list names: versions (6.1, 6.12.107) or releases among those
    at hand, the newest of each; images; folders, with all in them. None: all at hand, of builds of
    one version the last. BadRequest where one fits nothing, or is another machine's."""
    named = not words or any("/" not in word for word in words)  # else no image need be read
    here = [result for result in at_hand() if result.machine == machine] if named else []
    if not words:
        return list({result.version: result for result in here}.values())
    chosen: dict[Path, Found] = {}
    for word in words:
        fits = [item for item in here if item.kernel and kernel.fits(item.kernel, word)][-1:]
        if "/" in word or (not fits and os.path.isfile(word)):  # noqa: PTH113 - as below
            folder = os.path.isdir(word)  # noqa: PTH112 - False for what is not a path at all
            fits = at_hand(Path(word)) if folder else [look(Path(word).absolute())]
            if folder:
                fits = [fit for fit in fits if fit.machine == machine]
            elif fits[0].kernel and fits[0].machine != machine:
                raise BadRequest(f"{word} is a kernel of {fits[0].machine}, not of {machine}")
        if not fits:
            raise kernel.none_at_hand(word)
        chosen.update((fit.path, fit) for fit in fits)
    return sorted(chosen.values(), key=lambda found: version_order(found.version))


def between(first: Found, last: Found) -> list[Found]:
    """The kernels at hand from one to another that can boot, both ends among them."""
    if version_order(first.version) >= version_order(last.version):
        raise BadRequest(f"{first.version} is not older than {last.version}")
    within = {
        result.version: result
        for result in at_hand()
        if not result.why
        and result.kernel
        and first.kernel
        and (result.machine, result.kernel.page_bytes) == (first.machine, first.kernel.page_bytes)
        and version_order(first.version)
        < version_order(result.version)
        < version_order(last.version)
    }
    return [first, *within.values(), last]


def unpack(packages: Iterable[Path], place: Path | None = None) -> tuple[list[Found], list[str]]:
    """Take the kernels out of Debian packages, each into a folder of its own: what was unpacked,
    and a line for each package that was not. CannotRun where nothing can be written."""
    place = place or kernel.folder()
    dpkg = guest_tools.find("dpkg-deb")
    if dpkg is None:
        raise CannotRun("packages are read by dpkg-deb, and it is not here: apt install dpkg")
    try:
        output.make_folder(place)
        if why := ownership.unfit(place):
            raise CannotRun(why)
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=place) as name:
            refused = list(_taken_out(dpkg, packages, Path(name)))
            releases = sorted(path.name for path in Path(name).iterdir())
            for release in releases:
                shutil.copytree(Path(name, release), place / release, dirs_exist_ok=True)
    except OSError as error:
        raise CannotRun(f"cannot unpack into {place}: {error.strerror}") from None
    for release in releases:
        _index(place / release, release)
    kernels = [result for release in releases for result in at_hand(place / release)]
    imageless = set(releases) - {result.kernel.release for result in kernels if result.kernel}
    refused += [
        f"{release} has no image yet: unpack its linux-binary or linux-image package too"
        for release in sorted(imageless)
    ]
    refused += [
        f"{result.kernel.release} has no modules yet: unpack its linux-modules package too"
        for result in kernels
        if result.kernel and result.without
    ]
    return kernels, refused


def _taken_out(dpkg: str, packages: Iterable[Path], into: Path) -> Iterator[str]:
    """A line for each package that could not be taken."""
    for package in packages:
        if not package.is_file():
            yield f"{package}: no such file"
            continue
        command = [dpkg, "--fsys-tarfile", str(package.absolute())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as piped:
            try:
                taken = _take(piped.stdout, into) if piped.stdout else 0
                why = "" if taken else "no kernel and no modules are in it"
            except (tarfile.TarError, ValueError) as error:
                why = str(error) or "it is not whole"
            finally:
                piped.kill()
        if why:
            yield f"{package.name}: " + ("no Debian package" if piped.returncode > 0 else why)


def _take(piped: IO[bytes], into: Path) -> int:
    """Only regular files at the names of a kernel's are written, as plain files; how many."""
    count, rest = 0, min(_MOST_BYTES, available.disk(into))
    with tarfile.open(fileobj=piped, mode="r|") as members:
        for member in members:
            name = os.path.normpath(member.name)
            fits = _TAKEN.fullmatch(name)
            if fits is None or not member.isreg():
                continue
            if (rest := rest - member.size) < 0:
                raise ValueError("it is larger than a kernel, or than the room there is")
            target = into / (fits["release"] or fits["r"]) / (fits["rest"] or name)
            target.parent.mkdir(parents=True, exist_ok=True)
            content = members.extractfile(member)
            if content is not None:
                with content, target.open("wb") as file:
                    shutil.copyfileobj(content, file)
                count += 1
    return count


def _index(base: Path, release: str) -> None:
    """Say which module needs which; a package leaves that to the machine that installs it."""
    depmod = guest_tools.find("depmod")
    if depmod and (base / "lib/modules" / release / "kernel").is_dir():
        subprocess.run([depmod, "-b", str(base), release], capture_output=True, check=False)


def suggest(least: str, most: str, here: Iterable[Found]) -> list[str]:
    """Commands that fetch, of the package lists that are on this machine, the newest kernel of each
    minor version within the two that is not at hand. CannotRun without such lists."""
    packages = _listed()
    have = {_minor(result.version) for result in here if not result.why}
    newest: dict[str, str] = {}
    for release in {name.split("-", 2)[2] for name in packages}:
        minor = _minor(release)
        within = version_order(_minor(least)) <= version_order(minor) <= version_order(_minor(most))
        if within and minor not in have and _whole(release, packages):
            newest[minor] = max(newest.get(minor, release), release, key=version_order)
    lines = []
    for release in sorted(newest.values(), key=version_order):
        parts = [name for name in packages if name.split("-", 2)[2] == release]
        lines.append(f"apt-get download {' '.join(sorted(parts))}")
    return [*lines, "memlab kernels fetch linux-*.deb"] if lines else []


def _listed() -> list[str]:
    cache = guest_tools.find("apt-cache")
    if cache is None:
        raise CannotRun(
            "memlab reads what apt lists, and it is not here: fetch linux-image packages"
        )
    ended = subprocess.run(
        [cache, "pkgnames", "linux-"], capture_output=True, text=True, check=False
    )
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    wanted = re.compile(rf"linux-(image|binary|base|modules)-\d+\.\d+\.\d[\w.+~]*(-\d+)?-{machine}")
    return [name for name in ended.stdout.split() if wanted.fullmatch(name)]


def _whole(release: str, packages: Sequence[str]) -> bool:
    """Whether all parts of a kernel that is split are listed, or one that is whole."""
    parts = {name.split("-", 2)[1] for name in packages if name.split("-", 2)[2] == release}
    return parts == {"image"} or {"binary", "modules"} <= parts


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
