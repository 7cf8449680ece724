"""What `memlab kernels --json` prints, as types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import field

from memlab.present.documents import Document

if TYPE_CHECKING:
    from memlab.machines.guest.kernels import Found


class FoundKernel(Document):
    """A kernel at hand."""

    version: str
    """Of its sources, as in 6.1.192; 6.12.117-16k where its pages are of 16 KiB."""
    machine: str
    """As uname says it: x86_64 or aarch64."""
    release: str | None = field(name="kernel_release")
    """As the kernel names itself; null: the file is not a kernel that boots here."""
    released: str | None
    """The day; null: it does not say."""
    path: str
    why: str = field(name="reason")
    """Why it cannot boot as a guest; empty where it can."""
    without: str = field(name="missing")
    """What it boots without; empty where nothing is missing."""
    options: dict[str, str]
    """y, m or n for each option that matters here and that its configuration has."""

    @classmethod
    def made_of(cls, found: Found) -> Self:
        return cls.from_attributes(found, path=str(found.path))
