"""Causes that the arguments of a failing call tell, of files: with a call that fails so, and with
one that fails otherwise."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memlab.diagnose import call_files, call_places, refused
from memlab.diagnose.call_facts import EarlierFacts, Facts, shown
from memlab.diagnose.finding import NOTE
from memlab.observe import proc, process

from .live import Compiled, running
from .looks import look
from .test_call_causes import LIBC, PID, explained, of, only, refusal_of

MiB = 1 << 20


def facts(kind: type[Facts] = Facts, **changes: Any) -> Facts:
    """Of this process, whose mounts are all so."""
    made = kind(PID, proc.status(PID))
    known = call_places.mounts(PID)
    made.__dict__["mounts"] = {number: replace(one, **changes) for number, one in known.items()}
    return made


def address(text: str) -> tuple[int, object]:
    buffer = ctypes.create_string_buffer(os.fsencode(text))
    return ctypes.addressof(buffer), buffer


def mount_of(path: Path) -> str:
    fd = os.open(path, os.O_PATH)
    try:
        _, mount = call_places.of_descriptor(PID, fd, call_places.mounts(PID)) or ("", None)
    finally:
        os.close(fd)
    assert mount
    return f"{mount.mount_point} ({mount.filesystem})"


@pytest.mark.needs("a root that is a mount")
@pytest.mark.parametrize("call", ["mkdirat", "openat", "unlinkat", "fchmodat"])
def test_the_mount_that_is_read_only_is_named(tmp_path: Path, call: str) -> None:
    (tmp_path / "x").touch()
    at, buffer = address(f"{tmp_path}/x")
    ro, where = frozenset({"ro"}), mount_of(tmp_path)
    words = of(call, "EROFS", 2**32 - 100, at, 0, facts=facts(options=ro))
    assert words == f"the mount {where} is read-only (ro)"
    later = facts(options=frozenset({"rw"}), super_options=ro)
    words = of(call, "EROFS", 2**32 - 100, at, 0, facts=later)
    assert words == f"the file system of the mount {where} is read-only (ro)"
    del buffer


@pytest.mark.needs("a root that is a mount")
def test_by_a_descriptor_and_a_name_in_its_folder(tmp_path: Path) -> None:
    at, buffer = address("x")
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        words = of("mkdirat", "EROFS", fd, at, 0, facts=facts(options=frozenset({"ro"})))
        unread = of("mkdirat", "EROFS", fd, 8, 0, facts=facts(options=frozenset({"ro"})))
        earlier = of("mkdirat", "EROFS", fd, 8, 0, facts=facts(EarlierFacts, options=frozenset()))
        changed = of("fchmod", "EROFS", fd, 0, facts=facts(options=frozenset({"ro"})))
    finally:
        os.close(fd)
    del buffer
    assert "which one it is was not read" in earlier
    assert unread.startswith(
        f"the file system is read-only: the path was not read; descriptor {fd}, in which it begins "
        f"if it is relative, is now {str(tmp_path)[:80]} on the mount {mount_of(tmp_path)}, which"
    )
    assert words == changed == f"the mount {mount_of(tmp_path)} is read-only (ro)"


def test_without_a_path_the_errno_says_that_it_is_read_only(tmp_path: Path) -> None:
    """A mount that may be written to by now, a path that was not read, a link, and a call of some
    time ago."""
    (tmp_path / "link").symlink_to("x")
    at, buffer = address(f"{tmp_path}/link")
    ro = frozenset({"ro"})
    begin = "the file system is read-only, and which one it is was not read"
    rw = frozenset({"rw"})
    for words in (
        of("chmod", "EROFS", at, 0, facts=facts(options=rw, super_options=rw)),
        of("mkdir", "EROFS", 8, 0, facts=facts(options=rw)),
    ):
        assert words == begin
    for kind, call in ((EarlierFacts, "mkdir"), (Facts, "chmod")):
        made = facts(kind, options=ro)
        number, known = next(iter(made.mounts.items()))
        made.__dict__["mounts"] = {number: known}
        words = of(call, "EROFS", at, 0, facts=made)
        assert words == f"{begin}; mounts of it that are read-only: 1 ({known.mount_point})"
    many = facts(options=ro)
    many.__dict__["mounts"] = dict.fromkeys(range(7), next(iter(many.mounts.values())))
    assert of("mkdir", "EROFS", 8, 0, facts=many).endswith("mounts of it that are read-only: 7")
    del buffer


AT = 2**32 - 100  # AT_FDCWD
OTHER = 65_534


def as_other(uid: int = OTHER) -> Facts:
    """This process, with another user and without capabilities."""
    made = facts()
    made.status = {**made.status, "CapEff": "0", "Groups": "", **dict.fromkeys(
        ("Uid", "Gid"), " ".join([str(uid)] * 4))}  # fmt: skip
    return made


@pytest.mark.needs("a root that is a mount")
def test_a_mode_that_does_not_allow_it_is_named(tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.touch()
    user, about = os.getuid(), file.stat()
    (at, a), (inside, b) = address(str(file)), address(f"{folder}/new")
    for mode, flags, what in (
        (0o200, os.O_RDONLY, "read"), (0o400, os.O_WRONLY, "written to"),
        (0o400, os.O_RDONLY | os.O_TRUNC, "read and written to"),
        (0o077, os.O_RDWR, "read and written to"),
    ):  # fmt: skip
        file.chmod(mode)
        words = of("openat", "EACCES", AT, at, flags, 0, facts=as_other(user))
        owner = f"UID {about.st_uid}, GID {about.st_gid}"
        assert (
            words
            == f"{shown(str(file))} (mode {mode:04o}, {owner}) may not be {what} by UID {user}"
        )
    file.chmod(0)
    assert of("openat", "EACCES", AT, at, os.O_PATH, 0, facts=as_other(user)) == ""
    for mode in (0o400, 0o600):
        file.chmod(mode)
        assert of("open", "EACCES", at, os.O_RDONLY, 0, facts=as_other(user)) == ""
    folder.chmod(0o500)
    words = of("open", "EACCES", inside, os.O_WRONLY | os.O_CREAT, 0, facts=as_other(user))
    assert words.startswith(f"{shown(str(folder))} (mode 0500, ")
    assert words.endswith(f" may not be written to by UID {user}")
    folder.chmod(0o600)
    words = of("creat", "EACCES", inside, 0, facts=as_other(user))
    assert words.startswith(f"{shown(str(folder))} (mode 0600, ")
    assert words.endswith(f" may not be searched by UID {user}")
    with_right = as_other(user)
    with_right.status = {**with_right.status, "CapEff": "2"}  # CAP_DAC_OVERRIDE
    assert of("creat", "EACCES", inside, 0, facts=with_right) == ""
    assert of("creat", "EACCES", inside, 0, facts=facts(EarlierFacts)) == ""
    del a, b


@pytest.mark.needs("a root that is a mount")
def test_a_list_may_allow_more_than_the_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch(0o000)
    at, buffer = address(f"{tmp_path}/file")
    monkeypatch.setattr(os, "listxattr", lambda _: ["system.posix_acl_access"])
    assert of("open", "EACCES", at, os.O_RDONLY, 0, facts=as_other(os.getuid())) == ""
    del buffer


def there(mode: int, uid: int) -> tuple[str, os.stat_result, bool]:
    return "/dev/shm/x", os.stat_result((mode, 1, 1, 1, uid, 0, 0, 0, 0, 0)), False


@pytest.mark.parametrize(
    ("mode", "uid", "folder", "value", "refuses"),
    [
        (stat.S_IFREG, OTHER, 0o1777, 1, True),
        (stat.S_IFREG, OTHER, 0o1777, 2, True),
        (stat.S_IFREG, OTHER, 0o1770, 1, False),
        (stat.S_IFREG, OTHER, 0o1770, 2, True),
        (stat.S_IFIFO, OTHER, 0o1777, 1, True),
        (stat.S_IFREG, OTHER, 0o777, 1, False),
        (stat.S_IFREG, OTHER, 0o1777, 0, False),
        (stat.S_IFREG, 1000, 0o1777, 1, False),  # of whose the folder is
        (stat.S_IFREG, 7, 0o1777, 1, False),  # its own
        (stat.S_IFSOCK, OTHER, 0o1777, 1, False),
    ],
)
def test_a_file_of_another_user_in_a_sticky_folder(
    mode: int, uid: int, folder: int, value: int, refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not it is root."""
    monkeypatch.setattr(call_files, "sysctl", lambda _: [value])
    places = [there(stat.S_IFDIR | folder, 1000)], there(mode | 0o666, uid)
    monkeypatch.setattr(call_places, "on_the_way", lambda *_: places)
    root = as_other(7)
    root.status = {**root.status, "CapEff": "ffffffffff"}
    name = "fifos" if mode == stat.S_IFIFO else "regular"
    words = of("openat", "EACCES", AT, 8, os.O_CREAT, 0, facts=root)
    assert (f"fs.protected_{name} ({value}) refuses O_CREAT" in words) == refuses
    assert of("openat", "EACCES", AT, 8, os.O_RDONLY, 0, facts=root) == ""


