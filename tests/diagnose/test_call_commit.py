"""Forks that fail because of what they would commit."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from memlab.diagnose import call_commit, call_limits, kernel_numbers, refusals, refused, room
from memlab.diagnose.call_facts import Facts
from memlab.diagnose.refusals import Refusal
from memlab.observe import proc, process

from .looks import look
from .test_call_causes import LIBC, only

GiB, MiB = 1 << 30, 1 << 20
SIGCHLD, CLONE_VM = 17, 0x100


@pytest.fixture
def facts_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Facts]:
    for module in (kernel_numbers, call_limits, refusals):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return partial(_facts_of, tmp_path, monkeypatch)


def _facts_of(
    root: Path, patch: pytest.MonkeyPatch, *sizes: int, mode: int = 2, committed: int = 9 * GiB
) -> Facts:
    """A process with private writable mappings, and a machine of 16 GiB that commits 10 at most."""
    (root / "proc/sys/vm").mkdir(parents=True, exist_ok=True)
    for name, value in (("overcommit_memory", mode), ("admin_reserve_kbytes", 8 << 10),
                        ("user_reserve_kbytes", 128 << 10)):  # fmt: skip
        (root / f"proc/sys/vm/{name}").write_text(f"{value}\n")
    machine = {"MemTotal": 16 * GiB, "SwapTotal": 4 * GiB, "CommitLimit": 10 * GiB,
               "Committed_AS": committed}  # fmt: skip
    patch.setattr(proc, "meminfo", lambda: machine)
    facts = Facts(7, {"CapEff": "0", "VmSize": f"{64 << 10} kB"})
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    facts.__dict__["committed"] = [
        process.Mapping(end - size, end, "rw-p", "") for size, end in zip(sizes, ends, strict=True)
    ]
    facts.__dict__["is_contained"] = False
    return facts


def test_a_child_that_commits_more_than_is_left(facts_of: Callable[..., Facts]) -> None:
    facts = facts_of(512 * MiB, 512 * MiB)
    cause = call_commit.child(facts, "clone", (SIGCHLD,))
    assert cause
    assert cause.words == (
        "a child commits 1 GiB more, all private memory of its parent that may be written, and "
        "9 GiB of 10 GiB are committed (CommitLimit, vm.overcommit_memory=2, 10 MiB of it in "
        "reserve)"
    )
    assert "vm.overcommit_ratio" in cause.setting
    for size, is_cause in ((1013, False), (1015, True)):
        facts = facts_of(size * MiB)
        assert bool(call_commit.child(facts, "fork", ())) == is_cause
    facts = facts_of(GiB)
    assert call_commit.child(facts, "clone", (SIGCHLD | CLONE_VM,)) is None, "a thread"
    assert call_commit.child(facts, "vfork", ()) is None
    assert call_commit.child(facts, "clone3", (0,)) is None, "flags that were not read"


def test_one_mapping_larger_than_memory_and_swap_is_committed_by_no_child(
    facts_of: Callable[..., Facts],
) -> None:
    """Neighbours that the kernel joined: none of their requests was too large."""
    cause = call_commit.child(facts_of(MiB, 21 * GiB, mode=0), "clone", (SIGCHLD,))
    assert cause
    assert "the largest has 21 GiB, and one request may have 20 GiB (vm.over" in cause.words
    for sizes, mode in (((11 * GiB, 11 * GiB), 0), ((21 * GiB,), 1), ((), 0)):
        assert call_commit.child(facts_of(*sizes, mode=mode), "fork", ()) is None


def _in_users(root: Path, space: int) -> None:
    (root / "proc/7/ns").mkdir(parents=True)
    (root / "proc/7/ns/user").symlink_to(f"user:[{space}]")


@pytest.mark.parametrize(
    ("space", "counts"), [(4026531837, True), (4026531900, False), (None, True)]
)
def test_a_capability_counts_for_the_machine_in_the_first_user_namespace(
    space: int | None, *, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may not be read is taken to be the first: then no limit is said that may not hold."""
    monkeypatch.setattr(kernel_numbers, "ROOT", tmp_path)
    if space:
        _in_users(tmp_path, space)
    status = {"CapEff": f"{1 << 14 | 1 << 21 | 1 << 24:x}", "Uid": "1 1 1 1", "VmPin": "4 kB"}
    assert kernel_numbers.rights(7, status) == int(status["CapEff"], 16) * counts
    monkeypatch.setattr(room, "_sum_of_user", lambda *_: 1 << 20)
    limits = "Max locked memory 65536 65536 bytes"
    monkeypatch.setattr(proc, "read", lambda path: limits if f"{path}".endswith("limits") else "")
    names = [one.name for one in room.limits(7, status, 0)]
    expected = [] if counts else ["RLIMIT_MEMLOCK", room.PINNED]
    assert [name for name in names if "MEMLOCK" in name] == expected
    assert [one.name for one in room.pinned_of_user(7, status)] == expected[1:]


def test_what_may_be_mapped_is_the_limit_less_its_reserves(
    facts_of: Callable[..., Facts], tmp_path: Path
) -> None:
    facts_of(committed=10 * GiB - 9 * MiB)
    asks = Refusal("mmap", "ENOMEM", 9.0, 100 << 10, data=True)
    rooms = call_limits.of(7, {"CapEff": "0", "VmSize": f"{64 << 10} kB"}, [asks])
    (found,) = refused.findings(look(refused=(asks,), rooms=tuple(rooms)))
    assert "9.99 GiB of 9.99 GiB (CommitLimit less its reserves)" in found.title
    assert "vm.overcommit_ratio" in found.setting
    capable = call_limits.of(7, {"CapEff": f"{1 << 21:x}", "VmSize": "0 kB"}, [asks])
    (found,) = refused.findings(look(refused=(asks,), rooms=tuple(capable)))
    assert "no limit that is read here is met" in found.title
    _in_users(tmp_path, 4026531900)
    contained = call_limits.of(7, {"CapEff": f"{1 << 21:x}", "VmSize": f"{64 << 10} kB"}, [asks])
    assert [one.limit for one in contained] == [one.limit for one in rooms]


@pytest.mark.needs("recording", "overcommit by guess")
def test_a_fork_of_a_mapping_larger_than_memory_is_explained() -> None:
    machine = proc.meminfo()
    piece = (machine["MemTotal"] + machine["SwapTotal"]) * 6 // 10 >> 21 << 21
    at, flags = 0x1000_0000_0000, 0x100022  # MAP_FIXED_NOREPLACE, private and anonymous
    arguments = (ctypes.c_size_t(piece), 3, flags, -1, ctypes.c_long(0))
    places = [ctypes.c_void_p(at + i * piece) for i in range(2)]
    LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def fork() -> None:
        if LIBC.fork() == 0:
            os._exit(0)

    try:
        for place in places:
            assert LIBC.mmap(place, *arguments) == place.value
        refusal, finding = only(fork)
    finally:
        for place in places:
            LIBC.munmap(place, piece)
    assert refusal.call in ("clone", "clone3", "fork")
    assert "(vm.overcommit_memory=0: memory and swap)" in finding.title
    assert finding.name == "forks-refused"
