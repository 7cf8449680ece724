"""Calls that ask for more than they may: each with one that fails so, and with one that fails
otherwise."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from memlab.diagnose import (
    call_bounds,
    call_causes,
    call_facts,
    call_places,
    call_sockets,
    refusals,
    refused,
)
from memlab.diagnose.call_arguments import Called
from memlab.diagnose.call_facts import Facts
from memlab.diagnose.finding import NOTE
from memlab.diagnose.refusals import Refusal
from memlab.diagnose.room import Room
from memlab.observe import proc, system_calls

from .looks import look
from .test_call_causes import LIBC, PID, KiB, MiB, explained, of, only

NUMBERS = system_calls.NUMBERS
FEW = "Max open files            64                   64                   files\n"


def facts_with(limits: str = "", capabilities: str = "0", **status: str) -> Facts:
    facts = Facts(PID, {"CapEff": capabilities, **status})
    facts.__dict__["limits"] = limits
    return facts


def in_memory(raw: bytes) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """Memory with this content, and its address."""
    buffer = ctypes.create_string_buffer(raw, len(raw))
    return buffer, ctypes.addressof(buffer)


def failing(call: str, *arguments: int) -> Callable[[], object]:
    if call not in NUMBERS:
        pytest.skip("this architecture has no such call")
    return lambda: LIBC.syscall(NUMBERS[call], *(ctypes.c_long(one) for one in arguments))


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("getpid", ()), ("gettid", ()), ("getuid", ()), ("pidfd_open", (-1, 0))],
)
def test_a_name_has_the_number_of_the_kernel(call: str, arguments: Sequence[int]) -> None:
    expected = {"getpid": PID, "gettid": LIBC.gettid(), "getuid": os.getuid(), "pidfd_open": -1}
    assert LIBC.syscall(NUMBERS[call], *arguments) == expected[call]
    for table in (system_calls._X86_64, system_calls._GENERIC):
        numbers = system_calls._numbers(table)
        assert len(set(numbers.values())) == len(numbers)
        assert (numbers["pidfd_open"], numbers["mseal"]) == (434, 462)


@pytest.mark.needs("recording")
@pytest.mark.parametrize(
    ("call", "arguments", "errno", "words"),
    [
        ("poll", (0, 1 << 30, 0), "EINVAL", "1,073,741,824 descriptors are waited for"),
        ("dup2", (0, 1 << 30), "EBADF", "descriptor 1,073,741,824 is requested as a copy's number"),
        ("fcntl", (0, 0, 1 << 30), "EINVAL", "is requested as a copy's least number, and RLIMIT_"),
        ("writev", (1, 0, 1025), "EINVAL", "1,025 pieces are passed in one call, and the kernel"),
    ],
)
def test_more_than_one_call_may_have(
    call: str, arguments: Sequence[int], errno: str, words: str
) -> None:
    one, said = only(failing(call, *arguments))
    assert (one.call, one.errno) == (call, errno)
    assert words in said.title


@pytest.mark.needs("recording")
@pytest.mark.parametrize(
    ("call", "arguments"),
    [("dup2", (-1, 5)), ("fcntl", (0, 1, -1)), ("fcntl", (0, 0, -1)), ("writev", (1, 0, -1))],
)
def test_wrong_arguments_are_not_beyond_a_limit(call: str, arguments: Sequence[int]) -> None:
    failed = explained(failing(call, *arguments))
    assert [one.cause for one in failed] == [""] * len(failed)
    assert all(one.severity is NOTE for one in refused.findings(look(refused=tuple(failed))))


@pytest.mark.parametrize(
    ("call", "errno", "arguments", "words"),
    [
        ("poll", "EINVAL", (0, 65, 0), "65 descriptors are waited for in one call, and 64 may be"),
        ("ppoll", "EINVAL", (0, 64, 0), ""),
        ("dup3", "EBADF", (0, 64, 0), "descriptor 64 is requested"),
        ("dup3", "EBADF", (70, 63, 0), ""),
        ("fcntl", "EINVAL", (0, 1030, 64), "descriptor 64 is requested"),
        ("fcntl", "EINVAL", (0, 1031, 64), ""),
        ("io_uring_register", "EMFILE", (3, 2, 0, 65), "65 files are registered with a ring"),
        ("io_uring_register", "EMFILE", (3, 2, 0, 64), ""),
        ("io_uring_register", "EMFILE", (3, 4, 0, 65), ""),  # an eventfd
        ("io_uring_register", "EMFILE", (3, 2, 0, 1 << 21), "the kernel allows 1,048,576"),
        ("process_vm_readv", "EINVAL", (1, 0, 1, 0, 1025, 0), "1,025 pieces"),
        ("process_vm_readv", "EINVAL", (1, 0, 1, 0, 1024, 0), ""),
    ],
)
def test_descriptors_and_pieces(
    call: str, errno: str, arguments: Sequence[int], words: str
) -> None:
    said = of(call, errno, *arguments, facts=facts_with(FEW))
    assert words in said
    assert bool(said) == bool(words)


@pytest.mark.parametrize(
    ("call", "arguments", "place", "words"),
    [
        ("fallocate", (0, MiB, 1), 0, "is to have 1,048,577 bytes, and RLIMIT_FSIZE is 1,048,576"),
        ("fallocate", (0, 0, MiB), 0, ""),
        ("fallocate", (1, MiB, 1), 0, ""),  # FALLOC_FL_KEEP_SIZE
        ("ftruncate", (MiB + 1,), 0, "is to have 1,048,577 bytes, and RLIMIT_FSIZE"),
        ("ftruncate", (MiB,), 0, ""),
        ("write", (0, 9), MiB, "is written to at byte 1,048,576, and RLIMIT_FSIZE is"),
        ("write", (0, 9), MiB - 1, ""),
        ("pwrite64", (0, 9, MiB), 0, "is written to at byte 1,048,576, and RLIMIT_FSIZE is"),
        ("pwrite64", (0, 9, MiB - 1), 0, ""),
        ("pwritev2", (0, 9, 2**64 - 1, 2**64 - 1, 0), MiB, ""),
    ],
)
def test_a_file_that_may_not_grow(
    tmp_path: Path, call: str, arguments: Sequence[int], place: int, words: str
) -> None:
    """Without the limit only so large a size is said to be the cause as a file system forbids."""
    limits = "Max file size             1048576              1048576              bytes\n"
    with (tmp_path / "log").open("wb", buffering=0) as file:
        file.seek(place)
        said = of(call, "EFBIG", file.fileno(), *arguments, facts=facts_with(limits))
        assert words in said
        assert bool(said) == bool(words)
        assert of(call, "EFBIG", file.fileno(), *arguments, facts=facts_with()) == ""
        huge = [1 << 62 if one >= MiB else one for one in arguments]
        file.seek(1 << 40 if place else 0)
        said = of(call, "EFBIG", file.fileno(), *huge, facts=facts_with())
        reaches = 1 << 62 in huge or place > 0
        assert ("the largest file of its file system" in said) == reaches
    with (tmp_path / "log").open("ab", buffering=0) as file:
        assert place == 0 or of(call, "EFBIG", file.fileno(), *arguments, facts=facts_with()) == ""


MEMLOCK = "Max locked memory         {0}                {0}                bytes\n"


@pytest.mark.parametrize(
    ("segment", "locked", "limit", "errno", "words"),
    [
        (8192, 0, 4096, "ENOMEM", "a segment of 8 KiB is to be locked (SHM_LOCK), and 0 B of 4"),
        (8192, 8192, 12288, "ENOMEM", "and 8 KiB of 12 KiB are locked in segments of the user"),
        (8192, 4096, 12288, "ENOMEM", ""),
        (8192, 0, 0, "EPERM", "and 0 B of 0 B are locked"),
        (8192, 0, 65536, "EPERM", ""),
    ],
)
def test_a_segment_that_may_not_be_locked(
    monkeypatch: pytest.MonkeyPatch, segment: int, locked: int, limit: int, errno: str, words: str
) -> None:
    def rows(uid: str) -> list[list[str]]:
        return [
            f"0 7 600 {segment} 1 0 0 {uid} 0 {uid} 0".split(),
            f"0 8 2600 {locked} 1 0 0 7 0 7 0".split(),
            f"0 9 2600 {MiB} 1 0 0 9 0 9 0".split(),
        ]

    status = {"Uid": "7 7 7 7"}
    monkeypatch.setattr(call_bounds.sysvipc, "rows", lambda *_: rows("7"))
    said = of("shmctl", errno, 7, 11, 0, facts=facts_with(MEMLOCK.format(limit), **status))
    assert words in said
    assert bool(said) == bool(words)
    facts = facts_with(MEMLOCK.format(limit), **status)
    assert of("shmctl", errno, 7, 0, 0, facts=facts) == "", "it is not SHM_LOCK"
    monkeypatch.setattr(call_bounds.sysvipc, "rows", lambda *_: rows("8"))
    assert of("shmctl", errno, 7, 11, 0, facts=facts) == "", "it is another user's"


@pytest.mark.parametrize(
    ("flags", "limit", "capabilities", "expected"),
    [(0x2022, 0, "0", True), (0x22, 0, "0", False), (0x2022, 4096, "0", False),
     (0x2022, 0, f"{1 << 14:x}", False)],
)  # fmt: skip
def test_a_locked_mapping_without_any_limit_left(
    flags: int, limit: int, capabilities: str, expected: bool
) -> None:
    facts = facts_with(MEMLOCK.format(limit), capabilities)
    facts.__dict__["is_contained"] = False
    said = of("mmap", "EPERM", 0, 64 * KiB, 3, flags, -1 % (1 << 64), 0, facts=facts)
    assert said == (
        "a locked mapping of 64 KiB is requested (MAP_LOCKED), and RLIMIT_MEMLOCK is 0"
        if expected
        else ""
    )


@pytest.mark.parametrize(
    ("policy", "priority", "limit", "capabilities", "expected"),
    [(1, 5, 4, 0, True), (2, 5, 4, 0, True), (1, 5, 5, 0, False), (0, 5, 4, 0, False),
     (1, 5, 4, 1 << 23, False)],
)  # fmt: skip
def test_a_priority_above_the_limit(
    monkeypatch: pytest.MonkeyPatch,
    policy: int, priority: int, limit: int, capabilities: int, expected: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(call_bounds.cgroup, "chain", lambda *_: (None, []))
    text = f"Max realtime priority     {limit}                    {limit}                    \n"
    facts = facts_with(text, f"{capabilities:x}")
    facts.__dict__["is_contained"] = False
    parameter, at = in_memory(priority.to_bytes(4, sys.byteorder))
    attributes, of_attributes = in_memory(
        struct.pack("=IIQiIQQQ", 48, policy, 0, 0, priority, 0, 0, 0)
    )
    for call, arguments in (
        ("sched_setscheduler", (0, policy, at)),
        ("sched_setattr", (PID, of_attributes, 0)),
    ):
        said = of(call, "EPERM", *arguments, facts=facts)
        assert ("a real-time priority of 5 is requested, and RLIMIT_RTPRIO allows 4" in said) == (
            expected
        )
    assert of("sched_setscheduler", "EPERM", 1, policy, at, facts=facts) == "", "not its own"
    del parameter, attributes


@pytest.mark.parametrize(
    ("nice", "limit", "words"),
    [
        (-5, 0, "a nice value of -5 is requested, which needs an RLIMIT_NICE of 25"),
        (-5, 25, ""),
        (-60, 30, "a nice value of -60 is requested, which needs an RLIMIT_NICE of 40"),
        (3, 17, ""),
    ],
)
def test_a_niceness_below_the_limit(nice: int, limit: int, words: str) -> None:
    text = f"Max nice priority         {limit}                    {limit}                    \n"
    said = of("setpriority", "EACCES", 0, 0, nice % (1 << 64), facts=facts_with(text))
    assert words in said
    assert bool(said) == bool(words)
    assert of("setpriority", "EACCES", 0, PID, nice % (1 << 64), facts=facts_with(text)) == said
    assert of("setpriority", "EACCES", 0, 1, nice % (1 << 64), facts=facts_with(text)) == ""


def test_a_deadline_that_the_cpus_have_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_bounds, "sysctl", lambda name: [1_000_000 - 50_000 * ("run" in name)])
    attributes, at = in_memory(struct.pack("=IIQiIQQQ", 48, 6, 0, 0, 0, 9_000_000, 10**7, 10**7))
    said = of("sched_setattr", "EBUSY", 0, at, 0)
    assert said.startswith("9 of every 10 ms are requested (SCHED_DEADLINE)")
    assert said.endswith("may have 950 of every 1000 ms each")
    other, at = in_memory(struct.pack("=IIQiIQQQ", 48, 1, 0, 0, 5, 0, 0, 0))
    assert of("sched_setattr", "EBUSY", 0, at, 0) == ""
    del attributes, other


def test_operations_and_values_of_a_semaphore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_bounds, "sysctl", lambda *_: [32_000, 10**6, 500, 32_000])
    for call in ("semop", "semtimedop"):
        assert "501 operations are requested in one call, and kernel.sem allows 500" in of(
            call, "E2BIG", 1, 0, 501
        )
        assert of(call, "E2BIG", 1, 0, 500) == ""
        assert "would exceed 32,767 (SEMVMX)" in of(call, "ERANGE", 1, 0, 1)


def test_a_message_longer_than_its_queue_is_made_for() -> None:
    assert "a message of 100 bytes is sent to a queue" in of("mq_timedsend", "EMSGSIZE", 0, 0, 100)


def test_rings_and_their_buffers() -> None:
    parameters, at = in_memory(bytes(120))
    assert "a ring of 32,769 entries is requested" in of("io_uring_setup", "EINVAL", 32_769, at)
    assert of("io_uring_setup", "EINVAL", 32_768, at) == ""
    clamped, at = in_memory(bytes(8) + (1 << 4).to_bytes(4, sys.byteorder) + bytes(108))
    assert of("io_uring_setup", "EINVAL", 32_769, at) == ""
    for length, expected in ((1 << 30, False), ((1 << 30) + 1, True)):
        buffers, at = in_memory(struct.pack("=4Q", 0, 4096, 0, length))
        said = of("io_uring_register", "EFAULT", 3, 0, at, 2)
        assert ("a buffer of 1 GiB is registered" in said) == expected == bool(said)
        assert of("io_uring_register", "EFAULT", 3, 2, at, 2) == "", "these are files"
        del buffers
    del parameters, clamped


def test_requests_of_a_context_that_is_full() -> None:
    ring, at = in_memory(struct.pack("=II", 0, 127))
    said = of("io_submit", "EAGAIN", at, 1, 0)
    assert said.startswith("its context (io_setup) has room for 126 requests, which are under way")
    assert of("io_submit", "EAGAIN", 0, 1, 0) == ""
    del ring


def test_more_files_than_any_ring_may_have_are_not_blamed_on_a_limit_of_the_process() -> None:
    for wanted, line in ((65, "RLIMIT_NOFILE"), ((1 << 20) + 1, "files of a ring")):
        cause = call_bounds._descriptors(facts_with(FEW), "io_uring_register", (3, 2, 0, wanted))
        assert cause is not None
        assert (cause.line, "ulimit" in cause.setting) == (line, line == "RLIMIT_NOFILE")


def test_layers_and_filters_of_a_thread() -> None:
    assert "restricted by 16 rulesets already" in of("landlock_restrict_self", "E2BIG", 3, 0)
    facts = facts_with(Seccomp_filters="7")
    for call, arguments in (("seccomp", (1, 0, 0)), ("prctl", (22, 2, 0))):
        assert "is added to 7, and all of a thread may have 32,768 instructions" in of(
            call, "ENOMEM", *arguments, facts=facts
        )
        assert of(call, "ENOMEM", *arguments, facts=facts_with()) == ""
    assert of("prctl", "ENOMEM", 35, 0, 0, facts=facts) == "", "PR_SET_MM adds no filter"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(1, "and it is full"), (22, "and it is full"), (None, "")]
    + [(kind, "and an index is above it") for kind in (2, 3, 4, 6, 8, 12, 14, 15, 16, 17, 20)],
)
def test_a_map_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int | None, expected: str
) -> None:
    info = tmp_path / f"proc/{PID}/fdinfo/3"
    info.parent.mkdir(parents=True)
    info.write_text(f"map_type:\t{kind}\nmax_entries:\t8\n" if kind else "pos:\t0\n")
    monkeypatch.setattr(call_facts, "ROOT", tmp_path)
    about, at = in_memory(struct.pack("=IIQQQ", 3, 0, 0, 0, 0))
    said = of("bpf", "E2BIG", 2, at, 32)
    assert said == (f"the BPF map of descriptor 3 has max_entries 8, {expected}" if kind else "")
    assert of("bpf", "E2BIG", 0, at, 32) == "", "a map is made"
    del about


@pytest.mark.parametrize(
    ("capabilities", "length", "expected"),
    [(0, 4097, "4,096"), (0, 4096, ""), (1 << 39, 4097, ""), (1 << 39, 1_000_001, "1,000,000")],
)
def test_a_program_that_is_too_long(capabilities: int, length: int, expected: str) -> None:
    facts = facts_with("", f"{capabilities:x}")
    facts.__dict__["is_contained"] = False
    about, at = in_memory(struct.pack("=IIQQQ", 1, length, 0, 0, 0))
    said = of("bpf", "E2BIG", 5, at, 32, facts=facts)
    assert said == (
        f"a BPF program of {length:,} instructions is loaded, and {expected} are allowed"
        if expected
        else ""
    )
    del about


@pytest.mark.parametrize(
    ("flags", "words"),
    [("fpu pku ospke", "are in use: the CPU has 15"), ("fpu pku", "has no prot")],
)
def test_protection_keys_are_in_use_or_there_are_no_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, words: str
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"flags\t: {flags}\n")
    monkeypatch.setattr(call_bounds, "ROOT", tmp_path)
    assert words in of("pkey_alloc", "ENOSPC", 0, 0)


def test_more_than_an_address_space_has() -> None:
    arguments = (0, 1 << 62, 3, 0x22, -1 % (1 << 64), 0)
    assert "no address space has room for" in of("mmap", "ENOMEM", *arguments, facts=facts_with())
    limits = "Max address space         1048576              1048576              bytes\n"
    assert of("mmap", "ENOMEM", *arguments, facts=facts_with(limits)) == ""
    assert of("mmap", "ENOMEM", 0, 1 << 40, *arguments[2:], facts=facts_with()) == ""


@pytest.mark.needs("recording")
def test_a_mapping_that_may_not_move_and_has_another_one_behind() -> None:
    """As an allocator asks before it copies."""
    page = mmap.PAGESIZE
    at: int = LIBC.mmap(None, 4 * page, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    LIBC.mprotect(ctypes.c_void_p(at + page), 3 * page, 1)
    one, said = only(failing("mremap", at, page, 2 * page, 0))
    assert (one.call, one.errno) == ("mremap", "ENOMEM")
    assert "4 KiB in its place, and another mapping lies behind it" in said.title or page != 4096
    assert one.harmless
    assert "it is a part of a mapping" in of("mremap", "ENOMEM", at + page, page, 2 * page, 0)
    assert of("mremap", "ENOMEM", at, page, 2 * page, 1) == "", "it may move"
    LIBC.munmap(ctypes.c_void_p(at), 4 * page)


@pytest.mark.parametrize(
    ("call", "asks", "counted"),
    [("mremap", 15 * MiB, {"RLIMIT_AS", "RLIMIT_DATA"}), ("mprotect", MiB, {"RLIMIT_DATA"}),
     ("shmat", 16 * MiB, {"RLIMIT_AS"})],
)  # fmt: skip
def test_what_a_call_asks_for_is_compared_with_the_limits_that_count_it(
    monkeypatch: pytest.MonkeyPatch, call: str, asks: int, counted: set[str]
) -> None:
    row = f"0 7 600 {16 * MiB} 1 0 0 7 0 7 0".split()
    monkeypatch.setattr(call_causes.sysvipc, "rows", lambda *_: [row])
    protection = 1 if call == "mprotect" else 3
    around: int = LIBC.mmap(None, 3 * MiB, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    at = around + MiB  # a neighbour of equal protection would be the same mapping
    LIBC.mprotect(ctypes.c_void_p(at), MiB, protection)
    arguments = {
        "mremap": (at, MiB, 16 * MiB, 1), "mprotect": (at, 64 * MiB, 3), "shmat": (7, 0, 0),
    }[call]  # fmt: skip
    refusal = Refusal(call, "ENOMEM", 3.0)
    (one,) = call_causes.explained(
        PID, {"CapEff": "0"}, [refusal], {(call, "ENOMEM"): Called([arguments], 1, 1)}
    )
    LIBC.munmap(ctypes.c_void_p(around), 3 * MiB)
    assert one == replace(refusal, asked_bytes=asks, data=call != "shmat")
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        for spare, is_refused in ((asks - 1, True), (asks, False)):
            room = Room(name, 2 * asks - spare, 2 * asks, "B", "")
            (said,) = refused.findings(look(refused=(one,), rooms=(room,)))
            assert ("are asked for, and" in said.title) == (is_refused and name in counted)


def test_a_file_and_a_folder_with_as_many_links_as_there_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is followed without a symbolic link. In a chroot the mount of its root is not in
    the list."""
    mount = replace(next(iter(call_places.mounts(PID).values())), filesystem="ext4")
    monkeypatch.setattr(call_places, "_local", lambda *_: mount)
    folder, file = tmp_path / "folder", tmp_path / "file"
    (folder / "a").mkdir(parents=True)
    file.touch()
    (tmp_path / "second").hardlink_to(file)
    (tmp_path / "other").symlink_to(folder)
    paths = [in_memory(bytes(one) + b"\0") for one in (file, folder / "b", tmp_path / "other/b")]
    (_, of_file), (_, of_folder), (_, by_link) = paths
    assert of("link", "EMLINK", of_file, 0).startswith("the file has 2 links, as many as its file")
    links = folder.stat().st_nlink
    assert of("mkdir", "EMLINK", of_folder, 0).startswith(f"the folder has {links:,} links")
    assert of("mkdir", "EMLINK", by_link, 0) == ""


