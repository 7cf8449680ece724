"""kill -9, of whichever process, while a trial is held in a group with swap: nothing is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from held import ANY_SETTING, GROUPS, RUN, SWAPS, left_on_host
from processes import by_descent
from tiny_sweep import Lab, until

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("held_executor.py")
TESTS = Path(__file__).parents[1]


def leads(pid: int) -> bool:
    """Whether it leads a session; one that is gone does not."""
    with suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False


class Held:
    """The executor of held_executor.py, in the middle of its third trial."""

    def __init__(self, lab: Lab, place: Path, swap: str) -> None:
        self.lab, self.place = lab, place
        lab.files = place
        (place / "setting").write_text("before")
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(place), swap, RUN],
            env=os.environ | {"PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        lab.started.append(self.process)
        self.offered = GROUPS and (swap == "none" or SWAPS)
        self.first = self.reply()
        if self.offered:
            assert self.reply()["outcome"] == self.first["outcome"] == "ok"
        if self.offered and swap != "none":
            until((place / "inside").exists)

    def reply(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found: dict[str, Any] = json.loads(line)
        return found

    def inside(self) -> list[int]:
        """The worker and its child."""
        (group,) = (Path(path) for path in left_on_host() if f"/memlab-{RUN}-" in path
                    and (Path(path) / "cgroup.procs").exists())  # fmt: skip
        return by_descent(int(pid) for pid in (group / "cgroup.procs").read_text().split())

    def parents(self) -> list[int]:
        """The fork servers: each leads a session, as does the child that the worker made."""
        leaders = [p for p, s in self.lab.processes() if "run.worker" in s and leads(p)]
        return [pid for pid in leaders if pid not in self.inside()]

    def left(self) -> list[str]:
        left = [path for path in self.lab.leftovers() if "/setting" not in path]
        left = [path for path in left if not path.endswith("/inside")]
        left += left_on_host()
        if (self.place / "setting").read_text() != "before":
            left.append("the setting")
        return left

    def settled(self) -> bool:
        """swapoff reads back what is out."""
        return bool(until(lambda: not self.left()))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Beside another sweep too: nothing is measured here."""
    opened = Lab(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """On a disk that can swap: a test's own folder may be a tmpfs."""
    made = Path("/var/tmp") / f"tests-of-memlab-{os.getpid()}"
    made.mkdir()
    yield made
    shutil.rmtree(made)


def offered(held: Held) -> Held:
    """Where the host offers no group or no swap the refusal is tested, and the rest is skipped."""
    if not held.offered:
        assert held.first["outcome"] == "unavailable"
        assert held.first["detail"].startswith("needs ")
        assert held.process.wait() == 0
        assert held.settled()
        pytest.skip(held.first["detail"])
    return held


@pytest.fixture(params=["file", "zram"])
def held(place: Path, lab: Lab, request: pytest.FixtureRequest) -> Held:
    return offered(Held(lab, place, request.param))


def test_driver_killed(held: Held) -> None:
    assert len(held.inside()) == 2
    assert len(held.parents()) == 2
    held.process.kill()
    assert held.settled()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_driver_interrupted(held: Held, number: signal.Signals) -> None:
    held.process.send_signal(number)
    held.process.wait()
    assert held.settled()


def test_guardian_and_driver_killed_then_clean(held: Held) -> None:
    os.kill(held.lab.guardian(), signal.SIGKILL)
    held.process.kill()
    held.process.wait()
    assert held.left()
    clean = (
        f"{ANY_SETTING} import sys; from memlab.cli import main; sys.argv[1:] = ['clean']; main()"
    )
    done = subprocess.run([sys.executable, "-c", clean], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    out = done.stdout
    kinds = {line.split()[2] for line in out.splitlines()}
    assert {"cgroup", "value"} < kinds
    assert kinds & {"swap", "zram"}
    assert held.settled()


def test_worker_killed(held: Held) -> None:
    os.kill(held.inside()[0], signal.SIGKILL)
    assert (held.reply()["detail"], held.reply()["outcome"]) == ("ended by SIGKILL", "ok")
    assert held.process.wait() == 0
    assert held.settled()


def test_warm_parent_killed(held: Held) -> None:
    worker, child = held.inside()
    os.kill(os.getsid(worker), signal.SIGKILL)
    assert held.reply()["detail"] == "the fork server ended with status -9"
    assert held.reply()["outcome"] == "ok"
    assert not {worker, child} & {pid for pid, _ in held.lab.processes()}
    assert held.process.wait() == 0
    assert held.settled()


def test_driver_killed_without_swap(place: Path, lab: Lab) -> None:
    """The second trial is over its limit: the kernel kills the worker, and then we the driver."""
    opened = offered(Held(lab, place, "none"))
    assert opened.reply()["outcome"] == "oom-killed"
    opened.process.kill()
    assert opened.settled()
