"""What `memlab record --json` and `memlab show TRACE --json` print, as types."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import field

from memlab.present.documents import Document, Number
from memlab.trace.checking import Checked

if TYPE_CHECKING:
    from memlab.trace.account import TraceAccount
    from memlab.trace.file import Trace
    from memlab.trace.session import Recorded


class Recording(Document):
    """A trace that was recorded."""

    path: str
    elapsed_s: float = field(name="seconds")
    """From the first record to the last."""
    records: Number
    bytes: Number
    incomplete: str | None
    """Why it is; null where it is whole."""
    status: int
    """The exit status of the command; 0 of a process that ran already."""
    signal: int
    """That ended the command; 0 for none."""
    allocated_share: float | None
    """Of the anonymous memory that was touched, how much is in recorded allocations; null if none
    were asked for."""
    lockable_share: float | None
    """Of what was touched, how much a replay locks under lock=future; null if it is cut short."""
    looked_share: float | None
    """Of what was touched, how much is of processes whose use of pages again is known; null if
    none was looked at."""
    remarks: list[str]
    """What each answer from this trace says."""
    check: Sequence[Checked] | None
    """The replay beside the command, run once more; null without --check."""

    @classmethod
    def made_of(
        cls,
        trace: Trace,
        ended: Recorded,
        found: TraceAccount | None,
        checked: Sequence[Checked] = (),
    ) -> Self:
        return cls.from_attributes(
            trace,
            ended,
            path=str(trace.path),
            incomplete=trace.incomplete or None,
            allocated_share=found.allocated_share if found and trace.allocations else None,
            lockable_share=found.lockable_share if found else None,
            looked_share=found.looked_share if found and trace.used_again else None,
            remarks=[*trace.doubts],
            check=checked or None,
        )


class MappingKind(Document):
    """What was done with the mappings of one kind: the pages, in bytes."""

    peak_bytes: Number
    """The most that were there at a time."""
    read_bytes: Number
    """First touched by a read."""
    written_bytes: Number
    """First touched by a write, or copied after a touch."""
    given_back_bytes: Number
    touched_again_bytes: Number
    """Of those that were given back."""
    copied_bytes: Number
    """After a fork had made them common, by whichever process wrote first."""

    @classmethod
    def made_of(cls, account: TraceAccount, kind: str) -> Self:
        from memlab.trace.shown import PAGE

        return cls(
            peak_bytes=account.peak[kind] * PAGE,
            read_bytes=account.reads[kind] * PAGE,
            written_bytes=account.writes[kind] * PAGE,
            given_back_bytes=account.given_back[kind] * PAGE,
            touched_again_bytes=account.touched_again[kind] * PAGE,
            copied_bytes=account.copied[kind] * PAGE,
        )


class ProcessMemory(Document):
    """A process of the trace, with one of the highest peaks. Sizes are in bytes."""

    name: str
    peak_at_s: float
    anonymous_bytes: Number
    """Resident anonymous memory at its peak."""
    file_bytes: Number
    """Files and shared memory that a fault had mapped then; RSS has the pages around these too."""
    live_bytes: Number | None
    """Recorded blocks that were allocated then; null if none were asked for."""
    mean_anonymous_bytes: float
    """Resident anonymous memory on average over its life."""
    mean_live_bytes: float | None
    """Recorded blocks that were allocated, on average over its life."""


class Moment(Document):
    """What was there at a moment."""

    seconds: float
    """After the first record."""
    resident_bytes: dict[str, Number]
    """By kind of mapping."""
    given_back_bytes: Number
    """So far."""
    touched_again_bytes: Number
    """So far."""


class TraceShown(Document):
    """What a trace's program did with its memory."""

    path: str
    command: str
    """Its name, of 15 bytes at most; empty where the trace is redacted."""
    live: bool
    """The process ran already when the recording began."""
    elapsed_s: float = field(name="seconds")
    records: Number
    incomplete: str | None
    """Why it is; null where it is whole."""
    process_count: Number
    thread_count: Number
    """Beside each process's first."""
    peak_bytes: Number
    """Of the pages that were there at a time."""
    peak_at_s: float
    mapped_peak_bytes: Number
    calls: dict[str, Number]
    kinds: dict[str, MappingKind]
    """By kind of mapping."""
    files: dict[str, Number]
    """The files with most touched memory, in bytes."""
    allocated_share: float | None
    """Of the anonymous memory that was touched, how much is in recorded allocations; null if none
    were asked for."""
    lockable_share: float
    """Of what was touched, how much a replay locks under lock=future."""
    looked_share: float | None
    """Of what was touched, how much is of processes whose use of pages again is known; null if
    none was looked at."""
    offered_bytes: Number
    """That MADV_FREE named, each time."""
    populated_bytes: Number
    """That calls named which bring pages in at once, without a fault: they are not counted."""
    hugetlb_bytes: Number
    """The most that was mapped of hugetlb pages: a replay leaves them out."""
    device_bytes: Number
    """And of devices and buffers of the kernel."""
    unseen: Number
    """Processes that became programs which are not seen inside: set-id ones and the like."""
    inside_share: float | None
    """Of the program's page faults, how many are in the trace if a process was not followed to its
    end, else 1; null if that is not known."""
    without_huge_pages: bool
    """The command was kept from huge pages."""
    remarks: list[str]
    """What each answer from this trace says."""
    forbidden: Number
    """Faults that the rights of a mapping forbid: signals, or errors of calls."""
    processes: list[ProcessMemory]
    """Those with the highest peaks, the highest first."""
    moments: list[Moment]
    figures: list[str]
    """Paths of the files drawn."""

    @classmethod
    def made_of(cls, trace: Trace, found: TraceAccount, figure: Path) -> Self:
        from memlab.trace import file
        from memlab.trace.account import KINDS, inside_share
        from memlab.trace.shown import PAGE, process_names

        names = [] if trace.redacted else file.file_names(trace)
        count = len(found.moments)
        return cls.from_attributes(
            trace,
            found,
            path=str(trace.path),
            command=file.name(trace),
            process_count=found.processes,
            thread_count=found.threads,
            incomplete=trace.incomplete or None,
            peak_bytes=found.peak_pages * PAGE,
            peak_at_s=found.peak_ns * 1e-9,
            allocated_share=found.allocated_share if trace.allocations else None,
            looked_share=found.looked_share if trace.used_again else None,
            inside_share=inside_share(trace, found),
            offered_bytes=found.offered_pages * PAGE,
            without_huge_pages=trace.small_pages,
            remarks=[*trace.doubts],
            kinds={kind: MappingKind.made_of(found, kind) for kind in KINDS},
            files={
                names[number]: pages * PAGE for number, pages in found.files if number < len(names)
            },
            processes=[
                ProcessMemory(
                    name=name,
                    peak_at_s=one.peak_ns * 1e-9,
                    anonymous_bytes=one.anonymous * PAGE,
                    file_bytes=one.files * PAGE,
                    live_bytes=one.live if trace.allocations else None,
                    mean_anonymous_bytes=one.mean_anonymous * PAGE,
                    mean_live_bytes=one.mean_live if trace.allocations else None,
                )
                for name, one in zip(process_names(trace, found), found.by_process, strict=True)
            ],
            moments=[
                Moment(
                    seconds=trace.elapsed_s * (i + 1) / count,
                    resident_bytes={kind: row[j] * PAGE for j, kind in enumerate(KINDS)},
                    given_back_bytes=row[len(KINDS)] * PAGE,
                    touched_again_bytes=row[len(KINDS) + 1] * PAGE,
                )
                for i, row in enumerate(found.moments)
            ],
            unseen=found.unseen_count,
            figures=[str(figure)],
        )