@pytest.mark.parametrize(("filesystem", "is_said"), [("ext4", True), ("tmpfs", False)])
def test_attributes_of_a_file_share_a_block(
    monkeypatch: pytest.MonkeyPatch, filesystem: str, is_said: bool
) -> None:
    mount = replace(next(iter(call_places.mounts(PID).values())), filesystem=filesystem)
    monkeypatch.setattr(call_places, "of_call", lambda *_: None)
    monkeypatch.setattr(call_places, "mount_of_call", lambda *_: (mount, 4096))
    said = of("fsetxattr", "ENOSPC", 3, 0, 0, 5000, 0)
    assert said.startswith("an attribute of 4.88 KiB is set") == is_said == bool(said)
    full = ("the file system / is full", "/", "")
    monkeypatch.setattr(call_places, "of_call", lambda *_: full)
    assert of("fsetxattr", "ENOSPC", 3, 0, 0, 5000, 0) == full[0]
    assert "the kernel allows 65,536" in of("fsetxattr", "E2BIG", 3, 0, 0, 65_537, 0)
    assert of("fsetxattr", "E2BIG", 3, 0, 0, 65_536, 0) == ""


@pytest.mark.parametrize(
    ("filesystem", "options", "words"),
    [
        ("ext4", {"rw", "usrjquota=aquota.user"}, "the quota of the user on the file system "),
        ("xfs", {"prjquota"}, "the quota of the project on the file system "),
        ("xfs", {"usrquota", "grpquota"}, "a quota (user or group) on the file system "),
        ("overlay", {"rw"}, "a quota on the file system "),
        ("btrfs", {"rw"}, "a limit of a qgroup on the file system "),
    ],
)
def test_a_quota_is_one_that_the_mount_has(
    monkeypatch: pytest.MonkeyPatch, filesystem: str, options: set[str], words: str
) -> None:
    mount = replace(
        next(iter(call_places.mounts(PID).values())),
        filesystem=filesystem, mount_point="/home", super_options=frozenset(options),
        options=frozenset({"rw", "relatime"}),
    )  # fmt: skip
    monkeypatch.setattr(call_places, "mount_of_call", lambda *_: (mount, 4096))
    said = of("write", "EDQUOT", 3, 0, 4096)
    assert said == f"{words}/home ({filesystem}) is used up; how much it is was not read"
    monkeypatch.setattr(call_places, "mount_of_call", lambda *_: None)
    assert of("write", "EDQUOT", 3, 0, 4096) == ""


