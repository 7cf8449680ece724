"""Cheap looks: triggers, what is kept on disk, and the end of the subject."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlab.diagnose import watching
from memlab.errors import BadRequest

from .live import Compiled, running

MiB = 1 << 20


@pytest.mark.parametrize(
    ("text", "name", "bound"),
    [("group > 90%", "group", 0.9), ("rss>500M", "rss", 500 * MiB), ("kills > 0", "kills", 0)],
)
def test_triggers(text: str, name: str, bound: float) -> None:
    found = watching.trigger(text)
    assert (found.name, found.above) == (name, True)
    assert found.bound == pytest.approx(bound)
    assert found.met(watching.Sample("", {name: bound + 1}))
    assert not found.met(watching.Sample("", {name: bound}))
    assert not found.met(watching.Sample("", {}))  # what is not seen meets nothing


@pytest.mark.parametrize("text", ["", "group", "nothing > 1", "group > soon", "rss > 5 parsecs"])
def test_a_trigger_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="--when"):
        watching.trigger(text)


def test_a_trigger_that_is_met_takes_one_whole_look(binary: Compiled, tmp_path: Path) -> None:
    kept = tmp_path / "last.json"
    with running(binary("steady"), "1") as program:
        watch = watching.Watcher(program.pid, None, None, kept)
        looks: list[str] = []
        said: list[str] = []
        triggers = [watching.trigger("threads > 900"), watching.trigger("rss > 1M")]
        assert watching.run(watch, triggers, 0.01, said.append, lambda: looks.append("whole"))
    assert looks == ["whole"]
    assert said[-1].startswith("rss > 1M: ")
    held = json.loads(kept.read_text())
    assert held["why"] == "rss > 1M"
    assert held["samples"][-1]["values"]["rss"] > MiB


def test_the_last_look_is_there_when_the_subject_is_not(binary: Compiled, tmp_path: Path) -> None:
    kept = tmp_path / "last.json"
    with running(binary("steady"), "1") as program:
        watch = watching.Watcher(program.pid, None, None, kept)

        def say(line: str) -> None:
            said.append(line)
            program.kill()
            program.wait()

        said: list[str] = []
        assert not watching.run(watch, [], 0.01, say, lambda: None)
    assert "the subject has ended; these were the last looks:" in said
    held = json.loads(kept.read_text())
    assert held["why"] == "ended"
    assert held["samples"]
