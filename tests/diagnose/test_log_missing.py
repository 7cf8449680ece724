"""What is said of a log in which lines are missing, cut or widened, and what is not."""

from __future__ import annotations

import re

import pytest

from memlab.diagnose.kernel_log import answer, reports
from memlab.diagnose.kernel_log.documents import LastKill

from .test_last_kill import BARE, TEXTS, V1, kill, printed, read

LOW = """\
[  9.0] sh invoked oom-killer: gfp_mask=0xd0, order=0, oom_adj=0
[  9.0] Mem-info:
[  9.0] Active:90000 inactive:30000 dirty:0 writeback:0 unstable:0
[  9.0]  free:102000 slab:{slab} mapped:9000 pagetables:600 bounce:0
[  9.0] DMA free:3500kB min:64kB low:80kB high:96kB active:0kB inactive:0kB present:16000kB
[  9.0] lowmem_reserve[]: 0 867 1877 1877
[  9.0] Normal free:3900kB min:3736kB low:4668kB high:5604kB active:100kB inactive:0kB \
present:888000kB
[  9.0] lowmem_reserve[]: 0 0 8000 8000
[  9.0] HighMem free:400600kB min:512kB low:1596kB high:2684kB active:359900kB inactive:120000kB \
present:1030000kB
[  9.0] lowmem_reserve[]: 0 0 0 0
[  9.0] DMA: 1*4kB 1*8kB 0*16kB = 3500kB
[  9.0] Normal: 277*4kB 25*8kB 2*16kB = 3900kB
[  9.0] HighMem: 7237*4kB 8367*8kB 3904*16kB = 400600kB
[  9.0] Free swap  = 2044684kB
[  9.0] Total swap = 2096472kB
[  9.0] 490000 pages of RAM
[  9.0] 262000 pages of HIGHMEM
[  9.0] 8000 reserved pages
[  9.0] Out of memory: kill process 31 (a) score 787 or a child
[  9.0] Killed process 35 (b)
"""


def without(log: str, *words: str) -> str:
    """A log without the lines that have one of these words."""
    return "".join(
        line for line in log.splitlines(keepends=True) if not any(word in line for word in words)
    )


@pytest.mark.parametrize(
    "words",
    [("HighMem free:",), ("HighMem free:", "of HIGHMEM"), ("HighMem free:", "HighMem: ")],
    ids=["line", "line and count", "line and list"],
)
def test_a_zone_whose_line_is_missing_is_no_other_node(words: tuple[str, ...]) -> None:
    """Its free memory is in the counters, but a request for low memory cannot use it."""
    log = LOW.format(slab=30000)
    assert kill(log).cause == kill(without(log, *words)).cause == "zone"
    assert "; it cannot use " in printed(without(log, *words))
    movable = without(log, *words).replace("HighMem", "Movable").replace("262000 pages", "0 pages")
    assert ("it cannot use Movable" in printed(movable)) is ("Movable: " in movable)
    assert "HighMem" not in printed(movable)
    for_any = without(log, *words).replace("gfp_mask=0xd0", "gfp_mask=0x200da")
    last = kill(for_any)
    assert last.cause == "unknown"
    assert "free memory does not explain it: 398 MiB of 1.84 GiB free" in last.text


def test_memory_that_is_free_on_a_node_that_is_left_out_is_of_another_node() -> None:
    log = without(LOW.format(slab=30000), "HighMem", "HIGHMEM")
    assert kill(log).cause == "node"


ACCOUNT = "of 883 MiB in DMA, Normal: "


def test_what_holds_low_memory_is_said_of_its_zones() -> None:
    """All slab lies there; what drivers hold is in no counter."""
    text = printed(LOW.format(slab=30000))
    assert f"{ACCOUNT}758 MiB in no counter, 117 MiB slab\n" in text
    assert "no line of a zone has page tables, kernel stacks, pipes, " in text
    full = printed(LOW.format(slab=220000))
    assert f"{ACCOUNT}859 MiB slab" in full
    assert "no line of a zone has" not in full


