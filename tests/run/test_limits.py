"""What limits of this process keep from being measured, known before the first trial."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_executor import FakeExecutor, Heard
from synthetic import experiment, ok
from unprivileged import without_capabilities

from memlab import experiments, measure
from memlab.experiment import Host, Ratio
from memlab.experiment.needs import needs
from memlab.experiment.points import Point
from memlab.request import Request
from memlab.run import beforehand, driver, limits, plan, target
from memlab.run.admission import Directories
from memlab.run.prepare import Prepared
from memlab.store import Store

MIB = 2**20


def of(allowed: int, needed: dict[str, int], unit: str = "B") -> limits.LimitedResource:
    """A limit of so much, of which a point with this method needs so much."""
    return limits.LimitedResource(
        lambda _, at: needed[str(at["method"])],
        lambda: (allowed, "RLIMIT_X is 8 MiB"),
        unit,
        lambda _: "ulimit",
    )


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMITS", (of(8 * MIB, {"slow": 8 * MIB, "fast": 40 * MIB}),))


def points() -> list[Point]:
    return [*plan.build(experiment(), "quick", {}, controls=False).points]


@pytest.mark.usefixtures("limited")
def test_a_limit_is_said_with_its_value_what_is_needed_and_the_remedy() -> None:
    assert beforehand.counted(beforehand.reasons(experiment(), points())) == {
        "RLIMIT_X is 8 MiB, 40 MiB needed (ulimit)": 2
    }


def test_points_that_need_different_amounts_are_one_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    row = of(8 * MIB, {"slow": 9 * MIB, "fast": 40 * MIB})
    monkeypatch.setattr(limits, "LIMITS", (row,))
    assert beforehand.counted(beforehand.reasons(experiment(), points())) == {
        "RLIMIT_X is 8 MiB, 9 MiB to 40 MiB needed (ulimit)": 4
    }


def test_what_is_needed_is_never_said_as_what_is_allowed() -> None:
    short = limits.Shortage("RLIMIT_X is 8 MiB", 8 * MIB, 8 * MIB + 4096, 8 * MIB + 4096, "B", "y")
    assert str(short) == "RLIMIT_X is 8 MiB, 8,196 KiB needed (y)"


@pytest.mark.usefixtures("limited")
def test_the_sweep_says_it_first_and_measures_what_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, heard = FakeExecutor(lambda *_: ok(1000)), Heard()
    monkeypatch.setattr(target, "LocalExecutor", executor)
    monkeypatch.setattr(driver, "time", executor)
    monkeypatch.setattr(experiments, "load", lambda name, subject=None: experiment())
    request = Request("synthetic", controls=False, precision=0.02)
    asks = Prepared(experiment(), plan.Plan(points(), {}), Directories(Path("/")), request)
    with Store(tmp_path / "store.db", create=True) as store:
        run = driver.sweep(asks, store, heard)
        samples = [*store.samples(run.id)]
    assert heard.warnings == [
        "2 of 4 points are not testable here: RLIMIT_X is 8 MiB, 40 MiB needed (ulimit)"
    ]
    slow = {p.index for p in points() if p.at["method"] == "slow"}
    assert Counter(executor.asked) == dict.fromkeys(slow, 6)
    refused = [one for one in samples if one.outcome == "unavailable"]
    assert {one.point for one in refused} == {p.index for p in points()} - slow
    assert {one.detail for one in refused} == {"RLIMIT_X is 8 MiB, 40 MiB needed (ulimit)"}


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("levels", [{}, {"size": [1, 4096]}])
def test_what_decides_no_claim_is_measured_only_by_name(
    levels: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Ratio(id="r", metric="call_time", of={"method": "slow"}, to={"method": "fast"}, above=1)
    made = experiment(claims=[claim])
    executor, heard = FakeExecutor(lambda *_: ok(1000)), Heard()
    monkeypatch.setattr(target, "LocalExecutor", executor)
    monkeypatch.setattr(driver, "time", executor)
    monkeypatch.setattr(experiments, "load", lambda name, subject=None: made)
    request = Request("synthetic", levels=levels, controls=False, blocks=6)
    asks = Prepared(made, plan.Plan(points(), {}), Directories(Path("/")), request)
    with Store(tmp_path / "store.db", create=True) as store:
        driver.sweep(asks, store, heard)
    assert len(executor.asked) == (12 if levels else 0)
    assert heard.reason == ("blocks" if levels else "unmeasured")
    left_out = "2 of 4 points decide no claim without the others, and are left out"
    assert any(line.startswith(left_out) for line in heard.warnings) == (not levels)


_SAYS = """
import resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, ({kib} << 10, {kib} << 10))
from memlab import experiments, measure
from memlab.run import beforehand, plan
for name in {names}:
    of = experiments.load(name)
    points = plan.build(of, "quick", {{}}).points
    for why, count in beforehand.counted(beforehand.reasons(of, points)).items():
        print(f"{{name}}: {{count}} of {{len(points)}}: {{why}}")
