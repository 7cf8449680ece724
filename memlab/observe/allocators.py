"""Libraries that bring a malloc of their own: where they lie, their version, their options.

An option is read when a process starts, and its name and meaning change between versions, so the
version is read from the library's file, before any process has loaded it. What a process then
really runs under, the process must say itself (probes/support/malloc_library.c).
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memlab.experiment import Malloc
from memlab.observe import elf, files, guest_tools

Version = tuple[int, ...]
Options = Mapping[str, str]

_NEVER_BYTES = str(2**62)  # of a threshold that nothing reaches
OPTIONS = ("MALLOC_", "GLIBC_TUNABLES", "TCMALLOC_", "MIMALLOC_")  # what the variables begin with
_VERSION_BYTES_MOST = 256  # of its text in a library
_ELF_MACHINE = slice(18, 20)  # e_machine, elf(5)


class NoAllocator(Exception):
    """A library or a setting of it is not to be had; one line says why and what to do."""


@dataclass(frozen=True, slots=True)
class Library:
    """One of them: the names of its file, its package, its version and its settings."""

    file: re.Pattern[str]
    package: str  # of Debian 12
    version: re.Pattern[bytes] | None  # in the file; None where only the file's name has it
    settings: Callable[[str, Version], Options | None]  # None: this version has no such setting


def _jemalloc(setting: str, version: Version) -> Options | None:
    """jemalloc(3): opt.dirty_decay_ms and opt.muzzy_decay_ms; of 4.1 to 4.5 opt.purge and
    opt.decay_time, in seconds; before, only a share of dirty pages, opt.lg_dirty_mult."""
    decay = {"never": -1, "at_once": 0}.get(setting)
    if decay is None or (version < (4, 1) and decay != -1):
        return None
    if version < (4, 1):
        return {"MALLOC_CONF": "lg_dirty_mult:-1"}
    if version < (5,):
        return {"MALLOC_CONF": f"purge:decay,decay_time:{decay}"}
    return {"MALLOC_CONF": f"dirty_decay_ms:{decay},muzzy_decay_ms:{decay}"}


def _tcmalloc(setting: str, _: Version) -> Options | None:
    """gperftools, docs/tcmalloc.html, "Modifying Runtime Behavior"."""
    return {
        "never": {"TCMALLOC_RELEASE_RATE": "0"},
        "at_once": {"TCMALLOC_AGGRESSIVE_DECOMMIT": "1"},
    }.get(setting)


def _mimalloc(setting: str, version: Version) -> Options | None:
    """mimalloc, src/options.c: purge_delay since 1.8.2 and 2.1.2; before, in 2.0, a page's delay
    (named decommit_delay, then reset_delay) and a segment's. The name of a file has no third
    number, and a name that a version does not know is passed over: then both."""
    if version < (1, 8):
        return None
    before = {
        "never": {"MIMALLOC_ALLOW_DECOMMIT": "0"},
        "at_once": {
            f"MIMALLOC_{delay}": "0"
            for delay in ("DECOMMIT_DELAY", "RESET_DELAY", "SEGMENT_DECOMMIT_DELAY")
        },
    }
    since = {
        "never": {"MIMALLOC_PURGE_DELAY": "-1"},
        "at_once": {"MIMALLOC_PURGE_DELAY": "0"},
    }
    if setting not in since:
        return None
    if version[:2] in ((1, 8), (2, 1)):
        return before[setting] | since[setting]
    return before[setting] if version[:2] == (2, 0) else since[setting]


# mallopt(3). Setting any of them ends glibc's own adjusting of the threshold for mmap, which
# stays at 128 KiB then: the two halves of "never" show what each is without the other.
_GLIBC: Mapping[str, Options] = {
    "never": {"MALLOC_TRIM_THRESHOLD_": _NEVER_BYTES, "MALLOC_MMAP_MAX_": "0"},
    "at_once": {"MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": str(128 * 1024)},
    "no_trim": {"MALLOC_TRIM_THRESHOLD_": _NEVER_BYTES},
    "no_mmap": {"MALLOC_MMAP_MAX_": "0"},
}

LIBRARIES: Mapping[str, Library] = {
    "jemalloc": Library(
        re.compile(r"libjemalloc\.so(\.\d+)*"),
        "libjemalloc2",
        re.compile(rb"(?<![\d.])(\d+\.\d+\.\d+)-\d+-g[0-9a-f]{7,40}"),
        _jemalloc,
    ),
    "tcmalloc": Library(
        re.compile(r"libtcmalloc(_minimal)?\.so(\.\d+)*"),
        "libtcmalloc-minimal4",
        re.compile(rb"gperftools (\d+\.\d+(?:\.\d+)?)"),
        _tcmalloc,
    ),
    "mimalloc": Library(re.compile(r"libmimalloc\.so(\.\d+)*"), "libmimalloc2.0", None, _mimalloc),
}


def environ(malloc: Malloc, others: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a process must be started with to run under this malloc, set so.

    Options that are in the environment already (`others`) would mix with the setting.
    """
    others = os.environ if others is None else others
    if foreign := next((name for name in others if name.startswith(OPTIONS)), None):
        raise NoAllocator(
            f"{foreign} is set in this environment and would mix with the setting: unset it"
        )
    if malloc.allocator == "glibc":
        return dict(_read_options(malloc, "glibc", _GLIBC.get(malloc.setting)))
    library = LIBRARIES.get(malloc.allocator)
    path = Path(malloc.library or find(malloc.allocator, malloc.otherwise))
    preload = {"LD_PRELOAD": _preload(path)}
    if library is None:
        _check(path)
    return preload | dict({} if library is None else _options(malloc, library, path))


