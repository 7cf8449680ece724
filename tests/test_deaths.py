"""What is said of a command that has ended, as a table: what was read, its value, what to do."""

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
from typing import Any

import pytest

from memlab.command import bus_error, fault_log, limit_words
from memlab.command.fault_log import FaultLog
from memlab.command.python_probes.command import outcome as how
from memlab.command.python_probes.command import sampler
from memlab.files import folders
from memlab.observe.capabilities import privileges
from memlab.observe.in_force import InForce
from memlab.text import units

KIB, MIB = 1 << 10, 1 << 20
STRACE = "which call failed was not recorded (strace -f -Z prints it)"
COMMAND = "raise it where the command sets it"
STACK = "its stack is full, 8 MiB long (RLIMIT_STACK: 8 MiB)"
SENT_FILE = f"RLIMIT_FSIZE, which sends it, is 64 KiB: {COMMAND}"
NOT_COUNTED = "whether the kernel did it for want of memory was not counted"
FILES = {"RLIMIT_NOFILE": 1024}  # of every process

# What ended it, the limits that were read, what it printed, the policies, and the sentence in two
# parts, between which stands when it was.
DEATHS: dict[str, tuple[dict[str, Any], dict[str, int], str, list[str], tuple[str, str]]] = {
    "a file's limit": (
        {"signal": signal.SIGXFSZ}, {"RLIMIT_FSIZE": 64 * KIB}, "", [],
        ("ended by SIGXFSZ", f": {SENT_FILE}"),
    ),
    "a file's limit of memlab": (
        {"signal": signal.SIGXFSZ}, {"RLIMIT_FSIZE": 3 * MIB}, "", [],
        ("ended by SIGXFSZ", ": RLIMIT_FSIZE, which sends it, is 3 MiB: memlab was started with it "
         "(ulimit -f, LimitFSIZE=)"),
    ),
    "a file's limit, unread": (
        {"signal": signal.SIGXFSZ}, {}, "", [],
        ("ended by SIGXFSZ", ": RLIMIT_FSIZE sends it, and none was read of this process"),
    ),
    "a file's limit of a shell's child": (
        {"status": 128 + signal.SIGXFSZ}, {"RLIMIT_FSIZE": 64 * KIB, "RLIMIT_AS": 1 << 30}, "", [],
        (f"exit status {128 + signal.SIGXFSZ}, as a shell says it of what SIGXFSZ ended",
         f": {SENT_FILE}"),
    ),
    "CPU time": (
        {"signal": signal.SIGXCPU}, {"RLIMIT_CPU": 3, "hard RLIMIT_CPU": 9}, "", [],
        ("ended by SIGXCPU", ": RLIMIT_CPU, which sends it, is 3 s (the kernel adds 1 s as it "
         f"sends it): {COMMAND}; 2.00 s of CPU time were taken"),
    ),
    "CPU time of memlab, to which the kernel has added": (
        {"signal": signal.SIGXCPU}, {"RLIMIT_CPU": 3 * MIB + 1}, "", [],
        ("ended by SIGXCPU", ": RLIMIT_CPU, which sends it, is 3,145,729 s (the kernel adds 1 s as "
         "it sends it): memlab was started with it (ulimit -t, LimitCPU=); 2.00 s of CPU time were "
         "taken"),
    ),
    "both times": (
        {"signal": signal.SIGXCPU}, {"RLIMIT_RTTIME": 1_500_000, "RLIMIT_CPU": 60}, "", [],
        ("ended by SIGXCPU", ": RLIMIT_CPU, which sends it, is 60 s (the kernel adds 1 s as it "
         f"sends it): {COMMAND}; RLIMIT_RTTIME, which sends it, is 1.5 s (the kernel adds 1 s as "
         f"it sends it): {COMMAND}; 2.00 s of CPU time were taken"),
    ),
    "the hard limit of CPU time": (
        {"signal": signal.SIGKILL}, {"RLIMIT_CPU": 2, "hard RLIMIT_CPU": 2}, "", [],
        ("ended by SIGKILL", f": hard RLIMIT_CPU, which sends it, is 2 s: {COMMAND}; 2.00 s of CPU "
         f"time were taken; {NOT_COUNTED}"),
    ),
    "a kill": (
        {"signal": signal.SIGKILL}, {"RLIMIT_FSIZE": 1}, "", [],
        ("ended by SIGKILL", f": {NOT_COUNTED}"),
    ),
    "a kill that the kernel's log has": (
        {"signal": signal.SIGKILL, "why": "for want"}, {"hard RLIMIT_CPU": 2}, "", [],
        ("ended by SIGKILL", f": for want; {NOT_COUNTED}"),
    ),
    "a kill of a shell's child": (
        {"status": 137}, {}, "", [],
        ("exit status 137, as a shell says it of what SIGKILL ended", f": {NOT_COUNTED}"),
    ),
    "a stack": (
        {"signal": signal.SIGSEGV, "why": STACK}, {"RLIMIT_STACK": 8 * MIB}, "", [],
        ("ended by SIGSEGV", f": {STACK}; {COMMAND}"),
    ),
    "a stack of memlab's limit": (
        {"signal": signal.SIGSEGV, "why": STACK}, {"RLIMIT_STACK": 3 * MIB}, "", [],
        ("ended by SIGSEGV", f": {STACK}; -p stack=6M is larger"),
    ),
    "a stack of a policy": (
        {"signal": signal.SIGSEGV, "why": STACK}, {"RLIMIT_STACK": 8 * MIB}, "",
        ["nice=3", f"stack={8 * MIB}"],
        ("ended by SIGSEGV", f": {STACK}; name a larger -p stack="),
    ),
    "a stack without a limit": (
        {"signal": signal.SIGSEGV, "why": STACK}, {}, "", [],
        ("ended by SIGSEGV", f": {STACK}"),
    ),
    "a fault": (
        {"signal": signal.SIGSEGV, "why": "null"}, {"RLIMIT_FSIZE": MIB, "RLIMIT_AS": MIB}, "", [],
        ("ended by SIGSEGV", ", under RLIMIT_AS of 1 MiB: null"),
    ),
    "a fault after a mapping that failed": (
        {"signal": signal.SIGSEGV, "why": fault_log.MAP_FAILED},
        {"RLIMIT_DATA": 1 << 30, "RLIMIT_NPROC": 5, "RLIMIT_FSIZE": 1}, "", [],
        ("ended by SIGSEGV",
         f": {fault_log.MAP_FAILED}; RLIMIT_DATA is 1 GiB: {COMMAND}; {STRACE}"),
    ),
    "a fault of a shell's child": (
        {"status": 139, "why": "if process 7 was"}, {}, "", [],
        ("exit status 139, as a shell says it of what SIGSEGV ended", ": if process 7 was"),
    ),
    "a page that was refused": (
        {"signal": signal.SIGBUS}, {"RLIMIT_AS": MIB}, "", [], ("ended by SIGBUS", ": full"),
    ),
    "a page of a shell's child": (
        {"status": 135}, {}, "", [],
        ("exit status 135, as a shell says it of what SIGBUS ended", ": full"),
    ),
    "a filter": (
        {"signal": signal.SIGSYS, "why": "a filter"}, {}, "", [],
        ("ended by SIGSYS", ": a filter"),
    ),
    "an abort": ({"signal": signal.SIGABRT}, {}, "Aborted", [], ("ended by SIGABRT", "")),
    "an abort after an allocation": (
        {"signal": signal.SIGABRT, "uses": {"RLIMIT_AS": 5 * MIB}}, {"RLIMIT_AS": 195 * MIB},
        "what(): std::bad_alloc", [],
        ("ended by SIGABRT", ": its output names ENOMEM; RLIMIT_AS is 195 MiB (5 MiB mapped when "
         f"it was last read): {COMMAND}; {STRACE}"),
    ),
    "an abort of a shell's child": (
        {"status": 134}, {}, "", [],
        ("exit status 134, as a shell says it of what SIGABRT ended", ""),
    ),
    "an order to end": (
        {"signal": signal.SIGTERM}, {"RLIMIT_FSIZE": 1, "RLIMIT_CPU": 1}, "", [],
        ("ended by SIGTERM", ""),
    ),
    "a status": ({"status": 3}, FILES | {"RLIMIT_STACK": 9}, "oh", [], ("exit status 3", "")),
    "a status under limits": (
        {"status": 1, "uses": {"RLIMIT_MEMLOCK": 4 * MIB}},
        {"RLIMIT_FSIZE": 4 * MIB, "RLIMIT_MEMLOCK": 8 * MIB, "RLIMIT_NPROC": 7}, "", [],
        ("exit status 1", ", under RLIMIT_MEMLOCK of 8 MiB (4 MiB locked when it was last read), "
         "RLIMIT_FSIZE of 4 MiB"),
    ),
    "a status above those of signals": ({"status": 255}, {}, "", [], ("exit status 255", "")),
    "no memory, of no limit": (
        {"status": 1}, FILES, "mmap: Cannot allocate memory", [],
        ("exit status 1", ": its output names ENOMEM; RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK do "
         f"not bound it; vm.max_map_count is 7 and vm.overcommit_memory is 7; {STRACE}"),
    ),
    "no memory, of limits that were not read": (
        {"status": 1}, {}, "MemoryError", [],
        ("exit status 1", ": its output names ENOMEM; its limits could not be read; "
         f"vm.max_map_count is 7 and vm.overcommit_memory is 7; {STRACE}"),
    ),
    "no locked memory": (
        {"status": 1}, {"RLIMIT_MEMLOCK": 8 * MIB, "RLIMIT_NPROC": 7},
        "mmap: Resource temporarily unavailable", [],
        ("exit status 1",
         f": its output names EAGAIN; RLIMIT_MEMLOCK is 8 MiB: {COMMAND}; {STRACE}"),
    ),
    "no process": (
        {"status": 1}, {"RLIMIT_MEMLOCK": 8 * MIB, "RLIMIT_NPROC": 7},
        "fork: Resource temporarily unavailable", [],
        ("exit status 1", ": its output names EAGAIN; RLIMIT_NPROC is 7: it counts all threads of "
         "the user, and memlab, to bound what the command starts, or the command set it; "
         f"{STRACE}"),
    ),
    "no process, of memlab's limit": (
        {"status": 1}, {"RLIMIT_MEMLOCK": 8 * MIB, "RLIMIT_NPROC": 3 * MIB},
        "EAGAIN of a new thread", [],
        ("exit status 1", ": its output names EAGAIN; RLIMIT_NPROC is 3,145,728: it counts all "
         f"threads of the user (ulimit -u, LimitNPROC=); {STRACE}"),
    ),
    "a call that the output does not name": (
        {"status": 1}, {"RLIMIT_MEMLOCK": 8 * MIB, "RLIMIT_NPROC": 3 * MIB}, "blocked: EAGAIN", [],
        ("exit status 1", ": its output names EAGAIN; RLIMIT_NPROC is 3,145,728: it counts all "
         "threads of the user (ulimit -u, LimitNPROC=); RLIMIT_MEMLOCK is 8 MiB: "
         f"{COMMAND}; {STRACE}"),
    ),
    "no memory, and no process": (
        {"status": 1}, {"RLIMIT_AS": MIB, "RLIMIT_NPROC": 3 * MIB}, "mmap: ENOMEM; fork: EAGAIN",
        [], ("exit status 1", f": its output names EAGAIN and ENOMEM; RLIMIT_NPROC is 3,145,728: "
             "it counts all threads of the user (ulimit -u, LimitNPROC=); RLIMIT_AS is 1 MiB: "
             f"{COMMAND}; {STRACE}"),
    ),
    "no memory, of an ordinary user": (
        {"status": 1}, FILES | {"RLIMIT_MEMLOCK": 8 * MIB}, "std::bad_alloc", [],
        ("exit status 1", f": its output names ENOMEM; RLIMIT_MEMLOCK is 8 MiB: {COMMAND}; "
         "RLIMIT_AS, RLIMIT_DATA do not bound it; vm.max_map_count is 7 and vm.overcommit_memory "
         f"is 7; {STRACE}"),
    ),
    "no descriptor": (
        {"status": 1}, FILES, "OSError: [Errno 24] Too many open files", [],
        ("exit status 1",
         f": its output names EMFILE; RLIMIT_NOFILE is 1,024: {COMMAND}; {STRACE}"),
    ),
    "no descriptor, of a policy": (
        {"status": 1}, FILES, "accept: EMFILE", ["nofile=1024"],
        ("exit status 1", ": its output names EMFILE; RLIMIT_NOFILE is 1,024: name a larger "
         f"-p nofile=; {STRACE}"),
    ),
    "a file too large": (
        {"status": 1}, {"RLIMIT_FSIZE": 64 * KIB}, "File too large", [],
        ("exit status 1", f": its output names EFBIG; RLIMIT_FSIZE is 64 KiB: {COMMAND}; {STRACE}"),
    ),
}  # fmt: skip
# As the words of each place: a trial, one with --for, a service before and under its load.
WHENS = ["", " within the 1 s of --for", " before it was ready", " under the load"]