def test_of_zones_whose_lines_are_shortened_no_account_is_given() -> None:
    log = LOW.format(slab=30000).replace(" active:0kB inactive:0kB", "")
    assert ACCOUNT not in printed(log)


def test_lines_of_zones_are_the_account_of_a_report_without_counters() -> None:
    log = (
        "Normal free:212600kB min:7664kB low:57100kB high:106536kB active_anon:276kB "
        "inactive_anon:180kB\n  active_file:1200kB inactive_file:0kB unevictable:2932kB\n"
        "  present:4109312kB managed:3689488kB pagetables:13600kB free_cma:200844kB\n"
        "Out of memory and no killable processes...\n"
        "Kernel panic - not syncing: System is deadlocked on memory\n"
    )
    text = printed(log)
    assert "of 3.52 GiB in Normal: 3.3 GiB in no counter, 208 MiB free\n" in text
    assert "no counter of the report has slab, kernel stacks, pipes, sockets" in text
    assert [part.name for part in kill(log).holdings][:2] == ["in no counter", "free"]


FAULT = """\
[  8.9]  out_of_memory+0x6d/0xd0
[  8.9]  {}+0x6a/0x7d
[  8.9]  do_page_fault+0x2c/0xe0
"""
END = (
    "[  9.1] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,"
    "global_oom,task_memcg=/,task=a,pid=31,uid=0\n"
    "[  9.1] Out of memory: Killed process 31 (a) total-vm:900kB, anon-rss:500kB, file-rss:0kB\n"
)
ROOM = """\
[  9.0] Mem-Info:
[  9.0] Node 0 Normal free:900000kB min:8000kB low:9000kB high:10000kB present:2000000kB
"""


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("pagefault_out_of_memory", "unknown"),
        ("moom_callback", "by hand"),
        ("__alloc_pages_slowpath", "machine"),
        ("mem_cgroup_out_of_memory", "machine"),
    ],
)
def test_a_report_that_begins_within_its_trace_has_the_cause_of_that(
    function: str, cause: str
) -> None:
    """The kernel's words in the line of the kill are worth more than a trace."""
    assert kill(f"{FAULT.format(function)}{ROOM}{END}").cause == cause


def test_a_trace_is_of_no_report_with_a_first_line_and_of_none_far_behind() -> None:
    trace = FAULT.format("moom_callback")
    far = "[  9.0] eth0: link becomes ready\n" * 70
    first = "[  9.0] a invoked oom-killer: gfp_mask=0xcc0, order=0\n"
    assert kill(f"{trace}{first}{ROOM}{END}").cause == "machine"
    last = kill(f"{trace}{far}{ROOM}{END}")
    assert (last.cause, "by hand (SysRq f) is not in this log" in last.text) == ("unknown", True)


def test_a_group_is_known_by_the_trace_of_a_report_that_begins_in_it() -> None:
    table = "[  9.0] [  pid  ]   uid  tgid total_vm      rss name\n"
    row = "[  9.0] [     31]     0    31    9000     8000 a\n"
    log = f"{FAULT.format('mem_cgroup_out_of_memory')}{table}{row}"
    assert kill(log).cause == "group"
    assert kill(log.replace("mem_cgroup_out_of_memory", "try_to_free_pages")).cause == "unknown"


