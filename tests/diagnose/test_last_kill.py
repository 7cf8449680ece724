"""Kills explained from any log: the kernel's sentences since 2.6.9, in every form of paste."""

from __future__ import annotations

import dataclasses
import json
import struct
import tomllib
from pathlib import Path

import msgspec
import pytest
from command import memlab

from memlab.diagnose.kernel_log import answer, forms, reports, source, versions
from memlab.diagnose.kernel_log.documents import LastKill
from memlab.errors import BadRequest, CannotLook

LOGS = Path(__file__).parent / "kernel_logs"
ANSWERS = tomllib.loads((LOGS / "answers.toml").read_text(encoding="utf-8"))
NAMES = [name for name in ANSWERS if name != "team"]
TEXTS = {name: (LOGS / f"{name}.txt").read_bytes() for name in NAMES}
V1 = """\
[  41.1] worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[  41.2] memory: usage 65536kB, limit 65536kB, failcnt 77
[  41.2] Memory cgroup stats for /job:
[  41.2] total_cache 50331648
[  41.2] total_shmem 48234496
[  41.3] Tasks state (memory values in pages):
[  41.3] [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes \
swapents oom_score_adj name
[  41.3] [    700]     0   700     8007     3619     3389      230         0    77824        0  \
        0 big [x] 1
[  41.3] [    701]     0   701     3975     1603     1373      230         0    61440       64  \
      500 worker
[  41.4] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
oom_memcg=/job,task_memcg=/job,task=worker,pid=701,uid=0
[  41.5] Memory cgroup out of memory: Killed process 701 (worker) total-vm:15900kB, \
anon-rss:5492kB, file-rss:920kB, shmem-rss:0kB, UID:0 pgtables:76kB oom_score_adj:500
"""
BARE = [line.partition("] ")[2] for line in V1.splitlines()]


def read(content: bytes | str) -> reports.Log:
    return reports.read(forms.lines_of(content.encode() if isinstance(content, str) else content))


def printed(content: bytes | str) -> str:
    return "\n".join(answer.lines(read(content))) + "\n"


def kill(content: bytes | str) -> answer.Kill:
    last, _, _ = answer.last(read(content))
    assert last is not None
    return last


@pytest.mark.parametrize("name", NAMES)
def test_a_log_that_people_pasted(name: str) -> None:
    right, text = ANSWERS[name], printed(TEXTS[name])
    last, _, _ = answer.last(read(TEXTS[name]))
    assert (last.cause if last else None) == right.get("cause")
    if last is not None:
        assert last.ended == right.get("ended", "killed")
        assert (last.killed[0].pid if last.killed else None) == right.get("killed")
        assert "page" not in right or last.page_bytes == right["page"]
    assert [part for part in right["says"] if part not in text] == []
    assert [part for part in right.get("never", []) if part in text] == []
    assert text.count("\n") <= 24, "it is longer than one screen"
    msgspec.json.encode(LastKill.made_of(read(TEXTS[name])))


def test_every_log_has_an_answer_and_every_change_of_the_kernels_a_log() -> None:
    assert sorted(path.stem for path in LOGS.glob("*.txt")) == sorted(NAMES)
    text = b"".join(TEXTS.values()).decode() + V1
    assert [change for change in versions.CHANGES if change.example not in text] == []


def test_who_was_chosen_and_why_and_what_was_left() -> None:
    last = kill(V1)
    assert (last.killed[0].pid, last.killed[0].name, last.requester) == (701, "worker", "worker")
    assert (last.group, last.used_bytes, last.limit_bytes) == ("/job", 64 << 20, 64 << 20)
    assert (last.counter, last.reached, last.page_bytes) == ("memory", 77, 4096)
    assert [(task.pid, task.name) for task in last.processes] == [
        (700, "big [x] 1"),
        (701, "worker"),
    ]
    assert last.processes[0].resident_bytes == 3619 * 4096
    text = printed(V1)
    assert "it was the limit of the group /job: 64 MiB of 64 MiB, met 77 times" in text
    assert "chosen by its oom_score_adj of 500: 700 (big [x] 1) holds more" in text
    assert "could still be dropped: 2 MiB of page cache" in text
    assert "46 MiB were tmpfs or shared memory, which a kill does not free" in text


def _journal(line: str, **fields: object) -> str:
    return json.dumps({"MESSAGE": line, "SYSLOG_IDENTIFIER": "kernel", **fields})


