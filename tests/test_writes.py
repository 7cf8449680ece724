"""What memlab opens for writing: everything goes through memlab.files.output, which knows whose
folders and links are on the way, save what is listed here with the reason why it need not."""

import ast
import gzip
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command import memlab
from quick import mostly_slow

from memlab import recorded
from memlab.errors import CannotWrite, StoreError
from memlab.files import output
from memlab.store import Store

ROOT = Path(__file__).parents[1] / "memlab"
OF_RUN = "stack-map"
ROOT_ONLY = pytest.mark.needs("host root")
# In a folder that only this user may enter: one made by folders.temporary or by the journal, or
# the journal's and the caches' own, which are never in another user's home (folders.user).
OWN = {
    "command/python_probes/command/replayed.py": {"bring_in"},
    "experiments/_files.py": {"_declared", "_folder_of", "_built", "_compile"},
    "files/folders.py": {"temporary"},
    "run/files.py": {"_make_fresh", "_write_out", "give_back"},
    "run/journal.py": {"__init__", "make_folder", "_open", "set_aside"},
    "run/pins.py": {"_copy"},
    "run/swap.py": {"_make_file", "_make_zram"},
    "run/virtual_machine.py": {"_the_initramfs"},
    "store/database.py": {"copied"},
    "machines/guest/host.py": {"_make_disk"},
    "machines/guest/image.py": {"make"},
    "machines/guest/inside.py": {"main", "_run", "_sweep"},
    "machines/guest/kernels.py": {"unpack", "_take"},
}
# Files of /proc, /sys and cgroups, and /dev/null.
KERNELS = {
    "cli/_streams.py": {"_fill"},
    "experiments/memcg_accounting.py": {"<module>"},
    "observe/capabilities/capability.py": {"refusal_of"},
    "observe/used_pages.py": {"clear"},
    "observe/physical_memory.py": {"opened"},
    "command/python_probes/command/group.py": {"_set"},
    "run/contained.py": {"_moved"},
    "run/cleanup.py": {"set_value", "_kill", "remove_zram"},
    "run/containment.py": {"_forget_peak", "_renew", "_add", "_write"},
    "run/journal.py": {"enable_memory", "make_group"},
    "run/swap.py": {"_make_zram"},
    "run/worker.py": {"_work", "_go_first", "_enter"},
    "machines/guest/device.py": {"hand_over"},
}
# SQLite opens by itself what output.file_to_open has made, or reads a store of another format; the
# rest is for who builds memlab.
OTHERS = {
    "store/database.py": {"_connected", "_at_rest"},
    "experiments/_build_probes.py": {"write"},
}
_CALLS = {
    "copyfile", "copytree", "hardlink_to", "makedirs", "mkdir", "mkdtemp", "mkfifo", "mknod",
    "mkstemp", "move", "NamedTemporaryFile", "rename", "symlink", "symlink_to",
    "TemporaryDirectory", "touch", "write_bytes", "write_text",
}  # fmt: skip
# What has none of these words in front of a bracket is not parsed, which takes long.
_WRITES = re.compile(rf"\b(?:{'|'.join([*_CALLS, 'save', 'connect', 'open'])})\(")
_FLAGS = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "flags", "mode")


def writes(call: ast.Call) -> bool:
    """Whether a call makes a file or folder, or opens one to write; `open(x, mode)` may."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name not in {*_CALLS, "save", "connect", "open"}:
        return False  # most are, and to print a call takes long
    named = ast.unparse(call.func)
    if name in _CALLS or named in ("np.save", "sqlite3.connect"):
        return True
    if named == "os.open":
        return any(re.search(rf"\b{flag}\b", ast.unparse(call)) for flag in _FLAGS)
    modes = [*call.args, *(one.value for one in call.keywords if one.arg == "mode")]
    texts = [one.value for one in modes if isinstance(one, ast.Constant)]
    return name == "open" and any(
        isinstance(text, str) and set(text) <= set("rwaxbt+") and bool(set(text) & set("wax+"))
        for text in texts
    )


def written(node: ast.AST, function: str = "<module>") -> Iterator[str]:
    """The functions with such a call."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef)
        inner = child.name if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call) and writes(child):
            yield function
        yield from written(child, inner if named else function)


