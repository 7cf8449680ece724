"""Memory that is mapped and is no heap: files by name, rings of sockets, what is pinned."""

from __future__ import annotations

import pytest

from memlab.diagnose import stock
from memlab.diagnose.account import Line
from memlab.diagnose.look import Look, MappingUse

from .looks import MiB, look, memory


def seen(name: str, resident: int, *, shmem: int = 0, whole: int = 256 * MiB) -> Look:
    held = memory(resident_bytes=whole, anonymous_bytes=16 * MiB, shmem_bytes=shmem)
    return look(largest=(MappingUse(name, resident, 0),), memory=held)


def line(made: Look, name: str) -> Line:
    return next(one for one in stock.of(made).lines if one.name == name)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (seen("/data/pieces.bin", 200 * MiB), "among them pieces.bin"),
        (seen("/data/pieces.bin", 15 * MiB, whole=40 * MiB), ""),  # little
        (seen("/data/pieces.bin", 20 * MiB), ""),  # a small part
        (seen("/data/pieces.bin", 200 * MiB, shmem=200 * MiB), ""),  # may be of a tmpfs
        (seen("/data/pieces.bin", 245 * MiB), ""),  # copies of its pages among it
        (seen("/memfd:buffers (deleted)", 200 * MiB), ""),
        (seen("anonymous at 7f0000000000", 200 * MiB), ""),
        (seen("socket:[7]", 64 * MiB), "64 MiB of it a ring of its socket: the kernel's memory"),
    ],
)
def test_a_large_mapping_of_a_file_has_its_name(made: Look, words: str) -> None:
    """A torrent that is mapped (htop#924), a ring of packet(7)."""
    assert line(made, "files, mapped").note == words


@pytest.mark.parametrize(("pinned", "of"), [(20 * MiB, "all"), (63 * MiB, "none")])
def test_rings_of_perf_events_are_pinned_beside_what_is_resident(pinned: int, of: str) -> None:
    made = look(memory=memory(pinned_bytes=pinned))
    assert line(made, "pinned").part_of == of
    (found,) = (one for one in stock.findings(made) if one.name == "pinned")
    assert "rings of perf events" in found.title
