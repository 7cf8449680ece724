"""Ctrl-C, SIGTERM, SIGHUP: the sweep ends in order and says how to go on."""

import os
import shlex
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest
from quick import mostly_slow
from tiny_sweep import POINTS, TINY, Lab, settled


def ended_in_order(
    lab: Lab, status: int, out: str, err: str, number: int = signal.SIGINT
) -> list[str]:
    """Exit status, one line, nothing left; the words of the command that goes on."""
    (run,) = lab.run_ids()
    kept = lab.count()
    line = err.splitlines()[-1]
    samples = "1 sample" if kept == 1 else f"{kept} samples"
    command = f"memlab --store {lab.store} sweep --resume {run}"
    assert (status, out) == (128 + number, "")
    assert line == f"memlab: interrupted; {samples} kept; go on with: {command}"
    assert "Traceback" not in err
    settled(lab)
    return shlex.split(command)[1:]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_sweep_which_then_goes_on(lab: Lab, number: signal.Signals) -> None:
    blocks = 12
    sweep = lab.sweep(blocks)
    lab.until_sampled(sweep)
    sweep.send_signal(number)
    resume = ended_in_order(lab, *lab.finish(sweep), number)
    kept = lab.samples()
    status, out, err = lab.finish(lab.start(*resume, "-q"))
    assert (status, out.split()) == (0, lab.run_ids()), err
    done = lab.samples()
    assert {pair: done[pair] for pair in kept} == kept
    assert len(done) == blocks * POINTS


def test_the_terminals_ctrl_c_reaches_the_whole_group(lab: Lab) -> None:
    sweep = lab.sweep(1000, start_new_session=True)
    lab.until_sampled(sweep)
    os.killpg(sweep.pid, signal.SIGINT)
    ended_in_order(lab, *lab.finish(sweep))


@pytest.mark.slow
def test_a_second_ctrl_c_leaves_nothing_behind_either(lab: Lab) -> None:
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    for _ in range(2):
        sweep.send_signal(signal.SIGINT)
    status, _, err = lab.finish(sweep)
    assert status in (130, -signal.SIGINT)
    assert "Traceback" not in err
    settled(lab)


@pytest.mark.slow
def test_under_nohup_a_hangup_ends_no_sweep(lab: Lab) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        sweep = lab.sweep(1000)
    finally:
        signal.signal(signal.SIGHUP, before)
    lab.until_sampled(sweep)
    sweep.send_signal(signal.SIGHUP)
    lab.until_sampled(sweep, 2 * POINTS)
    sweep.send_signal(signal.SIGTERM)
    ended_in_order(lab, *lab.finish(sweep), signal.SIGTERM)


