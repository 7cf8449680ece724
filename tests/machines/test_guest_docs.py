"""Every command of the documentation that is about guests, as it stands there.

Where the page names a kernel, the kernel of the tests lies at that path.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from shown import GUESTS, ROOT, run, write_files

from memlab.run.kernel import modules, read

PAGE = ROOT / "docs" / "kernels.md"
KERNEL = re.compile(r"[\w./~+-]*/(?:vmlinuz-|bzImage)[\w.+-]*")
LIMIT_S = 900.0  # an emulated guest on a machine with other work


@pytest.fixture
def environment(guest_kernel: str, home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MEMLAB_SWEEP_BLOCKS": "1",  # whole, however slow the emulator: two runs must share points
        "COLUMNS": "200",
    }


def put_kernel(named: str, folder: Path, home: Path, guest_kernel: str) -> None:
    """The kernel of the tests, with its modules, at a path that a page names."""
    path = home / named[2:] if named.startswith("~/") else folder / named
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.symlink_to(guest_kernel)
    kernel = read(Path(guest_kernel))
    found = modules(kernel)
    if found is not None:
        beside = path.parents[1] / "lib/modules" / kernel.release
        beside.parent.mkdir(parents=True, exist_ok=True)
        if not beside.exists():
            beside.symlink_to(found)


@pytest.mark.slow
def test_the_pages_commands(
    environment: dict[str, str],
    home: Path,
    tmp_path: Path,
    guest_kernel: str,
) -> None:
    """In their order, in one folder: one reads what another stored."""
    write_files(PAGE, tmp_path)
    for named in KERNEL.findall(PAGE.read_text(encoding="utf-8")):
        if not named.startswith("/"):
            put_kernel(named, tmp_path, home, guest_kernel)
    shown = [command for page, command in GUESTS if page == PAGE]
    assert any(command.startswith("memlab compare ") for command in shown)
    for command in shown:
        run(command, tmp_path, environment, LIMIT_S)