PREFIXES = {
    "dmesg": "[  581.376828] {}",
    "dmesg -T": "[Thu Apr  1 16:45:10 2021] {}",
    "dmesg -T, another language": "[四 4月  1 16:45:10 2021] {}",
    "dmesg -x": "kern  :info  : [  581.376828] {}",
    "dmesg -r": "<6>[  581.376828] {}",
    "dmesg --time-format iso": "2026-10-02T14:14:07,376000+00:00 {}",
    "dmesg -d": "[  581.376828 <    0.000012>] {}",
    "dmesg -e": "[  +0.000003] {}",
    "dmesg --color": "\x1b[32m[  581.376828] \x1b[0m{}",
    "caller id": "[  581.376828][ T1234] {}",
    "caller id of a CPU": "[  581.376828] [   C12] {}",
    "kmsg": "6,1234,581376828,-;{}",
    "kmsg, caller": "6,1234,581376828,-,caller=T12;{}",
    "journalctl -k": "Oct 02 14:14:07 host kernel: {}",
    "journalctl -o short-monotonic": "[  581.376828] host kernel: {}",
    "journalctl -o short-full": "Thu 2026-10-02 14:14:07 CEST host kernel: {}",
    "journalctl -o short-precise": "Oct 02 14:14:07.376828 host kernel: {}",
    "journalctl -o short-unix": "1790950447.376828 host kernel: {}",
    "journalctl -o short-iso": "2026-10-02T14:14:07+0200 host kernel: {}",
    "journalctl -o verbose": "    MESSAGE={}",
    "syslog": "Oct  2 14:14:07 host kernel: [  581.376828] {}",
    "rsyslog of 2023": "2026-10-02T14:14:07.376828+02:00 host kernel: [  581.376828] {}",
    "indented": "    [  581.376828] {}",
    "quoted twice": "> > [  581.376828] {}",
    "HTML": "&gt; [  581.376828] {}",
    "a table of Markdown": "| [  581.376828] {}",
    "crlf": "[  581.376828] {}\r",
    "containerd": "2026-10-02T14:14:07.376828123Z stdout F [  581.376828] {}",
    "docker compose": "node-1  | [  581.376828] {}",
    "talos": " kern:    info: [2026-10-02T14:14:07.376828123Z]: {}",
    "grep": "/var/log/messages:Oct  2 14:14:07 host kernel: {}",
    "RFC 5424": "<4>1 2026-10-02T14:14:07.376828+02:00 host kernel - - - [  581.376828] {}",
    "OpenWrt": "Fri Oct  2 14:14:07 2026 kern.warn kernel: [  581.376828] {}",
    "logcat": "10-02 14:14:07.376     0     0 W kernel  : {}",
    "logcat, brief": "W/kernel  (    0): {}",
    "serial console": "host login: [  581.376828] {}",
    "netconsole": "6.12.0-rc1+,4,1234,581376828,-,ncfrag=0/200;{}",
    "a list of strings": '        "[Fri Oct  2 14:14:07 2026] {}",',
    "CSV": '"2026-10-02T14:14:07.376+0000","[  581.376828] {}"',
    "logfmt": 'time="2026-10-02T14:14:07Z" level=warn msg="{}" host=n1',
    "JSON behind a stamp": '2026-10-02 14:14:07.376 +0000 kernel: {{"host": "n", "message": "{}"}}',
    "nothing that is known": "%%WORKER-7-KMSG 0x41; {}",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_report_behind_any_prefix(prefix: str) -> None:
    lines = [prefix.format(line) for line in BARE]
    assert _same("\n".join(["noise", *lines, "```"])) == _same("\n".join(BARE))


def _same(content: bytes | str) -> answer.Kill:
    return dataclasses.replace(kill(content), at="")


def test_a_report_as_the_journal_exports_it() -> None:
    right, records = _same("\n".join(BARE)), [*BARE[:2], "\n".join(BARE[2:5]), *BARE[5:]]
    stamp = {"__MONOTONIC_TIMESTAMP": "581376828", "_TRANSPORT": "kernel"}
    lines = [_journal(line, **stamp) for line in records]
    assert _same("\n".join(lines)) == right
    assert kill("\n".join(lines)).at == "581.376828"
    assert _same("[" + ",\n".join(lines) + "]") == right
    assert _same("\n".join(f"\x1e{line}" for line in lines)) == right
    assert _same("\n".join(_journal(list(line.encode())) for line in records)) == right  # type: ignore[arg-type]
    pretty = "\n".join(json.dumps(json.loads(line), indent=1) for line in lines)
    assert _same(pretty) == right
    docker = [json.dumps({"log": f"{line}\n", "stream": "stdout"}) for line in BARE]
    assert _same("\n".join(docker)) == right
    cloud = [
        json.dumps({"jsonPayload": {"MESSAGE": line}, "timestamp": "2026-10-02T14:14:07Z"})
        for line in BARE
    ]
    assert _same("\n".join(cloud)) == right
    export = b"".join(
        b"__CURSOR=s=1\n__MONOTONIC_TIMESTAMP=581376828\nMESSAGE\n"
        + struct.pack("<Q", len(record.encode()))
        + record.encode()
        + b"\n_TRANSPORT=kernel\n\n"
        for record in records
    )
    assert _same(export) == right


def _report(group: str, name: str, pid: int, kib: int) -> list[str]:
    lines = "\n".join(BARE).replace("65536", str(kib)).replace("/job", group)
    return lines.replace("701", str(pid)).replace("worker", name).split("\n")


JOB, WEB = _report("/job", "worker", 701, 65536), _report("/web", "nginx", 902, 131072)
STAMPS = {
    "syslog": "Oct  {} 14:14:{:02} host kernel: {}",
    "ISO": "2026-10-0{}T14:14:{:02}+02:00 host kernel: {}",
    "dmesg -T": "[Thu Oct  {} 14:14:{:02} 2026] {}",
}


@pytest.mark.parametrize("stamp", STAMPS.values(), ids=STAMPS)
def test_the_newer_file_may_come_first(stamp: str) -> None:
    """`cat kern.log kern.log.1`: what was killed last stands in the first of them."""
    older = [stamp.format(2, i, line) for i, line in enumerate(JOB)]
    newer = [stamp.format(9, i, line) for i, line in enumerate(WEB)]
    for order in (older + newer, newer + older):
        last, _, earlier = answer.last(read("\n".join(order)))
        assert last is not None
        assert (last.group, last.killed[0].pid, earlier) == ("/web", 902, 1)


ORDERS = {
    "a new year": ("Dec 31 23:00:0{}", "Jan  1 00:10:0{}"),
    "a new year after months": ("Aug  1 23:00:0{}", "Mar  1 00:10:0{}"),
    "the hour of a new zone": ("2026-10-25T02:50:0{}+02:00", "2026-10-25T02:10:0{}+01:00"),
    "the hour of a zone with a name": ("2026-10-25 02:50:0{} CEST", "2026-10-25 02:10:0{} CET"),
    "the hour of no zone": ("2026-10-25 02:50:0{}", "2026-10-25 02:10:0{}"),
}


@pytest.mark.parametrize(("before", "after"), ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("count", [1, 5])
def test_a_log_is_turned_only_if_its_stamps_are_certain(
    before: str, after: str, count: int
) -> None:
    lines = [f"{before.format(i)} h kernel: {JOB[-1]}" for i in range(count)]
    lines += [f"{after.format(i)} h kernel: {WEB[-1]}" for i in range(count)]
    assert kill("\n".join(lines)).killed[0].pid == 902


def test_three_days_are_in_order_whatever_their_names() -> None:
    """The names of these days are in reverse alphabetical order."""
    days = [
        *(f"[Wed Oct  7 10:00:00 2026] {line}" for line in JOB),
        *(f"[Thu Oct  8 10:00:00 2026] {line}" for line in WEB),
        "[Fri Oct  9 10:00:00 2026] usb 1-1: new device",
    ]
    assert kill("\n".join(days)).group == "/web"
    boots = [*(f"[ 9000.{i:02}] {x}" for i, x in enumerate(JOB)), *(f"[ 1.0] {x}" for x in WEB)]
    assert kill("\n".join(boots)).group == "/web"


def test_two_consoles_write_each_line_twice() -> None:
    lines = [
        copy
        for number, line in enumerate(BARE)
        for copy in (
            f"Oct  2 14:14:07 host kernel: [ 9.{number:02}] {line}",
            f"[ 9.{number:02}] {line}",
        )
    ]
    assert _same("\n".join(lines)) == _same("\n".join(BARE))


@pytest.mark.parametrize(
    "prefixes",
    [("Oct  2 14:14:07 n1 kernel: ", "Oct  2 14:14:07 n2 kernel: "),
     ("[ 9.5][ T1] ", "[ 9.5][ T2] ")],
    ids=["hosts", "callers"],
)  # fmt: skip
def test_lines_of_two_reports_are_told_apart(prefixes: tuple[str, str]) -> None:
    lines = [
        prefix + line
        for pair in zip(JOB, WEB, strict=True)
        for prefix, line in zip(prefixes, pair, strict=True)
    ]
    last, _, earlier = answer.last(read("\n".join(lines)))
    assert last is not None
    assert dataclasses.replace(last, at="") == _same("\n".join(WEB))
    assert earlier == 1


def test_lines_of_two_reports_that_cannot_be_told_apart_belong_to_none() -> None:
    mixed = [line for pair in zip(JOB, WEB, strict=True) for line in pair]
    for lines in (mixed, [*mixed[:2], *mixed[3:5], mixed[2], *mixed[5:]]):
        for report in read("\n".join(lines)).reports:
            found = answer.kill_of(report)
            assert (found.used_bytes, found.processes) == (None, ())
            groups = {701: "/job", 902: "/web"}
            assert [groups[victim.pid or 0] for victim in found.killed] in ([], [found.group])


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("host kernel: [1.2K blob data]", "1 line is not shown in this log (blob data)"),
        ("host systemd-journald[9]: Missed 57 kernel messages", "missing in this log: Missed 57"),
        ("** 57 printk messages dropped **", "missing in this log: 57 printk messages dropped"),
    ],
)
def test_a_log_with_holes_says_so(line: str, answers: str) -> None:
    text = printed(f"Oct 2 14:14:07 {line}\n")
    assert "no kill for want of memory in this log" in text
    assert answers in text
    assert "overwritten" not in text
    assert answers in printed(f"{V1}\nOct 2 14:14:07 {line}\n")


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        (
            "I/lowmemorykiller(  512): Kill 'com.example' (4321), uid 10123, oom_score_adj 905 to "
            "free 123456kB rss, 4567kB swap; reason: low watermark is breached",
            "by Android's lmkd, not by the kernel: process 4321 (com.example), 121 MiB",
        ),
        (
            'I1002 14:14:07 1 eviction_manager.go:595] "Eviction manager: pod is evicted '
            'successfully" pod="default/web"',
            "by kubelet (eviction), not by the kernel: default/web",
        ),
        (
            '21:03:39 Triggered by PID 3297 ("ntpd"), OOM kill of PID 22516 ("perl"), 385 pages',
            "oomkill (BPF) reports a kill, but the kernel's own report is not in this log",
        ),
    ],
    ids=["lmkd", "kubelet", "BPF"],
)  # fmt: skip
def test_what_programs_print_of_kills(line: str, answers: str) -> None:
    assert answers in printed(line)


