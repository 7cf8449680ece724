"""The page on adding an experiment, followed to the letter: in a folder, a package, memlab."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from unprivileged import without_capabilities

from memlab.experiments import _files

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "adding.md"
FILE = re.compile(
    r"^```(?:c|python)\n(?:# |/\* )(?P<path>\S+\.(?:c|py))(?: \*/)?\n(?P<text>.*?)^```", re.M | re.S
)
ROW = re.compile(r"^```python\n# (?P<path>\S+), in CHECKS\n(?P<text>.*?)^```", re.M | re.S)
ENTRY = re.compile(r"^```toml\n\[project\.(?P<group>.*?)\]\n(?P<entry>.*?)\n```", re.M | re.S)
SHOWN = re.compile(r"^\$ memlab (.*mlock.*)$", re.M)


COPIED = (
    *("memlab", "probes", "tests"),
    *("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE"),
)


def files() -> dict[str, str]:
    """What the page says to write, by path."""
    found = FILE.finditer(PAGE.read_text(encoding="utf-8"))
    return {match["path"]: match["text"] for match in found}


def run(*command: str, cwd: Path, fails: bool = False, **environ: str) -> str:
    """What it prints; of one that fails the line it ends with."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    said = f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.returncode == (2 if fails else 0), said
    return done.stderr if fails else done.stdout


def memlab(*words: str, cwd: Path, fails: bool = False, **environ: str) -> str:
    return run(sys.executable, "-m", "memlab", *words, cwd=cwd, fails=fails, **environ)


