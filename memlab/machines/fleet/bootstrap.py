"""This memlab copied to hosts that have none: its own files and those of the packages that it
needs, into the cache of the user there. The same files are the same probes on every host (one probe
hash), and need nothing of it but a Python of the same version as this one."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import memlab
from memlab.errors import CannotRun
from memlab.printable import printable

Linked = Callable[[str], Sequence[str]]  # the words that run a shell's line on a host

_LEFT_OUT = re.compile(
    r"^\.\./|(^|/)__pycache__/|^(numpy|scipy|pandas|matplotlib)/(.*/)?tests/|\.pyi$|/RECORD$"
)
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_HOST = "memlab-host"  # begins the line that says what a host has
_LIMIT_S = 900.0

# Lines for the shell of a host. A copy is there whole, or not at all.
_FIND = (
    'cache="${{XDG_CACHE_HOME:-$HOME/.cache}}/memlab/copies";'
    " for python in python{version} python3; do command -v $python >/dev/null && break; done;"
)
_LOOK = f"""{_FIND}
$python -c 'import os, sys
print("{_HOST}", "%d.%d" % sys.version_info[:2], os.uname().machine)'
test -d "$cache/{{name}}" && echo there
true
"""
_TAKE = f"""{_FIND}
set -e; umask 077
mkdir -p "$cache"; part=$(mktemp -d "$cache/part-XXXXXXXX")
trap 'rm -rf "$part"' EXIT
tar -xzf - -C "$part"
test -d "$cache/{{name}}" || mv "$part" "$cache/{{name}}"
"""
_RUN = (
    f"sh -c '{_FIND}"
    ' PYTHONPATH="$cache/{name}" PYTHONNOUSERSITE=1 exec $python -P -m memlab "$@"\' memlab'
)


def files() -> dict[str, Path]:
    """What is copied: by its name there, each file here."""
    found = {}
    for name in _needed():
        for file in metadata.files(name) or ():
            where = file.as_posix()
            if not _LEFT_OUT.search(where):
                found[where] = Path(str(file.locate()))
    for folder in map(Path, memlab.__path__):  # two where it is installed from its sources
        for path in folder.rglob("*"):
            where = f"memlab/{path.relative_to(folder).as_posix()}"
            if path.is_file() and "__pycache__" not in where:
                found[where] = path
    return {name: path for name, path in sorted(found.items()) if path.is_file()}


def _needed() -> list[str]:
    """The packages that memlab needs, and those that they need; memlab itself is not one."""
    found: list[str] = []
    left = ["memlab"]
    while left:
        name = left.pop()
        for text in metadata.requires(name) or ():
            wanted, _, marker = text.partition(";")
            needed = re.split(r"[^A-Za-z0-9._-]", wanted.strip())[0]
            if "extra" in marker or needed in found:
                continue
            with suppress(metadata.PackageNotFoundError):  # of another platform or Python
                metadata.distribution(needed)
                found.append(needed)
                left.append(needed)
    return found


def copy(hosts: Mapping[str, Linked], say: Callable[[str], None]) -> dict[str, str]:
    """Bring this memlab to hosts, unless it is there; by host, the command that runs it there.
    CannotRun with a line where a host cannot run it."""
    there = files()
    name = _name(there)
    command = _RUN.format(version=_VERSION, name=name)
    with TemporaryFile() as packed:
        for host, link in hosts.items():
            if not _is_there(host, link, name):
                if not packed.tell():
                    _pack(there, packed)
                say(f"{host}: copying memlab and what it needs, {_size(packed) / 1e6:.0f} MB")
                packed.seek(0)
                _asked(host, link(_TAKE.format(version=_VERSION, name=name)), packed)
                packed.seek(0, os.SEEK_END)
            _asked(host, link(f"{command} --version"), None)
    return dict.fromkeys(hosts, command)


def _is_there(host: str, link: Linked, name: str) -> bool:
    said = _asked(host, link(_LOOK.format(version=_VERSION, name=name)), None).splitlines()
    python = next((line.split()[1:] for line in said if line.startswith(_HOST)), None)
    if python is None:
        raise CannotRun(f"{host}: no Python there: apt install python3")
    mine = [_VERSION, platform.machine()]
    if python != mine:
        raise CannotRun(
            f"{host}: its Python is {' on '.join(python)}, and what would be copied is for "
            f"{' on '.join(mine)}: install memlab there"
        )
    return "there" in said


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _name(there: dict[str, Path]) -> str:
    """Another one for each version of anything: what is copied, its size and time."""
    seen = hashlib.sha256()
    for name, path in there.items():
        state = path.stat()
        seen.update(f"{name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:16]


def _pack(there: dict[str, Path], into: IO[bytes]) -> None:
    with tarfile.open(fileobj=into, mode="w:gz", compresslevel=1) as packed:
        for name, path in there.items():
            packed.add(path.resolve(), name, recursive=False)


def _asked(host: str, words: Sequence[str], source: IO[bytes] | None) -> str:
    """What a line of shell there printed. CannotRun with its last line where it fails."""
    try:
        done = subprocess.run(
            words,
            stdin=source or subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{host}: nothing came of it in {_LIMIT_S:.0f} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines() or ["it said nothing"]
        raise CannotRun(f"{host}: memlab cannot be brought there: {printable(lines[-1])[:500]}")
    return done.stdout.decode(errors="replace")