def test_a_pager_cuts_lines() -> None:
    last = kill("\n".join(f"Oct 02 14:14:07 host kernel: {line}"[:110] + ">" for line in BARE))
    assert (last.group, last.killed[0].name, last.used_bytes) == ("/job", "worker", 64 << 20)


def test_a_report_newest_first_twice_escaped_and_in_sixteen_bits() -> None:
    right = _same("\n".join(BARE))
    stamped = [f"[  581.{number:06}] {line}" for number, line in enumerate(BARE)]
    text = "\n".join(stamped)
    assert _same("\n".join(reversed(stamped))) == right
    assert _same(text.encode("utf-16")) == right
    assert _same(text.replace(" ", "\u00a0")) == right, "as a browser copies"
    assert _same("6,1,1,-;" + "\\x0a".join(BARE)) == right
    assert _same("#012".join(stamped)) == right
    log = read(f"{text}\n{text}\n")
    assert answer.last(log)[2] == 0, "the second copy is the same kill"


@pytest.mark.parametrize("name", [n for n in NAMES if ANSWERS[n].get("cause") in ("group", "node")])
def test_a_cut_report_never_becomes_the_whole_machines(name: str) -> None:
    """Whatever part of the log was pasted, and wherever the last line ends."""
    text = TEXTS[name].decode()
    lines = text.splitlines()
    parts = [lines[:end] for end in range(len(lines) + 1)]
    parts += [lines[begin:] for begin in range(len(lines))]
    long = max(lines, key=lambda line: ("oom-kill:" in line, len(line)))
    parts += [[long[:end]] for end in range(0, len(long), 3)]
    for part in parts:
        last, _, _ = answer.last(read("\n".join(part)))
        assert last is None or last.cause in ("group", "node", "unknown"), part[-1:]


