"""What the documentation shows: its commands, its files, and how a command is run."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
EVERY_PAGE = [  # but the reference, which is the commands' own help
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(ROOT.glob("docs/experiments/*.md")),
    *sorted(ROOT.glob("tests/*/README.md")),  # the lab books
]
_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.M | re.S)
_FILE = re.compile(r"^```(?:python|c)\n(?:# |/\* )(\w+\.(?:py|c))(?: \*/)?\n(.*?)^```", re.M | re.S)


def commands(page: Path) -> list[str]:
    blocks = _FENCE.findall(page.read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def written(page: Path) -> list[list[str]]:
    """The words of each `memlab` command line of a page, those that no test runs included: in a
    block, with or without `$ `, and in the text. What a line says beside its command is left out.
    """
    text = page.read_text(encoding="utf-8")
    lines = [
        line for block in _FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()
    ]
    inline = re.findall(r"`(memlab [^`]+)`", _FENCE.sub("", text))
    found = [*lines, *(" ".join(one.split()) for one in inline)]
    stripped = [re.split(r"   +", line.removeprefix("$ ").strip())[0] for line in found]
    return [[*_words(line)] for line in stripped if re.match("memlab [a-z]", line)]


def _words(line: str) -> Iterator[str]:
    """Those of a command, up to a pipe, a redirection or a comment that is not quoted."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>&")
    lexer.whitespace_split, lexer.commenters = True, ""
    for word in lexer:
        if word[:1] in set("|>&#") and f"'{word}'" not in line:
            return
        yield word


SHOWN = [(page, command) for page in PAGES for command in commands(page)]
# Those that boot guests, and what reads what they stored.
GUESTS = [
    (page, command) for page, command in SHOWN if page.stem == "kernels" or "--in guest" in command
]
# Those that reach other hosts, and what reads what they stored: tests/fleet/test_page.py runs them.
FLEET = [(page, command) for page, command in SHOWN if page.stem == "fleet"]


def write_files(page: Path, folder: Path) -> None:
    """The page's files: blocks of Python and C that begin with a name."""
    for name, text in _FILE.findall(page.read_text(encoding="utf-8")):
        (folder / name).write_text(text)


def run(
    command: str, cwd: Path, environment: dict[str, str], limit_s: float = 300
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
    if done.returncode == 3 and "there is no library" in done.stderr:
        pytest.skip(f"{command}: the library is a reader's own")
    assert done.returncode == 0, f"{command}\n{done.stdout[-800:]}\n{done.stderr[-800:]}"
    return done
