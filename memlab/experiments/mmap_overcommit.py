"""mmap-overcommit: who is refused or killed when a mapping exceeds memory and swap?

The study's machine had 16 G of memory and swap together. Here a memory cgroup stands for it: its
limit and the swap area are 16 parts, and the file is 30 of them, or 15 for each of two processes.
Whether mmap itself is granted depends on the host: `scope` maps the same parts of its memory.
"""

import errno
import signal
from collections.abc import Callable, Iterator
from math import inf

from memlab.experiment import *
from memlab.experiments._file_io import FILE_STATES, MIB
from memlab.experiments._reclaim import ONLY_SPARSE, OUTSIDE_KILLED, swap
from memlab.text.printable import signal_name

SWAP_BYTES = 32 * MIB
LEAST_LIMIT = 8 * MIB  # the probe itself is in the group
EDGE_S = 1.0  # at the limit the kernel reclaims the file's own pages before it kills a process
GRANTED, WRITTEN = "mmap succeeds", "all is written"
WRITE_RATE = {"none": 300 * MIB, "file": 120 * MIB}  # guesses, bytes per second


def memory_and_swap(at: At) -> int:
    """The 16 parts of which the file is 30."""
    return int(at["file_size"]) * 16 // 30


def limit(at: At) -> int:
    return memory_and_swap(at) - (SWAP_BYTES if at["swap"] == "file" else 0)


def killed(process: Raw) -> bool:
    return bool(process["signal"] == signal.SIGKILL)


def processes(raw: Raw) -> list[Raw]:
    results: list[Raw] = raw["processes"][: raw["process_count"]]
    return results


def over_processes(name: str, of: Callable[[Raw, Raw], float]) -> Expression:
    """A sum over the processes."""

    def total(raw: Raw) -> float:
        return float(sum(of(raw, process) for process in processes(raw)))

    return each(f"sum_of_{name}", total, F)


def written(name: str, of: Callable[[Raw, Raw], float]) -> Expression:
    """None where no page was to be touched."""
    return over_processes(name, of).where(scope="group")


def completed(raw: Raw, process: Raw) -> bool:
    return bool(process["done_bytes"] == raw["requested_bytes"] and not process["signal"])


def word(raw: Raw, at: At) -> str:
    """What became of the processes."""
    results = processes(raw)
    refused, killed_count = sum(p["mmap_errno"] != 0 for p in results), sum(map(killed, results))
    if refused:
        names = {errno.errorcode.get(p["mmap_errno"], "?") for p in results if p["mmap_errno"]}
        return f"mmap fails: {', '.join(sorted(names))}"
    if at["scope"] == "host":
        return GRANTED
    if killed_count:
        return (
            "OOM-killed" if len(results) == 1 else f"OOM-killed: {killed_count} of {len(results)}"
        )
    return WRITTEN if all(completed(raw, p) for p in results) else "not all is written"


def evidence(raw: Raw, at: At) -> str:
    """What mmap answered each process and how far it came."""
    lines = [f"vm.overcommit_memory {at['overcommit']}, host's RAM and swap {raw['host_bytes']} B"]
    for process in processes(raw):
        number, ended = process["mmap_errno"], process["signal"]
        text = f"-1 {errno.errorcode.get(number, number)}" if number else "granted"
        end = f", {signal_name(ended)}" if ended else ""
        wrote = f", {process['done_bytes']} B written{end}" if at["scope"] == "group" else ""
        lines.append(f"mmap of {raw['requested_bytes']} B, {at['mapping']}: {text}{wrote}")
    return "\n".join(lines)


FAILS = "mmap fails"
KILLED = "mmap succeeds, OOM killer while writing"
ONE_KILLED = "mmap succeeds, OOM killer takes one process while writing"
NORMAL = "mmap succeeds, writing goes on normally"
# (case, scenario, mapping, the printed outcome)
ROWS = (
    (1, "a", "private", FAILS),
    (2, "a", "private_noreserve", KILLED),
    (3, "a", "shared", NORMAL),
    (4, "b", "private", ONE_KILLED),
    (5, "b", "private_noreserve", ONE_KILLED),
    (6, "b", "shared", NORMAL),
)
NAMED = {
    "private": "MAP_PRIVATE",
    "private_noreserve": "MAP_PRIVATE with MAP_NORESERVE",
    "shared": "MAP_SHARED",
}
WITH_SWAP = {"swap": "file"}  # the study's 16 G are memory and swap
SIZES = {
    "a": "30/16 of RAM and swap in one process",
    "b": "15/16 of RAM and swap in each of two processes",
}


