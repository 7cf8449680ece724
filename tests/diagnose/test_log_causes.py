"""What a report is about by its zones, blocks and words, and what is no report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlab.diagnose.kernel_log import forms, near, reports, source
from memlab.errors import BadRequest

from .test_last_kill import BARE, TEXTS, V1, kill, printed, read

PAGE = 4096
END = (
    "Out of memory: Killed process 700 (big) total-vm:4000000kB, anon-rss:3000000kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:0 pgtables:6000kB oom_score_adj:0"
)
DMA = """\
Node 0 DMA free:13000kB min:280kB low:350kB high:420kB managed:15360kB free_cma:0kB
lowmem_reserve[]: 0 3150 3900 3900 3900"""
DMA32 = """\
Node 0 DMA32 free:{}kB min:32000kB low:40000kB high:48000kB managed:2000000kB free_cma:0kB
lowmem_reserve[]: 0 0 2000 2000 2000"""
NORMAL = """\
Node 0 Normal free:{}kB min:32000kB low:40000kB high:48000kB managed:2000000kB free_cma:0kB
lowmem_reserve[]: 0 0 0 0 0"""
MOVABLE = """\
Node 0 Movable free:{}kB min:1000kB low:2000kB high:3000kB managed:2000000kB free_cma:0kB
lowmem_reserve[]: 0 0 0 0 0"""


def report(
    *zones: str, mask: str = "0x140cca", order: int = 0, node: str = "", **pages: int
) -> str:
    """A report as 6.17 prints it; counters in pages."""
    count = {
        "active_anon": 0, "shmem": 0, "unevictable": 0, "slab_unreclaimable": 9000, "free": 20000
    } | pages  # fmt: skip
    return "\n".join(
        (
            f"req invoked oom-killer: gfp_mask={mask}, order={order}, oom_score_adj=0",
            "Mem-Info:",
            f"active_anon:{count['active_anon']} inactive_anon:0 isolated_anon:0",
            " active_file:10 inactive_file:10 isolated_file:0",
            f" unevictable:{count['unevictable']} dirty:0 writeback:0",
            f" slab_reclaimable:3000 slab_unreclaimable:{count['slab_unreclaimable']}",
            f" mapped:1 shmem:{count['shmem']} pagetables:2000",
            f" free:{count['free']} free_pcp:0 free_cma:0",
            f"Node 0 active_anon:0kB kernel_stack:8000kB all_unreclaimable? yes{node}",
            *zones,
            "Free swap  = 0kB",
            "Total swap = 0kB",
            "1048576 pages RAM",
            "0 pages HighMem/MovableOnly",
            "20000 pages reserved",
            END,
        )
    )


FULL = DMA, DMA32.format(40000), NORMAL.format(30000)


@pytest.mark.parametrize(
    ("mask", "zones", "words"),
    [
        ("0xcc4", (DMA, DMA32.format(30000), NORMAL.format(1500000)), "DMA, DMA32"),
        ("0xcc0", (*FULL, MOVABLE.format(1800000)), "DMA, DMA32, Normal"),
        ("0xcc1", (DMA.replace("13000", "400"), DMA32.format(900000), NORMAL.format(9000)), "DMA"),
    ],
    ids=["DMA32", "movable", "DMA"],
)
def test_a_request_is_limited_to_its_zones(mask: str, zones: tuple[str, ...], words: str) -> None:
    log = report(*zones, mask=mask)
    assert kill(log).cause == "zone"
    assert f"the zone{'s' if ',' in words else ''} {words}, to which the request was" in printed(
        log
    )


def test_without_room_in_other_zones_it_is_the_machine() -> None:
    assert kill(report(*FULL, MOVABLE.format(2500), mask="0xcc0")).cause == "machine"


BLOCKS = "Node 0 Normal: 46000*4kB (UMEH) 1500*8kB (UE) 0*16kB {} 0*64kB = 196000kB"


@pytest.mark.parametrize(
    ("blocks", "cause"),
    [("0*32kB", "fragmentation"), ("30*32kB (H)", "fragmentation"), ("30*32kB (UH)", "unknown")],
)
def test_blocks_that_are_kept_are_none_for_a_request(blocks: str, cause: str) -> None:
    zones = DMA, DMA32.format(9000), NORMAL.format(200000), BLOCKS.format(blocks)
    assert kill(report(*zones, mask="0x40cc0", order=3)).cause == cause


OLD = """\
checkd invoked oom-killer: gfp_mask=0x44d0, order=2, oomkilladj=0
Active_anon:11104 active_file:0 inactive_anon:26127
 inactive_file:0 unevictable:0 dirty:0 writeback:0 unstable:0
 free:5099 slab:4124 mapped:1180 pagetables:409 bounce:0
