"""Calls that look into another process and may not, by the rule that there is for all of them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

import pytest

from memlab.diagnose import call_places, call_rights
from memlab.diagnose.call_facts import EarlierFacts, Facts
from memlab.observe import namespaces

from .test_call_causes import PID, of

OTHER = os.getppid()
CALLS = (
    ("process_vm_readv", "EPERM", (OTHER, 0, 1, 0, 1, 0)),
    ("ptrace", "EPERM", (16, OTHER, 0, 0)),
    ("move_pages", "EPERM", (OTHER, 0, 0, 0, 0, 0)),
    ("migrate_pages", "EPERM", (OTHER, 0, 0, 0)),
    ("perf_event_open", "EACCES", (0, OTHER, 0, 0, 0)),
)
OWN = {"Uid": "7 7 7 7", "Gid": "7 7 7 7", "CapEff": "0", "CapPrm": "0"}
ALIKE = {"Name": "db", "PPid": "1", "TracerPid": "0", **OWN}


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one user, in one PID namespace."""
    monkeypatch.setattr(call_rights, "_owner", lambda _: 7)
    monkeypatch.setattr(call_rights, "target_of", lambda _: "user:[1]")
    monkeypatch.setattr(namespaces, "is_shared", lambda *_: True)
    pretend(monkeypatch, {})


def pretend(monkeypatch: pytest.MonkeyPatch, other: Mapping[str, str], scope: int = 0) -> None:
    status = {**ALIKE, **other}
    monkeypatch.setattr(call_rights, "_status", lambda _: status)
    monkeypatch.setattr(call_rights, "sysctl", lambda _: [scope])


def subject(kind: type[Facts] = Facts, **own: str) -> Facts:
    made = kind(PID, OWN | own)
    made.__dict__["is_contained"] = False
    return made


@pytest.mark.parametrize(("call", "errno", "arguments"), CALLS)
def test_another_user(
    monkeypatch: pytest.MonkeyPatch, call: str, errno: str, arguments: tuple[int, ...]
) -> None:
    assert of(call, errno, *arguments, facts=subject()) == "", "of one user nothing forbids it"
    pretend(monkeypatch, {"Uid": "0 0 0 0"})
    words = of(call, errno, *arguments, facts=subject())
    assert words.startswith(
        f"process {OTHER} (db) is of UID 0, this one of UID 7; this one has no CAP_SYS_PTRACE"
    )
    for facts in (subject(CapEff=f"{1 << 19 | 1 << 38:x}"), subject(EarlierFacts)):
        assert of(call, errno, *arguments, facts=facts) == ""
    own = tuple(PID if one == OTHER else one for one in arguments)
    assert of(call, errno, *own, facts=subject()) == ""


def test_each_other_part_of_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def words(call: str = "process_vm_readv", scope: int = 0, **other: str) -> str:
        pretend(monkeypatch, other, scope)
        arguments = next(one for name, _, one in CALLS if name == call)
        return of(call, "EPERM", *arguments, facts=subject())

    assert "is of the same user, of GID 7 and 0, this one of GID 7" in words(Gid="7 0 7 7")
    assert "is of UID 7 and 0, this one of UID 7" in words(Uid="7 0 0 0")
    assert "has capabilities that this one has not" in words(CapPrm="400")
    assert words("ptrace", TracerPid="12").endswith("is traced by 12, and may have one tracer")
    assert "does not descend from this one, and kernel.yama.ptrace_scope is 1" in words(scope=1)
    assert words(scope=1, PPid=str(PID)) == "", "it is its child"
    assert words(scope=2).startswith(f"process {OTHER} (db) is not to be traced: kernel.yama")
    assert words("move_pages", scope=2) == "", "Yama is asked by those that attach"
    monkeypatch.setattr(call_rights, "_owner", lambda _: 0)
    assert "is of the same user, and not dumpable" in words()


def test_what_another_right_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {"Uid": "0 0 0 0"})
    facts = subject()
    assert of("move_pages", "EPERM", OTHER, 0, 0, 0, 0, 4, facts=facts) == ""  # MPOL_MF_MOVE_ALL
    assert of("ptrace", "EPERM", 0, 0, 0, 0, facts=facts) == ""  # PTRACE_TRACEME
    assert of("ptrace", "EPERM", 16, PID, 0, 0, facts=facts) == ""
    monkeypatch.setattr(namespaces, "is_shared", lambda *_: False)
    assert of("process_vm_readv", "EPERM", OTHER, 0, 1, 0, 1, 0, facts=facts) == ""


def test_files_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {"Uid": "0 0 0 0"})
    mounts = call_places.mounts(PID)

    def words(path: str, folder: int = 2**32 - 100) -> str:
        buffer = ctypes.create_string_buffer(path.encode())
        facts = subject()
        facts.__dict__["mounts"] = mounts
        at = ctypes.addressof(buffer)
        return of("openat", "EACCES", folder, at, 0, facts=facts)

    begin = f"of process {OTHER} (db) is of UID 0, this one of UID 7"
    assert words(f"/proc/{OTHER}/mem").startswith(f"/proc/PID/mem {begin}")
    assert words(f"/proc/{OTHER}/fd/3").startswith(f"/proc/PID/fd/3 {begin}")
    for path in (f"/proc/{OTHER}/status", "/proc/sys/vm/swappiness", "/etc/shadow", "mem"):
        assert "CAP_SYS_PTRACE" not in words(path)
    folder = os.open(f"/proc/{OTHER}", os.O_PATH)
    try:
        assert words("mem", folder).startswith(f"/proc/PID/mem {begin}")
    finally:
        os.close(folder)
