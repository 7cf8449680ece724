"""What packages and runs memlab elsewhere: it parses, agrees with pyproject.toml, and its shell
steps run here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import memlab
from memlab.observe import allocators

ROOT = Path(__file__).parents[1]
YAML = [*ROOT.glob(".github/**/*.yml"), ROOT / "action.yml", ROOT / ".readthedocs.yaml"]
GH = """#!/bin/sh
echo "$@" > {folder}/asked
for last; do :; done
cp "$last" {folder}/comment
"""
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", YAML, ids=lambda p: p.name)
def test_it_is_yaml(path: Path) -> None:
    assert isinstance(load(path), dict)


def test_an_issue_about_a_fault_asks_for_what_doctor_says() -> None:
    for name in ("bug", "question"):
        text = (ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text()
        assert "memlab doctor --json" in text


def test_the_version_has_one_home() -> None:
    assert "version" in PROJECT["dynamic"]
    places = ["pyproject.toml", "CMakeLists.txt"]
    assert not [p for p in places if memlab.__version__ in (ROOT / p).read_text()]


def test_the_citation_names_the_version_and_no_date_before_a_release() -> None:
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {memlab.__version__}\n" in cited
    assert "date-released" not in cited


def test_the_release_notes_are_the_changelogs_section() -> None:
    sys.path.insert(0, str(ROOT / "packaging"))
    try:
        from release_notes import notes, version
    finally:
        sys.path.pop(0)
    assert version() == memlab.__version__
    text = "# Changelog\n\n## Unreleased\n- b\n\n## 1.2.0 - 2026-11-22\n\n- a\n\n## 1.1.0\n- c\n"
    assert notes(text, "1.2.0") == "- a"
    assert notes(text, "1.2") == ""


def test_a_container_is_built_of_what_git_has_and_reaches_other_hosts() -> None:
    """What git leaves out stays out of the image, and so does what the build alone needs."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().split()}
    out = (ROOT / ".containerignore").read_text().split()
    assert {name.removeprefix("**/") for name in out} - {".git"} == ignored
    _, build, image = (ROOT / "Containerfile").read_text().split("\nFROM ")
    assert "openssh-client" in image  # --on ssh:HOST, pull
    (gone,) = re.findall(r"pip uninstall --quiet --yes (.*)", build)
    extra = {re.split("[<>=]", one)[0] for one in PROJECT["optional-dependencies"]["build"]}
    needed = {re.split("[<>=]", one)[0] for one in PROJECT["dependencies"]}
    assert set(gone.split()) == extra - needed


@pytest.mark.parametrize("path", sorted(ROOT.glob("packaging/*.sh")), ids=lambda p: p.name)
def test_a_script_parses(path: Path) -> None:
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", path], check=True)


@pytest.mark.slow
@pytest.mark.needs("jemalloc")
def test_the_actions_step_measures_two_builds_in_one_run_and_comments(tmp_path: Path) -> None:
    """As docs/ci.md has it: each side is a build of an allocator in a folder of its own."""
    jemalloc = allocators.find("jemalloc").read_bytes()
    builds = {}
    for side, end in (("base", b""), ("head", b"another build")):
        builds[side] = tmp_path / side / "liballoc.so"
        builds[side].parent.mkdir()
        builds[side].write_bytes(jemalloc + end)
    gh = tmp_path / "gh"
    gh.write_text(GH.format(folder=tmp_path))
    gh.chmod(0o755)
    action = load(ROOT / "action.yml")
    step = action["runs"]["steps"][-1]
    given = {
        "experiment": "allocator",
        "factor": "library",
        **{k: str(v) for k, v in builds.items()},
    }
    given |= {"arguments": "-p allocator=jemalloc -p setting=default -p period=25ms -p slice=50ms"}
    given |= {"blocks": "2", "fail-on": "nothing"}
    inputs = {name: one.get("default", "") for name, one in action["inputs"].items()} | given
    names = {v: re.fullmatch(r"\$\{\{ inputs\.(\S+) \}\}", v) for v in step["env"].values()}
    environment = {
        name: inputs[match[1]] for name, value in step["env"].items() if (match := names[value])
    }
    folder = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-c", step["run"]],
        env={
            **os.environ,
            **environment,
            "PULL_REQUEST": "7",
            "GITHUB_ACTION_PATH": str(ROOT),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "PATH": f"{tmp_path}:{folder}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text().startswith("pr comment 7 ")
    comment = (tmp_path / "comment").read_text()
    assert "| " in comment
    assert "/head/liballoc.so" in comment
    assert (tmp_path / "summary").read_text() == comment