Normal free:20396kB min:2036kB low:2544kB high:3052kB present:260096kB pages_scanned:0 all_un? no
Normal: 5069*4kB 7*8kB {}*16kB 0*32kB 0*64kB = 20396kB
Out of memory: kill process 821 (checkd) score 4213 or a child
Killed process 821 (checkd)
"""


def test_an_old_kernel_keeps_a_share_of_the_large_blocks() -> None:
    assert "of 19.9 MiB free only 64 KiB were in blocks of that size" in printed(OLD.format(4))
    assert kill(OLD.format(400)).cause == "unknown"
    newer = OLD.format(4).replace("pages_scanned:0", "free_pcp:0kB pages_scanned:0")
    assert kill(newer).cause == "unknown", "since 4.4 a block is enough"
    assert "145 MiB anonymous" in printed(OLD.format(4))


@pytest.mark.parametrize("order", ["40", "9999", "99999", "-9999"])
def test_an_order_that_no_kernel_has_is_not_read(order: str) -> None:
    old = OLD.format(4).replace("order=2", f"order={order}")
    assert kill(old).order is None
    assert "in one piece" not in printed(old)


def test_locked_shared_memory_counts_once_and_a_balloon_has_a_line() -> None:
    text = report(*FULL, unevictable=800000, shmem=790000, active_anon=60000)
    parts = {part.name: part.bytes for part in kill(text).holdings}
    assert parts["tmpfs or shared memory"] == 790000 * PAGE
    assert parts["unevictable"] == 70000 * PAGE
    assert sum(parts.values()) == (1048576 - 20000) * PAGE
    text = report(*FULL, node=" Balloon:2900000kB")
    assert "2.77 GiB in a balloon" in printed(text)
    assert "zswap, drivers or vmalloc" in printed(text)
    assert "balloons or vmalloc" in printed(report(*FULL))


def test_a_zone_whose_line_is_broken_keeps_its_reserve_for_cma() -> None:
    zone = "Normal free:212600kB min:7664kB low:57100kB\n  high:106536kB managed:3689488kB\n  "
    text = printed(f"{zone}pagetables:13600kB bounce:0kB\n  free_cma:200844kB\n{END}")
    assert "208 MiB free; 196 MiB of the free memory are for movable pages only (CMA)" in text


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("out of memory. panic_on_oom is selected", "machine"),
        ("out of memory. Compulsory panic_on_oom is selected.", "unknown"),
        ("Out of memory: system-wide panic_on_oom is enabled", "machine"),
        ("Out of memory: compulsory panic_on_oom is enabled", "unknown"),
        ("out of memory(memcg). panic_on_oom is selected.", "group"),
        ("out of memory from page fault. panic_on_oom is selected.", "unknown"),
    ],
)
def test_by_which_words_a_kernel_panics(words: str, cause: str) -> None:
    last = kill(f"[  9.1] Kernel panic - not syncing: {words}\n")
    assert (last.ended, last.cause) == ("panic", cause)


@pytest.mark.parametrize(
    ("words", "by"), [("(MPOL_BIND)", "a memory policy"), ("in cpuset", "a cpuset")]
)
def test_until_2_6_35_the_words_have_the_cause(words: str, by: str) -> None:
    text = printed(f"No available memory {words}: kill process 22 (a) score 0 or a child\n")
    assert f"to which {by} limits the request" in text


def test_a_groups_report_says_nothing_of_the_machines_memory() -> None:
    text = "Memory cgroup out of memory: Kill process 7 (a) score 9 or sacrifice child"
    memory = report(*FULL).rpartition("\n")[0]
    assert "drop" not in printed(f"{memory}\nTask in /a killed as a result of limit of /a\n{text}")


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-05 10:00:02,001 DEBUG Killed process 4242 using port 8080.",
        "Killed process 4242: miner --level 1 (by hand)",
        "Killed process 99 to release locks",
        "Killed process 4321 (node) after 30 s",
        "Kill process 5531 on port 3000? (y/N)",
        "Its process invoked oom-killer and was not the one that was killed.",
        "The kernel: a guide\nWith the kernel: it is so",
        '{"pattern": "Killed process \\\\d+ (.+) total-vm:\\\\d+kB"}',
    ],
)
def test_what_other_programs_and_texts_say_is_no_kill(line: str, tmp_path: Path) -> None:
    path = tmp_path / "k.txt"
    path.write_text(f"{line}\n")
    with pytest.raises(BadRequest):
        source.read(path)
    path.write_text(f"[    9.000000] usb 1-1: new device\n[    9.1] app[7]: {line}\n")
    log = source.read(path)
    assert (log.reports, log.user_space) == ([], [])


@pytest.mark.parametrize(
    "line",
    [
        "Killed process 7 (a)",
        "Killed process 7 (a).",
        "Killed process 7 (a) tot>",
        "Killed process 7, UID 48, (a) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
        "Killed process 7 (a), UID 48, total-vm:9kB, anon-rss:8kB, file-rss:0kB",
        "('job', 'failed', 'Out of memory: Killed process 7', NOW() - INTERVAL '8 hours'),",
        "Killed process 7 (a)\n   total-vm:9kB, anon-rss:8kB, file-rss:0kB",
        " * Killed process 7 (a) total-\n * vm:\n * 9kB, anon-rss:8kB, file-rss:0kB",
    ],
)
def test_a_kernels_line_is_a_kill_in_any_text(line: str) -> None:
    last = kill(f"Once upon a time\n{line}\n")
    assert last.killed[0].pid == 7
    assert last.killed[0].name in ("a", "")
    assert ("rss" in line) == (last.killed[0].anonymous_bytes == 8 << 10)


@pytest.mark.parametrize(("name", "pid"), [("Xorg", None), ("cc1(4711)", 4711)])
def test_a_page_fault_without_memory_ended_its_process_without_a_report(
    name: str, pid: int | None
) -> None:
    last = kill(f"[ 4043.7] VM: killing process {name}\n")
    assert (last.killed[0].pid, last.cause) == (pid, "unknown")
    assert last.killed[0].name == name.partition("(")[0]


def test_each_choice_is_a_kill_and_what_ends_nobody_is_none() -> None:
    lines = [
        f"[  {n}.0] Out of memory: Kill process {n} (a) score 9 or sacrifice child" for n in (1, 2)
    ]
    assert "1 earlier kill" in printed("\n".join(lines))
    text = printed("[  9.0] Out of memory and no killable processes...\n" * 2 + f"[  9.1] {END}\n")
    assert "earlier kill" not in text
    assert "in which no process could be killed" in text


def test_rows_whose_head_is_cut_off_are_of_the_kill_behind_them() -> None:
    rows = [line for line in BARE if line.startswith("[    70")]
    text = "\n".join([*rows, *BARE[-2:]])
    assert [task.pid for task in kill(text).processes] == [700, 701]
    assert "a part of the table of processes" in printed(text)
    assert "largest" not in printed(text.replace("process 701", "process 702"))
    assert kill("\n".join([*rows, "[    9.0] usb 1-1: new device", *BARE[-2:]])).processes == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "Memory failure: 0x3b4c1e: Killing qemu:21445 due to hardware memory corruption",
            "Killing qemu:21445 due to hardware memory corruption",
        ),
        (
            "systemd[1]: a.service: Killing process 911 (java) with signal SIGKILL.",
            "another reason than want of memory: Killing process 911 (java) with signal SIGKILL",
        ),
        ("kubelet: Cgroup OOM encountered, victim process: a, pid: 7", "kubelet reports a kill"),
        (
            "2019-05-04T18:05:45-05:00 container oom 29d72966e0beb17d9b (name=notebook)",
            "is not in this log: container oom 29d72966e0beb17d9b",
        ),
    ],
)
def test_other_ends_of_processes_are_said_as_that(line: str, words: str) -> None:
    text = printed(f"[  9.0] {line}\n")
    is_report = "is not in this log: " in text
    first = "a kill is reported, but not by" if is_report else "no kill for want of memory"
    assert text.startswith(first)
    assert words in text


@pytest.mark.parametrize(
    "text",
    [
        "host kernel: eth0: link up\nhost kernel: usb 1-1: new device\n",
        "kernel: eth0 up\n",
        "Oct  2 14:14:07 [kernel] eth0: link up\n",
        "10.5.0.2: kern:    info: [2024-09-12T20:27:31.913975631Z]: eth0: link up\n",
        "user: warning: [2024-09-12T20:27:32.913975631Z]: [talos] service up\n",
    ],
)
def test_a_log_without_a_kill_is_known_by_its_form(text: str, tmp_path: Path) -> None:
    path = tmp_path / "k.txt"
    path.write_text(text)
    assert source.read(path).reports == []


def test_of_a_large_file_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_BYTES_MAX", 4096)
    path = tmp_path / "k.txt"
    path.write_text("[    9.0] usb 1-1: new device\n" * 1000 + V1)
    log = source.read(path)
    assert "only the last 4 KiB" in log.unread
    assert log.reports[-1].victims[0].pid == 701


@pytest.mark.parametrize("place", [0, 300, 999])
def test_far_lines_are_only_counted(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("_MANY", 900), ("_BEFORE", 50), ("AFTER", 100)):
        monkeypatch.setattr(near, name, number)
    lines = [json.dumps({"time": "2026-10-02T14:14:07Z", "log": "usb 1-1: new device"})] * 1000
    lines[place] = json.dumps({"time": "2026-10-02T14:14:08Z", "log": END})
    spans = list(near.ranges(lines))
    assert [span[0] for span in spans[1:]] == [span[1] for span in spans[:-1]]
    assert (spans[0][0], spans[-1][1]) == (0, 1000)
    assert any(is_near and begin <= place < end for begin, end, is_near in spans)
    assert any(not is_near for _, _, is_near in spans)
    log = read("\n".join(lines))
    assert (log.lines, log.first, log.last[:19]) == (
        1000,
        f"2026-10-02T14:14:0{8 if place == 0 else 7}Z",
        f"2026-10-02T14:14:0{8 if place == 999 else 7}",
    )
    assert log.reports[0].victims[0].pid == 700


@pytest.mark.parametrize("count", [1, 2, 7])
def test_how_many_lines_are_searched_at_once_changes_nothing(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence that is broken may lie in two of them."""
    names = ("cpuset-test-6.3-broken-lines", "k8s-folded-by-hand", "dirty-4.16-mail", "nohang-0.2")
    right = [printed(TEXTS[name]) for name in names]
    monkeypatch.setattr(near, "CHUNK", count)
    assert [printed(TEXTS[name]) for name in names] == right