@pytest.mark.parametrize("gap", [" " * 130, "\t", " \t "])
def test_rows_that_a_terminal_or_a_table_widened_are_read(gap: str) -> None:
    wide = re.sub(r"(?<=[0-9a-z]) {4,}(?=[0-9a-z])", gap, V1)
    assert wide.count(gap) > 9
    last = kill(wide)
    assert [(task.pid, task.name) for task in last.processes] == [
        (700, "big [x] 1"), (701, "worker"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cut", "is_other"),
    [("reaped process 4", False), ("reaped process 418", False), ("reaped process 419", True),
     ("reaped process 4183 (a), now anon-rss:0kB", False), ("reaped process 9 (b), now", True)],
)  # fmt: skip
def test_the_reapers_line_that_is_cut_is_no_kill_of_another(cut: str, is_other: bool) -> None:
    log = f"{END.replace('31', '4183')}[  9.2] oom_reaper: {cut}"
    assert ("also killed" in printed(log)) == is_other
    assert "killed, without a report in this log: \n" not in printed(log)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tracebox: vmalloc: allocation failure: 32768 bytes, mode:0xcc0(GFP_KERNEL)",
         "kills nobody: tracebox: vmalloc: allocation failure: 32768 bytes"),
        ("kern  :warn  : a: page allocation failure: order:4, mode:0x40dc0",
         "kills nobody: a: page allocation failure: order:4"),
        ("daemon:error: a: page allocation failure: order:4, mode:0x40dc0",
         "kills nobody: a: page allocation failure: order:4"),
        ("local0:info: a: page allocation failure: order:4, mode:0x40dc0",
         "kills nobody: a: page allocation failure: order:4"),
    ],
)  # fmt: skip
def test_a_name_before_another_is_no_facility(line: str, words: str) -> None:
    assert words in printed(f"[    9.000000] {line}\n{line}\n")


VMAP = "[    9.0] vmap allocation for size 430080 failed: use vmalloc=<size> to increase size\n"


@pytest.mark.parametrize("rest", ["", "[ 9.1] a: vmalloc: allocation failure: 425984 bytes\n"])
def test_a_range_of_addresses_that_the_kernel_lacks_is_no_lack_of_memory(rest: str) -> None:
    text = printed(f"{VMAP}{rest}")
    assert "no free range of 420 KiB in its addresses for vmalloc (vmalloc= at boot)" in text
    assert "no kill for want of memory in this log" in text
    assert "overwritten" not in text
    assert "no free range" not in printed(rest or VMAP.replace("size 4", "sizes of 4"))


EARLYOOM = "Out of memory! {}\n{}\n"


@pytest.mark.parametrize(
    ("why", "how", "words"),
    [
        ("mem min: 783 MiB, swap min: 0 MiB",
         "Killing process: tail -f, pid: 76, badness: 367, VmRSS: 719 MiB",
         "process 76 (tail -f), 719 MiB resident\nit was the decision of earlyoom: Out of memory! "
         "mem min: 783 MiB, swap min: 0 MiB"),
        ("avail: 5 MiB < min: 587 MiB", "Killing process 76 tail",
         "process 76 (tail)\nit was the decision of earlyoom: Out of memory! avail: 5 MiB < min"),
    ],
)  # fmt: skip
def test_how_earlyoom_printed_a_kill_at_first(why: str, how: str, words: str) -> None:
    """Main.c of 0.9 and 1.1. Supervisors print such a line too, but none about memory before it."""
    log = EARLYOOM.format(why, how)
    assert f"killed by earlyoom, not by the kernel: {words}" in printed(log)
    far = "mem avail: 9 MiB (1 %), swap free: 0 MiB (0 %)\n" * 4
    for other in (f"[ 9.0] init\n{how}\n", f"{log}\n{how.replace('76', '77')}\n"):
        text = printed(other)
        assert "process 77" not in text
        assert ("earlyoom" in text) == (other.startswith("Out"))
    assert "killed" not in printed(log.replace("\nKilling", f"\n{far}Killing"))


def test_a_process_that_is_signalled_again_is_one_kill() -> None:
    again = (
        "low memory! at or below SIGTERM limits: mem 10 %, swap 10 %\nsending SIGTERM to process "
    )
    lines = [f'{again}74 uid 0 "a": badness {n}, VmRSS 30 MiB\n' for n in (8, 9, 10)]
    other = f'{again}75 uid 0 "a": badness 9, VmRSS 30 MiB\n'
    text = printed("".join(lines))
    assert "it signalled it 3 times" in text
    assert "earlier" not in text
    assert "2 earlier kills in the same log" in printed(f"{lines[0]}{other}{lines[1]}")
    assert "times" not in printed(f"{lines[0]}{other}")


