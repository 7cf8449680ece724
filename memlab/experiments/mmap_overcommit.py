"""mmap-overcommit: who is refused or killed where a mapping outgrows memory and swap?

The study's machine had 16 G of memory and swap together. Here a memory cgroup stands for it: its
limit and the swap area are 16 parts, and the file is 30 of them, or 15 for each of two processes.
What mmap itself grants is not judged by a cgroup, so that the factor `scope` maps those parts of
the whole host's memory and swap as well, without touching a page.
"""

import errno
import signal
from collections.abc import Callable

from memlab.experiment import (
    BYTES,
    At,
    Checks,
    Containment,
    Cost,
    Exclude,
    Experiment,
    Factor,
    File,
    Matrix,
    Metric,
    Printed,
    Raw,
    choice,
)
from memlab.experiments._file_io import FILE_STATES, MIB
from memlab.experiments._overcommit_claims import CLAIMS
from memlab.experiments._overcommit_controls import CONTROLS

SWAP_BYTES = 32 * MIB
LEAST_LIMIT = 8 * MIB  # the probe itself lies in the group
EDGE_S = 1.0  # at the limit reclaim turns the file's own pages over before anyone is killed
GRANTED, WRITTEN = "mmap succeeds", "all is written"
WRITE_RATE = {"none": 200 * MIB, "file": 60 * MIB}  # slow guesses, bytes a second


def memory_and_swap(at: At) -> int:
    """The 16 parts of which the file is 30."""
    return int(at["file_size"]) * 16 // 30


def limit(at: At) -> int:
    return memory_and_swap(at) - (SWAP_BYTES if at["swap"] == "file" else 0)


def killed(process: Raw) -> bool:
    return bool(process["signal"] == signal.SIGKILL)


def processes(raw: Raw) -> list[Raw]:
    seen: list[Raw] = raw["processes"][: raw["process_count"]]
    return seen


def written(of: Callable[[Raw, Raw], float]) -> Callable[[Raw, At], float | None]:
    """A sum over the processes; None where no page was to be touched."""
    return lambda raw, at: (
        sum(of(raw, process) for process in processes(raw)) if at["scope"] == "group" else None
    )


def completed(raw: Raw, process: Raw) -> bool:
    return bool(process["done_bytes"] == raw["asked_bytes"] and not process["signal"])


def word(raw: Raw, at: At) -> str:
    """What became of the processes."""
    seen = processes(raw)
    refused, taken = sum(p["mmap_errno"] != 0 for p in seen), sum(map(killed, seen))
    if refused:
        names = {errno.errorcode.get(p["mmap_errno"], "?") for p in seen if p["mmap_errno"]}
        return f"mmap fails: {', '.join(sorted(names))}"
    if at["scope"] == "host":
        return GRANTED
    if taken:
        return "OOM-killed" if len(seen) == 1 else f"OOM-killed: {taken} of {len(seen)}"
    return WRITTEN if all(completed(raw, p) for p in seen) else "not all is written"