@pytest.fixture(autouse=True)
def _of_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """memlab's own limits are 3 MiB, 3 Mi seconds and 3 Mi files."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (3 * MIB, resource.RLIM_INFINITY))
    monkeypatch.setattr(bus_error, "read", lambda: "full")
    monkeypatch.setattr(limit_words.files, "number", lambda _: 7)


def _report(ending: dict[str, Any], limits: dict[str, int]) -> dict[str, Any]:
    report = {"signal": 0, "status": 0, "why": "", "uses": {}, "limits": limits}
    return report | {"user_ns": 1_500_000_000, "system_ns": 500_000_000, **ending}


@pytest.mark.parametrize("death", DEATHS)
def test_each_death_says_what_was_read_and_what_to_do(death: str) -> None:
    ending, limits, printed, policies, (head, rest) = DEATHS[death]
    report = _report(ending, limits)
    for when in WHENS:
        said = how.how_it_ended(report, printed, when, policies)
        assert said == f"{head}{when}{rest}"
        assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "soft", "hard", "rights", "words"),
    [
        ("STACK", 1 << 30, -1, 0, "-p stack=2G is larger"),
        ("STACK", 8 * MIB + 4096, -1, 0, "-p stack=16392K is larger"),
        ("STACK", 8 * MIB, 8 * MIB, 0, "memlab was started with it (ulimit -s cannot"),
        ("NOFILE", 1024, 4096, 0, "-p nofile=2048 is larger"),
        ("NOFILE", 1024, 1500, 0, "-p nofile=1500 is larger"),
        ("NOFILE", 1024, 1024, 0, "memlab was started with it (ulimit -n, LimitNOFILE=)"),
        ("NOFILE", 1024, 1024, 1 << 24, "-p nofile=2048 is larger"),
        ("NOFILE", 0, 1024, 0, "memlab was started with it (ulimit -n, LimitNOFILE=)"),
    ],
)
def test_a_larger_limit_is_one_that_may_be_asked_for(
    name: str, soft: int, hard: int, rights: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(limit_words, "effective", lambda: rights)
    monkeypatch.setattr(privileges, "effective", lambda _: rights)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    advice = limit_words.remedy(f"RLIMIT_{name}", {f"RLIMIT_{name}": soft}, [])
    assert advice.startswith(words)
    if word := re.match("-p stack=(\\S+) ", advice):
        assert units.parse_size(word[1]) == 2 * soft


# Limits that a process is given, whatever it had.
LIMITED = """
import os, resource, sys
for kind, most in ((resource.RLIMIT_MEMLOCK, 4096), (resource.RLIMIT_NPROC, 1 << 20)):
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.needs("a user namespace")
def test_a_capability_of_another_user_namespace_lifts_no_limit() -> None:
    """As of root in a container that an ordinary user has started."""
    launch = [str(folders.compiled() / "launch/launch"), "report=1", "--", "true"]
    contained = ["unshare", "--user", "--map-root-user", *launch]
    words = [sys.executable, "-c", LIMITED, *contained]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    limits = json.loads(done.stdout.splitlines()[-1])["limits"]
    assert {"RLIMIT_MEMLOCK", "RLIMIT_NPROC"} <= limits.keys()