def test_hostile_names() -> None:
    """A process names itself with 15 bytes; a group has any path."""
    for name in (",task=x,pid=1", "a) total-vm:1kB", "(x) score 9", "] oom-kill:c=1", "a,uid=0"):
        line = BARE[-2].replace("task=worker", f"task={name}")
        assert kill(f"x\n{line}").killed[0].pid == 701
        assert kill(f"x\n{line}").killed[0].name == name
        line = BARE[-1].replace("(worker)", f"({name})")
        assert (kill(line).killed[0].pid, kill(line).killed[0].name) == (701, name)
        assert kill(line).killed[0].anonymous_bytes == 5492 << 10
    for group in ("/a,task_memcg=/b", "/a,global_oom", "/ killed as a result of limit of /x"):
        line = BARE[-2].replace("/job", group)
        last = kill(line)
        assert (last.cause, last.killed[0].pid) == ("group", 701)
    assert kill(BARE[-2].replace("/job", "/a,task_memcg=/b")).group == "/a,task_memcg=/b"


def test_what_alone_is_a_kill() -> None:
    reaper = "[ 9.5] oom_reaper: reaped process 12 (a (b)), now anon-rss:0kB, file-rss:0kB"
    assert (kill(reaper).killed[0].pid, kill(reaper).killed[0].name) == (12, "a (b)")
    assert kill(reaper).cause == "unknown"
    assert kill(BARE[-2]).killed[0].pid == 701
    assert read("oom-kill:\n[\nKilled process x (y)\n\x1b]0;x\x07").reports == []


@pytest.mark.parametrize("before", ["", "total-vm:8000000kB, ", "vsz:8000000kB, "])
def test_of_a_line_with_one_kind_of_memory_that_kind_is_said(before: str) -> None:
    line = f"Out of memory: Killed process 4711 (java) {before}anon-rss:4194304kB"
    said = printed(f"[  100.000000] {line}")
    assert "process 4711 (java): 4 GiB anonymous" in said
    assert "resident" not in said
    assert "the whole size of what was killed" in said


def test_by_hand_nothing_is_said_to_be_short() -> None:
    begin = "[  910.1] sysrq: Manual OOM execution\n"
    panic = "Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled"
    text = printed(f"{begin}[  910.2] {panic}\n")
    assert text.startswith("the kernel panicked at 910 s after boot: Out of memory: compulsory")
    assert "it was requested by hand (SysRq f)" in text
    ignored = "[  910.3] sysrq: OOM request ignored. No task eligible\n"
    text = printed(f"{begin}{ignored}")
    assert text.startswith("nothing was killed at 910 s after boot: no process could be killed\n")
    assert "it was requested by hand (SysRq f)" in text
    request = "[  910.2] kworker/0:1 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=-1\n"
    nobody = "[  910.2] Out of memory and no killable processes...\n"
    assert len(read(f"{begin}{request}{nobody}{ignored}").reports) == 1
    after = read(f"{V1}{ignored}").reports  # of a request whose beginning is left out
    assert [bool(report.victims) for report in after] == [True, False]


