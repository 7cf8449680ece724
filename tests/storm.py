"""A storm: sweeps, tries and recordings killed and signalled, and sweeps starved of their file
system, at random moments, and what is left of each, counted. `make storm` runs it; a test runs a
small one.

Usage: storm.py [--kills N] [--seed N] [--minutes N] [--only NAME] [--kernel VMLINUZ]

It runs sweeps with a home, a store and folders of its own. After each blow nothing of them may be
left: no process, cgroup, swap, zram, file, journal, and no setting with another value than before.
The store must be whole, every sample committed before must be in it unchanged, and no point may
have two samples of one block. `clean` is run where the guardian was killed as well. What one seed
draws is the same every time; the moments it meets are not.

A worker or fork server that is killed ends no sweep: it has to take another sample, and is struck
again. A CPU is taken away by the sweep's own cpuset, which a CPU that goes offline leaves too, and
the clock is stepped for the sweep alone, by a preloaded library: the host keeps both.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import storm_recordings
import storm_tries
from host_lock import host_lock

from memlab.observe import cgroup, proc
from memlab.run import cleanup
from memlab.run.machine_lock import TEST_LOCK

SMALL: Mapping[str, tuple[str, ...]] = {
    "mmap-write": ("size=4k", "file_size=1m", "filesystem=dir,tmpfs", "slice=5ms"),
    "mmap-read": ("size=4k", "file_size=1m", "filesystem=dir,tmpfs", "slice=5ms"),
    "page-fault": ("chunks=20", "chunk=256k"),
    "thread-create": ("processes=1,2", "slice=20ms"),
    "madvise-refault": (),
    "memcg-accounting": (),
    "memcg-notify": ("crossings=4",),
    "memcg-overhead": ("size=1m", "passes=2"),
    "mmap-overcommit": ("file_size=60m", "swap=none,file", "overcommit=0,1"),
    "coop-reclaim": ("slice=100ms", "miss_cost=10us"),
    "locked-latency": ("slice=300ms", "cycles=1"),
    "tlb-shootdown": ("slice=10ms", "pages=1,16"),
    "allocator": ("slice=200ms", "allocator=glibc,jemalloc"),
    "guest-memory": ("memory=64m", "boots=firmware", "nic=virtio", "settle=1s"),
}
CHANGES_HOST = ("mmap-overcommit", "coop-reclaim", "locked-latency")  # settings, swap
SETTINGS = (
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/nr_hugepages",
    "/sys/kernel/mm/transparent_hugepage/enabled",
)
KILLED = (
    "driver",
    "guardian",
    "fork server",
    "worker",
    "all",
    "driver and guardian",
    "driver, then guardian",
    "guardian, then driver",
    "fork server, then driver",
)
SIGNALLED = ("SIGINT", "SIGTERM", "SIGHUP", "stop and continue")
GLANCING = ("worker", "fork server")  # a sweep goes on after these
CPU, CLOCK = "CPU taken away and given back", "clock stepped by ten days and back"
CPUSETS = Path("/sys/fs/cgroup/cpuset")
COMPILER = shutil.which("cc")
SAMPLES_MAX = 400  # then a new run begins: a long one takes longer to read than to measure
STARVED, UNDER = ("full", "read-only", "vanished"), ("store", "files", "journal")
LOST = 3  # of a fork server that was killed before its first answer: no other would do better
LIMIT_S = 120.0  # of any wait: it ends a hang
GUEST = ("page-fault", "chunks=5", "chunk=256k")
GUEST_OF = 7  # one sweep of so many is in a guest, the second at first: over 20 of 300 blows


@dataclass
class Blow:
    """One sweep and what befell it."""

    experiment: str
    what: str
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.experiment}, {self.what}: {'; '.join(self.wrong)}"


class Storm:
    """A home, and in it a store for each experiment, so that a run is resumed after each blow."""

    def __init__(self, seed: int, kernel: str | None, only: str | None = None) -> None:
        self.random, self.kernel, self.only = random.Random(seed), kernel, only
        self.folder = Path(tempfile.mkdtemp(prefix="storm-", dir="/var/tmp"))
        self.state = self.folder / "state"
        self.environ = {
            **os.environ,
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.state),
            "XDG_DATA_HOME": str(self.folder / "data"),
            TEST_LOCK: os.environ.get(TEST_LOCK, f"{os.getpid()}/storm"),
        }
        # Of this strike's drivers, which groups and folders are named by.
        self.pids: set[int] = set()
        self.before: set[str] = set()  # what was there as this strike began
        self.blows: list[Blow] = []

    def close(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.memlab("clean")
        shutil.rmtree(self.folder, ignore_errors=True)

    # What runs

    def memlab(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "memlab", *words]
        try:
            return subprocess.run(
                command, env=self.environ, capture_output=True, text=True, timeout=2 * LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, -1, "", "it does not end")

    def start(
        self, experiment: str, place: Path, first: str = "", mounts: bool = False
    ) -> subprocess.Popen[str]:
        """A sweep, or its next session; `first` is what a shell does before it."""
        store = place / "store.db"
        is_tried = experiment in storm_tries.NAMES
        if experiment == "guest":
            name, *levels = GUEST
            words = [name, "--in", "guest", "--kernel", str(self.kernel), "--guest-memory", "512m"]
        elif is_tried:
            levels, words = [], []
        else:
            levels = list(SMALL[experiment])
            words = [experiment, "--dir", str(place)]
        words += [word for level in levels for word in ("-p", level)]
        words += ["--blocks", "100000", "--budget", "1h"]
        if store.exists() and rows(store):
            words = ["--resume", "last", "--budget", "1h"]
        words = ["sweep", *words, "-q", "--store", str(store)]
        if is_tried and (experiment == storm_tries.FIT or not rows(store)):
            words = storm_tries.words(experiment, place, sys.executable)
        command = [sys.executable, "-m", "memlab", *words]
        if first:
            command = ["sh", "-c", first + ' && exec "$@"', "sh", *command]
        if mounts:
            command = ["unshare", "--mount", *command]
        process = subprocess.Popen(
            command, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.pids.add(process.pid)
        return process

    def processes(self) -> dict[int, str]:
        """The command line of each process with this home, by its environment or its words."""
        mark, found = f"XDG_STATE_HOME={self.state}\0".encode(), {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                is_ours = str(self.folder).encode() in line
                is_ours = is_ours or mark in (entry / "environ").read_bytes()
                if is_ours and not proc.life(entry.name).ended:
                    found[int(entry.name)] = line.decode(errors="replace")
        return found

    def of(self, driver: int, who: str) -> list[int]:
        """The processes of a sweep by their part."""
        everybody = self.processes()
        if who == "driver":
            return [driver] if driver in everybody else []
        if who == "guardian":
            return [pid for pid, line in everybody.items() if "run.guardian" in line]
        servers = [pid for pid, line in everybody.items() if "run.worker" in line]
        leaders = [pid for pid in servers if pid in everybody and _leads(pid)]
        if who == "fork server":
            return leaders
        if who == "launcher":
            found = [pid for pid, line in everybody.items() if "/launch/launch " in line]
            return [self.random.choice(found)] if found else []
        rest = [pid for pid in everybody if pid != driver and "run.guardian" not in everybody[pid]]
        return [pid for pid in rest if pid not in leaders] if who == "worker" else list(everybody)

    # What is left

    def left(self, place: Path) -> list[str]:
        """Everything that this strike has left on the host: what it found there is another's, even
        where the name has a pid that a driver has now, or was counted before."""
        ours = tuple(f"-{pid}-" for pid in self.pids)
        return [one for one in self.seen(place, ours) if one not in self.before]

    def seen(self, place: Path, names: Sequence[str] = ("-",)) -> list[str]:
        """What is on the host: groups and folders of any memlab whose name has one of `names`, and
        everything else of ours."""
        found = [f"process {pid}: {line[:60]}" for pid, line in self.processes().items()]
        mount = cgroup.locate().memory_mount
        groups = [Path(path) for path, _, _ in os.walk(mount)] if mount else []
        for home in cgroup.chain("pids")[1][:1]:
            groups += home.glob(f"{cleanup.PREFIX}record-*")
        folders = [*groups, *Path("/dev/shm").iterdir(), *Path("/var/tmp").iterdir()]
        folders += [entry for entry in place.iterdir() if entry.is_dir()]
        found += [
            str(path)
            for path in folders
            if path.name.startswith(cleanup.PREFIX) and any(one in path.name for one in names)
        ]
        for area in proc.parse_swaps(proc.read(Path("/proc/swaps"))):
            if str(self.folder) in str(area["path"]):
                found.append(f"swap {area['path']}")
        found += [str(path) for path in (self.state / "memlab/journal").glob("*")]
        return found + list(self.zram())

    def zram(self) -> Iterator[str]:
        runs = {run for store in self.folder.glob("*/store.db") for run in run_ids(store)}
        for node in Path("/dev").glob("zram*"):
            with suppress(OSError), node.open("rb", buffering=0) as device:
                label = device.read(4096)[cleanup.LABEL_AT :][:16].split(b"\0")[0].decode()
                if label.removeprefix(cleanup.PREFIX) in runs:
                    yield str(node)

    def settled(self, place: Path, blow: Blow) -> None:
        deadline = time.monotonic() + LIMIT_S
        while left := self.left(place):
            if time.monotonic() > deadline:
                blow.wrong += [f"left: {one}{_looked_at(one)}" for one in left]
                self.before |= set(left)  # so that it counts once
                return
            time.sleep(0.02)

    # What befalls it

    def strike(self, experiment: str, what: str) -> Blow:
        """One sweep, one blow, and the look at what is left."""
        blow, place = Blow(experiment, what), self.folder / experiment
        if count(place / "store.db") > SAMPLES_MAX:
            shutil.rmtree(place)
        place.mkdir(exist_ok=True)
        # The lock waits for whatever other sessions' tests run, however long: no time of this blow.
        with host_lock(changes=experiment in CHANGES_HOST), unchanged(blow):
            self.pids.clear()
            self.before = set(self.seen(place))
            began, glances = time.monotonic(), len(self.blows)
            if experiment in (storm_recordings.COMMAND, storm_recordings.PROCESS):
                storm_recordings.hit(self, place, blow)
            elif what.startswith(STARVED):
                self.starve(experiment, place, blow)
            elif what in (CPU, CLOCK):
                self.disturb(experiment, place, blow)
            else:
                self.hit(experiment, place, blow)
            self.settled(place, blow)
            blow.seconds = time.monotonic() - began - sum(b.seconds for b in self.blows[glances:])
        self.blows.append(blow)
        return blow

    def hit(self, experiment: str, place: Path, blow: Blow) -> None:
        store = place / "store.db"
        before = rows(store)
        process = self.start(experiment, place)
        if self.some_moment(process, store) and experiment != "guest":
            for glancing in self.random.choices(GLANCING, k=self.random.randrange(4)):
                self.glance(process, store, Blow(experiment, glancing))
        seen, guarded = rows(store), bool(self.of(process.pid, "guardian"))
        if process.poll() is not None:
            err = self.said(process, blow)
            if process.returncode == LOST and "the fork server ended" in err:
                blow.what = "fork server"
                return
            blow.wrong.append(f"it ended by itself: {process.returncode} {err.strip()[-200:]}")
            return
        if blow.what in SIGNALLED:
            self.signal(process, blow)
        else:
            for who in blow.what.replace(" and ", ", then ").split(", then "):
                self.kill(process.pid, who)
                if ", then " in blow.what:
                    time.sleep(self.random.uniform(0, 0.2))
        lost = {"driver", "all", *SIGNALLED} & {blow.what, *_words(blow.what)}
        if process.poll() is None and not lost:  # it goes on without whom it lost
            time.sleep(self.random.uniform(0, 1.0))
            process.send_signal(signal.SIGINT)
        self.end(process, blow)
        if not guarded or {"guardian", "all"} & set(_words(blow.what)):
            cleaned = self.memlab("clean")
            if cleaned.returncode:
                blow.wrong.append(f"clean: {cleaned.returncode} {cleaned.stderr.strip()}")
        check(store, before | seen, blow)

    def some_moment(self, process: subprocess.Popen[str], store: Path) -> bool:
        """As it starts, or after its first sample in this session: whether it has one."""
        if self.random.random() < 0.3:
            time.sleep(self.random.uniform(0, 1.5))
            return False
        found = samples(store, process, count(store) + 1)
        time.sleep(self.random.uniform(0, 0.3))
        return found

    def glance(self, process: subprocess.Popen[str], store: Path, blow: Blow) -> None:
        """Kill what the sweep replaces, once it has begun to measure, and see that it goes on."""
        began, before = time.monotonic(), rows(store)
        if not before or process.poll() is not None or not self.kill(process.pid, blow.what):
            return
        # One sample may be on its way, and one is of the trial that was struck.
        if not samples(store, process, count(store) + 3) and process.poll() != LOST:
            blow.wrong.append(f"it takes no sample any more; ended: {process.poll()}")
        check(store, before, blow)
        blow.seconds = time.monotonic() - began
        self.blows.append(blow)

    def disturb(self, experiment: str, place: Path, blow: Blow) -> None:
        """Take the CPU that measures away or step the clock, and back; the sweep goes on."""
        store, group = place / "store.db", CPUSETS / f"storm-{os.getpid()}"
        before, first = rows(store), ""
        first_cpu, *_ = allowed = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
        if blow.what == CPU:
            group.mkdir()
            (group / "cpuset.mems").write_text((CPUSETS / "cpuset.mems").read_text())
            steps, at = [first_cpu, ",".join(allowed)], group / "cpuset.cpus"
            at.write_text(steps[1])
            first = f"echo $$ > {group}/cgroup.procs"
        else:
            steps, at = ["864000", "-864000", "0"], place / "clock"
            at.write_text("0")
            library = self.folder / "stepped_clock.so"
            source = Path(__file__).parent / "faults/stepped_clock.c"
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
            first = f"export LD_PRELOAD={library} STORM_CLOCK={at}"
        process = self.start(experiment, place, first)
        for step in steps:
            samples(store, process, count(store) + 1)
            time.sleep(self.random.uniform(0, 0.3))
            at.write_text(step)
        if process.poll() is None and not samples(store, process, count(store) + 2):
            blow.wrong.append("it takes no sample any more")
        process.send_signal(signal.SIGINT)
        self.end(process, blow)
        check(store, before, blow)
        if blow.what == CPU:
            self.settled(place, blow)
            group.rmdir()

    def kill(self, driver: int, who: str) -> int:
        """How many there were to kill."""
        found = self.of(driver, who)
        if who == "worker" and found:
            found = [self.random.choice(found)]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(found)

    def signal(self, process: subprocess.Popen[str], blow: Blow) -> None:
        if blow.what == "stop and continue":
            process.send_signal(signal.SIGSTOP)
            time.sleep(self.random.uniform(0, 0.5))
            process.send_signal(signal.SIGCONT)
            time.sleep(self.random.uniform(0, 0.3))
            process.send_signal(signal.SIGINT)
            return
        process.send_signal(getattr(signal, blow.what))

    def end(self, process: subprocess.Popen[str], blow: Blow, also: Set[int] = frozenset()) -> None:
        """Wait for the driver's end, and look at how it ended. Python may lose a signal that comes
        while it imports: then it is sent once more, as docs/security.md says."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(30.0)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2 * LIMIT_S)
        if process.poll() is None:
            blow.wrong.append("it does not end")
            process.kill()
        err = self.said(process, blow)
        # Python's own tracebacks, of an interrupt as it imports, name no file of ours.
        ours = f"{Path(cleanup.__file__).parents[1]}/"
        if ("Traceback" in err and ours in err) or "internal error" in err:
            blow.wrong.append(f"it said: {err.strip()[-300:]}")
        # Interrupted by a signal in order, by the signal before it listens, or killed; a worker
        # that cannot be replaced and a starved store are exit 3. Python's own, of an interrupt as
        # it starts, is 1 too.
        good = {130, 143, 129, -2, -15, -1, -9, 3}
        if err.endswith("KeyboardInterrupt\n"):
            good.add(1)
        if process.returncode not in good | also | (
            {0} if blow.what.startswith(STARVED) else set()
        ):
            blow.wrong.append(f"exit {process.returncode}: {err.strip()[-200:]}")

    def said(self, process: subprocess.Popen[str], blow: Blow) -> str:
        """What an ended sweep wrote; whatever of it lives has its pipe too, and is ended."""
        for _ in range(2):
            try:
                return process.communicate(timeout=LIMIT_S)[1]
            except subprocess.TimeoutExpired:
                for pid, line in self.processes().items():
                    blow.wrong.append(f"outlived the sweep by {LIMIT_S:.0f} s: {line[:60]}")
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        return ""

    def starve(self, experiment: str, place: Path, blow: Blow) -> None:
        """A small file system under the store, the files or the journal is filled, made read-only
        or taken away, in a mount namespace that ends with the sweep."""
        how, _, what = blow.what.partition(" ")
        at = {"store": place / "own", "files": place, "journal": self.state}[what]
        at.mkdir(parents=True, exist_ok=True)
        inside = place / "own" if what == "store" else place
        inside.mkdir(exist_ok=True)
        mount = f"mount -t tmpfs -o size=24m storm {at}"
        process = self.start(experiment, inside, mount, mounts=True)
        time.sleep(self.random.uniform(0.5, 2.5))
        enter = ["nsenter", "-t", str(process.pid), "-m"]
        do = {
            "full": ["sh", "-c", f"dd if=/dev/zero of={at}/ballast bs=64k"],
            "read-only": ["mount", "-o", "remount,ro", str(at)],
            "vanished": ["umount", "-l", str(at)],
        }[how]
        if process.poll() is None:
            subprocess.run([*enter, *do], capture_output=True)
        time.sleep(self.random.uniform(0.2, 1.0))
        process.send_signal(signal.SIGINT)
        self.end(process, blow)
        self.memlab("clean")
        for store in (at / "store.db", inside / "store.db"):
            if store.exists():
                check(store, {}, blow)

    # All of it

    def rage(self, kills: int, until: float) -> None:
        """So many blows, or as many as the time allows. What was wrong is said at once; the table
        says it again, at the end of a long log."""
        has_guests = shutil.which("qemu-system-x86_64")
        sweeps = [name for name in SMALL if name != "guest-memory" or has_guests]
        every = [*sweeps, *storm_recordings.names(), *storm_tries.NAMES]
        names = itertools.cycle([self.only] if self.only else every)
        number = 0
        while len(self.blows) < kills and time.monotonic() < until:
            if self.kernel and number % GUEST_OF == 1:
                experiment, what = "guest", self.random.choice(KILLED)
            else:
                experiment, what = self.draw(next(names))
            tried = len(self.blows)
            self.strike(experiment, what)
            for blow in self.blows[tried:]:
                if blow.wrong:
                    sys.stderr.write(f"{number}: {blow}\n")
            number += 1

    def draw(self, experiment: str) -> tuple[str, str]:
        """What befalls the next experiment, or the one that is starved."""
        drawn = self.random.random()
        if experiment in storm_recordings.names():
            of = storm_recordings.KILLED if drawn < 0.7 else SIGNALLED
            return experiment, self.random.choice(of)
        if drawn < 0.66:
            also = storm_tries.KILLED if experiment in storm_tries.NAMES else ()
            return experiment, self.random.choice([*KILLED, *also])
        if drawn < 0.86 or os.geteuid() != 0:
            return experiment, self.random.choice(SIGNALLED)
        if drawn < 0.94 or not self.disturbances():
            return "mmap-write", f"{self.random.choice(STARVED)} {self.random.choice(UNDER)}"
        return experiment, self.random.choice(self.disturbances())

    def disturbances(self) -> list[str]:
        """Those that can be made of a sweep alone here."""
        cpus = os.access(CPUSETS, os.W_OK) and len(os.sched_getaffinity(0)) > 1
        return [CPU] * cpus + [CLOCK] * (COMPILER is not None)

    def table(self) -> Iterator[str]:
        for title, key in (("blow", lambda b: b.what), ("experiment", lambda b: b.experiment)):
            yield f"| {title} | tried | nothing wrong | median s | longest s |"
            yield "| --- | ---: | ---: | ---: | ---: |"
            for name, tried in sorted(Counter(map(key, self.blows)).items()):
                of = [blow for blow in self.blows if key(blow) == name]
                good, times = sum(not blow.wrong for blow in of), sorted(b.seconds for b in of)
                median_s, longest_s = times[len(times) // 2], times[-1]
                yield f"| {name} | {tried} | {good} | {median_s:.1f} | {longest_s:.1f} |"
            yield ""
        good = sum(not blow.wrong for blow in self.blows)
        yield f"{len(self.blows)} tried, {good} with nothing wrong"
        for what, why in ((CPU, "no cpuset of cgroup v1"), (CLOCK, "no C compiler")):
            if what not in self.disturbances():
                yield f"not tried: {what}: {why}"
        if not self.kernel:
            yield "not tried: guests: --kernel VMLINUZ"
        yield from (f"wrong: {blow}" for blow in self.blows if blow.wrong)


def _looked_at(left: str) -> str:
    """The entries of a journal, the processes in a group, or what a process is at."""
    pid = left.partition(":")[0].removeprefix("process ")
    with suppress(OSError):
        if pid.isdecimal():
            waits = proc.read(Path(f"/proc/{pid}/wchan"))
            return f" ({proc.life(pid).state}, in {waits})"
        if left.endswith(".jsonl"):
            return f" ({' '.join(proc.read(Path(left)).split())})"
        if (procs := Path(left, "cgroup.procs")).exists():
            return f" (of processes {proc.read(procs).split()})"
    return ""


def _words(what: str) -> list[str]:
    return what.replace(",", "").split()


def _leads(pid: int) -> bool:
    with suppress(OSError):
        return proc.life(pid).session == pid
    return False


@contextmanager
def unchanged(blow: Blow) -> Iterator[None]:
    """The settings of the host, and the namespaces and mounts of this process, are as before."""

    def look() -> dict[str, str]:
        return {name: cleanup.value_of(Path(name)) for name in SETTINGS if Path(name).exists()}

    def mounts() -> set[str]:  # one may go with the folder that it is on, which is another's
        return set(proc.read(Path("/proc/self/mountinfo")).splitlines())

    before, mounted = look(), mounts()
    yield
    after = look()
    if blow.experiment in CHANGES_HOST:
        blow.wrong += [f"{name} is changed" for name in before if before[name] != after[name]]
        blow.wrong += [f"is mounted: {line}" for line in mounts() - mounted]


def rows(store: Path) -> dict[tuple[str, int, int], str]:
    """A hash of each committed sample by run, block and point; nothing of a store being made."""
    if not store.exists():
        return {}
    database = sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10)
    try:
        found = database.execute("SELECT run, block, point, outcome, raw FROM samples").fetchall()
    except sqlite3.OperationalError:
        return {}
    finally:
        database.close()
    return {
        (run, block, point): hashlib.sha256(repr(rest).encode()).hexdigest()
        for run, block, point, *rest in found
    }


