"""Maps of physical memory as files, and which range of them may be mapped: a model in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from memlab.observe import physical_memory

PAGE = 4096
LOWEST = 2**20
RAM, RESERVED, LEGACY = "System RAM", "Reserved", "Persistent Memory (legacy)"

Entry = tuple[int, int, str]  # first byte, last byte, what it is


@dataclass(frozen=True)
class Maps:
    """What a kernel would say. `told` are the ranges, by first and last byte, that `command_line`
    tells it to leave."""

    firmware: Sequence[Entry]
    iomem: Sequence[Entry]
    command_line: str = "quiet"
    told: Sequence[tuple[int, int]] = ()

    def write(self, root: Path) -> Path:
        lines = [f"{first:08x}-{last:08x} : {name}" for first, last, name in self.iomem]
        return write(root, "".join(f"{line}\n" for line in lines), self.firmware, self.command_line)

    def may(self, start: int, length: int) -> bool:
        """Whether a range may be mapped, byte for byte as DESIGN's rule has it."""
        last = start + length - 1
        if length <= 0 or start % PAGE or length % PAGE or start < LOWEST or last >= 2**63:
            return False
        met = [name for first, end, name in self.iomem if first <= last and start <= end]
        types = [name for first, end, name in self.firmware if first <= last and start <= end]
        rams = [(first, end) for first, end, name in self.firmware if name == RAM]
        return (
            set(met) <= {RESERVED, LEGACY}
            and set(types) <= {RAM}
            and any(first <= start and last <= end for first, end in rams)
            and any(first <= start and last <= end for first, end in self.told)
        )

    def largest(self, pages: Iterable[int]) -> tuple[int, int] | None:
        """Start and length of the largest range of those whose ends are among the pages."""
        runs = combinations_with_replacement(sorted(pages), 2)
        found = [(first, last + PAGE - first) for first, last in runs]
        good = [run for run in found if self.may(*run)]
        return min(good, key=lambda run: (-run[1], run[0]), default=None)


def write(root: Path, iomem: str, firmware: Sequence[Entry], command_line: str) -> Path:
    (root / "proc").mkdir(parents=True)
    (root / "proc/iomem").write_text(iomem, newline="")
    (root / "proc/cmdline").write_text(f"{command_line}\n")
    for number, (first, last, name) in enumerate(firmware):
        write_entry(root, str(number), f"{first:#x}\n", f"{last:#x}\n", f"{name}\n")
    return root


def write_entry(root: Path, number: str, start: str, end: str, kind: str) -> None:
    folder = root / "sys/firmware/memmap" / number
    folder.mkdir(parents=True)
    for name, text in (("start", start), ("end", end), ("type", kind)):
        (folder / name).write_text(text, newline="")


def asked(root: Path | str, start: int, length: int) -> dict[str, Any]:
    return answer(root, f"0x{start:x}+0x{length:x}")


def found(root: Path | str) -> dict[str, Any]:
    return answer(root, "")


def answer(root: Path | str, text: str) -> dict[str, Any]:
    """What the guard says of a range; of "", of the largest."""
    try:
        start, length = physical_memory.parse(text) if text else physical_memory.largest(str(root))
        physical_memory.judge(str(root), start, length)
    except physical_memory.RangeRefused as refused:
        return {"permitted": False, "refusal_errno": refused.errno, "refusal": str(refused)}
    return {"permitted": True, "start_bytes": start, "length_bytes": length}


def largest(root: Path | str) -> tuple[int, int] | None:
    answer = found(root)
    return (answer["start_bytes"], answer["length_bytes"]) if answer["permitted"] else None