def test_what_writes_is_found() -> None:
    parts = ('def f(p): p.open("wb")', "def g(p): open(p)", "def h(p): os.open(p, os.O_RDWR)")
    text = "\n".join((*parts, "x.mkdir()"))
    assert set(written(ast.parse(text))) == {"f", "h", "<module>"}


def test_everything_is_written_through_output() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if name == "files/output.py" or not _WRITES.search(text):
            continue
        if functions := set(written(ast.parse(text))):
            found[name] = functions
    listed: dict[str, set[str]] = {}
    for table in (OWN, KERNELS, OTHERS):
        for name, functions in table.items():
            listed[name] = listed.get(name, set()) | functions
    assert found == listed


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder of root's, with a file that is to stay as it is."""
    folder = tmp_path / "root-only"
    folder.mkdir(mode=0o700)
    (folder / "kept").write_text("kept")
    return folder


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of another user's, with a store of theirs, of the run that is drawn soonest."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    store = folder / "r.db"
    store.write_bytes(gzip.decompress((recorded.FOLDER / f"{OF_RUN}.db.gz").read_bytes()))
    give(folder, store)
    return folder


def give(*paths: Path) -> None:
    for path in paths:
        os.chown(path, 65534, 65534, follow_symlinks=False)


def link(path: Path, target: Path) -> None:
    """A link that the other user has made."""
    path.symlink_to(target)
    give(path)


def untouched(secret: Path) -> bool:
    return [path.name for path in secret.iterdir()] == ["kept"] and (
        secret / "kept"
    ).read_text() == "kept"


SWEEP = "sweep mmap-write -p size=4k -p file_size=64k -p filesystem=tmpfs --no-controls --blocks 2"
DERIVED = ("plot last", "report last", f"{SWEEP} --name x", "try --blocks 2 -- true")
NAMED = {
    "export last -o {}": "x.csv",
    "report last -o {}": "x.html",
    "plot last -o {}": "x.png",
    "export all --format rows -o {}": "x.jsonl",
    "claims last --format github": "summary",
}


@ROOT_ONLY
@pytest.mark.parametrize("words", DERIVED)
def test_a_place_that_memlab_chose_beside_anothers_store_follows_no_link_of_theirs(
    words: str, theirs: Path, secret: Path
) -> None:
    link(theirs / "figures", secret)
    done = memlab("--store", str(theirs / "r.db"), *words.split())
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"memlab: cannot write {theirs}/figures: another user's link is on the way: "
        "name what it leads to\n"
    )
    assert untouched(secret)


@pytest.mark.seconds
@ROOT_ONLY
@pytest.mark.parametrize("there", mostly_slow(["kept", "new"], "kept"))
def test_nor_is_their_link_for_the_file_itself_followed(
    there: str, theirs: Path, secret: Path
) -> None:
    """They know its name: the run's id is in their store."""
    (theirs / "figures").mkdir()
    give(theirs / "figures")
    with Store(theirs / "r.db") as opened:
        run = opened.find("last").id
    for name in (f"{OF_RUN}-{run}.json", f"report-{run}.html"):
        link(theirs / "figures" / name, secret / there)
    for words in (["plot", "last"], ["report", "last"]):
        done = memlab("--store", str(theirs / "r.db"), *words)
        assert (done.returncode, done.stdout) == (3, "")
        assert "another user's link is on the way" in done.stderr
        assert done.stderr.count("\n") == 1
    assert untouched(secret)


@pytest.mark.seconds
@ROOT_ONLY
@pytest.mark.parametrize(("words", "name"), NAMED.items())
def test_a_path_that_root_names_leads_through_no_link_of_others(
    words: str, name: str, theirs: Path, secret: Path
) -> None:
    (theirs / "sub").mkdir()
    give(theirs / "sub")
    link(theirs / "sub" / "way", secret)
    place = theirs / "sub" / "way" / name
    done = memlab(
        *("--store", str(theirs / "r.db")),
        *words.format(place).split(),
        GITHUB_STEP_SUMMARY=str(place),
    )
    assert done.returncode == 3, done
    assert "another user's link is on the way" in done.stderr
    assert untouched(secret)


@ROOT_ONLY
def test_no_store_is_made_through_anothers_link(theirs: Path, secret: Path) -> None:
    link(theirs / "way", secret)
    for words in (SWEEP, "hosts import -"):
        done = memlab("--store", str(theirs / "way" / "s.db"), *words.split())
        assert done.returncode == 3
        assert "another user's link is on the way" in done.stderr
    (theirs / "hard.db").symlink_to(secret / "new.db")
    with pytest.raises(StoreError, match="a link that another user may change"):
        Store(theirs / "hard.db", create=True)
    assert untouched(secret)