def claims_of(case: int, scenario: str, mapping: str, outcome: str) -> Iterator[Count]:
    """mmap is judged on the whole host, where the study's 16 G were, with the kernel's default
    estimate; writing is judged in the cgroup."""
    process_count = 2 if scenario == "b" else 1
    mapped = f"{NAMED[mapping]} of {SIZES[scenario]}"
    printed = f"case {case}: scenario {scenario.upper()}, {NAMED[mapping]}: {outcome}"
    at = {"scenario": scenario, "mapping": mapping}
    refused = process_count if outcome == FAILS else 0
    yield Count(
        id=f"case-{case}-mmap",
        text=f"{mapped}: mmap {'fails' if refused else 'succeeds'}",
        metric="mmap_refused",
        where=at | {"scope": "host", "overcommit": "0"},
        equals=refused,
        exact=True,
        published=printed,
        controls=("whole_host", "always") if refused else (),
    )
    if refused:
        return
    normal = outcome == NORMAL
    yield Count(
        id=f"case-{case}-killed",
        text=f"{mapped}: the OOM killer kills {'none' if normal else 'one process'}",
        metric="killed",
        where=at | {"scope": "group"},
        judged_over=["swap"],
        nearest=WITH_SWAP,
        equals=0 if normal else 1,
        published=printed,
        controls=("swap",) if outcome == KILLED else (),
    )
    if normal or scenario == "b":
        rest = process_count if normal else 1
        yield Count(
            id=f"case-{case}-written",
            text=f"{mapped}: {'all is written' if normal else 'the other process writes all'}",
            metric="completed",
            where=at | {"scope": "group"},
            judged_over=["swap"],
            nearest=WITH_SWAP,
            equals=rest,
            published=printed,
        )


CLAIMS = [claim for row in ROWS for claim in claims_of(*row)]


def never_refused(scope: str, overcommit: str) -> Count:
    at = {"scope": scope, "scenario": "a", "mapping": "private", "overcommit": overcommit}
    return Count(metric="mmap_refused", where=at, equals=0)


CONTROLS = [
    control(
        "whole_host",
        "The same mappings in parts of the whole host's memory and swap, never touched.",
        {"scope": "host"},
        Explanation(
            never_refused("group", overcommit="0"),
            "mmap refuses {value} mappings that are larger than the cgroup's memory",
            confirmed="mmap checks against the whole host's memory and swap, and a cgroup's limit "
            "is met only when the pages are written",
            refuted="mmap checks against more than the whole host's memory",
        ),
        presets=("quick", "paper"),
    ),
    control(
        "always",
        "vm.overcommit_memory is 1, so that the kernel estimates nothing.",
        {"overcommit": "1", "scope": "host", "scenario": "a", "mapping": "private"},
        Explanation(
            never_refused("host", overcommit="1"),
            "with vm.overcommit_memory 1 mmap refuses the mapping larger than the host {value} "
            "times",
            confirmed="the kernel's estimate refuses the mapping, not a lack of addresses",
            refuted="more than the kernel's estimate refuses it",
        ),
        presets=("paper", "full"),
    ),
    control(
        "swap",
        "A quarter of the 16 parts is a swap file.",
        {"swap": ["file"], "scope": "group"},
        Explanation(
            Equivalent(
                metric="bytes_reached",
                where={"scenario": "a", "mapping": "private_noreserve"},
                of={"swap": "file"},
                to={"swap": "none"},
                within=0.1,
                timed=False,
            ),
            "with a quarter of the memory as swap the process wrote {of}, with memory alone {to}",
            confirmed="the sum of memory and swap decides how far the process gets",
            refuted="more than the sum of memory and swap decides it",
        ),
    ),
]


