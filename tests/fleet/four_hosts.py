"""Four hosts on this machine: each a network namespace with an identity and a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from memlab.store import SampleRow, Store

NAMES = ("a", "b", "c", "d")
SWEEP = ["sweep", "mmap-write", "-p", "size=4k", "-p", "file_size=1m", "-p", "filesystem=tmpfs"]
SWEEP += ["-p", "file_state=cached_4k"]
SWEEP += ["--no-controls", "--budget", "5min"]

_HOST = """
mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir -p /run/sshd /run/lock
for file in machine-id boot_id; do
    tr -d - < /proc/sys/kernel/random/uuid > {folder}/$file
done
[[ -f /etc/machine-id ]] && mount --bind {folder}/machine-id /etc/machine-id
cat /proc/sys/kernel/random/uuid > {folder}/boot_id
mount --bind {folder}/boot_id /proc/sys/kernel/random/boot_id
hostname {name}
ip link set lo up
until ip link show {name}1 > {folder}/log 2>&1; do sleep 0.05; done
ip address add 10.9.{number}.2/30 dev {name}1 && ip link set {name}1 up
export XDG_DATA_HOME={folder}/data XDG_STATE_HOME={folder}/state
echo up > {folder}/up
exec {serve} >> {folder}/log 2>&1
"""


def run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


def until(there: Callable[[], object], limit_s: float = 300.0) -> None:
    deadline = time.monotonic() + limit_s
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextmanager
def host(folder: Path, name: str, serve: str) -> Iterator[subprocess.Popen[bytes]]:
    """A host whose first program is `serve`; this machine is its 10.9.N.1."""
    number = NAMES.index(name) + 1
    said = {"folder": folder, "name": name, "number": number, "serve": serve}
    made = subprocess.Popen(["unshare", "-nmu", "bash", "-c", _HOST.format(**said)])
    try:
        until(lambda: (folder / "log").exists())
        run("ip", "link", "add", f"{name}0", "type", "veth", "peer", f"{name}1")
        run("ip", "link", "set", f"{name}1", "netns", str(made.pid))
        run("ip", "address", "add", f"10.9.{number}.1/30", "dev", f"{name}0")
        run("ip", "link", "set", f"{name}0", "up")
        until(lambda: (folder / "up").exists())
        yield made
    finally:
        end(made)


def end(made: subprocess.Popen[bytes]) -> None:
    """As when a host loses its power: every process of it is gone."""
    with suppress(FileNotFoundError):
        its = os.readlink(f"/proc/{made.pid}/ns/net")  # noqa: PTH115
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(place / "ns/net") == its:  # noqa: PTH115
                    os.kill(int(place.name), signal.SIGKILL)
    made.kill()
    made.wait()


def started(on: str, store: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "memlab", "--store", str(store), "--wait=5min", *SWEEP, *more]
    return subprocess.Popen(
        [*words, "--on", on],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def theirs(folder: Path, name: str) -> Path:
    return folder / name / "data/memlab/results.db"


def taken_one_at_a_time(store: Path) -> list[SampleRow]:
    """The samples of a host's own store, no two of which were taken at once."""
    with Store(store) as opened:
        runs = opened.runs()
        samples = [s for row in runs for s in opened.samples(row.id)]
    assert len({row.environment["boot_id"] for row in runs}) == 1
    spans = sorted((s.started_at, s.started_at + s.trial_s) for s in samples)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    return samples
