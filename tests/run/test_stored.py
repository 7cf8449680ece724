"""A stored run taken up again: what a store names is checked before it is loaded or written to."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memlab import experiments
from memlab.errors import BadLevels, CannotRun
from memlab.experiment.levels import read_levels
from memlab.experiment.points import Point
from memlab.experiments import _files
from memlab.machines.fleet import links as fleet
from memlab.machines.guest import image
from memlab.machines.guest.machine import GuestSpec
from memlab.observe import guest_tools
from memlab.request import Request
from memlab.run.plan import build
from memlab.run.prepare import check_stored, prepare

ALLOCATOR = experiments.load("allocator")
LIKE_A_NEW_RUNS = build(ALLOCATOR, "quick", {}).points


def loading(library: Path) -> list[Point]:
    return [Point(0, {**LIKE_A_NEW_RUNS[0].at, "allocator": "other", "library": str(library)})]


def request(**more: Any) -> Request:
    return Request("allocator", directory="/var/tmp", **more)


def test_a_run_as_it_began_goes_on(tmp_path: Path) -> None:
    check_stored(ALLOCATOR, LIKE_A_NEW_RUNS, request())
    library = tmp_path / "own.so"
    library.touch(0o600)
    check_stored(ALLOCATOR, loading(library), request())
    check_stored(ALLOCATOR, LIKE_A_NEW_RUNS, request(guest=vars_of(GuestSpec())))


def vars_of(spec: GuestSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in GuestSpec.__slots__}


def test_a_library_that_another_user_may_write_is_not_preloaded(tmp_path: Path) -> None:
    """A store is code then: its level would be loaded into root's trials by LD_PRELOAD."""
    library = tmp_path / "theirs.so"
    library.touch()
    library.chmod(0o666)
    with pytest.raises(CannotRun, match=r"theirs.so, and a store may .*: others may write to .*"):
        check_stored(ALLOCATOR, loading(library), request())
    for name, why in (("/nosuch.so", "No such file"), ("./own.so", "no whole path")):
        with pytest.raises(CannotRun, match=why):
            check_stored(ALLOCATOR, [Point(0, {"library": name})], request())


@pytest.mark.needs("root")
@pytest.mark.parametrize("what", ["library", "kernel"])
def test_nor_is_what_another_user_owns(tmp_path: Path, what: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.touch()
    os.chown(theirs, 65534, 65534)
    guest = vars_of(GuestSpec(kernel=str(theirs))) if what == "kernel" else None
    points = loading(theirs) if what == "library" else LIKE_A_NEW_RUNS
    with pytest.raises(CannotRun, match="theirs belongs to user nobody"):
        check_stored(ALLOCATOR, points, request(guest=guest))


def test_a_library_that_its_user_names_is_taken_whosever_it_is(tmp_path: Path) -> None:
    """Of a new run: whoever names a library on the command line has chosen to load it."""
    library = tmp_path / "theirs.so"
    library.touch()
    library.chmod(0o666)
    if os.geteuid() == 0:
        os.chown(library, 65534, 65534)
    levels = read_levels(ALLOCATOR, ["allocator=other", f"library={library}"])
    prepared = prepare(request(levels=levels, controls=False))
    assert {point.at["library"] for point in prepared.plan.points} == {str(library)}


@pytest.mark.parametrize(
    "levels", [{"nosuch": 1}, {"size": 2**80}, {"allocator": "LD_PRELOAD"}, {"library": 3}]
)
def test_levels_that_no_run_begins_with_are_refused(levels: dict[str, Any]) -> None:
    with pytest.raises(BadLevels):
        check_stored(ALLOCATOR, [Point(0, levels)], request())


def test_a_folder_for_files_is_checked_as_a_new_runs_is(tmp_path: Path) -> None:
    writes = experiments.load("mmap-write")
    with pytest.raises(CannotRun, match="is not a directory"):
        check_stored(writes, [], Request("mmap-write", directory=str(tmp_path / "nosuch")))


def test_no_program_of_the_current_folder_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty PATH, or an empty part of it, means the current folder elsewhere."""
    planted = tmp_path / "qemu-system-x86_64"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in ("", ":/usr/bin", ".:/usr/bin", "bin"):
        monkeypatch.setenv("PATH", path)
        assert guest_tools.find("qemu-system-x86_64") in (None, "/usr/bin/qemu-system-x86_64")


def test_nor_is_a_compiler_a_linkers_tool_or_ssh_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cc", "ldd", "ssh"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CC", raising=False)
    for path in ("", ".", ":/usr/sbin"):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(CannotRun, match=r"no working C compiler \(cc\)"):
            _files._compiler()
        with suppress(CannotRun):
            list(image._libraries(["/bin/sh"]))
        with suppress(CannotRun):
            assert fleet.command("host", fleet.HostLink(), ["true"])[0].startswith("/")
    assert not (tmp_path / "ran").exists()


@pytest.mark.needs("host root")
def test_root_runs_no_program_that_another_user_may_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "ldconfig"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert guest_tools.find("ldconfig") == str(planted)
    tmp_path.chmod(0o777)
    assert guest_tools.find("ldconfig") != str(planted)