"""


def said(kib: int, *names: str) -> str:
    """What lacks for these experiments without any capability, and with so much to lock."""
    code = _SAYS.format(kib=kib, names=names)
    command = [*without_capabilities(), sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.seconds
def test_an_ordinary_user_may_lock_too_little_for_these() -> None:
    found = said(8192, "thread-create", "page-fault", "stack-map", "vma-lock", "device-pinning")
    lines = dict(line.split(": ", 1) for line in found.splitlines() if "RLIMIT" in line)
    remedy = "(ulimit -l cannot, since the hard limit is 8 MiB: memlock in /etc/security/limits"
    if not os.geteuid():
        remedy = "(run in a container with --ulimit memlock=-1)"
    assert set(lines) == {"thread-create", "page-fault", "stack-map"}
    assert all("RLIMIT_MEMLOCK is 8 MiB, " in said and remedy in said for said in lines.values())
    assert lines["stack-map"].startswith("3 of 5: ")
    less = said(64, "vma-lock", "device-pinning", "madvise-refault")
    assert [line.split(": R")[0] for line in less.splitlines() if "RLIMIT" in line] == [
        "vma-lock: 7 of 57",
        "device-pinning: 3 of 6",
    ]


@pytest.mark.seconds
def test_what_is_declared_covers_what_a_probe_locks(tmp_path: Path) -> None:
    """With exactly what it declares, and no capability, each point that locks is measured."""
    code = f"""
from resource import RLIMIT_MEMLOCK, getrlimit, setrlimit
from memlab import api, experiments
from memlab.run.plan import build
most = getrlimit(RLIMIT_MEMLOCK)[1]
for name, levels in {_LOCKING!r}.items():
    of = experiments.load(name)
    (point,) = build(of, "quick", levels, controls=False).points
    needed = of.host.locks(point.at)
    assert needed, name
    setrlimit(RLIMIT_MEMLOCK, (needed, most))
    run = api.sweep(name, blocks=1, controls=False, store={str(tmp_path / "s.db")!r}, **levels)
    print(name, dict(run.samples.outcomes), *run.samples.details)
"""
    command = [*without_capabilities(), sys.executable, "-c", code]
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environ, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line.split(" ", 1)[1] for line in done.stdout.splitlines()] == ["{'ok': 1}"] * len(
        _LOCKING
    ), done.stdout


_LOCKING: dict[str, dict[str, Any]] = {
    "thread-create": {
        "processes": [2],
        "lock": ["future"],
        "live_threads": [3],
        "stack": [64 * 1024],
        "threads": [6],
        "slice": [0.0],
    },
    "stack-map": {"threads": [2], "lock": ["future"], "stack": [2 * MIB]},
    "page-fault": {
        "lock": ["future"],
        "touched": ["none"],
        "chunk": [1_024_000],
        "chunks": [2],
        "allocator": ["malloc"],
    },
    "device-pinning": {"mechanism": ["mlock"], "pages": [23]},
    "mmap-lock": {
        "caller": ["mlock"],
        "victim": ["fault_anonymous"],
        "size": [64 * 1024],
        "operations": [11],
    },
    "memcpy": {
        "size": [92 * 1024],
        "method": ["libc"],
        "dst_state": ["mlocked"],
        "passes": [2],
        "slice": [0.0],
    },
    "vma-lock": {"check": ["current_present"]},
}


def test_the_guide_says_which_experiments_lock_more_than_most_users_may() -> None:
    """Of those that need no root otherwise, what a recommendation rests on."""
    rows = (Path(__file__).parents[2] / "docs/choose.md").read_text().splitlines()
    for name in experiments.names():
        of = experiments.load(name)
        points = {point.index: point for point in plan.build(of, "quick", {}).points}
        so = {decision.claim for decision in of.so}
        decisive = [need for need in needs(of, [*points.values()], 1) if need.claim in so]
        locks = any(
            of.host.locks(points[index].at) > 8 * MIB for need in decisive for index in need.points
        )
        (row,) = (row for row in rows if f"? [{name}](experiments/" in row)
        root = row.partition(f"(experiments/{name}.md)")[2].removeprefix(": ")
        if not root.startswith(("root", "parts")):
            assert (root == "memlock") == locks, (name, root, locks)


def test_every_task_of_a_plan_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = replace(experiment(), host=Host(tasks=lambda at: 1040))
    monkeypatch.setattr(limits, "_own_tasks", lambda: 30)
    monkeypatch.setattr(limits.capabilities, "exceeds_limits", lambda: False)
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (64, 64))
    (said,) = beforehand.counted(beforehand.reasons(counted, points()))
    assert said.startswith("RLIMIT_NPROC is 64, of which 34 are left, 1,040 needed (ulimit -u")


def test_an_experiment_whose_claims_need_a_refused_counter_runs_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def seen(lacking: str) -> measure.RunsHere:
        why = f"needs {lacking}, and it is refused: as root"
        monkeypatch.setattr(
            beforehand._Host, "_needs", lambda _, name: why if name == lacking else ""
        )
        return measure._runs_here(experiments.load("mmap-lock"))

    whole, part = seen("nothing"), seen("perf tracepoints")
    assert whole.decides == whole.claims
    assert 0 < part.decides < part.claims
    assert not part.available
    assert part.remedy == "needs perf tracepoints, and it is refused: as root"
