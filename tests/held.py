"""Trials in a group, with swap, of probes that are a line of Python; and what they have left."""

import mmap
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from synthetic import experiment

from memlab.experiment import COUNT, Containment, Experiment, Factor, Host, Kind, choice
from memlab.experiment.points import Point
from memlab.observe import capabilities, cgroup, proc
from memlab.run import cleanup, guardian, journal
from memlab.run.journal import Journal

RUN = f"{os.getpid():08x}"  # of this process alone: other tests may be at work beside it
MIB = 2**20
LIMIT = 32 * MIB
GROUPS = capabilities.memory_cgroup(proc.ROOT).available
MAY_SWAP = capabilities.add_swap(proc.ROOT).available
SWAPS = GROUPS and MAY_SWAP

# A parent whose probe is a line of Python, for what no compiled probe does.
PYTHON_PROBE = (
    "import os, signal, time; from memlab import probe;"
    "probe.call = lambda name, params: {'said': eval(params.get('do', '0'))};"
)
TOUCH_64_MIB = "[bytearray(b'x') * (64 << 20), open('/proc/self/status').read()][1]"
_LINE = Kind("line of Python", str, str, str)


def faulting(**containment: Any) -> Experiment:
    """known_faults, by point: how many pages, in which way, with which swap."""
    factors = [
        Factor("page", COUNT, quick=[23], help="pages"),
        Factor("way", choice("touch", "child"), quick=["touch"], help="who touches them"),
        _SWAP,
    ]
    return experiment(probe="known_faults", factors=factors, host=Host(contained(**containment)))


def saying(**host: Any) -> Experiment:
    """A line of Python; the parent has to be one of PYTHON_PROBE."""
    factors = [Factor("do", _LINE, quick=["7"], help="evaluated"), _SWAP]
    return experiment(
        probe="noop", factors=factors, host=Host(**{"containment": contained()} | host)
    )


_SWAP = Factor("swap", choice("none", "file", "zram"), quick=["none"], help="swap", host=True)


def contained(**declared: Any) -> Containment:
    own = {"limit": lambda _: LIMIT, "swap": lambda at: at["swap"], "swap_bytes": 96 * MIB}
    return Containment(**own | declared)


def at(**levels: Any) -> Point:
    return Point(0, {"swap": "none"} | levels, None)


def left_on_host() -> list[str]:
    """Groups and swap of our run."""
    mount = cgroup.locate().memory_mount
    # Others' groups may go meanwhile: os.walk passes over them, Path.rglob does not.
    folders = [folder for folder, _, _ in os.walk(mount)] if mount else []
    groups = [folder for folder in folders if Path(folder).name.startswith(f"memlab-{RUN}-")]
    return groups + own_areas() + own_zram()


def own_areas() -> list[str]:
    """The kinds of the run's areas that are on."""
    areas = [str(area["path"]) for area in proc.parse_swaps(proc.read(Path("/proc/swaps")))]
    files = ["file" for area in areas if f"memlab-{RUN}-" in area]
    return files + ["zram" for area in areas if area in own_zram()]


def own_zram() -> list[str]:
    """The device files whose swap label is the run's."""
    found = []
    for node in Path("/dev").glob("zram*"):
        with suppress(OSError), node.open("rb", buffering=0) as device:
            if device.read(mmap.PAGESIZE)[cleanup.LABEL_AT :].startswith(f"memlab-{RUN}".encode()):
                found.append(str(node))
    return found


def is_unavailable(reply: Mapping[str, Any], what: str) -> bool:
    """The row of a host that offers no such thing: what is needed, and what to do."""
    assert reply["outcome"] == "unavailable", reply
    assert reply["detail"].startswith(f"needs {what}, and "), reply
    assert ": " in reply["detail"]
    assert "result" not in reply
    return True


def held_or_skipped(
    reply: Mapping[str, Any], offered: bool = GROUPS, what: str = "a memory cgroup"
) -> Mapping[str, Any]:
    """The reply of a host that offers this. Elsewhere its row says what is needed, and the rest of
    the test is skipped with the row's words."""
    if not offered:
        assert is_unavailable(reply, what)
        pytest.skip(reply["detail"])
    return reply


ANY_SETTING = "from memlab.run import cleanup; cleanup.SETTINGS = ('/',); "


def with_any_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the test's may stand for a setting, here and in a guardian started here."""
    monkeypatch.setattr(cleanup, "SETTINGS", ("/",))
    monkeypatch.setattr(guardian, "_BOOT", guardian._BOOT.replace("main()", ANY_SETTING + "main()"))


def refused(kind: str, path: Path, **more: str) -> str:
    """Why a damaged journal is not undone; it stays."""
    opened = Journal(RUN)
    opened._write({"undo": kind, "path": str(path)} | more)
    os.close(opened.fd)
    (failure,) = journal.undo(opened.path)
    assert opened.path.exists()
    opened.path.unlink()
    return failure.removesuffix(f"; look at it, then remove {opened.path}")
