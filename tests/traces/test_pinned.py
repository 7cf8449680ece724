"""What `try` measures stays what it was: a trace is copied and checked once, a program is known."""

import io
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

import memlab
from memlab.cli import cli
from memlab.command import request
from memlab.errors import BadTrace, CannotRun, SubjectChanged
from memlab.experiment import tried
from memlab.experiment.points import Point
from memlab.run import pins
from memlab.run.executor import LocalExecutor

from .made import AT, MACHINE, START, Made

pytestmark = pytest.mark.skipif(not MACHINE, reason="replays are of x86-64 and arm64")

TOUCHED = 401


def made(touched: int = TOUCHED) -> Made:
    return Made().add(START).map(AT, 1009).touch(AT, touched)


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    made(7).write(other)
    other.rename(path)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(200)
        file.write(os.urandom(400))


@pytest.mark.slow
@pytest.mark.parametrize("change", [replaced, overwritten, Path.unlink])
def test_a_trace_that_is_changed_in_mid_run_is_replayed_as_it_was(
    change: object, tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made().write(tmp_path / "a.trace")
    renew, blocks = LocalExecutor.renew, 0

    def changed(self: LocalExecutor, points: list[Point], block: int) -> None:
        nonlocal blocks
        if (blocks := blocks + 1) == 2:
            change(path)  # type: ignore[operator]
        renew(self, points, block)

    monkeypatch.setattr(LocalExecutor, "renew", changed)
    run = memlab.trial([str(path)], blocks=3, store=store_path, lock=["off"])
    assert [sample.outcome for sample in run.samples] == ["ok"] * 3
    said = [(sample.raw or {})["output"] for sample in run.samples]
    assert all(f"replayed {TOUCHED} touches" in text for text in said)


def test_a_trace_is_checked_before_any_of_it_is_replayed(tmp_path: Path, store_path: Path) -> None:
    path = made().write(tmp_path / "a.trace")
    overwritten(path)
    with pytest.raises(BadTrace, match=r"a\.trace: it is damaged") as raised:
        memlab.trial([str(path)], blocks=1, store=store_path, lock=["off"])
    assert "/proc/" not in str(raised.value)
    assert not store_path.exists()  # nor is anything stored


def test_the_copy_of_a_trace_is_checked(tmp_path: Path) -> None:
    path, copy = (made().write(tmp_path / name) for name in ("a.trace", "copy"))
    subject = request.command([str(path)], {"lock": ["off"]}).subject
    assert subject
    experiment = tried.declare(subject)
    with (tmp_path / "files").open("wb") as files:
        experiment.check_copy(path, copy, files.fileno())
        overwritten(copy)
        with pytest.raises(BadTrace, match=r"a\.trace: it is damaged"):
            experiment.check_copy(path, copy, files.fileno())


def test_a_file_that_another_appends_to_is_copied_as_long_as_it_was(tmp_path: Path) -> None:
    source, size = tmp_path / "a", 3 << 20
    source.write_bytes(bytes(size))
    with (tmp_path / "copy").open("wb") as copy, source.open("ab") as appending:
        read = io.BufferedReader.read

        class Growing(io.BufferedReader):
            def read(self, *asked: object) -> bytes:
                appending.write(bytes(2 << 20))
                appending.flush()
                return read(self, *asked)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pins.files, "opened", lambda path: Growing(io.FileIO(path)))
            pins._copy(source, copy.fileno())
    assert (tmp_path / "copy").stat().st_size == size


def test_no_copy_fills_the_disk(tmp_path: Path) -> None:
    """A sparse file of any size."""
    source = tmp_path / "a"
    source.touch()
    os.truncate(source, 1 << 42)
    with (tmp_path / "copy").open("wb") as copy, pytest.raises(CannotRun, match="No space left"):
        pins._copy(source, copy.fileno())
    assert (tmp_path / "copy").stat().st_size == 0


