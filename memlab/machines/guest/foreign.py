"""What a guest of another architecture runs: a Python, a C library, busybox and the compiled probes
of that architecture, in a folder of unpacked packages. `packaging/arm64.sh` makes it.

memlab's own modules are this host's; so the folder's Python has this Python's minor version, and
its probes are compiled from the same sources.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import SOURCE_SUFFIXES
from importlib.util import cache_from_source
from pathlib import Path

from memlab.files import folders
from memlab.run import fork_server, kernel

_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHON = f"/usr/bin/python{_VERSION}"
BUSYBOX = "/bin/busybox"
_STDLIB = f"/usr/lib/python{_VERSION}"
_PACKAGES = "/usr/lib/python3/dist-packages"
_BUILT = "/memlab/memlab"  # where the wheel is unpacked
_LIBRARIES = ("lib/*-linux-gnu", "usr/lib/*-linux-gnu")
_LOADERS = ("lib/ld-linux*", "lib64/ld-linux*")
_MAKE = "packaging/arm64.sh in memlab's sources makes it"


def root() -> Path:
    """The folder of the unpacked packages."""
    return folders.user("cache") / "arm64"


def lacks(machine: str) -> str:
    """Why no guest of a machine could run memlab; empty where one can."""
    if machine == kernel.X86_64:
        return ""
    base = root()
    for name in (PYTHON, BUSYBOX, f"{_BUILT}/_built.py"):
        if not _below(base, name).exists():
            return f"{base} has no {name[1:]}, which a guest of {machine} runs: {_MAKE}"
    built = Path(fork_server.where()[1])
    if _sources(built) != _sources(_below(base, _BUILT)):
        return f"the probes in {base} are compiled from other sources than memlab's: {_MAKE}"
    return ""


def where() -> tuple[str, str]:
    """As run.fork_server.where, of the guest."""
    return "\n".join((str(Path(__file__).parents[3]), _PACKAGES)), _BUILT


def files(imported: Iterable[str]) -> Iterator[str]:
    """Of the folder, the files that stand for those that this host's Python imports, by their paths
    in the guest."""
    base = root()
    stdlib = Path(sysconfig.get_path("stdlib"))
    yield PYTHON
    for pattern in _LOADERS:
        yield from (f"/{path.relative_to(base)}" for path in base.glob(pattern))
    for pattern in _LIBRARIES:
        yield from (f"/{path.relative_to(base)}" for path in base.glob(f"{pattern}/*.so*"))
    for name in map(Path, imported):
        if name.is_relative_to(stdlib) and "site-packages" not in name.parts:
            yield from _standing_for(base, name.relative_to(stdlib))
    yield from _named(base, _PACKAGES, "_cffi_backend.*.so")
    for pattern in ("_built.py", "_probes*.so", "launch/*"):
        yield from _named(base, _BUILT, pattern)


def _standing_for(base: Path, name: Path) -> Iterator[str]:
    """A module of the standard library; of a compiled one whatever its suffix is. None where the
    folder's Python has it built in."""
    if name.suffix in SOURCE_SUFFIXES:
        words = f"{_STDLIB}/{name}"
        if _below(base, words).exists():
            yield words
            if _below(base, cached := cache_from_source(words)).exists():
                yield cached
    else:
        stem = name.name.partition(".")[0]
        yield from _named(base, f"{_STDLIB}/{name.parent}", f"{stem}.*.so")


def _named(base: Path, folder: str, pattern: str) -> Iterator[str]:
    yield from (f"/{path.relative_to(base)}" for path in sorted(_below(base, folder).glob(pattern)))


def _sources(built: Path) -> dict[str, bytes]:
    """What the probes beside them were compiled from."""
    place = built / "probe_sources"
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*.[ch]")}


def _below(base: Path, name: str) -> Path:
    return base / name.lstrip("/")
