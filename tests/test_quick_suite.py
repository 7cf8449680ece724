"""What `make test` leaves out: no probe, experiment, command or kind of figure as a whole; and that
one process has every test that changes the host.

The lists come from what is there, and what runs from the tests that this session collected.
"""

import ast
import re
from pathlib import Path

import pytest
from quick import COLLECTED, changes_host
from warnings_as_errors import COMPILERS

import memlab
from memlab import experiments, probe
from memlab.cli import _table

ROOT = Path(memlab.__file__).parents[1]


@pytest.fixture
def quick(request: pytest.FixtureRequest) -> list[pytest.Function]:
    """The tests of `make test`, where all were collected."""
    config = request.config
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if not everything or config.option.keyword:
        pytest.skip("only a part of the tests was collected")
    items = [item for item in config.stash[COLLECTED] if isinstance(item, pytest.Function)]
    return [item for item in items if item.get_closest_marker("slow") is None]


def sources(quick: list[pytest.Function], folder: str) -> str:
    """The files of these tests, in one text."""
    paths = {item.path for item in quick if item.path.is_relative_to(ROOT / "tests" / folder)}
    return "\n".join(path.read_text() for path in paths)


def modules(folder: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / folder).glob("[!_]*.py"))


def test_every_probe_has_a_test(quick: list[pytest.Function]) -> None:
    """A file of its own; what the tests themselves measure with is called by those of others, and
    what `try` measures with has its known answers there."""
    files, text = {item.path.name for item in quick}, sources(quick, "probes")
    own = [name for name in probe.names() if f"test_probe_{name}.py" not in files]
    assert own == ["command", "known_faults", "noop"]
    assert [name for name in own[1:] if f'probe.call("{name}"' not in text] == []
    assert "test_try.py" in files


def test_every_experiment_command_and_kind_of_figure_is_in_a_test(
    quick: list[pytest.Function],
) -> None:
    parameters = {item.name.partition("[")[2].rstrip("]") for item in quick}
    assert [name for name in experiments.names() if name not in parameters] == []
    text = sources(quick, "cli")
    lines = (words for words, _ in _table.commands())
    unseen = [words for words in lines if not re.search(r'"' + r'(", "| )'.join(words), text)]
    assert unseen == []
    files, text = {item.path.name for item in quick}, sources(quick, "present")
    kinds = modules("memlab/present/figures/kinds")
    unseen = [name for name in kinds if f"test_{name}.py" not in files]
    assert [name for name in unseen if not re.search(rf"\b{name.title()}\b", text)] == []


def test_each_compiler_of_make_check_is_installed_at_each_change() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    often = re.sub(r"^\s*if \[\[ \$tests == test-all.*?^\s*fi$", "", script, flags=re.M | re.S)
    assert [name for name in COMPILERS if name.startswith("aarch64") and name not in often] == []


def test_the_case_that_stays_is_there(quick: list[pytest.Function]) -> None:
    """Of a test that takes seconds, the case that its mark names: another id would be left out."""
    named, there = set(), set()
    for item in quick:
        if (marker := item.get_closest_marker("seconds")) is not None:
            there.add((item.path.name, marker.kwargs["but"]))
    for path in (ROOT / "tests").rglob("test_*.py"):
        cases = re.findall(r'@pytest\.mark\.seconds\(but=(".*")\)', path.read_text())
        named.update((path.name, ast.literal_eval(case)) for case in cases)
    assert named
    assert named == there


def test_every_file_with_a_test_that_changes_the_host_is_known_as_one(
    request: pytest.FixtureRequest,
) -> None:
    items = request.config.stash[COLLECTED]
    changing = {item.path for item in items if item.get_closest_marker("changes_host")}
    assert [path for path in changing if not changes_host(path)] == []