@pytest.mark.parametrize(("between", "taken_apart"), [(50, 50), (100, 100), (400, 100)])
def test_far_behind_a_report_without_an_end_lines_are_only_counted(
    between: int, taken_apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill behind them is the report's."""
    monkeypatch.setattr(near, "AFTER", 100)
    apart: list[str] = []
    prefix_of = forms.prefix_of

    def counted(line: str) -> forms.Prefix:
        apart.append(line)
        return prefix_of(line)

    monkeypatch.setattr(forms, "prefix_of", counted)
    other = "Oct  2 14:14:07 h usb 1-1: new device"
    lines = [BARE[0], "Mem-Info:", *[other] * between, END]
    log = reports.read(lines)
    assert log.lines == len(lines)
    assert apart.count(other) == taken_apart + 2  # one at each end, for the span
    (found,) = log.reports
    assert (found.requester, found.victims[0].pid) == ("worker", 700)


def test_a_usual_stamp_is_one_that_the_pieces_find() -> None:
    for line in (
        "[    9.012] a",
        "<6>[    9.123456] a",
        "2026-10-02T14:14:07 a",
        "Oct  2 14:14:07 h a",
    ):
        assert bool(forms._USUAL_STAMP.match(line)) == bool("".join(forms.parted(line)[0]))


def test_of_a_part_of_a_report_the_swap_is_said() -> None:
    lines = [
        "Free swap  = 0kB",
        "Total swap = 8388604kB",
        "[  pid  ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
        "[ 1050]     0  1050    36493       50      71       44             0 systemd-journal",
    ]
    text = printed("\n".join(lines))
    assert "whose memory was short is not in this log; swap full (8 GiB)" in text


HEAD = "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
LIMIT = "memory: usage 65536kB, limit 65536kB, failcnt 77"
KILL = "Memory cgroup out of memory: Killed process 7 (b) total-vm:9kB, anon-rss:8kB, file-rss:0kB"


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("Oct  2 14:14:07 h kernel: ", "Oct  2 14:23:57 h kernel: ", True),
        ("Oct  2 14:14:07 h kernel: ", "Oct  2 14:24:17 h kernel: ", False),
        ("Dec 31 23:59:59 h kernel: ", "Jan  1 00:00:01 h kernel: ", True),
        ("Dec 31 23:59:59 h kernel: ", "Jan  1 00:10:09 h kernel: ", False),
        ("Feb 28 23:59:59 h kernel: ", "Mar  1 00:00:01 h kernel: ", True),
        ("Feb 28 23:59:59 h kernel: ", "Mar  1 00:10:09 h kernel: ", False),
        ("Feb 28 23:59:59 2026 h kernel: ", "Mar  1 00:00:01 2026 h kernel: ", True),
        ("Oct  2 14:14:07 h kernel: ", "[    9.000000] ", False),
        ("[    9.000000] ", "[Fri Oct  2 14:14:07 2026] ", False),
        ("[    9.000000] ", "Oct  2 14:14:07 h kernel: [    9.100000] ", True),
        ("[    9.000000] ", "Oct  2 14:14:07 h kernel: [  700.100000] ", False),
        ("Oct  2 14:14:07 h kernel: [    9.000000] ", "Oct  2 14:14:07 h kernel: ", True),
        ("2026-10-02T14:14:07+00:00 h kernel: ", "2026-10-02T14:14:08+00:00 h kernel: ", True),
        ("2026-10-02T14:14:07+00:00 h kernel: ", "Oct  2 14:14:08 h kernel: ", False),
        ("[    9.000000] ", "", True),
        ("", "[    9.000000] ", True),
    ],
)
def test_by_its_stamp_a_kill_is_of_another_report(first: str, second: str, is_one: bool) -> None:
    """Two logs in one file, of which one is cut: nobody's numbers are another's."""
    last = kill(f"{first}{HEAD}\n{first}{LIMIT}\n{second}{KILL}\n")
    assert (last.killed[0].pid, last.requester, last.limit_bytes) == (
        (7, "a", 64 << 20) if is_one else (7, None, None)
    )