def count(store: Path) -> int:
    """The samples in it, for little enough to be asked often."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT count(*) FROM samples").fetchone()[0])
    return 0


def samples(store: Path, process: subprocess.Popen[str], wanted: int) -> bool:
    """Whether a sweep comes to have so many."""
    deadline = time.monotonic() + LIMIT_S
    while count(store) < wanted and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return count(store) >= wanted


def run_ids(store: Path) -> list[str]:
    with suppress(sqlite3.Error):
        database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        try:
            return [run for (run,) in database.execute("SELECT id FROM runs")]
        finally:
            database.close()
    return []


def check(store: Path, committed: Mapping[tuple[str, int, int], str], blow: Blow) -> None:
    """The store is whole, has what it had, and nothing twice."""
    if not store.exists():
        if committed:
            blow.wrong.append("the store is gone")
        return
    database = sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10)
    try:
        (said,) = database.execute("PRAGMA integrity_check").fetchone()
        if said != "ok":
            blow.wrong.append(f"the store: {said}")
        twice = "SELECT 1 FROM samples GROUP BY run, block, point HAVING count(*) > 1"
        if database.execute(twice).fetchone():
            blow.wrong.append("a point has two samples of one block")
    except sqlite3.OperationalError as error:
        if committed:
            blow.wrong.append(f"the store: {error}")
        return
    finally:
        database.close()
    now = rows(store)
    if lost := [key for key, text in committed.items() if now.get(key) != text]:
        blow.wrong.append(f"{len(lost)} samples are lost or changed")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--minutes", type=float, default=180.0)
    parser.add_argument("--kernel", help="a vmlinuz: guests are struck too")
    parser.add_argument(
        "--only", choices=[*SMALL, *storm_tries.NAMES], help="strike this one alone"
    )
    asked = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)  # under `&` and nohup(1) sweeps would not hear them
    storm = Storm(asked.seed, asked.kernel, asked.only)
    try:
        storm.rage(asked.kills, time.monotonic() + 60 * asked.minutes)
    except KeyboardInterrupt:
        pass
    finally:
        storm.close()
    print("\n".join(storm.table()))
    return int(any(blow.wrong for blow in storm.blows))


if __name__ == "__main__":
    sys.exit(main())
