"""What the probe does at a point, as plain data: see memlab/command/python_probes/command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memlab.experiment.kinds import At
from memlab.experiment.points import point_key
from memlab.experiment.tried.host import MOST_PROCESSES
from memlab.experiment.tried.metrics import UNITS_NS
from memlab.experiment.tried.policies import fill
from memlab.experiment.tried.subject import Tried
from memlab.files import folders

_ALLOCATOR_OPTIONS = ["MALLOC_", "GLIBC_TUNABLES", "TCMALLOC_", "MIMALLOC_"]


def tools() -> Path:
    """The folder of the compiled helpers."""
    return folders.compiled() / "launch"


def spec_of(subject: Tried, at: At) -> dict[str, Any]:
    """What the probe does at a point, as plain data."""
    folder = tools()
    lock = at.get("lock", "off")
    words = {
        "nice": at.get("nice"),
        "stack": None if at.get("stack") == "inherit" else at.get("stack"),
        "nofile": None if at.get("nofile") == "inherit" else at.get("nofile"),
        "aslr": "off" if at.get("aslr") == "off" else None,
        "thp": "never" if at.get("thp") == "never" else None,
    }
    environ = {n[4:]: str(level) for n, level in at.items() if n.startswith("env.") and level != ""}
    environ |= _malloc_options(str(at.get("malloc", "system")))
    if lock != "off":
        environ["MEMLAB_LOCK"] = str(lock)
    # Of a trace: its calls, by a static program that locks what the trace maps; or, under another
    # allocator, its allocations.
    replayer = "" if not subject.trace else "allocate" if "malloc" in at else "replay"
    preload = [] if lock == "off" or replayer == "replay" else [str(folder / "lock.so")]
    allocator = str(at.get("malloc", "system")).partition(":")[0].partition("/")[0]
    is_preloaded = allocator not in ("system", "glibc")
    high = at.get("memory_high", "none")
    from_file = [m.name for m in subject.metrics if not m.pattern]
    return {
        "launch": str(folder / "launch"),
        "nothing": str(folder / "nothing"),
        "argv": [
            *([str(folder / replayer)] if subject.trace else []),
            *(fill(word, at) for word in subject.argv),
        ],
        "cache": str(folder / "cache") if subject.trace else "",
        "serve": [fill(word, at) for word in subject.serve],
        "ready": fill(subject.ready, at),
        "point": point_key(at),
        "beside": None,
        "not_for_load": _ALLOCATOR_OPTIONS if "malloc" in at else [],
        "processes": MOST_PROCESSES,
        "cwd": subject.cwd,
        "environ": environ,
        "preload": preload,
        "needs_preload": "lock" if preload else "allocator" if is_preloaded else "",
        "policies": [f"{name}={value}" for name, value in words.items() if value is not None],
        "cpus": 0 if at.get("cpus", "all") == "all" else int(at["cpus"]),
        "drops_files": at.get("page_cache") == "dropped",
        "limited": any(at.get(name, "none") != "none" for name in ("memory_max", "memory_high")),
        "memory_high": None if high == "none" else int(high),
        "metrics": {m.name: m.pattern for m in subject.metrics if m.pattern},
        "metric_file": subject.metric_file,
        "latency_file": subject.latency_file,
        "latency_ns": UNITS_NS[subject.latency_unit],
        "file_metrics": from_file,
        "wanted": [m.name for m in subject.metrics],
        "timeout_s": subject.timeout_s,
        "for_s": subject.for_s,
        "reads_used": subject.fit is not None and at.get("used_pages") == "read",
        "good_statuses": subject.good_statuses,
    }


def _malloc_options(level: str) -> dict[str, str]:
    """The environment that an allocator reads its options from (each one's manual)."""
    allocator, _, options = level.partition(":")
    if not options:
        return {}
    if allocator == "jemalloc":
        return {"MALLOC_CONF": options.replace("+", ",")}
    pairs = [pair.partition("=") for pair in options.split("+")]
    if allocator == "glibc":
        tunables = (f"glibc.malloc.{name}={value}" for name, _, value in pairs)
        return {"GLIBC_TUNABLES": ":".join(tunables)}
    return {f"{allocator.upper()}_{name.upper()}": value for name, _, value in pairs}
