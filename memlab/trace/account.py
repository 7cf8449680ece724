"""What a trace's program did with its memory, as account.c counts it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import msgspec

from memlab.errors import BadTrace
from memlab.files import packed
from memlab.observe import files
from memlab.text import units
from memlab.trace import file

LEAST_SHARE = 0.5  # of a program that a recording has to show, or a policy is not answered
_SERIES_WORTH_SAYING = 0.05
KINDS = ("heap", "stack", "anonymous", "file", "shared")  # of mappings, as in account.c


class ProcessAccount(msgspec.Struct, frozen=True):
    """A process by its first task: pages that were resident at its peak, and bytes of live blocks
    then; the means over its life; and its course, these three at each of the moments. Files are the
    pages that a fault has mapped."""

    task: int
    anonymous: int
    files: int
    live: int
    peak_ns: int
    mean_anonymous: float
    mean_live: float
    course: list[tuple[int, int, int]]


class TraceAccount(msgspec.Struct, frozen=True):
    """Counts are in pages, and by kind of mapping where there are several. `moments` are rows at
    equal distances over the recorded time: the pages that were there by kind, then those that were
    given back, and those of them that were touched again, so far. `memory_pages` are the first
    touches of anonymous memory, and `block_pages` those of them in recorded allocations;
    `untouched_pages` are of blocks that a replay writes wholly, and the program did not.
    `touched_pages` are the first touches of all kinds, and `lockable_pages` those of programs that
    a lock can be preloaded into; none of a forked child's are (mlockall(2)). Without `has_start`
    there is no such program, and a replay locks each one at its exec. `looked_pages` are the first
    touches of processes of which it is known what they use again: of shorter ones it is not.
    `offered_pages` are those that MADV_FREE named, each time, `huge_asked_bytes` what MADV_HUGEPAGE
    did; `populated_bytes` were named by calls
    that bring pages in at once, which have no fault and are not counted. `forbidden` are faults
    that a mapping's rights forbid. `by_process` are the processes with the highest peaks.
    `again_pages` were used again at a look, in `again_units` of 64 KiB; of `guessed_pages` of them
    only the mapping is known. `reuse` are memory limits and how many units of files would be read
    again under each, beside `unreclaimable_peak` pages of anonymous and shared memory.
    `hugetlb_bytes` and `device_bytes` are the most that was mapped of hugetlb pages, and of devices
    and the kernel's buffers; they are in no other number, nor are the faults in them. `unseen` are
    the first of the tasks that became programs which the kernel shows to nobody. `series` are the
    programs of one name with the most faults that one process started one after another; empty if
    it has less than three."""

    calls: dict[str, int]
    reads: dict[str, int]
    writes: dict[str, int]
    given_back: dict[str, int]
    touched_again: dict[str, int]
    copied: dict[str, int]
    peak: dict[str, int]
    outside: int
    forbidden: int
    peak_pages: int
    peak_ns: int
    mapped_peak_bytes: int
    processes: int
    threads: int
    tasks_at_once: int
    state_pages: int
    memory_pages: int
    block_pages: int
    untouched_pages: int
    touched_pages: int
    lockable_pages: int
    looked_pages: int
    offered_pages: int
    populated_bytes: int
    again_pages: int
    guessed_pages: int
    again_units: int
    unreclaimable_peak: int
    hugetlb_bytes: int
    hugetlb_faults: int
    device_bytes: int
    device_faults: int
    huge_asked_bytes: int
    has_start: bool
    waited_faults: int  # of the command and all that it could wait for
    unseen_count: int
    unseen: list[int]
    series: list[int]  # the first task of it, how many programs, and their faults
    reuse: list[tuple[int, int]]
    files: list[tuple[int, int]]
    by_process: list[ProcessAccount]
    moments: list[list[int]]

    @property
    def allocated_share(self) -> float:
        """Of the anonymous memory that was touched, how much is in recorded allocations."""
        return self.block_pages / self.memory_pages if self.memory_pages else 0.0

    @property
    def untouched_share(self) -> float:
        """How many pages a replay of the allocations writes beyond those that were touched."""
        return self.untouched_pages / self.block_pages if self.block_pages else 0.0

    @property
    def guessed_share(self) -> float:
        """Of the pages that were used again, those of which only the mapping is known."""
        return self.guessed_pages / self.again_pages if self.again_pages else 0.0

    @property
    def looked_share(self) -> float:
        """Of what was touched, how much is of processes whose use of pages again is known."""
        return self.looked_pages / self.touched_pages if self.touched_pages else 0.0

    @property
    def shows_reuse(self) -> bool:
        """Whether a memory limit can be answered by numbers."""
        return self.looked_share >= LEAST_SHARE and self.guessed_share <= 1 - LEAST_SHARE

    @property
    def faults(self) -> int:
        """All of its page faults that are in the trace."""
        counted = sum(self.reads.values()) + sum(self.writes.values())
        apart = self.outside + self.forbidden + self.hugetlb_faults + self.device_faults
        return counted + apart

    @property
    def apart(self) -> Iterator[str]:
        """What a replay leaves out, in clauses."""
        parts = [
            ("hugetlb pages", self.hugetlb_bytes, self.hugetlb_faults),
            ("devices and buffers of the kernel", self.device_bytes, self.device_faults),
        ]
        for what, bytes, faults in parts:
            if bytes:
                size = units.format_quantity(bytes, "B")
                yield f"up to {size} of {what}, with {units.counted(faults, 'fault')}"

    @property
    def lockable_share(self) -> float:
        """Of what was touched, how much a lock is in force for."""
        return self.lockable_pages / self.touched_pages if self.touched_pages else 1.0


def inside_share(trace: file.Trace, counted: TraceAccount) -> float | None:
    """Of the page faults of a program that was not wholly followed, how many are in its trace; None
    if that is not known."""
    if not trace.unfollowed:
        return 1.0
    return min(1.0, counted.faults / _all_faults(trace, counted)) if trace.faults else None


def _all_faults(trace: file.Trace, counted: TraceAccount) -> int:
    """With those that wait4(2) leaves out."""
    return trace.faults + counted.faults - counted.waited_faults


def inside_most(trace: file.Trace, counted: TraceAccount) -> float | None:
    """The most that it can be: what its own calls bring in (MAP_POPULATE, mlock) are faults to
    wait4(2), and none in the trace."""
    share = inside_share(trace, counted)
    if share is None or share == 1:
        return share
    if "lock_all" in counted.calls:
        return 1.0
    pages = counted.populated_bytes // os.sysconf("SC_PAGESIZE")
    return min(1.0, (counted.faults + pages) / _all_faults(trace, counted))


def inside(trace: file.Trace, counted: TraceAccount) -> str:
    """As a clause."""
    shares = inside_share(trace, counted), inside_most(trace, counted)
    percents = [units.format_percent(one) for one in shares if one is not None]
    if not percents:
        return "how much of the program is not in the trace is not known"
    return f"{' to '.join(dict.fromkeys(percents))} of the program's page faults are in the trace"


def series(trace: file.Trace, counted: TraceAccount) -> Iterator[str]:
    """A clause if many page faults are of programs that may be more in another run."""
    if not counted.series or trace.redacted:
        return
    task, count, faults = counted.series
    share = faults / counted.faults if counted.faults else 0.0
    if share >= _SERIES_WORTH_SAYING:
        (name,) = file.task_names(trace, [task])
        yield (
            f"{units.format_percent(share)} of its page faults are of {count} processes of "
            f"{name or 'a program'}, one after another: a loop that waits starts more of them in a "
            "slower run, as a recorded one is"
        )


def of(trace: file.Trace) -> TraceAccount:
    """BadTrace where the trace is damaged: every record is looked at."""
    try:
        with files.opened(trace.source) as source, packed.plain(source) as path:
            found = subprocess.run(
                [file.tool("account"), str(path)], capture_output=True, check=False
            )
    except (packed.BadPacking, OSError) as error:
        why = getattr(error, "strerror", None) or f"it is damaged: {error}"
        raise BadTrace(f"{trace.path}: {why}") from None
    if found.returncode:
        why = found.stderr.decode(errors="replace").strip() or f"account: {found.returncode}"
        raise BadTrace(f"{trace.path}: {why}")
    return msgspec.json.decode(found.stdout, type=TraceAccount)
