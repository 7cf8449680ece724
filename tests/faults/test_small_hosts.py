"""The main commands where there is little: in a cgroup of 200 MiB and half a CPU, without
/sys/fs/cgroup, and with a read-only one, as containers have it."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from quick import mostly_slow

from memlab.observe import capabilities, cgroup, proc

MEMLAB = [sys.executable, "-m", "memlab"]
SWEEP = (
    "sweep mmap-write -p size=4k,64k -p file_size=1m -p filesystem=tmpfs --no-controls --blocks 2"
)
COMMANDS = {
    "doctor": "run here in full",
    "try --blocks 2 -- true": "figure: ",
    "try --blocks 2 -p memory_max=none,64M -- true": "figure: ",
    SWEEP: "mmap-write",
    "sweep mmap-write --dry-run": "budget ",
    "show mmap-write": "store: ",
    "report mmap-write": ".html",
    "claims mmap-write": "mmap-write",
    "diagnose PID --seconds 1": "PID",
}
WRITABLE = capabilities.memory_cgroup(proc.ROOT).available


@pytest.fixture(scope="module")
def group() -> Iterator[list[Path]]:
    """The groups of a container of 200 MiB and half a CPU: of memory, and of the CPU in v1."""
    if not WRITABLE:
        pytest.skip("needs a memory cgroup that this user may write")
    version, home = cgroup.locate().memory_version, cgroup.homes(cgroup.locate())[-1]
    name, made = f"memlab-test-{secrets.token_hex(4)}", []
    try:
        made.append(home / name)
        made[0].mkdir()
        limit = "memory.limit_in_bytes" if version == "1" else "memory.max"
        (made[0] / limit).write_text(str(200 << 20))
        if version == "1" and (cpu := cgroup.chain("cpu")[1]):
            made.append(cpu[-1] / name)
            made[1].mkdir()
            (made[1] / "cpu.cfs_quota_us").write_text("50000")
        with suppress(OSError):  # where the CPU controller is passed on
            (made[0] / "cpu.max").write_text("50000 100000")
        yield made
    except OSError as error:
        pytest.skip(f"needs a cgroup with a limit: {error}")
    finally:
        for one in made:
            for _ in range(1000):  # the last process has ended, and is not yet out of it
                with suppress(OSError):
                    one.rmdir()
                    break
                time.sleep(0.01)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that the commands of one host share."""
    return tmp_path_factory.mktemp("small")


READS = ("show", "report", "claims")


def measured(store: Path) -> None:
    """Have a run there for the commands that read one, whichever command came first."""
    done = store.with_suffix(".measured")
    if not done.exists():
        subprocess.run(
            [*MEMLAB, *SWEEP.split()], env=os.environ | {"MEMLAB_STORE": str(store)}, check=True
        )
        done.touch()


def inside(before: str, words: str, place: Path) -> subprocess.CompletedProcess[str]:
    """A command of memlab after lines of a shell."""
    if words.startswith(READS):
        measured(place / "s.db")
    pid = str(os.getpid())
    command = ["sh", "-ec", f'{before}\nexec "$@"', "sh", *MEMLAB, *words.split()]
    return subprocess.run(
        [pid if word == "PID" else word for word in command],
        env=os.environ | {"MEMLAB_STORE": str(place / "s.db"), "HOME": str(place)},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", mostly_slow(COMMANDS, SWEEP))
def test_in_a_cgroup_of_200_mib_and_half_a_cpu(words: str, group: list[Path], place: Path) -> None:
    enter = "\n".join(f"echo $$ > {one}/cgroup.procs" for one in group)
    done = inside(enter, words, place)
    assert (done.returncode, "Killed" in done.stderr) == (0, False), done
    assert COMMANDS[words].replace("PID", str(os.getpid())) in done.stdout + done.stderr


@pytest.mark.slow
def test_doctor_says_what_the_group_leaves(group: list[Path], place: Path) -> None:
    enter = "\n".join(f"echo $$ > {one}/cgroup.procs" for one in group)
    found = json.loads(inside(enter, "doctor --json", place).stdout)
    memory = next(one for one in found if one["name"] == "memory without a limit")
    assert (memory["available"], str(group[0]) in memory["detail"]) == (False, True)


@pytest.mark.slow
def test_what_does_not_fit_is_refused_with_the_groups_name(group: list[Path], place: Path) -> None:
    enter = "\n".join(f"echo $$ > {one}/cgroup.procs" for one in group)
    for words in ("try --blocks 2 -p memory_max=1G -- true", "sweep mmap-write -p file_size=1G"):
        done = inside(enter, words, place)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"of free memory in this process's cgroup {group[0]}, and " in done.stderr
        assert done.stderr.count("\n") == 1


HOSTS = {
    "no-cgroups": "umount -R /sys/fs/cgroup 2>/dev/null || mount -t tmpfs none /sys/fs/cgroup",
    "read-only": "mount -o remount,ro,bind /sys/fs/cgroup 2>/dev/null || :\n"
    "for one in $(awk '$5 ~ \"^/sys/fs/cgroup\" { print $5 }' /proc/self/mountinfo)\n"
    "do mount -o remount,ro,bind $one || :; done",
}


@pytest.mark.slow
@pytest.mark.needs("root", "a mount namespace")
@pytest.mark.parametrize(
    "case",
    mostly_slow(
        product(HOSTS, COMMANDS), ("no-cgroups", SWEEP), ("read-only", "try --blocks 2 -- true")
    ),
    ids="-".join,
)
def test_where_cgroups_are_missing_or_read_only(case: tuple[str, str], place: Path) -> None:
    host, words = case
    if words.startswith(READS):
        measured(place / f"{host}.db")
    shell = ["unshare", "-m", "sh", "-ec"]
    command = [*shell, f'{HOSTS[host]}\nexec "$@"', "sh", *MEMLAB]
    pid = str(os.getpid())
    done = subprocess.run(
        [*command, *(pid if word == "PID" else word for word in words.split())],
        env=os.environ | {"MEMLAB_STORE": str(place / f"{host}.db"), "HOME": str(place)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    limited = "memory_max" in words  # asked for by name, and there is no group to limit
    if limited:  # and without it nothing is compared
        assert (done.returncode, done.stderr.count("\n")) == (3, 1), done
        assert "cgroup" in done.stderr
        return
    assert done.returncode == 0, done
    assert COMMANDS[words].replace("PID", pid) in done.stdout + done.stderr
