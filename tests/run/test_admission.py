"""Admission: what a plan needs against what the host has; nothing is made to find out."""

from pathlib import Path

import pytest
from synthetic import experiment

from memlab import experiments
from memlab.errors import Refused
from memlab.experiment import COUNT, Containment, Cost, Factor, Host, choice
from memlab.observe import available
from memlab.run import admission
from memlab.run.admission import Directories, Resources
from memlab.run.plan import build

MIB, GIB = 2**20, 2**30
EXPERIMENT = experiments.load("mmap-write")
PLACES = Directories(Path("/disk"), Path("/shm"))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Free bytes, by what: change it to make the host larger or smaller."""
    free = {"memory": 8 * GIB, "/disk": 8 * GIB, "/shm": 4 * GIB, "/dev/shm": 4 * GIB}
    groups = {"group": Path("/g")}

    def memory() -> available.AvailableMemory:
        there = [name for name in ("memory", "group") if name in free]
        rooms = [available.AvailableMemory(free[name], groups.get(name)) for name in there]
        return min(rooms, key=lambda room: room.left)

    monkeypatch.setattr(available, "memory", memory)
    monkeypatch.setattr(available, "disk", lambda path: free[str(path)])
    monkeypatch.setattr(admission, "own_bytes", lambda _: 0)
    return free


BOTH: dict[str, list] = {"filesystem": ["dir", "tmpfs"], "file_state": ["cached_4k"]}


def need(**levels: list) -> Resources:
    plan, _ = admission.admit(EXPERIMENT, "quick", BOTH | levels, PLACES)
    return admission.need(EXPERIMENT, plan.points, PLACES)


def test_files_of_a_place_and_a_state_are_shared_by_all_points(host: dict[str, int]) -> None:
    found = need(file_size=[256 * MIB])
    assert found.disk_bytes == {Path("/disk"): 256 * MIB, Path("/shm"): 256 * MIB}
    assert found.memory_bytes == 512 * MIB + 16 * MIB + 2 * 10240  # and the largest trial


def test_files_of_two_states_lie_side_by_side(host: dict[str, int]) -> None:
    found = need(file_size=[MIB], file_state=["cached_4k", "cached_1m"], filesystem=["dir"])
    assert found.disk_bytes == {Path("/disk"): 2 * MIB}


def test_an_experiment_without_a_file_needs_its_largest_point() -> None:
    costly = experiment(cost=Cost(memory=lambda at: at["size"], time=lambda at: 2.0))
    plan, _ = admission.admit(costly, "quick", {}, PLACES)
    found = admission.need(costly, plan.points, PLACES)
    assert (found.memory_bytes, dict(found.disk_bytes)) == (8192, {})
    assert found.block_s == pytest.approx(6 * (2.0 + admission.TRIAL_OVERHEAD_S))


def test_enough_is_a_quarter_more_than_is_needed(host: dict[str, int]) -> None:
    wanted = Resources(800, {Path("/disk"): 800}, 1.0)
    host["memory"] = host["/disk"] = 1000
    assert admission.shortage(wanted) is None
    host["/disk"] = 999
    assert admission.shortage(wanted) == (
        "the plan needs 1000 B of free space on /disk, and 999 B is free"
    )
    host["memory"] = 999
    said = "the plan, with memlab itself, needs 1000 B of free memory, and 999 B is free"
    assert admission.shortage(wanted) == said


def test_memlab_itself_needs_memory_too(host: dict[str, int]) -> None:
    """Also for a plan that needs none."""
    host["memory"] = 100 * MIB
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(admission, "own_bytes", lambda most: most)
        assert admission.shortage(Resources(0, {}, 0.0), own=80 * MIB) is None
        said = str(admission.shortage(Resources(0, {}, 0.0), own=88 * MIB))
    assert said == "the plan, with memlab itself, needs 110 MiB of free memory, and 100 MiB is free"


def test_a_size_that_the_preset_chose_is_halved_until_it_fits(host: dict[str, int]) -> None:
    host["/disk"] = 25 * MIB
    plan, scaled = admission.admit(EXPERIMENT, "quick", BOTH, PLACES)
    assert {point.at["file_size"] for point in plan.points} == {16 * MIB}
    assert scaled == {"file_size": "16 MiB instead of 64 MiB"}


def test_a_size_that_the_user_chose_is_refused_with_numbers(host: dict[str, int]) -> None:
    host["/disk"] = 100 * MIB
    with pytest.raises(Refused) as refused:
        admission.admit(EXPERIMENT, "quick", BOTH | {"file_size": [256 * MIB]}, PLACES)
    assert str(refused.value) == (
        "the plan needs 320 MiB of free space on /disk, and 100 MiB is free; "
        "free some, or choose a smaller file_size with -p"
    )


def test_a_host_too_small_for_any_size_is_refused(host: dict[str, int]) -> None:
    host["memory"] = MIB
    with pytest.raises(Refused, match="even the smallest file_size does not fit"):
        admission.admit(EXPERIMENT, "quick", {}, PLACES)


def test_an_experiment_that_does_not_shrink_is_refused(host: dict[str, int]) -> None:
    costly = experiment(cost=Cost(memory=lambda _: 100 * GIB))
    with pytest.raises(
        Refused,
        match="the plan, with memlab itself, needs 125 GiB of free memory, and 8 GiB is free",
    ):
        admission.admit(costly, "quick", {}, PLACES)


def test_directories() -> None:
    assert PLACES.of("tmpfs") == Path("/shm")
    assert PLACES.of("dir") == Path("/disk")
    assert Directories(Path("/disk")).tmpfs == Path("/dev/shm")


def test_a_count_is_halved_too(host: dict[str, int]) -> None:
    faults = experiments.load("page-fault")
    host["memory"] = 16 * GIB
    plan, scaled = admission.admit(faults, "paper", {}, PLACES)
    assert {point.at["chunks"] for point in plan.points} == {10_000}
    assert scaled == {"chunks": "10000 instead of 20000"}


def test_a_host_too_small_for_one_is_refused(host: dict[str, int]) -> None:
    host["memory"] = MIB
    with pytest.raises(Refused, match="even the smallest chunks does not fit"):
        admission.admit(experiments.load("page-fault"), "paper", {}, PLACES)


def test_the_limit_of_the_own_group_counts(host: dict[str, int]) -> None:
    host["group"] = 999
    assert admission.shortage(Resources(800, {}, 1.0)) == (
        "the plan, with memlab itself, needs 1000 B of free memory in this process's cgroup /g, "
        "and 999 B is free"
    )


SWAP = Factor("swap", choice("none", "file", "zram"), "kind", ["none"], host=True)


@pytest.mark.parametrize(
    ("swap", "required", "memory", "disk"),
    [
        ("none", True, 2 * GIB, 0),  # held to its limit, though it asks for more
        ("none", False, 6 * GIB, 0),  # may run outside
        ("file", True, 2 * GIB, 3 * GIB),
        ("zram", True, 5 * GIB, 0),  # of memory, where nothing compresses
    ],
)
def test_a_contained_point_needs_its_limit_and_its_swap(
    swap: str, required: bool, memory: int, disk: int
) -> None:
    held = Containment(
        limit=lambda _: 2 * GIB,
        swap=lambda at: at["swap"],
        swap_bytes=3 * GIB,
        required=lambda _: required,
    )
    declared = experiment(
        factors=[SWAP], excludes=[], cost=Cost(memory=lambda _: 6 * GIB), host=Host(held)
    )
    plan = build(declared, "quick", {"swap": [swap]}, controls=False)
    found = admission.need(declared, plan.points, PLACES)
    assert (found.memory_bytes, dict(found.disk_bytes)) == (
        memory,
        {PLACES.dir: disk} if disk else {},
    )


def test_a_count_is_halved_and_never_below_one(host: dict[str, int]) -> None:
    workers = Factor("worker", COUNT, "how many", [1, 4, 16])
    costly = experiment(
        factors=[workers],
        controls=[],
        excludes=[],
        shrinks="worker",
        cost=Cost(memory=lambda at: at["worker"] * GIB),
    )
    plan, scaled = admission.admit(costly, "quick", {}, PLACES)
    assert [point.at["worker"] for point in plan.points] == [1, 4]
    assert scaled == {"worker": "1, 4 instead of 1, 4, 16"}
    host["memory"] = GIB
    with pytest.raises(Refused, match="and 1 GiB is free; even the smallest worker does not fit"):
        admission.admit(costly, "quick", {}, PLACES)
