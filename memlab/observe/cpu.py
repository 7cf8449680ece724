"""The processors: model, topology, caches, mitigations, and who sets their frequency."""

import os
import time
from pathlib import Path
from typing import Any

from memlab.observe import files, proc
from memlab.text import units

_SYSTEM = "sys/devices/system/cpu"

# Enough for one CPU's block on any architecture. /proc/cpuinfo has a block for every CPU, and on a
# large machine the whole of it takes milliseconds.
_BLOCK_BYTES = 16384


def read(root: Path) -> dict[str, Any]:
    """Everything here about the CPUs, JSON-able, None where unknown."""
    system = root / _SYSTEM
    block = first_block(root)
    online = files.text(system / "online")
    cpus = (files.known(lambda: units.parse_cpus(online)) if online else None) or ()
    status = files.known(lambda: proc.status(root=root)) or {}
    item = system / f"cpu{cpus[0] if cpus else 0}"
    return {
        "machine": files.text(root / "proc/sys/kernel/arch") or os.uname().machine,
        "cpu_vendor": block.get("vendor_id") or block.get("CPU implementer"),
        "cpu_model": _model(block),
        "microcode": block.get("microcode") or files.text(item / "microcode/version"),
        "cpus_online": online,
        "cpus_allowed": status.get("Cpus_allowed_list"),
        "cpus_isolated": files.text(system / "isolated"),
        "cpu_count": len(cpus) or None,
        "socket_count": _distinct(system, cpus, "physical_package_id"),
        "core_count": _distinct(system, cpus, "thread_siblings_list"),
        "smt_active": files.flag(system / "smt/active"),
        "tlb_broadcast": _tlb_broadcast(block),
        "caches": _caches(item / "cache"),
        "mitigations": {
            name: files.text(system / "vulnerabilities" / name)
            for name in files.names(system / "vulnerabilities")
        }
        or None,
        "frequency_driver": _policies(system, "scaling_driver"),
        "frequency_governor": _policies(system, "scaling_governor"),
        "turbo": _turbo(system),
        "idle_driver": files.text(system / "cpuidle/current_driver"),
    }


def first_block(root: Path) -> dict[str, str]:
    """The first CPU's fields of /proc/cpuinfo; none where it cannot be read."""

    def start() -> str:
        with (root / "proc/cpuinfo").open("rb", buffering=0) as cpuinfo:
            return cpuinfo.read(_BLOCK_BYTES).decode("utf-8", "replace")

    block = (files.known(start) or "").partition("\n\n")[0]
    pairs = (line.partition(":") for line in proc.lines(block))
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _model(block: dict[str, str]) -> str | None:
    """Its name, or on arm64, which prints none, the numbers that identify it (MIDR_EL1)."""
    name = block.get("model name") or block.get("cpu") or block.get("uarch")
    if name or "CPU part" not in block:
        return name
    fields = ("CPU implementer", "CPU part", "CPU variant", "CPU revision")
    return " ".join(f"{field.removeprefix('CPU ')} {block.get(field)}" for field in fields)


def _tlb_broadcast(block: dict[str, str]) -> str | None:
    """How this processor flushes TLBs of others without interrupting them; None where it does not,
    or where its kernel does not know how (arch/x86/include/asm/cpufeatures.h)."""
    if "CPU implementer" in block:
        return "arm64 flushes the TLBs of other CPUs by an instruction, TLBI, and interrupts none"
    if "invlpgb" in block.get("flags", "").split():
        return (
            "Linux 6.15 and later flushes the TLBs of this processor by an instruction, INVLPGB, "
            "where a process runs on more than three CPUs, and then interrupts none"
        )
    return None


def _distinct(system: Path, cpus: tuple[int, ...], name: str) -> int | None:
    result = {files.text(system / f"cpu{cpu}/topology" / name) for cpu in cpus} - {None}
    return len(result) or None


def _caches(directory: Path) -> list[dict[str, Any]] | None:
    return [
        _cache(directory / name) for name in files.names(directory) if name.startswith("index")
    ] or None


def _cache(directory: Path) -> dict[str, Any]:
    size = files.text(directory / "size")
    return {
        "level": files.number(directory / "level"),
        "type": files.text(directory / "type"),
        "size_bytes": files.known(lambda: units.parse_size(size)) if size else None,
        "line_bytes": files.number(directory / "coherency_line_size"),
        "shared_cpus": files.text(directory / "shared_cpu_list"),
    }


def _policies(system: Path, name: str) -> str | None:
    """What all frequency policies say, comma-separated where they differ; None without cpufreq."""
    directory = system / "cpufreq"
    policies = [entry for entry in files.names(directory) if entry.startswith("policy")]
    results = {files.text(directory / policy / name) for policy in policies}
    return ",".join(sorted(word for word in results if word)) or None


def _turbo(system: Path) -> bool | None:
    no_turbo = files.flag(system / "intel_pstate/no_turbo")
    return not no_turbo if no_turbo is not None else files.flag(system / "cpufreq/boost")


BUSY = 0.25  # of the CPUs' time, from which on what is measured is said to be of that load


_LOOK_S = 0.3


def busy_share() -> float | None:
    """The share of all CPUs' time that others take now, while this process sleeps: proc_stat(5).
    None where that cannot be read."""
    try:
        before = _ticks()
        time.sleep(_LOOK_S)
        after = _ticks()
    except (OSError, ValueError, IndexError):
        return None
    whole = sum(after) - sum(before)
    idle = sum(after[3:5]) - sum(before[3:5])  # idle and iowait
    return 1 - idle / whole if whole > 0 else None


def busy_now() -> str:
    """That the machine is busy, and what that will do to the numbers; empty where it is quiet."""
    share = busy_share()
    if share is None or share <= BUSY:
        return ""
    return (
        f"busy machine: its CPUs are {units.format_percent(share)} busy now; times may be longer "
        "and vary more than on a quiet one"
    )


def _ticks() -> list[int]:
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    return [int(word) for word in first.split()[1:9]]  # guest time is in user's and nice's
