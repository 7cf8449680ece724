"""The account of time: what the threads wait for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memlab.diagnose import account, kernel_numbers, waits
from memlab.diagnose.account import Account, Line
from memlab.diagnose.finding import (
    COSTLY,
    NOTE,
    Fact,
    Finding,
    FindingRow,
    facts,
    per_second,
    share,
)
from memlab.diagnose.look import Look
from memlab.text import units

_FAULTS_WITHOUT = (6, 4)  # the release of Linux: each mapping has a lock (5e31275cc997)
_MORE = {
    "waits-for-compaction": ", or 1 allocation per second",
    "waits-for-mappings": ", or its threads sleep 500 times per second",
}
_WAITS = {
    kind: FindingRow(
        name, "time", kind, "1",
        f"3 samples, a twentieth of all, wait for it{_MORE.get(name, '')}", setting,
        experiments=(experiment,) if experiment else (),
    )
    for name, kind, setting, experiment in (
        ("waits-for-reclaim", "reclaim",
        "more memory, or less of it used: memory.high and the limit of its group, MemAvailable of "
        "the machine", "coop-reclaim"),
        ("waits-for-swap", "swap",
        "mlock what has to answer in time; no swap for its group", "locked-latency"),
        ("waits-for-compaction", "compaction",
        "transparent_hugepage/defrag of defer; no huge pages where the first touch may not wait",
        "thp-cost"),
        ("waits-for-writeback", "writeback",
        "write less at once; vm.dirty_bytes; of a file opened with O_SYNC or O_DSYNC fewer, larger "
        "writes; a faster device", "mmap-write"),
        ("waits-for-fsync", "fsync",
        "fewer fsync (appendfsync everysec, group commit); data and log on devices of their own",
        "mmap-write"),
        ("waits-for-files", "a page of a file",
        "readahead ahead of need (posix_fadvise, MADV_WILLNEED), or memory for the page cache",
        "mmap-read"),
        ("waits-for-messages", "room in a message queue",
        "a reader that keeps up (ipcs -qp); a larger kernel.msgmnb for queues made later", ""),
        ("waits-for-receivers", waits.RECEIVER,
        "a receiver that keeps up; SO_SNDBUF and net.ipv4.tcp_wmem bound what is on the way, "
        "net.unix.max_dgram_qlen the messages that wait for a Unix socket, the backlog of "
        "listen(2) and net.core.somaxconn its connections", ""),
        ("waits-for-mappings", "a kernel semaphore, as the mmap_lock",
        "fewer and smaller calls that change mappings; filling memory (MAP_POPULATE, mlock) in "
        "pieces", "mmap-lock"),
    )
}  # fmt: skip


def of(look: Look) -> Account:
    """Samples of threads by what they did."""
    seen = look.waits
    if seen is None or not seen.samples:
        return Account("time", "what its threads wait for", "count", 0.0, (), 0.0, whole=False)
    functions = sorted(seen.functions.items(), key=lambda pair: -pair[1])[:3]
    names = ", ".join(name for name, _ in functions)
    lines = [Line("running, or ready to", seen.running, note=_queued(look))]
    lines += [Line(kind, count, note=names) for kind, count in seen.by_kind.items()]
    lines.append(Line("other sleeps: timers, sockets, its own locks", seen.idle))
    return account.made(
        "time", f"what {_whose(look)} wait for, in samples", "count", seen.samples, lines,
        whole=True,
    )  # fmt: skip


def _whose(look: Look) -> str:
    """Other processes are sampled with it: the workers of one that waits for them."""
    others = ["its children"] if look.descendants else []
    others += ["its group"] if {member.pid for member in look.members} - look.descendants else []
    return f"its threads and those of {' and '.join(others)}" if others else "its threads"


def _queued(look: Look) -> str:
    queued = look.waits.queued_s if look.waits else None
    if not queued or queued < 0.05 * look.seconds:
        return ""
    return f"{units.format_duration(queued)} of it without a CPU"


# By how often they are counted, in place of samples.
_WAITS_FOR_COMPACTION = replace(_WAITS["compaction"], unit="1/s")
_WAITS_FOR_MAPPINGS = replace(_WAITS["a kernel semaphore, as the mmap_lock"], unit="1/s")


_FROZEN = FindingRow(
    "frozen", "time", "frozen", "count", "its cgroup is frozen",
    "docker unpause, or thaw its group, and look again",
)  # fmt: skip
_STOPPED = FindingRow(
    "stopped", "time", "stopped", "count", "its state is T or t",
    "look again while it runs",
)  # fmt: skip


def findings(look: Look) -> Iterator[Finding]:
    """What is worth saying of what they wait for."""
    if look.state in "Tt":
        by = (
            "a tracer (ptrace)"
            if look.state == "t"
            else "a signal (SIGSTOP): SIGCONT lets it go on"
        )
        yield _STOPPED.found(
            COSTLY,
            f"it is stopped by {by}: this look sees what it holds, and nothing that it would do",
            1,
        )
    seen = look.waits
    if look.frozen:
        yield _FROZEN.found(
            COSTLY,
            "it is frozen by its cgroup (docker pause, freezer.state, cgroup.freeze): this look "
            "sees what it holds, and nothing that it would do",
            1,
        )
    if seen is not None and seen.samples:
        for kind, row in _WAITS.items():
            count = seen.by_kind.get(kind, 0)
            part = count / seen.samples
            if count < waits.LEAST_SAMPLES or part < 0.05:
                continue
            if row.name == "waits-for-mappings" and (not _changes_mappings(look) or _seldom(look)):
                continue  # other locks of the kernel are semaphores too
            yield row.found(
                COSTLY if part * seen.threads >= 0.1 and not _by_network(seen, kind) else NOTE,
                f"{share(part)} of the samples of {_whose(look)} wait for {kind}"
                f"{_holder(look) if row.name == 'waits-for-mappings' else ''}",
                part,
                facts(
                    Fact("samples", count, "count"), Fact("of", seen.samples, "count"),
                    Fact("in", ", ".join(sorted(seen.functions))),
                    _unsent(look, kind),
                ),
                setting=_of_calls(look) if row.name == "waits-for-mappings" else None,
            )  # fmt: skip
    sleeps = look.rate("lock_sleeps") or 0.0
    if look.thread_count > 1 and sleeps >= 500 and _changes_mappings(look, sleeps):
        yield _WAITS_FOR_MAPPINGS.found(
            COSTLY if sleeps >= 2000 else NOTE,
            f"its threads sleep for semaphores of the kernel {per_second(sleeps, 'times')}, most "
            f"likely for the mmap_lock{_holder(look)}",
            sleeps,
            facts(
                *(
                    Fact(call, value, "1/s")
                    for call in ("munmap", "mprotect", "mremap", "madvise")
                    if (value := look.rate(call))
                )
            ),
            setting=_of_calls(look),
        )
    compactions = look.rate("compactions") or 0.0
    if compactions >= 1:
        yield _WAITS_FOR_COMPACTION.found(
            COSTLY if compactions >= 10 else NOTE,
            f"{per_second(compactions, 'allocations')} wait until memory is compacted: most "
            "likely for huge pages",
            compactions,
            facts(Fact("huge pages on this machine", look.memory.thp_machine or "none")),
            policies={"thp": ["inherit", "never"]},
        )


def _holder(look: Look) -> str:
    """Of the lock; a reader holds it while it reads."""
    if look.mappings_reader:
        return f"; {look.mappings_reader}, and holds it while it reads"
    return "; who holds it was not read (its own threads, or a reader of its /proc/PID/smaps)"


def _of_calls(look: Look) -> str:
    """Fewer of the calls that wait for the mmap_lock; another kernel only where page faults do, and
    this one is older."""
    if look.mappings_reader:
        return "fewer such reads; /proc/PID/status and statm do not take that lock"
    advice = _WAITS_FOR_MAPPINGS.setting
    calls = waits.calls(look.waits.functions) if look.waits else []
    if not calls:
        return advice
    advice += f"; here those that wait are {', '.join(calls)}"
    if waits.PAGE_FAULTS in calls and (0, 0) < kernel_numbers.release() < _FAULTS_WITHOUT:
        advice += "; Linux 6.4 or later, where page faults take no mmap_lock"
    return advice


def _by_network(seen: waits.Waits, kind: str) -> bool:
    """Whether it waits for the other end of a connection: how fast that is may be the network's."""
    sends = sum(count for name, count in seen.functions.items() if name.endswith(waits.OF_SEND))
    return kind == waits.RECEIVER and 2 * sends >= seen.by_kind[kind]


def _unsent(look: Look, kind: str) -> Fact | None:
    """What the kernel has of it that no receiver has taken."""
    if kind != waits.RECEIVER or look.sockets is None or not look.sockets.sending_bytes:
        return None
    return Fact("sent and not taken yet, at the end", look.sockets.sending_bytes, "B")


def _seldom(look: Look) -> bool:
    """Whether the samples are of a wait or two: a reader of its /proc, as this look is, had the
    lock and no CPU. Sleeps are counted only of the process, samples also of those beside it."""
    sleeps = look.rate("lock_sleeps")
    return sleeps is not None and sleeps * look.seconds < waits.LEAST_SAMPLES and not look.members


def _changes_mappings(look: Look, sleeps: float = 0.0) -> bool:
    calls = ("munmap", "mprotect", "mremap", "brk", "madvise")
    return sum(look.rate(call) or 0 for call in calls) >= max(1.0, sleeps / 10)
