"""Logs as people paste them: broken before a sentence's words, in another order, of one event."""

from __future__ import annotations

import pytest

from .test_last_kill import kill as last
from .test_last_kill import printed

ZONES = """\
Mem-Info:
active_anon:12538 inactive_anon:12941 active_file:1902 inactive_file:9068 free:7608
Normal free:3744kB min:3720kB low:4648kB high:5580kB active_anon:20468kB inactive_anon:20852kB \
active_file:8kB inactive_file:160kB writepending:{pending}kB present:881880kB managed:881880kB
HighMem free:{free}kB min:128kB low:264kB high:404kB active_file:7600kB inactive_file:36112kB \
writepending:0kB present:132416kB managed:132416kB
"""


@pytest.mark.parametrize(
    "first",
    [
        "[    9.1] mkfs.ext4 invoked\noom-killer: gfp_mask=0x101cc0(GFP_USER|__GFP_WRITE), order=2,"
        "\noom_score_adj=0",
        "> Mar 16 21:40:40 a kernel: mkfs.ext4 invoked oom-killer:\n> gfp_mask=0x101cc0, order=2, "
        "oomkilladj=0 Mar 16 21:40:40 a kernel: CPU:",
        "mkfs.ext4 invoked oom-killer: gfp_mask=0x101cc0,\norder=2, oom_score_adj=0",
    ],
)
def test_the_first_line_of_a_report_is_broken_anywhere(first: str) -> None:
    kill = last(f"{first}\nOut of memory: Killed process 348 (polkitd) total-vm:1kB\n")
    assert (kill.requester, kill.order) == ("mkfs.ext4", 2)


@pytest.mark.parametrize(
    "stamp", ["2026-11-30T10:00:00+00:00 ", "2026-11-30 10:00:00 ", "10:00:00 "]
)
@pytest.mark.parametrize(
    "words",
    [
        "systemd-shutdown[1]: Sending SIGTERM to remaining processes...",
        "run: Killed /bin/a",
        "df: usage 7",
        "foo: Task in /a",
    ],
)
def test_no_line_with_a_date_is_the_rest_of_another(stamp: str, words: str) -> None:
    """A date begins with a digit, as a rest may."""
    lines = ["a invoked oom-killer: gfp_mask=0xd0, order=2", *ZONES.splitlines()]
    lines.append("Out of memory: Killed process 7 (b) total-vm:9kB, anon-rss:8kB, file-rss:0kB")
    report = "".join(f"{stamp}h kernel: {line}\n" for line in lines)
    assert last(f"{stamp}h {words}\n{report}") == last(report)


def test_what_ends_with_the_word_is_no_beginning_of_a_report() -> None:
    text = "[    9.1] the handler was invoked\n[    9.2] usb 1-1: new device\n"
    assert printed(text).startswith("no kill for want of memory in this log: 2 lines were read")


def test_a_stamp_behind_the_rest_of_a_sentence_begins_with_its_month() -> None:
    lines = "Out of memory: kill process 5 (cc1)\nscore 36 or a child Mar 16 21:40:40 s kernel: "
    assert last(f"{lines}Killed process 5\n(cc1)\n").at == "Mar 16 21:40:40"


def test_a_host_without_the_kernels_name_behind_it_is_no_part_of_a_name() -> None:
    lines = ("init invoked oom-killer: gfp_mask=0xd0, order=0", "Mem-info:", "DMA per-cpu:")
    assert last("".join(f"Sep 13 15:31:25 es {line}\n" for line in lines)).requester == "init"
    assert last("Web Content invoked oom-killer: order=0\nMem-Info:\n").requester == "Web Content"


def test_a_process_that_was_killed_before_a_panic_is_said() -> None:
    kill = "Killed process 1913 (plymouthd) total-vm:5160kB, anon-rss:392kB, file-rss:1068kB\n"
    panic = "Kernel panic - not syncing: Out of memory and no killable processes...\n"
    text = printed(f"[    9.1] {kill}[    9.2] {panic}")
    assert text.startswith("the kernel panicked")
    assert "killed before it: process 1913 (plymouthd), 1.43 MiB resident" in text
    assert last(f"[    9.1] {kill}[   19.2] {panic}").at == "19.2"
    assert "killed before it" not in printed(f"[    9.2] {panic}")


@pytest.mark.parametrize("end", ["", "\\", " \\"])
def test_a_sentence_broken_as_in_a_shell_is_one(end: str) -> None:
    lines = (
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),{end}\n    oom_memcg=/a.slice,{end}"
    )
    lines += f"\n    task_memcg=/a.slice/b\\x2dc,{end}\n    task=tail,pid=51947,uid=0\n"
    report = last(f"{lines}Memory cgroup out of memory: Killed process 51947 (tail)\n")
    assert (report.group, report.process_group) == ("/a.slice", "/a.slice/b\\x2dc")


