"""Every command that the documentation shows is run as it stands.

A command is a line that begins with `$ ` in a fenced block. Sweeps are made short through the
environment variables that every option has, so that the text itself is what is run. A Python block
that begins with a file's name, `# test_memory.py`, is a file in the folder of the page's commands.
The pages' guests are booted by tests/machines/test_guest_docs.py, and their hosts are those of
tests/fleet.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import click
import pytest
from shown import EVERY_PAGE, FLEET, GUESTS, PAGES, ROOT, SHOWN, commands, run, write_files, written
from traces.made import ALLOCATE, AT, HAS_ALLOCATIONS, START, Made

from memlab import experiments
from memlab.cli import cli
from memlab.experiment import levels

LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
OURS = [
    (page, command)
    for page, command in SHOWN
    if command.split()[0] in ("memlab", "python", "echo", "head", "ls")
    and (page, command) not in (*GUESTS, *FLEET)
]


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A user with a store that holds a short run of each experiment."""
    home = tmp_path_factory.mktemp("home")
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MEMLAB_SWEEP_BUDGET": "1s",
        "MEMLAB_REPRODUCE_BUDGET": "1s",
        "MEMLAB_DIAGNOSE_SECONDS": "1",
        "COLUMNS": "200",
    }
    for experiment in ("mmap-read", "mmap-write"):
        run(f"memlab sweep {experiment} -p file_size=4m -p slice=2ms", home, environment)
    return environment


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), OURS, ids=[c for _, c in OURS])
def test_the_command_runs(page: Path, command: str, user: dict[str, str]) -> None:
    """In a folder that the commands of a page share: one may read what another wrote."""
    folder = Path(user["HOME"]) / page.stem
    folder.mkdir(exist_ok=True)
    write_files(page, folder)
    if page.stem in ("trace", "diagnose"):  # recording takes root; tests/traces records
        for number in range(7):
            made = Made(flags=HAS_ALLOCATIONS).add(START).map(AT, 101).touch(AT, 53 + number)
            made.add(ALLOCATE, 0, 0, 53, 0, AT)
            (folder / f"app{number or ''}.trace").write_bytes(made.bytes(blocks=1))
    if "--name" in command:  # what is compared later holds whole blocks, however busy the machine
        user = user | {"MEMLAB_SWEEP_BUDGET": "20s"}
    if command.startswith("memlab fit "):  # what no busy machine changes
        user = user | {"MEMLAB_FIT_KEEP_WITHIN": "faults: 5%", "MEMLAB_FIT_BUDGET": "2min"}
    run(command, folder, user)


SOUGHT = ("redis", "java", "fsync", "msync", "O_DIRECT", "container", "OOM", "memory leak", "cite")


@pytest.mark.parametrize("word", [*SOUGHT, "jupyter"])
def test_a_word_that_people_seek_stands_on_a_page_of_the_site(word: str) -> None:
    """In a paragraph that leads on by a link or a command, so that the site's search finds it."""
    parts = [part for page in PAGES for part in page.read_text(encoding="utf-8").split("\n\n")]
    found = [part for part in parts if re.search(rf"\b{word}\b", part, re.I)]
    assert any("](" in part or "`" in part or part.startswith("#") for part in found)


def test_every_shown_command_is_run_here_or_is_part_of_the_installation() -> None:
    run_here = {*OURS, *GUESTS, *FLEET}
    rest = {command for page, command in SHOWN if (page, command) not in run_here}
    assert {shlex.split(command)[0] for command in rest} <= {"make", "git", "cd", "pip", "apt", "."}


WRITTEN = [(page, words) for page in EVERY_PAGE for words in written(page)]


@pytest.mark.parametrize(("page", "words"), WRITTEN, ids=[" ".join(words) for _, words in WRITTEN])
def test_a_command_that_is_written_is_one(
    page: Path, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is not run too, because it needs another kernel, host or program: the command, its
    options and the factors and levels of an experiment are there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for version in ("2.36", "2.41", "2.43"):  # which docs/kernels.md unpacks
        (tmp_path / "memlab/libc" / version).mkdir(parents=True)
    command = cli.get_command(click.Context(cli), words[1])
    assert command, f"no command {words[1]}"
    given, _, _ = command.make_parser(click.Context(command)).parse_args(words[2:])
    if "levels" in given and given.get("experiment") in experiments.names():
        levels.read_levels(experiments.load(given["experiment"]), given["levels"])


def test_what_is_made_and_run_of_the_checkout_is_there() -> None:
    """`make TARGET` and packaging/SCRIPT, wherever a page, a workflow or the CI's script has it."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    places = [*EVERY_PAGE, *ROOT.glob(".github/**/*.yml"), ROOT / ".ci/run"]
    missing = []
    for text in (place.read_text(encoding="utf-8") for place in places if place.exists()):
        made = re.findall(r"(?:^\$ |`|run: )make ([a-z-]+)", text, re.M)
        scripts = re.findall(r"\b(packaging/[\w-]+\.(?:sh|py))", text)
        missing += [target for target in made if target not in targets]
        missing += [script for script in scripts if not (ROOT / script).exists()]
    assert missing == []


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_into_the_project_lead_somewhere(page: Path) -> None:
    """To a file that exists and, if the link names one, to a heading of it."""
    missing = []
    for name, anchor in LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            missing.append(f"{name}#{anchor}")
    assert missing == []


def test_links_of_a_table_of_places_lead_somewhere() -> None:
    """The folders and files in the first column of CONTRIBUTING's table; a name in capitals stands
    for many."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z_/]+[/.][^|]*) \|", text, re.M)
    places = [place for row in rows for place in re.findall("`([^`]+)`", row)]
    assert len(places) > 20
    assert [place for place in places if place.islower() and not (ROOT / place).exists()] == []


_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def _anchors(page: Path) -> set[str]:
    """The headings of a page as a link names them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in headings}


def test_the_readme_opens_with_the_sentence_the_figure_and_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first_block = text.index("```")
    assert "![" in text[:first_block]
    assert commands(ROOT / "README.md")[:2] == ["make run", "make test"]
    assert len(text.splitlines()) < 150


@pytest.mark.parametrize(
    ("page", "commands"),
    [("README.md", ["claims"]), ("docs/tutorial.md", ["show"])],
)
def test_what_a_page_shows_is_what_is_printed(
    page: str, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Line by line but for where they are broken; `...` leaves lines out."""
    for command in commands:
        cli.main([command, "example:mmap-write"], standalone_mode=False)
    printed = " ".join(capsys.readouterr().out.split())
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    output = [block for language, block in blocks if not language]
    shown = [part for block in output for part in re.split(r"^\.\.\.$", block, flags=re.M)]
    assert shown
    assert [part for part in shown if " ".join(part.split()) not in printed] == []


def test_every_interval_of_what_the_readme_found_stands_in_the_pages() -> None:
    """The pages are written from the recorded runs, or say what was measured besides."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = text.split("## What it found\n")[1].split("\n## ")[0]
    pages = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/**/*.md"))
    intervals = re.findall(r"\S+ \S+ (?:an entry )?\([^()]+ to [^()]+\)", found)
    assert len(intervals) >= 7
    assert [text for text in intervals if text.split(maxsplit=1)[1] not in pages] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_examples_run(page: Path, user: dict[str, str], tmp_path: Path) -> None:
    """Those that stand for themselves: they begin with the import."""
    text = page.read_text(encoding="utf-8")
    for example in re.findall(r"^```python\n(import memlab\n.*?)^```", text, re.M | re.S):
        script = tmp_path / "example.py"
        script.write_text(example)
        run(f"python {script}", tmp_path, user)
