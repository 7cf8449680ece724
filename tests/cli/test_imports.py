"""What starts fast imports little: held by names, not by time."""

import os
import subprocess
import sys

import pytest

import memlab

HEAVY = {"pandas", "numpy", "scipy", "matplotlib", "rich", "pyarrow", "IPython"}

COMMAND = """
import sys
sys.argv[1:] = {arguments!r}
from memlab.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def modules(code: str) -> set[str]:
    """The top-level packages, and memlab's own modules, that a program ends with."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    names = done.stderr.split()
    assert "sys" in names, done.stderr
    return {name for name in names if name.startswith("memlab")} | {
        name.partition(".")[0] for name in names
    }


LOOK = f"diagnose {os.getpid()} --seconds 0.01"  # to import more would cost more than the look


@pytest.mark.parametrize(
    "arguments",
    ["--help", "--version", "list", "sweep --help", "clean", "schema", "schema show", LOOK],
)
def test_a_light_command_imports_nothing_heavy(arguments: str) -> None:
    found = modules(COMMAND.format(arguments=arguments.split()))
    assert found & HEAVY == set()


def test_help_imports_no_experiment() -> None:
    found = modules(COMMAND.format(arguments=["--help"]))
    assert not [name for name in found if name.startswith("memlab.experiments.")]


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
        "_version",
        "probe",
        "run",
        "run.files",
        "run.worker",
    }


def test_the_guardian_imports_the_standard_library_and_the_journal() -> None:
    found = modules("import sys, memlab.run.guardian; print(*sys.modules, file=sys.stderr)")
    assert found & (HEAVY | {"click", "cffi", "sqlite3"}) == set()
    assert "memlab.probe" not in found
