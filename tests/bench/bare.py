"""The plain C program beside memlab: bare_loop.c, compiled here, run as a process of its own."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# How a program is linked moves its code about, and with it the time of a short call between
# page faults. The second build calls libc as a shared module does.
BUILDS = {
    "bare": ["-O2"],
    "bare, moved": ["-O2", "-fPIC", "-fno-builtin", "-Wl,-z,now"],
}


@dataclass(frozen=True, slots=True)
class BareLoop:
    """One build of the program, and where it measures."""

    binary: Path
    file: Path
    cpu: int

    def call_ns(self, method: str, call_bytes: int, total_bytes: int) -> float:
        """The time of one call of `method` over the first `total_bytes` of the file."""
        command = [self.binary, method, self.file, call_bytes, total_bytes, self.cpu]
        return float(subprocess.check_output([str(word) for word in command]))


def compiler() -> str | None:
    """The system's C compiler, if it has one."""
    return shutil.which("cc")


def compile_builds(cc: str, folder: Path, file: Path, cpu: int) -> dict[str, BareLoop]:
    """Every build, by its name."""
    source = Path(__file__).with_name("bare_loop.c")
    builds = {}
    for number, (name, flags) in enumerate(BUILDS.items()):
        binary = folder / f"bare_loop_{number}"
        subprocess.run([cc, *flags, "-Wall", "-Werror", "-o", binary, source], check=True)
        builds[name] = BareLoop(binary, file, cpu)
    return builds