@pytest.mark.parametrize("death", DEATHS)
def test_a_shorter_time_is_a_remedy_only_of_what_ended_in_order(death: str) -> None:
    ending, limits, printed, policies, (head, rest) = DEATHS[death]
    group = SimpleNamespace(oom_kills=lambda: None, is_full=lambda: False)
    spec = {"for_s": 1, "policies": policies}
    ended = how.ended_early(spec, _report(ending, limits), printed, group)  # type: ignore[arg-type]
    said = f"; it said: {printed}" if printed else ""
    assert ended == {"outcome": "ended-early", "detail": f"{head}{WHENS[1]}{rest}{said}"}
    if not printed:
        in_order = how.ended_early(spec, _report({}, limits), "", group)  # type: ignore[arg-type]
        assert "name a shorter time, or leave it out" in in_order["detail"]


@pytest.mark.parametrize("refuses", [False, True])
def test_a_load_has_no_policies_and_a_refused_process_is_said(refuses: bool) -> None:
    group = SimpleNamespace(oom_kills=lambda: None, is_full=lambda: refuses)
    spec: dict[str, Any] = {
        "for_s": 0, "good_statuses": [0], "processes": 9, "policies": ["nofile=1024"], "serve": [],
    }  # fmt: skip
    report, printed = _report({"status": 1}, FILES), {"output": "EMFILE"}
    bounded = how.bounded(spec, group)  # type: ignore[arg-type]
    assert bounded == (", at the most processes allowed, 9" if refuses else "")
    ended = how.command_ended(spec, report, printed, None, bounded)["detail"]
    assert "name a larger -p nofile=" in ended
    assert ended.endswith(f"{STRACE}{bounded}; it said: EMFILE")
    load = how.command_ended(spec | {"serve": ["x"]}, report, printed, None, bounded)["detail"]
    assert COMMAND in load


