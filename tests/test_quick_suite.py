"""What `make test` leaves out: no probe, experiment, command or module of memlab as a whole.

The lists come from what is there, and what runs from the tests that this session collected.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from quick import COLLECTED

import memlab
from memlab import experiments, probe
from memlab.cli import folders

ROOT = Path(memlab.__file__).parents[1]
COMMANDS = [*folders()]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "memlab").rglob("*.py")
}
# Found by name when they are asked for: the lists below.
KINDS = sorted(path.stem for path in (ROOT / "memlab/present/figures/kinds").glob("[!_]*.py"))
BY_NAME = ("python_probes", "experiments.", "cli.", "gallery.commands.", "present.figures.kinds.")


@pytest.fixture
def quick(request: pytest.FixtureRequest) -> list[pytest.Function]:
    """The tests of `make test`, where all were collected."""
    config = request.config
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if not everything or config.option.keyword:
        pytest.skip("only a part of the tests was collected")
    items = [item for item in config.stash[COLLECTED] if isinstance(item, pytest.Function)]
    return [item for item in items if item.get_closest_marker("slow") is None]


def sources(quick: list[pytest.Function], folder: str = "") -> str:
    """The files of these tests, in one text."""
    paths = {item.path for item in quick if item.path.is_relative_to(ROOT / "tests" / folder)}
    return "\n".join(path.read_text() for path in paths)


def test_every_probe_has_a_test(quick: list[pytest.Function]) -> None:
    """A file of its own; what the tests themselves measure with is called by those of others, and
    what `try` measures with has its known answers there."""
    files, text = {item.path.name for item in quick}, sources(quick, "probes")
    own = [name for name in probe.names() if f"test_probe_{name}.py" not in files]
    assert own == ["command", "known_faults", "noop"]
    assert [name for name in own[1:] if f'probe.call("{name}"' not in text] == []
    assert "test_try.py" in files


def test_every_experiment_is_a_parameter_of_a_test(quick: list[pytest.Function]) -> None:
    parameters = {item.name.partition("[")[2].rstrip("]") for item in quick}
    assert [name for name in experiments.names() if name not in parameters] == []


def test_every_command_is_given_in_a_test(quick: list[pytest.Function]) -> None:
    text = sources(quick, "cli")
    assert [name for name in COMMANDS if f'"{name}' not in text] == []


def test_every_kind_of_figure_is_drawn_in_a_test(quick: list[pytest.Function]) -> None:
    """A file of its own, or its declaration is named."""
    files, text = {item.path.name for item in quick}, sources(quick, "present")
    others = [name for name in KINDS if f"test_{name}.py" not in files]
    assert [name for name in others if not re.search(rf"\b{name.title()}\b", text)] == []


def imports(path: Path) -> Iterator[str]:
    """Every module of memlab that a file imports, at whatever place."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = _package(path, node.level)
            base = ".".join(filter(None, (package, node.module)))
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _package(path: Path, level: int) -> str:
    return ".".join(path.relative_to(ROOT).parts[:-level]) if level else ""


def test_every_module_is_imported_by_a_test(quick: list[pytest.Function]) -> None:
    """By the test's file, a helper of the tests, or what these import."""
    by_name = tuple(f"memlab.{start}" for start in BY_NAME)
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if "test_" not in path.name]
    reached = [path for name, path in MODULES.items() if name.startswith(by_name)]
    reached += [*helpers, *{item.path for item in quick}]
    seen: set[str] = set()
    while reached:
        new = {name for name in imports(reached.pop()) if name in MODULES} - seen
        seen |= new
        reached += [MODULES[name] for name in new]
    missed = {name for name in MODULES if not name.startswith(by_name)} - seen
    assert missed == {"memlab.__main__"}  # `python -m memlab`, as the tests of the commands call it
