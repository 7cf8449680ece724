"""What programs that kill print, as people paste it, and other ends of processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlab.diagnose.kernel_log import answer, reports, source

from .test_last_kill import printed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("08-18 15:07:53.213  I/lmkd: Reclaim 'org.example.live' (20550), uid 11227,\n      "
         "oom_score_adj 905, state 19 to free 162172kB rss, 31032kB swap;\n      reason: low "
         "watermark is breached and swap is low\n",
         ["killed at 08-18 15:07:53.213 by Android's lmkd, not by the kernel: process 20550 "
          "(org.example.live), 158 MiB resident",
          "lmkd: low watermark is breached and swap is low"]),
        ("> games  3m26s  Warning  Evicted  pod/a-r4nkh   The node was low on resource: memory. "
         "Container a was using 1924152Ki, which exceeds its request of 0.\n",
         ["by kubelet (eviction), not by the kernel: a-r4nkh", "which exceeds its request of 0."]),
        ("Message: The node was low on resource: memory.\n", ["by the kernel: a pod\n"]),
        ("Memory status that requires corrective actions:\n  MemAvailable [0 MiB, 0.0 %] <= "
         "soft_threshold_min_mem [982 MiB, 10.0 %]\n  PID: 12297, Name: tail, badness: 727\n"
         "Implement a corrective action:\n  Run the command: kill -TERM 12297\n",
         ["nohang, not by the kernel: process 12297 (tail)\n", "nohang: MemAvailable [0 MiB, 0.0"]),
        ("[talos] Sending SIGKILL to cgroup {\"cgroup\": \"/sys/fs/cgroup/a\"}\n[talos] victim "
         "processes: {\"controller\": \"a\", \"processes\": [56372, 56761]}\n",
         ["by Talos, not by the kernel: /sys/fs/cgroup/a\n", "it killed 2 processes of it"]),
        ("19:46:58 systemd-oomd[7]: Marked …d95.scope for killing due to memory used (16) / total "
         "(16) and swap used (29) / total (32) being more than 90.00%\n",
         ["by systemd-oomd, not by the kernel: …d95.scope\n", "being more than 90.00%"]),
    ],
)  # fmt: skip
def test_what_programs_print_of_a_kill(line: str, words: list[str]) -> None:
    text = printed(line)
    assert [part for part in words if part not in text] == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("[talos] Sending SIGKILL to cgroup {\"cgroup\": \"/sys/fs/cgroup/a\"}\n[talos] victim "
         "processes: {\"controller\": \"a\", \"processes\": []}\n",
         "nothing was killed: Talos tried to end /sys/fs/cgroup/a\n"),
        ("Jun 12 01:11:36 pc nohang[447]: victim badness 12 < min_badness 20; nothing to do\n"
         "Jun 12 01:11:36 pc nohang[447]:   victim badness < min_badness: 57\n",
         "nohang was about to kill, and did not: victim badness 12 < min_badness 20"),
        ("[    9.1] a: it says The node was low on resource: memory. See below\n",
         "no kill for want of memory in this log"),
        ("  PID: 477, Name: Xorg, badness: 12\n  Run the command: systemctl restart gdm\n",
         "no kill for want of memory in this log"),
        ("   Active: failed (Result: oom-kill) since Wed 2026-08-19 15:38:39 CST; 969ms ago\n",
         "systemd reports a kill, but the kernel's own report is not in this log: Active: failed "
         "(Result: oom-kill) since Wed 2026-08-19 15:38:39 CST"),
        ('        "OOMKilled": true,\n', 'the container runtime reports a kill'),
    ],
)  # fmt: skip
def test_what_programs_print_without_a_kill(lines: str, words: str) -> None:
    assert words in printed(lines)


@pytest.mark.parametrize("line", ['"OOMKilled": false,', "OOMKilled=false", "oomKilled: 'false'"])
def test_a_runtime_that_says_of_no_kill_is_not_taken_for_one(line: str) -> None:
    """`docker inspect` prints it of every container."""
    log = reports.read([line])
    assert (log.hints, log.reports, log.user_space) == ([], [], [])


def test_what_the_driver_frees_is_read_from_a_comment_too() -> None:
    text = (
        "// 6,2302,533604004,-;lowmemorykiller: Killing 'externalstorage' (21742),\n"
        "// adj 1000,\\x0a   to free 27320kB on behalf of 'kswapd0' (47) because\\x0a\n"
    )
    assert "process 21742 (externalstorage), 26.7 MiB resident" in printed(text)


def test_each_unit_that_systemd_names_is_a_kill_of_its_own() -> None:
    unit = "systemd[9]: app-{}.scope: systemd-oomd killed {} process(es) in this unit.\n"
    lines = f"Sep 25 19:18:11 {unit.format('a7', 1798)}Sep 25 19:46:58 {unit.format('d95', 1463)}"
    reason = "{} systemd-oomd[7]: Marked …d95.scope for killing due to memory used (1) and swap\n"
    for time, scope, count, earlier in (
        ("19:46:58", "app-d95.scope", "it killed 1,463 processes", "1 earlier kill "),
        ("19:50:00", "…d95.scope", "", "2 earlier kills"),
    ):
        text = printed(lines + reason.format(time))
        assert f"not by the kernel: {scope}\n" in text
        assert ("processes of it" in text) == bool(count)
        assert count in text
        assert earlier in text


@pytest.mark.parametrize(
    "line",
    [
        ">> Memory failure: 0xedbe201: forcibly killing read_poison:22434 because of failure to "
        "unmap corrupted page",
        "Memory failure: 0xedbe201: Killing read_poison:22434 due to hardware memory corruption",
    ],
)
def test_an_end_by_the_hardware_needs_no_stamp(line: str, tmp_path: Path) -> None:
    path = tmp_path / "k.txt"
    path.write_text(f"{line}\n")
    text = "\n".join(answer.lines(source.read(path)))
    assert "another reason than want of memory: Memory failure: 0xedbe201: " in text


LOW = (
    "Low memory! mem avail: {} of 5875 MiB (2) % <= min 10 %, swap free: {} MiB (0 %) <= min 10 %\n"
    "Invoking oom killer: {}\n"
)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (LOW.format(1177, "0 of 0", "done"),
         "for a kill once, and this log has no kill: Invoking oom killer: done; its last line of "
         "memory: 1,177 of 5,875 MiB available, no swap\n"),
        (LOW.format(177, "9 of 2047", "done") * 3,
         "for a kill 3 times, and this log has no kill: Invoking oom killer: done; its last line "
         "of memory: 177 of 5,875 MiB available, 9 of 2,047 MiB of swap free\n"),
        (LOW.format(177, "0 of 0", "done") * 1234, "for a kill 1,234 times, and this log has no"),
        ("Invoking oom killer: done\n", "for a kill once, and this log has no kill: Invoking oom "
         "killer: done\n"),
    ],
)  # fmt: skip
def test_who_only_asks_the_kernel_for_a_kill_reports_none(
    lines: str, words: str, tmp_path: Path
) -> None:
    """earlyoom with -k, which writes f to /proc/sysrq-trigger."""
    path = tmp_path / "k.txt"
    path.write_text(lines)
    text = "\n".join(answer.lines(source.read(path))) + "\n"
    assert text.startswith("no kill for want of memory in this log")
    assert f"earlyoom asked the kernel {words}" in text
    assert "reports a kill" not in text
    assert "overwritten" not in text


def test_a_request_is_no_kill_beside_one_that_is_reported() -> None:
    unit = "systemd[1]: a.service: Failed with result 'oom-kill'.\n"
    text = printed(LOW.format(177, "0 of 0", "done") + unit)
    assert text.startswith("a kill is reported, but not by the kernel: 3 lines were read")
    assert "earlyoom asked the kernel for a kill once" in text
    assert "systemd reports a kill, but the kernel's own report is not in this log: " in text


def test_a_request_that_the_kernel_did_not_get_is_none() -> None:
    text = printed(LOW.format(177, "0 of 0", "failed: Permission denied"))
    failed = "earlyoom tried to kill, and could not: Invoking oom killer: failed: Permission denied"
    assert failed in text
    assert "asked" not in text


def test_behind_a_request_the_kernels_report_is_the_kill() -> None:
    kill = "Out of memory: Killed process 7 (b) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"
    text = printed(f"{LOW.format(177, '0 of 0', 'done')}[    9.1] {kill}")
    assert text.startswith("killed at 9 s after boot: process 7 (b)")
