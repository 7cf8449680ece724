"""Text that memlab did not write: it is shown, and does nothing where it is shown.

And the streams it goes to: closed, full, without a reader, of an encoding that lacks a character.
"""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from command import memlab, process
from quick import mostly_slow

from memlab import cli, recorded
from memlab.cli import _completing, runs
from memlab.store import Store
from memlab.text.printable import json_text, printable

pytestmark = pytest.mark.slow

EVIL = "a\n::error::b\x1b]0;pwn\x07\x85\u2028\u202e[/x][red]\udcff\x00<script>|`"
SEEN = r"a\n::error::b\x1b]0;pwn\x07\x85\u2028\u202e[/x][red]\xff\x00<script>|`"
UNSEEN = "\x00\x07\x1b\x85\u2028\u202e\udcff"


def test_what_is_not_seen_is_written_out() -> None:
    assert printable(EVIL) == SEEN
    assert printable("µs ± 2 %, naïve, 内存") == "µs ± 2 %, naïve, 内存"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


def test_json_says_the_same_in_utf_8() -> None:
    text = json_text(json.dumps({"a": EVIL, "b": "\U000e0041"}, ensure_ascii=False, indent=1))
    text.encode()
    assert not set(UNSEEN) & set(text)
    assert json.loads(text) == {"a": EVIL, "b": "\U000e0041"}


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose every text comes from somebody else."""
    path = tmp_path_factory.mktemp("hostile") / "evil.db"
    evil = EVIL.replace("\udcff", "")  # SQLite's text is UTF-8
    with Store(recorded.store("mmap-write")) as source, Store(path, create=True) as made:
        row = source.find("last")
        environment = dict(row.environment) | {"cpu_model": evil, "kernel_release": evil}
        made.add_run(
            replace(row, name=evil, memlab=evil, environment=environment), source.points(row.id)
        )
        session = made.begin_session(row.id)
        for number, sample in enumerate(source.samples(row.id)):
            if number % 5 == 0:
                sample = replace(sample, outcome="error", detail=evil, raw=None)
            made.add_sample(row.id, session, 1.0, replace(sample, probe_hash=evil))
        made.end_session(row.id, session, 1.0, evil)
    return path


def harmless(text: str) -> bool:
    assert not set(UNSEEN) & set(text)
    return not any(line.startswith("::error::b") for line in text.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        "show",
        "show --json",
        "runs",
        "runs --json",
        "claims -v",
        "claims --json",
        "claims --format junit",
        "claims --format github",
        "claims --format bmf",
        "compare last --baseline method=write",
        "export last",
        "compare last --baseline method=write --format github",
        "report -o -",
        "show nosuch",
    ],
)
def test_a_hostile_store_prints_nothing_that_acts(hostile: Path, arguments: str) -> None:
    done = memlab("--store", str(hostile), *arguments.split())
    assert done.returncode in (0, 2), done.stderr
    assert harmless(done.stdout)
    assert harmless(done.stderr)
    if "json" in arguments or "bmf" in arguments:
        json.loads(done.stdout)
    if "junit" in arguments:
        ElementTree.fromstring(done.stdout)
    assert "<script>|" not in done.stdout or "report" not in arguments


def test_completion_offers_no_name_that_acts(hostile: Path) -> None:
    """What is offered is typed for the user."""
    context = click.Context(cli.cli)
    context.params = {"store": str(hostile)}
    (parameter,) = (p for p in runs.command.params if p.name == "delete")
    items = _completing.run(context, parameter, "")
    assert len(items) == 2  # `last`, and the run's id
    assert all(harmless(f"{item.value}{item.help}") for item in items)


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", EVIL],
        ["show", EVIL],
        ["sweep", "mmap-write", "--dir", EVIL],
        ["sweep", "mmap-write", "--name", EVIL],
        ["sweep", "mmap-write", "-p", EVIL],
        ["sweep", "mmap-write", "--design", f"cpus={EVIL}"],
        ["--store", EVIL, "show"],
        [EVIL],
        ["plot", "example:mmap-write", "-o", f"{EVIL}.zip"],
        ["show", "x" * 100_000],
    ],
)
def test_a_wrong_argument_is_quoted_in_one_short_line(arguments: list[str]) -> None:
    done = memlab(*(word.replace("\x00", "") for word in arguments))
    assert done.returncode in (2, 3)
    assert done.stdout == ""
    assert harmless(done.stderr)
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 2000


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is not UTF-8."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path_factory.mktemp("odd")) + b"/\xff\x1b[1m"))
    folder.mkdir()
    return folder


SMALL = "-p size=4k -p method=write -p file_size=1m -p filesystem=dir -p slice=1ms --blocks 1 -q"


@pytest.mark.slow
def test_a_run_may_lie_where_names_are_no_utf_8(odd: Path) -> None:
    store = ["--store", str(odd / "r.db")]
    swept = memlab(
        *store, *("sweep", "mmap-write", *SMALL.split()), "--dir", str(odd), "--name", "[/x]"
    )
    assert swept.returncode == 0, swept.stderr
    for arguments in ("show", "show --json", "report -o -", "claims --format junit", "runs"):
        done = memlab(*store, *arguments.split())
        assert done.returncode == 0, done.stderr
        assert harmless(done.stdout)
    shown = json.loads(memlab(*store, "show", "--json").stdout)
    assert shown["request"]["directory"] == str(odd)
    assert shown["name"] == "[/x]"
    for arguments in (["report"], ["plot"], ["export", "-o", str(odd / "x.csv")]):
        assert memlab(*store, *arguments).returncode == 0


# Where it goes


def run(*arguments: str, **settings: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "memlab", *arguments],
        timeout=120,
        check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings},  # type: ignore[arg-type]
    )


@pytest.fixture
def full() -> Iterator[int]:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


PRINTING = ["list", "show example:mmap-write", "show example:mmap-write --json", "schema show"]


@pytest.mark.parametrize("arguments", mostly_slow(PRINTING, "show example:mmap-write"))
def test_output_that_cannot_be_written_is_an_error_of_one_line(arguments: str, full: int) -> None:
    done = run(*arguments.split(), stdout=full)
    said = b"memlab: cannot write the output: No space left on device\n"
    assert (done.returncode, done.stderr) == (3, said)
    done = run(*arguments.split(), stdout=None, preexec_fn=lambda: os.close(1))
    said = b"memlab: cannot write the output: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (3, said)


@pytest.mark.parametrize("arguments", mostly_slow(PRINTING, "show example:mmap-write"))
def test_a_reader_that_has_gone_is_no_error(arguments: str) -> None:
    gone, end = os.pipe()
    os.close(gone)
    done = run(*arguments.split(), stdout=end)
    os.close(end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_messages_that_cannot_be_written_change_no_exit_code(full: int) -> None:
    assert run("nosuch", stderr=full).returncode == 2
    assert run("nosuch", stderr=None, preexec_fn=lambda: os.close(2)).returncode == 2
    assert run("list", stdout=full, stderr=full).returncode == 3


@pytest.mark.slow
@pytest.mark.parametrize("place", ["gone", "full", "closed"])
def test_a_sweep_whose_messages_nobody_reads_measures_to_the_end(
    place: str, tmp_path: Path, full: int
) -> None:
    store = tmp_path / "r.db"
    words = ["--store", str(store), "sweep", "mmap-write", "-p", "size=4k", "-p", "method=write"]
    words += [
        "-p",
        "file_size=1m",
        "-p",
        "file_state=cached_4k",
        "-p",
        "slice=1ms",
        "--blocks",
        "4",
    ]
    words += ["--dir", str(tmp_path)]
    words += ["--no-controls"]
    if place == "gone":
        reader, end = os.pipe()
        os.close(reader)
        done = run(*words, stdout=end, stderr=end)
        os.close(end)
        assert done.returncode == 0
    elif place == "full":
        assert run(*words, stdout=full, stderr=full).returncode == 3
    else:
        closed = run(*words, stdout=None, stderr=None, preexec_fn=lambda: os.closerange(0, 3))
        assert closed.returncode == 3
    with Store(store) as opened:
        row = opened.find("last")
        assert opened.sample_count(row.id) == 4
        assert opened.sessions(row.id)[-1].ended == "blocks"


@pytest.mark.parametrize("command", mostly_slow(["show", "claims", "runs", "doctor"], "show"))
def test_an_ascii_terminal_gets_ascii(command: str, hostile: Path) -> None:
    store = {} if command == "doctor" else {"MEMLAB_STORE": str(hostile)}
    done = process(*command.split(), PYTHONIOENCODING="ascii", LC_ALL="C", **store)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
def test_a_terminal_of_no_columns_is_of_80() -> None:
    nothing, usual = (
        memlab("show", "example:mmap-write", COLUMNS=width).stdout for width in ("0", "80")
    )
    assert nothing == usual
    assert usual