def _options(malloc: Malloc, library: Library, path: Path) -> Options:
    if malloc.setting == "default":
        return {}
    version = version_of(malloc.allocator, path)
    if version is None:
        raise NoAllocator(
            f"{path} does not say its version, which its options depend on: use another"
        )
    named = f"{malloc.allocator} {'.'.join(map(str, version))}"
    return _read_options(malloc, named, library.settings(malloc.setting, version))


def _read_options(malloc: Malloc, named: str, options: Options | None) -> Options:
    if malloc.setting == "default":
        return {}
    if options is None:
        raise NoAllocator(f"{named} has no setting {malloc.setting}: choose another")
    return options


def _check(path: Path) -> None:
    """NoAllocator if a library that a user named would be loaded and change nothing."""
    if not _loadable(path):
        raise NoAllocator(f"{path} is not a library of this machine's kind: name another")
    if not _defines_malloc(path):
        raise NoAllocator(f"{path} defines no malloc and free: name an allocator's library")


def _preload(path: Path) -> str:
    if not path.is_file():
        raise NoAllocator(f"there is no library {path}: name the file of one")
    if re.search(r"[\s:]", str(path)):
        raise NoAllocator(f"{path}: LD_PRELOAD takes no path with blanks or colons: link to it")
    return str(path)


def find(allocator: str, otherwise: str = "-p library=PATH") -> Path:
    """The file that the dynamic linker would load; NoAllocator names Debian's package, and how
    `otherwise` a file is named."""
    library = LIBRARIES.get(allocator)
    if library is None:
        raise NoAllocator(f"allocator {allocator} is named by its path: {otherwise}")
    for path in _searched():
        if library.file.fullmatch(path.name) and _loadable(path):
            return path
    raise NoAllocator(
        f"{allocator} is not installed: apt install {library.package}, or {otherwise}"
    )


def version_of(allocator: str, path: Path) -> Version | None:
    """As the file says it, or else the name of the file that it is a link to."""
    pattern, text = LIBRARIES[allocator].version, ""
    with suppress(OSError, ValueError), files.opened(path) as file:
        if pattern is None:
            if named := re.search(r"\.so\.([\d.]+)$", path.resolve().name):
                text = named[1]
        else:
            matches = (pattern.search(piece) for piece in files.pieces(file, _VERSION_BYTES_MOST))
            if match := next(filter(None, matches), None):
                text = match[1].decode()
    return tuple(int(part) for part in text.split(".")) if text else None


def _searched() -> Iterator[Path]:
    """LD_LIBRARY_PATH's folders, then the linker's cache (ld.so(8), ldconfig(8))."""
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        with suppress(OSError):
            yield from sorted(Path(folder).iterdir()) if folder else ()
    ldconfig = guest_tools.find("ldconfig")
    if ldconfig is None:
        return
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        _, arrow, path = line.partition(" => ")
        if arrow:
            yield Path(path)


def _defines_malloc(path: Path) -> bool:
    with suppress(OSError, ValueError, struct.error), files.opened(path) as file:
        names = {function.name for function in elf.functions(file.fileno())}
        return {"malloc", "free"} <= names
    return False


def _loadable(path: Path) -> bool:
    """Is it for this machine? A library of 32 bits may lie beside."""
    with suppress(OSError), files.opened(path) as file, open("/proc/self/exe", "rb") as program:
        return file.read(20)[_ELF_MACHINE] == program.read(20)[_ELF_MACHINE]
    return False