def test_ports_of_udp_that_are_all_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    address, at = in_memory(
        socket.AF_INET.to_bytes(2, sys.byteorder) + b"\0\x09" + bytes([127, 0, 0, 1]) + bytes(8)
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        monkeypatch.setattr(call_sockets, "sysctl", lambda _: [port, port])
        said = of("connect", "EAGAIN", 3, at, 16)
        assert said.startswith("1 of the 1 ports that the kernel may choose")
        assert said.endswith("have UDP sockets")
    unix, at = in_memory(socket.AF_UNIX.to_bytes(2, sys.byteorder) + b"/run/1\0")
    assert of("connect", "EAGAIN", 3, at, 9) == ""
    del address, unix


@pytest.mark.parametrize("call", ["sendto", "sendmsg"])
def test_the_pieces_of_a_message_are_added(call: str) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        most = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) - 32
        for length, is_said in ((most, False), (most + 1, True)):
            pieces, of_pieces = in_memory(struct.pack("=4Q", 0, length - 8, 0, 8))
            head, at = in_memory(struct.pack("=QIxxxxQQQQIxxxx", 0, 0, of_pieces, 2, 0, 0, 0))
            arguments = (at, length, 0) if call == "sendto" else (at, 0, 0)
            said = of(call, "EMSGSIZE", one.fileno(), *arguments)
            assert ("is sent by a Unix datagram socket" in said) == is_said == bool(said)
            del pieces, head