ATTEMPT = "Jan 09 14:32:25 h systemd-oomd[70]: oomd attempting to kill {} with KILL\n"
NO_GROUP = (
    "Jan 09 14:32:25 h systemd-oomd[70]: Failed to kill any cgroup(s) under /a.slice based on "
    "pressure: No such device\n"
)


def test_whom_systemd_oomd_signalled_is_said_before_its_failure() -> None:
    log = f"{ATTEMPT.format(113)}{ATTEMPT.format(118)}{NO_GROUP}"
    text = printed(log)
    assert text.startswith(
        "killed at Jan 09 14:32:25 by systemd-oomd, not by the kernel: /a.slice\n"
    )
    assert "it sent KILL to 113, 118, and then: Failed to kill any cgroup(s)" in text
    assert "it killed 2 processes of it" in text
    killed = "Jan 09 14:32:25 h systemd-oomd[70]: Killed /b.slice/c due to memory pressure for /b\n"
    for without_attempt in (NO_GROUP, f"{ATTEMPT.format(7)}{killed}{NO_GROUP}"):
        assert "it sent KILL" not in printed(without_attempt)


def test_requests_of_programs_are_in_the_document() -> None:
    asked = "".join(f"[ 9.{n}] earlyoom[7]: Invoking oom killer: {n} times\n" for n in range(3))
    (hint,) = LastKill.made_of(read(asked)).hints
    assert (hint.line, hint.by) == (3, "earlyoom")
    assert hint.text == "asked 3 times: Invoking oom killer: 2 times"


SMART = str.maketrans({"'": "\u2019", '"': "\u201d"})


def test_quotes_that_an_editor_turned_are_those_of_the_program() -> None:
    line = 'sending SIGTERM to process 74 uid 0 "a": badness 9, VmRSS 30 MiB\n'
    android = "lowmemorykiller: Kill 'org.a' (17), uid 9, oom_score_adj 0 to free 3kB rss\n"
    assert "process 74 (a)" in printed(line.translate(SMART))
    assert "process 17 (org.a)" in printed(android.translate(SMART))
    assert "process 17 (org.a)" in printed(
        f"  - '{android.strip().replace(chr(39), chr(39) * 2)}'\n"
    )


def test_lines_that_are_padded_to_one_width_are_not_broken_ones() -> None:
    log = TEXTS["lowmem-2.6.11-slab-then-sysrq"].decode()
    padded = "\n".join(line.ljust(160) for line in log.splitlines())
    assert kill(padded).cause == kill(log).cause == "zone"


@pytest.mark.parametrize("mark", ["{}:", "{}-"])
def test_the_numbers_of_grep_are_no_part_of_a_line(mark: str) -> None:
    lines = V1.splitlines()
    numbered = "\n".join(f"{mark.format(i)}{line}" for i, line in enumerate(lines, 1))
    assert kill(numbered) == kill(V1)
    days = "\n".join(f"11-30 10:00:0{i % 10}.123  7  9 I kernel  : {BARE[i]}" for i in range(9))
    assert kill(days).at.startswith("11-30 10:00:0"), "a date has such a beginning"