def evidence(raw: Raw, at: At) -> str:
    """What each process was told and how far it came."""
    lines = [f"vm.overcommit_memory {at['overcommit']}, host's RAM and swap {raw['host_bytes']} B"]
    for process in processes(raw):
        number, ended = process["mmap_errno"], process["signal"]
        said = f"-1 {errno.errorcode.get(number, number)}" if number else "granted"
        end = f", {signal.Signals(ended).name}" if ended else ""
        wrote = f", {process['done_bytes']} B written{end}" if at["scope"] == "group" else ""
        lines.append(f"mmap of {raw['asked_bytes']} B, {at['mapping']}: {said}{wrote}")
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="mmap-overcommit",
    question="Who is refused or killed where file mappings outgrow memory and swap?",
    probe="mmap_overcommit",
    file=File(),
    factors=[
        Factor(
            "scenario",
            choice("a", "b"),
            quick=["a", "b"],
            help="a: one process maps 30 parts, of which memory and swap are 16; b: two "
            "processes map 15 parts each",
        ),
        Factor(
            "mapping",
            choice("private", "private_noreserve", "shared"),
            quick=["private", "private_noreserve", "shared"],
            help="MAP_PRIVATE, the same with MAP_NORESERVE, or MAP_SHARED",
        ),
        Factor(
            "scope",
            choice("group", "host"),
            quick=["group"],
            full=["group", "host"],
            help="whose memory and swap the 16 parts are: the cgroup's, and every page is "
            "written; or the whole host's, and no page is touched",
        ),
        Factor(
            "swap",
            choice("none", "file"),
            quick=["none"],
            full=["none", "file"],
            help="what the cgroup may swap to; a file's 32 MiB are among the 16 parts",
            host=True,
        ),
        Factor(
            "overcommit",
            choice("0", "1", "2"),
            quick=["0"],
            full=["0", "1"],
            help="vm.overcommit_memory: 0 refuses what is larger than the whole host, 1 nothing; "
            "2 counts strictly, so that other programs of this host may be refused memory while "
            "the sweep runs, and is in no preset for that reason",
            host=True,
        ),
        Factor(
            "file_size",
            BYTES,
            quick=[240 * MIB],
            paper=[480 * MIB],
            help="bytes in the file, the 30 parts: 16/30 of it are memory and swap together",
        ),
        Factor(
            "filesystem",
            choice("dir", "tmpfs"),
            quick=["dir"],
            help="where the file lies: the directory of --dir, or /dev/shm, where it takes memory "
            "itself",
        ),
        Factor("file_state", FILE_STATES, quick=["sparse"], help="sparse: nothing is written yet"),
    ],
    excludes=[
        Exclude(
            lambda at: at["file_state"] != "sparse",
            "a file written before lies in a page cache that the cgroup does not hold",
        ),
        Exclude(
            lambda at: int(at["file_size"]) % MIB != 0 or limit(at) < LEAST_LIMIT,
            "the file is whole MiB, so large that 16/30 of it, less the swap area's 32 MiB, leave "
            "the cgroup 8 MiB",
        ),
        Exclude(
            lambda at: at["scope"] == "host" and at["swap"] != "none",
            "no page is touched with scope=host, so that none is swapped",
        ),
    ],
    controls=CONTROLS,
    metrics=[
        # First, for the stop rule: what counts here is exact, and the least blocks are enough.
        Metric(
            "asked",
            "B",
            "bytes of the mapping that each process asks for",
            of=lambda raw, at: float(raw["asked_bytes"]),
        ),
        Metric(
            "mmap_refused",
            "count",
            "processes whose mmap failed",
            of=lambda raw, at: float(sum(p["mmap_errno"] != 0 for p in processes(raw))),
            evidence=evidence,
        ),
        Metric(
            "killed",
            "count",
            "processes that the OOM killer took",
            of=written(lambda raw, process: float(killed(process))),
            evidence=evidence,
        ),
        Metric(
            "completed",
            "count",
            "processes that wrote all of their mapping and lived",
            of=written(lambda raw, process: float(completed(raw, process))),
            lower_is_better=False,
            evidence=evidence,
        ),
        Metric(
            "bytes_reached",
            "B",
            "bytes written by all processes together",
            of=written(lambda raw, process: float(process["done_bytes"])),
            lower_is_better=False,
            evidence=evidence,
        ),
        Metric(
            "group_oom_kills",
            "count",
            "kills that the cgroup counted",
            of=lambda raw, at: raw.get("host", {}).get("group_oom_kill"),
        ),
        Metric(
            "witness_killed",
            "count",
            "1 where a process beside the cgroup, as likely a victim, did not live to the end",
            of=lambda raw, at: raw.get("host", {}).get("witness_killed"),
        ),
    ],
    cost=Cost(
        memory=memory_and_swap,
        time=lambda at: (
            EDGE_S + int(at["file_size"]) / WRITE_RATE[str(at["swap"])]
            if at["scope"] == "group"
            else 0.2
        ),
    ),
    containment=Containment(
        limit=limit, swap=lambda at: str(at["swap"]), swap_bytes=SWAP_BYTES, required=True
    ),
    settings=lambda at: {"/proc/sys/vm/overcommit_memory": str(at["overcommit"])},
    shrinks="file_size",
    tiny={"file_size": [30 * MIB]},
    judges={"logstore-mmap": ["overcommit"]},
    claims=CLAIMS,
    budget_s={"quick": 150.0, "paper": 600.0, "full": 1800.0},
    figure=Matrix(
        "bytes_reached",
        over="mapping",
        by=("scenario",),
        panels=("scope", "swap", "overcommit"),
        word=word,
        calm=lambda said: said in (GRANTED, WRITTEN),
        printed=Printed(
            "logstore-mmap",
            "overcommit",
            "outcome",
            {
                "scenario": {"a": "A", "b": "B"},
                "mapping": {
                    "private": "MAP_PRIVATE",
                    "private_noreserve": "MAP_PRIVATE + MAP_NORESERVE",
                    "shared": "MAP_SHARED",
                },
            },
        ),
    ),
    more_figures={"checks": Checks("killed", over="mapping", by=("scenario",), panels=("swap",))},
)
