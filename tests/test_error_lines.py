"""The one table of error lines: a command that is refused says what and what to do in one line, has
the right exit code, prints nothing else and makes nothing.

Other tests say that something is refused; the words stand here. Each command runs in this process.
"""

import errno
import os
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import unprivileged
from command import process
from synthetic import run_row

from memlab import cli, experiments
from memlab.run import journal
from memlab.store import Store

USAGE, CANNOT_RUN = 2, 3
SWEEP = ["sweep", "mmap-write"]

# The command, as a shell takes it: what its line holds, in any order. PID is this process.
WRONG_USAGE = {
    "sweep page-fault --in guest,kernel=/no/vmlinuz": ["no kernel at /no/vmlinuz", "kernel="],
    "sweep page-fault --in guest,kernel=/etc/hostname": ["hostname is not a bootable kernel"],
    "sweep page-fault --in guest,kernel=/etc": ["/etc is a directory", "the vmlinuz inside"],
    "sweep page-fault --in guest,cpus=0": ["--in", "cpus: 0 is not in the range"],
    "sweep page-fault --in guest,memory=1m": ["memory", "256 MiB or more"],
    'sweep page-fault --in guest,append="it\'s"': ["append", "No closing quotation"],
    "sweep page-fault --in moon": ["'moon' is not host or guest,KEY=VALUE,..."],
    "sweep page-fault --in guest,kernel=/etc --dry-run": ["/etc is a directory"],
    "sweep page-fault --in guest -p chnks=1": ["did you mean chunks?"],
    "sweep page-fault --in gest": ["'gest' is not host or guest,KEY=VALUE,..."],
    "sweep page-fault --in guest,memry=1g": ["no setting 'memry'; did you mean memory?"],
    "sweep page-fault --in guest,kernel": ["write kernel=VALUE"],
    "sweep page-fault --design seed=1,seed=2": ["--design", "seed is given twice"],
    "diagnose --watch end --keep '' PID": ["'--keep'", "no name was given: it is empty"],
    "sweep mmap-write --dir ''": ["'--dir'", "no name was given: it is empty"],
    "record -o '' -- true": ["'-o'", "no name was given: it is empty"],
    "plot last -o ''": ["'-o'", "no name was given: it is empty"],
    "hosts import ''": ["'FILE'", "no name was given: it is empty"],
    "--store '' list": ["'--store'", "no name was given: it is empty"],
    "describe": ["Missing argument 'EXPERIMENT'", "see memlab describe --help"],
    "compare": ["Missing argument 'BASE'", "see memlab compare --help"],
    "reproduce": ["Missing argument", "see memlab reproduce --help"],
    "reproduce miao-2021 --dry-run --json": ["--dry-run is text", "leave --json out"],
    "hosts worker": ["tls://HOST:PORT"],
    "hosts worker tcp://10.0.0.1:8786": ["without TLS", "tls://HOST:PORT"],
    "swep": ["no command 'swep'", "did you mean `memlab sweep`?"],
    "pull b": ["no command 'pull'", "did you mean `memlab hosts pull`?"],
    "bisect vma-lock": ["no command 'bisect'", "did you mean `memlab kernels bisect`?"],
    "hosts pul": ["no command 'pul'", "did you mean `memlab hosts pull`?"],
    "kernels zzz": ["no command 'zzz'", "`memlab kernels --help` lists them"],
    "kernels ladder": ["name an experiment; `memlab list` lists them"],
    "hosts --json": ["no option --json before a command", "memlab hosts pull --json"],
    "hosts pull": ["Missing argument", "see memlab hosts pull --help"],
    "zzz": ["no command 'zzz'", "`memlab --help` lists them"],
    "--nosuch": ["--nosuch"],
    "sweep": ["name an experiment", "`memlab list`"],
    "sweep mmap-wirte": ["no experiment 'mmap-wirte'", "did you mean mmap-write?"],
    "sweep zzz": ["no experiment 'zzz'; `memlab list` lists them"],
    "sweep mmap-write mmap-read": [
        "unexpected extra argument (mmap-read); see memlab sweep --help"
    ],
    "--wait 5min sweep mmap-write": ["5min", "--wait=5min"],
    "sweep mmap-write --wait": ["--wait stands before the command: memlab --wait sweep"],
    "sweep mmap-write --presett quick": ["--presett", "--preset"],
    "sweep mmap-write --preset quik": ["--preset", "'quik'", "'quick'", "'paper'", "'full'"],
    "sweep mmap-write -p siz=4": ["no factor 'siz'", "did you mean size?"],
    "sweep mmap-write -p size=4q": ["size", "'4q' is not a size", "4k"],
    "sweep mmap-write -p size": ["write -p size=1B"],
    "sweep mmap-write -p size=1 -p size=2": ["size is given twice"],
    "sweep mmap-write -p method=mmpa": ["invalid value 'mmpa'", "did you mean mmap?", "pwrite"],
    "sweep mmap-write -p size=8k -p file_size=4k": ["no point is left", "more than the whole file"],
    "sweep mmap-write --blocks 0": ["--blocks", "0 is not in the range"],
    "sweep mmap-write --blocks x": ["--blocks", "'x'"],
    "sweep mmap-write --blocks 3 --precision 2%": ["--blocks", "--precision", "choose one"],
    "sweep mmap-write --precision 2": ["--precision", "'2' is not a percentage", "2%"],
    "sweep mmap-write --precision 0%": ["precision is a share above 0", "0%"],
    "sweep mmap-write --budget ten": ["--budget", "'ten' is not a duration", "10ms"],
    "sweep mmap-write --budget 0": ["budget is a time above 0", "0 s"],
    "sweep mmap-write --design seed=-1": ["--design", "seed: -1 is not in the range"],
    "sweep mmap-write --design cpus=a": ["cpus:", "'a' is not a CPU list", "0-3,5"],
    "sweep mmap-write --design cpus=3-1": ["cpus:", "'3-1' is not a CPU list"],
    "--store / sweep mmap-write": ["--store", "'/' is a directory"],
    "sweep mmap-write -o /proc/self/stat": ["-o", "/proc/self/stat"],
    "sweep --resume last --design seed=0": ["--resume", "not --design"],
    "sweep --resume last --dry-run": ["--resume", "not --dry-run"],
    "sweep --resume last --preset full": ["--resume", "not --preset"],
    "sweep --resume last -p size=1": ["--resume", "not --factor"],
    "describe miao-2021": ["it is a study", "memlab reproduce miao-2021"],
    "describe mmap-raed": ["no experiment 'mmap-raed'", "did you mean mmap-read?"],
    "export --format xml": ["--format", "'xml'", "'csv'", "'jsonl'", "'parquet'"],
    "clean now": ["unexpected extra argument", "now"],
    "kernels bisect vma-lock nothing 6.1 7.3": [
        "no metric 'nothing'",
        "`memlab describe -v vma-lock` lists them",
    ],
    "kernels bisect vma-lock mlock-resident-pages-7": ["OLDER NEWER|KERNEL", "bisect --help"],
    "kernels bisect vma-lock locked_pages /dev/null": ["two kernels, the older first"],
    "report --experiment mmap-write": ["No such option", "--experiment"],
    "-v show": ["no option -v before a command; those of a command follow", "memlab sweep -v"],
    "schema shwo": ["no schema of 'shwo'; did you mean show?"],
    "completion ksh": ["'ksh'", "'bash'", "'fish'"],
    "show example:last": ["no recorded run of 'last'; `memlab list` lists them"],
    "reproduce zzz": ["no study or experiment 'zzz'; `memlab list` lists them"],
    "reproduce logstore-mmap --table 7": ["there are: write, read, overcommit"],
    "reproduce mmap-write --table 5": ["mmap-write is not a study"],
    "reproduce phytium-reserved --table expected": ["no experiment measures it"],
    # hosts
    "hosts pull ssh:": ["names no host: write ssh:HOST,HOST"],
    "hosts pull ssh:-oProxyCommand=x": ["'-oProxyCommand=x' is not a host"],
    "hosts pull 'ssh:a b'": ["'a b' is not a host"],
    "hosts pull 'a;b'": ["'a;b' is not a host"],
    "hosts pull dask:tcp://a": ["is not a scheduler's address"],
    "hosts pull dask:tcp://10.0.0.1:8786": [
        "without TLS whoever reaches the scheduler can start comm"
    ],
    "hosts pull gone.toml": ["gone.toml: No such file or directory"],
    # a command of one's own
    "try ./nope": ["./nope: the command to try is not found"],
    "try ''": ["'': the command to try is not found"],
    "try -p lock=off,future -- python3 -": ["python3 -: it reads its program from standard input"],
    "fit --keep-within 'p99: 5%' -- true": ["no metric 'p99'; name the file", "--latencies FILE"],
    "diagnose PID --keep x.json": ["--keep is the file for", "add --watch TRIGGER"],
    "record -o x.trace --buffer 3M -- true": ["3145728 B is not a power of two", "write 32M"],
    "fit -- sh": ["sh: it reads its program from standard input", "name a file of it"],
    "try /etc/passwd": ["/etc/passwd: the command to try is not executable"],
    "try -p lock=of true": ["lock: invalid value 'of'; did you mean off?"],
    "try -p lock=on true": ["choose from off, "],
    "try -p lokc=off true": ["no policy 'lokc', and no {lokc} in the command; did you mean lock?"],
    "try -p malloc=umem true": ["malloc: invalid value 'umem' (choose from system, "],
    "try -p malloc=glibc/late true": ["malloc: glibc has no setting 'late' (choose from "],
    "try -p nice=99 true": ["nice: 99 is out of bounds, -20 to 19"],
    "try -p memory_max=0 true": ["memory_max: 0 leaves no memory to run in; write none for no"],
    "try -p env.A=x,x true": ["its levels are the same"],
    "try --timeout 0s true": ["--timeout: 0 s is not a time limit"],
    "try --serve ./nope --ready tcp:1 true": ["./nope: the command to try is not found"],
    "try --serve true true": ["say when the service is ready: --ready tcp:{port}"],
    "try --serve true --ready tcp:x true": ["--ready tcp:x: a port is 1 to 65535"],
    "try --serve true --ready tcp:0 true": ["--ready tcp:0: a port is 1 to 65535"],
    "try --serve true --ready tcp:65536 true": ["--ready tcp:65536: a port is 1 to 65535"],
    "try --serve true --ready http:x true": ["--ready http:x: write http://127."],
    "try --serve true --ready http://a:x true": ["--ready http://a:x: write http:"],
    "try --serve true --ready 'line:(' true": ["--ready 'line:(': missing )"],
    "try --ready tcp:1 true": ["--ready is of a service: name it with --serve"],
    """try --serve "un'balanced" true""": ['--serve "un\'balanced": No closing quotation'],
    "try --expect '' true": ["--expect"],
    "try --expect elapsed true": ["--expect"],
    "try --expect 'elapsd < 1s' true": ["--expect", "elapsd"],
    "try --expect 'elapsed < 1' true": ["--expect"],
    "try --expect 'elapsed: n=1 < 1s' true": ["--expect"],
    "try -p lock=off --expect 'elapsed: lock=x < 1s' true": ["--expect"],
    # a live process
    "diagnose": ["name one subject"],
    "diagnose 0": ["PID 0 is not a process"],
    "diagnose -1": ["-1"],
    "diagnose no-such-name": ["PID", "'no-such-name'", "no process has that name"],
    "diagnose 1 --group self": ["name one subject"],
    "diagnose --group no/such": ["--group no/such"],
    "diagnose --group of:x": ["--group of:x"],
    "diagnose 4194305": ["no process 4194305"],  # above the largest that Linux gives
    "diagnose PID --seconds 0": ["--seconds", "0"],
    "diagnose PID --seconds soon": ["--seconds", "'soon'"],
    "diagnose PID --seconds nan": ["--seconds", "nan"],
}
CANNOT = {
    "sweep mmap-write --design cpus=65535": ["cpus: CPU 65535 is not among those allowed here ("],
    "sweep mmap-write -o /proc/nosuch": ["cannot write /proc/nosuch: No such file or directory"],
    "try -o /etc/hostname/x -- true": ["cannot write /etc/hostname/x: Not a directory"],
    "sweep mmap-write --dir /proc/nonexistent": ["/proc/nonexistent is not a directory", "--dir"],
    "sweep mmap-write --dir /proc/self/stat": ["/proc/self/stat is not a directory", "--dir"],
    "sweep mmap-write -p file_size=1000t": [
        "the plan, with memlab itself, needs 3750 TiB of free memory",
        "is free",
        "file_size",
    ],
    "sweep --resume last": ["no store at ", "memlab sweep"],
    "sweep mmap-write --resume last": ["no store at ", "memlab sweep"],
    "show": ["no store at "],
    "runs": ["no store at "],
    "export": ["no store at "],
    "plot": ["no store at "],
    "--store /proc/self/stat runs": ["cannot open the store /proc/self/stat"],
    "--store /proc/memlab/results.db sweep mmap-write": ["cannot open the store /proc/memlab/"],
}


