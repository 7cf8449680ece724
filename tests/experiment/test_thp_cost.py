"""thp-cost's settings of the host, and that a host's free memory is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from held import RUN

from memlab.experiment.points import Point
from memlab.experiments import thp_cost
from memlab.observe import proc, virtualization
from memlab.run import plan
from memlab.run.admission import Directories
from memlab.run.executor import LocalExecutor

AT = {factor.name: factor.quick[0] for factor in thp_cost.EXPERIMENT.factors}
HUGE, SMALL = (AT | {"pages": pages} for pages in ("huge", "small"))
THP = "/sys/kernel/mm/transparent_hugepage"
BROKEN = HUGE | {"used": "all", "free_memory": "movable", "khugepaged": "off"}


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        ("always madvise [never]", "madvise"),
        ("always [madvise] never", None),
        ("[always] madvise never", None),
        (None, None),
    ],
)
def test_huge_pages_are_switched_on_where_the_host_has_none(
    enabled: str | None, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel with under 512 MiB has none; what an administrator chose besides is left alone."""
    file = tmp_path / "enabled"
    if enabled:
        file.write_text(enabled)
    monkeypatch.setattr(thp_cost, "ENABLED", str(file))
    thp_cost.switched_off.cache_clear()
    try:
        assert thp_cost.settings(HUGE) == ({str(file): expected} if expected else {})
        assert thp_cost.settings(SMALL) == {}
    finally:
        thp_cost.switched_off.cache_clear()


@pytest.mark.parametrize("mode", ["always", "defer", "defer+madvise", "madvise", "never"])
def test_a_mode_of_defrag_is_a_setting_and_host_is_none(mode: str) -> None:
    assert thp_cost.settings(HUGE | {"defrag": mode})[f"{THP}/defrag"] == mode
    assert f"{THP}/defrag" not in thp_cost.settings(HUGE)


@pytest.mark.parametrize(
    ("level", "defrag", "sleep_ms"),
    [("host", None, None), ("off", None, "3600000"), ("on", "1", "10"), ("no_defrag", "0", "10")],
)
def test_khugepaged_is_slowed_down_or_sped_up(
    level: str, defrag: str | None, sleep_ms: str | None
) -> None:
    wanted = thp_cost.settings(AT | {"pages": "khugepaged", "khugepaged": level})
    assert wanted.get(f"{THP}/khugepaged/defrag") == defrag
    assert wanted.get(f"{THP}/khugepaged/scan_sleep_millisecs") == sleep_ms


def test_a_host_is_not_put_at_risk(tmp_path: Path) -> None:
    """Neither its free memory nor, before that is found out, a setting."""
    if virtualization.memlab_guest(proc.ROOT):
        pytest.skip("this is a guest of memlab: its free memory may be broken up")
    before = [Path(file).read_text() for file in thp_cost.settings(BROKEN)]
    cpus = sorted(os.sched_getaffinity(0))[-1:]
    with LocalExecutor(RUN, thp_cost.EXPERIMENT, Directories(tmp_path), cpus) as opened:
        reply = opened.trial(Point(0, BROKEN, None))
        assert [Path(file).read_text() for file in thp_cost.settings(BROKEN)] == before
    assert (reply["outcome"], reply["detail"]) == (
        "unavailable",
        "needs a machine of its own, and this host is not put at risk: --in guest",
    )


def test_what_breaks_up_free_memory_is_in_no_group() -> None:
    held = thp_cost.EXPERIMENT.host.containment
    assert held is not None
    assert held.limit(BROKEN) is None
    assert held.limit(HUGE) is not None


def test_defrag_varies_where_a_fault_is_for_a_huge_page() -> None:
    """Points that say nothing are left out of a plan, with the reason."""
    built = plan.build(
        thp_cost.EXPERIMENT,
        "quick",
        {"defrag": ["never", "always"], "pages": ["small", "huge"], "used": ["all"]},
        controls=False,
    )
    assert {point.at["pages"] for point in built.points} == {"huge"}
    assert list(built.excluded.values()) == [2]


def test_khugepaged_has_a_time_only_where_it_made_all_of_it_huge() -> None:
    at = AT | {"pages": "khugepaged", "size": 4 * thp_cost.MIB}
    raw = {"huge_bytes": 4 * thp_cost.MIB, "collapse_ns": 5_000_000}
    assert thp_cost.KHUGEPAGED_TIME(raw, at) == pytest.approx(0.005)
    assert thp_cost.KHUGEPAGED_TIME(raw | {"huge_bytes": 2 * thp_cost.MIB}, at) is None
    assert thp_cost.KHUGEPAGED_TIME(raw, at | {"pages": "collapsed"}) is None
