"""What the machine offers, and what runs it: CPUs and their frequency, io_uring, an IOMMU."""

import ctypes
import errno
import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

from memlab.observe import available, cpu, files

from .capability import Capability

MiB = 1 << 20
_IO_URING_SETUP = 425  # the same on every architecture


def command(_root: Path) -> Capability:
    """Whether `memlab` in a shell is this package: a package of npm has a program of that name."""
    name = "memlab in PATH"
    ours = Path(sysconfig.get_path("scripts"))
    result = shutil.which("memlab")
    if result is None:
        return Capability(name, False, "none", f'export PATH="{ours}:$PATH"')
    # A script of ours names the package, also another Python's or the one that pipx links to.
    if Path(result).resolve().parent == ours or b"memlab.cli" in Path(result).read_bytes()[:4096]:
        return Capability(name, True, result, None)
    remedy = f'call {ours}/memlab, or export PATH="{ours}:$PATH"'
    return Capability(name, False, f"{result} stands first and is another program", remedy)


def io_uring(_root: Path) -> Capability:
    name = "io_uring"
    libc = ctypes.CDLL(None, use_errno=True)
    # No parameters: the kernel says EFAULT where it would have set up a ring, and sets up none.
    libc.syscall(ctypes.c_long(_IO_URING_SETUP), ctypes.c_long(1), ctypes.c_void_p(None))
    number = ctypes.get_errno()
    if number == errno.EFAULT:
        return Capability(name, True, "io_uring_setup is allowed", None)
    remedy = "sysctl kernel.io_uring_disabled=0, or a seccomp filter that allows it"
    return Capability(name, False, f"io_uring_setup: {os.strerror(number)}", remedy)


def iommu(root: Path) -> Capability:
    """Whether VFIO could give a device of this machine to a guest or a process."""
    name = "IOMMU"
    groups = len(files.names(root / "sys/kernel/iommu_groups"))
    if groups:
        return Capability(name, True, f"{groups} groups of devices", None)
    remedy = "boot with intel_iommu=on or amd_iommu=on, or take a guest: --in guest,iommu"
    return Capability(name, False, "/sys/kernel/iommu_groups is empty", remedy)


def compiler(_root: Path) -> Capability:
    name = "C compiler"
    command = (os.environ.get("CC") or "cc").split()[0]
    result = shutil.which(command)
    if result is None:
        remedy = "install one, for example apt install gcc libc6-dev, or set CC"
        return Capability(name, False, f"no {command} on PATH", remedy)
    return Capability(name, True, result, None)


def cpus(_root: Path) -> Capability:
    name = "two CPUs"
    allowed = len(os.sched_getaffinity(0))
    remedy = "give this machine, container or cpuset a second CPU"
    detail = f"{allowed} allowed"
    return Capability(name, allowed >= 2, detail, remedy if allowed < 2 else None)


def free_memory(root: Path) -> Capability:
    return _room(
        "memory without a limit",
        files.known(lambda: available.memory(root)),
        lambda amount: f"{amount / MiB:,.0f} MiB free",
        "raise the limit of the container or cgroup: memory.max, docker run -m",
    )


def cpu_time(root: Path) -> Capability:
    return _room(
        "CPUs without a quota",
        available.cpus(root),
        lambda amount: f"{amount:g} CPUs",
        "raise the quota, which stops trials in between: cpu.max, docker run --cpus",
    )


def processes(root: Path) -> Capability:
    return _room(
        "processes without a limit",
        available.processes(root),
        lambda amount: f"{amount:,.0f} more may be started",
        "raise the limit of the container or cgroup: pids.max, docker run --pids-limit",
    )


def _room(
    name: str,
    available_memory: available.AvailableMemory | None,
    sentence: Callable[[float], str],
    remedy: str,
) -> Capability:
    if available_memory is None:
        return Capability(name, False, "not visible here", "mount -t proc proc /proc")
    free = available_memory.group is None
    return Capability(
        name,
        free,
        f"{sentence(available_memory.left)}{available_memory.where}",
        None if free else remedy,
    )


def fixed_frequency(root: Path) -> Capability:
    name = "fixed CPU frequency"
    result = cpu.read(root)
    governor, turbo = result["frequency_governor"], result["turbo"]
    if governor is None:
        return Capability(
            name,
            False,
            "not visible here (no cpufreq)",
            "none inside a virtual machine: the interleaved blocks cancel slow drift",
        )
    detail = (
        f"governor {governor}, turbo {'unknown' if turbo is None else 'on' if turbo else 'off'}"
    )
    if governor == "performance" and not turbo:
        return Capability(name, True, detail, None)
    return Capability(
        name,
        False,
        detail,
        "cpupower frequency-set -g performance; echo 0 > /sys/devices/system/cpu/cpufreq/boost",
    )