def test_lines_of_another_stamp_within_a_report_are_not_of_it() -> None:
    """A program's may stand there: the report goes on behind them."""
    begin, other = "[    9.000000] ", "Oct  2 14:14:07 h "
    free = "Node 0 DMA free:{}kB min:8kB low:9kB high:10kB present:15992kB managed:15908kB"
    lines = [HEAD, "Mem-Info:", free.format(12), "Free swap  = 0kB", "Total swap = 4kB", KILL]
    right = kill("\n".join(f"{begin}{line}" for line in lines))
    lines[3:3] = [f"{other}{free.format(99)}", f"{other}Total swap = 77777kB"]
    text = "\n".join(line if line.startswith(other) else f"{begin}{line}" for line in lines)
    assert kill(text) == right


@pytest.mark.parametrize(("words", "count"), [("Memory cgroup out of memory: ", 2), ("", 1)])
def test_a_kill_behind_that_of_a_group_is_of_it_by_its_words(words: str, count: int) -> None:
    group = "Tasks in /job are going to be killed due to memory.oom.group set"
    other = f"{words}Killed process 8 (c) total-vm:9kB, anon-rss:7kB, file-rss:0kB"
    log = read("\n".join([HEAD, KILL, group, KILL, other]))
    assert [[one.pid for one in report.victims] for report in log.reports] == (
        [[7, 8]] if count == 2 else [[7], [8]]
    )