def test_a_backslash_of_a_name_stays_where_its_line_is_broken() -> None:
    lines = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,task_memcg=/a/b\\\nx2dc,task=t,pid=5,"
    )
    report = last(f"{lines}uid=0\nMemory cgroup out of memory: Killed process 5 (t)\n")
    assert report.process_group == "/a/b\\x2dc"


def test_a_child_of_who_requested_is_said_as_that() -> None:
    words = "Out of memory (oom_kill_allocating_task): Kill process 95 (a.out) score 0 or sacrifice"
    killed = "Killed process {} (a.out) total-vm:4176kB, anon-rss:80kB, file-rss:0kB\n"
    child = printed(f"{words} child\n{killed.format(96)}")
    assert "the kernel chose process 95 (a.out) because it requested the memory (vm.oom_" in child
    assert "and killed this child of it" in child
    assert "chosen because it requested" in printed(f"{words} child\n{killed.format(95)}")


@pytest.mark.parametrize(
    ("pending", "free", "words"),
    [
        (0, 23184, "; page cache in Normal: 168 KiB\n"),
        (64, 23184, "; page cache in Normal: 104 KiB\n"),
        (168, 23184, "; no page cache in Normal\n"),
        (0, 404, "of page cache\n"),  # of the whole machine
    ],
)
def test_what_could_be_dropped_where_the_request_had_to_be_served(
    pending: int, free: int, words: str
) -> None:
    first = "sh invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    text = printed(
        f"{first}{ZONES.format(pending=pending, free=free)}"
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=a,pid=7,uid=0\n"
        "Out of memory: Killed process 7 (a) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"
    )
    (line,) = (line for line in text.splitlines(keepends=True) if "could still" in line)
    assert line.endswith(words)


def test_a_request_that_had_to_wait_is_said_and_its_memory_is_no_kills() -> None:
    stall = "[ 9.1] a: page allocation stalls for 10646ms, order:0, mode:0x24280ca(GFP_HIGHUSER)\n"
    memory = "[ 9.2] Mem-Info:\n[ 9.2]  free:13192 free_pcp:0 free_cma:0\n"
    text = printed(stall + memory)
    assert "no kill" in text
    assert "a request for memory had to wait, which kills nobody: a: page allocation stalls" in text
    assert "a part of a report" not in text
    killed = "[ 9.4] Out of memory: Kill process 7 (b) score 9 or sacrifice child\n"
    killed += "[ 9.5] Killed process 7 (b) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"
    assert "the machine's free memory (Mem-Info)" in printed(stall + memory + killed)


@pytest.mark.parametrize(
    "broken",
    [
        "[1.0] Memory cgroup\nout of memory: Killed process",
        "[1.0] Memory\ncgroup out of memory: Killed process",
        "h kernel: Memory cgroup\n  out of memory: Killed process",
    ],
)
def test_a_kill_by_a_groups_limit_is_one_wherever_its_opening_is_broken(broken: str) -> None:
    sizes = (
        "(kvm)total-vm:40kB, anon-rss:8kB, file-rss:4kB,\nshmem-rss:4kB, UID:0 oom_score_adj:4\n"
    )
    kill = last(f"{broken} 12 {sizes}")
    (killed,) = kill.killed
    assert (kill.cause, killed.pid, killed.resident_bytes) == ("group", 12, 16 << 10)
    alone = last(f"[1.0] Out of memory: Killed process 12 {sizes}")
    assert alone.cause != "group"


@pytest.mark.parametrize("key", ["constraint", "cOnstraint", "Constraint"])
def test_a_page_may_spell_the_constraint_in_its_own_way(key: str) -> None:
    chosen = f"oom-kill:{key}=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0-1,"
    names = "oom_memcg=/machine.slice,task_memcg=/machine.slice/vm.scope,task=kvm,pid=12,uid=0"
    kill = last(
        f"[1.0] {chosen}{names}\n[1.1] Memory cgroup out of memory: Killed process 12 (kvm)\n"
    )
    assert (kill.cause, kill.group) == ("group", "/machine.slice")


def test_the_log_of_an_openvz_container_does_not_name_it() -> None:
    line = "OOM killed process 659 (java) vm:4973220kB, rss:2066504kB, swap:0kB\n"
    bare, named = last(line), last(f"[1.0] Out of memory in UB 7: {line}")
    assert bare.killed == named.killed
    assert (bare.killed[0].name, bare.killed[0].resident_bytes) == ("java", 2066504 << 10)
    assert "an OpenVZ container, which is not in this log" in bare.text
    assert "the OpenVZ container 7" in named.text
    assert "killed: " not in printed("foo: OOM killed process 659 (java)\n")
