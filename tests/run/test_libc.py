"""The probes under another libc, started by its own loader. A copy of this system's stands
in for an unpacked package."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from memlab import experiments, measure
from memlab.errors import BadRequest, CannotRun
from memlab.experiment.levels import read_levels
from memlab.experiment.points import Point
from memlab.machines.guest.handle import Guest
from memlab.observe import libc
from memlab.request import Request
from memlab.run import beforehand, plan
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor
from memlab.run.fork_server import ForkServer
from memlab.run.watch import Silent
from memlab.store import Store

MAPPED = re.compile(r"\S*/(?:libc\.so\.6|ld-linux\S*\.so\.\d|lib(?:m|rt|dl|pthread)\.so\.\d)$")
NOOP = {"probe": "noop", "params": {}, "file": None, "limit_s": 60.0}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """As dpkg -x makes it: the folder, with the libraries some way below it."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {Path(found[0]) for line in maps if (found := MAPPED.search(line))}
    loader = next((path for path in files if path.name.startswith("ld-linux")), None)
    if loader is None or not any(path.name == "libc.so.6" for path in files):
        pytest.skip("this system's libc is not glibc")
    folder = tmp_path / "libc6" / "usr/lib" / "any-linux-gnu"
    folder.mkdir(parents=True)
    for path in files:
        shutil.copy(path, folder)
    return tmp_path / "libc6"


def test_it_is_found_below_its_package_and_in_its_folder(unpacked: Path) -> None:
    own = os.confstr("CS_GNU_LIBC_VERSION")
    for named in (unpacked, unpacked / "usr/lib/any-linux-gnu"):
        assert f"glibc {libc.find(named).version}" == own


def test_what_is_no_libc_is_one_line(unpacked: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="has no libc: name the folder of an unpacked package"):
        libc.find(tmp_path / "nowhere")
    loader = libc.find(unpacked).loader
    loader.write_bytes(b"\x7fELF, of another machine")
    with pytest.raises(BadRequest, match=r"does not run here: \[Errno 8\] Exec format error"):
        libc.find(unpacked)


def test_the_server_and_its_workers_run_under_it(unpacked: Path) -> None:
    server = ForkServer(loader=libc.find(unpacked).command)
    try:
        reply = server.run({**NOOP, "cpus": sorted(os.sched_getaffinity(0))})
        maps = Path(f"/proc/{server.group}/maps").read_text(encoding="utf-8").split()
    finally:
        server.stop()
    assert reply["outcome"] == "ok"
    loaded = {path for path in maps if path.endswith("/libc.so.6")}
    assert loaded == {str(unpacked / "usr/lib/any-linux-gnu/libc.so.6")}


def test_a_run_keeps_it(unpacked: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in the request and the environment; a resumed run takes it again, unless another
    user may write there: a store may come from anybody."""
    asked = Request(
        "stack-map",
        levels={"lock": ["off"], "stack": [1 << 20], "touched": [4096], "threads": [2]},
        controls=False,
        blocks=1,
        libc=str(unpacked),
    )
    row = measure.sweep(asked, store_path, Silent())
    assert row.request["libc"] == str(unpacked)
    assert row.environment["libc_version"] == os.confstr("CS_GNU_LIBC_VERSION")
    with Store(store_path) as store:
        (sample,) = store.samples(row.id)
    assert sample.outcome == "ok"
    unpacked.chmod(0o777)
    with pytest.raises(CannotRun, match="a store may come from anybody"):
        measure.resume(row.id, store_path, Silent(), guest_of=Guest.of)


def test_not_in_a_guest(guest_less: Guest, store_path: Path) -> None:
    with pytest.raises(BadRequest, match="libc: a guest's own Python needs this host's libc"):
        measure.sweep(Request("stack-map", libc="/x"), store_path, Silent(), guest_less)


@pytest.fixture
def guest_less() -> Guest:
    """A guest that is never booted."""
    return Guest("/nowhere/vmlinuz")


def test_it_is_a_factor_within_a_run(
    unpacked: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Levels are folders, a version's in memlab's own, and `found`; each has its own server. One
    that is not a libc is `unavailable`, and the others are measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    version = libc.find(unpacked).version
    own = tmp_path / "cache/memlab/libc" / version
    own.parent.mkdir(parents=True)
    shutil.copytree(unpacked, own)
    none = tmp_path / "none"
    none.mkdir()
    declared = experiments.load("stack-map")
    levels = read_levels(declared, (f"glibc=found,{version},{none}",))
    assert levels["glibc"] == ["found", str(own), str(none)]
    assert declared.describe_level("glibc", str(own)) == version
    asked = Request(
        "stack-map",
        levels={"lock": ["off"], "stack": [1 << 20], "touched": [4096], "threads": [2], **levels},
        controls=False,
        blocks=1,
    )
    row = measure.sweep(asked, store_path, Silent())
    with Store(store_path) as store:
        points = {point.point: point.levels for point in store.points(row.id)}
        seen = {points[s.point]["glibc"]: s for s in store.samples(row.id)}
    assert {level: one.outcome for level, one in seen.items()} == {
        "found": "ok",
        str(own): "ok",
        str(none): "unavailable",
    }
    assert "has no libc" in (seen[str(none)].detail or "")


@pytest.mark.parametrize("in_guest", [False, True])
def test_a_folder_without_a_libc_is_said_before_anything_is_made(
    unpacked: Path, tmp_path: Path, in_guest: bool
) -> None:
    declared = experiments.load("stack-map")
    levels = {"glibc": ["found", str(unpacked), str(tmp_path / "nosuch")], "lock": ["off"]}
    points = plan.build(declared, "quick", levels, controls=False).points
    assert len(points) == 3
    lacking = beforehand.counted(beforehand.reasons(declared, points, in_guest=in_guest))
    assert [(why.partition(":")[0], count) for why, count in lacking.items()] == [
        (f"{tmp_path}/nosuch has no libc", 1)
    ]
    assert beforehand.libcs(declared, points) == [unpacked, tmp_path / "nosuch"]


def test_the_loader_is_the_points(unpacked: Path, tmp_path: Path) -> None:
    """`libc=DIR` is what a point without a libc of its own takes."""
    declared = experiments.load("stack-map")
    at = {factor.name: factor.quick[0] for factor in declared.factors}
    given = ("/any/loader",)
    with LocalExecutor("0123abcd", declared, Directories(tmp_path), [0], 1.0, given) as executor:
        assert executor._loader_of(Point(0, at, None)) == given
        other = executor._loader_of(Point(0, at | {"glibc": str(unpacked)}, None))
        assert list(other) == libc.find(unpacked).command
