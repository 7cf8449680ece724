"""Hosts behind a pretended ssh: each has a folder, and with it a store of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synthetic import without_id

from memlab.run.machine_lock import TEST_LOCK
from memlab.store import Store

SSH = Path(__file__).parent / "pretended" / "ssh"
TINY = ["mmap-write", "-p", "size=4k", "-p", "file_size=1m", "-p", "filesystem=tmpfs"]
TINY += ["-p", "slice=2ms", "--no-controls"]


class Hosts:
    """What is behind the pretended ssh."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.names = folder, names
        for name in names:
            (folder / name).mkdir(parents=True)
            self.set(name, **{TEST_LOCK: f"{os.environ.get(TEST_LOCK, os.getpid())}/{name}"})

    def set(self, name: str, **environment: str) -> None:
        with (self.folder / name / "environment").open("a") as file:
            file.writelines(f"export {key}='{value}'\n" for key, value in environment.items())

    def cut(self, name: str, count_bytes: int | None) -> None:
        """Break a host's links after so many bytes."""
        place = self.folder / name / "cut"
        place.unlink(missing_ok=True)
        if count_bytes is not None:
            place.write_text(str(count_bytes))

    def store(self, name: str) -> Path:
        return self.folder / name / "data" / "memlab" / "results.db"


def held(store: Path, origin: str | None) -> dict[str, list[Any]]:
    """By run, the samples and sessions of the runs of one origin."""
    with Store(store) as opened:
        assert opened.damaged() == {}
        return {
            run.id: [
                opened.points(run.id),
                without_id([*opened.samples(run.id)]),
                [(s.session, s.ended, s.samples) for s in opened.sessions(run.id)],
            ]
            for run in opened.runs()
            if run.origin == origin
        }
