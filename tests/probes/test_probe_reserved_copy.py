"""reserved_copy: what needs no reserved memory is exact; what does is refused here, and by whom."""

import mmap
import resource
from pathlib import Path
from typing import Any

import in_child
import offers
import pytest

from memlab import experiments, probe
from memlab.experiment import Level
from memlab.experiment.points import Point
from memlab.observe import physical_memory
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor, default_cpus

PAGE = mmap.PAGESIZE
PRIME = 23
# Above malloc's threshold (mallopt(3)): a mapping of its own, whose header takes a page more.
SIZE = 64 * PAGE
CPU_FLAGS = Path("/proc/cpuinfo").read_text().split()
WITHIN_LIMIT = 128 * PAGE
RESERVED = ("malloc_to_reserved", "reserved_to_malloc", "reserved")
RUN = "a123abcd"
PARAMS: dict[str, Any] = {
    "size_bytes": SIZE,
    "memory": "malloc",
    "cache": "cached",
    "clean": "none",
    "lock": "none",
    **physical_memory.NONE,
}


def copy(limit_bytes: int | None = None, **change: Any) -> dict[str, Any]:
    return in_child.call("reserved_copy", PARAMS | change, locked_limit_bytes=limit_bytes)


def offered(**change: Any) -> dict[str, Any]:
    return offers.offered(
        lambda: copy(**change),
        lacking=change.get("clean", "none") not in ("none", *CPU_FLAGS),
    )


def locked_bytes(result: dict[str, Any]) -> int:
    count: int = result["window"]["counters"]["vm_locked_bytes"]["count"]
    return count


def flags(result: dict[str, Any]) -> set[str]:
    return set(result["smaps"].rpartition("VmFlags:")[2].split())


@pytest.mark.parametrize("size", [1, 4095, 4097, PRIME * PAGE, SIZE, 1_000_003])
@pytest.mark.parametrize("memory", ["malloc", "perf_ring"])
def test_every_byte_is_copied(memory: str, size: int) -> None:
    result = offered(memory=memory, size_bytes=size)
    assert result["copied_count"] == size
    assert (result["range_bytes"], result["memory_type"]) == (0, "")


def test_the_copy_into_cold_memory_takes_its_faults_and_none_is_left_where_it_is_locked() -> None:
    assert offered()["window"]["minor_fault_count"] == SIZE // PAGE
    assert offered(lock="mlock")["window"]["minor_fault_count"] == 0


def test_mlock_locks_the_destination_of_malloc() -> None:
    result = offered(lock="mlock")
    assert locked_bytes(result) == SIZE + PAGE
    assert "lo" in flags(result)
    assert locked_bytes(offered()) == 0


def test_mlock_of_a_perf_ring_returns_0_and_locks_nothing() -> None:
    """By its flags: VM_DONTEXPAND at least is what mlock passes over (mm/mlock.c)."""
    result = offered(memory="perf_ring", lock="mlock")
    assert locked_bytes(result) == 0
    assert "anon_inode:[perf_event]" in result["smaps"]
    assert flags(result) & {"pf", "io", "de"}
    assert "lo" not in flags(result)


@pytest.mark.parametrize("size", [1, 63, 64, 65, PRIME * 64, SIZE])
def test_an_imitation_copies_every_byte(size: int) -> None:
    result = offered(cache="imitated", lock="mlock", size_bytes=size)
    assert result["copied_count"] == size


@pytest.mark.parametrize("clean", probe.params("reserved_copy")["clean"])
def test_every_cleaner_leaves_the_bytes(clean: str) -> None:
    assert offered(clean=clean)["copied_count"] == SIZE


def refusal(text: str = "") -> str:
    """What the guard says of a range of this host; of "", of the largest."""
    try:
        found = physical_memory.parse(text) if text else physical_memory.largest("")
        physical_memory.judge("", *found)
    except physical_memory.RangeRefused as refused:
        return str(refused)
    pytest.skip("this host keeps memory back: it is for a sweep, and not for a test")


def trial(place: Path, **levels: Level) -> dict[str, Any]:
    """The reply of the worker, which opens the memory."""
    declared = experiments.load("reserved-copy")
    at = {factor.name: factor.quick[0] for factor in declared.factors} | levels
    with LocalExecutor(RUN, declared, Directories(place), default_cpus()) as executor:
        return executor.trial(Point(0, at))


@pytest.mark.parametrize("memory", RESERVED)
@pytest.mark.parametrize("cache", ["cached", "uncached"])
def test_without_memory_kept_back_the_row_says_what_to_do(
    memory: str, cache: str, tmp_path: Path
) -> None:
    reply = trial(tmp_path, memory=memory, cache=cache, size=SIZE)
    assert (reply["outcome"], reply["detail"]) == ("unavailable", refusal())


@pytest.mark.parametrize(
    "text", ["0x100000+0x100000", "0x0+0x100000", "0x1000000+0x10000000", "0x200000+0x0"]
)
def test_memory_in_use_is_refused_by_the_guard(text: str, tmp_path: Path) -> None:
    reply = trial(tmp_path, memory="reserved", range=text, size=SIZE)
    assert (reply["outcome"], reply["detail"]) == ("unavailable", refusal(text))


@pytest.mark.parametrize("memory", RESERVED)
def test_without_a_range_that_holds_the_copy_nothing_is_mapped(memory: str) -> None:
    with pytest.raises(probe.ProbeError) as caught:
        copy(memory=memory, range_bytes=SIZE - PAGE)
    assert caught.value.call == "range_bytes must hold the copy"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cache": "uncached"}, "only reserved memory can be mapped uncached"),
        ({"cache": "uncached", "memory": "perf_ring"}, "only reserved memory can be mapped"),
        ({"cache": "imitated", "memory": "reserved"}, "only in malloc's memory is uncached"),
        ({"size_bytes": 0}, "size_bytes must be from 1 to 1 TiB"),
        ({"size_bytes": 2**41}, "size_bytes must be from 1 to 1 TiB"),
    ],
)
def test_what_cannot_be_asked(change: dict[str, Any], words: str) -> None:
    with pytest.raises(probe.ProbeError) as caught:
        copy(**change)
    assert (caught.value.status, caught.value.errno_name) == ("error", "EINVAL")
    assert words in caught.value.call


def test_a_refused_lock_names_the_limit() -> None:
    with pytest.raises(probe.ProbeError) as caught:
        copy(limit_bytes=PAGE, lock="mlock")
    assert (caught.value.status, caught.value.errno_name) == ("unavailable", "ENOMEM")
    assert caught.value.call == f"mlock(memory), RLIMIT_MEMLOCK {PAGE} B"
    assert locked_bytes(copy(limit_bytes=WITHIN_LIMIT, lock="mlock")) == SIZE + PAGE


def test_nothing_stays_locked_or_open() -> None:
    """In one process, again and again: each would add to the next one's VmLck, or to its files."""
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] < 2 * SIZE:
        pytest.skip("RLIMIT_MEMLOCK is below two of this test's sizes")
    params = PARAMS | {"lock": "mlock"}
    seen = {locked_bytes(probe.call("reserved_copy", params)) for _ in range(3)}
    assert seen == {SIZE + PAGE}