def test_a_kill_is_not_taken_for_one_of_the_kernel() -> None:
    """A watchdog's looks the same; only the group counts those for want of memory."""
    for number in ({"signal": signal.SIGKILL}, {"status": 137}):
        said = how.how_it_ended(_report(number, {}), kills=0)
        assert said.endswith("the kernel killed nothing in its memory cgroup for want of memory")
    assert "want of memory" not in how.how_it_ended(_report({"status": 3}, {}), kills=0)


@pytest.mark.parametrize(
    ("peak_mib", "limit_mib", "limited", "words"),
    [
        (20, 20, True, "at 20.0 MiB; its limit is 20 MiB"),
        (18, 20, True, "at 18.0 MiB; its limit is 20 MiB"),
        (17, 20, True, "at 17.0 MiB; its limit is 20 MiB, so that memory of an outer group or of "
         "the machine ran out"),
        (20, 20, False, "at 20.0 MiB; its limit is 20 MiB by memlab, of the free memory: "
         "-p memory_max= names another"),
        (20, None, True, "at 20.0 MiB"),
        (None, 20, True, "at 3.0 MiB; its limit is 20 MiB"),
    ],
)  # fmt: skip
def test_a_kill_for_want_of_memory_has_the_limit_of_its_group(
    peak_mib: int | None, limit_mib: int | None, limited: bool, words: str
) -> None:
    limit = None if limit_mib is None else limit_mib * MIB
    group = SimpleNamespace(limit_bytes=lambda: limit, peak_with_swap=lambda: None)
    readings = {"group_peak_bytes": peak_mib and peak_mib * MIB, "rss_peak_bytes": 3 * MIB}
    ended = how.oom_killed({"limited": limited}, readings, group, "so")  # type: ignore[arg-type]
    said = f"the kernel's OOM killer ended it {words}; it said: so"
    assert ended == {"outcome": "oom-killed", "detail": said}