def test_a_request_by_hand_without_a_kill_is_said() -> None:
    """A driver may free memory instead (mm/oom_kill.c, oom_notify_list)."""
    request = "[    9.{}] sysrq: SysRq : Manual OOM execution"
    freed = "[    9.{}] Purging GPU memory, 74399744 bytes freed, 8728576 bytes still pinned."
    text = printed("\n".join(line.format(i) for i in range(3) for line in (request, freed)))
    assert "a kill was requested by hand (SysRq f) 3 times, and none follows" in text
    assert "overwritten" not in text
    assert "by hand" not in printed(f"[    9.0] {request[9:]}\n{HEAD}\n{KILL}\n").split("\n")[0]


def test_a_log_whose_lines_an_editor_joined_is_read() -> None:
    lines = ["SysRq : Manual OOM execution", HEAD, "[<``c04584e9``>] out_of_memory+0x72/0x1a5"]
    lines += ["Mem-info:", "Out of memory: Killed process 4860 (xfs)."]
    last = kill(f"Some text\n```\n{' `` ``'.join(lines)}\n```\n")
    assert (last.cause, last.killed[0].pid, last.killed[0].name) == ("by hand", 4860, "xfs")


def test_a_requester_in_a_table_of_markdown_has_its_name() -> None:
    assert kill(f"| 1 | `{HEAD}` |\n| 2 | `{KILL}` |\n").requester == "a"