def test_memory_that_the_reaper_could_not_take_is_said() -> None:
    stuck = "the kernel could not take its memory (oom_reaper)"
    line = "[  41.6] oom_reaper: unable to reap pid:701 (worker)\n"
    assert stuck in printed(line)
    assert stuck in printed(f"{V1}{line}")
    other = line.replace("unable to reap pid:701 (worker)", "reaped process 701 (worker), now")
    assert stuck not in printed(f"{V1}{other}")
    assert stuck not in printed(f"{V1}{line.replace('701', '999')}")


@pytest.mark.parametrize(
    "words",
    [
        "vmalloc: allocation failure, allocated 12288 of 20480 bytes, mode:0x15080c0",
        "vmalloc error: size 20480, page order 0, failed to allocate pages, mode:0x15080c0",
    ],
)
def test_the_memory_of_a_refused_request_is_not_that_of_the_next_kill(words: str) -> None:
    lines = [
        f"python3: {words}", "Mem-Info:", "Node 0 DMA32 free:240048kB min:5596kB high:9588kB",
        "524154 pages RAM", "Out of memory: Killed process 2944 (dockerd) total-vm:700000kB",
    ]  # fmt: skip
    text = printed("".join(f"[  152.{number}] {line}\n" for number, line in enumerate(lines)))
    assert "is not in this log" in text
    assert "not in this log: the size of what was killed; the machine's free memory" in text


def test_what_is_of_two_groups_is_not_summed() -> None:
    """Lines of several reports, as grep leaves them."""
    counter = "memory: usage 262144kB, limit 262144kB, failcnt {}"
    counters = [counter.format(7), counter.format(9)]
    numbers = [f"Memory cgroup stats for /{name}: cache:64KB rss:249452KB" for name in "abc"]
    lines = [numbers[0], *counters, numbers[1]]
    text = "".join(f"[  15.{place}] {line}\n" for place, line in enumerate(lines))
    last = kill(text)
    assert (last.group, last.reached, last.statistics["rss"]) == ("/b", 9, 249452 << 10)
    limits = [f"Task in /{name} killed as a result of limit of /{name}" for name in "ab"]
    lines = [limits[0], counters[0], limits[1], counters[1]]
    text = "".join(f"[  15.{place}] {line}\n" for place, line in enumerate(lines))
    said = [(report.group, report.counters["memory"].failures) for report in read(text).reports]
    assert said == [("/a", 7), ("/b", 9)]
    text = "".join(f"[  15.{place}] {line}\n" for place, line in enumerate(numbers))
    assert [report.group for report in read(text).reports] == ["/a", "/b", "/c"]
    below = f"{numbers[0]}\n{numbers[0].replace('/a:', '/a/b:')}\n"
    assert kill(below).statistics["rss"] == 2 * 249452 << 10  # a line for each group below


def test_memory_with_swap_is_at_a_limit_of_its_own() -> None:
    words = "; memory+swap too: 128 MiB of 128 MiB"
    for limit, is_said in ((131072, True), (65536, False), (262144, False)):
        usage = min(limit, 131072)
        line = f"[  41.2] memory+swap: usage {usage}kB, limit {limit}kB, failcnt 12\n"
        head, mark, rest = V1.partition("[  41.2] Memory cgroup stats")
        assert (words in printed(f"{head}{line}{mark}{rest}")) == is_said


def test_a_zone_that_is_kept_from_a_request_has_no_block_for_it() -> None:
    text = """\
[  5.1] Xorg invoked oom-killer: gfp_mask=0x240c0d0(GFP_TEMPORARY|__GFP_COMP), order=3
[  5.1] Mem-Info:
[  5.1] DMA free:15236kB min:32kB low:44kB high:56kB present:15984kB managed:15904kB
[  5.1] lowmem_reserve[]: 0 3802 3802 3802
[  5.1] DMA32 free:152100kB min:8188kB low:12080kB high:15972kB managed:3893364kB
[  5.1] lowmem_reserve[]: 0 0 0 0
[  5.1] DMA: 1*4kB (U) 1*64kB (U) 2*128kB (U) 1*256kB (U) 1*2048kB (U) 3*4096kB (M) = 15236kB
[  5.1] DMA32: 29011*4kB (UMEH) 4507*8kB (UME) 0*16kB 0*32kB 0*64kB = 152100kB
[  5.1] Killed process 7916 (Xorg) total-vm:397288kB, anon-rss:63012kB, file-rss:20104kB
"""
    assert kill(text).cause == "fragmentation"
    assert "149 MiB were free in smaller blocks" in printed(text)
    open_to_it = text.replace("0 3802 3802 3802", "0 0 0 0")
    assert kill(open_to_it).cause == "unknown"