@pytest.mark.parametrize(
    ("swapped_mib", "most_mib", "words"),
    [
        (20, 20, "with swap, of which it had 20 MiB; it said: so"),
        (17, 20, "so that memory of an outer group or of the machine ran out; it said: so"),
        (20, 40, "so that memory of an outer group or of the machine ran out; it said: so"),
    ],
)
def test_a_limit_of_memory_with_swap_is_met_below_that_of_memory(
    swapped_mib: int, most_mib: int, words: str
) -> None:
    both = swapped_mib * MIB, most_mib * MIB
    group = SimpleNamespace(limit_bytes=lambda: 20 * MIB, peak_with_swap=lambda: both)
    readings = {"group_peak_bytes": 12 * MIB, "rss_peak_bytes": 3 * MIB}
    ended = how.oom_killed({"limited": True}, readings, group, "so")  # type: ignore[arg-type]
    assert ended["detail"].endswith(words)


def test_memory_with_swap_is_read_of_its_files(tmp_path: Path) -> None:
    from memlab.command.python_probes.command.group import TrialGroup

    (tmp_path / "0").mkdir()
    assert TrialGroup(str(tmp_path), "").peak_with_swap() is None
    for name, text in (("max_usage", "4096\n"), ("limit", "8192\n")):
        (tmp_path / "0" / f"memory.memsw.{name}_in_bytes").write_text(text)
    assert TrialGroup(str(tmp_path), "").peak_with_swap() == (4096, 8192)


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("memory.max", "4096\n", 4096),
        ("memory.max", "max\n", None),
        ("memory.limit_in_bytes", "8192\n", 8192),
        ("other", "1\n", None),
    ],
)
def test_the_limit_of_a_group_is_read_of_either_version(
    tmp_path: Path, name: str, text: str, limit: int | None
) -> None:
    from memlab.command.python_probes.command.group import TrialGroup

    (tmp_path / "0").mkdir()
    (tmp_path / "0" / name).write_text(text)
    assert TrialGroup(str(tmp_path), "").limit_bytes() == limit
    assert TrialGroup("", "").limit_bytes() is None