def tree(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


class Place:
    """Runs a command here, in this process, and sees what it made."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture):
        self.folder, self.patch, self.capture = folder, patch, capture

    def refused(self, arguments: list[str]) -> tuple[int, str]:
        """The exit status and the one line; nothing else is said, nothing is made."""
        before = tree(self.folder)
        self.patch.setattr(sys, "argv", ["memlab", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = self.capture.readouterr()
        assert out == ""
        assert err.startswith("memlab: ")
        assert err.count("\n") == 1
        assert tree(self.folder) == before
        assert isinstance(ended.value.code, int)
        return ended.value.code, err


@pytest.fixture
def place(
    tmp_path: Path,
    store_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Place:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where files on a disk go
    return Place(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("words", ["try {}", "sweep mmap-write --dry-run --dir {}"])
def test_a_name_that_no_file_can_have(place: Place, words: str) -> None:
    status, line = place.refused(words.format("x" * 5000).split())
    assert status == USAGE
    assert "xxx...: the name is too long" in line


def words_of(arguments: str) -> list[str]:
    return [str(os.getpid()) if word == "PID" else word for word in shlex.split(arguments)]


@pytest.mark.parametrize("arguments", WRONG_USAGE)
def test_wrong_usage(place: Place, arguments: str) -> None:
    status, line = place.refused(words_of(arguments))
    assert status == USAGE
    assert [word for word in WRONG_USAGE[arguments] if word not in line] == [], line


@pytest.mark.parametrize("arguments", CANNOT)
def test_cannot_run_here(place: Place, arguments: str) -> None:
    status, line = place.refused(words_of(arguments))
    assert status == CANNOT_RUN
    assert [word for word in CANNOT[arguments] if word not in line] == [], line


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    done = unprivileged.python("-m", "memlab", *SWEEP, "--dir", str(locked))
    assert done.returncode == CANNOT_RUN
    said = f"memlab: {locked} cannot be written; name another directory with --dir"
    assert done.stderr.splitlines() == [said]


def test_an_unknown_run_names_the_nearest(place: Place, store_path: Path) -> None:
    with Store(store_path, create=True) as opened:
        opened.add_run(run_row(name="baseline"), [])
    for command in ("show", "export", "plot", "sweep --resume"):
        status, line = place.refused([*command.split(), "baselin"])
        assert status == USAGE
        assert "no run 'baselin'" in line
        assert "did you mean baseline?" in line


def test_an_environment_variable_is_checked_like_an_option(place: Place) -> None:
    place.patch.setenv("MEMLAB_SWEEP_BUDGET", "soon")
    status, line = place.refused(SWEEP)
    assert status == USAGE
    assert "'soon' is not a duration" in line


def test_an_internal_error_is_one_line_and_debug_shows_where(place: Place) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of the test")

    place.patch.setattr(experiments, "names", broken)
    status, line = place.refused(["list"])
    assert status == 4
    assert line == "memlab: internal error: ZeroDivisionError: of the test; --debug shows where\n"
    place.patch.setattr(sys, "argv", ["memlab", "--debug", "list"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    traceback, said = place.capture.readouterr().err.rsplit("\n", 2)[:2]
    assert ended.value.code == 4
    assert traceback.startswith("Traceback ")
    assert f"{said}\n" == line


def test_clean_says_of_what_it_cannot_undo_no_word_that_nothing_was_left(place: Place) -> None:
    entry = '{"undo": "later", "path": "/x"}'
    opened = journal.Journal("0123abcd")
    opened.path.write_text(f"{opened.path.read_text()}{entry}\n".replace('"start": ', '"start": 1'))
    os.close(opened.fd)
    status, line = place.refused(["clean"])
    assert status == CANNOT_RUN
    assert line.startswith("memlab: could not undo later /x: this memlab cannot undo it")


def test_an_interrupt_in_python_s_own_hooks_is_no_internal_error(place: Place) -> None:
    def names(*_: object) -> None:  # as Python 3.11 does where a class is made
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    place.patch.setattr(experiments, "names", names)
    assert place.refused(["list"]) == (130, "memlab: interrupted\n")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (OSError(errno.EMFILE, "of the test"), "ulimit -n"),
        (OSError(errno.EAGAIN, "of the test"), "ulimit -u"),
        (MemoryError(), "ulimit -v"),
        (ImportError("x.so: failed to map segment from shared object"), "ulimit -v"),
    ],
)
def test_a_limit_of_this_process_is_no_internal_error(
    place: Place, error: Exception, remedy: str
) -> None:
    def short(*_: object) -> None:
        raise error

    place.patch.setattr(experiments, "names", short)
    status, line = place.refused(["list"])
    assert status == CANNOT_RUN
    assert remedy in line


@pytest.mark.parametrize("limited", [True, False])
def test_what_a_library_has_no_words_for_is_the_limits_fault_where_there_is_one(
    place: Place, limited: bool
) -> None:
    """numpy under `ulimit -v 210000`, where more than the least is asked for."""

    def short(*_: object) -> None:
        raise SystemError("error return without exception set")

    most = 210 << 20 if limited else resource.RLIM_INFINITY
    place.patch.setattr(experiments, "names", short)
    place.patch.setattr(resource, "getrlimit", lambda _: (most, most))
    status, line = place.refused(["list"])
    assert status == (CANNOT_RUN if limited else cli.INTERNAL)
    assert ("raise `ulimit -v`" in line) == limited


@pytest.mark.parametrize("kilobytes", [90_000, 120_000, 146_000, 180_000])
def test_too_little_address_space_is_a_line(kilobytes: int) -> None:
    words = f'ulimit -v {kilobytes}; exec "$0" -m memlab show example:page-fault'
    done = subprocess.run(["bash", "-c", words, sys.executable], capture_output=True, text=True)
    assert done.returncode == CANNOT_RUN
    assert re.fullmatch("memlab: .*raise `ulimit -v`.*\n", done.stderr)


@pytest.mark.parametrize("kilobytes", [40_000, 150_000])
def test_too_little_data_is_a_line(kilobytes: int) -> None:
    """OpenBLAS would end the process with words of its own."""
    words = f'ulimit -d {kilobytes}; exec "$0" -m memlab show example:page-fault'
    done = subprocess.run(["bash", "-c", words, sys.executable], capture_output=True, text=True)
    assert done.returncode == CANNOT_RUN
    assert re.fullmatch("memlab: .*`ulimit -d`.*\n", done.stderr)


@pytest.mark.needs("root's capabilities")
def test_too_few_processes_are_a_line() -> None:
    """numpy's OpenBLAS starts a thread per CPU, and raises SIGINT where it cannot."""
    words = 'ulimit -u 1; exec "$0" -m memlab show example:page-fault'
    held = unprivileged.held_to_limits()
    command = [*held, "bash", "-c", words, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == CANNOT_RUN
    assert "raise `ulimit -u`" in done.stderr


@pytest.mark.seconds
@pytest.mark.needs("root", "a mount namespace")
@pytest.mark.parametrize(
    ("command", "code"), [("sweep mmap-write", 3), ("doctor", 0), ("clean", 0)]
)
def test_without_proc_what_needs_it_says_how_to_have_it(command: str, code: int) -> None:
    cover = 'mount -t tmpfs none /proc && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", cover, "-", sys.executable, "-m", "memlab"]
    done = subprocess.run([*words, *command.split()], capture_output=True, text=True, check=False)
    wanted = "memlab: /proc/meminfo is not there: mount -t proc proc /proc\n" if code else ""
    assert (done.returncode, done.stderr) == (code, wanted)


@pytest.mark.needs("root", "a mount namespace")
@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("rmdir $PWD", "the current folder was removed: change to another one"),
        ("mount -t tmpfs none /dev", "/dev/null is not there: mknod -m 666 /dev/null c 1 3"),
    ],
)
def test_what_every_process_has_is_missed_in_a_line(before: str, said: str, tmp_path: Path) -> None:
    (folder := tmp_path / "folder").mkdir()
    words = ["unshare", "--mount", "sh", "-c", f'{before} && exec "$@"', "-", sys.executable, "-m"]
    tried = ["memlab", "--store", str(tmp_path / "store.db"), "try", "-q", "--", "true"]
    with open("/dev/null") as nothing:
        done = subprocess.run(
            [*words, *tried], capture_output=True, text=True, stdin=nothing, cwd=folder
        )
    assert (done.returncode, done.stderr) == (CANNOT_RUN, f"memlab: {said}\n")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_deep(path: Path) -> None:
    path.write_text(f"command = {'[' * 100_000}\n")


READS = ["try {}", "hosts pull {}", "sweep page-fault --dry-run --in guest,kernel={}"]


@pytest.mark.seconds(but="make_fifo-hosts pull {}")
@pytest.mark.parametrize("words", READS)
@pytest.mark.parametrize("make", [make_fifo, make_endless, make_deep])
def test_a_file_that_would_be_waited_for_or_has_no_end_is_refused(
    make: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    make(tmp_path / "a.toml")
    done = process(*words.format(tmp_path / "a.toml").split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (USAGE, "", 1)
    assert done.stderr.startswith(f"memlab: {tmp_path}/a.toml")