def test_what_a_number_that_is_cut_leaves_out_is_not_blamed() -> None:
    """Two texts that a serial console wrote over one another."""
    text = """\
[  5.1] Mem-Info:
[  5.1] active_anon:110 inactive_anon:{}
[  5.1] free:1200 free_pcp:0
[  5.1] DMA32 free:4800kB min:4300kB low:5376kB high:6452kB managed:960000kB
[  5.1] 262108 pages RAM
[  5.1] Out of memory: Killed process 812 (a) total-vm:1000000kB, anon-rss:875600kB
"""
    whole, cut = printed(text.format(221000)), printed(text.format("22\ufffd1000"))
    assert "of 1 GiB: " in whole
    assert "no counter of the report has pipes" in whole
    assert "read in part: 4.69 MiB free" in cut
    assert "no counter" not in cut
    for end in ("^M", "#015", "\\r", "<br>", " |", "|"):
        assert "of 1 GiB: " in printed(text.format(f"221000{end}"))


def test_a_group_that_a_program_kills_is_none_of_its_processes() -> None:
    oomd = (
        "Apr 12 20:40:03 host oomd[1]: [KillMemoryGrowth-inl.h:112] "
        'Picked "a.slice/b.scope" (5210MB) based on size > 50% of total 7345MB\n'
        "Apr 12 20:40:03 host oomd[1]: [BaseKillPlugin.cpp:175] Killed 23: 1532(fish) 1601(a)\n"
    )
    assert (kill(oomd).killed[0].pid, kill(oomd).killed[0].name) == (None, "a.slice/b.scope")
    assert "it killed 23 processes of it" in printed(oomd)
    count = "systemd[1]: b.scope: systemd-oomd killed 2104 process(es) in this unit.\n"
    assert "it killed 2,104 processes of it" in printed(f"Sep 02 13:07:24 host {count}")


def test_huge_pages_of_a_group_have_a_line() -> None:
    """Where a group is charged for them (memory_hugetlb_accounting)."""
    text = V1.replace("total_cache 50331648", "anon 16777216")
    text = text.replace("total_shmem 48234496", "hugetlb 50331648")
    (huge, *_) = kill(text).holdings
    assert (huge.name, huge.bytes) == ("huge pages", 48 << 20)
    assert "48 MiB huge pages" in printed(text)


def test_a_kill_that_a_program_tells_of_without_the_kernels_report() -> None:
    end = "A process of this unit has been killed by the OOM killer."
    text = printed(f"Oct 2 14:14:07 host systemd[1]: a.service: {end}")
    assert text.startswith("a kill is reported, but not by the kernel: 1 line was read")
    assert "systemd reports a kill, but the kernel's own report is not in" in text


def test_a_log_without_a_kill_says_what_was_read() -> None:
    text = printed("[    1.5] usb 1-1: new device\n[   99.5] usb 1-1: gone\n")
    assert "in this log: 2 lines were read, from 1.5 to 99.5" in text
    assert "in this log: 1 line was read" in printed("[    1.5] usb 1-1: new device")
    assert printed("") == "the log is empty: nothing can be said of a kill\n"


def test_a_file_that_is_none(tmp_path: Path) -> None:
    log = tmp_path / "kernel.txt"
    log.write_text(V1)
    assert len(source.read(log).reports) == 1
    with pytest.raises(CannotLook, match="no regular file"):
        source.read(tmp_path)


DIGITS = "9" * 5000  # more than int() reads (sys.set_int_max_str_digits)
KILL = BARE[-1]


