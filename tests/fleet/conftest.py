"""A fleet that is pretended."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from command import Command, memlab
from pretended_hosts import SSH, Hosts


@pytest.fixture
def command() -> Command:
    return memlab


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_path: Path) -> Hosts:
    made = Hosts(tmp_path / "hosts", ["a", "b", "c"])
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "memlab").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memlab "$@"\n')
    (programs / "memlab").chmod(0o755)
    # Not from the project's folder: root runs none from a folder that others may write to.
    shutil.copy(SSH, programs)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOSTS", str(made.folder))
    return made
