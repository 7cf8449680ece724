"""Four hosts with an sshd and a store of their own: what ssh really does when two clients measure
at once and a link is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import needs
import pytest
from command import memlab
from four_hosts import NAMES, host, run, started, taken_one_at_a_time, theirs, until
from pretended_hosts import held

from memlab.store import Store

SSHD = shutil.which("sshd", path=needs.SBIN)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.changes_host,
    pytest.mark.needs("host root", "a mount namespace", "a network namespace", "ip", "ssh", "sshd"),
]
BLOCKS = 25  # of two points by four hosts: 200 trials for each client
HOW = ["-p", "slice=20ms", "--blocks", str(BLOCKS)]

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


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Path]:
    """A file of four hosts; the folder of each beside it."""
    key, reached = tmp_path / "key", tmp_path / "hosts.toml"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    with ExitStack() as stack, reached.open("w") as file:
        for number, name in enumerate(NAMES, 1):
            folder = tmp_path / name
            folder.mkdir()
            said = {"folder": folder, "name": name, "number": number, "key": key}
            said |= {"keys": f"{key}.pub", "python": sys.executable}
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key")
            (folder / "config").write_text(CONFIG.format(**said))
            stack.enter_context(host(folder, name, f"{SSHD} -D -e -f {folder}/config"))
            file.write(REACHED.format(**said))
        for name in NAMES:
            until(lambda at=tmp_path / name: "Server listening" in (at / "log").read_text())
        file.flush()
        yield reached


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
    stores = [tmp_path / "first.db", tmp_path / "second.db"]
    first = started(str(hosts), stores[0], *HOW, "--name", "first")
    second = started(str(hosts), stores[1], *HOW, "--name", "second")

    def some_of_c() -> bool:
        return any(len(one[1]) > 5 for one in held(stores[0], "c").values())

    until(lambda: stores[0].exists() and some_of_c())
    (link,) = links(first, 3)
    os.kill(link, signal.SIGKILL)
    (_, err), (_, other) = first.communicate(timeout=600), second.communicate(timeout=600)
    assert (first.returncode, second.returncode) == (3, 0), f"{err}\n{other}"
    assert "memlab: c: lost after " in err
    came = len(held(stores[0], "c").popitem()[1][1])

    def ended(name: str) -> bool:
        return all(one[2][-1][1] for one in held(theirs(tmp_path, name), None).values())

    until(lambda: ended("c"))
    for store in stores:
        done = memlab("--store", str(store), "hosts", "pull", str(hosts))
        assert done.returncode == 0, done.stderr
        for name in NAMES:
            assert held(store, name) == held(theirs(tmp_path, name), None)
    trials = 0
    for name in NAMES:
        with Store(theirs(tmp_path, name)) as opened:
            assert sorted(row.name or "" for row in opened.runs()) == ["first", "second"]
        trials += len(taken_one_at_a_time(theirs(tmp_path, name)))
    assert trials == 2 * len(NAMES) * 2 * BLOCKS
    tell(f"{trials} trials of two clients on four hosts; a link killed after {came} samples of c")