@pytest.mark.parametrize(
    "log",
    [
        KILL.replace("anon-rss:5492", f"anon-rss:{DIGITS}"),
        KILL.replace("anon-rss:5492", f"anon-rss:1{'0' * 400}"),
        KILL.replace("process 701", f"process {DIGITS}"),
        KILL.replace("adj:500", f"adj:-{DIGITS}"),
        f"[  1.2.3] {KILL}",
        f"[  ...] {KILL}",
        f"[{DIGITS}.0] {KILL}",
        V1.replace("usage 65536", f"usage {DIGITS}"),
        V1.replace("   3619 ", f" {DIGITS} "),
        V1.replace("[    700]", f"[{DIGITS}]"),
        "Killed process 1 (" * 200_000,
        "oom-kill:constraint=X," + "task=" * 200_000,
        "{" * 100_000 + '{"MESSAGE":' * 20_000,
        '{"MESSAGE": [1, 2, 999, "x"], "message": {"a": 1}}',
        "__CURSOR=x\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
    ids=range(15),
)
def test_a_log_with_numbers_that_no_kernel_prints_is_read(log: str) -> None:
    """It may come from anybody; a line that is none of the kernel's is passed over."""
    content = f"{log}\n\n{KILL}\n"
    assert "701" in printed(content)
    assert b"701" in msgspec.json.encode(LastKill.made_of(read(content)))


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "kernel.txt"
    path.write_text(V1)
    assert "process 701 (worker)" in memlab("diagnose", f"--last-kill={path}").stdout
    printed = json.loads(memlab("diagnose", f"--last-kill={path}", "--json").stdout)
    assert printed["last"]["killed"][0]["pid"] == 701


def test_what_looks_like_the_line_of_a_kill_that_is_left_out() -> None:
    """A reaper's line names the victim only if the table of that report has it."""
    left_out = "\n".join(line for line in V1.splitlines() if "illed process" not in line)
    left_out = left_out.replace(",task=worker,pid=701,uid=0", "")
    reaped = "[  41.6] oom_reaper: reaped process {} (worker), now anon-rss:0kB\n"
    assert [one.pid for one in kill(f"{left_out}\n{reaped.format(701)}").killed] == [701]
    other = printed(f"{V1}{reaped.format(999)}")
    assert "process 701 (worker)" in other
    assert "also killed, without a report in this log: worker" in other


def test_a_request_long_before_a_kill_is_of_another_report() -> None:
    request, *rest = V1.splitlines()
    late = "\n".join([request, *(line.replace("[  41", "[ 900") for line in rest)])
    assert "requested the memory" in printed(V1)
    assert "requested the memory" not in printed(late)


def test_a_kill_that_is_quoted_above_its_report_is_one_kill() -> None:
    last = V1.splitlines()[-1]
    assert printed(f">{last}\n{V1}") == printed(V1)
    assert "earlier" not in printed(f"{V1}{V1}")
    other = last.replace("701", "702")
    assert "1 earlier kill" in printed(f">{other}\n{V1}")


def test_a_line_that_is_folded_before_the_number_of_the_process() -> None:
    folded = V1.replace("Killed process 701", "Killed process\n  701")
    assert kill(folded).killed == kill(V1).killed
    words = "[  41.5] supervisor: Killed process\n  701 workers are left\n"
    assert answer.last(read(words))[0] is None


def test_a_watermark_that_is_more_than_the_machine_has() -> None:
    text = TEXTS["balloon-5.4-next-watermarks"].decode()
    usual = text.replace("min:99395541895224kB low:73886371836733356kB high:147673348131571488kB",
                         "min:100kB low:200kB high:300kB")  # fmt: skip
    assert usual != text
    assert "watermark" not in printed(usual)
    assert "watermark" in printed(text)


@pytest.mark.parametrize(
    "text",
    [
        '10.0.0.1 - - [10/May/2017:06:50:00 +0000] "GET / HTTP/1.0" 502 575\n',
        "2017/05/10 06:50:00 [error] 23#23: *4 connect() failed\n",
        "May 10 06:50:01 web cron[811]: (root) CMD (run-parts /etc/cron.hourly)\n",
        "A limit of the kernel: its oom_score_adj, of a kernel that is kernel-5.10 or later.\n",
        "# kernel.sem = 250\n",
    ],
)
def test_a_file_without_a_line_of_the_kernel_says_nothing_of_a_kill(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(BadRequest, match=r"no line of it .* kernel's log \(1 line read\)"):
        source.read(path)
    for line in ("[   99.5012] usb 1-1: gone\n", "May 10 06:50:02 web kernel: usb 1-1: gone\n",
                 "<6>usb 1-1: gone\n", "[Wed May 10 06:50:02 2017] usb 1-1: gone\n",
                 "web systemd[1]: a.service: Failed with result 'oom-kill'.\n"):  # fmt: skip
        path.write_text(text + line)
        assert source.read(path).lines == 2


def test_a_line_that_is_very_long_is_not_searched_for_a_stamp_again_and_again(
    tmp_path: Path,
) -> None:
    """What lies far before `kernel:` is no stamp of it."""
    path, sentence = tmp_path / "log", "of the kernel: "
    path.write_text("May 10 06:50:01 " + sentence + "\n")
    assert source.read(path).lines == 1
    path.write_text("May 10 06:50:01 " + "x" * 500 + sentence * 9 + "\n")
    with pytest.raises(BadRequest, match="no line of it"):
        source.read(path)


DMESG = {
    "-H": "[Nov29 14:09] {0}\n[  +0.000012] {0}\n",
    "-H, a day of one digit": "[Nov 5 14:09] {0}\n",
    "-e": "[  +0.000012] {0}\n",
    "-e, in colour": "\x1b[32m[  +0.000012] \x1b[0m{0}\n",
    "-e, minutes": "[ +71.204518] {0}\n",
    "-x -T": "kern  :info  : [Sun Nov 22 08:00:01 2026] {0}\n",
    "--time-format delta": "[<    0.000012>] {0}\n",
    "-J": '{{\n   "dmesg": [\n      {{\n         "pri": 6,\n         "time":     1.500000,\n'
          '         "msg": "{0}"\n      }}\n   ]\n}}\n',
}  # fmt: skip
USUAL = {name: f"{text}\n" for name, text in PREFIXES.items() if name.startswith("dmesg")}


@pytest.mark.parametrize("form", [*DMESG.values(), *USUAL.values()], ids=[*DMESG, *USUAL])
def test_each_form_of_dmesg_is_the_kernels(tmp_path: Path, form: str) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_text(form.format("usb 1-1: gone"))
    assert "no kill for want of memory in this log" in "\n".join(answer.lines(source.read(path)))


def test_a_log_without_stamps_is_the_kernels_only_by_its_reports(tmp_path: Path) -> None:
    """`dmesg -t`, `journalctl -k -o cat`, a kernel without printk.time."""
    path = tmp_path / "dmesg.txt"
    path.write_text("usb 1-1: new device\nusb 1-1: gone\n")
    with pytest.raises(BadRequest, match=r"kernel's log \(2 lines read\): give the output of"):
        source.read(path)
    for line in (BARE[0], BARE[-1], BARE[-2]):
        path.write_text(f"usb 1-1: new device\n{line}\nusb 1-1: gone\n")
        assert len(source.read(path).reports) == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_sixteen_bits_and_zeros_make_no_line_the_kernels(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log"
    other, kernels = "web cron[811]: (root) CMD (true)\n" * 9, "[   99.5012] usb 1-1: gone\n" * 9
    path.write_bytes(kernels.encode(encoding))
    assert source.read(path).lines == 9
    path.write_bytes(b"\0" * 5000 + kernels.encode() + b"\0" * 5000)
    assert source.read(path).lines >= 9
    program = b"\x7fELF\2\1\1\0\0\0\0\0/lib/modules/kernel\0"
    for content in (other.encode(encoding), b"\0\0" + other.encode(), program):
        path.write_bytes(content)
        with pytest.raises(BadRequest, match="no line of it has a form of the kernel's log"):
            source.read(path)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("Mar 1 14:37:27 systemd-oomd[666]: Failed to kill any cgroups based on swap: Invalid",
         "systemd-oomd tried to kill, and could not: Failed to kill any cgroups"),
        ("Feb 8 00:05:04 host earlyoom[9]: Error: Could not find a process to kill",
         "earlyoom tried to kill, and could not: Could not find a process"),
        ("Jun 12 06:39:16: sending SIGTERM to process 696 uid 1001 \"ipfs\": badness 757, VmRSS "
         "637 MiB\nJun 12 06:39:26: kill failed: Timer expired",
         "earlyoom tried to end process 696 (ipfs), 637 MiB resident, and it did not end"),
    ],
)  # fmt: skip
def test_a_program_that_could_not_kill_has_killed_nobody(lines: str, words: str) -> None:
    text = printed(f"{lines}\n")
    assert words in text
    assert "overwritten" not in text
    assert not text.startswith("killed")


@pytest.mark.parametrize(
    "line",
    [
        'Nov 29 14:09:07 host dockerd[99]: time="2026-11-29T14:09:07Z" level=error msg="container '
        'kill failed: no such process"',
        "Nov 29 14:09:07 host dockerd[99]: kill failed: no such process",
        "kill failed: no such process",
        "Nov 29 14:09:07 host monit[7]: Could not find a process to kill",
    ],
)
@pytest.mark.parametrize("is_behind_a_kill", [False, True])
def test_what_another_program_could_not_kill_is_no_failure_of_earlyoom(
    line: str, is_behind_a_kill: bool
) -> None:
    sent = 'sending SIGTERM to process 696 uid 1001 "ipfs": badness 757, VmRSS 637 MiB\n'
    text = printed(f"{sent if is_behind_a_kill else ''}{line}\nusb 1-1: gone\n")
    is_earlyooms = is_behind_a_kill and line.startswith("kill")
    assert ("it could not kill: kill failed: " in text) == is_earlyooms
    assert ("could not" in text) == is_earlyooms
    assert ("earlyoom" in text) == is_behind_a_kill


@pytest.mark.parametrize(
    "before",
    ["Nov 29 14:09:07 host earlyoom[9]: ", "earlyoom: ", "earlyoom-1  | ",
     "low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%\n",
     "low memory! at or below SIGTERM limits: mem 10%, swap 10%\n2026-11-29T14:09:07Z "],
)  # fmt: skip
def test_a_failure_of_earlyoom_is_known_by_its_name_or_behind_its_words(before: str) -> None:
    text = printed(f"{before}kill failed: Timer expired\n")
    assert "earlyoom tried to kill, and could not: kill failed: Timer expired" in text


def test_a_part_of_a_report_is_no_kill_and_is_said() -> None:
    zone = (
        "Node 0 DMA32 free:8108kB min:5540kB low:7476kB high:9412kB active_anon:50504kB "
        "inactive_anon:1874092kB present:2080632kB managed:1994552kB\n"
    )
    text = printed(f"[ 9.10] {zone}[ 9.11] Free swap  = 0kB\n[ 9.12] Total swap = 0kB\n")
    assert "a part of a report stands in it, the machine's memory (7.92 MiB free, no swap)" in text
    rows = "".join(f"[ 9.{n}] [   {n}]     0  {n}      326      224    16384        0"
                   f"             0 task{n}\n" for n in range(100, 105))  # fmt: skip
    table = printed(rows)
    assert "a part of a report stands in it, a table of processes, as" in table
    for whole in (text, table):
        assert whole.startswith("no kill for want of memory in this log")
        assert "overwritten" not in whole
    few = printed("[    1.5] usb 1-1: new device\n[   99.5] usb 1-1: gone\n")
    assert "a part of a report" not in few
