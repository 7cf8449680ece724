"""A log that is damaged gives a weaker answer, and no other cause, process, name or number."""

from __future__ import annotations

import pytest

from memlab.diagnose.kernel_log import forms

from .test_last_kill import kill, printed, read

GROUP = "/kubepods/burstable/podbc001ffa-68fc-11e9-92d7-5ef9efd9374c"
WRAPPED = f"""\
Some words of a page that are before the log.
[  9.0] Task in {GROUP}/a2ed67c63e82 killed as a result of limit of {GROUP}
[  9.0] memory: usage 125952kB, limit 125952kB, failcnt 3632
[  9.0] memory+swap: usage 125952kB, limit 9007199254740988kB, failcnt 0
[  9.0] kmem: usage 2352kB, limit 9007199254740988kB, failcnt 0
[  9.0] Memory cgroup stats for {GROUP}: cache:0KB rss:123600KB rss_huge:0KB mapped_file:0KB
[  9.0] [ pid ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[  9.0] [25160]     0 25160      256        1    28672        0          -998 pause
[  9.0] [32308]     0 32308    64558    30781   282624        0           939 stress
[  9.1] Memory cgroup out of memory: Kill process 32308 (stress) score 1959 or sacrifice child
[  9.1] Killed process 32308 (stress) total-vm:258232kB, anon-rss:123112kB, file-rss:12kB
"""


@pytest.mark.parametrize("width", [50, 60, 72, 80])
def test_a_console_that_breaks_within_words_is_joined_below_text_without_stamps(width: int) -> None:
    """A path, a number or a name has no blank where it was broken."""
    lines = WRAPPED.split("\n")
    broken = [line[i : i + width] for line in lines for i in range(0, max(1, len(line)), width)]
    assert kill("\n".join(broken)) == kill(WRAPPED)


def test_a_row_that_is_broken_within_a_number_is_that_of_one_number() -> None:
    rows = [line for line in WRAPPED.split("\n") if line.endswith("stress")]
    for at in range(rows[0].find("64558") + 1, rows[0].find(" stress")):
        last = kill(WRAPPED.replace(rows[0], f"{rows[0][:at]}\n{rows[0][at:]}"))
        assert [task for task in last.processes if task not in kill(WRAPPED).processes] == []


def test_a_copy_of_each_line_adds_nothing() -> None:
    zones = (
        "Node 0 active_anon:400kB inactive_anon:80kB kernel_stack:640kB all_unreclaimable? no\n"
        "Node 0 Normal free:800kB min:90kB low:95kB high:99kB present:9000kB managed:8000kB\n"
    )
    first = "a invoked oom-killer: gfp_mask=0xcc0, order=0\nMem-Info:\n"
    memory = read(f"{first}{zones}{zones}").reports[-1].memory
    assert (memory.free, memory.kernel_stack) == (800 << 10, 640 << 10)
    numbers = "Memory cgroup stats for {}: cache:64KB rss:900KB\n"
    lines = [numbers.format("/a"), numbers.format("/a/b")]
    assert read("".join([*lines, *lines])).reports[-1].statistics["rss"] == 1800 << 10


def test_of_another_process_of_the_victims_name_no_page_size_is_read() -> None:
    """A shell forks: only a thread has as much mapped as its process."""
    row = "[32307]     0 32307     1009      481"
    log = WRAPPED.replace("[32308]     0 32308    64558    30781", row)
    assert kill(log).page_bytes is None
    assert kill(log).processes[0].resident_bytes == 481 << 12


def test_a_choice_whose_kill_is_cut_off_may_be_a_child_of_it() -> None:
    assert "(stress), or a child of it" not in printed(WRAPPED)
    without = "\n".join(WRAPPED.split("\n")[:-2])
    assert "process 32308 (stress), 120 MiB resident" in printed(without).partition("\n")[0]
    assert ", or a child of it" in printed(without).partition("\n")[0]


def test_of_statistics_without_the_lines_before_a_parent_may_have_the_limit() -> None:
    log = f"Memory cgroup stats for {GROUP}/a: cache:0KB rss:48KB\n"
    last = kill(f"{log}Memory cgroup out of memory: Killed process 7 (a) total-vm:9kB\n")
    assert (last.cause, last.group) == ("group", None)
    assert f"the group {GROUP}/a, or of a parent of it" in last.text
    counter = "memory: usage 9kB, limit 9kB, failcnt 3\n"
    assert kill(f"{counter}{log}").group == f"{GROUP}/a"


def test_statistics_that_are_cut_in_a_path_have_no_group() -> None:
    log = "Memory cgroup stats for /kubepods/pod118KB rss_huge:0KB shmem:28KB mapped_file:0KB\n"
    (report,) = read(f"memory: usage 9kB, limit 9kB, failcnt 3\n{log}").reports
    assert (report.group, report.statistics["shmem"]) == (None, 28 << 10)


def test_a_number_at_the_end_of_a_file_that_ends_within_a_line_may_be_cut() -> None:
    log = "memory: usage 9kB, limit 9kB, failcnt 24"
    for text, reached in ((log, None), (f"{log}\n", 24)):
        assert read(text).reports[-1].counters["memory"].failures == reached


