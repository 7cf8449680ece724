"""The page of several hosts: each command that it shows, in its order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pretended_hosts import TINY, Hosts
from shown import FLEET, run

pytestmark = pytest.mark.slow


def test_every_command_of_the_page_runs(hosts: Hosts, tmp_path: Path) -> None:
    for _ in range(2):  # what history reads: two nights
        run(f"memlab sweep {' '.join(TINY)} --blocks 6 -q", tmp_path, dict(os.environ))
    for _, command in FLEET:
        run(command, tmp_path, dict(os.environ))
    words = (command.split()[1:] for _, command in FLEET)
    used = {of[2] if of[0] == "--store" else of[0] for of in words}
    assert used == {"sweep", "claims", "export", "hosts", "history"}
