"""What starts fast imports little: held by names, not by time."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import run_row

import memlab
from memlab import experiments
from memlab.store import PointRow, Store

HEAVY = {"pandas", "numpy", "scipy", "matplotlib", "rich", "pyarrow", "IPython"}
TYPED = {"msgspec"}  # what JSON alone needs

COMMAND = """
import sys
sys.argv[1:] = {arguments!r}
from memlab.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def loaded(code: str) -> set[str]:
    """The modules that a program ends with."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    names = set(done.stderr.split())
    assert "sys" in names, done.stderr
    return names


def modules(code: str) -> set[str]:
    """The top-level packages, and memlab's own modules, that a program ends with."""
    names = loaded(code)
    return {name for name in names if name.startswith("memlab")} | {
        name.partition(".")[0] for name in names
    }


TINY = "page-fault -p chunks=10 -p lock=none --blocks 1 --no-controls"
LOOK = "diagnose {pid} --seconds 0.01"  # to import more would cost more than the look


@pytest.mark.seconds(but="--version")
@pytest.mark.parametrize(
    "arguments",
    ["--help", "--version", "list", "sweep --help", "clean", "schema", "schema show", LOOK],
)
def test_a_light_command_imports_nothing_heavy(arguments: str) -> None:
    words = arguments.format(pid=os.getpid()).split()
    assert modules(COMMAND.format(arguments=words)) & HEAVY == set()


@pytest.mark.seconds
def test_a_look_imports_no_experiment_and_no_reader_of_logs() -> None:
    found = modules(COMMAND.format(arguments=[*LOOK.format(pid=os.getpid()).split(), "--json"]))
    assert {"memlab.diagnose.look", "memlab.diagnose.documents"} <= found
    theirs = ("memlab.experiment", "memlab.diagnose.kernel_log")
    assert not [name for name in found if name.startswith(theirs)]