@pytest.mark.parametrize("earlier", [7, 250])
def test_of_very_many_kills_the_older_ones_are_counted(
    earlier: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_REPORTS_MAX", 100)
    log = "".join(
        f"[{n}.1] Out of memory: Killed process {n} (a) total-vm:9kB, anon-rss:5kB, file-rss:0kB\n"
        for n in range(earlier + 1)
    )
    read_log = read(log)
    assert len(read_log.reports) <= 100
    assert f"\n{earlier} earlier kills in the same log" in printed(log)


def test_a_report_with_very_many_zones_and_rows_is_read_in_bounded_time() -> None:
    """The steps are linear in them: some were quadratic."""
    zones = "[ 9.0] Node {} Normal free:1kB min:1kB low:1kB high:1kB present:9kB\n"
    rows = "[ 9.0] [ {0}]     0   435     2540      246       8       0 a{0}\n"
    reaped = "[ 9.0] oom_reaper: reaped process {} (a), now\n"
    begin = "[ 9.0] a invoked oom-killer: gfp_mask=0xcc0, order=0\n"
    parts = [begin, *map(zones.format, range(9000)), *map(rows.format, range(9000))]
    log = read("".join([*parts, *map(reaped.format, range(10_000, 19_000)), END]))
    last, _, _ = answer.last(log)
    assert last is not None
    assert last.ended == "killed"
    assert len(log.reports[0].memory.zones) == 5 * 1024


def test_of_very_many_refused_requests_the_last_has_one_line_of_its_cache() -> None:
    refused = (
        "[ {0}.0] SLUB: Unable to allocate memory on node -1, gfp=0xcc0\n"
        "[ {0}.1]   cache: kmalloc-{0}, object size: 16384\n"
    )
    text = printed("".join(refused.format(i) for i in range(300)))
    assert text.count("cache: kmalloc-") == 1


FULL = """\
[  9.0] Mem-Info:
[  9.0] Node 0 Normal free:8000kB min:8000kB low:9000kB high:10000kB present:2000000kB
"""


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("CONSTRAINT_MEMORY_POLI", "node"),
        ("CONSTRAINT_MEMO", "node"),
        ("CONSTRAINT_CP", "node"),
        ("CONSTRAINT_MEMC", "group"),
        ("CONSTRAINT_N", "machine"),
        ("CONSTRAINT_MEM", "unknown"),
        ("CONSTRAINT_", "unknown"),
        ("CONSTRAINT_X", "unknown"),
    ],
)
def test_a_constraint_that_is_cut_is_the_one_that_it_begins(word: str, cause: str) -> None:
    """Without it free memory does not tell whose was short: that of a node may be all printed."""
    begin, _, rest = f"{FULL}{END}".partition("CONSTRAINT_NONE")
    log = f"{begin}{word}\n{rest.partition(chr(10))[2]}"
    assert kill(log).cause == cause
    assert kill(f"{FULL}{END}".replace("CONSTRAINT_NONE", word)).cause == "unknown", "not cut"
    assert kill(f"{FULL}{END[END.find(chr(10)) + 1 :]}").cause == "machine", "has no such line"


def test_of_lines_that_are_missing_nothing_is_free_or_on_other_nodes() -> None:
    log = f"{FULL}{END.replace('CONSTRAINT_NONE', 'CONSTRAINT_CPUSET')}"
    assert "limits the request: 7.81 MiB free there\n" in printed(log)
    counted = log.replace("Mem-Info:", "Mem-Info:\n[  9.0]  free:12000 free_pcp:0 free_cma:0")
    assert "7.81 MiB free there, 39.1 MiB on other nodes\n" in printed(counted)
    other = f"{FULL}{END.replace('mems_allowed=0', 'mems_allowed=1')}"
    assert "0 B" not in printed(other)
    assert kill(other.replace("CONSTRAINT_NONE", "CONSTRAINT_MEM\n")).cause == "unknown"


@pytest.mark.parametrize("cut", ["20", "2074", "20...", "20\u2026"])
def test_a_pid_at_the_end_of_a_line_may_be_the_beginning_of_another(cut: str) -> None:
    """The kernel always prints a name behind it."""
    log = f"[  9.0] Out of memory: Killed process {cut}"
    last = kill(log)
    assert [(process.pid, process.name) for process in last.killed] == [(None, "")]
    assert printed(log).startswith("killed at 9 s after boot: a process\n")
    assert kill(f"{log} (a").killed[0].pid == int(cut.rstrip(".\u2026"))
    summed = END.splitlines()[0].replace("=31", "=2074")
    assert kill(f"{summed}\n{log}").killed[0].pid == 2074, "its choice was read before"
    assert kill(f"{summed.replace('2074', '314')}\n{log}").killed[0].pid is None