@pytest.mark.needs("a root that is a mount")
def test_a_program_that_is_being_executed_is_not_written_to(
    binary: Compiled, tmp_path: Path
) -> None:
    tool = Path(shutil.copy(binary("steady"), tmp_path / "tool"))
    other = Path(shutil.copy(tool, tmp_path / "idle"))
    (at, a), (idle, b) = address(str(tool)), address(str(other))
    with running(tool, "1") as program:
        words = of("openat", "ETXTBSY", AT, at, os.O_WRONLY, 0)
        assert words == f"{shown(str(tool))} is being executed by process {program.pid} (tool)"
        unknown = ", or is in use as swap; by which process was not read"
        words = of("openat", "ETXTBSY", AT, idle, os.O_WRONLY, 0)
        assert words == f"{shown(str(other))} is being executed{unknown}"
        words = of("open", "ETXTBSY", at, os.O_WRONLY, 0, facts=facts(EarlierFacts))
        assert words == f"the file is being executed{unknown}"
        assert of("execve", "ETXTBSY", idle, 0, 0).startswith(
            f"{shown(str(other))}, or its interpreter, is open for writing in"
        )
    del a, b


@contextmanager
def read_only(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A program in a mount namespace where a folder is read-only; it fails for each line."""
    code = (
        "import os, sys\n"
        "for _ in sys.stdin:\n"
        "    for _ in range(7):\n"
        "        try: os.mkdir(sys.argv[1] + '/x')\n"
        "        except OSError: pass\n"
        "    print('done', flush=True)\n"
    )
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"',
         str(folder), sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        try:
            yield program
        finally:
            program.kill()


@pytest.mark.needs("recording", "root", "a mount namespace")
def test_a_program_on_a_mount_that_is_read_only(tmp_path: Path) -> None:
    with read_only(tmp_path) as program:
        refusal = refusal_of(program)
    (finding,) = refused.findings(look(refused=(refusal,)))
    assert f"with EROFS: the mount {str(tmp_path)[:80]} (tmpfs) is read-only (ro)" in finding.title
    assert finding.severity is NOTE


@pytest.mark.needs("recording", "root")
def test_a_file_of_the_kernel_that_takes_no_such_number() -> None:
    """A file that may be opened to write, and takes numbers of -1000 to 1000."""
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    try:
        one, said = only(lambda: ctypes.CDLL(None).write(fd, b"999999", 6))
    finally:
        os.close(fd)
    assert (one.call, one.errno) == ("write", "EINVAL")
    assert f"/proc/{PID}/oom_score_adj, a file of the kernel (proc), which does not" in said.title
    assert said.title.endswith("(where it wrote from now lies '999999')")
    assert said.severity is NOTE


def test_only_files_of_the_kernel_are_blamed(tmp_path: Path) -> None:
    at, buffer = address("40960k\n")
    fd = os.open(tmp_path / "memory.limit_in_bytes", os.O_RDWR | os.O_CREAT)
    try:
        for errno in ("EBUSY", "EINVAL"):
            assert of("write", errno, fd, at, 7) == ""
            assert of("write", errno, 2**31 - 1, at, 7) == "", "it is closed by now"
    finally:
        os.close(fd)
    del buffer


def test_a_limit_below_what_a_group_has_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    mount = next(iter(call_places.mounts(PID).values()))
    path = "/sys/fs/cgroup/memory/a/memory.limit_in_bytes"
    found = path, replace(mount, filesystem="cgroup")
    monkeypatch.setattr(call_places, "of_descriptor", lambda *_: found)
    monkeypatch.setattr(call_places, "of_group", lambda *_: 97 * MiB)
    at, buffer = address("40960k\n")
    fd = os.open("/dev/null", os.O_RDONLY)
    try:
        assert of("write", "EBUSY", fd, at, 7).startswith(
            "the limit of the group /sys/fs/cgroup/memory/a is to be 40 MiB "
            f"(memory.limit_in_bytes, which descriptor {fd} is now), and it has 97 MiB in use"
        )
        monkeypatch.setattr(call_places, "of_group", lambda *_: 30 * MiB)
        assert "does not take what is written" in of("write", "EBUSY", fd, at, 7)
        monkeypatch.setattr(call_places, "of_group", lambda *_: None)
        assert "does not take what is written" in of("write", "EBUSY", fd, at, 7)
    finally:
        os.close(fd)
    del buffer


@pytest.mark.needs("recording", "writable settings", "a root that is a mount")
def test_a_file_that_is_closed_again_is_named_by_how_it_was_opened() -> None:
    """Through a link, which sysfs makes itself."""
    path = "/sys/class/net/lo/mtu"
    opened, text = (ctypes.create_string_buffer(one.encode()) for one in (path, "none"))
    used: list[int] = []

    def write() -> None:
        used[:] = [LIBC.open(opened, os.O_WRONLY)]
        assert LIBC.write(used[0], text, 4) == -1
        os.close(used[0])

    (one,) = explained(write)
    assert one.cause == (
        f"descriptor {used[0]} was last opened by a path that now reads "
        "/sys/devices/virtual/net/lo/mtu, a file of the kernel (sysfs), which does not take what "
        "is written (where it wrote from now lies 'none')"
    )


@pytest.mark.needs("recording", "writable settings")
@pytest.mark.parametrize("times", [1, 2000])
def test_a_number_that_is_of_another_file_by_then_is_not_named_by_the_first(times: int) -> None:
    """By a call that opens none, and after more opens than a ring has room for."""
    opened = ctypes.create_string_buffer(b"/sys/class/net/lo/mtu")

    def write() -> None:
        for _ in range(times):
            os.close(LIBC.open(opened, os.O_WRONLY))
        fd = os.memfd_create("x")
        assert LIBC.pwrite(fd, b"x", 1, -5) == -1
        os.close(fd)

    (one,) = explained(write)
    assert (one.call, one.errno, one.cause) == ("pwrite64", "EINVAL", "")
    assert "mtu" not in one.arguments


@pytest.mark.needs("recording", "writable settings")
def test_a_number_onto_which_another_file_is_copied_is_of_that_one() -> None:
    opened = ctypes.create_string_buffer(b"/sys/class/net/lo/mtu")
    memory = os.memfd_create("x")

    def write() -> None:
        fd = LIBC.open(opened, os.O_WRONLY)
        os.dup2(memory, fd)
        assert LIBC.pwrite(fd, b"x", 1, -5) == -1
        os.close(fd)

    (one,) = explained(write)
    os.close(memory)
    assert (one.cause, "mtu" in one.arguments) == ("", False)


@pytest.mark.needs("a root that is a mount")
def test_what_a_path_is_opened_for_and_where_it_ends(tmp_path: Path) -> None:
    """With O_PATH the kernel ignores the other flags. A folder that has gone says nothing of those
    before it, and one that may not be searched comes before the sticky bit of one in it."""
    closed, file = tmp_path / "closed", tmp_path / "file"
    closed.mkdir(mode=0o755)
    file.touch()
    file.chmod(0o600)
    (gone, a), (path, b) = address(f"{closed}/gone/x"), address(str(file))
    for folder in (tmp_path, *tmp_path.parents):
        folder.chmod(folder.stat().st_mode | 0o5)
    other = as_other()
    assert of("openat", "EACCES", AT, path, os.O_WRONLY, 0, facts=other).startswith(str(file)[:70])
    how = os.O_PATH | os.O_TRUNC | os.O_CREAT
    assert of("openat", "EACCES", AT, path, how, 0, facts=other) == ""
    assert of("openat", "EACCES", AT, gone, os.O_CREAT, 0, facts=other) == ""
    other.__dict__["is_alike"] = False
    assert of("openat", "EACCES", AT, path, os.O_WRONLY, 0, facts=other) == ""
    del a, b


def test_a_folder_that_may_not_be_searched_comes_before_the_sticky_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_files, "sysctl", lambda _: [1])
    before = ("/closed", *there(stat.S_IFDIR | 0o700, 1000)[1:])
    sticky = there(stat.S_IFDIR | 0o1777, 1000)
    places = [before, sticky], there(stat.S_IFREG | 0o666, OTHER)
    monkeypatch.setattr(call_places, "on_the_way", lambda *_: places)
    words = of("openat", "EACCES", AT, 8, os.O_CREAT, 0, facts=as_other(7))
    assert words.startswith("/closed (mode 0700")


@pytest.mark.parametrize(("name", "is_alike"), [("Uid", False), ("CapEff", False), ("Name", True)])
def test_threads_with_other_rights_are_not_alike(
    name: str, is_alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own (setfsuid(2))."""
    status = proc.status(PID)
    monkeypatch.setattr(process, "tasks", lambda _: [PID, 0])
    monkeypatch.setattr(proc, "status", lambda task: status if task else {**status, name: "x"})
    assert facts().is_alike == is_alike


@pytest.mark.needs("a root that is a mount")
def test_no_folder_is_entered_on_which_a_server_lies(tmp_path: Path) -> None:
    """To open it waits for a server that is away, as of NFS."""
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (deep, a), (far, b) = map(address, (f"{tmp_path}/far/deep/x", f"{tmp_path}/far"))
    made = facts()
    here = call_places.of_path(PID, (AT, far), made.memory, made.mounts)
    assert here
    remote = replace(
        here[1], mount_id=1 << 30, mount_point=f"{tmp_path}/far", filesystem="nfs4",
        parent_id=here[1].mount_id,
    )  # fmt: skip
    known = {**made.mounts, remote.mount_id: remote}
    for at in (deep, far):
        assert call_places.on_the_way(PID, "openat", (AT, at), made.memory, made.mounts)[0]
        assert call_places.on_the_way(PID, "openat", (AT, at), made.memory, known) == ([], None)
    for mounts, is_local in ((made.mounts, True), ({1: replace(remote, mount_point="/")}, False)):
        with nullcontext() if is_local else pytest.raises(OSError, match="emote"):
            call_places._check_begin(PID, "cwd", mounts)
    del a, b


def test_of_a_call_that_is_not_explained_its_files_are_named(tmp_path: Path) -> None:
    at, buffer = address(f"{tmp_path}/\x1b[31m")
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        now = Facts(PID, {})
        assert now.meaning("dfd", fd) == f" ({str(tmp_path)[:80]})"
        assert "\x1b" not in now.meaning("pathname", at)
        assert now.meaning("pathname", at).startswith(f" (now {str(tmp_path)[:60]}")
        assert now.meaning("count", fd) == now.meaning("dfd", 2**32 - 100) == ""
        for name, value in (("dfd", fd), ("fd", 2**31 - 1)):
            assert EarlierFacts(PID, {}).meaning(name, value) == ""
    finally:
        os.close(fd)
    del buffer
    assert Facts(PID, {}).meaning("fd", 2**31 - 1) == " (closed by now)"
