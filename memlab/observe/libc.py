"""Another libc than the system's: an unpacked package, whose own loader starts the probe."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from memlab.errors import BadRequest
from memlab.text.printable import printable

_FOLDERS = ("", "lib*", "usr/lib*", "lib*/*-linux-gnu", "usr/lib*/*-linux-gnu")
_VERSION = re.compile(r"version (\d+\.\d+)")
_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Libc:
    """A glibc: its loader, which lies beside its libraries, and its version."""

    loader: Path
    version: str

    @property
    def command(self) -> list[str]:
        """What starts a program with its libraries, those that it lacks being the system's."""
        return [str(self.loader), "--library-path", str(self.loader.parent)]


def find(named: Path) -> Libc:
    """The libc in the folder of an unpacked package, or in the folder of its libraries. BadRequest
    where there is none that runs here."""
    loaders = [
        path
        for below in _FOLDERS
        for folder in (named.absolute().glob(below) if below else [named.absolute()])
        for path in folder.glob("ld-linux*.so.[0-9]")
        if (folder / "libc.so.6").is_file()
    ]
    if not loaders:
        raise BadRequest(
            f"{named} has no libc: name the folder of an unpacked package (dpkg -x libc6_*.deb DIR)"
        )
    try:
        ended = subprocess.run(
            [str(loaders[0]), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
        message, why = ended.stdout, ended.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        message, why = "", str(error)
    if (version := _VERSION.search(message)) is None:
        line = printable((why.strip().splitlines() or ["it says no version"])[-1])
        raise BadRequest(f"{loaders[0]} does not run here: {line}")
    return Libc(loaders[0], version[1])