def test_counters_at_the_width_of_a_terminal_that_cuts_lines_are_none() -> None:
    words = ("dirty", "writeback", "slab_unreclaimable", "mapped", "pagetables", "free_pcp")
    lines = [f"[  9.0] active_anon:{'7 '.ljust(40 - len(word))}{word}:1" for word in words]
    assert all(line.endswith(":1\u2026") for line in forms.lines_of("\n".join(lines).encode()))


def test_of_one_list_of_files_of_two_nothing_is_said_of_all() -> None:
    begin = "a invoked oom-killer: gfp_mask=0xcc0, order=0\nactive_anon:9 inactive_anon:1\n"
    for text, is_read in (("inactive_file:90", True), ("inactive_fi", False)):
        log = f"{begin} active_file:80 {text}\n slab_unreclaimable:50 free:30\n"
        assert ("page cache" in [part.name for part in kill(log).holdings]) == is_read
        assert ("could still be dropped: 680 KiB" in printed(log)) == is_read
        assert "nothing was left to drop" not in printed(log)


def test_zones_of_a_log_that_ends_in_them_are_not_those_of_a_limited_request() -> None:
    """Those behind its end may be other zones, and need not be other nodes."""
    log = """\
[  9.0] Xorg invoked oom-killer: gfp_mask=0xd0, order=0, oomkilladj=0
[  9.0] Mem-info:
[  9.0] Active:375022 inactive:201127 dirty:26 writeback:55 unstable:0
[  9.0]  free:30100 slab:11726 mapped:326538 pagetables:1265 bounce:0
[  9.0] DMA free:3536kB min:68kB low:84kB high:100kB active:0kB inactive:0kB present:16256kB
[  9.0] lowmem_reserve[]: 0 873 4048 4048
[  9.0] Normal free:3732kB min:3744kB low:4680kB high:5616kB active:0kB present:894080kB
"""
    assert kill(log).cause == "unknown"


def test_a_sum_without_a_pid_has_a_group_and_no_words_behind_it() -> None:
    groups = "oom_memcg=/a,task_memcg=/a"
    log = f"oom-kill:constraint=CONSTRAINT_MEMCG,{groups},task=memkiller,p id=1968,uid=0\n"
    assert (kill(log).group, kill(log).process_group) == ("/a", "/a")


TRACE = """\
[  9.0] Call Trace:
[  9.0]  oom_kill_process+0x118/0x280
[  9.0]  out_of_memory+0x103/0x350
[  9.0]  __alloc_pages_may_oom+0x10c/0x1d0
[  9.0]  __alloc_pages_slowpath+0x40c/0x8d0
"""


def test_a_trace_from_the_allocator_of_pages_is_of_no_group() -> None:
    first = "[  9.0] qemu invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0\n"
    words = "call trace it was not the limit of a memory group"
    assert words in kill(f"{first}{TRACE}").text
    unsure = TRACE.replace("  __alloc", "  ? __alloc").replace("  out_of", "  ? out_of")
    assert words not in kill(f"{first}{unsure}").text
    group = TRACE.replace("out_of_memory", "mem_cgroup_out_of_memory")
    assert kill(f"{first}{group}").cause == "group"


def test_a_trace_alone_is_a_part_of_a_report() -> None:
    assert "a part of a report stands in it, a call trace of a kill" in printed(TRACE)
    refused = TRACE.replace("oom_kill_process", "warn_alloc").replace("out_of_memory", "dump")
    assert "a call trace of a kill" not in printed(refused)


def test_systemd_oomd_until_248_names_the_group_above_those_that_it_chooses_from() -> None:
    line = (
        "Mar 29 01:08:45 host systemd-oomd[1003]: Memory pressure for /user.slice/user-1000.slice "
        "is greater than 10 for more than 10 seconds and there was reclaim activity\n"
    )
    last = kill(line)
    assert (last.by, last.ended, last.group) == ("systemd-oomd", "killed", None)
    assert last.killed[0].name == "a group of /user.slice/user-1000.slice"
    failure = (
        "Mar 29 01:08:45 fedora systemd-oomd[1003]: Failed to kill any cgroup(s) under "
        "/user.slice/user-1000.slice based on pressure\n"
    )
    assert kill(f"{line}{failure}").ended == "nobody killed"


def test_a_line_of_lmkd_that_is_cut_is_not_the_drivers() -> None:
    line = "I lowmemorykiller: Kill 'com.example' (17933)"
    assert kill(f"{line}, uid 10446, oom_score_adj 0 to free 9kB").by == kill(line).by
    assert kill("lowmemorykiller: Killing '.networkupgrade' (6924), adj 705,").cause == "driver"


def test_of_very_many_kills_by_a_program_the_older_ones_are_only_counted() -> None:
    line = 'Nov 30 12:00:00 host earlyoom[7]: sending SIGTERM to process {} uid 9 "a": badness 9, '
    log = "".join(f"{line}VmRSS 9 MiB\n".format(i) for i in range(20_001))
    assert len(read(log).user_space) <= 10_000
    assert "20,000 earlier kills" in printed(log).replace("20000", "20,000")