def test_two_kills_whose_pids_are_cut_are_two() -> None:
    line = "[  9.{}] Out of memory: Killed process 4\n"
    assert "1 earlier kill in the same log" in printed(line.format(1) + line.format(2))
    assert "chose" not in printed(f"[ 9.0] Out of memory: Kill process 5\n{END}")
    assert "process 4" not in printed("[ 9.0] oom_reaper: reaped process 4")


COMMAS = """\
[  9.0] Mem-Info:
[  9.0]  active_anon:1,413,442 inactive_anon:1,509,191 isolated_anon:0
[  9.0]  free:34,629 free_pcp:0 free_cma:0
[  9.0] Node 0 Normal free:8,000kB min:8,000kB low:9,000kB high:10,000kB present:13,096,960kB
[  9.0] 4,115,400 pages RAM
[  9.0] [  pid  ]   uid  tgid total_vm      rss name
[  9.0] [ 473,206]     0 473,206 7,572,670 2,308,581 doxygen
"""
COMMA_END = (
    END.replace("=31,", "=473,206,")
    .replace("process 31", "process 473,206")
    .replace("500kB", "9,234,320kB")
)


def test_numbers_with_thousands_by_commas_are_read_with_them() -> None:
    log = f"{COMMAS}{COMMA_END}"
    assert kill(log) == kill(re.sub(r"(?<=\d),(?=\d{3})", "", log))
    last = kill(log)
    assert (last.killed[0].pid, last.processes[0].resident_bytes) == (473206, 2308581 << 12)
    assert "7.81 MiB of 15.7 GiB free" in last.text


@pytest.mark.parametrize("number", ["473,20", "47,3206", "4,73,206"])
def test_of_a_number_with_other_commas_no_part_is_read(number: str) -> None:
    """Lists of nodes have commas, too, and stamps."""
    for text in (COMMA_END, COMMA_END.partition("\n")[2]):
        (victim,) = kill(text.replace("473,206", number)).killed
        assert (victim.pid, victim.name) == (None, "a")
    counted = COMMAS.replace("34,629", number).replace("4,115,400", number)
    (report,) = read(f"{counted}{COMMA_END}").reports
    assert "free" not in report.memory.pages
    assert report.memory.ram_pages is None
    nodes = END.replace("NONE", "CPUSET").replace("mems_allowed=0", "mems_allowed=0,128")
    assert kill(nodes).nodes == "0,128"
    assert kill(f"2026-11-30 10:00:01,123 kernel: {BARE[-1]}").at == "2026-11-30 10:00:01,123"


def _without_end(n: int) -> str:
    begin = LOW.format(slab=30000).partition("[  9.0] Out of memory")[0]
    return begin.replace("[  9.0]", f"[  {n}.0]")


def test_reports_that_no_kill_follows_are_not_cut() -> None:
    """Before 2.6.19 a report names nothing if what was chosen is about to end."""
    log = "".join(map(_without_end, range(2, 8)))
    text = printed(f"{END}{log}")
    assert "6 reports in 5 s that no kill follows in this log; the last one: it was the mem" in text
    assert "cut before its kill" not in text
    assert "6 reports in 5 s that no kill follows in this log\n" in printed(log)
    for other in (_without_end(2), "[ 9.9] a invoked oom-killer: order=0\n" * 2):
        assert "a later report in this log is cut before its kill" in printed(f"{END}{other}")


STATISTICS = """\
memory: usage 30720kB, limit 30720kB, failcnt 5
kmem: usage 17092kB, limit 9007199254740988kB, failcnt 0
Memory cgroup stats for /a.slice:
anon 10485760
kernel_stack 110592
slab 16142336
"""