EXPERIMENT = Experiment(
    name="mmap-overcommit",
    question="Which processes are refused or killed when file mappings exceed memory and swap?",
    so=[
        Decision(
            "case-3-killed",
            "map a file MAP_SHARED if it may exceed memory and swap: it is written back, and none "
            "is killed",
            "a shared file mapping larger than memory gets processes killed here",
            if_holds=(0, 0),
            if_fails=(0, inf),
        ),
        Decision(
            "case-2-killed",
            "do not use MAP_NORESERVE to get more private memory than there is: the kill comes at "
            "the write",
            "MAP_NORESERVE got none killed here for private memory beyond RAM and swap",
            if_holds=(1, 1),
            if_fails=(0, 0),
        ),
    ],
    probe="mmap_overcommit",
    file=File(timed=False),
    factors=[
        Factor(
            "scenario",
            ENUM,
            quick=["a", "b"],
            help="scenario; a: one process maps 30 parts, where memory and swap are 16; b: two "
            "processes map 15 parts each",
            level_labels={
                "a": "one process, 30/16 of RAM and swap",
                "b": "two processes, 15/16 each",
            },
        ),
        Factor(
            "mapping",
            ENUM,
            quick=["private", "private_noreserve", "shared"],
            help="mapping; MAP_PRIVATE, the same with MAP_NORESERVE, or MAP_SHARED",
            level_labels={
                "private": "MAP_PRIVATE",
                "private_noreserve": "MAP_PRIVATE | MAP_NORESERVE",
                "shared": "MAP_SHARED",
            },
        ),
        Factor(
            "scope",
            ENUM,
            quick=["group"],
            full=["group", "host"],
            help="RAM and swap of; the 16 parts are the cgroup's memory and swap, and every page "
            "is written; or the whole host's, and no page is touched",
            level_labels={"group": "the cgroup", "host": "the whole host"},
        ),
        swap(
            "none",
            "file",
            quick=["none"],
            full=["none", "file"],
            help="swap; of the cgroup. The swap file's 32 MiB are among the 16 parts",
        ),
        Factor(
            "overcommit",
            choice("0", "1", "2"),
            quick=["0"],
            full=["0", "1"],
            help="vm.overcommit_memory; 0 refuses what is larger than the whole host, 1 nothing; 2 "
            "counts strictly, so that other programs of this host may be refused memory while the "
            "sweep runs, and is therefore in no preset",
            host=True,
        ),
        Factor(
            "file_size",
            BYTES,
            quick=[240 * MIB],
            paper=[480 * MIB],
            help="file size; the 30 parts, of which memory and swap together are 16",
        ),
        Factor(
            "filesystem",
            choice("dir", "tmpfs"),
            quick=["dir"],
            help="file system; dir: that of --dir; tmpfs: /dev/shm, where the file itself takes "
            "memory",
            level_labels={"dir": "file system of --dir"},
        ),
        Factor(
            "file_state",
            FILE_STATES,
            quick=["sparse"],
            help="state of the file; sparse: never written",
        ),
    ],
    excludes=[
        ONLY_SPARSE,
        Exclude(
            lambda at: int(at["file_size"]) % MIB != 0 or limit(at) < LEAST_LIMIT,
            "the file is a multiple of 1 MiB, and 16/30 of it, less the swap area's 32 MiB, must "
            "leave the cgroup 8 MiB",
        ),
        Exclude(
            lambda at: at["scope"] == "host" and at["swap"] != "none",
            "with scope=host no page is touched, so none is swapped",
        ),
    ],
    controls=CONTROLS,
    metrics=[
        # First, for the stop rule: what counts here is exact, and the least blocks are enough.
        Metric(
            "requested",
            "B",
            "bytes requested; by each process, of mmap",
            of=F.requested_bytes,
        ),
        Metric(
            "mmap_refused",
            "count",
            "mmap refused; number of processes",
            of=over_processes("refused", lambda _, p: p["mmap_errno"] != 0),
            evidence=evidence,
        ),
        Metric(
            "killed",
            "count",
            "processes killed; by the OOM killer",
            of=written("killed", lambda _, process: killed(process)),
            evidence=evidence,
        ),
        Metric(
            "completed",
            "count",
            "processes that finished; they wrote all of their mapping and were not killed",
            of=written("completed", completed),
            lower_is_better=False,
            evidence=evidence,
        ),
        Metric(
            "bytes_reached",
            "B",
            "bytes written; by all processes together",
            of=written("done_bytes", lambda _, process: process["done_bytes"]),
            lower_is_better=False,
            evidence=evidence,
        ),
        Metric(
            "group_oom_kills",
            "count",
            "OOM kills in the cgroup; by its own count",
            of=F.host.group_oom_kill.optional,
        ),
        OUTSIDE_KILLED,
    ],
    cost=Cost(
        memory=memory_and_swap,
        time=lambda at: (
            EDGE_S + int(at["file_size"]) / WRITE_RATE[str(at["swap"])]
            if at["scope"] == "group"
            else 0.2
        ),
    ),
    host=Host(
        containment=Containment(
            limit=limit, swap=lambda at: str(at["swap"]), swap_bytes=SWAP_BYTES
        ),
        settings=lambda at: {"/proc/sys/vm/overcommit_memory": str(at["overcommit"])},
        swap_counts=True,
    ),
    shrinks="file_size",
    tiny={"file_size": [30 * MIB]},
    judges={"logstore-mmap": ["overcommit"]},
    claims=CLAIMS,
    budget_s={"quick": 210.0, "paper": 600.0, "full": 1800.0},
    figure=Matrix(
        "bytes_reached",
        over="mapping",
        by=("scenario",),
        panels=("scope", "swap", "overcommit"),
        first={"scope": "host"},  # what mmap says, as the study's; then what writing does
        claims=["case-2-killed", "case-3-written", "case-4-killed"],
        word=word,
        calm=lambda phrase: phrase in (GRANTED, WRITTEN),
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