def test_control_data_that_is_larger_than_a_socket_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_sockets, "sysctl", lambda _: [131_072])
    for length, words in ((131_073, "a message has 128 KiB of control data"), (131_072, "")):
        head, at = in_memory(struct.pack("=QIxxxxQQQQIxxxx", 0, 0, 0, 0, 0, length, 0))
        said = of("sendmsg", "ENOBUFS", 3, at, 0)
        assert words in said
        assert bool(said) == bool(words)
        del head


def test_a_signal_to_another_process_is_refused_by_that_ones_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = {"SigQ": "5/5", "Name": "init"}
    monkeypatch.setattr(proc, "status", lambda _: status)
    monkeypatch.setattr(call_causes.namespaces, "is_shared", lambda *_: True)
    info = tmp_path / f"proc/{PID}/fdinfo/4"
    info.parent.mkdir(parents=True)
    info.write_text("pos:\t0\nPid:\t1\n")
    (tmp_path / f"proc/{PID}/task/{PID}").mkdir(parents=True)
    monkeypatch.setattr(call_facts, "ROOT", tmp_path)
    facts = Facts(PID, status)
    for call, first in (("tgkill", 1), ("rt_tgsigqueueinfo", 1), ("pidfd_send_signal", 4)):
        words = "process 1 (init) may have 5 signals queued (its RLIMIT_SIGPENDING), and 5 are"
        assert of(call, "EAGAIN", first, 34, 0, facts=facts).startswith(words)
    assert of("tgkill", "EAGAIN", PID, PID, 34, facts=facts) == ""
    assert of("pidfd_send_signal", "EAGAIN", 5, 34, 0, facts=facts) == ""


@pytest.mark.parametrize("datagrams", [True, False])
def test_what_programs_are_refused_all_the_time_is_not_recorded(datagrams: bool) -> None:
    """And a call that succeeds is compared once."""
    text = refusals._odd(refusals._sends(datagrams))
    assert text.startswith("ret < 0 && ")
    wants = refusals.of_groups()[0]
    assert wants.startswith("ret < 0 && ")
    waits = text.partition("ret == -11 && ")[2].partition("))")[0]
    assert (f"id == {NUMBERS['sendto']} " in f"{waits} ") == datagrams
    for call in ("read", "recvfrom", "accept4", "futex", "epoll_pwait"):
        assert f"id == {NUMBERS[call]} " not in f"{(text + wants).replace(')', ' )')} "


def test_a_name_of_another_process_is_printable() -> None:
    assert call_facts.shown("a\nb\x1b[1m" + "c" * 99).isprintable()