def test_the_slab_of_a_group_that_is_not_split_and_its_kernel_memory_are_counted() -> None:
    text = printed(STATISTICS)
    assert "of 30 MiB: 15.4 MiB slab, 10 MiB anonymous, 3.31 MiB in no counter, 1.19 MiB " in text
    assert "MiB other kernel memory" in text
    assert "no counter of the report has" not in text
    assert "no counter of the report has other" in printed(without(STATISTICS, "kmem"))
    assert "the group's usage and limit" in printed(without(STATISTICS, "memory: usage"))
    split = f"{STATISTICS}slab_reclaimable 6142336\nslab_unreclaimable 10000000\n"
    assert "9.54 MiB unreclaimable slab, 5.86 MiB reclaimable slab" in printed(split)
    assert " MiB slab" not in printed(split)


def test_lists_of_anonymous_pages_have_shared_memory_too() -> None:
    counters = "Mem-Info:\n active_anon:900000 inactive_anon:100000 isolated_anon:0\n{} free:9000\n"
    assert "3.81 GiB anonymous or shared memory" in printed(f"{counters.format('')}{END}")
    with_both = printed(f"{counters.format(' mapped:7 shmem:500000 pagetables:7')}{END}")
    assert "1.91 GiB anonymous, " in with_both
    assert "anonymous or" not in with_both


@pytest.mark.parametrize("joint", [" ", "", " Jul 15 23:44:32 host1 kernel: "])
def test_rows_that_are_joined_are_two_with_names_of_fifteen_characters(joint: str) -> None:
    head = "[  9.0] [  pid  ]   uid  tgid total_vm      rss name\n"
    rows = (
        f"[    7]     0     7    90     80 clementine-tagr{joint}[    8]     0     8   900   800 b"
    )
    (report,) = read(f"{head}[  9.0] {rows}\n{END}").reports
    assert [(row.pid, row.name) for row in report.rows] == [(7, "clementine-tagr"), (8, "b")]
    hostile = "[    7]     0     7    90     80 a [8] 1 2 3 4"
    (report,) = read(f"{head}[  9.0] {hostile}\n{END}").reports
    assert [(row.pid, row.name) for row in report.rows] == [(7, "a [8] 1 2 3 4")]


INVOKED = "{}{} invoked oom-killer: gfp_mask=0xcc0, order=0\n"


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("kern.log:", "doxygen"),
        ("/var/log/kern.log.1:", "kworker/0:1"),
        ("+", "doxygen"),
        ("node_1  | ", "java"),
        ("", "a.logger:x"),
        ("", "kworker/0:1"),
    ],
)
def test_what_stands_before_each_line_is_no_part_of_a_name(before: str, name: str) -> None:
    assert kill(INVOKED.format(before, name) + END).requester == name


def test_a_name_is_that_of_the_line_behind_it() -> None:
    comm = "x 7> CPU: 3 PID: 31 Comm: {} Not tainted 6.1.1 #1\n"
    assert kill(f"{INVOKED.format('x 7> ', 'a')}{comm.format('a')}{END}").requester == "a"
    assert kill(f"{INVOKED.format('', 'ab')}{comm.format('c')}{END}").requester == "ab"


TASK_IN = (
    "[ 9.0] Task in {} killed as a result of limit of {}\n[ 9.0] memory: usage 9kB, limit 9kB\n"
)


@pytest.mark.parametrize(
    ("limit", "whole"),
    [("/a.slice/b-12", False), ("/a.slice/b-123.sc", False), ("/a.slice/b...", False),
     ("/a.slice/b-123.scope", True), ("/a.slice", True), ("/", True), ("/other", True)],
)  # fmt: skip
def test_the_path_of_a_group_that_is_cut_is_said_to_begin_so(limit: str, whole: bool) -> None:
    """The group of a limit is that of the process, or a parent of it."""
    last = kill(TASK_IN.format("/a.slice/b-123.scope", limit))
    assert last.group == (limit if whole else None)
    begins = f"the limit of a group whose path begins with {limit.rstrip('.')}"
    assert (begins in last.text) == (not whole)
    assert ("a parent of the process's" in last.text) == (limit in ("/a.slice", "/", "/other"))