def test_three_files_under_eighty_lines() -> None:
    """The line with the path is the page's, and no file's."""
    found = files()
    assert list(found) == ["mlock_cost.c", "mlock_cost.py", "test_mlock_cost.py"]
    assert sum(text.count("\n") for text in found.values()) < 80


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The three files, and a home of their own."""
    home, folder = tmp_path / "kept", tmp_path / "mine"
    for made in (home, folder):
        made.mkdir()
    for name in ("DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name))
    monkeypatch.setenv("MEMLAB_STORE", str(home / "store.db"))
    for path, text in files().items():
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_the_commands_of_the_page(folder: Path) -> None:
    described, swept, claimed = (
        memlab(*line.split(), cwd=folder) for line in SHOWN.findall(PAGE.read_text())
    )
    assert "one mlock(2) of the whole mapping" in described
    assert "next: memlab " in swept
    shown = memlab("show", "last", cwd=folder)
    assert "one mlock (s)" in shown
    assert "24 samples" in shown
    assert "a populated mapping locks at under half the cost" in claimed
    assert "mlock-cost" in memlab("runs", cwd=folder)
    memlab("report", "last", "-o", str(folder / "report.html"), cwd=folder)
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)


@pytest.mark.slow
def test_a_run_whose_declaration_is_gone(folder: Path) -> None:
    memlab("sweep", "./mlock_cost.py", "--blocks", "1", "-q", cwd=folder)
    (folder / "mlock_cost.py").unlink()
    said = "".join(memlab("show", "last", cwd=folder).split())  # wherever a line ends
    assert "mlock_cost.pyisgone:thisisitsdeclarationwhenitwaslastread" in said
    assert memlab("export", "last", cwd=folder).count("\n") == 5
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]))
    line = memlab("show", "last", cwd=folder, fails=True)
    assert line.endswith("mlock_cost.py: the experiment is gone, and no copy is kept of it\n")


def test_a_store_of_somebody_else_runs_nothing(folder: Path) -> None:
    """Its path was never named by this user: the file is not run, whoever wrote it."""
    (folder / "mlock_cost.c").unlink()
    (folder / "mlock_cost.py").write_text("open('ran', 'w')\nraise SystemExit('ran')\n")
    load = "import sys; from memlab import experiments; experiments.load(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", load, str(folder / "mlock_cost.py")],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "this user has not used this experiment yet" in done.stderr
    assert not (folder / "ran").exists()


# What is wrong with one of the files, and the end of the line that says so.
WRONG = [
    ("mlock_cost.c", "window_open(&window);", "window_opn(&window);", "mlock_cost.c:32:9: error: "),
    ("mlock_cost.c", "uint64_t size_bytes;", "uint64_t size_bytes", "error: "),
    ("mlock_cost.c", "/* cdef: read", "/* cdf: read", "0 cdef blocks, expected 1"),
    (
        "mlock_cost.c",
        "bool populate;",
        "bool (*populate)[sizeof(int)];",
        "between the cdef markers",
    ),
    ("mlock_cost.py", "EXPERIMENT =", "EXPERIMENTS =", "no EXPERIMENT = Experiment(...) in it"),
    ("mlock_cost.py", "factors=[", "factors=[1/0,", "mlock_cost.py:9: ZeroDivisionError"),
    ("mlock_cost.py", "EXPERIMENT =", "EXPERIMENT ==", "mlock_cost.py:"),
    ("mlock_cost.py", "EXPERIMENT =", "raise SystemExit('x'); EXPERIMENT =", "SystemExit: x"),
    ("mlock_cost.py", 'probe="mlock_cost"', 'probe="noop"', "its probe is 'noop'"),
    ("mlock_cost.py", 'name="mlock-cost"', 'name="mmap-write"', "choose another name"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "before", "after", "words"), WRONG)
def test_what_is_wrong_is_one_line(
    folder: Path, name: str, before: str, after: str, words: str
) -> None:
    text = (folder / name).read_text()
    assert before in text
    (folder / name).write_text(text.replace(before, after))
    line = memlab("describe", "./mlock_cost.py", cwd=folder, fails=True)
    assert line.count("\n") == 1, line
    assert words in line


def test_a_program_that_declares_nothing_is_not_run(folder: Path) -> None:
    """It may be a service that never ends."""
    (folder / "other.py").write_text("open('ran', 'w')\nEXPERIMENTS = print('EXPERIMENT = 1')\n")
    for words in (["describe", "./other.py"], ["sweep", "other.py", "-p", "size=1"]):
        line = memlab(*words, cwd=folder, fails=True)
        assert line.endswith(
            "other.py: no EXPERIMENT = Experiment(...) in it; docs/adding.md has one\n"
        )
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        "from base import *\n",
        "import base\nglobals()['EXPERIMENT'] = base.EXPERIMENT\n",
        "import base\nvars().update(EXPERIMENT=base.EXPERIMENT)\n",
        "exec('from base import EXPERIMENT')\n",
        "import base, sys\nsetattr(sys.modules[__name__], 'EXPERIMENT', base.EXPERIMENT)\n",
        "import base, sys\nsys.modules[__name__].EXPERIMENT = base.EXPERIMENT\n",
    ],
)
def test_a_declaration_may_be_given_by_another_way(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is then known only when the file runs."""
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "base", raising=False)
    base = "import dataclasses\nfrom memlab.experiments import vma_lock\n"
    base += "EXPERIMENT = dataclasses.replace(vma_lock.EXPERIMENT, name='other')\n"
    (folder / "base.py").write_text(base)
    path = folder / "other.py"
    path.write_text(text)
    _files.trust(str(path))
    assert _files.declare(str(path)).name == "other"


@pytest.mark.seconds
def test_the_window_is_told_of_the_block_as_the_page_prints_it(folder: Path) -> None:
    """With the line that names the file, or with a licence before it."""
    text = (folder / "mlock_cost.c").read_text()
    (folder / "mlock_cost.c").write_text(f"// ours\n/* mlock_cost.c */\n{text}")
    described = memlab("describe", "./mlock_cost.py", cwd=folder)
    assert "one mlock(2) of the whole mapping" in described


