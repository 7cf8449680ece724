"""README.md's figures: what one run of `make bench` printed, with its date and machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memlab.observe import environment

BEGIN, END = "<!-- figures: make bench writes them -->", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Told:
    """A comparison: its test's name in words, whether it held, and what it printed."""

    title: str
    held: bool
    text: str


def renewed(page: str, head: str, told: Sequence[Told], not_run: Sequence[str]) -> str:
    """The page with the figures of this run. ValueError where it has no place for them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    lines = [head, "", *(line for one in told for line in _told(one))]
    lines += [f"Not run: {'; '.join(not_run)}.", ""] if not_run else []
    return "\n".join([before + BEGIN, "", *lines, END + after])


def _told(one: Told) -> Iterator[str]:
    """A heading, tables as they are, and other lines as a list."""
    yield from (f"### {one.title}", "")
    yield from () if one.held else ("**This did not hold.**", "")
    lines = [line.strip() for line in one.text.splitlines() if line.strip()]
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        table, begins = line.startswith("|"), after.startswith("| ---")
        if before and (before.startswith("|") != table or begins):
            yield ""
        yield line if table else f"- {line.replace('<', '&lt;')}"
    yield ""


def head(root: Path) -> str:
    """When, of which commit and on what machine the figures were recorded."""
    git = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    found = environment.read()
    return (
        f"Recorded on {datetime.now(UTC):%Y-%m-%d} by `make bench` of commit "
        f"{done.stdout.strip() or 'unknown'}: {found['cpu_count']} CPUs of {found['cpu_model']}, "
        f"Linux {found['kernel_release']}."
    )