def test_a_policys_nodes_are_read_before_a_break_and_no_others_are_guessed() -> None:
    policy = END.replace("NONE", "MEMORY_POLICY").replace("mems_allowed=0", "mems_allowed=0-3")
    assert kill(policy.replace("nodemask=(null),cpus", "nodemask=3,cpus ")).nodes == "3"
    assert kill(policy.replace("nodemask=(null),cpuset=/", "nodemask=3,\n  cpuset=/")).nodes == "3"
    assert kill(policy).nodes is None


FORK = "[ {}.0] cgroup: fork rejected by pids controller in {}\n"


def test_a_limit_of_processes_is_no_lack_of_memory() -> None:
    log = "".join(FORK.format(n, "/system.slice/a.service") for n in range(10))
    text = printed(f"{log}[ 11.0] cgroup: fork re")
    assert text.splitlines()[1:] == [
        "10 forks met the limit of processes (pids.max) of the group /system.slice/a.service: "
        "that is not a lack of memory"
    ]
    assert "a.service, and of 1 more: that" in printed(f"{log}{FORK.format(12, '/b')}")
    many = "".join(FORK.format(n, f"/g{n}") for n in range(900))
    assert "1 fork met" in printed(many)
    for other in (f"{log}{END}", FORK.format(1, "a.service")):
        assert "pids.max" not in printed(other)


@pytest.mark.parametrize(("failures", "is_other"), [("", False), (", failcnt 0", True)])
def test_a_limit_of_0_whose_count_is_cut_may_be_the_one_met(failures: str, is_other: bool) -> None:
    log = f"Task in /a killed as a result of limit of /a\nmemory: usage 0kB, limit 0kB{failures}\n"
    assert ("which is not its limit" in printed(log)) == is_other


def test_what_a_width_cuts_is_no_count_and_no_path() -> None:
    """Behind both the kernel prints nothing: only the other lines tell that they are cut."""
    name = "memory-8"
    texts = (
        f"a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0{'':40}.",
        "a cpuset=0123456789abcdef0123456789abcdef0123456789abcdef01234567 mems_allowed=0",
        "CPU: 3 PID: 31 Comm: a Not tainted 6.1.1 #1 965343c4ed6236d1f640f7ca892cc520da738547",
        f"Task in /b.slice/{name} killed as a result of limit of /b.slice/{name}-of-a-child-long",
        "memory+swap: usage 32461112001kB, limit 32461112001kB, failcnt 242086555555",
        "Memory cgroup stats for /b.slice/memory-8-of-a-child-long: cache:0KB rss:7KB rss_huge:0KB",
    )
    log = "".join(f"{text[:74]}\n" for text in texts)
    last = kill(log)
    assert (last.reached, last.group) == (None, None)
    assert "whose path begins with /b.slice/mem" in last.text
    assert kill("".join(f"{text}\n" for text in texts)).reached == 242086555555


def test_of_a_choice_whose_name_is_cut_no_empty_one_is_said() -> None:
    log = f"[ 9.0] Out of memory: Kill process 3855 (a\n{END.splitlines()[1]}\n"
    assert "the kernel chose process 3855, and killed this child of it" in printed(log)
    named = log.replace("(a\n", "(a) score 9 or sacrifice child\n")
    assert "the kernel chose process 3855 (a) by its score of 9, " in printed(named)


def test_a_score_that_is_not_read_is_no_reason() -> None:
    head = "[ 9.0] [ pid ]   uid  tgid total_vm      rss oom_score_adj name\n"
    rows = (
        "[ 9.0] [   31]     0    31     9000     80     {} a\n[ 9.0] [   32]     0    32     9000"
    )
    assert "at 0\n" in printed(f"{head}{rows.format(1)}     800     0 b\n{END}")
    assert "chosen by" not in printed(f"{head}{rows.format(1)}     800 0\n{END}")
