"""An initramfs: an archive in the format newc, cpio(5), that the kernel unpacks as its first root
(the kernel's driver-api/early-userspace)."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A file, folder, link or device. `content` of a link is where it points."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)
    modified_s: int = 0


CONSOLE = (
    ArchiveMember("dev", stat.S_IFDIR | 0o755),
    ArchiveMember("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
)


def archive(members: Iterable[ArchiveMember]) -> bytes:
    """All of them, each folder before what lies in it, as the caller orders them."""
    return b"".join(map(_packed, (*members, ArchiveMember("TRAILER!!!", 0))))


def _packed(member: ArchiveMember) -> bytes:
    path, content = member.name.encode() + b"\0", member.content
    modified_s = member.modified_s & 0xFFFFFFFF
    numbers = (0, member.mode, 0, 0, 1, modified_s, len(content), 0, 0, *member.device)
    head = b"070701" + b"".join(b"%08X" % number for number in (*numbers, len(path), 0))
    return _padded(head + path) + _padded(content)


def _padded(text: bytes) -> bytes:
    return text + b"\0" * (-len(text) % 4)