TRACE = "kernel: Call Trace:\nkernel:  dump_header+0x43/0x1aa\nkernel:  {}+0xc2/0xd0\n"
NOBODY = "kernel: Out of memory and no killable processes...\n"


@pytest.mark.parametrize(
    ("function", "is_group"),
    [
        ("mem_cgroup_out_of_memory", True),
        ("mem_cgroup_oom_synchronize", True),
        ("mem_cgroup_handle_oom", True),
        ("? mem_cgroup_out_of_memory", False),
        ("__alloc_pages_slowpath", False),
    ],
)
def test_by_its_trace_a_report_is_of_a_groups_limit(function: str, is_group: bool) -> None:
    """Of a report that ends, of one that is cut, and of one that is cut behind another."""
    begun = f"kernel: {HEAD}\n{TRACE.format(function)}"
    words = "it was the limit of a memory group; which one is not in this log"
    for text in (f"{begun}{NOBODY}", begun):
        assert (kill(text).cause == "group") == is_group
        assert (words in printed(text)) == is_group
    later = printed(f"{NOBODY}{begun}")
    assert "whose memory was short is not in this log" in later
    cut = "a later report in this log is cut before its kill"
    assert later.endswith(f"{cut}: {words}\n" if is_group else f"{cut}\n")


def test_a_cpuset_with_a_functions_name_is_no_trace() -> None:
    cpuset = "kernel: a cpuset=mem_cgroup_out_of_memory+0x1/0x2 mems_allowed=0\n"
    assert kill(f"kernel: {HEAD}\n{cpuset}{NOBODY}").cause == "unknown"


COLUMNS = "[ pid ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"
ROW = "[  700]     0   700     9000     8000    90112        0             0 big"


@pytest.mark.parametrize("end", ["", "Kernel panic - not syncing: "])
@pytest.mark.parametrize(
    ("between", "is_empty"), [([], True), ([ROW], False), (["usb 1-1: new device"], False)]
)
def test_a_table_without_a_process_is_said_as_that(
    end: str, between: list[str], is_empty: bool
) -> None:
    """Of a table whose rows are cut off nothing is said."""
    lines = [HEAD, COLUMNS, *between, f"{end}Out of memory and no killable processes..."]
    text = printed("".join(f"[    9.1] {line}\n" for line in lines))
    assert ("the table of processes has no process" in text) == is_empty
    missing = [line for line in text.splitlines() if line.startswith("not in this log: ")]
    assert any("the table of processes" in line for line in missing) == (
        not is_empty and ROW not in between
    )
