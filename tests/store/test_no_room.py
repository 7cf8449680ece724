"""What is said of a store that may not be longer, or has no room: the limit or the disk."""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from memlab.errors import CannotWrite, StoreError
from memlab.files import output, own_limits
from memlab.store import Store
from memlab.store.rows import RunRow

KIB = 1 << 10
RUN = RunRow("abcdef01", "try", None, "2026-01-01T00:00:00+00:00", 1, {}, {}, "1", None)
# In a process of its own: the limit would be of all that pytest writes.
WRITES = """
import json, resource, sys
from pathlib import Path
from memlab.errors import MemlabError
from memlab.files import output
from memlab.store import Store
folder, hard = Path(sys.argv[1]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
texts = []
for limit in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with Store(folder / f"{limit}.db", create=True) as store:
            for number in range(100_000):
                store.note_run("abcdef01", f"{number}" + 2000 * "x")
    except MemlabError as error:
        texts.append(str(error))
try:
    output.write({folder / "file": bytes(1 << 20)})
except MemlabError as error:
    texts.append(str(error))
print(json.dumps(texts))
"""
FRESH, MADE = [0, 4 * KIB, 16 * KIB, 32 * KIB, 40_000], [96 * KIB, 200 * KIB]


@pytest.mark.seconds
def test_a_limit_of_files_is_named_and_nothing_is_half_changed(tmp_path: Path) -> None:
    for limit in MADE:
        with Store(tmp_path / f"{limit}.db", create=True) as store:
            store.add_run(RUN, [])
            store.note_run(RUN.id, "before")
    limits = [*FRESH, *MADE]
    words = [sys.executable, "-c", WRITES, str(tmp_path), *map(str, limits)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *of_stores, of_file = json.loads(done.stdout)
    assert len(of_stores) == len(limits)
    for limit, text in zip(limits, of_stores, strict=True):
        said = rf"; {limit}\.db\S* has [0-9.]+ (B|KiB), and RLIMIT_FSIZE is [0-9.]+ (B|KiB): raise "
        assert re.search(said + r"it \(ulimit -f, LimitFSIZE=\)$", text), text
        assert "\n" not in text
        with Store(tmp_path / f"{limit}.db", create=True) as store:
            runs = store.runs()
            assert [run.id for run in runs] == ([RUN.id] if limit in MADE else [])
            assert all(re.fullmatch("before|[0-9]+x+", note) for note in store.notes().values())
    assert of_file == (
        f"cannot write {tmp_path}/file: File too large; RLIMIT_FSIZE is 200 KiB: raise it (ulimit "
        "-f, LimitFSIZE=)"
    )
    assert not (tmp_path / "file").exists()
    assert not [*tmp_path.glob(".*.part")]


@pytest.mark.parametrize("free", [0, 10])
def test_a_full_disk_is_named_only_if_it_is_full(
    free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says so too of a store that is as long as it may be."""
    monkeypatch.setattr(own_limits, "of_file", lambda _=0: "")
    disk = SimpleNamespace(f_bavail=free, f_frsize=64 * KIB)
    with Store(tmp_path / "r.db", create=True) as store:
        store.add_run(RUN, [])
        store._db.execute("PRAGMA max_page_count = 1")
        monkeypatch.setattr(os, "statvfs", lambda _: disk)
        with pytest.raises(StoreError) as error:
            store.note_run(RUN.id, "x" * 100_000)
    said = f"; {tmp_path} has 0 B free: free some, or name another --store"
    assert str(error.value).endswith("is full" if free else said)


def test_the_disk_of_a_store_that_a_link_leads_to_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("elsewhere", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "full/r.db").symlink_to(tmp_path / "elsewhere/r.db")
    monkeypatch.setattr(own_limits, "of_file", lambda _=0: "")
    with Store(tmp_path / "full/r.db", create=True) as store:
        store.add_run(RUN, [])
        store._db.execute("PRAGMA max_page_count = 1")
        monkeypatch.setattr(
            os, "statvfs",
            lambda path: SimpleNamespace(f_bavail=path.name != "full", f_frsize=64 * KIB),
        )  # fmt: skip
        with pytest.raises(StoreError, match=r"is full$"):
            store.note_run(RUN.id, "x" * 100_000)


@pytest.mark.parametrize("flag", [0, os.ST_RDONLY])
def test_a_store_that_may_only_be_read_says_whose_that_is(
    flag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path / "r.db", create=True) as store:
        store.add_run(RUN, [])
        store._db.execute("PRAGMA query_only = ON")
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flag))
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(StoreError) as error:
            store.note_run(RUN.id, "x")
    why = "its file system is mounted read-only" if flag else "this user may not write it or its"
    assert str(error.value).startswith(f"cannot write to the store {tmp_path}/r.db: {why}")
    assert str(error.value).endswith(": copy it, and name that by --store")


def test_another_error_of_a_file_names_no_limit(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"No such file or directory$"):
        output.write({tmp_path / "no" / "file": b""})


@pytest.mark.parametrize(
    ("limit", "beyond", "named"),
    [(-1, 0, False), (-1, 9, False), (0, 0, True), (0, 1, True), (8, 8, False), (8, 9, True)],
)
def test_a_limit_is_named_only_if_it_is_below(
    limit: int, beyond: int, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, -1))
    assert bool(own_limits.of_file(beyond)) is named


def test_a_limit_is_named_by_its_errno_and_by_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, -1))
    files, file = "RLIMIT_NOFILE is 8: raise it (ulimit -n", "RLIMIT_FSIZE is 8 B: raise it (ulimit"
    assert own_limits.behind(errno.EMFILE).startswith(files)
    assert own_limits.behind(errno.EFBIG).startswith(file)
    assert own_limits.that_sends(signal.SIGXFSZ).startswith(file)
    cpu = "RLIMIT_CPU is 8 s: raise it (ulimit -t, LimitCPU=)"
    assert own_limits.that_sends(signal.SIGXCPU) == cpu
    assert own_limits.behind(errno.ENOSPC) == own_limits.that_sends(signal.SIGKILL) == ""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (-1, -1))
    assert own_limits.behind(errno.EFBIG) == own_limits.that_sends(signal.SIGXCPU) == ""
