"""Four hosts on this machine, each a network namespace with an sshd, an identity and a store of its
own: what ssh really does when two clients measure at once and a link is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from command import memlab
from pretended_hosts import held

from memlab.store import Store

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
LACKING = [name for name in ("ssh", "ssh-keygen", "ip", "unshare") if not shutil.which(name)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.changes_host,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and sshd need root"),
    pytest.mark.skipif(SSHD is None or bool(LACKING), reason="no sshd: apt install openssh-server"),
]
NAMES = ("a", "b", "c", "d")
BLOCKS = 25  # of two points by four hosts: 200 trials for each client
SWEEP = ["sweep", "mmap-write", "-p", "size=4k", "-p", "file_size=1m", "-p", "filesystem=tmpfs"]
SWEEP += ["-p", "slice=2ms", "--no-controls", "--blocks", str(BLOCKS), "--budget", "5min"]

HOST = """
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
exec {sshd} -D -e -f {folder}/config >> {folder}/log 2>&1
"""
CONFIG = """
HostKey {folder}/key
AuthorizedKeysFile {keys}
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
SetEnv XDG_DATA_HOME={folder}/data XDG_STATE_HOME={folder}/state
"""
REACHED = """
[hosts.{name}]
ssh = "root@10.9.{number}.2"
options = ["-F", "none", "-i", "{key}", "-o", "StrictHostKeyChecking=no",
    "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
memlab = "{python} -m memlab"
"""


def run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


def until(there: Callable[[], object], limit_s: float = 90.0) -> None:
    deadline = time.monotonic() + limit_s
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Path]:
    """A file of four hosts; the folder of each beside it."""
    key, reached = tmp_path / "key", tmp_path / "hosts.toml"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    with ExitStack() as stack, reached.open("w") as file:
        for number, name in enumerate(NAMES, 1):
            folder = tmp_path / name
            folder.mkdir()
            said = {"folder": folder, "name": name, "number": number, "sshd": SSHD, "key": key}
            said |= {"keys": f"{key}.pub", "python": sys.executable}
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key")
            (folder / "config").write_text(CONFIG.format(**said))
            host = subprocess.Popen(["unshare", "-nmu", "bash", "-c", HOST.format(**said)])
            stack.callback(host.wait)
            stack.callback(host.kill)
            until(lambda at=folder: (at / "log").exists())
            run("ip", "link", "add", f"{name}0", "type", "veth", "peer", f"{name}1")
            run("ip", "link", "set", f"{name}1", "netns", str(host.pid))
            run("ip", "address", "add", f"10.9.{number}.1/30", "dev", f"{name}0")
            run("ip", "link", "set", f"{name}0", "up")
            file.write(REACHED.format(**said))
        for name in NAMES:
            until(lambda at=tmp_path / name: "Server listening" in (at / "log").read_text())
        file.flush()
        yield reached


def started(hosts: Path, store: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "memlab", *SWEEP, *more]
    return subprocess.Popen(
        [*words, "--on", str(hosts), "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def links(client: subprocess.Popen[str], number: int) -> list[int]:
    """The ssh processes that a client has to a host."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == client.pid and f"10.9.{number}.2".encode() in words:
            found.append(int(place.name))
    return found


def test_two_clients_four_hosts_and_a_link_that_is_killed(
    hosts: Path, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    theirs = {name: tmp_path / name / "data/memlab/results.db" for name in NAMES}
    stores = [tmp_path / "first.db", tmp_path / "second.db"]
    first = started(hosts, stores[0], "--wait=5min", "--name", "first")
    second = started(hosts, stores[1], "--wait=5min", "--name", "second")

    def some_of_c() -> bool:
        return any(len(one[1]) > 5 for one in held(stores[0], "c").values())

    until(lambda: stores[0].exists() and some_of_c())
    (link,) = links(first, 3)
    os.kill(link, signal.SIGKILL)
    (_, err), (_, other) = first.communicate(timeout=280), second.communicate(timeout=280)
    assert (first.returncode, second.returncode) == (3, 0), f"{err}\n{other}"
    assert "memlab: c: lost after " in err
    came = len(held(stores[0], "c").popitem()[1][1])

    def ended(name: str) -> bool:
        return all(one[2][-1][1] for one in held(theirs[name], None).values())

    until(lambda: ended("c"))
    for store in stores:
        done = memlab("pull", str(hosts), "--store", str(store))
        assert done.returncode == 0, done.stderr
        for name in NAMES:
            assert held(store, name) == held(theirs[name], None)
    trials = 0
    for name in NAMES:
        with Store(theirs[name]) as opened:
            assert sorted(row.name or "" for row in opened.runs()) == ["first", "second"]
            taken = [s for row in opened.runs() for s in opened.samples(row.id)]
            identity = {row.environment["boot_id"] for row in opened.runs()}
        assert len(identity) == 1
        trials += len(taken)
        spans = sorted((s.started_at, s.started_at + s.trial_s) for s in taken)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert trials == 2 * len(NAMES) * 2 * BLOCKS
    tell(f"{trials} trials of two clients on four hosts; a link killed after {came} samples of c")