@ROOT_ONLY
def test_what_another_user_swaps_meanwhile_is_not_followed(
    theirs: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the folder and the write: the folder that was looked at gets the file."""
    (theirs / "figures").mkdir()
    give(theirs / "figures")
    begun = output._begin

    def swapped(*arguments: Any) -> Any:
        finish = begun(*arguments)
        (theirs / "figures").rename(theirs / "moved")
        link(theirs / "figures", secret)
        return finish

    monkeypatch.setattr(output, "_begin", swapped)
    output.write({theirs / "figures" / "x.json": b"new"})
    assert (theirs / "moved" / "x.json").read_bytes() == b"new"
    assert untouched(secret)


def give_name(made: output.Unnamed) -> None:
    """As the recorder does in C (memlab/trace/recorder/writing.c)."""
    whole = f"/proc/self/fd/{made.file}"
    os.link(whole, made.part, dst_dir_fd=made.folder, follow_symlinks=True)
    os.rename(made.part, made.name, src_dir_fd=made.folder, dst_dir_fd=made.folder)


@ROOT_ONLY
def test_nor_while_a_file_without_a_name_is_written_to(theirs: Path, secret: Path) -> None:
    """A recording lasts for minutes, and its folder was looked up by its path at the end again."""
    (theirs / "sub").mkdir()
    give(theirs / "sub")
    with output.unnamed(theirs / "sub" / "x.trace") as made:
        os.write(made.file, b"new")
        assert list((theirs / "sub").iterdir()) == []
        (theirs / "sub").rename(theirs / "moved")
        link(theirs / "sub", secret)
        give_name(made)
    assert (theirs / "moved" / "x.trace").read_bytes() == b"new"
    assert [path.name for path in (theirs / "moved").iterdir()] == ["x.trace"]
    assert untouched(secret)


def test_a_file_without_a_name_is_nowhere_until_it_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "x.trace"
    with suppress(RuntimeError), output.unnamed(path) as made:
        os.write(made.file, b"half")
        raise RuntimeError
    assert list(folder.iterdir()) == []
    path.write_bytes(b"old")
    with output.unnamed(path) as made:
        os.write(made.file, b"new")
        assert path.read_bytes() == b"old"
        give_name(made)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    os.mkfifo(folder / "fifo")
    with pytest.raises(CannotWrite, match="it is not a file"), output.unnamed(folder / "fifo"):
        pass
    assert {one.name for one in folder.iterdir()} == {"x.trace", "fifo"}


@pytest.mark.seconds
@ROOT_ONLY
def test_without_links_roots_output_lies_where_it_is_asked_for(theirs: Path) -> None:
    """`sudo memlab plot` in a home."""
    done = memlab("--store", str(theirs / "r.db"), "plot", "last")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((theirs / "figures").iterdir())) >= 2
    old = theirs / "x.csv"
    old.write_text("old")
    give(old)
    assert memlab("--store", str(theirs / "r.db"), "export", "last", "-o", str(old)).returncode == 0
    assert old.stat().st_uid == 65534  # it stays theirs
    assert old.read_text() != "old"


@ROOT_ONLY
def test_another_users_fifo_is_not_waited_for(theirs: Path) -> None:
    os.mkfifo(theirs / "x.csv")
    give(theirs / "x.csv")
    with pytest.raises(CannotWrite, match="it is not a file, and another user's"):
        output.write({theirs / "x.csv": b"new"})


def test_ones_own_links_are_followed_and_folders_made(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "way").symlink_to("disk/below")
    output.make_folder(tmp_path / "way" / "deep" / ".." / "other")
    output.write({tmp_path / "way" / "other" / "x": b"new"})
    assert (tmp_path / "disk/below/other/x").read_bytes() == b"new"
    with Store(tmp_path / "way" / "s.db", create=True):
        pass
    assert (tmp_path / "disk/below/s.db").stat().st_size > 0
    output.append(tmp_path / "way" / "summary", b"one ")
    output.append(tmp_path / "way" / "summary", b"two")
    assert (tmp_path / "disk/below/summary").read_bytes() == b"one two"
