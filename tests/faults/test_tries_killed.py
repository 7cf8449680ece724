"""`try` whose parts are killed together: what the command has started ends, in whatever session it
is, with a cgroup and without, as root and as an ordinary user."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from processes import by_descent, kill_at_once, processes
from recordings import NOBODY, PLACES, until

ELSEWHERE = [
    pytest.param("no cgroup", marks=pytest.mark.needs("root", "a mount namespace")),
    pytest.param("as an ordinary user", marks=pytest.mark.needs("root", "a mount namespace")),
]
# In sessions of their own: one that has cleared its environment, one that was forked twice.
STARTS = """
env -i setsid sh -c 'echo $$ >{0}/new; mv {0}/new {0}/cleared; sleep 300' &
(setsid setsid -f sleep 300.291 &)
sleep 300.292
"""


class Tried:
    """A `try` of a command that lives on, in a folder of its own."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder, self.place = folder, place
        if place == "as an ordinary user":
            for path in (folder, Path(os.environ["HOME"])):
                os.chown(path, NOBODY, NOBODY)
        tried = ["try", "-q", "--", "sh", "-c", STARTS.format(folder)]
        words = [
            *PLACES[place],
            sys.executable,
            "-m",
            "memlab",
            "--store",
            str(folder / "store.db"),
            *tried,
        ]
        with (folder / "said").open("w") as said:
            self.process = subprocess.Popen(words, stdout=said, stderr=said, cwd=folder)

    @property
    def parts(self) -> dict[str, list[int]]:
        launchers = by_descent(processes(rf"(?s)^\S*/launch/launch .*{self.folder}"))
        workers = by_descent(processes(r"run\.worker import main"))
        return {
            "driver": [self.process.pid],
            "outer": launchers[:1],
            "inner": launchers[1:],
            "worker": workers[1:],  # the next one too, which may have begun
            "server": workers[:1],
            "guardian": processes(r"memlab\.run\.guardian"),
        }

    def kill(self, names: list[str]) -> None:
        parts = self.parts
        assert all(parts[name] for name in names), parts
        kill_at_once(pid for name in names for pid in parts[name])

    def clean_up(self) -> None:
        for pid in [*processes(r"sleep 300"), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def tried(folder: Path, place: str) -> Iterator[tuple[Tried, int]]:
    """A `try` and the process that has cleared its environment, as a pidfd."""
    folder.chmod(0o755)
    (work := folder / "work").mkdir()
    running, cleared = Tried(work, place), -1
    try:
        until((work / "cleared").exists, "it begins")
        cleared = os.pidfd_open(int((work / "cleared").read_text()))
        until(lambda: processes(r"^sleep 300\.291"), "what is forked twice begins")
        yield running, cleared
    finally:
        if cleared >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(cleared, signal.SIGKILL)
            os.close(cleared)
        running.clean_up()


def ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])


@pytest.mark.seconds(but="here-driver outer")
@pytest.mark.parametrize(
    "parts", ["driver outer", "driver inner", "driver guardian", "driver guardian server worker"]
)
@pytest.mark.parametrize("place", ["here", *ELSEWHERE])
def test_killed_parts_end_what_the_command_has_started(
    tmp_path: Path, place: str, parts: str
) -> None:
    """The launcher is two processes, and either of them ends what the other has started."""
    with tried(tmp_path, place) as (running, cleared):
        running.kill(parts.split())
        until(lambda: ended(cleared), "what has cleared its environment ends")
        until(lambda: processes(r"^sleep 300\.29") == [], "the other processes end")
        if "guardian" in parts:
            words = [*PLACES[place], sys.executable, "-m", "memlab", "clean"]
            assert subprocess.run(words, capture_output=True).returncode == 0
        until(lambda: processes(r"memlab|launch/launch") == [], "memlab's processes end")
        assert not list(Path(os.environ["XDG_STATE_HOME"]).glob("memlab/journal/*"))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["here", *ELSEWHERE])
def test_what_no_part_lives_to_end_is_known_by_its_mark(tmp_path: Path, place: str) -> None:
    with tried(tmp_path, place) as (running, _):
        # The end of a parent would wake what is stopped.
        running.kill(["inner", "outer", "worker", "server", "guardian", "driver"])
        assert processes(r"^sleep 300\.291")
        words = [*PLACES[place], sys.executable, "-m", "memlab", "clean"]
        assert subprocess.run(words, capture_output=True).returncode == 0
        assert processes(r"^sleep 300\.291") == []
