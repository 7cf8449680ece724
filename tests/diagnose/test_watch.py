"""Cheap looks: triggers, what is kept on disk, and the end of the subject."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import memlab

from memlab import cli
from memlab.cli import diagnose
from memlab.diagnose import group, watching
from memlab.errors import BadRequest, BadSubject, CannotLook

from .live import Compiled, running
from .test_tree import FILES, made

MiB = 1 << 20


@pytest.mark.parametrize(
    ("text", "name", "bound"),
    [
        ("group > 90%", "group", 0.9),
        ("rss>500M", "rss", 500 * MiB),
        ("kills > 0", "kills", 0),
        ("threads > 1k", "threads", 1024),
        ("files>2 K", "files", 2048),
    ],
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
    with pytest.raises(BadRequest, match="--watch"):
        watching.trigger(text)


@pytest.mark.parametrize(
    "text",
    [
        "rss > 90%",
        "swap > 1%",
        "threads > 90%",
        "files > 50%",
        "kills > 1%",
        "threads > 100MiB",
        "files > 1B",
        "group > 100M",
        "charge > 1",
        "pressure > 0",
    ],
)
def test_a_bound_of_another_unit_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"is not a (size|count|percentage)"):
        watching.trigger(text)


def watched(watch: watching.Watcher, *texts: str) -> list[str]:
    """What is said until one of these triggers is met."""
    lines: list[str] = []
    triggers = [watching.trigger(text) for text in texts]
    assert watching.run(watch, triggers, 0.01, lines.append, lambda: None)
    return lines


def test_a_watch_whose_triggers_cannot_be_read_is_refused_at_the_first_look(
    tmp_path: Path, binary: Compiled
) -> None:
    """A group without a limit, one process outside any group, and a process's numbers of a
    group."""
    unlimited = made(tmp_path / "pod", "2", 70, None)
    of_group = watching.Watcher(None, unlimited, "2", None)
    refused = {
        "group > 90%": "no memory cgroup with a limit is seen here",
        "rss > 1M": "a group is watched, and no process: name its PID",
        "files > 1": "a group is watched, and no process: name its PID",
    }
    for text, why in refused.items():
        with pytest.raises(CannotLook) as error:
            watched(of_group, text)
        assert f"--watch {text!r} cannot be read: {why}; read: kills" in str(error.value)
    with running(binary("steady"), "1") as program:
        outside = watching.Watcher(program.pid, tmp_path, None, None)
        with pytest.raises(CannotLook, match="no memory cgroup is seen here; read: rss, "):
            watched(outside, "kills > 0")


def test_a_trigger_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    """Its limit may be set meanwhile: it fires then."""
    directory = made(tmp_path / "pod", "2", 70, None)
    watch = watching.Watcher(None, directory, "2", None)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        made(directory, "2", 76, 80)

    triggers = [watching.trigger("kills > 9"), watching.trigger("group > 90%")]
    assert watching.run(watch, triggers, 0.01, say, lambda: None)
    why = "no memory cgroup with a limit is seen here"
    assert lines[0].startswith(f"--watch 'group > 90%' cannot be read: {why}; read: kills")
    assert lines[0].endswith("; the watch goes on")
    assert lines[-1].startswith("group > 90%: ")


def test_end_is_a_trigger_that_can_be_waited_for(tmp_path: Path) -> None:
    directory = made(tmp_path / "pod", "2", 70, None)
    watch = watching.Watcher(None, directory, "2", None)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        shutil.rmtree(directory, ignore_errors=True)

    triggers = [watching.trigger("end"), watching.trigger("group > 90%")]
    assert not watching.run(watch, triggers, 0.01, say, lambda: None)
    assert "the watch goes on" in lines[0]


@pytest.mark.parametrize("version", ["1", "2"])
def test_kills_are_counted_without_a_charge(tmp_path: Path, version: str) -> None:
    directory = made(tmp_path / "pod", version, 70, 80)
    (directory / FILES[version][0]).unlink()
    watch = watching.Watcher(None, directory, version, None)
    assert (sample := watch.look())
    assert {*sample.values} - {"pressure"} == {"kills"}
    with pytest.raises(CannotLook, match=rf"the charge of {directory} cannot be read; read: kills"):
        watched(watch, "group > 90%")
    (directory / {"1": "memory.oom_control", "2": "memory.events"}[version]).unlink()
    with pytest.raises(CannotLook, match=rf"{directory}/memory\.\w+ has no oom_kill; read: "):
        watched(watch, "kills > 0")


def test_a_process_without_open_files_has_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel counts them, which an old one does not."""
    code = "import os, time; os.write(1, b'ready\\n'); os.closerange(0, 4096); time.sleep(999)"
    with running(sys.executable, "-c", code) as program:
        while [*Path(f"/proc/{program.pid}/fd").iterdir()]:
            time.sleep(0.01)
        watch = watching.Watcher(program.pid, None, None, None)
        if Path("/proc/self/fd").stat().st_size:
            assert watched(watch, "files < 1")[-1].startswith("files < 1: ")
        monkeypatch.setattr(watching, "_counts_files", lambda: False)
        with pytest.raises(CannotLook, match="shows no count of open files, Linux 6"):
            watched(watch, "files < 1")


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
    assert [line for line in said if line.startswith("the subject has ended")]
    held = json.loads(kept.read_text())
    assert held["why"] == "ended"
    assert held["samples"]


