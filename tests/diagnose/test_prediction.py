"""What `--if` predicts of a look, at prices that are given: spans, their bounds, and refusals."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from memlab.diagnose import fault, prediction
from memlab.diagnose.api import diagnose_process
from memlab.diagnose.prediction import Prediction
from memlab.errors import BadRequest
from memlab.present import documents

from .live import Compiled, running
from .looks import GLIBC, JEMALLOC, MiB, look, memory, rates

PRICES = {
    "fault": (1e-6, 2e-6),
    "give_back": (1e-7, 2e-7),
    "populate": (2e-7, 4e-7),
    "trap": (7e-7, 1.7e-6),
    "huge": (1e-7, 2e-7),
}


@pytest.fixture(autouse=True)
def _prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault, "prices", lambda: PRICES)


def predicted(policy: str, **seen: Any) -> dict[str, tuple[float, float]]:
    (found,) = predictions(policy, **seen)
    return {metric.metric: (metric.low, metric.high) for metric in found.metrics}


def predictions(*policies: str, **seen: Any) -> tuple[Prediction, ...]:
    return prediction.of(look(**seen), prediction.read(policies))


def test_kept_memory_takes_no_fault_beyond_growth() -> None:
    purging = rates(madvise_dontneed=1e3, minor_faults=1e5)
    grown = 1000 * 4096.0
    found = predicted("decay=-1", allocator=JEMALLOC, per_s=purging, growth_bytes_per_s=grown)
    assert found["faults"] == (pytest.approx(1000), pytest.approx(1000))
    assert found["peak_rss"] == (40 * MiB, 40 * MiB)  # 16 MiB of files and 24 MiB writable
    saved = 99_000 * 1.1e-6, 99_000 * 2.2e-6
    assert found["cpu_time"] == (pytest.approx(0.5 - saved[1]), pytest.approx(0.5 - saved[0]))


def test_only_what_the_malloc_gives_back_is_kept() -> None:
    """jemalloc uses madvise; munmap is somebody else's. glibc uses both."""
    both = rates(madvise_dontneed=500.0, munmap=500.0, minor_faults=1e5)
    assert predicted("decay=-1", allocator=JEMALLOC, per_s=both)["faults"] == (0, 5e4)
    assert predicted("decay=-1", allocator=GLIBC, per_s=both)["faults"] == (0, 0)
    nothing = rates(minor_faults=1e5)
    assert predicted("decay=-1", per_s=nothing)["faults"] == (1e5, 1e5)


def test_no_more_than_all_system_time_is_saved() -> None:
    purging = rates(madvise_dontneed=1e3, minor_faults=1e6)
    found = predicted("decay=-1", per_s=purging, cpu_share=0.5, system_share=0.25)
    errors = (
        2 * 0.5 * (0.25 / 500) ** 0.5
    )  # of a half in 10 s, 100 ticks a second, half of them busy
    assert found["cpu_time"] == (pytest.approx(0.25 - errors), pytest.approx(0.25 + errors))
    found = predicted("decay=-1", per_s=purging, cpu_share=0.5, system_share=0.5)
    assert found["cpu_time"] == (0, 0)


def test_a_page_is_no_dearer_than_its_system_time() -> None:
    """Half of it where a fault costs half: at 0.1 of a CPU for 2e5 faults per second."""
    seen = rates(minor_faults=2e5, munmap=100.0)
    found = predicted("lock=future", per_s=seen, cpu_share=0.1, system_share=0.1)["cpu_time"]
    assert found[0] == 0
    assert found[1] == pytest.approx(0.1 - (1.8e5 * 7e-7 - 2e5 * 0.2 * 4e-7) / 2)