def test_what_a_look_imports_when_it_needs_it_is_no_experiment() -> None:
    """Which of these imports a look meets depends on its subject: all of them are made here."""
    within = [
        ast.unparse(statement)
        for path in sorted(Path(memlab.__file__).parent.glob("diagnose/*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    assert any("memlab" in statement for statement in within)
    found = modules("\n".join(["import sys", *within, "print(*sys.modules, file=sys.stderr)"]))
    assert not [name for name in found if name.startswith("memlab.experiment")]
    assert found & HEAVY == set()


@pytest.mark.seconds
@pytest.mark.parametrize("arguments", [f"sweep {TINY} --jsonl", "doctor"])
def test_measuring_imports_no_more_than_the_tutorial_says(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLAB_STORE", str(tmp_path / "results.db"))
    page = (Path(__file__).parents[2] / "docs/tutorial.md").read_text(encoding="utf-8")
    named = re.search(r"only measures \| `pip install ([a-z ]+)`", page)
    assert named
    found = modules(COMMAND.format(arguments=arguments.split()))
    assert (found & {*HEAVY, *TYPED, "click", "cffi", "jinja2"}) - {*named[1].split()} == set()


def test_a_list_of_runs_imports_nothing_that_reads_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLAB_STORE", str(tmp_path / "results.db"))
    with Store(create=True) as store:
        store.add_run(run_row(), [PointRow(0, {"size": 1}, None)])
    found = modules(COMMAND.format(arguments=["runs"]))
    assert found & HEAVY == {"rich"}
    mine = {name.split(".")[1] for name in found if name.startswith("memlab.")}
    assert mine & {"api", "results", "judging", "experiment", "documents", "observe"} == set()


def test_a_recording_imports_nothing_that_draws() -> None:
    """It begins so much later: a second of processor time."""
    found = modules(COMMAND.format(arguments=["record", "-o", "x.trace", "999999999"]))
    assert "memlab.trace.shown" in found
    assert found & HEAVY == {"rich"}


@pytest.mark.parametrize("arguments", ["--help", "list"])
def test_what_prints_no_json_imports_no_types_of_it(arguments: str) -> None:
    assert modules(COMMAND.format(arguments=arguments.split())) & TYPED == set()


@pytest.mark.parametrize(
    ("arguments", "completed", "most"),
    [
        ("--help", None, 29),
        ("kernels --help", None, 29),
        ("", "memlab sw", 40),
        ("list", None, 42),
        ("", "memlab sweep mm", 60),
    ],
)
def test_what_measures_nothing_starts_like_click(
    monkeypatch: pytest.MonkeyPatch, arguments: str, completed: str | None, most: int
) -> None:
    """Help, the list and a completion: click, a handful of modules, and no declaration."""
    if completed is not None:
        monkeypatch.setenv("_MEMLAB_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", completed)
        monkeypatch.setenv("COMP_CWORD", str(completed.count(" ")))
    own = loaded(COMMAND.format(arguments=arguments.split()))
    assert len(own - loaded("import sys, click; print(*sys.modules, file=sys.stderr)")) <= most
    mine = {name.split(".")[1] for name in own if name.startswith("memlab.")}
    few = {"_version", "cli", "errors", "text"}
    assert mine <= (few if "--help" in arguments else {*few, "experiments", "machines", "request"})
    assert not [name for name in own if name.startswith("memlab.experiments.")]


def test_a_question_and_its_studies_are_read_as_they_are_declared() -> None:
    for name in experiments.names():
        assert experiments.question(name) == experiments.load(name).question
        assert experiments.sources(name) == experiments.load(name).sources


def test_importing_memlab_imports_itself_alone() -> None:
    found = modules("import sys, memlab; print(*sys.modules, file=sys.stderr)")
    assert {name for name in found if name.startswith("memlab.")} <= {"memlab._version"}
    assert found & (HEAVY | {"click", "cffi", "sqlite3"}) == set()


def test_memlab_offers_what_it_lists() -> None:
    code = "import sys, memlab; [getattr(memlab, name) for name in memlab.__all__]"
    assert "memlab.api" in modules(code + "; print(*sys.modules, file=sys.stderr)")
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        memlab.nosuch  # noqa: B018


def test_the_worker_imports_the_probes_and_the_standard_library() -> None:
    """What it holds, every forked trial pays for."""
    found = modules("import sys, memlab.run.worker; print(*sys.modules, file=sys.stderr)")
    assert "memlab.probe" in found
    assert found & (HEAVY | {"click", "cffi", "sqlite3"}) == set()
    own = {name.removeprefix("memlab.") for name in found if name.startswith("memlab.")}
    assert own - {"_probes", "_probes.lib"} == {
        "_built",
        "_version",
        "files",
        "files.python_probes",
        "probe",
        "run",
        "run.files",
        "run.worker",
        "text",
        "text.printable",
    }


def test_the_guardian_imports_the_standard_library_and_the_journal() -> None:
    found = modules("import sys, memlab.run.guardian; print(*sys.modules, file=sys.stderr)")
    assert found & (HEAVY | {"click", "cffi", "sqlite3"}) == set()
    assert "memlab.probe" not in found


@pytest.mark.seconds
def test_reading_a_stored_run_imports_nothing_that_measures() -> None:
    for arguments in ("show example:mmap-write", "claims example:mmap-write"):
        found = modules(COMMAND.format(arguments=arguments.split()))
        there = ("fleet", "guest.host", "guest.machine", "ladder")
        measuring = ("memlab.run", "memlab.measure", *(f"memlab.machines.{one}" for one in there))
        assert [name for name in found if name.startswith(measuring)] == []
        others = {"memlab.present.documents", "pandas", "matplotlib", "scipy", "pyarrow"}
        assert found & others == set()


@pytest.mark.seconds
def test_a_figure_needs_no_pandas(tmp_path: Path) -> None:
    """Half of what a figure imported was pandas, for rows that were made of dicts and read as such;
    a third of a second."""
    arguments = ["plot", "example:mmap-write", "-o", str(tmp_path)]
    found = modules(COMMAND.format(arguments=arguments))
    assert "matplotlib" in found
    assert found & {"pandas", "scipy", "pyarrow"} == set()
