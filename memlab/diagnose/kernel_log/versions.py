"""Which version of the kernel changed which sentence, by what commit.

The reports are dump_header(), oom_kill_process() and __oom_kill_process() of mm/oom_kill.c,
mem_cgroup_print_oom_info() and mem_cgroup_print_oom_meminfo() of mm/memcontrol.c, and show_mem().
Distributions port them back: Red Hat's 2.6.32 has sentences of 2.6.36, its 4.18 those of 5.0.
"""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """A sentence as it is printed from one version on."""

    since: str
    example: str
    """Text that only this version and later ones print."""
    commit: str
    """Empty if no public source was found that says its hash."""
    title: str


CHANGES = (
    Change("2.6.26", "cpu oom_adj", "fef1bdd68c81", "oom: add sysctl to enable task memory dump"),
    Change("2.6.29", "gfp_mask=0x0", "1c0fe6e3bda0", "mm: invoke oom-killer from page fault"),
    Change("2.6.30", "killed as a result of limit of", "e222432bfa7d",
           "memcg: show memcg information during OOM"),
    Change("2.6.33", "total-vm:", "",
           "oom-kill: show virtual size and rss information of the killed process"),
    Change("2.6.36", "or sacrifice child", "5e9d834a0e0c",
           "oom: sacrifice child with highest badness score for parent"),
    Change("2.6.36", "oom_score_adj", "a63d83f427fb", "oom: badness heuristic rewrite"),
    Change("3.6", "nr_ptes swapents", "", "mm, oom: replace some information in tasklist dump"),
    Change("3.9", "KB rss:", "58cf188ed649",
           "memcg, oom: provide more precise dump info while memcg oom happening"),
    Change("4.0", "nr_ptes nr_pmds", "dc6c9a35b66b", "mm: account pmd page tables to the process"),
    Change("4.1", "Memory limit reached of cgroup", "2415b9f5cb04",
           "memcg: print cgroup information when system panics due to panic_on_oom"),
    Change("4.3", "order=-1", "", "mm, oom: pass an oom order of -1 when triggered by sysrq"),
    Change("4.5", "shmem-rss:", "eca56ff906bd",
           "mm, shmem: add internal shmem resident memory accounting"),
    Change("4.6", "oom_reaper: reaped process", "bc448e897b6d",
           "mm, oom_reaper: report success/failure"),
    Change("4.9", "nodemask=(null), ", "82e7d3abec86", "oom: print nodemask in the oom report"),
    Change("4.15", "pgtables_bytes swapents", "af5b0f6a09e4",
           "mm: consolidate page table accounting"),
    Change("4.19", "Tasks state (memory values in pages):", "c3b78b11efbb",
           "mm, oom: describe task memory unit, larger PID pad"),
    Change("4.19", "are going to be killed due to memory.oom.group set", "3d8b38eb81ca",
           "mm, oom: introduce memory.oom.group"),
    Change("4.19", "Out of memory and no killable processes...", "3100dab2aa09",
           "mm: memcontrol: print proper OOM header when no eligible victim left"),
    Change("5.0", "oom-kill:constraint=", "ef8444ea01d7",
           "mm, oom: reorganize the oom report in dump_header"),
    Change("5.0", "task_memcg=", "f0c867d9588d",
           "mm, oom: add oom victim's memcg to the oom context"),
    Change("5.1", "emory: Killed process", "bbbe48029720",
           "mm, oom: remove 'prefer children over parent' heuristic"),
    Change("5.3", "swap: usage", "c8713d0b2312",
           "mm: memcontrol: dump memory.stat during cgroup OOM"),
    Change("5.4", "UID:", "8ac3f8fe91a2",
           "mm/oom_kill.c: add task UID to info message on an oom kill"),
    Change("5.4", " pgtables:", "70cb6d267790",
           "mm/oom: add oom_score_adj and pgtables to Killed process message"),
    Change("6.4", "total_cache ", "dddb44ffa0d5",
           "memcg: dump memory.stat during cgroup OOM for v1"),
    Change("6.8", "rss_anon rss_file rss_shmem", "",
           "mm, oom:dump_tasks add rss detailed information printing"),
)  # fmt: skip
"""Since 5.16 (60e2793d440a, "mm, oom: do not trigger out_of_memory from the #PF") a page fault that
is refused memory kills nobody: gfp_mask=0x0 is printed no more."""