def test_locked_memory_is_populated_again_unless_madvise_gave_it_back() -> None:
    seen = rates(minor_faults=1e5, munmap=100.0)
    populated = predicted("lock=future", per_s=seen)["cpu_time"]
    assert populated[0] == pytest.approx(0.5 - 1e5 * 1.7e-6)
    kept = predicted("lock=future", per_s=rates(minor_faults=1e5, madvise_dontneed=100.0))
    assert kept["cpu_time"] == (
        pytest.approx(0.5 - 1e5 * 2.2e-6),
        pytest.approx(0.5 - 9e4 * 1.1e-6 + 1e4 * (48 / 40 - 1) * 4e-7),
    )
    unseen = rates(minor_faults=1e5, madvise_dontneed=None, munmap=None, brk=None)
    either = predicted("lock=future", per_s=unseen)["cpu_time"]
    assert either[0] == kept["cpu_time"][0]
    assert either[1] == pytest.approx(0.5 - 9e4 * 7e-7 + 1e5 * (48 / 40 - 1) * 4e-7)


def test_locked_memory_is_all_that_is_mapped() -> None:
    found = predicted("lock=future", per_s=rates(minor_faults=1e4))
    assert found["peak_rss"] == (48 * MiB, 48 * MiB)
    assert found["faults"] == (0, pytest.approx(1e3))
    assert found["cpu_time"][1] == pytest.approx(0.5 - 9e3 * 7e-7 + 1e4 * (48 / 40 - 1) * 4e-7)
    threads = predicted("lock=future", per_s=rates(threads_created=100.0))
    assert threads["cpu_time"] == (0.5, pytest.approx(0.5 + 100 * 2048 * 4e-7))
    (forks,) = predictions("lock=future", per_s=rates(processes_created=1.0, minor_faults=1e4))
    assert forks.metrics[1].high == 1e4
    assert "not locked" in forks.assumes[-1]


def test_locked_on_fault_only_what_is_given_back_stays() -> None:
    assert predicted("lock=future_onfault", per_s=rates(minor_faults=1e4)) == {
        "peak_rss": (40 * MiB, 40 * MiB),
        "faults": (1e4, 1e4),
        "cpu_time": (0.5, 0.5),
    }
    purging = rates(minor_faults=1e4, madvise_dontneed=100.0)
    assert predicted("lock=future_onfault", per_s=purging)["faults"] == (0, 1e4)


def test_huge_pages_where_the_mappings_have_room() -> None:
    found = predicted("thp=always", per_s=rates(minor_faults=1e4))
    assert found["faults"] == (pytest.approx(1e4 - 5e3 * 511 / 512), 1e4)
    always = memory(thp_machine="always")
    found = predicted("thp=always", memory=always, per_s=rates(minor_faults=1e4))
    assert found["faults"] == (1e4, 1e4)


def test_smaller_stacks_of_locked_threads() -> None:
    locked = memory(locked_stacks_bytes=32 * MiB, locked_stacks_count=4)
    found = predicted("stack=1M", memory=locked, per_s=rates(threads_created=10.0))
    assert found["peak_rss"] == (12 * MiB, 12 * MiB)
    saved = 10 * 7 * 256
    assert found["cpu_time"] == (
        pytest.approx(0.5 - saved * 4e-7),
        pytest.approx(0.5 - saved * 2e-7),
    )


def test_a_limit_that_it_fits_into_or_not() -> None:
    """Its peak was 40 MiB, 16 MiB of that of files."""
    assert predicted("memory_max=40M")["peak_rss"] == (40 * MiB, 40 * MiB)
    assert predicted("memory_max=32M")["peak_rss"] == (24 * MiB, 32 * MiB)
    (killed,) = predictions("memory_max=24M")
    assert killed.metrics == ()
    assert killed.assumes == (
        "the kernel ends it: 24 MiB at its peak cannot be dropped, and 24M has no room",
    )


@pytest.mark.parametrize(
    "text", ["", "lock", "lock=on", "cpus=1", "decay=0", "stack=", "stack=x", "memory_max=-1"]
)
def test_what_cannot_be_predicted_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(BadRequest, match="--if") as refused:
        prediction.read([text])
    assert "\n" not in str(refused.value)


def test_a_live_process(binary: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this machine's own prices, as JSON holds to the schema."""
    monkeypatch.undo()
    with running(binary("steady"), "1") as program:
        found = diagnose_process(program.pid, 0.2, policies=["lock=future", "memory_max=1G"])
    jsonschema.validate(json.loads(documents.text(found)), documents.schema("diagnose"))
    assert [one.policy for one in found.predictions] == ["lock=future", "memory_max=1G"]