@pytest.mark.slow
def test_a_stopped_guardian_does_not_hold_up_the_end(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = lab.sweep(1000)
    lab.until_sampled(sweep)
    os.kill(lab.guardian(), signal.SIGSTOP)
    sweep.send_signal(signal.SIGINT)
    ended_in_order(lab, *lab.finish(sweep))


UNHEARD = ["2>&1 | head -2", ">/dev/null 2>&-", "2>/dev/full"]


@pytest.mark.slow
@pytest.mark.parametrize("words", mostly_slow(UNHEARD, "2>&1 | head -2"))
def test_a_sweep_that_nobody_listens_to_measures_to_its_end(lab: Lab, words: str) -> None:
    arguments = [*TINY, "--blocks", "3", "--dir", str(lab.files)]
    line = shlex.join(
        [sys.executable, "-m", "memlab", "--store", str(lab.store), "sweep", *arguments]
    )
    done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{line} {words}"], capture_output=True)
    assert done.returncode == 0
    assert lab.count() == 3 * POINTS
    settled(lab)


@pytest.mark.slow
@pytest.mark.parametrize("words", mostly_slow([">&-", ">/dev/full"], ">/dev/full"))
def test_a_table_that_cannot_be_written_is_exit_3_with_the_samples_kept(
    lab: Lab, words: str
) -> None:
    arguments = [*TINY, "--blocks", "3", "--dir", str(lab.files)]
    line = shlex.join(
        [sys.executable, "-m", "memlab", "--store", str(lab.store), "sweep", *arguments]
    )
    done = subprocess.run(["bash", "-c", f"{line} {words}"], capture_output=True, text=True)
    assert done.returncode == 3
    assert "memlab: cannot write the output: " in done.stderr
    assert lab.count() == 3 * POINTS
    settled(lab)


@pytest.mark.slow
def test_ctrl_c_while_it_is_imported_is_no_traceback() -> None:
    """At each of the first moments: by the signal itself, or as interrupted."""
    for moment in range(8):
        command = [sys.executable, "-X", "importtime", "-m", "memlab", "list"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as begun:
            assert begun.stderr is not None
            seen = 0
            for line in begun.stderr:
                seen += b" memlab." in line and b"_version" not in line
                if seen > moment:
                    break
            begun.send_signal(signal.SIGINT)
            rest = begun.stderr.read()
        assert begun.returncode in (0, 130, -signal.SIGINT)
        assert b"Traceback" not in rest


ENDED = [*product(["hosts import -", "report example:page-fault"], [signal.SIGTERM, signal.SIGHUP])]


@pytest.mark.parametrize("case", mostly_slow(ENDED, ENDED[1], ENDED[2]))
def test_every_command_ends_by_a_signal_as_a_sweep_does(
    case: tuple[str, signal.Signals], tmp_path: Path
) -> None:
    """They left what they had unpacked: 105 MB of an imported store."""
    words, number = case
    place, store = tmp_path / "temporary", tmp_path / "s.db"
    place.mkdir()
    (tmp_path / "file").touch()  # where no cache can be
    environ = os.environ | {"TMPDIR": str(place), "MEMLAB_STORE": str(store)}
    environ |= {"XDG_CACHE_HOME": str(tmp_path / "file")}
    command = [sys.executable, "-m", "memlab", *words.split()]
    if words.startswith("report"):
        command += ["-o", str(tmp_path / "fifo")]
        os.mkfifo(tmp_path / "fifo")  # it waits for its reader
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not list(place.glob("*/*")):
            time.sleep(0.01)
        process.send_signal(number)
        said = process.stderr.read() if process.stderr else ""
        assert process.wait() == 128 + number, said
    assert said == f"memlab: ended by {number.name}\n"
    assert list(place.iterdir()) == []


SWALLOWED = {
    "at its end": "db.execute('SELECT end(), end()').fetchall()",
    "where it goes on and waits": """
    with suppress(sqlite3.Error):
        db.execute('SELECT end()').fetchall()
    os.read(os.pipe()[0], 1)""",
    "while it cleans up": """
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        with suppress(OSError):
            open('/')
        os.kill(os.getpid(), signal.SIGALRM)
        print('all of it')""",
}


@pytest.mark.parametrize("where", SWALLOWED)
def test_a_signal_that_sqlite_swallows_ends_the_command_all_the_same(where: str) -> None:
    """What is raised in a callback of SQLite's is an error of SQLite's. A report waited for the
    reader of a FIFO, since SIGTERM had come while its store was checked."""
    code = f"""
import os, signal, sqlite3
from contextlib import suppress
from memlab import cli
db = sqlite3.connect(":memory:")
db.create_function("end", 0, lambda: os.kill(os.getpid(), signal.SIGTERM))
def command(**_):
    {SWALLOWED[where].lstrip()}
cli.cli.main = command
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (143, "memlab: ended by SIGTERM\n")
    assert done.stdout == ("all of it\n" if "cleans up" in where else "")


def test_an_interrupt_that_a_finalizer_swallows_ends_the_command_all_the_same() -> None:
    """A weak reference's callback of importlib's lost one, as a command was imported."""
    code = """
import os, signal, time, weakref
from memlab import cli
class Lock: pass
def command(**_):
    lock = Lock()
    watched = weakref.ref(lock, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del lock
    try:
        os.read(os.pipe()[0], 1)
    finally:
        time.sleep(0.3)  # no second alarm comes
cli.cli.main = command
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (130, "memlab: interrupted\n")


def test_an_alarm_of_somebody_elses_ends_the_command_by_its_name() -> None:
    code = "import os, signal; from memlab import cli; cli.cli.main = lambda **_: "
    code += "os.kill(os.getpid(), signal.SIGALRM); cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (142, "memlab: ended by SIGALRM\n")


@pytest.mark.slow
def test_clean_removes_what_killed_commands_left_and_nothing_that_is_used(tmp_path: Path) -> None:
    place, old = tmp_path / "temporary", (0, 0)
    place.mkdir()
    names = ("memlab-import-abcd0123", "memlab-0123abcd-dir", "memlab-store-x", "precious")
    for name in names:
        (place / name).mkdir()
        (place / name / "file").write_text("x")
        os.utime(place / name, old)
    (place / "memlab-store-aaaabbbb").symlink_to(place / "precious")
    environ = os.environ | {"TMPDIR": str(place), "MEMLAB_STORE": str(tmp_path / "s.db")}
    memlab = [sys.executable, "-m", "memlab"]
    with subprocess.Popen(
        [*memlab, "hosts", "import", "-"], env=environ, stdin=subprocess.PIPE
    ) as used:
        while len(list(place.glob("memlab-import-*/*"))) < 2:
            time.sleep(0.01)
        (live,) = {path.name for path in place.iterdir()} - {*names, "memlab-store-aaaabbbb"}
        os.utime(place / live, old)
        done = subprocess.run([*memlab, "clean"], env=environ, capture_output=True, text=True)
        left = {path.name for path in place.iterdir()}
        used.kill()
    os.utime(place / live, old)
    again = subprocess.run([*memlab, "clean"], env=environ, capture_output=True, text=True)
    assert (done.returncode, again.returncode) == (0, 0)
    assert f"a killed command: folder {place}/{names[0]}\n" in done.stdout
    assert left == {*names[1:], "memlab-store-aaaabbbb", live}
    assert f"folder {place}/{live}\n" in again.stdout
    assert (place / "precious/file").exists()


AT_ONCE = [("SIGHUP", 129), ("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP,SIGTERM", 129)]


@pytest.mark.parametrize("case", mostly_slow(AT_ONCE, AT_ONCE[0]))
def test_a_signal_at_any_opcode_of_the_start_or_end_is_one_line(case: tuple[str, int]) -> None:
    """One between the start of a context manager and its body left a traceback."""
    names, code = case
    script = Path(__file__).with_name("every_opcode.py")
    done = subprocess.run([sys.executable, script, names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, *lines = done.stdout.splitlines()  # the first is the version
    by_default = {f"{-signal.Signals[name]} ''" for name in names.split(",")}
    word = "interrupted" if names == "SIGINT" else f"ended by {names.partition(',')[0]}"
    in_order = {f"{code} {f'{blank}memlab: {word}{chr(10)}'!r}" for blank in ("", "\n")}
    assert set(lines) <= by_default | in_order
    assert set(lines) & by_default
    assert set(lines) & in_order