def test_a_trace_that_is_another_since_it_was_asked_for_is_said(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made().write(tmp_path / "a.trace")
    begin = LocalExecutor.__init__

    def changed(self: LocalExecutor, *given: object, **how: object) -> None:
        (lossy := made()).lost = 7
        lossy.write(path)
        begin(self, *given, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalExecutor, "__init__", changed)
    with pytest.raises(SubjectChanged, match=r"a\.trace was changed since it was asked for"):
        memlab.trial([str(path)], blocks=1, store=store_path, lock=["off"])


def test_a_program_that_is_replaced_ends_the_run_and_gives_no_sample(
    tmp_path: Path, store_path: Path
) -> None:
    """It replaces itself at its fourth run; and is not what a resumed run would go on with."""
    app = tmp_path / "app"
    app.write_text(
        f"#!/bin/sh\necho >>{tmp_path}/runs\n"
        f"[ $(wc -l <{tmp_path}/runs) -lt 4 ] || {{ cp {app} {app}.new; echo >>{app}.new; "
        f"mv {app}.new {app}; }}\n"
    )
    app.chmod(0o755)
    with pytest.raises(SubjectChanged, match="app was replaced or changed while it was tried"):
        memlab.trial([str(app)], blocks=9, store=store_path, lock=["off"])
    run = memlab.load(store=store_path)
    assert [sample.outcome for sample in run.samples] == ["ok"] * 3
    resumed = CliRunner().invoke(cli, ["--store", str(store_path), "sweep", "--resume", run.id])
    assert isinstance(resumed.exception, SubjectChanged)
    assert "after the run began" in str(resumed.exception)


WORKS = "#!/bin/sh\necho >>{runs}\n[ $(wc -l <{runs}) -ne 4 ] || {change}\nexit 0\n"


def written_over(path: Path) -> None:
    """Of the same size, with the time set back."""
    status = path.stat()
    text = path.read_bytes()
    with path.open("r+b") as file:
        file.write(text.replace(b"exit 0", b"exit 1"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (now := path.stat()).st_mtime_ns == status.st_mtime_ns
    assert (now.st_ino, now.st_size) == (status.st_ino, status.st_size)


@pytest.mark.seconds(but="of the same size and time")
@pytest.mark.parametrize(
    ("change", "is_another"),
    [
        ("touch -r {app} {app}.t && sed -i.b s/x/y/ {app}.d && cat {app}.d >{app} && "
         "touch -r {app}.t {app}", True),
        ("chmod 700 {app}", False),
        ("touch {app}", False),
        ("cat {app} >{app}.t && cat {app}.t >{app}", False),
    ],
    ids=["of the same size and time", "its mode", "its time", "by the same"],
)  # fmt: skip
def test_a_program_is_known_by_its_contents(
    change: str, is_another: bool, tmp_path: Path, store_path: Path
) -> None:
    """At its fourth run it changes itself. A compiled program may not be written to while it runs
    (execve(2), ETXTBSY), so a script is what is changed."""
    app = tmp_path / "app"
    text = WORKS.format(runs=tmp_path / "runs", change=f"{{ {change.format(app=app)}; }}")
    app.write_text(text)
    app.with_suffix(".d").write_text(text.replace("exit 0", "exit x"))
    app.chmod(0o755)
    if is_another:
        with pytest.raises(SubjectChanged, match="app was replaced or changed while it was tried"):
            memlab.trial([str(app)], blocks=5, store=store_path, lock=["off"])
    else:
        memlab.trial([str(app)], blocks=5, store=store_path, lock=["off"])
    outcomes = [sample.outcome for sample in memlab.load(store=store_path).samples]
    assert outcomes == ["ok"] * (3 if is_another else 5)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a program", "a trace"])
def test_a_resumed_run_is_about_the_same_contents(
    what: str, tmp_path: Path, store_path: Path
) -> None:
    """A changed mode is no change; the same size and time are no proof that there is none."""
    path = tmp_path / "app"
    if what == "a program":
        path.write_text("#!/bin/sh\nexit 0\n")
        path.chmod(0o755)
    else:
        path = made().write(tmp_path / "a.trace")
    run = memlab.trial([str(path)], blocks=2, store=store_path, lock=["off"])
    resume = ["--store", str(store_path), "sweep", "--resume", run.id, "-q"]
    path.chmod(0o700)
    os.utime(path)
    resumed = CliRunner().invoke(cli, resume)
    assert resumed.exception is None, resumed.output
    if what == "a program":
        written_over(path)
    else:
        status = path.stat()
        overwritten(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    resumed = CliRunner().invoke(cli, resume)
    assert isinstance(resumed.exception, SubjectChanged)
    assert "after the run began" in str(resumed.exception)
