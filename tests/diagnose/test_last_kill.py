"""The kernel's report of a kill, read as it is written by 6.18 (cgroup v1) and 6.1 (v2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import memlab

from memlab.diagnose import killed
from memlab.errors import CannotLook

MiB = 1 << 20
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
[  41.5] Memory cgroup out of memory: Killed process 701 (worker) total-vm:32028kB, \
anon-rss:5492kB, file-rss:920kB, shmem-rss:0kB, UID:0 pgtables:76kB oom_score_adj:500
"""
MACHINE = """\
Nov 25 13:00:00 host kernel: a (b) invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER), order=0
Nov 25 13:00:00 host kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,\
mems_allowed=0,global_oom,task_memcg=/user,task=a (b),pid=12,uid=7
Nov 25 13:00:00 host kernel: Out of memory: Killed process 12 (a (b)) total-vm:10kB, \
anon-rss:1024kB, file-rss:0kB, shmem-rss:4kB, UID:7 pgtables:4kB oom_score_adj:-5
"""


def test_who_was_chosen_and_why_and_what_was_left() -> None:
    (kill,) = killed.kills(V1.split("\n"))
    assert (kill.pid, kill.name, kill.asked, kill.group) == (701, "worker", "worker", "/job")
    assert (kill.usage_bytes, kill.limit_bytes, kill.failures) == (64 * MiB, 64 * MiB, 77)
    assert [(task.pid, task.name) for task in kill.tasks] == [(700, "big [x] 1"), (701, "worker")]
    assert kill.tasks[0].resident_bytes == 3619 * 4096
    said = "\n".join(killed.lines(kill, 0))
    assert "it was the limit of the group /job: 64 MiB of 64 MiB, met 77 times" in said
    assert "chosen by its oom_score_adj of 500: 700 (big [x] 1) holds more" in said
    assert "could still be dropped: 2 MiB" in said
    assert "46 MiB were tmpfs or shared memory, which a kill does not free" in said


def test_the_whole_machines_memory_and_a_name_with_parentheses() -> None:
    (kill,) = killed.kills(MACHINE.split("\n"))
    assert (kill.pid, kill.name, kill.group) == (12, "a (b)", None)
    assert kill.score_adjustment == -5
    assert "the whole machine's memory" in "\n".join(killed.lines(kill, 0))


def test_the_last_of_several_and_a_report_that_is_cut() -> None:
    found = killed.kills((V1 + MACHINE).split("\n"))
    assert [kill.pid for kill in found] == [701, 12]
    assert found[1].statistics == {}  # none of the kill before
    (cut,) = killed.kills(V1.split("\n")[-2:])
    assert (cut.pid, cut.group, cut.tasks) == (701, None, ())
    assert killed.kills(["oom-kill:", "[", "Killed process x (y)", "\x1b]0;x\x07"]) == []


def test_a_file_that_is_none(tmp_path: Path) -> None:
    log = tmp_path / "kernel.txt"
    log.write_text(V1)
    assert len(killed.read(log)) == 1
    with pytest.raises(CannotLook, match="no regular file"):
        killed.read(tmp_path)


DIGITS = "9" * 5000  # more than int() reads (sys.set_int_max_str_digits)
KILL = MACHINE.splitlines()[-1]


@pytest.mark.parametrize(
    "log",
    [
        KILL.replace("anon-rss:1024", f"anon-rss:{DIGITS}"),
        KILL.replace("anon-rss:1024", f"anon-rss:1{'0' * 400}"),
        KILL.replace("process 12", f"process {DIGITS}"),
        KILL.replace("adj:-5", f"adj:-{DIGITS}"),
        f"[  1.2.3] {KILL}",
        f"[  ...] {KILL}",
        f"[{DIGITS}.0] {KILL}",
        V1.replace("usage 65536", f"usage {DIGITS}"),
        V1.replace("   3619 ", f" {DIGITS} "),
        V1.replace("[    700]", f"[{DIGITS}]"),
        "Killed process 1 (" * 200_000,
        "oom-kill:constraint=X," + "task=" * 200_000,
    ],
    ids=range(12),
)
def test_a_log_with_numbers_that_no_kernel_prints_is_read(log: str, tmp_path: Path) -> None:
    """It may come from anybody; a line that is none of the kernel's is passed over."""
    path = tmp_path / "kernel.txt"
    path.write_text(f"{log}\n{KILL}\n")
    for words in ([], ["--json"]):
        done = memlab("diagnose", f"--last-kill={path}", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert "12" in done.stdout