FILTERED = (
    "5,8,8,-;audit: type=1326 audit(1796040906.475:84): auid=4294967295 uid=0 gid=0 ses=1 pid={} "
    'comm="x" exe="/x" sig=31 arch={} syscall=110 compat=0 ip=0x7f code=0x80000000'
)


@pytest.mark.parametrize(
    ("arch", "seccomp", "words"),
    [
        (fault_log._I386, "0", "refused getpgrp: allow it in the filter that the command sets"),
        (fault_log._I386, "2", "allow it in the filter that the command or this container sets"),
        ("c00000ff", "0", "a seccomp filter refused system call 110: "),
        (fault_log._ARCHES.get(os.uname().machine, "c00000ff"), "0", "a seccomp filter refused "),
    ],
)
def test_the_call_that_a_filter_refused_is_in_the_kernels_log(
    arch: str, seccomp: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if arch == fault_log._I386:  # whose names are listed only on x86-64
        monkeypatch.setattr(fault_log.system_calls, "name", lambda *_, is_narrow: "getpgrp")
    lines = [FILTERED.format(7, arch), "5,8,9,-;other"]
    monkeypatch.setattr(FaultLog, "_lines", lambda _: lines)
    monkeypatch.setattr(fault_log.proc, "status", lambda root: {"Seccomp": seccomp})
    log = FaultLog()
    assert words in log.why(7, signal.SIGSYS, ())
    assert "of process 7, if that was started by it: allow" in log.why_child(signal.SIGSYS, ())
    unread = (
        "a seccomp filter sends it, or a process by kill(2): who did, and which call was refused"
    )
    assert log.why(8, signal.SIGSYS, ()).startswith(f"{unread}, was not read: ")
    lines.clear()
    assert log.why_child(signal.SIGSYS, ()).startswith(f"{unread}, was not read: ")
    log.close()


@pytest.mark.parametrize("faults", [0, 1, 2])
def test_a_fault_of_a_shells_child_is_named_if_it_is_the_only_one(
    faults: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"6,8,8,-;dies[{n}]: segfault at 8 ip 1 sp 1 error 6" for n in range(7, 7 + faults)]
    monkeypatch.setattr(fault_log.proc, "ROOT", tmp_path)
    monkeypatch.setattr(FaultLog, "_lines", lambda _: lines)
    log = FaultLog()
    said = log.why_child(signal.SIGSEGV, ())
    named = "if process 7 (dies), which has ended too, was started by it, it writes to address 0x8"
    assert said.startswith(named if faults == 1 else "which address it touched was not read: ")
    lines[:] = ["4,1,1,-;traps: dies[7] general protection fault ip:1 sp:7ffc error:0"][:faults]
    if faults == 1:
        named = "if process 7 (dies), which has ended too, was started by it, it used an address "
        assert log.why_child(signal.SIGSEGV, ()).startswith(named)
        lines.append("6,8,8,-;dies[9]: segfault at 8 ip 1 sp 1 error 6")
        assert log.why_child(signal.SIGSEGV, ()).startswith("which address it touched was not read")
        lines.pop()
    for number in (signal.SIGKILL, signal.SIGABRT, 0, -128):
        assert log.why_child(number, ()) == ""
    (tmp_path / "proc/7").mkdir(parents=True)
    assert "was not read: " in log.why_child(signal.SIGSEGV, ()), "it lives"
    log.close()


def test_what_a_program_prints_is_of_an_errno_by_its_name_and_its_text() -> None:
    for number in how._REFUSE:
        for text in (errno.errorcode[number], os.strerror(number)):
            assert how._is_printed(number, f"oh: {text}")
        assert not how._is_printed(number, "Java heap space")


def test_the_memory_that_a_process_has_is_read_beside_its_limits() -> None:
    """As of a JVM, which says only that it could not reserve enough."""
    memory = sampler.Sampler(InForce(), lambda: False)
    memory.read(os.getpid(), 0.0)
    assert memory.uses["RLIMIT_AS"] > memory.uses["RLIMIT_DATA"] > 0
