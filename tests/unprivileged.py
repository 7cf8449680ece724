"""A process that file permissions hold for, even where the tests run as root."""

import os
import subprocess
import sys

_CAPABILITIES = "-dac_override,-dac_read_search"
# setpriv(1) is in util-linux, which every Debian has.
_WITHOUT = ["setpriv", f"--inh-caps={_CAPABILITIES}", f"--bounding-set={_CAPABILITIES}"]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` by a user who may not write where the mode says no."""
    drop = _WITHOUT if os.geteuid() == 0 else []
    command = [*drop, sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def without_capabilities() -> list[str]:
    """What a command begins with that is to have no capability at all."""
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []


def powerless(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` without any capability at all."""
    command = [*without_capabilities(), sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def held_to_limits() -> list[str]:
    """What a command begins with that setrlimit(2)'s RLIMIT_NPROC is to hold for; it reads all."""
    reads = "--{}-caps=+dac_override,+dac_read_search"
    words = ["setpriv", "--reuid=65534", *map(reads.format, ("inh", "ambient"))]
    return words if os.geteuid() == 0 else []


def reading() -> list[str]:
    """What a command begins with that an ordinary user is to run, who may read all files."""
    only = "--{}-caps=-all,+dac_read_search"
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return [*user, *map(only.format, ("inh", "ambient"))] if os.geteuid() == 0 else []
