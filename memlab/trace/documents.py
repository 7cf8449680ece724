"""What `memlab record --json` and `memlab show TRACE --json` print, as types."""

from __future__ import annotations

from memlab.present.documents import Document, Number, Positive


class Recording(Document):
    """A trace that was recorded."""

    trace: str
    """The file's path."""
    seconds: float
    """From the first record to the last."""
    records: Number
    bytes: Number
    incomplete: str | None
    """Why it is; null where it is whole."""
    status: int
    """The exit status of the command; 0 of a process that ran already."""
    signal: int
    """That ended the command; 0 for none."""


class MappingKind(Document):
    """What was done with the mappings of one kind. Counts are pages."""

    peak: Number
    """That were there at a time."""
    read: Number
    """First touches that read."""
    written: Number
    """First touches that wrote, and those after which a page was copied."""
    given_back: Number
    touched_again: Number
    """Of those that were given back."""
    copied: Number
    """Since a fork had made them common."""


class Moment(Document):
    """What was there at a moment, in bytes."""

    at_s: float
    held: dict[str, Number]
    """By kind of mapping."""
    given_back: Number
    """So far."""
    touched_again: Number
    """So far."""


class TraceShown(Document):
    """What a trace's program did with its memory."""

    trace: str
    """The file's path."""
    program: str
    """Its name, of 15 bytes at most; empty where the trace is redacted."""
    live: bool
    """The process ran already when the recording began."""
    seconds: float
    records: Number
    incomplete: str | None
    """Why it is; null where it is whole."""
    processes: Number
    threads: Number
    """Beside each process's first."""
    page_bytes: Positive
    peak_bytes: Number
    """Of the pages that were there at a time."""
    peak_at_s: float
    mapped_peak_bytes: Number
    calls: dict[str, Number]
    kinds: dict[str, MappingKind]
    """By kind of mapping."""
    files: dict[str, Number]
    """The files with the most touched pages."""
    moments: list[Moment]
    figure: str
    """The file's path."""