@pytest.mark.seconds
def test_what_the_page_locks_is_foreseen(folder: Path) -> None:
    """By who has no capability, and a limit below what a point locks."""
    code = """
import resource, sys
from memlab.cli import main
resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 19, 1 << 19))
sys.argv = ["memlab", "sweep", "./mlock_cost.py", "--dry-run"]
main()
"""
    command = [*without_capabilities(), sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert "unavailable here, 2 points: RLIMIT_MEMLOCK is 512 KiB, 1 MiB needed" in done.stdout


@pytest.mark.slow
def test_a_lock_that_is_not_declared_is_named_with_the_limit(folder: Path) -> None:
    declared = folder / "mlock_cost.py"
    text = declared.read_text()
    shorter = text.replace('    host=Host(locks=lambda at: int(at["size"])),\n', "")
    assert shorter != text
    declared.write_text(shorter)
    code = """
import resource, sys
from memlab.cli import main
resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 17, 1 << 17))
sys.argv = ["memlab", "sweep", "./mlock_cost.py", "-p", "size=1m", "--blocks", "1"]
main()
"""
    command = [*without_capabilities(), sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    limit = "; RLIMIT_MEMLOCK is 128 KiB here: a probe that locks memory declares how much, host="
    assert limit in done.stderr
    assert "doctor" not in done.stderr.splitlines()[-1]


def test_files_that_are_none(folder: Path) -> None:
    for name, words in (("none.py", "no file none.py"), ("made.py", "no regular file")):
        if name == "made.py":
            os.mkfifo(folder / name)
        line = memlab("describe", name, cwd=folder, fails=True)
        assert line.count("\n") == 1
        assert words in line


def test_a_cache_of_another_user_is_refused(folder: Path) -> None:
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "memlab" / "experiments"
    cache.mkdir(parents=True, mode=0o755)
    cache.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-m", "memlab", "describe", "./mlock_cost.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        3,
        f"memlab: {cache}: not a folder that only this user may enter; remove it\n",
    )


@pytest.mark.slow
def test_a_package_with_the_entry_point(folder: Path) -> None:
    """As a wheel would install it: the module, its C file, and what the page says of both."""
    found = ENTRY.search(PAGE.read_text())
    assert found
    package, told = folder / "your_package", folder / "your_package-1.dist-info"
    for made in (package, told):
        made.mkdir()
    (package / "__init__.py").touch()
    for name in ("mlock_cost.c", "mlock_cost.py"):
        (folder / name).rename(package / name)
    (told / "METADATA").write_text("Name: your-package\nVersion: 1\n")
    group = found["group"].removeprefix('entry-points."').removesuffix('"')
    (told / "entry_points.txt").write_text(f"[{group}]\n{found['entry'].replace(chr(34), '')}\n")
    on_path = {"PYTHONPATH": str(folder)}
    away = folder.parent
    assert "mlock-cost" in memlab("list", cwd=away, **on_path)
    swept = memlab("sweep", "mlock-cost", "--blocks", "1", cwd=away, **on_path)
    assert "next: memlab claims" in swept
    assert "one mlock (s)" in memlab("show", "mlock-cost", cwd=away, **on_path)
    assert "mlock" in memlab("claims", "mlock-cost", cwd=away, **on_path)


@pytest.mark.slow
def test_one_row_is_a_level_a_claim_and_tests(tmp_path: Path) -> None:
    """In a copy of the checkout, built and installed into a virtual environment of its own."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in COPIED:
        of = ROOT / name
        if of.is_dir():
            shutil.copytree(of, clone / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(of, clone / name)
    for row in ROW.finditer(PAGE.read_text(encoding="utf-8")):
        table = (clone / row["path"]).read_text(encoding="utf-8")
        assert table.count("CHECKS = [\n") == 1
        table = table.replace("CHECKS = [\n", "CHECKS = [\n" + row["text"])
        (clone / row["path"]).write_text(table, encoding="utf-8")
    venv = clone / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    # The tools of this environment, without its own memlab: a path file's paths are not searched
    # for path files in their turn.
    inside = next((venv / "lib").glob("python*/site-packages"))
    (inside / "tools.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python, environ = str(venv / "bin" / "python"), {"MEMLAB_STORE": str(tmp_path / "store.db")}
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-e", "."]
    run(python, *install, cwd=clone)
    name = "mlock_read_only_file"
    run(python, "-m", "memlab", "sweep", "vma-lock", "-p", f"check={name}", cwd=clone, **environ)
    claims = run(python, "-m", "memlab", "claims", "last", cwd=clone, **environ)
    assert re.search("reproduced +mlock brings in every page of a read-only file", claims)
    chosen = ["tests/probes/test_probe_vma_lock.py", "-k", name, "-p", "no:cacheprovider"]
    assert "3 passed" in run(python, "-m", "pytest", "-q", *chosen, cwd=clone, **environ)
