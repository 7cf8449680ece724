"""The plugin's options, its baselines, and what keeps a test from measuring."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import Machine

import memlab
from memlab import api
from memlab.errors import Busy, Interrupted
from memlab.pytest_plugin import baselines

MEASURES = """
import pytest

@pytest.mark.parametrize('size', [1, 4096])
def test_it(memlab, size):
    memlab.sweep('mmap-write', size=size, filesystem='tmpfs', file_state='cached_4k',
                 controls=False, budget='30s')

def test_other():
    pass
"""
ASSERTS = """
def test_it(memlab):
    run = memlab.sweep('mmap-write', size=4096, filesystem='tmpfs', controls=False)
    run.assert_not_slower_than()
"""


@pytest.fixture
def session(project: pytest.Pytester, machine: Machine) -> pytest.Pytester:
    project.makepyfile(test_io=MEASURES)
    return project


def test_skip_and_only(session: pytest.Pytester, machine: Machine) -> None:
    result = session.runpytest_inprocess("--memlab-skip")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["2 tests not measured: --memlab-skip"])
    assert machine.asked == []
    result = session.runpytest_inprocess("--memlab-only")
    result.assert_outcomes(passed=2, deselected=1)
    assert len(machine.asked) == 2


def test_budgets_and_store_of_the_session(session: pytest.Pytester, machine: Machine) -> None:
    session.runpytest_inprocess()
    session.runpytest_inprocess("--memlab-budget=1500ms", "--memlab-store=own.db")
    asked = [(each["budget"], each["store"]) for each in machine.asked]
    assert asked == [("30s", None)] * 2 + [(1.5, session.path / "own.db")] * 2
    assert machine.asked[0]["name"] == "test_io.py::test_it[1]"


def test_a_guest_is_passed_on(project: pytest.Pytester, machine: Machine) -> None:
    kind = memlab.Guest  # before the inner session, which forgets what it imports
    project.makepyfile(
        test_io="""
        import memlab as lab

        GUEST = lab.Guest(memory="1g")

        def test_it(memlab):
            memlab.sweep("mmap-write", guest=GUEST, size=[1], controls=False)
        """
    )
    project.runpytest_inprocess().assert_outcomes(passed=1)
    (asked,) = machine.asked
    assert isinstance(asked["guest"], kind)
    assert asked["size"] == [1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--memlab-skip", "--memlab-only"], "leave no test: choose one"),
        (["--memlab-save=a", "--memlab-compare=./a"], "name one folder"),
        (["--memlab-budget=soon"], "--memlab-budget: 'soon' is not a duration"),
        (["-o", "memlab_inconclusive=maybe"], "'maybe': write one of warn, fail, skip"),
    ],
)
def test_wrong_options(session: pytest.Pytester, arguments: list[str], says: str) -> None:
    result = session.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{says}*"])


def test_baselines_are_saved_by_node_id_and_compared(
    session: pytest.Pytester, machine: Machine
) -> None:
    session.runpytest_inprocess("--memlab-save=base").assert_outcomes(passed=3)
    folder = session.path / "base" / "test_io.py"
    assert sorted(path.name for path in folder.iterdir()) == [
        "test_it[1].jsonl",
        "test_it[4096].jsonl",
    ]
    assert "secret" not in (folder / "test_it[1].jsonl").read_text()
    machine.factor = 1.2
    result = session.runpytest_inprocess("--memlab-compare=base")
    result.assert_outcomes(passed=3)  # compared and told: nothing was asserted
    line = "test_io.py::test_it[[]{size}] *; against its baseline: "
    line += "2 points: 1 slower, 1 same within 5 %; one session each"
    result.stdout.fnmatch_lines(
        [line.format(size=size).replace("] *;", "]*;") for size in (1, 4096)]
    )


def test_an_assertion_without_a_baseline_takes_the_tests_own(
    project: pytest.Pytester, machine: Machine
) -> None:
    project.makepyfile(test_io=ASSERTS)
    made = project.runpytest_inprocess("--memlab-save=base")
    made.assert_outcomes(passed=1)
    made.stdout.fnmatch_lines(["test_io.py::test_it: *; saved as a baseline"])
    unnamed = project.runpytest_inprocess()
    unnamed.assert_outcomes(passed=1, warnings=1)
    unnamed.stdout.fnmatch_lines(["*no baseline is named; give one, or --memlab-compare PATH"])
    missing = project.runpytest_inprocess("--memlab-compare=elsewhere")
    missing.assert_outcomes(passed=1, warnings=1)
    missing.stdout.fnmatch_lines(["*this test has no baseline at */test_it.jsonl; --memlab-save *"])
    project.runpytest_inprocess("--memlab-compare=base").assert_outcomes(passed=1)
    machine.factor = 1.2
    slower = project.runpytest_inprocess("--memlab-compare=base")
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(["E*size=4 KiB method=write*: slower: *"])


def test_a_baseline_of_another_machine_is_not_compared(
    session: pytest.Pytester, machine: Machine
) -> None:
    session.runpytest_inprocess("--memlab-save=base")
    machine.environment = {"kernel_release": "6.18.0"}
    result = session.runpytest_inprocess("--memlab-compare=base")
    result.stdout.fnmatch_lines(["*: kernel_release: 6.1.0 and 6.18.0"])


def test_baselines_that_cannot_be_written_are_an_error(session: pytest.Pytester) -> None:
    (session.path / "base").write_text("a file")
    result = session.runpytest_inprocess("--memlab-save=base")
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(["E*--memlab-save: cannot write *test_io.py: Not a directory"])


def test_a_worker_of_xdist_is_skipped(session: pytest.Pytester, machine: Machine) -> None:
    session.makeconftest("def pytest_configure(config): config.workerinput = {}")
    result = session.runpytest_inprocess("-p", "no:junitxml")
    result.assert_outcomes(skipped=2, passed=1)
    assert machine.asked == []
    result = session.runpytest_inprocess("-p", "no:junitxml", "--memlab-inconclusive=fail")
    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines(["memlab measures alone on a machine, *-n0 or -p no:xdist"])


@pytest.mark.parametrize(("policy", "outcome"), [("warn", "skipped"), ("fail", "failed")])
def test_a_machine_that_is_busy_is_said(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, policy: str, outcome: str
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise Busy("another memlab measures on this machine (pid 7)")

    monkeypatch.setattr(api, "sweep", busy)
    result = session.runpytest_inprocess(f"--memlab-inconclusive={policy}")
    result.assert_outcomes(passed=1, **{outcome: 2})
    said = "2 tests not measured: another memlab measures * (pid 7); wait *: --memlab-wait"
    result.stdout.fnmatch_lines([said])


def test_a_busy_machine_is_waited_for(
    session: pytest.Pytester, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = iter([True, True, False])

    def sweep(*given: object, **wanted: object) -> api.Run:
        if next(busy, False):
            raise Busy("another memlab measures on this machine (pid 7)")
        return machine.sweep(*given, **wanted)

    monkeypatch.setattr(api, "sweep", sweep)
    session.runpytest_inprocess("--memlab-wait=10min").assert_outcomes(passed=3)
    assert next(busy, None) is None


def test_ctrl_c_in_a_sweep_ends_the_session(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted("0badc0de", 3)

    monkeypatch.setattr(api, "sweep", interrupted)
    result = session.runpytest_inprocess(no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("'mmap-wirte'", "no experiment 'mmap-wirte'; did you mean mmap-write?"),
        ("'mmap-write', siz=4", "mmap-write has no factor 'siz'; did you mean size?*"),
        ("'mmap-write', budget='soon'", "budget: 'soon' is not a duration: *"),
    ],
)
def test_a_wrong_sweep_fails_in_one_line(project: pytest.Pytester, call: str, says: str) -> None:
    project.makepyfile(f"def test_it(memlab):\n    memlab.sweep({call})\n")
    result = project.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f">*memlab.sweep({call})", f"E*Failed: {says}"])


NODE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1)


@given(st.lists(NODE, min_size=1, max_size=4), st.lists(NODE, min_size=1, max_size=4))
def test_every_node_id_has_a_file_of_its_own(first: list[str], second: list[str]) -> None:
    folder = Path("/base")
    ids = ["/".join(parts).replace("::", ":") for parts in (first, second)]
    paths = [baselines.path(folder, test, 1) for test in ids]
    assert (paths[0] == paths[1]) == (ids[0] == ids[1])
    for path in (*paths, baselines.path(folder, ids[0], 2)):
        assert path.relative_to(folder).suffix == ".jsonl"
        assert ".." not in path.parts
        assert all(len(part.encode()) <= 240 for part in path.parts)
    assert baselines.path(folder, ids[0], 2) != paths[0]


def test_the_plugin_imports_nothing_heavy_until_a_test_measures() -> None:
    code = "import sys, pytest, memlab.pytest_plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    names = set(done.stdout.split())
    assert "memlab.pytest_plugin.settings" in names, done.stderr
    heavy = {"numpy", "pandas", "scipy", "matplotlib", "click", "rich", "sqlite3", "memlab.api"}
    assert names & heavy == set()