def test_a_watch_that_cannot_write_says_so_once_and_goes_on(binary: Compiled) -> None:
    """A full disk may be what it watches for."""
    full = Path("/dev/full")
    with running(binary("steady"), "1") as program:
        watch = watching.Watcher(program.pid, None, None, full)
        said: list[str] = []
        watch.keep("running", said.append)
        watch.keep("running", said.append)
        looks: list[str] = []
        triggers = [watching.trigger("rss > 1M")]
        assert watching.run(watch, triggers, 0.01, said.append, lambda: looks.append("whole"))
    assert looks == ["whole"]
    refused = "cannot write /dev/full: No space left on device"
    assert [line for line in said if "cannot write" in line] == [f"{refused}; the watch goes on"]
    assert str(watch.unwritten) == refused


def test_where_to_keep_is_checked_before_anything_is_watched() -> None:
    done = memlab("diagnose", str(os.getpid()), "--watch", "end", "--keep", "/nonexistent/k.json")
    refused = "memlab: cannot write /nonexistent/k.json: No such file or directory\n"
    assert (done.returncode, done.stderr) == (3, refused)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_kill_is_no_error_though_the_subject_went_with_it(tmp_path: Path, version: str) -> None:
    directory = made(tmp_path / "pod", version, 70, 80)
    watch = watching.Watcher(None, directory, version, None)
    assert watch.look()
    made(directory, version, 1, 80, kills=1)

    def look() -> None:
        raise BadSubject("no memory cgroup there")

    said: list[str] = []
    assert watching.run(watch, [watching.trigger("kills > 0")], 0.01, said.append, look)
    assert said[1].startswith("kills > 0: ")
    assert said[2].startswith("it cannot be looked at any more: no memory cgroup there; these")
    assert len(said) == 3 + 2  # both looks


def test_the_group_of_a_process_is_resolved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill ends the process that `of:PID` names."""
    directory = made(tmp_path / "pod", "2", 70, 80)
    asked: list[str] = []

    def named(text: str) -> tuple[Path, str]:
        asked.append(text)
        return directory, "2"

    monkeypatch.setattr(group, "named", named)
    monkeypatch.setattr(watching, "run", lambda *given: given[-1]())
    monkeypatch.setattr(diagnose, "_look", lambda given, _: asked.append(given.group))
    CliRunner().invoke(
        cli.cli, ["diagnose", "--group", "of:1", "--watch", "end"], catch_exceptions=False
    )
    assert asked == ["of:1", str(directory)]


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_kill_in_a_container_is_one_of_its_pod(tmp_path: Path, version: str) -> None:
    pod = made(tmp_path / "pod", version, 90, 200)
    app = made(pod / "app", version, 76, 80)
    watch = watching.Watcher(None, pod, version, None)
    counts = []
    for kills in (0, 1, 3):
        for folder in (pod, app) if version == "2" else (app,):
            for file in folder.glob("memory.events*" if version == "2" else "memory.oom_control"):
                file.write_text(f"oom_kill {kills}\n")
        sample = watch.look()
        assert sample
        counts.append(sample.values["kills"])
    assert counts == [0, 1, 3]
